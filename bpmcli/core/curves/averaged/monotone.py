"""The closest curve that does not fall.

Where hits become rarer as confidence rises, a fitted curve may fall; a calibrator may not, for it would put rows
in another order. So the fit is projected: among curves that do not fall, the one with the least mean squared
distance over the rows (Lin & Dunson 2014, Biometrika 101, for posteriors), by pool-adjacent-violators. It is flat
where the fit falls, and the fit itself elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bpmcli.core.curves.averaged.shapes import CELL, KNEE, Cells, Member
from bpmcli.core.data.sample import BARE_LIMIT, LOG_ODDS_LIMIT, Floats, sigmoid

NO_ROWS = 1e-9
"""Weight, in rows, of a point where there is none."""


class Stretch(NamedTuple):
    """What stands in for a curve from the first point to the last: log-odds of g, straight between the points."""

    log_odds: tuple[float, ...] = ()
    eta: tuple[float, ...] = ()

    def replace(self, log_odds: Floats, g: Floats, miss: Floats) -> None:
        """Overwrite g and 1 − g inside the stretch."""
        if not self.log_odds:
            return
        inside = (log_odds >= self.log_odds[0]) & (log_odds <= self.log_odds[-1])
        eta = np.interp(log_odds[inside], self.log_odds, self.eta)
        g[inside], miss[inside] = sigmoid(eta), sigmoid(-eta)

    def flats(self) -> list[tuple[float, float]]:
        """Where it is flat."""
        x, level = self.log_odds, np.diff(self.eta) == 0
        return [(x[i], x[i + 1]) for i in np.flatnonzero(level)]


NOWHERE = Stretch()


def stretch_that_falls(members: tuple[Member, ...], weights: tuple[float, ...], cells: Cells) -> Stretch:
    """The projection of Σ w g from the first fall of a member to the last; empty if none falls."""
    falling = [m for m in members if m.falls]
    if not falling:
        return NOWHERE
    x = _points(cells, falling[0].knots)
    pairs = [m(x) for m in members]
    g, miss = (np.einsum("m,mn->n", weights, [pair[side] for pair in pairs]) for side in (0, 1))
    level_g, level_miss, moved = _pooled(g, miss, mass_at(x, cells))
    segment = np.searchsorted(falling[0].knots, (x[1:] + x[:-1]) / 2)
    down = np.any([m.slopes[segment] < 0 for m in falling], axis=0)
    touched = np.flatnonzero(moved | np.concatenate([down, [False]]) | np.concatenate([[False], down]))
    first, last = max(int(touched[0]) - 1, 0), min(int(touched[-1]) + 2, x.size)
    # Levels are means, so they could be a rounding error out of order.
    eta = np.maximum.accumulate(np.log(level_g) - np.log(level_miss))[first:last]
    same = np.concatenate([[False], (eta[1:-1] == eta[:-2]) & (eta[1:-1] == eta[2:]), [False]])
    return Stretch(tuple(x[first:last][~same].tolist()), tuple(eta[~same].tolist()))


def mass_at(x: Floats, cells: Cells) -> Floats:
    """The rows at every point of x, among which are the cells; saturated cells may share one."""
    mass = np.full(x.size, NO_ROWS)
    np.add.at(mass, np.searchsorted(x, cells.log_odds), cells.mass)
    return mass


def rising(curves: Floats, mass: Floats) -> Floats:
    """Every row of g projected on its own."""
    from scipy.optimize import isotonic_regression

    out: Floats = curves.copy()
    for i in np.flatnonzero(np.any(curves[:, 1:] < curves[:, :-1], axis=1)):
        out[i] = isotonic_regression(curves[i], weights=mass).x
    return out


def _points(cells: Cells, knots: tuple[float, ...]) -> Floats:
    """Cells, knots, and what lies between them, out to where log-odds end."""
    v = np.arange(0.0, KNEE * (1.0 + np.log(BARE_LIMIT / KNEE)), CELL)
    side = np.concatenate([np.where(v <= KNEE, v, KNEE * np.exp(v / KNEE - 1.0)), [BARE_LIMIT, LOG_ODDS_LIMIT]])
    points: Floats = np.unique(np.concatenate([cells.log_odds, knots, -side, side]))
    return points


def _pooled(g: Floats, miss: Floats, mass: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """g and 1 − g projected, and where that moved them."""
    from scipy.optimize import isotonic_regression

    # Of two that add up to one, the smaller has the digits.
    value = g if g @ mass < miss @ mass else -miss
    blocks = isotonic_regression(value, weights=mass).blocks
    size = np.diff(blocks)
    total = np.add.reduceat(mass, blocks[:-1])
    level, below = (np.repeat(np.add.reduceat(v * mass, blocks[:-1]) / total, size) for v in (g, miss))
    # A block may also be a run that was flat before.
    moved = np.repeat(np.minimum.reduceat(value, blocks[:-1]) < np.maximum.reduceat(value, blocks[:-1]), size)
    return np.where(moved, level, g), np.where(moved, below, miss), moved
