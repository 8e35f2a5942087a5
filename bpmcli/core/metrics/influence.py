"""How far each row moves a metric that is a mean over rows, or nearly so (Hampel 1974).

The standard error of such a metric is the standard error of the mean influence of the rows. For a difference between
two models on the same rows, it is the standard error of the mean difference of their influences.

The class-wise errors are sums over bins, E^p = 1/K Σ_k Σ_b m |R/m|^p. Here m is the share of the rows that are in bin b
of class k, and R is the sum of their [y = k] − p_k divided by the number of all rows. The influence is the derivative
with respect to m and R, in fixed bins. At R = 0 the derivative of |R| jumps, so the derivative of the mean of
|R + noise| is taken, where the noise has half of the variance v of R: it is erf(R / √v). The standard error is then
right if R is large, and within 15 % if R is all noise. benchmarks/paired.py --whole measures pairs of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, make_room_for_hit, sigmoid
from bpmcli.core.metrics.decomposition import BrierParts, row_parts
from bpmcli.core.metrics.registry import MetricOptions
from bpmcli.core.metrics.whole import losses_of
from bpmcli.core.metrics.whole_intervals import binned, shares_of
from bpmcli.errors import UsageError

BRIER_PARTS = BrierParts._fields
LOSSES = ("nll-all", "brier-all")
CLASS_ERRORS = ("ece-classwise", "ece-marginal")
MEANS = ("accuracy", "brier", "nll", *BRIER_PARTS)
KNOWN = (*LOSSES, *CLASS_ERRORS, "auroc", *MEANS)
"""The metrics whose influences are computed here."""
FEWER = 2.0 ** np.arange(-6.0, 21.0)
"""The values of N/n − 1 for which it is computed how much noise n < N rows would add."""

TINY = 1e-6
"""An error below this counts as 0; with p = 50, the highest power, nothing overflows."""


class Influence(NamedTuple):
    """The influence of each row on a metric."""

    rows: Floats
    """How much each row moves value^power, centred at 0; NaN for a row that does not count."""
    power: float = 1.0
    noise: Floats | None = None
    """How much the noise of fewer rows would add to value^power, for each entry of FEWER; None if it adds nothing."""


def influences(rows: Rows, names: Sequence[str], options: MetricOptions) -> dict[str, Influence]:
    """The influences of the rows on the metrics, which must be among KNOWN."""
    losses = dict(zip(LOSSES, losses_of(rows), strict=True)) if any(name in LOSSES for name in names) else {}
    found = {name: _of_mean(losses[name], rows) for name in names if name in LOSSES}
    if any(name in CLASS_ERRORS for name in names):
        found |= _of_class_errors(rows, options)
    for name in names:
        if name == "auroc":
            found[name] = Influence(_auroc_influence(rows))
        elif name not in found:
            found[name] = _of_mean(_row_values(rows, name), rows)
    return {name: found[name] for name in names}


def standard_error(change: Floats, rows: Rows) -> float:
    """The standard error of the mean of influences, or of their differences; rows of a cluster are added up first."""
    weights = np.ones(rows.n) if rows.weights is None else rows.weights
    there = ~np.isnan(change)
    if not there.any():
        return 0.0
    errors = weights[there] / weights[there].sum() * change[there]
    if rows.clusters is not None:
        errors = np.bincount(rows.clusters.codes[there], errors)
    return float(np.sqrt(np.square(errors).sum()))


def slope(first: float, second: float, power: float) -> float:
    """(b − a) / (b^p − a^p), which turns a change of value^p into a change of the value; the derivative if a = b."""
    top = max(first, second)
    if power == 1.0 or top < TINY:
        return 1.0
    share = min(first, second) / top
    change = 1.0 - share**power
    return float(top ** (1 - power) * ((1.0 - share) / change if change else 1.0 / power))


def noise_of_fewer(noise: Floats | None, share: float) -> float:
    """How much the noise adds to value^power if the number of rows is divided by `share`, which is above 1."""
    if noise is None or share <= 1:
        return 0.0
    return float(np.interp(np.sqrt(share - 1), [0.0, *np.sqrt(FEWER)], [0.0, *noise]))


def _of_mean(values: Floats, rows: Rows) -> Influence:
    there = ~np.isnan(values)
    weights = None if rows.weights is None else rows.weights[there]
    return Influence(values - float(np.average(values[there], weights=weights)) if there.any() else values)


def _row_values(rows: Rows, name: str) -> Floats:
    """What each row adds to a score that is a mean over rows."""
    if name == "accuracy":
        return rows.hits.astype(np.float64)
    if name not in MEANS:
        raise UsageError(f"{name} is not a mean over rows, so its difference has no standard error here")
    x = rows.log_odds.copy()
    make_room_for_hit(x)  # as the sample does
    if name in BRIER_PARTS:
        return row_parts(rows.sample, x, rows.hits.astype(np.float64))[BRIER_PARTS.index(name)]
    against = np.where(rows.hits, -x, x)
    values: Floats = np.square(sigmoid(against)) if name == "brier" else np.logaddexp(0.0, against)
    return values


def _auroc_influence(rows: Rows) -> Floats:
    """The influence of each row on the AUROC, with the variance of DeLong et al. (1988).

    For a correct row it is the share of wrong rows with a lower confidence, minus the AUROC, divided by the share of
    correct rows; for a wrong row the same with correct rows of a higher confidence.
    """
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


def _of_class_errors(rows: Rows, options: MetricOptions) -> dict[str, Influence]:
    powers = dict(zip(CLASS_ERRORS, (options.p, 2.0), strict=True))
    moved = {name: np.zeros(rows.n) for name in powers}
    noise, classes = np.zeros(FEWER.size), len(rows.label_names) or (rows.scores.n_classes if rows.scores else 1)
    shares, worth = shares_of(rows)
    for ones, residuals, _ in binned(rows, options):
        mass, total = ones @ shares, residuals @ shares
        variance = np.maximum(residuals.multiply(residuals) @ np.square(shares) - np.square(total) / worth, 0.0)
        for name, p in powers.items():
            by_residual, by_mass = _derivatives(mass, total, variance, p)
            moved[name] += residuals.T @ by_residual + ones.T @ by_mass
        noise += _noise(mass, total, variance, options.p)
    found = {}
    for name, values in moved.items():
        centred = values - float(shares @ values)
        found[name] = Influence(centred / classes, powers[name], noise / classes if name == CLASS_ERRORS[0] else None)
    return found


def _derivatives(mass: Floats, total: Floats, variance: Floats, p: float) -> tuple[Floats, Floats]:
    """The derivatives of m |R/m|^p with respect to R and m, in every bin."""
    from scipy.special import erf

    full = mass > 0
    gaps = np.abs(total) / np.where(full, mass, 1.0)
    sign = np.where(variance > 0, erf(total / np.sqrt(np.where(variance > 0, variance, 1.0))), np.sign(total))
    powers = np.where(gaps > 0, np.where(gaps > 0, gaps, 1.0) ** (p - 1), 1.0 if p == 1 else 0.0)
    return np.where(full, p * powers * sign, 0.0), np.where(full, (1 - p) * powers * gaps, 0.0)


def _noise(mass: Floats, total: Floats, variance: Floats, p: float) -> Floats:
    """Σ_b m (E |R/m + noise|^p − |R/m|^p) for the noise that fewer rows add: its variance is f v/m² for f in FEWER."""
    points, weights = np.polynomial.hermite_e.hermegauss(64)
    full = mass > 0
    mass, gaps = mass[full], (total[full] / mass[full])[:, None]
    spread = (np.sqrt(variance[full]) / mass)[:, None]
    weights = weights / weights.sum()
    # No gap is larger than 1.
    expected: list[Any] = [np.minimum(np.abs(gaps + np.sqrt(f) * spread * points), 1.0) ** p @ weights for f in FEWER]
    return np.array([mass @ (one - np.abs(gaps[:, 0]) ** p) for one in expected])
