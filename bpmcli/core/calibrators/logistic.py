"""Platt scaling and beta calibration: logistic regressions on the log-odds, and on log s and log(1 − s)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.base import Calibrator
from bpmcli.core.calibrators.histogram import one_outcome, one_point
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.curves.bpm import BOX
from bpmcli.core.curves.families import BETA, FAMILIES, Curve, Family, Pair
from bpmcli.core.curves.solve import Minimum, Objective, minimise
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, sigmoid_pair

COARSE = 1000
"""A sample with more than ten times as many cells is first fitted on this many groups of cells. From there, two or
three steps are left."""

PRIOR_SD = 2.0
"""Standard deviation of the prior. It is wide: fitted curves of real models differ from the identity by 0.3 to 0.5."""

RUN = 1 << 13
"""Cells per pass: they fit in the cache, and above this OpenBLAS starts threads, which costs several times more."""


@dataclass(frozen=True)
class Platt(Calibrator):
    """logit g = a·x + b with log-odds x. The method leaves the sign of a free, so the curve may fall."""

    a: float
    b: float

    def __call__(self, log_odds: Floats) -> Pair:
        return sigmoid_pair(self.a * log_odds + self.b)


@dataclass(frozen=True)
class Beta(Calibrator):
    """logit g = a·log s − b·log(1 − s) − c with a, b ≥ 0."""

    a: float
    b: float
    c: float

    def __call__(self, log_odds: Floats) -> Pair:
        return Curve(BETA, (self.a, self.b, self.c))(log_odds)


@method("platt", "logistic regression on the log-odds", "Platt 1999", Platt, counts_rows=True)
def fit_platt(rows: Rows, options: FitOptions) -> Fitted:
    """Maximum likelihood with Platt's targets: (H+1)/(H+2) for correct rows, 1/(M+2) for wrong ones.

    H and M are the numbers of correct and wrong rows. Weights are scaled to a mean of one, so doubling all of
    them changes nothing, not even the targets.
    """
    sample = rows.sample
    hits, misses = float(sample.hits.sum()), float((sample.mass - sample.hits).sum())
    of_hit, of_miss = (hits + 1.0) / (hits + 2.0), 1.0 / (misses + 2.0)
    positives = sample.hits * of_hit + (sample.mass - sample.hits) * of_miss
    negatives = sample.hits / (hits + 2.0) + (sample.mass - sample.hits) * (misses + 1.0) / (misses + 2.0)
    # The best flat curve. It is the solution where all confidences are equal.
    start = np.array([math.log(float(positives.sum()) / float(negatives.sum())), 0.0])
    # Centred and scaled, so that the slope is of order one however close the confidences are.
    centre = float(sample.mass @ sample.log_odds) / sample.n
    spread = math.sqrt(float(sample.mass @ (sample.log_odds - centre) ** 2) / sample.n) or 1.0
    x, free = (sample.log_odds - centre) / spread, np.full(2, BOX)
    found = _maximum_likelihood(FAMILIES["logit-logit"], x, positives, negatives, start, -free, free)
    b, a = found.x.tolist()
    return Fitted(Platt(a / spread, b - a * centre / spread), _report(found), _flat_notices(rows))


@method("beta", "logistic regression on log s and log(1 - s)", "Kull et al. 2017, AISTATS", Beta)
def fit_beta(rows: Rows, options: FitOptions) -> Fitted:
    """Bernoulli maximum likelihood over a, b ≥ 0 and c ("abm").

    If all confidences are equal, or all rows correct or all wrong, the curve is flat at the accuracy (1/(N+2) away
    from 0 and 1). If no wrong row has a higher confidence than any correct row, the likelihood has no
    maximum: the priors a, b ~ N(1, 2²) and c ~ N(0, 2²) are added, and a notice says so. The same is done if the
    solver does not converge.
    """
    sample = rows.sample
    misses = sample.mass - sample.hits
    notices = _flat_notices(rows)
    one = sample.one_outcome is not None
    flat = np.array([0.0, 0.0, math.log((float(misses.sum()) + one) / (float(sample.hits.sum()) + one))])
    if notices:
        return Fitted(Beta(*flat.tolist()), {}, notices)
    lower, upper = np.clip(BETA.lower, -BOX, BOX), np.clip(BETA.upper, -BOX, BOX)
    problem = BETA, sample.log_odds, sample.hits, misses
    highest_miss, lowest_hit = np.flatnonzero(misses > 0)[-1], np.flatnonzero(sample.hits > 0)[0]
    # Start at the flat curve, where every row adds curvature; at the identity, saturated rows add none.
    found = None if highest_miss <= lowest_hit else _maximum_likelihood(*problem, flat, lower, upper)
    if found is None or not found.converged:
        objective = _with_prior(_negative_log_likelihood(*problem), np.array([1.0, 1.0, 0.0]), sample.n)
        found = minimise(objective, np.array([1.0, 1.0, 0.0]), lower, upper)
        notices = (notice("beta-separated"),)
    return Fitted(Beta(*found.x.tolist()), _report(found), notices)


def _with_prior(objective: Objective, centre: Floats, rows: float) -> Objective:
    """Adds minus the log-density of N(centre, PRIOR_SD²), divided by the number of rows as the likelihood is."""
    precision = 1.0 / (PRIOR_SD**2 * rows)

    def penalised(theta: Floats) -> tuple[float, Floats, Floats]:
        value, gradient, hessian = objective(theta)
        off = theta - centre
        return (
            value + 0.5 * precision * float(off @ off),
            gradient + precision * off,
            hessian + precision * np.eye(off.size),
        )

    return penalised


def _flat_notices(rows: Rows) -> tuple[Notice, ...]:
    """The reason why only a flat curve can be fitted, if there is one."""
    return one_outcome(rows) or one_point(rows.sample)


def _report(found: Minimum) -> dict[str, float | int]:
    return {"nll": found.value, "evaluations": found.evaluations}


def _maximum_likelihood(
    family: Family, x: Floats, positives: Floats, negatives: Floats, start: Floats, lower: Floats, upper: Floats
) -> Minimum:
    if x.size > 10 * COARSE:
        runs = np.arange(COARSE) * x.size // COARSE
        mass = positives + negatives
        total, up, down, moment = (np.add.reduceat(v, runs) for v in (mass, positives, negatives, mass * x))
        start = minimise(_negative_log_likelihood(family, moment / total, up, down), start, lower, upper).x
    f = _negative_log_likelihood(family, x, positives, negatives)
    found = minimise(f, start, lower, upper)
    if not found.converged:
        return found
    # The solver stops where a step gains nothing in the likelihood; one more step gives the last digits of θ.
    _, gradient, hessian = f(found.x)
    free = (found.x > lower) & (found.x < upper)
    theta = found.x.copy()
    theta[free] -= np.linalg.lstsq(hessian[np.ix_(free, free)], gradient[free], rcond=1e-13)[0]
    return Minimum(np.clip(theta, lower, upper), found.value, found.evaluations + 1, True)


def _negative_log_likelihood(family: Family, log_odds: Floats, positives: Floats, negatives: Floats) -> Objective:
    """θ → −Σ (positives·log g + negatives·log(1 − g)) / Σ mass, gradient, Hessian (logit link)."""
    columns = family.columns(log_odds)
    total = float(positives.sum()) + float(negatives.sum())
    runs = [slice(i, i + RUN) for i in range(0, log_odds.size, RUN)]
    parts = [(columns[:, run].copy(), positives[run], negatives[run]) for run in runs]

    def evaluate(theta: Floats) -> tuple[float, Floats, Floats]:
        value, gradient, hessian = 0.0, np.zeros(theta.size), np.zeros((theta.size, theta.size))
        for column, up, down in parts:
            eta = theta @ column
            distance = np.abs(eta)
            e = np.exp(-distance)
            wrong = np.where(eta > 0.0, down, up)
            mass, miss = up + down, np.where(eta > 0.0, e, 1.0) / (1.0 + e)
            value += float(mass @ np.log1p(e) + wrong @ distance)
            gradient += column @ (down - mass * miss)
            hessian += (column * (mass * miss * (1.0 - miss))) @ column.T
        return value / total, gradient / total, hessian / total

    return evaluate
