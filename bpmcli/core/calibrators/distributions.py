"""Whole calibrated distributions, from a calibrator of the confidence or of all classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.base import LEAST, Calibrator, DistributionCalibrator
from bpmcli.core.calibrators.spread import IN_PROPORTION, Spread
from bpmcli.core.data.sample import Floats, Ints

TRACE = 1e-12
"""Two probabilities whose ratio is this close to 1 are a tie: rounding alone can separate them."""

LEAD = 1e-6
"""A predicted class that has to be put back on top gets a probability larger by this share than the next one: too
little to matter, and enough to stay on top in float32."""


@dataclass(frozen=True)
class CalibratedDistributions:
    """Calibrated distributions, and the number of rows in which the predicted class lost the top place."""

    probs: Floats
    below_runner_up: int
    """Rows whose predicted class fell below another class, or would have fallen and was put back on top."""


def calibrate_distributions(
    calibrator: Calibrator,
    logits: Floats,
    log_odds: Floats,
    predictions: Ints,
    allow_argmax_change: bool = False,
    spread: Spread = IN_PROPORTION,
) -> CalibratedDistributions:
    """Calibrated distributions: g(ŝ) for the predicted class, and 1 − g(ŝ) spread over the others.

    A whole-distribution calibrator supplies all classes itself. The predicted class stays on top unless
    `allow_argmax_change`. For a calibrator of confidences the row temperature achieves that (see `spread`); the
    confidence is raised only where g(ŝ) < 1/K, which no distribution with this class on top can have. The result of a
    whole-distribution calibrator is changed as little as possible (see `keep_class`).

    No calibrated probability is below LEAST, and g(ŝ) stays at least the spread's floor away from 0 and 1, so that no
    label costs an infinite log loss. Only the identity leaves probabilities of 0 as they are.
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
    return CalibratedDistributions(done.probs, int(np.count_nonzero(g * logits.shape[1] < 1.0 - 1e-9)))


def with_class_kept(probs: Floats, predictions: Ints, allow_argmax_change: bool) -> CalibratedDistributions:
    """Counts the rows whose predicted class is no longer on top, and puts it back there unless that is allowed."""
    changed = probs.argmax(axis=1) != predictions
    top = probs[changed, predictions[changed]]
    below = int((probs[changed].max(axis=1) > top * (1 + TRACE)).sum())  # a tie does not count
    if changed.any() and not allow_argmax_change:
        probs[changed] = keep_class(probs[changed], predictions[changed])
    return CalibratedDistributions(probs, below)


def keep_class(probs: Floats, predictions: Ints) -> Floats:
    """The closest distributions with the predicted class on top, by Kullback–Leibler divergence and squared distance.

    The classes above the predicted one are lowered to a common level, and so is every other class that would then be
    above this level. What they lose goes to the predicted class, which ends LEAD above the level. All others keep their
    probability. benchmarks/class_kept.py compares other ways to keep the class; none has a lower log loss.
    """
    rows = np.arange(probs.shape[0])
    own = probs[rows, predictions]
    others = probs.copy()
    others[rows, predictions] = -1.0
    others = -np.sort(-others, axis=1)  # the predicted class comes last
    levels = (own[:, None] + np.cumsum(others, axis=1)) / (np.arange(2, probs.shape[1] + 2) + LEAD)
    enough = levels[:, :-1] >= others[:, 1:]
    level = levels[rows, enough.argmax(axis=1)]
    kept: Floats = np.minimum(probs, level[:, None])
    kept[rows, predictions] = level * (1.0 + LEAD)
    return kept
