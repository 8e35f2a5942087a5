"""The likelihood of softmax(z / T) at any temperature, in passes over chunks of rows.

Sums over rows are taken in fixed point, so that they are the same to the last bit in any order of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
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

CHUNK_VALUES = 1 << 16
"""Scores per chunk: two buffers of 0.5 MB stay in the cache."""


def floored(logits: Floats, floor: float) -> Floats:
    """log((1 − ε)·softmax(z) + ε/K): no class is impossible any more. z itself for ε = 0."""
    if floor == 0.0:
        return logits
    return np.logaddexp(log_softmax(logits) + math.log1p(-floor), math.log(floor / logits.shape[1]))


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
    """The true class's logit less the largest one."""
    lead: float
    """By how much the true class's logit exceeds the mean of the classes that are present, on average."""
    incomplete: int
    """Rows with a logit of -inf."""
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

        Probabilities of exactly 0 stay 0 at any temperature, so the calibrator gets a floor of 1/(2N). The fit
        itself sees it only where no temperature is best without it.
        """
        found = cls._unfloored(rows)
        if not (found.floor and (found.all_correct or found.uninformative)):
            return found
        assert rows.logits is not None
        again = cls._unfloored(replace(rows, logits=floored(rows.logits, found.floor)))
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
        floor = 1.0 / (2.0 * n) if incomplete and rows.from_probs else 0.0
        if floor:
            notices += (notice("temperature-saturated", count=incomplete, floor=f"{floor:.3g}"),)
        if impossible.any():
            if not rows.from_probs:
                raise DataError(f"the label's own logit is -inf (row {int(impossible.argmax()) + 1})")
            notices += (notice("label-impossible", count=int(impossible.sum())),)
            margin[impossible] = NEVER
        weights = rows.weights
        if weights is not None:
            weights = weights * (n / float(np.sort(weights).sum()))
        lead = _mean(margin - average, weights)
        return cls(logits, labels, weights, effective_n, top, margin, lead, incomplete, floor, notices)

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
        return LikelihoodPass(-_mean(log_probs, self.weights), slope, _mean(second, self.weights) + slope), log_probs


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
    """Some rows at a time, classes first: sums over the classes then run over whole vectors."""
    step = max(1, CHUNK_VALUES // logits.shape[1])
    for start in range(0, logits.shape[0], step):
        rows = slice(start, min(start + step, logits.shape[0]))
        yield rows, logits[rows].T
