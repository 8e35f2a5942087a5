"""Error against sample size: how many rows each method needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bpmcli.core.compare.curves_on_truth import REFERENCE
from bpmcli.core.compare.metrics_on_truth import Draw, Values, by_cell
from bpmcli.core.data.normal import Z95
from bpmcli.plots import TRUE, Look, grid, looks, picture, shorten


def draw_samples(path: str, done: Sequence[tuple[Draw, Values]], target: float) -> None:
    """A panel per truth: the mean error of every method with its 95 % interval, both axes logarithmic."""
    cells = by_cell(done)
    truths = list(dict.fromkeys(truth for truth, _ in cells))
    methods = [key.removesuffix(" error") for key in done[0][1] if key.endswith(" error")]
    look = looks(methods, REFERENCE)
    lines, columns = grid(len(truths))
    with picture(path, 4.2 * columns if columns > 1 else 6.4, 3.7 * lines + 1.4) as figure:
        axes = figure.subplots(lines, columns, squeeze=False, sharey=True).ravel()
        for axis in axes[len(truths) :]:
            axis.set_axis_off()
        for axis, truth in zip(axes, truths, strict=False):
            label = f"target: {100 * target:g} %"
            axis.axhline(100 * target, color=TRUE, linewidth=1.4, linestyle=(0, (5, 2)), label=label)
            runs = {n: values for (name, n), values in sorted(cells.items()) if name == truth}
            for method in methods:
                _line(axis, method, {n: [r[f"{method} error"] for r in v] for n, v in runs.items()}, look[method])
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_title(shorten(truth, 38))
            axis.set_xlabel("rows")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("")
        for axis in axes[::columns]:
            axis.set_ylabel("mean |estimated − true| (%)")
        handles, labels = axes[0].get_legend_handles_labels()
        runs_each = max(len(values) for values in cells.values())
        figure.suptitle(f"Error of the calibration curve, mean of {runs_each} data sets", fontsize=12)
        figure.legend(handles, labels, loc="outside lower center", ncols=5 if columns > 1 else 4)


def _line(axis: Any, method: str, errors: Mapping[int, Sequence[float | None]], look: Look) -> None:
    """Draws one method, without the sizes at which a fit failed in some run."""
    there = {n: 100 * np.array(row, dtype=float) for n, row in errors.items() if None not in row}
    if not there:
        return
    mean = np.array([row.mean() for row in there.values()])
    half = np.array([Z95 * row.std() / row.size**0.5 for row in there.values()])
    front = {"zorder": 4, "linewidth": 2.4} if method == REFERENCE else {"linewidth": 1.2}
    axis.plot(list(there), mean, label=method, **look._asdict(), **front)
    # A log axis cannot show zero.
    low = np.maximum(mean - half, mean / 10)
    axis.fill_between(list(there), low, mean + half, color=look.color, alpha=0.15, linewidth=0)
