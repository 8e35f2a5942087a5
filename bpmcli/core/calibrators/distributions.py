"""A calibrated confidence put back into the whole distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.base import LEAST, Calibrator, DistributionCalibrator
from bpmcli.core.calibrators.spread import IN_PROPORTION, Spread
from bpmcli.core.data.sample import Floats, Ints

TRACE = 1e-12
"""Enough to survive the rounding of the row's other entries, too little to matter."""


@dataclass(frozen=True)
class CalibratedDistributions:
    """Calibrated distributions, and how many of them put another class than the predicted one on top."""

    probs: Floats
    below_runner_up: int
    """Rows whose predicted class fell below another one, or would have and was raised."""


def calibrate_distributions(
    calibrator: Calibrator,
    logits: Floats,
    log_odds: Floats,
    predictions: Ints,
    allow_argmax_change: bool = False,
    spread: Spread = IN_PROPORTION,
) -> CalibratedDistributions:
    """All classes by a calibrator of whole distributions; otherwise g(ŝ) on top and 1 − g(ŝ) spread over the others.

    The predicted class stays on top unless `allow_argmax_change`. A calibrator of confidences achieves that by the
    row temperature (see `spread`); it raises the confidence only where g(ŝ) < 1/K, which no distribution with this
    class on top can have. The result of a calibrator of whole distributions is changed as little as possible: the
    predicted class and the largest one get the same probability, the predicted class a trace more.

    No calibrated probability is below LEAST, and g(ŝ) keeps the distance of the spread's floor from 0 and 1, so that
    no label costs an infinite log loss. Only the identity leaves probabilities of 0 as they are.
    """
    if isinstance(calibrator, DistributionCalibrator):
        probs = np.maximum(np.exp(calibrator.distributions(logits)), LEAST)
        probs /= probs.sum(axis=1, keepdims=True)
        return with_class_kept(probs, predictions, allow_argmax_change and not calibrator.keeps_order)
    g, miss = calibrator.probabilities_within(log_odds, max(spread.floor, LEAST))
    probs = (spread.distributions if allow_argmax_change else spread.keeping_class)(g, miss, logits, predictions)
    if calibrator.bounded:
        np.maximum(probs, LEAST, out=probs)
    done = with_class_kept(probs, predictions, allow_argmax_change)
    if allow_argmax_change:
        return done
    return CalibratedDistributions(done.probs, int((g * logits.shape[1] < 1.0 - 1e-9).sum()))


def with_class_kept(probs: Floats, predictions: Ints, allow_argmax_change: bool) -> CalibratedDistributions:
    """Counts the rows whose predicted class is no longer on top, and puts it back there unless that is allowed."""
    changed = probs.argmax(axis=1) != predictions
    top = probs[changed, predictions[changed]]
    below = int((probs[changed].max(axis=1) > top * (1 + TRACE)).sum())  # a tie does not count
    if changed.any() and not allow_argmax_change:
        probs[changed] = keep_class(probs[changed], predictions[changed])
    return CalibratedDistributions(probs, below)


def keep_class(probs: Floats, predictions: Ints) -> Floats:
    """The closest distributions with the predicted class on top, in the Kullback–Leibler sense and in squares.

    The predicted class and the classes above it share their mean (with as many of the next ones as that mean falls
    below); all others keep their probability. The predicted class gets a trace more, so that it is on top alone.
    """
    rows = np.arange(probs.shape[0])
    own = probs[rows, predictions]
    others = probs.copy()
    others[rows, predictions] = -1.0
    others = -np.sort(-others, axis=1)  # the predicted class comes last
    means = (own[:, None] + np.cumsum(others, axis=1)) / np.arange(2, probs.shape[1] + 2)
    enough = means[:, :-1] >= others[:, 1:]
    mean = means[rows, enough.argmax(axis=1)]
    kept: Floats = np.minimum(probs, mean[:, None])
    kept[rows, predictions] = mean * (1 + TRACE)
    return kept
