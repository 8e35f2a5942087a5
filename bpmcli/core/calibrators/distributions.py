"""A calibrated confidence put back into the whole distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.base import Calibrator
from bpmcli.core.data.log_odds import log_softmax
from bpmcli.core.data.sample import Floats, Ints

TRACE = 1e-12
"""Enough to survive the rounding of the row's other entries, too little to matter."""


@dataclass(frozen=True)
class Calibrated:
    """Distributions and how often the predicted class stood in the way."""

    probs: Floats
    below_runner_up: int
    """Rows whose calibrated top probability falls below another class."""


def calibrate_distributions(
    calibrator: Calibrator, logits: Floats, log_odds: Floats, predictions: Ints, allow_argmax_change: bool = False
) -> Calibrated:
    """The top probability becomes g(ŝ), the others share 1 − g(ŝ) in proportion.

    Where g(ŝ) would fall below the runner-up's share, the predicted class is kept by the smallest
    change: both get the same probability, the predicted class a trace more. Calibrators of whole
    distributions keep the order of the classes; only rounding can make a tie of it.
    """
    rows = np.arange(logits.shape[0])
    if calibrator.needs_distribution:
        probs = np.exp(calibrator.log_probabilities(logits))
        probs /= probs.sum(axis=1, keepdims=True)
        tied = probs.argmax(axis=1) != predictions
        if tied.any():
            probs[tied, predictions[tied]] = probs[tied].max(axis=1) * (1 + TRACE)
        return Calibrated(probs, 0)
    g, miss = calibrator(log_odds)
    probs = shares_of_others(logits, predictions) * miss[:, None]
    probs[rows, predictions] = g
    changed = probs.argmax(axis=1) != predictions
    below = int((probs[changed].max(axis=1) > g[changed] * (1 + TRACE)).sum())  # a tie is no change of mind
    if changed.any() and not allow_argmax_change:
        probs[changed] = keep_class(probs[changed], predictions[changed])
    return Calibrated(probs, below)


def shares_of_others(logits: Floats, predictions: Ints) -> Floats:
    """How the other classes share what the predicted one leaves: they sum to one without it."""
    others = logits.copy()
    rows = np.arange(logits.shape[0])
    others[rows, predictions] = -np.inf
    # A one-hot row does not say which of the others is likelier.
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
