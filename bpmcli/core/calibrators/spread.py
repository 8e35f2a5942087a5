"""From a calibrated confidence to a whole distribution: how the other classes share the remaining probability.

The predicted class gets g(ŝ). The others share 1 − g(ŝ) in proportion to p_i^(1/T), where one T is fitted to the
wrong rows among the calibration rows. Where another class would overtake the predicted one, the whole row is
brought to the temperature at which the predicted class has the probability g(ŝ). So the predicted class never changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators.scaled_likelihood import ScaledLikelihood, best_temperature, floored
from bpmcli.core.data.missed import Missed
from bpmcli.core.data.rows import EVENT, Rows, SummarisedRows
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Ints

PRIOR_SD = 0.7
"""log T ~ N(0, 0.7²)."""

STEPS = 100
CLOSE = 3e-5
"""The search ends when a relative step is smaller than this; the remaining error is about its cube."""

SMALLEST_REST = 1e-15
"""Smaller differences cannot be told from rounding after 1 is subtracted."""

CHUNK_VALUES = 1 << 16
"""Scores per chunk: two buffers of 0.5 MB stay in the cache."""


class Spread(NamedTuple):
    """How the other classes share 1 − g(ŝ); by default in proportion to their probabilities."""

    temperature: float = 1.0
    floor: float = 0.0
    """Uniform share mixed in first, so that no class stays impossible. 0 if the scores were logits."""

    def distributions(self, g: Floats, miss: Floats, logits: Floats, predictions: Ints) -> Floats:
        """g for the predicted class, 1 − g spread over the others by p_i^(1/T)."""
        at = np.arange(logits.shape[0]), predictions
        others = floored(logits, self.floor) / self.temperature
        others[at] = -np.inf
        probs = _softmax_or_uniform(others, predictions)
        probs *= miss[:, None]
        probs[at] = g
        return probs

    def keeping_class(self, g: Floats, miss: Floats, logits: Floats, predictions: Ints) -> Floats:
        """The same, with the row temperature where another class would overtake the predicted class."""
        probs = self.distributions(g, miss, logits, predictions)
        overtaken = np.flatnonzero(probs.max(axis=1) > g)
        if overtaken.size:
            rows = floored(logits[overtaken], self.floor)
            probs[overtaken] = at_row_temperature(rows, predictions[overtaken], g[overtaken], miss[overtaken])
        return probs


IN_PROPORTION = Spread()


def at_row_temperature(logits: Floats, predictions: Ints, g: Floats, miss: Floats) -> Floats:
    """softmax(β z) with β ≥ 0 for each row such that the predicted class, the largest one, has probability g.

    With d_i = z_i − z_top ≤ 0 the equation is log Σ_{others} e^{β d_i} = log((1 − g) / g). Its left side is convex
    and falls in β. If g is below 1/K, the answer is β = 0: uniform.
    """
    out = np.empty(logits.shape)
    with np.errstate(divide="ignore"):
        target = np.log(miss) - np.log(g)
    step = max(1, CHUNK_VALUES // logits.shape[1])
    for start in range(0, logits.shape[0], step):
        rows = slice(start, start + step)
        top = logits[np.arange(start, min(start + step, logits.shape[0])), predictions[rows]]
        gaps = np.subtract(logits[rows], top[:, None], out=out[rows])
        np.maximum(gaps, -LOG_ODDS_LIMIT, out=gaps)
        gaps *= _row_sharpness(gaps, target[rows])[:, None]
        np.exp(gaps, out=gaps)
        gaps /= gaps.sum(axis=1)[:, None]
    return out


def _row_sharpness(gaps: Floats, target: Floats) -> Floats:
    """β of every row. Each row stops by itself, so its result does not depend on the rows beside it.

    Each step solves the equation to second order. If that has no solution, it is a Newton step, which for a convex,
    falling function ends at or below the solution.
    """
    beta, rows = np.ones(target.size), np.arange(target.size)
    terms = np.empty(gaps.shape)
    for _ in range(STEPS):
        now = terms[: rows.size]
        np.exp(np.multiply(gaps, beta[rows, None], out=now), out=now)
        # The predicted class has e^0 = 1.
        others = np.maximum(now.sum(axis=1) - 1.0, SMALLEST_REST)
        now *= gaps
        slope = np.minimum(now.sum(axis=1) / others, -1e-300)
        bend = np.maximum(np.einsum("ij,ij->i", now, gaps) / others - slope**2, 0.0)
        newton = (target[rows] - np.log(others)) / slope
        # δ with F'δ + F''δ²/2 = F'·newton, in the form that does not cancel.
        inside = 1.0 + 2.0 * newton * bend / slope
        step = np.where(inside > 0.0, 2.0 * newton / (1.0 + np.sqrt(np.maximum(inside, 0.0))), newton)
        new = np.maximum(beta[rows] + step, 0.0)
        moved = np.abs(new - beta[rows]) > CLOSE * np.maximum(new, 1.0)
        beta[rows] = new
        if not moved.any():
            break
        if not moved.all():
            rows, gaps = rows[moved], gaps[moved]
    return beta


def floor_of(rows: Rows) -> float:
    """1/(2N) for probabilities, which can be exactly 0, and 0 for logits."""
    return 1.0 / (2.0 * rows.n) if rows.from_probs else 0.0


def fit_spread(rows: Rows) -> Spread | None:
    """T by its posterior under log T ~ N(0, 0.7²) on the wrong rows; None where the scores of classes are not known."""
    if rows.target == EVENT or isinstance(rows, SummarisedRows):
        return None
    missed = rows.missed
    if missed is None and rows.logits is not None and rows.labels is not None and rows.predictions is not None:
        wrong = ~rows.hits & (rows.labels >= 0)  # an unknown row has no true class among the others
        weights = None if rows.weights is None else rows.weights[wrong]
        missed = Missed(rows.logits[wrong], rows.predictions[wrong], rows.labels[wrong], weights).few()
    if missed is None:
        return None
    floor = floor_of(rows)
    usable = missed.weights is None or bool(np.any(missed.weights > 0))
    if missed.labels.size == 0 or missed.logits.shape[1] < 3 or not usable:
        return Spread(1.0, floor)
    return Spread(_fitted_temperature(missed, floor), floor)


def _fitted_temperature(missed: Missed, floor: float) -> float:
    """The temperature of the other classes on wrong rows."""
    others = floored(missed.logits, floor).copy()
    at = np.arange(missed.labels.size)
    others[at, missed.predictions] = -np.inf
    possible = others[at, missed.labels] > -np.inf
    if not possible.all():  # the logits of some classes may be missing
        missed, others = missed.take(possible), others[possible]
    if not missed.labels.size:
        return 1.0
    none = np.zeros(missed.labels.size)
    bare = Rows(none, none.astype(bool), missed.weights, missed.predictions, missed.labels, logits=others)
    return best_temperature(ScaledLikelihood.of(bare), PRIOR_SD).temperature


def _softmax_or_uniform(others: Floats, predictions: Ints) -> Floats:
    """Softmax over the other classes. Uniform in rows where every other class has probability 0."""
    largest = others.max(axis=1)
    empty = np.flatnonzero(np.isneginf(largest))
    others[empty] = largest[empty] = 0.0
    others[empty, predictions[empty]] = -np.inf
    with np.errstate(over="ignore"):  # a difference that overflows is -inf, which is as good as any
        others -= largest[:, None]
    np.exp(others, out=others)
    others /= np.einsum("ij->i", others)[:, None]
    return others
