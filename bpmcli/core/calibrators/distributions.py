"""A calibrated confidence put back into the whole distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.base import Calibrator, DistributionCalibrator
from bpmcli.core.data.log_odds import log_softmax
from bpmcli.core.data.sample import Floats, Ints

TRACE = 1e-12
"""Enough to survive the rounding of the row's other entries, too little to matter."""


@dataclass(frozen=True)
class CalibratedDistributions:
    """Calibrated distributions, and how many of them put another class than the predicted one on top."""

    probs: Floats
    below_runner_up: int
    """Rows whose predicted class falls below another class, before it is kept."""


def calibrate_distributions(
    calibrator: Calibrator, logits: Floats, log_odds: Floats, predictions: Ints, allow_argmax_change: bool = False
) -> CalibratedDistributions:
    """All classes by a calibrator of whole distributions; otherwise g(ŝ) on top and 1 − g(ŝ) shared in proportion.

    Where the predicted class would fall below another one, it is kept by the smallest change: both get the
    same probability, the predicted class a trace more. With `allow_argmax_change` it may fall below, unless
    the calibrator promises to keep the order: then it can only be a tie by rounding.
    """
    if isinstance(calibrator, DistributionCalibrator):
        probs = np.exp(calibrator.distributions(logits))
        probs /= probs.sum(axis=1, keepdims=True)
        allow_argmax_change &= not calibrator.keeps_order
    else:
        g, miss = calibrator(log_odds)
        probs = shares_of_others(logits, predictions) * miss[:, None]
        probs[np.arange(logits.shape[0]), predictions] = g
    return with_class_kept(probs, predictions, allow_argmax_change)


def with_class_kept(probs: Floats, predictions: Ints, allow_argmax_change: bool) -> CalibratedDistributions:
    """Counts the rows whose predicted class is no longer on top, and puts it back there unless that is allowed."""
    changed = probs.argmax(axis=1) != predictions
    top = probs[changed, predictions[changed]]
    below = int((probs[changed].max(axis=1) > top * (1 + TRACE)).sum())  # a tie does not count
    if changed.any() and not allow_argmax_change:
        probs[changed] = keep_class(probs[changed], predictions[changed])
    return CalibratedDistributions(probs, below)


def shares_of_others(logits: Floats, predictions: Ints) -> Floats:
    """How the other classes share what the predicted one leaves: they sum to one without it."""
    others = logits.copy()
    rows = np.arange(logits.shape[0])
    others[rows, predictions] = -np.inf
    # A row with a single class above 0 does not tell which of the others is likelier.
    empty = np.isneginf(others.max(axis=1))
    others[empty] = 0.0
    others[rows[empty], predictions[empty]] = -np.inf
    return np.exp(log_softmax(others))


def keep_class(probs: Floats, predictions: Ints) -> Floats:
    """The predicted class raised to a tie with the largest: top t with t = (1 − t)·r, so t = r / (1 + r)."""
    rows = np.arange(probs.shape[0])
    others = probs.copy()
    others[rows, predictions] = 0.0
    others /= others.sum(axis=1, keepdims=True)
    r = others.max(axis=1)
    tie = r / (1 + r) * (1 + TRACE)
    kept: Floats = others * (1.0 - tie)[:, None]
    kept[rows, predictions] = tie
    return kept
