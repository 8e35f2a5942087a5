"""TCE of an averaged curve, kept (nearly) unbiased.

The priors that make `bpm-averaged` a good calibrator pull its curve towards the identity, and so its TCE:
0.001 … 0.006 too low at N = 1000 on D1–D5. The metric therefore differs from the calibrator:

- The priors are twice as wide.
- Weights are Akaike's, exp(log p(data | θ̂) − k), where k = tr(I (I + P)⁻¹) is the effective number of
  parameters, I the information of the data and P the prior's precision (Moody 1992; Burnham &
  Anderson 2002). They leave out a needed shape less often than the evidence of a vague prior does.
- The averaged curve is shifted in log-odds until its mean is close to the accuracy. The TCE is then at
  least |mean confidence − accuracy|, which is unbiased where the curve does not cross the diagonal.
- The curve may fall: accuracy that falls while confidence rises is an error too.

TCE_p = (mean |g(ŝ) − ŝ|^p)^(1/p) over the sample's own confidences. Widths of 1, 2, 4 and 8, evidence,
BIC and AIC weights, and shifts of sd 0, 0.25, 0.5 and ∞ were tried on D1–D5; all with AIC and a shift are
unbiased to 0.001 and differ by less than 6 % in RMSE. The figures in benchmarks/estimator_study.py are from
other draws.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from bpmcli.core.curves.averaged.batches import ComponentBatch, Posterior
from bpmcli.core.curves.averaged.cells import cells_for_fit
from bpmcli.core.curves.averaged.mixture import Mixture, fit_mixture, tails
from bpmcli.core.curves.averaged.shapes import ETA_LIMIT, Prior
from bpmcli.core.data.normal import normal_quantile
from bpmcli.core.data.sample import Floats, Sample, gap, sigmoid, sigmoid_pair
from bpmcli.record import Record

WIDER = 2.0
SHIFT = 0.25
"""Prior sd of the final shift. Without a prior it would cost 5 % of RMSE on D2 at N = 500."""

DRAWS = 1000
"""Curves drawn from the posterior for an interval."""

MEAN_SHARE = 0.2
"""Of the cases in which an interval may miss the truth, the share that the limit from the two means may cause."""

METRIC_PRIOR = Prior().widened(WIDER)


class AveragedTce(Record):
    """The error, and the shape that carried most of the weight."""

    value: float
    shape: str
    weight: float
    shift: float
    """The shift in log-odds that matched the accuracy."""


class MatchedCurve(Record):
    """The averaged curve with its log-odds shifted to match the accuracy."""

    mixture: Mixture
    shift: float
    at_cells: Floats
    """g − s at the cells of the mixture."""

    def distance(self, log_odds: Floats) -> Floats:
        """g − s at the given log-odds."""
        return gap(log_odds, *sigmoid_pair(_averaged_log_odds(self.mixture, log_odds) + self.shift))

    def distance_draws(self, runs: int, rng: np.random.Generator) -> Floats:
        """g − s of curves drawn from the posterior, at the cells: (runs, cells)."""
        log_odds = self.mixture.cells.log_odds
        found: Floats = sigmoid(self.mixture.draws(None, runs, rng) + self.shift) - sigmoid(log_odds)
        return found

    def tce_draws(self, p: float, runs: int, rng: np.random.Generator) -> Floats:
        """TCE_p of curves drawn from the posterior, over confidences drawn from the posterior of their distribution.

        The masses of the cells are Dirichlet (Rubin 1981). A mean under them has the mean ē = Σ m e / M and the
        variance Σ m (e − ē)² / (M (M + 1)); it is drawn from the normal distribution with these moments.
        """
        cells = self.mixture.cells
        total = float(cells.mass.sum())
        eta = self.mixture.draws(None, runs, rng) + self.shift
        # |g − s| = |(1 − g) − (1 − s)|: the form whose terms are below one half is used, in as few passes as possible.
        away = np.clip(np.where(cells.log_odds > 0, eta, -eta), -ETA_LIMIT, ETA_LIMIT)
        smaller = np.reciprocal(1.0 + np.exp(away, out=away), out=away)
        error = np.abs(smaller - sigmoid(-np.abs(cells.log_odds)))
        error = error if p == 1 else error**p
        mean = error @ cells.mass / total
        variance = np.maximum(np.square(error) @ cells.mass / total - mean**2, 0.0) / (total + 1.0)
        found: Floats = np.maximum(mean + np.sqrt(variance) * rng.standard_normal(runs), 0.0) ** (1 / p)
        return found


def unbiased_curve(sample: Sample) -> MatchedCurve:
    """The curve whose distance from the diagonal is the metric `tce`. Fitted once per sample."""
    found: MatchedCurve | None = sample.__dict__.get("_unbiased_curve")
    if found is None:
        cells = cells_for_fit(sample)
        mixture = fit_mixture(cells, METRIC_PRIOR, by_akaike)
        eta = _averaged_log_odds(mixture, cells.log_odds)
        shift = _matching_shift(eta, cells.mass, float(cells.hits.sum()))
        at_cells = gap(cells.log_odds, *sigmoid_pair(eta + shift))
        found = sample.__dict__["_unbiased_curve"] = MatchedCurve(mixture, shift, at_cells)
    return found


def _averaged_log_odds(mixture: Mixture, log_odds: Floats) -> Floats:
    """log-odds of the averaged curve g."""
    g, miss = mixture.curve(log_odds)
    eta: Floats = np.log(g) - np.log(miss)
    return eta


def by_akaike(batch: ComponentBatch, found: Posterior) -> Floats:
    """log p(data | θ̂) − k."""
    held: Floats = np.einsum("mii->m", np.linalg.solve(found.information, batch.precision))
    weights: Floats = found.log_likelihood - batch.mean.shape[1] + held
    return weights


def _matching_shift(eta: Floats, mass: Floats, hits: float) -> float:
    """The most likely δ of σ(η + δ) under δ ~ N(0, SHIFT²): Σ mass σ(η + δ) + δ/SHIFT² = hits, by Newton's method."""
    shift, precision = 0.0, 1.0 / SHIFT**2
    for _ in range(100):
        g, miss = sigmoid_pair(eta + shift)
        step = (hits - float(mass @ g) - precision * shift) / (float(mass @ (g * miss)) + precision)
        shift += min(max(step, -1.0), 1.0)
        if abs(step) < 1e-12:
            break
    return shift


