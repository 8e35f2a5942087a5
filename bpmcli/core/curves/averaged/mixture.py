"""A calibration curve averaged over shapes, each weighted by its evidence.

Likelihood: hits are Bernoulli(g(ŝ)). Shapes and priors: `shapes`. Each member is fitted by maximum a
posteriori and weighted by Laplace's approximation of its evidence (MacKay 1992; Hoeting et al. 1999),

    log p(data | member) ≈ log p(data | θ̂) + log N(θ̂; prior) + ½ log |2π H⁻¹|,

H the Fisher information plus the prior's precision. The curve is Σ w_k g_k, held flat where that falls
(`rising`): monotone, continuous and in [0, 1]. Few rows leave every member near its prior mean: the identity.

How the scales in `Prior` were chosen: on ten real data sets (`TUNED_ON` in benchmarks/estimator_study.py;
calibration sets of 200, 1000 and 5000 rows). The optimum is flat: slopes of 0.3 … 0.8, shifts of 0.25 … 1 and
asymmetries of 0.25 … 1 move the mean held-out Brier score and NLL by less than 0.5 %. Knots, steps and ceiling of
`bends` were chosen with the other eleven data sets in view as well. The floor, the asymmetry and the
weight of `odds` act where real data has few rows; they were chosen for the distance from the true curves of D1–D5,
on other draws than the study reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from bpmcli.core.curves.averaged.monotone import NOWHERE, Stretch, stretch_that_falls
from bpmcli.core.curves.averaged.shapes import (
    BEND_ENDS,
    ENDS,
    PARAMETERS,
    SHAPES,
    Batch,
    BendBatch,
    Cells,
    FormulaBatch,
    Member,
    Prior,
    cells_of,
)
from bpmcli.core.curves.families import Pair
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Sample, sigmoid

END_WEIGHTS = {"": 0.5, "ceiling": 0.25, "floor": 0.25}
SHAPE_WEIGHTS = {"odds": 0.4, "bends": 4.0}
"""1 for every shape but `odds`, which does not contain the identity, and `bends`, which stands for all others."""

NEGLIGIBLE = 1e-3
"""Members below this share of the weight are left out of the curve."""

STEPS = 60
TOLERANCE = 1e-3
"""Nats a further Newton step could gain: θ is within 5 % of a posterior standard deviation."""
HOPELESS = 25.0
"""A member this many nats behind the best of its batch will carry no weight, however it ends."""

LEAST_DROP = 8.0
"""A curve with d parameters that is 8 + d nats less likely than the best is no draw: P < 0.001 by its χ²."""

SPREAD = 0.96
"""Standard deviations of the draws that one of an interval is worth: `tails`."""

CHUNK = 1 << 15


@dataclass(frozen=True)
class AveragedCurve:
    """Σ w_k g_k, but for a stretch in which that falls."""

    members: tuple[Member, ...]
    weights: tuple[float, ...]
    stretch: Stretch = NOWHERE

    def __call__(self, log_odds: Floats) -> Pair:
        """(g, 1 − g) at the given log-odds."""
        # Beyond that, confidences are all the same.
        x = np.clip(np.asarray(log_odds, dtype=np.float64), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
        g, miss = self.average(x)
        self.stretch.replace(x, g, miss)
        return g, miss

    def average(self, x: Floats) -> Pair:
        """Σ w_k g_k, which may fall."""
        g, miss = np.zeros(x.size), np.zeros(x.size)
        for start in range(0, x.size, CHUNK):
            part = slice(start, start + CHUNK)
            for member, weight in zip(self.members, self.weights, strict=True):
                member_g, member_miss = member(x[part])
                g[part] += weight * member_g
                miss[part] += weight * member_miss
        return g, miss

    def at(self, confidences: Floats) -> Floats:
        """g at plain confidences, 0 and 1 included."""
        s = np.asarray(confidences, dtype=np.float64)
        with np.errstate(divide="ignore"):
            x = np.log(s) - np.log1p(-s)
        return self(np.clip(x, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT))[0]

    def distance(self, log_odds: Floats) -> Floats:
        """g − s, taken on the side where it does not cancel."""
        g, miss = self(log_odds)
        return np.where(log_odds > 0, sigmoid(-log_odds) - miss, g - sigmoid(log_odds))

    @cached_property
    def shape_weights(self) -> dict[str, float]:
        """Weight by shape, the heaviest first."""
        return _grouped((m.shape for m in self.members), self.weights)

    @cached_property
    def end_weights(self) -> dict[str, float]:
        """Weight by end: free (""), ceiling, floor."""
        return _grouped((m.end for m in self.members), self.weights)

    def explain(self, sample: Sample) -> str:
        """The curve in a sentence, over the confidences of a sample."""
        from bpmcli.core.curves.averaged.explain import explain

        return explain(self, sample)


def _grouped(names: Iterable[str], weights: Iterable[float]) -> dict[str, float]:
    total: dict[str, float] = {}
    for name, weight in zip(names, weights, strict=True):
        total[name] = total.get(name, 0.0) + weight
    return dict(sorted(total.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class Posterior:
    """The members of one batch at their optimum."""

    theta: Floats
    log_evidence: Floats
    log_likelihood: Floats
    information: Floats
    evaluations: int


def fit_batch(batch: Batch, cells: Cells, start: Floats | None = None) -> Posterior:
    """Fisher scoring on all members at once, each with its own damping; by default from the prior mean."""
    hits, misses = cells.hits, cells.mass - cells.hits

    def evaluate(batch: Batch, theta: Floats) -> tuple[Floats, ...]:
        g, miss, jacobian = batch.evaluate(theta)
        pull = np.einsum("mij,mj->mi", batch.precision, theta - batch.mean)
        likelihood = np.log(g) @ hits + np.log(miss) @ misses
        value = 0.5 * np.sum(pull * (theta - batch.mean), axis=1) - likelihood
        data = np.einsum("mdn,mn->md", jacobian, misses / miss - hits / g)
        scaled = jacobian * (np.sqrt(cells.mass) / np.sqrt(g) / np.sqrt(miss))[:, None]
        information = scaled @ scaled.transpose(0, 2, 1) + batch.precision
        return value, pull + data, information, batch.bend(theta) * data, likelihood

    theta = (batch.mean if start is None else start).copy()
    state = evaluate(batch, theta)
    damping = np.zeros(theta.shape[0])
    active, part = np.arange(theta.shape[0]), batch
    evaluations = 1
    for _ in range(STEPS):
        value, gradient, information, bend, _ = (values[active] for values in state)
        diagonal = np.einsum("mii->mi", information)
        # What the information lacks of the Hessian, as far as it leaves it positive.
        lift = np.maximum(bend, -0.5 * np.einsum("mii->mi", part.precision)) + damping[active, None] * diagonal
        step = -np.linalg.solve(information + lift[:, :, None] * np.eye(theta.shape[1]), gradient[:, :, None])[:, :, 0]
        gain = -0.5 * np.sum(step * gradient, axis=1) * (1.0 + damping[active])
        moving = gain >= TOLERANCE
        if np.all(value[moving] - gain[moving] > state[0].min() + HOPELESS):
            break
        if not moving.all():
            active, step, value = active[moving], step[moving], value[moving]
            part = batch.take(active)
        trial = np.clip(theta[active] + step, -batch.box, batch.box)
        new = evaluate(part, trial)
        evaluations += 1
        better = new[0] < value
        theta[active[better]] = trial[better]
        for old, fresh in zip(state, new, strict=True):
            old[active[better]] = fresh[better]
        before = damping[active]
        damping[active] = np.where(better, np.where(before < 1e-3, 0.0, before / 8), np.maximum(8 * before, 0.01))
    value, _, hessian, _, likelihood = state
    volume = np.linalg.slogdet(batch.precision)[1] - np.linalg.slogdet(hessian)[1]
    return Posterior(theta, 0.5 * volume - value, likelihood, hessian, evaluations)


@dataclass(frozen=True)
class Mixture:
    """Every member at its optimum, with its weight."""

    cells: Cells
    batches: tuple[Batch, ...]
    found: tuple[Posterior, ...]
    weights: Floats
    """Of the members of all batches in turn; negligible ones are zero."""

    @cached_property
    def curve(self) -> AveragedCurve:
        """Σ w_k g_k, which may fall."""
        members = [m for b, f in zip(self.batches, self.found, strict=True) for m in b.members(f.theta)]
        kept = [(m, w) for m, w in zip(members, self.weights.tolist(), strict=True) if w > 0]
        return AveragedCurve(tuple(m for m, _ in kept), tuple(w for _, w in kept))

    @cached_property
    def rising_curve(self) -> AveragedCurve:
        """The same, held flat where it falls."""
        return replace(self.curve, stretch=stretch_that_falls(self.curve.members, self.curve.weights, self.cells))

    def draws(self, log_odds: Floats, runs: int, rng: np.random.Generator) -> Floats:
        """Curves from the posterior, in log-odds: (runs, n).

        A member is drawn as often as it weighs, and around its optimum η moves as far as θ ~ N(θ̂, H⁻¹)
        moves it to first order. (Not η of a drawn θ: where θ runs along a ridge, a straight step leaves it.)
        Curves that the rows rule out are drawn again: where all is saturated, one side has no second order.
        """
        ends = np.floor(np.cumsum(self.weights) * runs + 0.5).astype(np.int64)
        counts = np.diff(ends, prepend=0).tolist()
        n = self.cells.log_odds.size
        out = []
        for batch, found in zip(self.batches, self.found, strict=True):
            batch = copy(batch)
            batch.place(np.concatenate([self.cells.log_odds, log_odds]))
            g, miss, jacobian = batch.evaluate(found.theta)
            for i, theta in enumerate(found.theta):
                if count := counts.pop(0):
                    root = np.linalg.cholesky(found.information[i]).T
                    moves = np.linalg.solve(root, rng.standard_normal((theta.size, count)))
                    best = np.log(g[i]) - np.log(miss[i])
                    eta = best + moves.T @ (jacobian[i] / g[i] / miss[i])
                    drop = self._log_likelihood(best[None, :n]) - self._log_likelihood(eta[:, :n])
                    likely = eta[drop < LEAST_DROP + theta.size]
                    out.append(np.resize(likely if likely.size else best, (count, best.size))[:, n:])
        return np.concatenate(out)

    def _log_likelihood(self, eta: Floats) -> Floats:
        # log(1 − g) = log g − η.
        found: Floats = -np.logaddexp(0.0, -eta) @ self.cells.mass - eta @ (self.cells.mass - self.cells.hits)
        return found


def tails(level: float) -> tuple[float, float]:
    """Ranks of the draws between which the truth lies with this probability, as measured.

    Draws of several shapes spread a little too far: on D1–D5 at N = 1000 and 5000 the middle 95 % of them hold
    the true curve in 96.3 % of the cases, the middle 94 % in 95.5 % (seed 21 of benchmarks/coverage.py).
    """
    normal = NormalDist()
    above = normal.cdf(SPREAD * normal.inv_cdf(0.5 + level / 2))
    return 1.0 - above, above


Weigh = Callable[[Batch, Posterior], Floats]
"""Logarithms of the members' weights, up to a constant."""


