"""Temperature scaling, and its ensemble with the raw and the uniform distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bpmcli.core.calibrators.base import DistributionCalibrator
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.calibrators.scaled_likelihood import ScaledLikelihood, best_temperature, divided, floored
from bpmcli.core.curves.solve import minimise
from bpmcli.core.data.log_odds import log_softmax
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats


@dataclass(frozen=True)
class FlooredCalibrator(DistributionCalibrator):
    """If the calibration rows had probabilities of 0, scores are first mixed with a small uniform share."""

    keeps_order: ClassVar[bool] = True

    floor: float = field(default=0.0, kw_only=True)
    """The uniform share; missing in parameter files of earlier releases."""

    def is_sound(self) -> bool:
        return 0.0 <= self.floor < 1.0 and super().is_sound()


@dataclass(frozen=True)
class Temperature(FlooredCalibrator):
    """softmax(z / T)."""

    temperature: float

    def log_probabilities(self, logits: Floats) -> Floats:
        return log_softmax(divided(floored(logits, self.floor), self.temperature))


@dataclass(frozen=True)
class Ensemble(FlooredCalibrator):
    """w₁·softmax(z / T) + w₂·softmax(z) + w₃/K, with weights ≥ 0 that add up to one."""

    temperature: float
    scaled: float
    raw: float
    uniform: float

    def log_probabilities(self, logits: Floats) -> Floats:
        logits = floored(logits, self.floor)
        with np.errstate(divide="ignore"):
            scaled, raw, uniform = np.log([self.scaled, self.raw, self.uniform / logits.shape[1]])
        # Sums of logarithms: no probability underflows on the way.
        parts = [scaled + log_softmax(divided(logits, self.temperature)), raw + log_softmax(logits)]
        out: Floats = np.logaddexp(np.logaddexp(parts[0], parts[1]), uniform)
        return out


@method("temperature", "all logits divided by one number", "Guo et al. 2017, ICML", Temperature)
def fit_temperature(rows: Rows, options: FitOptions) -> Fitted:
    """min over T > 0 of Σ w (log Σ_k e^{z_k/T} − z_label/T): one root of the derivative in log T, by Brent.

    The sum is convex in 1/T, so the root is the minimum. There is no root if every label has the largest
    logit (T → 0), nor if labels have no larger logits than average (T → ∞). Then the prior
    log T ~ N(0, 1) is added, and a notice says so. The standard error is 1/√information, with the effective
    number of rows if they have weights.
    """
    fit = best_temperature(ScaledLikelihood.of(rows))
    return Fitted(Temperature(fit.temperature, floor=fit.floor), fit.report, fit.notices)


@method(
    "ets",
    "mixture of the scaled, the raw and the uniform distribution",
    "Zhang et al. 2020, ICML (Mix-n-Match)",
    Ensemble,
)
def fit_ets(rows: Rows, options: FitOptions) -> Fitted:
    """T as in `temperature`, then the three weights by maximum likelihood with T fixed, as the authors do.

    −Σ w log(p·weights)/N + Σ weights over weights ≥ 0 is convex and has its minimum on the simplex
    (scaling all weights shows it), so the solver needs no constraint except the bounds.
    """
    likelihood = ScaledLikelihood.of(rows)
    fit = best_temperature(likelihood)
    objective = _mixture_objective(likelihood, fit.temperature)
    found = minimise(objective, np.full(3, 1 / 3), np.zeros(3), np.ones(3)).x
    candidates = [found / found.sum(), np.array([1.0, 0.0, 0.0])]
    # Temperature alone is never better than the best weights; it is only kept if rounding stopped the solver early.
    mixture = min(candidates, key=lambda weights: objective(weights)[0])
    report = fit.report | {"nll_temperature": fit.report["nll_after"], "nll_after": objective(mixture)[0] - 1.0}
    return Fitted(Ensemble(fit.temperature, *mixture.tolist(), floor=fit.floor), report, fit.notices)


STEEPEST = 1e150
"""Ratios of probabilities are cut off here: their squares must stay finite. Such weights are far from the minimum."""


def _mixture_objective(
    likelihood: ScaledLikelihood, temperature: float
) -> Callable[[Floats], tuple[float, Floats, Floats]]:
    """Weights of (scaled, raw, uniform) → Σ weights − mean log-likelihood, gradient, Hessian."""
    scaled, raw = likelihood.at(-math.log(temperature))[1], likelihood.at(0.0)[1]
    weights = np.ones(raw.size) if likelihood.weights is None else likelihood.weights
    # Sorted, so that sums do not depend on the order of the rows.
    order = np.lexsort((weights, raw, scaled))
    parts = np.exp(np.stack([scaled[order], raw[order], np.full(raw.size, -math.log(likelihood.classes))]))
    each = weights[order] / raw.size

    def objective(mixture: Floats) -> tuple[float, Floats, Floats]:
        mixed = mixture @ parts
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            shares = np.minimum(parts / mixed, STEEPEST)
            value = float(mixture.sum() - each @ np.log(mixed))
        return value, 1.0 - shares @ each, (shares * each) @ shares.T

    return objective
