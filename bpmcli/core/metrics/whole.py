"""Scores of whole distributions: the log loss and the Brier score of all classes, row by row and on average."""

from __future__ import annotations

import math

import numpy as np

from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, Ints

IMPOSSIBLE = -math.log(5e-324)
"""The log loss of a row whose true class has a probability of exactly 0: as if it were the smallest float64."""


def whole_losses(log_probs: Floats, labels: Ints) -> tuple[Floats, Floats]:
    """Log loss −log p_y and Brier score Σ_k (p_k − [k = y])² (Brier 1950) of every row's distribution.

    Both are computed from the probabilities of the other classes where these are small, so that nothing cancels on
    rows whose probability rounds to 1. A true class with a probability of 0 costs IMPOSSIBLE. A row without a true
    class (a label below 0) has a log loss of NaN and a Brier score of Σ_k p_k².
    """
    rows, known, at = np.arange(len(labels)), labels >= 0, np.maximum(labels, 0)
    probs = np.exp(log_probs)
    probs[rows[known], at[known]] = 0.0
    others = np.einsum("ij->i", probs)
    true = log_probs[rows, at]
    log_loss = np.where(np.isneginf(true), IMPOSSIBLE, -true)
    log_loss = np.where(others < 0.5, -np.log1p(-np.minimum(others, 0.5)), log_loss)
    brier = np.einsum("ij,ij->i", probs, probs) + np.where(known, others**2, 0.0)
    return np.where(known, log_loss, np.nan), brier


def losses_of(rows: Rows) -> tuple[Floats, Floats]:
    """Log loss and Brier score of every row, a chunk at a time."""
    assert rows.scores is not None
    assert rows.labels is not None
    log_loss, brier = np.empty(rows.n), np.empty(rows.n)
    for part, log_probs in rows.scores.chunks():
        log_loss[part], brier[part] = whole_losses(log_probs, rows.labels[part])
    return log_loss, brier


def mean(values: Floats, weights: Floats | None = None) -> float:
    """The weighted mean, rounded once: it does not depend on the order of the rows."""
    if weights is None:
        return math.fsum(values.tolist()) / values.size
    weights = weights / weights.max()
    return math.fsum((values * weights).tolist()) / math.fsum(weights.tolist())
