"""The averaged calibration curve: Σ w_k g_k over components, monotone, continuous and in [0, 1].

That sum may fall where accuracy falls while confidence rises. A calibrator must not, because it would change the order
of the rows. The sum is therefore projected: among all non-decreasing curves, take the one with the least mean squared
distance over the rows (Lin & Dunson 2014, Biometrika 101, for posteriors), by pool-adjacent-violators. The result is
flat where the sum falls, and equals it elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bpmcli.core.curves.averaged.cells import CELL, KNEE, Cells
from bpmcli.core.curves.averaged.shapes import Component, evaluate_components
from bpmcli.core.curves.families import Pair, log_odds_at
from bpmcli.core.data.sample import BARE_LIMIT, LOG_ODDS_LIMIT, Floats, Sample, gap, sigmoid_pair
from bpmcli.record import Record

if TYPE_CHECKING:
    import numpy.typing as npt

NO_ROWS = 1e-9
"""Weight, in rows, of a point where there are no rows."""


class Stretch(NamedTuple):
    """Replaces a curve between the first and the last point: log-odds of g, linear between the points."""

    log_odds: tuple[float, ...] = ()
    eta: tuple[float, ...] = ()

    def replace(self, log_odds: Floats, g: Floats, miss: Floats) -> None:
        """Overwrite g and 1 − g inside the stretch."""
        if not self.log_odds:
            return
        inside = (log_odds >= self.log_odds[0]) & (log_odds <= self.log_odds[-1])
        eta = np.interp(log_odds[inside], self.log_odds, self.eta)
        g[inside], miss[inside] = sigmoid_pair(eta)

    def flats(self) -> list[tuple[float, float]]:
        """The ranges of log-odds in which the stretch is flat."""
        x, level = self.log_odds, np.diff(self.eta) == 0
        return [(x[i], x[i + 1]) for i in np.flatnonzero(level)]


NOWHERE = Stretch()


def stretch_that_falls(components: tuple[Component, ...], weights: tuple[float, ...], cells: Cells) -> Stretch:
    """The projection of Σ w g over the range in which some component falls; empty if none does."""
    falling = [m for m in components if m.falls]
    if not falling:
        return NOWHERE
    x = _points(cells, falling[0].knots)
    pairs = evaluate_components(components, x)
    g, miss = (np.einsum("m,mn->n", weights, [pair[side] for pair in pairs]) for side in (0, 1))
    level_g, level_miss, moved = _pooled(g, miss, mass_at(x, cells))
    segment = np.searchsorted(falling[0].knots, (x[1:] + x[:-1]) / 2)
    down = np.any([m.slopes[segment] < 0 for m in falling], axis=0)
    touched = np.flatnonzero(moved | np.concatenate([down, [False]]) | np.concatenate([[False], down]))
    first, last = max(int(touched[0]) - 1, 0), min(int(touched[-1]) + 2, x.size)
    # Levels are means, so rounding can put neighbours out of order.
    eta = np.maximum.accumulate(np.log(level_g) - np.log(level_miss))[first:last]
    same = np.concatenate([[False], (eta[1:-1] == eta[:-2]) & (eta[1:-1] == eta[2:]), [False]])
    return Stretch(tuple(x[first:last][~same].tolist()), tuple(eta[~same].tolist()))


def mass_at(x: Floats, cells: Cells) -> Floats:
    """How many rows there are at every point of x, which must include the cells."""
    mass = np.full(x.size, NO_ROWS)
    np.add.at(mass, np.searchsorted(x, cells.log_odds), cells.mass)
    return mass


def rising(curves: Floats, mass: Floats) -> Floats:
    """Project every row of an array of g on its own."""
    from scipy.optimize import isotonic_regression

    out: Floats = curves.copy()
    for i in np.flatnonzero(np.any(curves[:, 1:] < curves[:, :-1], axis=1)):
        out[i] = isotonic_regression(curves[i], weights=mass).x
    return out


def _points(cells: Cells, knots: tuple[float, ...]) -> Floats:
    """The points at which the projection is computed: cells, knots and a grid that reaches the largest log-odds."""
    v = np.arange(0.0, KNEE * (1.0 + np.log(BARE_LIMIT / KNEE)), CELL)
    side = np.concatenate([np.where(v <= KNEE, v, KNEE * np.exp(v / KNEE - 1.0)), [BARE_LIMIT, LOG_ODDS_LIMIT]])
    points: Floats = np.unique(np.concatenate([cells.log_odds, knots, -side, side]))
    return points


def _pooled(g: Floats, miss: Floats, mass: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Projected g and 1 − g, and where the projection changed them."""
    from scipy.optimize import isotonic_regression

    # The smaller of g and 1 − g has the higher relative precision.
    value = g if g @ mass < miss @ mass else -miss
    blocks = isotonic_regression(value, weights=mass).blocks
    size = np.diff(blocks)
    total = np.add.reduceat(mass, blocks[:-1])
    level, below = (np.repeat(np.add.reduceat(v * mass, blocks[:-1]) / total, size) for v in (g, miss))
    # A block that was already flat has not moved.
    moved = np.repeat(np.minimum.reduceat(value, blocks[:-1]) < np.maximum.reduceat(value, blocks[:-1]), size)
    return np.where(moved, level, g), np.where(moved, below, miss), moved


