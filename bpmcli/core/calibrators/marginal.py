"""Marginal calibration: the probability of every class against the rest (Kull et al. 2019, Kumar et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bpmcli.core.calibrators.base import LEAST, Calibrator
from bpmcli.core.calibrators.distributions import CalibratedDistributions, with_class_kept
from bpmcli.core.data.log_odds import log_softmax
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Ints
from bpmcli.errors import DataError

POOLED_ROWS = 1_000_000
"""The pooled curve is fitted to about this many pairs of row and class: all classes of evenly spaced rows."""


def one_vs_rest(logits: Floats, log_odds: Floats, predictions: Ints) -> Floats:
    """Log-odds of every class against the rest. The predicted class has `log_odds`, which has full precision."""
    x = log_softmax(logits)
    with np.errstate(divide="ignore"):
        x -= np.log(-np.expm1(np.minimum(x, -1e-300)))
    x[np.arange(x.shape[0]), predictions] = log_odds
    out: Floats = np.clip(x, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
    return out


def _checked(rows: Rows) -> tuple[Floats, Ints]:
    if rows.logits is None or rows.labels is None or rows.predictions is None:
        raise DataError("--marginal needs the scores of all classes, and labels", "leave --marginal out")
    return one_vs_rest(rows.logits, rows.log_odds, rows.predictions), rows.labels


def class_rows(rows: Rows) -> Iterator[tuple[int, Rows]]:
    """For each class, rows of its log-odds; a row is correct where the class is the true one."""
    x, labels = _checked(rows)
    for k in range(x.shape[1]):
        yield k, Rows(x[:, k], labels == k, rows.weights)


def pooled_rows(rows: Rows) -> Rows:
    """The rows of `class_rows` for all classes together, thinned to about POOLED_ROWS."""
    step = -(-rows.n * (1 if rows.logits is None else rows.logits.shape[1]) // POOLED_ROWS)
    few = rows.take(np.arange(0, rows.n, step))
    x, labels = _checked(few)
    weights = None if few.weights is None else np.repeat(few.weights, x.shape[1])
    return Rows(x.ravel(), (labels[:, None] == np.arange(x.shape[1])).ravel(), weights)


def calibrate_marginals(
    curve_of: Callable[[str], Calibrator], rows: Rows, allow_argmax_change: bool = False, floor: float = 0.0
) -> CalibratedDistributions:
    """Every class calibrated by its own curve and divided by the sum. By default the predicted class stays on top.

    No curve gives less than floor/K (see `Spread`) or LEAST, so that no label costs an infinite log loss.
    """
    assert rows.logits is not None
    assert rows.predictions is not None
    x = one_vs_rest(rows.logits, rows.log_odds, rows.predictions)
    least = max(floor / x.shape[1], LEAST)
    curves = [curve_of(str(k)) for k in range(x.shape[1])]
    classes: dict[int, list[int]] = {}  # of each curve: many classes may share the pooled one
    for k, curve in enumerate(curves):
        classes.setdefault(id(curve), []).append(k)
    probs = np.empty_like(x)
    for own in classes.values():
        scores = x[:, own]
        probs[:, own] = curves[own[0]].probabilities_within(scores.ravel(), least)[0].reshape(scores.shape)
    total = probs.sum(axis=1, keepdims=True)
    # If every class gets 0, which only curves without a lower bound can give, the row keeps its distribution.
    probs = np.where(total > 0, probs / np.where(total > 0, total, 1.0), np.exp(log_softmax(rows.logits)))
    return with_class_kept(probs, rows.predictions, allow_argmax_change)
