"""The likelihood of softmax(z / T) at any temperature, in passes over chunks of rows.

Sums over rows are taken in fixed point, so that they are the same to the last bit in any order of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from bpmcli.core.data.log_odds import log_softmax
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, Ints
from bpmcli.errors import DataError

NEVER = math.log(1e-12)
"""A true class of probability 0 has no likelihood at any temperature; it counts as 1e-12, as in scikit-learn."""

NOTHING = -700.0
"""e^-700 is as good as 0, but unlike e^-inf it can be multiplied by its exponent."""

FARTHEST = 1e150
"""Logits are raised to at most this far below the largest of their row, because sums of larger differences overflow."""

WIDEST = 227.0
"""Temperatures are sought between e^-227 and e^227, about 1e99: parameter files hold numbers below 1e100."""

CHUNK_VALUES = 1 << 16
"""Scores per chunk: two buffers of 0.5 MB stay in the cache."""


def floored(logits: Floats, floor: float) -> Floats:
    """log((1 − ε)·softmax(z) + ε/K): no class is impossible any more. z itself for ε = 0."""
    if floor == 0.0:
        return logits
    return np.logaddexp(log_softmax(logits) + math.log1p(-floor), math.log(floor) - math.log(logits.shape[1]))


def divided(logits: Floats, temperature: float) -> Floats:
    """z / T. Where a class is masked with the smallest finite number, the quotient may be -inf."""
    with np.errstate(over="ignore"):
        quotients: Floats = logits / temperature
    return quotients


class ScaledLikelihood(NamedTuple):
    """Checked logits and labels, and what every pass over them needs."""

    logits: Floats
    labels: Ints
    weights: Floats | None
    """With a mean of one."""
    effective_n: float
    top: Floats
    """The largest logit of each row."""
    margin: Floats
    """The logit of the true class minus the largest logit."""
    lead: float
    """The mean over rows of the true class's logit minus the mean logit of the classes that are not -inf."""
    bounded: bool
    """Some logits are -inf or extreme, so scaled logits need a lower bound."""
    floor: float
    """Uniform share that the calibrator must mix in; 0 unless probabilities of exactly 0 were found."""
    notices: tuple[Notice, ...]

    @property
    def classes(self) -> int:
        return int(self.logits.shape[1])

    @property
    def all_correct(self) -> bool:
        """Every label has the largest logit: the likelihood grows as T falls to 0."""
        return not self.margin.any()

    @property
    def uninformative(self) -> bool:
        """Labels have no larger logits than other classes on average: the likelihood grows as T rises."""
        return self.lead <= 0.0

    @classmethod
    def of(cls, rows: Rows) -> ScaledLikelihood:
        """From rows, leaving out those without weight.

        Probabilities of exactly 0 stay 0 at any temperature, so the calibrator gets a floor of 1/(2N). The fit itself
        uses the floor only if the likelihood has no maximum without it.
        """
        found = cls._unfloored(rows)
        if not (found.floor and (found.all_correct or found.uninformative)):
            return found
        assert rows.logits is not None
        again = cls._unfloored(rows._replace(logits=floored(rows.logits, found.floor)))
        return again._replace(floor=found.floor, notices=found.notices)

    @classmethod
    def _unfloored(cls, rows: Rows) -> ScaledLikelihood:
        if rows.logits is None or rows.labels is None:
            raise DataError("temperature scaling needs the scores of all classes, and labels")
        effective_n = float(rows.n)
        if rows.weights is not None:
            effective_n = rows.sample.effective_n  # refuses bad weights
            if rows.weights.min() == 0.0:
                return cls._unfloored(rows.take(rows.weights > 0))
        logits, labels, n = rows.logits, rows.labels, rows.n
        if labels.min() < 0 or labels.max() >= logits.shape[1]:
            raise DataError(f"labels must be class numbers 0 … {logits.shape[1] - 1}")
        top, average, incomplete, lowest = np.empty(n), np.empty(n), 0, 0.0
        for at, z in _chunks(logits):
            top[at] = z.max(axis=0)
            with np.errstate(over="ignore"):
                u = np.subtract(z, top[at], order="C")
            lowest = min(lowest, float(u.min(initial=0.0, where=z > -np.inf)))
            if lowest < -FARTHEST:
                return cls._unfloored(rows._replace(logits=_without_extremes(logits)))
            absent = u == -np.inf
            if absent.any():
                u[absent] = 0.0
                incomplete += int(absent.any(axis=0).sum())
            average[at] = u.sum(axis=0) / (u.shape[0] - absent.sum(axis=0))
        margin = logits[np.arange(n), labels] - top
        impossible = margin == -np.inf
        notices: tuple[Notice, ...] = ()
        floor = 1.0 / (2.0 * n) if incomplete and rows.from_probs else 0.0
        if floor:
            notices += (notice("temperature-saturated", count=incomplete, floor=f"{floor:.3g}"),)
        if impossible.any():
            if not rows.from_probs:
                raise DataError(f"the label's own logit is -inf (row {int(impossible.argmax()) + 1})")
            notices += (notice("label-impossible", count=int(impossible.sum())),)
            margin[impossible] = NEVER
        weights = None if rows.weights is None else rows.weights * (n / float(np.sort(rows.weights).sum()))
        lead = _mean(margin - average, weights)
        clipped = incomplete > 0 or lowest <= -FARTHEST
        return cls(logits, labels, weights, effective_n, top, margin, lead, clipped, floor, notices)

    def at(self, log_scale: float) -> tuple[LikelihoodPass, Floats]:
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
            if self.bounded:
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
        return LikelihoodPass(-_mean(log_probs, self.weights), slope, _mean(second, self.weights) + slope), log_probs


