"""Components of the averaged matrix for two classes: curves of the log-odds of y = 1.

For two classes a matrix is a straight line in log-odds, slightly bent by ψ. Two more flexible curves join it:

- `curve`, the averaged curve of `bpm-averaged`, which can have a ceiling, or a bend anywhere. It is fitted to P(y = 1)
  and to P(y = 0), and the mean of both is taken, so that swapping the classes swaps the result;
- `quadratic`, η = a + b X + c X²/10 with hardly any prior, X being the log-odds after floor and temperature.

Curves are stored as points that are joined by straight lines, and so is their weighted mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators.linear.floor import Start
from bpmcli.core.calibrators.linear.table import TrainingRows
from bpmcli.core.data.sample import BARE_LIMIT, Floats, sample_from_log_odds, sigmoid

CURVES = ("curve", "quadratic")

GRID = BARE_LIMIT * np.sinh(np.linspace(-4.0, 4.0, 129)) / np.sinh(4.0)
"""Log-odds of the points: steps of about 0.1 near 0, growing to a sixteenth of the log-odds. The points where a curve
bends are added."""

IDENTITY = np.array([0.0, 1.0, 0.0])
PRECISION = 0.01
"""Prior precision of a, b − 1 and c: a standard deviation of 10, which only keeps the fit of separable rows finite."""

STEPS = 60


class EventCurve(NamedTuple):
    """Log-odds of y = 1 and their calibrated values, in ascending order; constant beyond the last points."""

    log_odds: tuple[float, ...] = ()
    eta: tuple[float, ...] = ()

    def at(self, log_odds: Floats) -> Floats:
        """Calibrated log-odds of y = 1."""
        eta: Floats = np.interp(log_odds, self.log_odds, self.eta)
        return eta

    def probabilities(self, x: Floats) -> Floats:
        """P(y = 0) and P(y = 1) from log-probabilities (both 2 × rows)."""
        eta = self.at(x[1] - x[0])
        return np.stack([sigmoid(-eta), sigmoid(eta)])

    def label_likelihoods(self, table: TrainingRows) -> Floats:
        """The probability of every row's label."""
        return sigmoid(np.where(table.labels == 1, 1.0, -1.0) * self.at(table.x[1] - table.x[0]))


def fit_curves(table: TrainingRows, start: Start) -> tuple[EventCurve, EventCurve]:
    """The curves that CURVES names."""
    return fit_averaged_curve(table), fit_quadratic(table, start)


def mixed(curves: Sequence[EventCurve], weights: Floats) -> EventCurve:
    """Σ w_k g_k / Σ w_k at the points of all curves together."""
    points = np.unique(np.concatenate([curve.log_odds for curve in curves]))
    eta = np.stack([curve.at(points) for curve in curves])
    return _through(points, weights @ sigmoid(eta), weights @ sigmoid(-eta))


def _through(points: Floats, g: Floats, miss: Floats) -> EventCurve:
    return EventCurve(tuple(points.tolist()), tuple((np.log(g) - np.log(miss)).tolist()))


def fit_averaged_curve(table: TrainingRows) -> EventCurve:
    """The mean of the averaged curves of both classes."""
    from bpmcli.core.curves.averaged.mixture import fit_averaged

    x = np.clip(table.x[1] - table.x[0], -BARE_LIMIT, BARE_LIMIT)
    one = fit_averaged(sample_from_log_odds(x, table.labels == 1, table.weights))
    zero = fit_averaged(sample_from_log_odds(-x, table.labels == 0, table.weights))
    points = np.unique(np.concatenate([GRID, one.bends, -zero.bends]).round(9))
    (up, down), (from_zero, from_one) = one(points), zero(-points)
    return _through(points, up + from_one, down + from_zero)


def fit_quadratic(table: TrainingRows, start: Start) -> EventCurve:
    """η = a + b X + c X²/10 at the posterior mode, with X after floor and temperature, by Newton's method."""
    features, y = _features(table.x, start), (table.labels == 1).astype(np.float64)
    w = np.ones(y.size) if table.weights is None else table.weights
    sign = 2.0 * y - 1.0

    def value(theta: Floats) -> float:
        loss = np.logaddexp(0.0, -sign * (theta @ features))
        return float(w @ loss) + 0.5 * PRECISION * float(((theta - IDENTITY) ** 2).sum())

    theta, lowest = IDENTITY, value(IDENTITY)
    for _ in range(STEPS):
        g, miss = sigmoid(theta @ features), sigmoid(-(theta @ features))
        hessian = (features * (w * g * miss)) @ features.T + PRECISION * np.eye(3)
        step = np.linalg.solve(hessian, features @ (w * (g - y)) + PRECISION * (theta - IDENTITY))
        length, before = 1.0, lowest
        while (lowest := value(theta - length * step)) > before and length > 1e-6:
            length *= 0.5
        theta = theta - length * step
        if before - lowest < 1e-8:
            break
    eta = theta @ _features(np.stack([-np.logaddexp(0.0, GRID), -np.logaddexp(0.0, -GRID)]), start)
    return EventCurve(tuple(GRID.tolist()), tuple(eta.tolist()))


def _features(x: Floats, start: Start) -> Floats:
    """1, X and X²/10 (3 × rows) from log-probabilities (2 × rows)."""
    _, scores = start.scores(x)
    odds = scores[1] - scores[0]
    return np.stack([np.ones(odds.size), odds, odds**2 / 10.0])
