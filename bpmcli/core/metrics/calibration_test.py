"""Is the model calibrated? A test whose null distribution is simulated exactly.

Under calibration a row is correct with probability ŝ, so the residuals r = Σ (h − ŝ) of a few hundred cells have a
known distribution. The statistic is the log Bayes factor of curves near the identity against the identity: with basis
functions J (shift, slope, the beta shape, a ceiling, bends between knots), prior precision P and the variance
V = J diag(Σ ŝ(1 − ŝ)) Jᵀ of J r,

    log BF = ½ (J r)ᵀ (V + P)⁻¹ (J r) − ½ log |(V + P) P⁻¹|,

averaged over the bases with equal prior weight. It is a second-order approximation of the evidence that
`bpm-averaged` computes. Its rank among data sets drawn from the stated confidences is the P-value, so the approximation
may cost power but cannot make calibrated models fail more often than they should.
"""

from __future__ import annotations

import numpy as np

from bpmcli.core.curves.averaged.cells import cell_starts, cells_for_fit
from bpmcli.core.curves.averaged.shapes import Prior, knots_of, near_knots, ramps
from bpmcli.core.curves.families import log_complement, log_confidence
from bpmcli.core.data.sample import Floats, Sample, sigmoid

RUNS = 399
"""Simulated data sets: with 399 the smallest P-value is 1/400."""

STEPS = (0.1, 0.5, 2.5)
"""Standard deviations of the steps of the slope from knot to knot, one basis of bends for each."""

CEILING_SD = 0.02
LARGEST_ODDS = 1e4
"""A ceiling of 1 − δ lowers the log-odds by δ/(1 − s); the factor is capped here."""


def calibration_p_value(sample: Sample, runs: int = RUNS, seed: int = 0) -> float:
    """The share of perfectly calibrated models with these confidences that look at least as miscalibrated.

    P = (1 + #{log BF of a simulated data set ≥ log BF of the rows}) / (1 + runs). Weighted rows count as their
    effective number.
    """
    starts = cell_starts(sample)
    cells = cells_for_fit(sample)
    worth = sample.effective_n / sample.n
    observed = -np.add.reduceat(sample.residuals, starts) * worth
    right = np.add.reduceat(sample.mass * sample.confidences, starts) * worth
    wrong = np.add.reduceat(sample.mass * sample.complements, starts) * worth
    variance = np.add.reduceat(sample.mass * sample.confidences * sample.complements, starts) * worth
    drawn = _calibrated_residuals(right, wrong, runs, np.random.default_rng(seed))
    statistics = _log_bayes_factors(cells.log_odds, cells.mass, variance, np.vstack([observed, drawn]))
    # A tie with the observed value counts as at least as high, up to rounding.
    return float(1 + np.count_nonzero(statistics[1:] >= statistics[0] - 1e-12)) / (1 + runs)


def _calibrated_residuals(right: Floats, wrong: Floats, runs: int, rng: np.random.Generator) -> Floats:
    """Residuals h − ŝ of calibrated data sets, (runs, cells), from the expected numbers of correct and wrong rows.

    The rarer outcome is drawn, so that complements too small for a float64 confidence still count.
    """
    mass, rarer = right + wrong, np.minimum(right, wrong)
    rows = np.maximum(1, np.rint(mass)).astype(np.int64)
    drawn = rng.binomial(rows, np.clip(rarer / mass, 0.0, 0.5), (runs, mass.size)) * (mass / rows)
    found: Floats = np.where(right <= wrong, drawn - rarer, rarer - drawn)
    return found


def _log_bayes_factors(x: Floats, mass: Floats, variance: Floats, residuals: Floats) -> Floats:
    """One log Bayes factor per row of residuals."""
    factors = []
    for basis, precision in _bases(x, mass):
        root = np.linalg.cholesky((basis * variance) @ basis.T + precision)
        scores = np.linalg.solve(root, basis @ residuals.T)
        volume = 2.0 * np.log(np.diag(root)).sum() - np.linalg.slogdet(precision)[1]
        factors.append(0.5 * np.sum(np.square(scores), axis=0) - 0.5 * volume)
    stacked = np.stack(factors)
    top = stacked.max(axis=0)
    averaged: Floats = top + np.log(np.mean(np.exp(stacked - top), axis=0))
    return averaged


def _bases(x: Floats, mass: Floats) -> list[tuple[Floats, Floats]]:
    """Directions in which the log-odds of g may differ from the log-odds of s, with the precision of their prior."""
    prior, one = Prior(), np.ones_like(x)
    asymmetry = (log_confidence(x) + log_complement(x)) / 2
    ceiling = -np.minimum(1.0 / sigmoid(-x), LARGEST_ODDS)
    flat = [
        (np.stack([one]), [prior.shift]),
        (np.stack([x]), [prior.slope]),
        (np.stack([x, one]), [prior.slope, prior.shift]),
        (np.stack([x, asymmetry, one]), [prior.slope, prior.asymmetry, prior.shift]),
        (np.stack([ceiling]), [CEILING_SD]),
    ]
    found = [(basis, np.diag(1.0 / np.square(scales))) for basis, scales in flat]
    knots = knots_of(x, mass)
    k = knots.size + 1
    near, _ = near_knots(x, knots)
    bent = np.vstack([one, ramps(near, knots).T])
    step = np.diff(np.eye(k), axis=0)
    for sd in STEPS:
        precision = np.zeros((k + 1, k + 1))
        precision[0, 0] = 1.0 / prior.shift**2
        precision[1:, 1:] = step.T @ step / sd**2 + np.eye(k) / (prior.slope**2 * k)
        found.append((bent, precision))
    return found
