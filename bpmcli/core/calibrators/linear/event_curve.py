"""A component of the averaged matrix for two classes: the curve of `bpm-averaged`, from the log-odds of y = 1.

For two classes a matrix is a line in log-odds, a little bent by ψ. The averaged curve can have a ceiling or a bend
anywhere. It is fitted to P(y = 1) and to P(y = 0), and the mean of both is taken, so that swapping the classes swaps
the result. It is stored as points that are joined by straight lines.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators.linear.table import Table
from bpmcli.core.data.sample import BARE_LIMIT, Floats, sample_from_log_odds, sigmoid

GRID = BARE_LIMIT * np.sinh(np.linspace(-4.0, 4.0, 129)) / np.sinh(4.0)
"""Steps of 0.1 at log-odds of 0, of a sixteenth of the log-odds far away. The points where a curve bends join them."""


class EventCurve(NamedTuple):
    """Log-odds of y = 1 and their calibrated values, in ascending order; constant beyond the last points."""

    log_odds: tuple[float, ...] = ()
    eta: tuple[float, ...] = ()

    def event(self, x: Floats) -> Floats:
        """Calibrated log-odds of y = 1 from log-probabilities (2 × rows)."""
        eta: Floats = np.interp(x[1] - x[0], self.log_odds, self.eta)
        return eta

    def probabilities(self, x: Floats) -> Floats:
        """P(y = 0) and P(y = 1) from log-probabilities (both 2 × rows)."""
        eta = self.event(x)
        return np.stack([sigmoid(-eta), sigmoid(eta)])

    def label_likelihoods(self, table: Table) -> Floats:
        """The probability of every row's label."""
        return sigmoid(np.where(table.labels == 1, 1.0, -1.0) * self.event(table.x))


def fit_event_curve(table: Table) -> EventCurve:
    """The mean of the averaged curves of both classes."""
    from bpmcli.core.curves.averaged.mixture import fit_averaged

    x = np.clip(table.x[1] - table.x[0], -BARE_LIMIT, BARE_LIMIT)
    one = fit_averaged(sample_from_log_odds(x, table.labels == 1, table.weights))
    zero = fit_averaged(sample_from_log_odds(-x, table.labels == 0, table.weights))
    points = np.unique(np.concatenate([GRID, one.bends, -zero.bends]).round(9))
    (up, down), (from_zero, from_one) = one(points), zero(-points)
    eta = np.log(up + from_one) - np.log(down + from_zero)
    return EventCurve(tuple(points.tolist()), tuple(eta.tolist()))
