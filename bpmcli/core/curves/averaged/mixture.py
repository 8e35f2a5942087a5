"""Bayesian average over curve shapes, including the identity.

Likelihood: a row is correct with probability g(ŝ). Shapes and priors: `shapes`. Each component is fitted by
maximum a posteriori and weighted by Laplace's approximation of its evidence (MacKay 1992; Hoeting et al. 1999),

    log p(data | component) ≈ log p(data | θ̂) + log N(θ̂; prior) + ½ log |2π H⁻¹|,

where H is the Fisher information plus the prior's precision. The curve is Σ w_k g_k, held flat where that sum falls
(`curve`). With few rows every component stays near its prior mean, the identity.

How the scales in `Prior` were chosen: on ten real data sets (`TUNED_ON` in benchmarks/estimator_study.py;
calibration sets of 200, 1000 and 5000 rows). The optimum is flat: slopes of 0.3 … 0.8, shifts of 0.25 … 1 and
asymmetries of 0.25 … 1 move the mean held-out Brier score and NLL by less than 0.5 %. The knots, steps and ceiling of
`bends` were chosen with the other eleven data sets in view as well. The floor, the asymmetry and the weight of `odds`
matter where real data has few rows. They were chosen to minimise the distance from the true curves of D1–D5, on draws
other than those that the study reports.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property

import numpy as np

from bpmcli.core.curves.averaged.batches import BEND_ENDS, BendBatch, ComponentBatch, FormulaBatch, Posterior, fit_batch
from bpmcli.core.curves.averaged.cells import Cells, cells_for_fit
from bpmcli.core.curves.averaged.curve import AveragedCurve, mass_at, rising, stretch_that_falls
from bpmcli.core.curves.averaged.shapes import ENDS, PARAMETERS, SHAPES, Prior
from bpmcli.core.data.normal import normal_cdf, normal_quantile
from bpmcli.core.data.sample import Floats, Sample, sigmoid
from bpmcli.record import Record

END_WEIGHTS = {"": 0.5, "ceiling": 0.25, "floor": 0.25}
SHAPE_WEIGHTS = {"odds": 0.4, "bends": 4.0}
"""Prior weights: 1 for every shape except `odds`, which does not contain the identity, and `bends`, which stands
for all other shapes."""

NEGLIGIBLE = 1e-3
"""Components with less than this share of the weight are left out of the curve."""

LEAST_DROP = 8.0
"""A drawn curve with d parameters is rejected if it is 8 + d nats less likely than the best: P < 0.001 by χ²."""

SPREAD = 0.96
"""A 95 % interval takes the quantiles of the draws at ±1.96 × 0.96 standard deviations: see `tails`."""


class Mixture(Record):
    """Every component at its optimum, with its weight."""

    cells: Cells
    batches: tuple[ComponentBatch, ...]
    found: tuple[Posterior, ...]
    weights: Floats
    """One weight per component, batch after batch; negligible ones are zero."""

    @cached_property
    def curve(self) -> AveragedCurve:
        """Σ w_k g_k, which may fall."""
        components = [c for b, f in zip(self.batches, self.found, strict=True) for c in b.components(f.theta)]
        kept = [(c, w) for c, w in zip(components, self.weights.tolist(), strict=True) if w > 0]
        return AveragedCurve(tuple(c for c, _ in kept), tuple(w for _, w in kept))

    def share(self, shape: str) -> float:
        """The share of the weight that a shape has, with any of its ends."""
        kinds = [name for batch in self.batches for name, _ in batch.kinds]
        return float(sum(w for name, w in zip(kinds, self.weights.tolist(), strict=True) if name == shape))

    @cached_property
    def rising_curve(self) -> AveragedCurve:
        """The same curve, held flat where it falls."""
        return self.curve._replace(stretch=stretch_that_falls(self.curve.components, self.curve.weights, self.cells))

    def draws(self, log_odds: Floats | None, runs: int, rng: np.random.Generator) -> Floats:
        """Curves drawn from the posterior, in log-odds: an array of shape (runs, n). `None` means at the cells.

        A component is drawn in proportion to its weight. Around its optimum, η moves to first order as
        θ ~ N(θ̂, H⁻¹) moves it: where θ runs along a curved ridge, η of a drawn θ would leave the ridge.
        Curves that the rows rule out are replaced by others, because the quadratic approximation fails
        on saturated rows.
        """
        ends = np.floor(np.cumsum(self.weights) * runs + 0.5).astype(np.int64)
        counts = np.diff(ends, prepend=0).tolist()
        n = self.cells.log_odds.size
        places = self.cells.log_odds if log_odds is None else np.concatenate([self.cells.log_odds, log_odds])
        wanted = slice(None) if log_odds is None else slice(n, None)
        out = []
        for batch, found in zip(self.batches, self.found, strict=True):
            batch = copy(batch)
            batch.place(places)
            g, miss, jacobian = batch.evaluate(found.theta)
            for i, theta in enumerate(found.theta):
                if count := counts.pop(0):
                    root = np.linalg.cholesky(found.information[i]).T
                    moves = np.linalg.solve(root, rng.standard_normal((theta.size, count)))
                    best = np.log(g[i]) - np.log(miss[i])
                    eta = best + moves.T @ (jacobian[i] / g[i] / miss[i])
                    drop = self._log_likelihood(best[None, :n]) - self._log_likelihood(eta[:, :n])
                    likely = eta[drop < LEAST_DROP + theta.size]
                    out.append(np.resize(likely if likely.size else best, (count, best.size))[:, wanted])
        return np.concatenate(out)

    def _log_likelihood(self, eta: Floats) -> Floats:
        # log(1 − g) = log g − η, and log g = min(η, 0) − log(1 + e^-|η|): np.logaddexp would take twice as long.
        log_g = np.minimum(eta, 0.0) - np.log(1.0 + np.exp(-np.abs(eta)))
        found: Floats = log_g @ self.cells.mass - eta @ (self.cells.mass - self.cells.hits)
        return found


def tails(level: float) -> tuple[float, float]:
    """Ranks of the draws between which the truth lies with this probability, as measured.

    Draws of several shapes spread a little too far: on D1–D5 at N = 1000 and 5000 the middle 95 % of them contain
    the true curve in 96.3 % of the cases, the middle 94 % in 95.5 % (seed 21 of benchmarks/coverage.py).
    """
    above = normal_cdf(SPREAD * normal_quantile(0.5 + level / 2))
    return 1.0 - above, above


Weigh = Callable[[ComponentBatch, Posterior], Floats]
"""Logarithms of the components' weights, up to a constant."""


