"""Pictures of calibration curves: fitted to a file, or beside the true curve (the paper's figures 1 (a) and (b))."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.compare.curves_on_truth import REFERENCE, FitDraw
from bpmcli.core.compare.metrics_on_truth import Draw
from bpmcli.core.compare.truths import EAD_GRID, on_grid
from bpmcli.core.curves.families import Pair
from bpmcli.core.curves.histogram_mean import COUNTS, fit_histograms
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Sample, sigmoid
from bpmcli.core.metrics.axis import CONFIDENCE, FARTHEST, Axis, axis_for, axis_over, common_axis, logit
from bpmcli.core.metrics.reliability import rows_along
from bpmcli.errors import FitError
from bpmcli.plots import COLOURS, TRUE, grid, picture, shorten
from bpmcli.plots.panels import square, two_storeys
from bpmcli.plots.reliability import BARS, frame, rows_below

OURS, BINNED = COLOURS[0], COLOURS[1]
SEEN = 0.99
"""A dashed part of the curve that is shorter than a hundredth of the axis cannot be seen."""


class FittedCurve(NamedTuple):
    """A curve and the rows it was fitted to."""

    name: str
    method: str
    sample: Sample
    curve: Callable[[Floats], Pair]
    band: Mapping[str, Any] | None = None
    figures: str = ""
    """A few words for the title."""
    event: bool = False


def draw_fits(path: str, fits: Sequence[FittedCurve]) -> None:
    """Every fitted curve with the mean and the range of histogram binning on the same rows."""
    axis = common_axis([_axis(fit) for fit in fits])
    x = logit(axis.probabilities(np.linspace(0.0, 1.0, 1001)))
    with two_storeys(path, [fit.name for fit in fits], "Calibration curve") as panels:
        for (top, below), fit in zip(panels, fits, strict=True):
            binned = _histograms(fit.sample, "paper", x[(x >= fit.sample.log_odds[0]) & (x <= fit.sample.log_odds[-1])])
            _draw_histograms(top, binned, axis.share)
            _draw_fit(top, fit, axis, x)
            frame(top, axis, fit.event)
            top.tick_params(labelbottom=False)
            title = shorten(os.path.basename(fit.name))
            top.set_title(f"{title}\n{fit.figures}" if fit.figures else title)
            rows_below(below, rows_along(fit.sample, axis, BARS), fit.sample.n, axis, fit.event)


def _axis(fit: FittedCurve) -> Axis:
    """The axis that suits the rows and the curve."""
    first, last = (float(x) for x in np.clip(fit.sample.log_odds[[0, -1]], -FARTHEST, FARTHEST))
    kind = axis_for(fit.sample)
    ends = sigmoid(np.array([first, last]))
    inside = (
        logit(np.linspace(float(ends[0]), float(ends[1]), 101)) if kind == CONFIDENCE else np.linspace(first, last, 101)
    )
    return axis_over(kind, np.concatenate([ends, fit.curve(inside)[0]]))


def _draw_fit(top: Any, fit: FittedCurve, axis: Axis, x: Floats) -> None:
    """The fitted curve with its band, dashed where there are no rows."""
    s, g = sigmoid(x), fit.curve(x)[0]
    low, high = fit.sample.log_odds[[0, -1]]
    inside = (x >= min(low, x[-1])) & (x <= max(high, x[0]))
    if fit.band:
        label = f"{fit.method}: {100 * fit.band['level']:g} % band"
        at = np.array(fit.band["confidence"])
        there = (logit(at) >= low) & (logit(at) <= high)
        limits = (np.where(there, axis.share(np.array(fit.band[end])), np.nan) for end in ("low", "high"))
        top.fill_between(axis.share(at), *limits, color=OURS, alpha=0.3, linewidth=0, label=label)
    label = f"{fit.method}: fitted curve" + ("" if inside.mean() > SEEN else " (dashed: no rows there)")
    place = axis.share(g)
    top.plot(axis.share(s), np.where(inside, place, np.nan), color=OURS, linewidth=2.4, label=label)
    top.plot(axis.share(s), place, color=OURS, linewidth=1, linestyle=(0, (2, 2)), zorder=1)


def draw_truth_curves(path: str, task: FitDraw, n: int, runs: int) -> None:
    """A panel per truth: its curve, fit and histogram binning of the first data set, and where 90 % of the fits lie."""
    truths = task.source.truths
    lines, columns = grid(len(truths))
    with picture(path, 4.3 * columns if columns > 1 else 5.6, 4.4 * lines + 1.0) as figure:
        axes = figure.subplots(lines, columns, squeeze=False).ravel()
        for axis in axes[len(truths) :]:
            axis.set_axis_off()
        for axis, truth in zip(axes, truths.values(), strict=False):
            rows = task.rows(Draw(truth.name, n, 0))
            variant = task.options.metrics.variant
            _draw_histograms(axis, _histograms(rows.sample, variant, _grid_of(rows.sample, variant)))
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


class _Binned(NamedTuple):
    """Histogram binning with several numbers of bins: its lowest, mean and highest accuracy at confidences."""

    label: str
    confidence: Floats
    low: Floats
    mean: Floats
    high: Floats


def _grid_of(sample: Sample, variant: str) -> Floats:
    """Log-odds of a grid of confidences."""
    s = EAD_GRID
    if variant != "authors":
        # Below the lowest confidence there are no bins; the first one is continued there.
        s = s[s >= np.floor(1000 * sample.confidences[0]) / 1000]
    with np.errstate(divide="ignore"):
        found: Floats = np.clip(np.log(s) - np.log1p(-s), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
    return found


def _histograms(sample: Sample, variant: str, x: Floats) -> _Binned | None:
    counts = [count for count in COUNTS if count <= sample.n]
    if not counts or not x.size:
        return None
    low, mean, high = fit_histograms(sample, counts, variant).band(x)
    return _Binned(f"histogram binning, {counts[0]}–{counts[-1]} bins: ", sigmoid(x), low, mean, high)


def _draw_histograms(axis: Any, binned: _Binned | None, place: Callable[[Floats], Floats] = np.asarray) -> None:
    if binned is None:
        return
    s, low, mean, high = (place(values) for values in binned[1:])
    axis.fill_between(s, low, high, color=BINNED, alpha=0.18, linewidth=0, label=binned.label + "range")
    axis.plot(s, mean, color=BINNED, linewidth=1.4, label=binned.label + "mean")
