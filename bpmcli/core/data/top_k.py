"""Is the true class among the k most probable ones? Their summed probability is the confidence (Gupta et al. 2021)."""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.class_scores import ClassScores
from bpmcli.core.data.log_odds import Reduced
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Ints
from bpmcli.errors import DataError


def within_top(scores: ClassScores, labels: Ints, k: int, reduced: Reduced) -> tuple[Reduced, np.ndarray]:
    """Log-odds of "the true class is among the k most probable", and whether it is, row by row.

    The confidence is the sum of the k largest probabilities ("within-top-k", Gupta et al. 2021, ICLR). Among classes of
    equal probability the first ones are taken, as for the predicted class. An unknown row (a label below 0) is a miss.
    """
    if k >= scores.n_classes:
        raise DataError(
            f"--top-k {k} needs more than {k} classes, found {scores.n_classes}",
            f"--top-k {scores.n_classes - 1} or less" if scores.n_classes > 2 else "leave --top-k out",
        )
    if k == 1:
        return reduced, reduced.predictions == labels
    x, hits, ties = np.empty(labels.size), np.empty(labels.size, dtype=bool), 0
    for part, logs in scores.chunks():
        y = labels[part]
        own = logs[np.arange(y.size), np.maximum(y, 0)][:, None]
        earlier = np.arange(logs.shape[1]) < y[:, None]
        rank = (logs > own).sum(axis=1) + ((logs == own) & earlier).sum(axis=1)
        hits[part] = (rank < k) & (y >= 0)
        logs = np.sort(logs, axis=1)
        ties += int((logs[:, -k] == logs[:, -k - 1]).sum())
        x[part] = _log_sum(logs[:, -k:]) - _log_sum(logs[:, :-k])
    np.clip(x, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT, out=x)
    return reduced._replace(log_odds=x, argmax_ties=ties, saturated=int((x >= LOG_ODDS_LIMIT).sum())), hits


def _log_sum(logs: Floats) -> Floats:
    """log Σ e^z of every row, added in ascending order; -inf if every z is -inf."""
    top = np.maximum(logs[:, -1:], -np.finfo(np.float64).max)
    with np.errstate(divide="ignore"):
        found: Floats = top[:, 0] + np.log(np.exp(logs - top).sum(axis=1))
    return found
