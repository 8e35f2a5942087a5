"""A calibrated confidence put back into the whole distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.base import Calibrator
from bpmcli.core.reduce import log_softmax
from bpmcli.core.sample import Floats, Ints


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
    change: both get the same probability, the predicted class a trace more.
    """
    rows = np.arange(logits.shape[0])
    if calibrator.needs_distribution:
        probs = np.exp(calibrator.log_probabilities(logits))
        probs /= probs.sum(axis=1, keepdims=True)
        changed = int((probs.argmax(axis=1) != predictions).sum())
        return Calibrated(probs, changed)
    g, miss = calibrator(log_odds)
    others = logits.copy()
    others[rows, predictions] = -np.inf
    shares = np.exp(log_softmax(others))  # of the complement, summing to one without the top
    runner_up = shares.max(axis=1)
    below = g < miss * runner_up
    if below.any() and not allow_argmax_change:
        # g = (1 - g)·r  ⇒  g = r / (1 + r)
        r = runner_up[below]
        tie = r / (1 + r) * (1 + TRACE)
        g, miss = g.copy(), miss.copy()
        g[below], miss[below] = tie, 1.0 - tie
    probs = shares * miss[:, None]
    probs[rows, predictions] = g
    return Calibrated(probs, int(below.sum()))