CHUNK = 1 << 12


class AveragedCurve(Record):
    """Σ w_k g_k, replaced by a non-decreasing curve in the stretch where that sum falls."""

    components: tuple[Component, ...]
    weights: tuple[float, ...]
    stretch: Stretch = NOWHERE

    def __call__(self, log_odds: Floats) -> Pair:
        """(g, 1 − g) at the given log-odds."""
        x = np.clip(np.asarray(log_odds, dtype=np.float64), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
        g, miss = self.average(x)
        self.stretch.replace(x, g, miss)
        return g, miss

    def average(self, x: Floats) -> Pair:
        """Σ w_k g_k, which may fall. g and 1 − g are divided by their sum, as rounding can make it 1 + 4e-16."""
        g, miss = np.zeros(x.size), np.zeros(x.size)
        for start in range(0, x.size, CHUNK):
            part = slice(start, start + CHUNK)
            pairs = evaluate_components(self.components, x[part])
            for (component_g, component_miss), weight in zip(pairs, self.weights, strict=True):
                g[part] += weight * component_g
                miss[part] += weight * component_miss
        total = g + miss
        return g / total, miss / total

    @property
    def bends(self) -> Floats:
        """Log-odds at which the curve may have a kink: knots of its components, and the stretch where it is flat."""
        return np.concatenate([*(np.array(c.knots) for c in self.components), np.array(self.stretch.log_odds)])

    def at(self, confidences: Floats) -> Floats:
        """g at plain confidences, including 0 and 1."""
        return self(log_odds_at(confidences))[0]

    def distance(self, log_odds: Floats) -> Floats:
        """g − s at the given log-odds."""
        return gap(log_odds, *self(log_odds))

    @cached_property
    def shape_weights(self) -> dict[str, float]:
        """Weight by shape, largest first."""
        return _grouped((c.shape for c in self.components), self.weights)

    @cached_property
    def end_weights(self) -> dict[str, float]:
        """Weight by end: free (""), ceiling, floor."""
        return _grouped((c.end for c in self.components), self.weights)

    def explain(self, sample: Sample, event: bool = False) -> str:
        """The curve in a sentence, over the confidences of a sample (`event`: the probabilities of an event)."""
        from bpmcli.core.curves.averaged.explain import explain

        return explain(self, sample, event)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{shape} {100 * weight:.0f} %" for shape, weight in self.shape_weights.items())
        return f"AveragedCurve({len(self.components)} components: {shapes})"


def _grouped(names: Iterable[str], weights: Iterable[float]) -> dict[str, float]:
    total: dict[str, float] = {}
    for name, weight in zip(names, weights, strict=True):
        total[name] = total.get(name, 0.0) + weight
    return dict(sorted(total.items(), key=lambda item: -item[1]))
