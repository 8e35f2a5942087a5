"""Calibration curves: estimated on a file, and estimated against true (the paper's figures 1 (a) and (b))."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.compare.curves_on_truth import REFERENCE, FitDraw
from bpmcli.core.compare.metrics_on_truth import Draw
from bpmcli.core.compare.truths import EAD_GRID, on_grid
from bpmcli.core.curves.families import Pair
from bpmcli.core.curves.histogram_mean import COUNTS, fit_histograms
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Sample
from bpmcli.errors import FitError
from bpmcli.plots import COLOURS, TRUE, grid, picture, shorten
from bpmcli.plots.panels import counts_below, square, two_storeys

OURS, BINNED = COLOURS[0], COLOURS[1]


class FittedCurve(NamedTuple):
    """A curve and the rows it was fitted to."""

    name: str
    method: str
    sample: Sample
    curve: Callable[[Floats], Pair]
    band: Mapping[str, Any] | None = None


def draw_fits(path: str, fits: Sequence[FittedCurve]) -> None:
    """Every fitted curve with the mean and the range of histogram binning on the same rows."""
    with two_storeys(path, [fit.name for fit in fits], "Calibration curve") as panels:
        for (top, below), fit in zip(panels, fits, strict=True):
            _histograms(top, fit.sample, "paper")
            if fit.band:
                label = f"{fit.method}: {100 * fit.band['level']:g} % band"
                s = np.array(fit.band["confidence"])
                low, high = (np.where(_has_rows(s, fit.sample), fit.band[end], np.nan) for end in ("low", "high"))
                top.fill_between(s, low, high, color=OURS, alpha=0.3, linewidth=0, label=label)
            g, inside = on_grid(fit.curve), _has_rows(EAD_GRID, fit.sample)
            label = f"{fit.method}: fitted curve (dashed: no rows there)"
            top.plot(EAD_GRID, np.where(inside, g, np.nan), color=OURS, linewidth=2.4, label=label)
            top.plot(EAD_GRID, g, color=OURS, linewidth=1, linestyle=(0, (2, 2)), zorder=1)
            square(top)
            counts_below(below, fit.sample)


def _has_rows(s: Floats, sample: Sample) -> np.ndarray:
    """Which confidences lie between the lowest and the highest confidence of the rows."""
    found: np.ndarray = (s >= sample.confidences[0]) & (s <= max(float(sample.confidences[-1]), 0.9995))
    return found


def draw_truth_curves(path: str, task: FitDraw, n: int, runs: int) -> None:
    """Per truth: the true curve, the first data set's fit and histogram binning, and where 90 % of the fits lie."""
    truths = task.source.truths
    lines, columns = grid(len(truths))
    with picture(path, 4.3 * columns if columns > 1 else 5.6, 4.4 * lines + 1.0) as figure:
        axes = figure.subplots(lines, columns, squeeze=False).ravel()
        for axis in axes[len(truths) :]:
            axis.set_axis_off()
        for axis, truth in zip(axes, truths.values(), strict=False):
            rows = task.rows(Draw(truth.name, n, 0))
            _histograms(axis, rows.sample, task.options.metrics.variant)
            fitted = _fits(task, truth.name, n, runs)
            if len(fitted) > 1:
                low, high = np.quantile(fitted, [0.05, 0.95], axis=0)
                label = f"{REFERENCE}: 90 % of {len(fitted)} data sets"
                axis.fill_between(EAD_GRID, low, high, color=OURS, alpha=0.25, linewidth=0, label=label)
            if len(fitted):
                axis.plot(EAD_GRID, fitted[0], color=OURS, linewidth=2.2, label=f"{REFERENCE}: fitted curve")
            axis.plot(EAD_GRID, on_grid(truth.curve), color=TRUE, linestyle=(0, (5, 2)), label="true curve")
            square(axis)
            axis.set_xlabel("confidence")
            axis.set_title(shorten(truth.name, 38))
        handles, labels = axes[0].get_legend_handles_labels()
        figure.suptitle(f"Estimated and true calibration curves, data sets of {n} rows", fontsize=12)
        figure.legend(handles, labels, loc="outside lower center", ncols=2 if columns == 1 else 3)


def _fits(task: FitDraw, truth: str, n: int, runs: int) -> Floats:
    found = []
    for run in range(runs):
        try:
            found.append(on_grid(task.fit(REFERENCE, task.rows(Draw(truth, n, run)))))
        except FitError:
            continue
    return np.array(found)


def _histograms(axis: Any, sample: Sample, variant: str) -> None:
    counts = [count for count in COUNTS if count <= sample.n]
    if not counts:
        return
    s = EAD_GRID
    if variant != "authors":
        # Below the lowest row there are no bins, only the continuation of the first one.
        s = s[s >= np.floor(1000 * sample.confidences[0]) / 1000]
    with np.errstate(divide="ignore"):
        x = np.clip(np.log(s) - np.log1p(-s), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
    low, mean, high = fit_histograms(sample, counts, variant).band(x)
    label = f"histogram binning, {counts[0]}–{counts[-1]} bins: "
    axis.fill_between(s, low, high, color=BINNED, alpha=0.18, linewidth=0, label=label + "range")
    axis.plot(s, mean, color=BINNED, linewidth=1.4, label=label + "mean")
