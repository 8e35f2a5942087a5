"""The reliability diagram: accuracy against confidence bin by bin, with the rows behind it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from bpmcli.core.data.sample import Sample
from bpmcli.core.metrics.bin_table import bin_table
from bpmcli.plots import COLOURS, grid, picture, shorten

GAP, POINT, ROWS = COLOURS[4], COLOURS[1], "#999999"


def draw_reliability(path: str, samples: Sequence[tuple[str, Sample]], n_bins: int = 15) -> None:
    """A panel per sample: hit rates with 95 % intervals, gaps to the diagonal, and counts below."""
    with two_storeys(path, [name for name, _ in samples], "Reliability diagram") as panels:
        for (top, below), (_, sample) in zip(panels, samples, strict=True):
            _diagram(top, sample, n_bins)
            square(top)
            counts_below(below, sample, n_bins)


@contextmanager
def two_storeys(path: str, names: Sequence[str], title: str) -> Iterator[list[Any]]:
    """Pairs of axes, a square one above a flat one of the same width; the legend is shared."""
    lines, columns = grid(len(names))
    with picture(path, 4.5 * columns, 5.7 * lines + 1.0) as figure:
        axes = figure.subplots(2 * lines, columns, squeeze=False, height_ratios=[4, 1] * lines)
        pairs = list(zip(axes[::2].ravel(), axes[1::2].ravel(), strict=True))
        for unused in pairs[len(names) :]:
            for axis in unused:
                axis.set_axis_off()
        yield pairs[: len(names)]
        for (top, below), name in zip(pairs, names, strict=False):
            top.set_title(shorten(os.path.basename(name)))
            top.set_box_aspect(1)
            below.set_box_aspect(0.25)
        figure.suptitle(title, fontsize=12)
        handles, labels = pairs[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=1 if columns == 1 else 2)


def _diagram(axis: Any, sample: Sample, n_bins: int) -> None:
    # Bins of equal width: on a saturated network those of equal mass crowd at 1.
    bins = bin_table(sample, n_bins, "width")
    s = np.array([b["confidence"] for b in bins])
    rate = np.array([b["accuracy"] for b in bins])
    low, high = (np.array([b[key] for b in bins]) for key in ("accuracy_low", "accuracy_high"))
    axis.vlines(s, np.minimum(s, rate), np.maximum(s, rate), color=GAP, linewidth=5, alpha=0.55, label="gap")
    # The interval of a rate of 0 or 1 starts at the rate itself.
    spread = [np.maximum(rate - low, 0.0), np.maximum(high - rate, 0.0)]
    label = f"hit rate in {n_bins} equal-width bins, 95 % interval"
    axis.errorbar(s, rate, yerr=spread, fmt="o", color=POINT, markersize=4.5, capsize=2, linewidth=1.2, label=label)


def square(axis: Any) -> None:
    """Confidence against accuracy, both from 0 to 1, with the diagonal of perfect calibration."""
    axis.plot([0, 1], [0, 1], color="#888888", linewidth=1, linestyle=":", zorder=1, label="perfect calibration")
    axis.set_xlim(-0.01, 1.01)
    axis.set_ylim(-0.01, 1.01)
    axis.set_box_aspect(1)
    axis.set_ylabel("accuracy (share of hits)")


def counts_below(axis: Any, sample: Sample, n_bins: int = 20) -> None:
    """Rows per equal-width bin, on a log axis: one bar would hide the others."""
    rows, edges = np.histogram(sample.confidences, bins=n_bins, range=(0.0, 1.0), weights=sample.mass)
    axis.bar(edges[:-1], rows, width=1 / n_bins, align="edge", color=ROWS, edgecolor="white", linewidth=0.5)
    axis.set_yscale("log")
    axis.set_xlim(-0.01, 1.01)
    axis.set_ylim(0.5, max(2.0, 2.0 * float(rows.max())))
    axis.set_xlabel(f"confidence ({sample.n} rows, {n_bins} bins)")
    axis.set_ylabel("rows per bin")
