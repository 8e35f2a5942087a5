"""Temperature scaling, and its ensemble with the raw and the uniform distribution."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from bpmcli.core.calibrators.base import DistributionCalibrator
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.curves.solve import minimise
from bpmcli.core.data.log_odds import log_softmax
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, Ints
from bpmcli.errors import DataError, FitError

WIDEST = 250.0
"""Temperatures are sought between e^-250 and e^250, whatever the scale of the logits."""

NEVER = math.log(1e-12)
"""A true class of probability zero has no likelihood at any temperature: scikit-learn's 1e-12 stands in."""

NOTHING = -700.0
"""e^-700 counts for nothing, yet unlike e^-inf it can be multiplied by its exponent."""

CHUNK_VALUES = 1 << 16
"""Scores per chunk: two buffers of 0.5 MB stay in the cache."""


@dataclass(frozen=True)
class Temperature(DistributionCalibrator):
    """softmax(z / T)."""

    keeps_order: ClassVar[bool] = True

    temperature: float

    def log_probabilities(self, logits: Floats) -> Floats:
        return log_softmax(logits / self.temperature)


@dataclass(frozen=True)
class Ensemble(DistributionCalibrator):
    """w₁·softmax(z / T) + w₂·softmax(z) + w₃/K, with weights ≥ 0 that add up to one."""

    keeps_order: ClassVar[bool] = True

    temperature: float
    scaled: float
    raw: float
    uniform: float

    def log_probabilities(self, logits: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            scaled, raw, uniform = np.log([self.scaled, self.raw, self.uniform / logits.shape[1]])
        # Sums of logarithms: no probability underflows on the way.
        parts = [scaled + log_softmax(logits / self.temperature), raw + log_softmax(logits)]
        out: Floats = np.logaddexp(np.logaddexp(parts[0], parts[1]), uniform)
        return out


@method("temperature", "all logits divided by one number", "Guo et al. 2017, ICML", Temperature)
def fit_temperature(rows: Rows, options: FitOptions) -> Fitted:
    """min over T > 0 of Σ w (log Σ_k e^{z_k/T} − z_label/T): one root of the derivative in log T, by Brent.

    The sum is convex in 1/T, so the root is the minimum. There is none where every label has the
    largest logit (T → 0), nor where labels have no more than average logits (T → ∞): both are errors.
    The standard error is 1/√information, with the effective number of rows if they have weights.
    """
    fit = _solve(_Likelihood.of(rows))
    return Fitted(Temperature(fit.temperature), fit.report, fit.notices)


@method("ets", "mixture of scaled, raw and uniform", "Zhang et al. 2020, ICML (Mix-n-Match)", Ensemble)
def fit_ets(rows: Rows, options: FitOptions) -> Fitted:
    """T as in `temperature`, then the three weights by maximum likelihood with T held, as the authors do.

    −Σ w log(p·weights)/N + Σ weights over weights ≥ 0 has its minimum on the simplex (scaling all weights
    shows it), so bounds are all the solver needs: convex, exact 3×3 Hessian.
    """
    likelihood = _Likelihood.of(rows)
    fit = _solve(likelihood)
    scaled, raw = likelihood.at(-math.log(fit.temperature))[1], likelihood.at(0.0)[1]
    weights = np.ones(raw.size) if likelihood.weights is None else likelihood.weights
    # One order for all, whatever the order of the rows.
    order = np.lexsort((weights, raw, scaled))
    parts = np.exp(np.stack([scaled[order], raw[order], np.full(raw.size, -math.log(likelihood.classes))]))
    each = weights[order] / raw.size

    def objective(mixture: Floats) -> tuple[float, Floats, Floats]:
        mixed = mixture @ parts
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = parts / mixed
            value = float(mixture.sum() - each @ np.log(mixed))
        return value, 1.0 - shares @ each, (shares * each) @ shares.T

    found = minimise(objective, np.full(3, 1 / 3), np.zeros(3), np.ones(3))
    if not found.converged:
        raise FitError(f"the weights did not converge: likelihood {found.value - 1.0:.12g}")
    mixture = found.x / found.x.sum()
    report = fit.report | {"nll_temperature": fit.report["nll_after"], "nll_after": objective(mixture)[0] - 1.0}
    return Fitted(Ensemble(fit.temperature, *mixture.tolist()), report, fit.notices)


class _Likelihood(NamedTuple):
    """Checked logits and labels, and what every pass over them needs."""

    logits: Floats
    labels: Ints
    weights: Floats | None
    """With a mean of one."""
    effective_n: float
    top: Floats
    """The largest logit of each row."""
    margin: Floats
    """The true class's logit less the largest one."""
    lead: float
    """By how much the true class's logit exceeds the mean of the classes that are present, on average."""
    incomplete: int
    """Rows with a logit of -inf."""
    notices: tuple[Notice, ...]

    @property
    def classes(self) -> int:
        return int(self.logits.shape[1])

    @classmethod
    def of(cls, rows: Rows) -> _Likelihood:
        """From rows; those without weight are left out."""
        if rows.logits is None or rows.labels is None:
            raise DataError("temperature scaling needs the scores of all classes, and labels")
        effective_n = float(rows.n)
        if rows.weights is not None:
            effective_n = rows.sample.effective_n  # refuses bad weights
            if rows.weights.min() == 0.0:
                return cls.of(rows.take(rows.weights > 0))
        logits, labels, n = rows.logits, rows.labels, rows.n
        if labels.min() < 0 or labels.max() >= logits.shape[1]:
            raise DataError(f"labels must be class numbers 0 … {logits.shape[1] - 1}")
        top, average, incomplete = np.empty(n), np.empty(n), 0
        for at, z in _chunks(logits):
            top[at] = z.max(axis=0)
            u = np.subtract(z, top[at], order="C")
            absent = u == -np.inf
            if absent.any():
                u[absent] = 0.0
                incomplete += int(absent.any(axis=0).sum())
            average[at] = u.sum(axis=0) / (u.shape[0] - absent.sum(axis=0))
        margin = logits[np.arange(n), labels] - top
        impossible = margin == -np.inf
        notices: tuple[Notice, ...] = ()
        if incomplete and rows.from_probs:
            notices += (notice("temperature-saturated", count=incomplete),)
        if impossible.any():
            if not rows.from_probs:
                raise DataError(f"the label's own logit is -inf (row {int(impossible.argmax()) + 1})")
            notices += (notice("label-impossible", count=int(impossible.sum())),)
            margin[impossible] = NEVER
        weights = rows.weights
        if weights is not None:
            weights = weights * (n / float(np.sort(weights).sum()))
        lead = _mean(margin - average, weights)
        return cls(logits, labels, weights, effective_n, top, margin, lead, incomplete, notices)

    def at(self, log_scale: float) -> tuple[_Pass, Floats]:
        """One pass at τ = −log T, and the log-probability of each label.

        With v = z/T: dNLL/dτ = E[v] − v_label, d²NLL/dτ² = Var[v] + dNLL/dτ.
        """
        scale = math.exp(log_scale)
        n = self.top.size
        total, first, second = np.empty(n), np.empty(n), np.empty(n)
        impossible = np.flatnonzero(self.margin == NEVER)
        for at, z in _chunks(self.logits):
            v = np.subtract(z, self.top[at], order="C")
            here = impossible[(impossible >= at.start) & (impossible < at.stop)]
            v[self.labels[here], here - at.start] = NEVER
            v *= scale
            if self.incomplete:
                np.maximum(v, NOTHING, out=v)
            e = np.exp(v)
            e.sum(axis=0, out=total[at])
            e *= v
            e.sum(axis=0, out=first[at])
            e *= v
            e.sum(axis=0, out=second[at])
        label = self.margin * scale
        first /= total
        second /= total
        second -= first * first
        first -= label
        log_probs = np.subtract(label, np.log(total, out=total), out=label)
        slope = _mean(first, self.weights)
        return _Pass(-_mean(log_probs, self.weights), slope, _mean(second, self.weights) + slope), log_probs


class _Pass(NamedTuple):
    """Minus the mean log-likelihood, and its derivatives by τ."""

    nll: float
    slope: float
    bend: float


def _mean(values: Floats, weights: Floats | None) -> float:
    """Weighted mean over the rows, summed in fixed point: the same bits in any order of the rows."""
    if weights is not None:
        values = values * weights
    largest = max(float(values.max()), -float(values.min()), 1e-250)
    unit = 2.0 ** (61 - math.frexp(largest * values.size)[1])
    starts = range(0, values.size, CHUNK_VALUES)
    total = sum(int(np.rint(values[i : i + CHUNK_VALUES] * unit).astype(np.int64).sum()) for i in starts)
    return float(total) / unit / values.size


def _chunks(logits: Floats) -> Iterator[tuple[slice, Floats]]:
    """Some rows at a time, classes first: sums over the classes then run over whole vectors."""
    step = max(1, CHUNK_VALUES // logits.shape[1])
    for start in range(0, logits.shape[0], step):
        rows = slice(start, min(start + step, logits.shape[0]))
        yield rows, logits[rows].T


class _Found(NamedTuple):
    temperature: float
    report: dict[str, float | int]
    notices: tuple[Notice, ...]


def _solve(likelihood: _Likelihood) -> _Found:
    from scipy.optimize import brentq

    if not likelihood.margin.any():
        raise FitError(
            "every label has the largest logit: the likelihood only grows as the temperature falls to 0",
            "fit on rows that hold misses too",
        )
    if likelihood.lead <= 0.0:
        raise FitError(
            "the labels' logits are no higher than the others' on average: the likelihood only grows as the "
            "temperature rises without end",
            "check that logits and labels belong to the same rows",
        )
    passes: dict[float, _Pass] = {}

    def slope(log_scale: float) -> float:
        if log_scale not in passes:
            passes[log_scale] = likelihood.at(log_scale)[0]
        return passes[log_scale].slope

    # Newton's step, somewhat lengthened, mostly lands beyond the root; otherwise the steps grow.
    step = -slope(0.0) / max(abs(passes[0.0].bend), abs(slope(0.0)))
    near, far = 0.0, 1.25 * step
    while slope(far) * step < 0.0:
        if abs(far) == WIDEST:
            raise FitError(f"no temperature between e^-{WIDEST:.0f} and e^{WIDEST:.0f} is best")
        near, far = far, min(max(3.0 * far, -WIDEST), WIDEST)
    root = brentq(slope, near, far, xtol=1e-8) if step else 0.0
    slope(root)  # Brent has been there, but does not promise it
    raw, best = passes[0.0], passes[root]
    # 1e-8 off, one more Newton step is exact.
    t = math.exp(best.slope / best.bend - root)
    report = {
        "n": likelihood.top.size,
        "standard_error": t / math.sqrt(best.bend * likelihood.effective_n),
        "nll_before": raw.nll,
        "nll_after": best.nll,
        "evaluations": len(passes),
    }
    return _Found(t, report, likelihood.notices)
