"""The first step of the averaged matrix: a floor under the probabilities, and a temperature.

    x = log((1 − ε) P + ε/K),    X = log((1 − m) softmax(a x) + m/K)

Decision trees, nearest neighbours and naive Bayes give probabilities of (nearly) 0, which no linear map of logarithms
can repair. ε is chosen from a short list by likelihood. a = 1/T is the inverse temperature, and log a has the prior
N(0, 1). m is a small uniform share, so that X stays finite.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators.linear.forms import softmax
from bpmcli.core.calibrators.linear.table import TrainingRows
from bpmcli.core.data.sample import Floats

FLOORS = (0.0, 1e-8, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1)
GAIN = 1.0
"""A positive floor must raise the log-posterior by at least this many nats."""

MOST_UNIFORM = 0.002
"""m = 1/(n + 1), but no more than this: with 50 rows, 1/51 would spoil an accurate model."""

STEPS = 100

SAFE = 100.0
"""e^-x does not underflow for x up to this."""


class Start(NamedTuple):
    """ε, log a and m."""

    floor: float
    log_sharpness: float
    uniform: float

    def scores(self, x: Floats) -> tuple[Floats, Floats]:
        """softmax(a x) with its uniform part, and its logarithm X, from log-probabilities (classes × rows)."""
        a = math.exp(self.log_sharpness)
        q = a * with_floor(x, self.floor)
        if a * math.log(x.shape[0]) > SAFE:  # otherwise the largest, at least −log K, cannot underflow
            q -= q.max(axis=0)
        np.exp(q, out=q)
        q *= (1.0 - self.uniform) / q.sum(axis=0)
        q += self.uniform / x.shape[0]
        return q, np.log(q)

    def applied(self, table: TrainingRows) -> TrainingRows:
        """The table with X as its log-probabilities."""
        x = np.empty_like(table.x)
        at = 0
        for part, _, _ in table.chunks():
            x[:, at : at + part.shape[1]] = self.scores(part)[1]
            at += part.shape[1]
        return table.with_scores(x)


def with_floor(x: Floats, floor: float) -> Floats:
    """log((1 − ε) P + ε/K)."""
    if floor == 0.0:
        return x
    p = np.exp(x)
    p *= 1.0 - floor
    p += floor / x.shape[0]
    return np.log(p, out=p)


def fit_start(table: TrainingRows, n: float) -> Start:
    """ε and log a with the highest posterior, and m, which depends on the number `n` of all rows."""
    best, found, t = math.inf, (0.0, 0.0), 0.0
    for floor in FLOORS:
        t, value = fit_inverse_temperature(table, floor, t)
        value += GAIN if floor > 0.0 else 0.0
        if value < best:
            best, found = value, (floor, t)
    return Start(*found, min(1.0 / (n + 1.0), MOST_UNIFORM))


def fit_inverse_temperature(
    table: TrainingRows, floor: float, t: float, deviation: float = 1.0, tolerance: float = 1e-3
) -> tuple[float, float]:
    """log a and −log posterior at its maximum, by Newton's method with halved steps; log a ~ N(0, deviation²)."""
    parts = [(with_floor(x, floor), labels, weights) for x, labels, weights in table.chunks()]

    def at(t: float) -> tuple[float, float, float]:
        pull = deviation**-2
        a, value, slope, bend = math.exp(t), 0.5 * pull * t * t, pull * t, pull
        for x, labels, weights in parts:
            rows = np.arange(labels.size)
            label = x[labels, rows]
            p, log_total = softmax(a * x)
            p *= x
            mean = p.sum(axis=0)
            spread = np.einsum("kn,kn->n", p, x) - mean * mean
            w = 1.0 if weights is None else weights
            value += float((w * (log_total - a * label)).sum())
            rise = a * float((w * (mean - label)).sum())
            slope += rise
            bend += a * a * float((w * spread).sum()) + max(rise, 0.0)
        return value, slope, bend

    value, slope, bend = at(t)
    for _ in range(STEPS):
        step = min(max(-slope / bend, -1.0), 1.0)
        new = at(t + step)
        while new[0] > value + 1e-9 and abs(step) > 1e-9:
            step *= 0.5
            new = at(t + step)
        t += step
        value, slope, bend = new
        if abs(slope) < tolerance or abs(step) < 1e-3 * tolerance:
            break
    return t, value
