"""Metrics against sample size, with the exact TCE: the paper's figure 1 (c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bpmcli.core.compare.metrics_on_truth import MetricScore
from bpmcli.core.data.normal import Z95
from bpmcli.plots import TRUE, Look, looks, picture, shorten

OURS = "tce-bpm"


def draw_metrics(path: str, scores: Sequence[MetricScore]) -> None:
    """A row of panels per truth: the mean with its 95 % interval against the TCE, and the RMSE."""
    truths = list(dict.fromkeys(s.truth for s in scores))
    look = looks(list(dict.fromkeys(s.metric for s in scores)), OURS)
    several = len({s.n for s in scores}) > 1
    height = 2.9 if several else 1.2 + 0.28 * len(look)
    with picture(path, 9.6, height * len(truths) + 0.9) as figure:
        axes = figure.subplots(len(truths), 2, squeeze=False)
        for (left, right), truth in zip(axes, truths, strict=True):
            here = [s for s in scores if s.truth == truth and s.mean is not None]
            (_against_size if several else _at_one_size)(left, right, here, look)
            left.set_title(shorten(truth))
            right.set_title(shorten(truth))
        runs = max(s.runs for s in scores)
        size = "" if several else f" of {scores[0].n} rows"
        figure.suptitle(
            f"Calibration metrics on {runs} simulated data sets{size}: mean with its 95 % interval, and RMSE",
            fontsize=12,
        )
        if several:
            lines, labels = axes[0, 0].get_legend_handles_labels()
            figure.legend(lines, labels, loc="outside lower center", ncols=4)


def _against_size(left: Any, right: Any, scores: Sequence[MetricScore], look: dict[str, Look]) -> None:
    left.axhline(100 * scores[0].tce, color=TRUE, linewidth=1.8, label="exact TCE", zorder=3)
    for metric, style in look.items():
        own = [s for s in scores if s.metric == metric]
        n = [s.n for s in own]
        mean = [100 * (s.mean or 0.0) for s in own]
        half = [100 * Z95 * (s.sd or 0.0) / s.runs**0.5 for s in own]
        front = {"zorder": 4, "linewidth": 2.2} if metric == OURS else {}
        left.plot(n, mean, label=metric, **style._asdict(), **front)
        low, high = ([m + sign * h for m, h in zip(mean, half, strict=True)] for sign in (-1, 1))
        left.fill_between(n, low, high, color=style.color, alpha=0.09, linewidth=0)
        right.plot(n, [100 * (s.rmse or 0.0) for s in own], **style._asdict(), **front)
    right.set_ylim(bottom=0)
    for axis, label in ((left, "mean calibration error (%)"), (right, "RMSE from the TCE (points)")):
        axis.set_xlabel("rows")
        axis.set_ylabel(label)


def _at_one_size(left: Any, right: Any, scores: Sequence[MetricScore], look: dict[str, Look]) -> None:
    """With a single size there are no lines to draw, only one point per metric."""
    names = [s.metric for s in scores]
    for y, s in enumerate(scores):
        style = look[s.metric]
        half = 100 * Z95 * (s.sd or 0.0) / s.runs**0.5
        left.errorbar(100 * (s.mean or 0.0), y, xerr=half, color=style.color, marker=style.marker, capsize=3)
        right.plot(100 * (s.rmse or 0.0), y, color=style.color, marker=style.marker)
    left.axvline(100 * scores[0].tce, color=TRUE, linewidth=1.8, label="exact TCE")
    left.legend()
    right.set_xlim(0, 108 * max(s.rmse or 0.0 for s in scores) or 1)
    for axis, label in ((left, "mean calibration error (%)"), (right, "RMSE from the TCE (points)")):
        axis.set_yticks(range(len(names)), names)
        axis.invert_yaxis()
        axis.margins(y=0.12)
        axis.set_xlabel(label)
