"""From a calibrated confidence to a whole distribution: how the other classes share the remaining probability.

The predicted class gets g(ŝ). The others share 1 − g(ŝ) in proportion to p_i^(1/T), where one T is fitted to the
wrong rows among the calibration rows. Where another class would overtake the predicted one, the whole row is
brought to the temperature at which the predicted class has the probability g(ŝ). So the predicted class never changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators.row_temperature import at_row_temperature
from bpmcli.core.calibrators.scaled_likelihood import ScaledLikelihood, best_temperature, divided, floored
from bpmcli.core.data.missed import Missed
from bpmcli.core.data.rows import EVENT, Rows, SummarisedRows
from bpmcli.core.data.sample import Floats, Ints

PRIOR_SD = 0.7
"""log T ~ N(0, 0.7²)."""


class Spread(NamedTuple):
    """How the other classes share 1 − g(ŝ); by default in proportion to their probabilities."""

    temperature: float = 1.0
    floor: float = 0.0
    """Uniform share mixed in first, so that no class stays impossible. 0 if the scores were logits."""

    def distributions(self, g: Floats, miss: Floats, logits: Floats, predictions: Ints) -> Floats:
        """g for the predicted class, 1 − g spread over the others by p_i^(1/T)."""
        at = np.arange(logits.shape[0]), predictions
        others = divided(floored(logits, self.floor), self.temperature)
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