def _without_extremes(logits: Floats) -> Floats:
    """The logits minus the largest of their row; differences below -FARTHEST, except -inf, are raised to it."""
    with np.errstate(over="ignore"):
        below = np.maximum(logits - logits.max(axis=1, keepdims=True), -FARTHEST)
    return np.where(logits == -np.inf, -np.inf, below)


class LikelihoodPass(NamedTuple):
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
    """Some rows at a time, classes first, so that sums over the classes are sums of whole vectors."""
    step = max(1, CHUNK_VALUES // logits.shape[1])
    for start in range(0, logits.shape[0], step):
        rows = slice(start, min(start + step, logits.shape[0]))
        yield rows, logits[rows].T


class BestTemperature(NamedTuple):
    """The temperature, the floor that belongs to it, how the search went, and notices for the user."""

    temperature: float
    floor: float
    report: dict[str, float | int]
    notices: tuple[Notice, ...]


def best_temperature(likelihood: ScaledLikelihood, prior_sd: float | None = None) -> BestTemperature:
    """The T of the largest likelihood; with `prior_sd`, of the largest posterior under log T ~ N(0, prior_sd²).

    Where the likelihood has no maximum, the prior log T ~ N(0, 1) is added and a notice says so.
    """
    unbounded = prior_sd is None and (likelihood.all_correct or likelihood.uninformative)
    if unbounded:
        prior_sd = 1.0
    precision = 0.0 if prior_sd is None else 1.0 / (prior_sd**2 * likelihood.effective_n)
    passes: dict[float, LikelihoodPass] = {}

    def at(log_scale: float) -> LikelihoodPass:
        """A pass, with the prior's part added to both derivatives if there is a prior."""
        if log_scale not in passes:
            found = likelihood.at(log_scale)[0]
            slope, bend = found.slope + precision * log_scale, found.bend + precision
            passes[log_scale] = LikelihoodPass(found.nll, slope, bend)
        return passes[log_scale]

    root = _root(at)
    raw, best = at(0.0), at(root)
    curved = best.bend > 0.0  # False at the end of the search range, where the likelihood is flat
    # From 1e-8 away, one more Newton step is exact.
    t = math.exp((best.slope / best.bend if curved else 0.0) - root)
    error = {"standard_error": t / math.sqrt(best.bend * likelihood.effective_n)} if curved else {}
    report = {
        "n": likelihood.top.size,
        **error,
        "nll_before": raw.nll,
        "nll_after": best.nll,
        "evaluations": len(passes),
    }
    notices = likelihood.notices
    if unbounded:
        notices += (notice("temperature-all-correct" if likelihood.all_correct else "temperature-uninformative"),)
    return BestTemperature(t, likelihood.floor, report, notices)


def _root(at: Callable[[float], LikelihoodPass]) -> float:
    """The τ = −log T at which the slope is zero, or the end of the search range if it is zero nowhere."""
    from scipy.optimize import brentq

    start = at(0.0)
    # A Newton step lengthened by a quarter mostly ends beyond the root; if not, longer steps follow.
    step = -start.slope / max(abs(start.bend), abs(start.slope), 1e-300)
    if step == 0.0:
        return 0.0
    near, far = 0.0, min(max(1.25 * step, -WIDEST), WIDEST)
    while at(far).slope * step < 0.0:
        if abs(far) == WIDEST:
            return far
        near, far = far, min(max(3.0 * far, -WIDEST), WIDEST)
    return float(brentq(lambda log_scale: at(log_scale).slope, near, far, xtol=1e-8))
