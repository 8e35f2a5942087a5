"""Spline calibration: a smooth correction, derived from the cumulative gap between accuracy and confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.base import Calibrator
from bpmcli.core.calibrators.histogram import one_point
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.curves.families import Pair
from bpmcli.core.data.notices import notice
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, Ints, Sample, gap, sigmoid

KNOTS = 6
"""The authors' number of knots."""

POINTS = 1000
"""Quantiles at which the correction is stored: on real files this moves g by 3e-5 on average, 7e-4 at most."""


@dataclass(frozen=True)
class Spline(Calibrator):
    """g(s) = s + correction(s), clipped to [floor, 1 − floor]. It need not rise with s."""

    log_odds: tuple[float, ...]
    corrections: tuple[float, ...]
    """Linear in log-odds between these points, constant outside."""
    floor: float

    def __call__(self, log_odds: Floats) -> Pair:
        correction = np.interp(log_odds, self.log_odds, self.corrections)
        g, miss = sigmoid(log_odds) + correction, sigmoid(-log_odds) - correction
        low, high = g < self.floor, miss < self.floor
        g = np.where(low, self.floor, np.where(high, 1.0 - self.floor, g))
        return g, np.where(high, self.floor, np.where(low, 1.0 - self.floor, miss))


@method("spline", "smooth correction from the cumulative gap", "Gupta et al. 2021, ICLR", Spline)
def fit(rows: Rows, options: FitOptions) -> Fitted:
    """g = s + S′(t(s)), with D(t) = Σ (h − ŝ)/N over the share t of rows with the lowest confidences.

    S is the natural cubic spline with 6 equidistant knots that minimises ∫ (S − D)² dt. D is linear inside
    a cell, so ties and weights need no special case. t(s) is the mid-rank. The authors' code does the
    same at the N ranks (and swaps the weights of its interpolation).

    s + S′ can leave [0, 1], so g is clipped to [1/(N+2), 1 − 1/(N+2)], where N is the effective number of rows.
    """
    sample = rows.sample
    cells = _quantile_cells(sample)
    rank = (sample.mass_before[:-1] + sample.mass_before[1:]) / (2 * sample.n)
    corrections = _slope(sample, rank[cells])
    calibrator = Spline(
        tuple(sample.log_odds[cells].tolist()), tuple(corrections.tolist()), 1.0 / (sample.effective_n + 2.0)
    )
    g, miss = calibrator(sample.log_odds)
    edge = (g == calibrator.floor) | (miss == calibrator.floor)
    clipped = round(float(sample.mass[edge].sum()))
    notices = (notice("spline-clipped", count=clipped, floor=f"{calibrator.floor:.3g}"),) if clipped else ()
    monotone = bool(np.all(g[1:] >= g[:-1]))
    return Fitted(
        calibrator, {"knots": KNOTS, "points": int(cells.size), "monotone": monotone}, notices + one_point(sample)
    )


def _quantile_cells(sample: Sample) -> Ints:
    """Cells at evenly spaced ranks, together with all cells heavier than one step and their neighbours."""
    last = sample.mass.size - 1
    if last < POINTS:
        return np.arange(last + 1)
    step = sample.n / POINTS
    at = np.searchsorted(sample.mass_before, np.arange(POINTS + 1) * step, side="right") - 1
    heavy = np.flatnonzero(sample.mass > step)
    return np.unique(np.clip(np.concatenate([at, heavy - 1, heavy, heavy + 1]), 0, last))


def _slope(sample: Sample, ranks: Floats) -> Floats:
    """S′ at the given ranks.

    With basis splines B, ∫ B Bᵀ is a constant matrix, and by parts ∫ B D = B₁(1) D(1) − ∫ B₁ D′, where B₁ is an
    antiderivative of B. D′ is constant on a cell, so the integral is exact from differences of a second one.
    """
    from scipy.interpolate import CubicSpline

    basis = CubicSpline(np.linspace(0.0, 1.0, KNOTS), np.eye(KNOTS), bc_type="natural")
    nodes, weights = np.polynomial.legendre.leggauss(4 * KNOTS)
    panels = ((np.arange(KNOTS - 1)[:, None] + (nodes + 1) / 2) / (KNOTS - 1)).ravel()
    values = basis(panels)
    gram = values.T @ (values * np.tile(weights, KNOTS - 1)[:, None]) / (2 * (KNOTS - 1))
    once, twice = basis.antiderivative(1), basis.antiderivative(2)
    gaps = gap(sample.log_odds, sample.hits / sample.mass, (sample.mass - sample.hits) / sample.mass)
    moments = once(1.0) * -sample.mean_gap - gaps @ np.diff(twice(sample.mass_before / sample.n), axis=0)
    slope: Floats = basis.derivative()(ranks) @ np.linalg.solve(gram, moments)
    return slope
