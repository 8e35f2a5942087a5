"""Everything a reliability diagram shows, computed once: text, pictures and reports only draw it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpmcli.core.curves.averaged.mixture import curve_draws, fit_averaged, tails
from bpmcli.core.data.sample import Floats, Sample, sigmoid
from bpmcli.core.metrics.axis import FARTHEST, LOG_ODDS, Axis, axis_for, axis_over, logit
from bpmcli.core.metrics.bin_table import bin_table
from bpmcli.core.metrics.decomposition import BrierParts, brier_parts

POINTS = 121
DRAWS = 1000
ALMOST = 1e-12
CELLS = 240
"""Cells of the histogram: fine enough to be added up to any number of bars."""


class Reliability(NamedTuple):
    """The bins, the averaged calibration curve with its band, and where the rows are."""

    n: int
    axis: Axis
    bins: list[dict[str, float]]
    """One record per bin of `bin_table`."""
    log_odds: Floats
    """Where the curve is given: between the lowest and the highest confidence of the rows, and nowhere else."""
    curve: Floats
    low: Floats
    high: Floats
    level: float
    edges: Floats
    """Edges of the histogram, in log-odds."""
    mass: Floats
    """Share of the rows in each of its cells."""
    parts: BrierParts | None = None
    """The parts of the Brier score, if they were asked for."""

    @property
    def confidence(self) -> Floats:
        """The points of the curve as confidences."""
        return sigmoid(self.log_odds)

    def at_the_edge(self, axis: Axis | None = None) -> list[str]:
        """What bins at an edge of the axis mean, if there are any: log-odds of the accuracies 0 and 1 are infinite."""
        if (axis or self.axis).kind != LOG_ODDS:
            return []
        rates = [b["accuracy"] for b in self.bins]
        top, bottom = max(rates) > 1 - ALMOST, min(rates) < ALMOST
        return ["top edge: 100 %"] * top + ["bottom edge: 0 %"] * bottom

    def rows_by_place(self, places: int, axis: Axis | None = None) -> Floats:
        """Share of the rows in each of `places` equal parts of the axis, or of another axis."""
        axis = axis or self.axis
        if axis.kind != self.axis.kind:  # cells may be wider than a part: their rows are spread over the parts
            shares_below = np.concatenate([[0.0], np.cumsum(self.mass)])
            edges = np.clip(self.edges, self.log_odds[0], self.log_odds[-1])  # there are no rows beyond
            inner = np.interp(np.arange(1, places) / places, axis.share(sigmoid(edges)), shares_below)
            return np.diff(np.concatenate([[0.0], inner, shares_below[-1:]]))
        middles = sigmoid((self.edges[1:] + self.edges[:-1]) / 2)
        index = np.clip(axis.share(middles) * places, 0, places - 1).astype(int)
        shares = np.zeros(places)
        np.add.at(shares, index, self.mass)
        return shares


def reliability(
    sample: Sample, n_bins: int = 15, binning: str = "mass", level: float = 0.95, axis: str | None = None,
    seed: int = 0, parts: bool = False,
) -> Reliability:  # fmt: skip
    """The reliability diagram of a sample.

    The curve is the average that `bpm-averaged` fits; its pointwise band holds the middle `level` of curves drawn
    from the posterior. The axis is chosen by `axis_for` unless it is named. `parts` adds the parts of the Brier score.
    """
    kind = axis or axis_for(sample)
    first, last = (float(np.clip(x, -FARTHEST, FARTHEST)) for x in sample.log_odds[[0, -1]])
    x = _between(first, last, POINTS, kind)
    g = fit_averaged(sample)(x)[0]
    low, high = np.quantile(curve_draws(sample, x, DRAWS, np.random.default_rng(seed)), tails(level), axis=0)
    edges = _between(first, last, CELLS + 1, kind) if kind == LOG_ODDS else _edges_of_confidence()
    mass = np.histogram(np.clip(sample.log_odds, edges[0], edges[-1]), bins=edges, weights=sample.mass)[0] / sample.n
    bins = bin_table(sample, n_bins, binning)
    bin_values = [b[key] for b in bins for key in ("confidence", "accuracy")]
    if kind == LOG_ODDS:  # rates of 0 and 1 are drawn at an edge, wherever it is
        bin_values = [value for value in (*bin_values, g.min(), g.max()) if ALMOST <= value <= 1 - ALMOST]
    shown = axis_over(kind, np.array([*sigmoid(x[[0, -1]]), *bin_values]))
    low, high = np.minimum(low, g), np.maximum(high, g)
    found = brier_parts(sample) if parts else None
    return Reliability(sample.n, shown, bins, x, g, low, high, level, edges, mass, found)


def _between(first: float, last: float, points: int, kind: str) -> Floats:
    """Log-odds from first to last, evenly spaced on an axis of this kind; one point is widened to an interval."""
    if last - first < 1e-9:
        first, last = first - 0.05, last + 0.05
    if kind == LOG_ODDS:
        return np.linspace(first, last, points)
    s = np.linspace(float(sigmoid(np.array(first))), float(sigmoid(np.array(last))), points)[1:-1]
    return np.concatenate([[first], logit(s), [last]])


def _edges_of_confidence() -> Floats:
    s = np.arange(1, CELLS) / CELLS
    return np.concatenate([[-FARTHEST], logit(s), [FARTHEST]])


def rows_along(sample: Sample, axis: Axis, places: int) -> Floats:
    """Share of the rows of a sample in each of so many equal parts of an axis; rows beyond it count at its ends."""
    index = np.clip(axis.share(sample.confidences) * places, 0, places - 1).astype(int)
    return np.bincount(index, sample.mass, places) / sample.n