def fit_mixture(cells: Cells, prior: Prior, weigh: Weigh) -> Mixture:
    """Fit every member and weigh it; those below NEGLIGIBLE drop out."""
    formulas, bends = FormulaBatch(cells, prior), BendBatch(cells, prior)
    straight = fit_batch(formulas, cells)
    batches, found = (formulas, bends), (straight, fit_batch(bends, cells, bends.start(formulas, straight.theta)))
    logs = np.concatenate([weigh(b, f) for b, f in zip(batches, found, strict=True)])
    weights = np.exp(logs - logs.max())
    weights = np.where(weights < NEGLIGIBLE * weights.sum(), 0.0, weights)
    return Mixture(cells, batches, found, weights / weights.sum())


def by_evidence(batch: Batch, found: Posterior) -> Floats:
    """Laplace's evidence times the member's prior weight."""
    return found.log_evidence + np.log([_chance(*kind) for kind in batch.kinds])


def by_room(batch: Batch, found: Posterior) -> Floats:
    """Evidence times the square of the number of a shape's parameters: weights for a band.

    Evidence prefers shapes with few parameters, and those cannot say how far off the curve may be; the identity
    has no spread at all. On D1–D5 at N = 1000 and 5000 the middle 94 % of draws by evidence hold the truth in 91.7 to
    98.3 % of the cases, of these in 92 to 98 % (300 data sets, seed 21 of benchmarks/coverage.py).
    """
    with np.errstate(divide="ignore"):
        return by_evidence(batch, found) + 2.0 * np.log([PARAMETERS[shape] for shape, _ in batch.kinds])


def _chance(shape: str, end: str) -> float:
    return SHAPE_WEIGHTS.get(shape, 1.0) * END_WEIGHTS[end]


def prior_share(shape: str) -> float:
    """Of the weight of all shapes, before any rows are seen."""
    bends = [("bends", end) for end in BEND_ENDS] * len(Prior().bends)
    chances = [(name, _chance(name, end)) for name, end in [*((s, e) for s in SHAPES for e in ENDS), *bends]]
    return sum(c for name, c in chances if name == shape) / sum(c for _, c in chances)


def averaged_mixture(sample: Sample, prior: Prior | None = None) -> Mixture:
    """The calibrator's members, weighted by their evidence."""
    return fit_mixture(cells_of(sample), prior or Prior(), by_evidence)


def band_mixture(sample: Sample) -> Mixture:
    """The members whose draws make the calibrator's band."""
    return fit_mixture(cells_of(sample), Prior(), by_room)


def fit_averaged(sample: Sample, prior: Prior | None = None) -> AveragedCurve:
    """Fit every member to the cells of a sample and average them."""
    return averaged_mixture(sample, prior).rising_curve