def fit_mixture(cells: Cells, prior: Prior, weigh: Weigh) -> Mixture:
    """Fit and weigh every component, and drop those below NEGLIGIBLE."""
    formulas, bends = FormulaBatch(cells, prior), BendBatch(cells, prior)
    straight = fit_batch(formulas, cells)
    batches, found = (formulas, bends), (straight, fit_batch(bends, cells, bends.start(formulas, straight.theta)))
    logs = np.concatenate([weigh(b, f) for b, f in zip(batches, found, strict=True)])
    weights = np.exp(logs - logs.max())
    weights = np.where(weights < NEGLIGIBLE * weights.sum(), 0.0, weights)
    return Mixture(cells, batches, found, weights / weights.sum())


def by_evidence(batch: ComponentBatch, found: Posterior) -> Floats:
    """Laplace's evidence times the component's prior weight."""
    return found.log_evidence + np.log([_prior_weight(*kind) for kind in batch.kinds])


def by_room(batch: ComponentBatch, found: Posterior) -> Floats:
    """Weights for a confidence band: evidence times the square of the shape's number of parameters.

    Evidence prefers shapes with few parameters, whose draws do not spread far enough (draws of the identity do not
    spread at all). On D1–D5 at N = 1000 and 5000 the middle 94 % of draws weighted by evidence contain the truth in
    91.7 to 98.3 % of the cases, with these weights in 92 to 98 % (300 data sets, seed 21 of benchmarks/coverage.py).
    """
    with np.errstate(divide="ignore"):
        return by_evidence(batch, found) + 2.0 * np.log([PARAMETERS[shape] for shape, _ in batch.kinds])


def _prior_weight(shape: str, end: str) -> float:
    return SHAPE_WEIGHTS.get(shape, 1.0) * END_WEIGHTS[end]


def prior_share(shape: str) -> float:
    """Share of the prior weight that a shape has among all shapes."""
    bends = [("bends", end) for end in BEND_ENDS] * len(Prior().bends)
    chances = [(name, _prior_weight(name, end)) for name, end in [*((s, e) for s in SHAPES for e in ENDS), *bends]]
    return sum(c for name, c in chances if name == shape) / sum(c for _, c in chances)


def averaged_mixture(sample: Sample, prior: Prior | None = None) -> Mixture:
    """The components of the calibrator, weighted by their evidence."""
    return fit_mixture(cells_for_fit(sample), prior or Prior(), by_evidence)


def band_mixture(sample: Sample) -> Mixture:
    """The components whose draws make the calibrator's confidence band."""
    return fit_mixture(cells_for_fit(sample), Prior(), by_room)


def fit_averaged(sample: Sample, prior: Prior | None = None) -> AveragedCurve:
    """Fit every component to a sample and average them: the curve of the method `bpm-averaged`."""
    return averaged_mixture(sample, prior).rising_curve


def curve_draws(sample: Sample, log_odds: Floats, runs: int, rng: np.random.Generator) -> Floats:
    """Curves drawn from the posterior over components and their parameters, at these log-odds: (runs, points).

    Every drawn curve is replaced by the closest non-decreasing curve, as the fitted curve is.
    """
    mixture = band_mixture(sample)
    cells = mixture.cells
    x = np.unique(np.concatenate([log_odds, cells.log_odds]))
    drawn = rising(sigmoid(mixture.draws(x, runs, rng)), mass_at(x, cells))
    return drawn[:, np.searchsorted(x, log_odds)]
