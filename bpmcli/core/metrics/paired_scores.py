"""Two models on the same rows: the standard error of the difference of scores and class-wise errors.

The scores are means over rows (accuracy, Brier scores, log losses) or nearly so (AUROC). Each row has an influence on
the score, which is how far it moves the score from its mean (Hampel 1974); for AUROC it is the one that DeLong et
al. (1988) use. The difference of two models has the variance of the rows' differences of influence. The class-wise
errors are resampled: the same rows for both models, each in the bins of its own sample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, make_room_for_hit, sigmoid
from bpmcli.core.metrics.registry import METRICS, MetricOptions
from bpmcli.core.metrics.whole import losses_of
from bpmcli.core.metrics.whole_intervals import class_errors, common_order
from bpmcli.errors import UsageError

CLASS_ERRORS = ("ece-classwise", "ece-marginal")


def is_score(name: str) -> bool:
    """Whether the metric's standard error is found here, and not from resampled outcomes."""
    return not METRICS[name].calibration_error


def score_errors(
    first: Rows, second: Rows, names: Sequence[str], options: MetricOptions, runs: int, seed: int
) -> dict[str, float]:
    """The standard error of the difference of every score that both models have."""
    out = {}
    weights = np.ones(first.n) if second.weights is None else second.weights
    for name in names:
        if name not in CLASS_ERRORS:
            change = _influence(second, name) - _influence(first, name)
            there = ~np.isnan(change)
            errors = weights[there] / weights[there].sum() * change[there]
            if second.clusters is not None:
                errors = np.bincount(second.clusters.codes[there], errors)
            out[name] = float(np.sqrt(np.square(errors).sum()))
    resampled = [name for name in names if name in CLASS_ERRORS]
    if resampled:
        order = common_order(first, second)
        found = [class_errors(rows.take(order), options, runs, seed, paired=True) for rows in (first, second)]
        out |= {name: float((found[1][name] - found[0][name])[1:].std(ddof=1)) for name in resampled}
    return out


def _influence(rows: Rows, name: str) -> Floats:
    """How far each row's value lies from the mean; NaN for rows that do not count."""
    if name == "auroc":
        return _auroc_influence(rows)
    values = _row_values(rows, name)
    there = ~np.isnan(values)
    weights = None if rows.weights is None else rows.weights[there]
    centred: Floats = values - float(np.average(values[there], weights=weights))
    return centred


def _row_values(rows: Rows, name: str) -> Floats:
    """What each row adds to a score that is a mean over rows."""
    if name in ("nll-all", "brier-all"):
        return losses_of(rows)[("nll-all", "brier-all").index(name)]
    if name == "accuracy":
        return rows.hits.astype(np.float64)
    if name not in ("brier", "nll"):
        raise UsageError(f"{name} is not a mean over rows, so its difference has no standard error here")
    x = rows.log_odds.copy()
    make_room_for_hit(x)  # as the sample does
    against = np.where(rows.hits, -x, x)
    values: Floats = np.square(sigmoid(against)) if name == "brier" else np.logaddexp(0.0, against)
    return values


def _auroc_influence(rows: Rows) -> Floats:
    """(Share of the other kind that a row is in the right order with − AUROC) / share of its own kind."""
    weights = np.ones(rows.n) if rows.weights is None else rows.weights
    weights = weights / weights.sum()
    out, hits = np.empty(rows.n), np.asarray(rows.hits, dtype=bool)
    for own, sign in ((hits, 1.0), (~hits, -1.0)):
        others, held = sign * rows.log_odds[~own], weights[~own]
        order = np.argsort(others, kind="stable")
        before = np.concatenate([[0.0], np.cumsum(held[order])])
        mine = sign * rows.log_odds[own]
        below, up_to = (before[np.searchsorted(others[order], mine, side)] for side in ("left", "right"))
        share = 0.5 * (below + up_to) / before[-1]
        out[own] = (share - float(np.average(share, weights=weights[own]))) / float(weights[own].sum())
    return out
