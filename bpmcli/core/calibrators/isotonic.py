"""Isotonic regression: the best non-decreasing curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.base import Calibrator
from bpmcli.core.calibrators.histogram import check_steps, one_point, shrunk_accuracies
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.curves.families import Pair
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, sigmoid


@dataclass(frozen=True)
class Isotonic(Calibrator):
    """g(s) through (log-odds, accuracy) points, linear in s between them, constant outside."""

    log_odds: tuple[float, ...]
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        check_steps("log_odds", self.log_odds, self.rates, len(self.log_odds))

    def __call__(self, log_odds: Floats) -> Pair:
        knots, rates = np.array(self.log_odds), np.array(self.rates)
        if knots.size == 1:
            g = np.full(log_odds.shape, rates[0])
            return g, 1.0 - g
        left = np.clip(np.searchsorted(knots, log_odds, side="right") - 1, 0, knots.size - 2)
        x = np.clip(log_odds, knots[0], knots[-1])
        t = _share(x, knots[left], knots[left + 1])
        low, high = rates[left], rates[left + 1]
        return low + t * (high - low), (1.0 - low) - t * (high - low)


def _share(x: Floats, low: Floats, high: Floats) -> Floats:
    """(s − s_low) / (s_high − s_low), computed from complements where confidences are close to 1."""
    side = np.where(low > 0.0, -1.0, 1.0)
    at, start, end = sigmoid(side * x), sigmoid(side * low), sigmoid(side * high)
    width = end - start
    share: Floats = np.where(width == 0.0, 0.0, (at - start) / np.where(width == 0.0, 1.0, width))
    return np.clip(share, 0.0, 1.0)


@method(
    "isotonic", "best non-decreasing curve; ends of 0 and 1 shrunk by 1/(rows + 2)", "Zadrozny & Elkan 2002, KDD",
    Isotonic,
)  # fmt: skip
def fit(rows: Rows, options: FitOptions) -> Fitted:
    """min Σ m (g − h/m)² over non-decreasing g, by pool-adjacent-violators on cells (ties are one point).

    A first block of accuracy 0 and a last block of accuracy 1 are shrunk to 1/(m + 2) and 1 − 1/(m + 2), where m
    is their number of rows (see `shrunk_accuracies`), but not beyond the next block. So the end blocks can differ from
    scikit-learn's IsotonicRegression, which keeps 0 and 1 and so gives infinite log losses. Only the first and the
    last point of each block are stored.
    """
    from scipy.optimize import isotonic_regression

    sample = rows.sample
    found = isotonic_regression(sample.hits / sample.mass, weights=sample.mass)
    starts = found.blocks[:-1]
    mass, hits = np.add.reduceat(sample.mass, starts), np.add.reduceat(sample.hits, starts)
    rates, notices = shrunk_accuracies(hits, mass, "blocks")
    if rates.size > 1:
        rates[0], rates[-1] = min(rates[0], rates[1]), max(rates[-1], rates[-2])
    ends = found.blocks[1:] - 1
    # A block of one cell is one point, any other two.
    points, block = np.unique(np.concatenate([starts, ends]), return_index=True)
    calibrator = Isotonic(tuple(sample.log_odds[points].tolist()), tuple(rates[block % starts.size].tolist()))
    return Fitted(calibrator, {"blocks": int(starts.size)}, notices + one_point(sample))