def tce_averaged(sample: Sample, p: float = 1.0) -> AveragedTce:
    """(mean |g(ŝ) − ŝ|^p)^(1/p) of the unbiased curve. Computed once per sample and p."""
    key = f"_tce_averaged_{p}"
    if key not in sample.__dict__:
        matched = unbiased_curve(sample)
        same = np.array_equal(sample.log_odds, matched.mixture.cells.log_odds)
        error = np.abs(matched.at_cells if same else matched.distance(sample.log_odds)) ** p
        value = float((np.dot(sample.mass, error) / sample.n) ** (1 / p))
        shape, weight = next(iter(matched.mixture.curve.shape_weights.items()))
        sample.__dict__[key] = AveragedTce(value, shape, weight, matched.shift)
    found: AveragedTce = sample.__dict__[key]
    return found


def _quantile(drawn: Floats, rank: float) -> float:
    """The quantile by linear interpolation between draws. (The first call of np.quantile takes 8 ms.)"""
    ordered = np.sort(drawn)
    at = rank * (ordered.size - 1)
    below = min(int(at), ordered.size - 2)
    return float(ordered[below] + (at - below) * (ordered[below + 1] - ordered[below]))


def posterior_tce(sample: Sample, p: float, seed: int) -> Floats:
    """DRAWS values of TCE_p from the posterior of the unbiased curve, drawn once per sample."""
    key = f"_tce_draws_{p}_{seed}"
    if key not in sample.__dict__:
        sample.__dict__[key] = unbiased_curve(sample).tce_draws(p, DRAWS, np.random.default_rng(seed))
    found: Floats = sample.__dict__[key]
    return found


def tce_interval(sample: Sample, p: float, level: float, seed: int = 0) -> tuple[float, float]:
    """Quantiles of the TCE over the posterior of the unbiased curve; nothing is refitted.

    Near the diagonal, noise of size e adds e to the TCE of the curve and √2 e to the TCE of its draws, because
    variances add. The draws then lie δ = (√2 − 1) e above the curve's own TCE, on average. Both limits are moved down
    by δ to correct that. The curve's TCE itself may be all noise there, so the lower limit is moved down by another
    e = (√2 + 1) δ. Where the error is much larger than the noise, δ is 0.

    With a few dozen rows the prior holds the curve near the diagonal, even against the data. Their mean still counts:
    the lower limit is at least `least_error`.
    """
    matched = unbiased_curve(sample)
    cells = matched.mixture.cells
    drawn = posterior_tce(sample, p, seed)
    low, high = (_quantile(drawn, rank) for rank in tails(level))
    value = float((np.abs(matched.at_cells) ** p @ cells.mass / cells.mass.sum()) ** (1 / p))
    excess = max(float(drawn.mean() - value), 0.0)
    low = max(low - (2.0 + sqrt(2.0)) * excess, min(least_error(sample, level), value), 0.0)
    return low, max(high - excess, value)


def least_error(sample: Sample, level: float) -> float:
    """How far the mean confidence lies outside the Wilson interval of the accuracy; 0 inside it.

    No calibration error is smaller than the difference of the two means. The interval misses in a fifth of the cases
    that `level` allows, so that this second limit hardly ever lies above the first one by chance.
    """
    n, accuracy = sample.effective_n, sample.accuracy
    z = normal_quantile(1.0 - (1.0 - level) * MEAN_SHARE / 2.0)
    centre = accuracy + z * z / (2.0 * n)
    half = z * sqrt(max(accuracy * (1.0 - accuracy), 0.0) / n + z * z / (4.0 * n * n))
    low, high = (centre - half) / (1.0 + z * z / n), (centre + half) / (1.0 + z * z / n)
    return max(low - sample.mean_confidence, sample.mean_confidence - high, 0.0)
