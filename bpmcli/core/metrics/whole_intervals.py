"""Confidence intervals of the metrics of whole distributions: the bootstrap of rows.

The log loss and the Brier score are means over rows. The class-wise errors keep the bins that the rows have, so that a
resample only needs sums over bins; percentiles are corrected for bias, as for `ece`. With many rows these sums
are nearly normal: they are drawn with their exact covariance instead of drawing the rows. The bootstrap cannot
separate noise from miscalibration, and the class-wise error of a calibrated model is all noise: unless the class-wise
test rejects calibration, its interval begins at 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bpmcli.core.data.binning import mass_edges, width_edges
from bpmcli.core.data.normal import normal_quantile
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, Ints, make_room_for_hit, sample_from_log_odds, sigmoid
from bpmcli.core.metrics.intervals import Interval, limits_of
from bpmcli.core.metrics.registry import METRICS, MetricOptions
from bpmcli.core.metrics.whole import losses_of
from bpmcli.errors import FitError

NORMAL_FROM = 5000
"""With at least this many rows, means and sums over bins are nearly normal, and no rows need to be drawn."""
MOST_SUMS = 1500
"""The covariance of at most this many sums is computed: 3 for each of 15 bins of 33 classes."""
BLOCK_VALUES = 1 << 22
"""How many counts of rows, or pairs of a row and a class, are held at once."""
MOST_WORK = 2 * 10**10
FEWEST = 100
"""The time grows with rows × classes × resamples. If that exceeds MOST_WORK, there are fewer resamples (≥ FEWEST)."""


def whole_intervals(
    rows: Rows, values: Mapping[str, float | None], options: MetricOptions, level: float, runs: int, seed: int
) -> dict[str, Interval | None]:
    """An interval for every metric of whole distributions in `values`; None where there is none."""
    out: dict[str, Interval | None] = dict.fromkeys(values)
    known = {name: value for name, value in values.items() if value is not None}
    if "nll-all" in known or "brier-all" in known:
        for name, losses in zip(("nll-all", "brier-all"), losses_of(rows), strict=True):
            if name in known:
                out[name] = _of_mean(losses, rows, known[name], level, runs, seed)
    errors = {name: value for name, value in known.items() if name in ("ece-classwise", "ece-marginal")}
    if errors:
        out |= _of_errors(rows, errors, options, level, runs, seed)
    return out


def _of_mean(losses: Floats, rows: Rows, value: float, level: float, runs: int, seed: int) -> Interval:
    there = np.flatnonzero(~np.isnan(losses))
    weights = np.ones(rows.n) if rows.weights is None else rows.weights
    there = there[np.lexsort((weights[there], losses[there]))]
    losses, shares = losses[there], weights[there] / weights[there].sum()
    clusters = None if rows.clusters is None else rows.clusters.take(there).ranks()
    if losses.size >= NORMAL_FROM:
        errors = shares * (losses - value)
        errors = errors if clusters is None else np.bincount(clusters, errors)
        half = normal_quantile(0.5 + level / 2) * float(np.sqrt(np.square(errors).sum()))
        return Interval(max(value - half, 0.0), value + half, level, 0)
    drawn = np.concatenate([counts @ losses for counts in _counts(shares, clusters, runs, seed)])
    low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(min(float(low), value), max(float(high), value), level, runs)


def _counts(shares: Floats, clusters: Ints | None, runs: int, seed: int) -> Iterator[Floats]:
    """Shares of the rows in resamples, some resamples at a time.

    Weighted rows are drawn as often as their effective number. Clusters are drawn whole, as many as there are.
    """
    rng = np.random.default_rng(seed)
    worth = max(1, round(1.0 / float(np.square(shares).sum())))
    step = max(1, BLOCK_VALUES // shares.size)
    for first in range(0, runs, step):
        size = min(step, runs - first)
        if clusters is None:
            yield rng.multinomial(worth, shares / shares.sum(), size) / worth
            continue
        _, code = np.unique(clusters, return_inverse=True)
        groups = int(code.max()) + 1
        drawn = rng.multinomial(groups, np.full(groups, 1.0 / groups), size)[:, code] * shares
        yield drawn / drawn.sum(axis=1, keepdims=True)


def _of_errors(
    rows: Rows, values: Mapping[str, float], options: MetricOptions, level: float, runs: int, seed: int
) -> dict[str, Interval | None]:
    rows = rows.take(_common_order(rows))
    # The test needs independent rows; where they are in clusters, nothing rules out that the error is noise.
    calibrated = rows.clusters is not None or not _rejected(rows.known())
    found = class_errors(rows, options, runs, seed)
    out: dict[str, Interval | None] = {}
    for name, value in values.items():
        base, resampled = float(found[name][0]), found[name][1:]
        low, high = limits_of(METRICS[name], resampled, base, level)
        low, high = (min(max(limit + value - base, 0.0), 1.0) for limit in (low, high))
        out[name] = Interval(0.0 if calibrated else min(low, value), max(high, value), level, resampled.size)
    return out


def class_errors(rows: Rows, options: MetricOptions, runs: int, seed: int) -> dict[str, Floats]:
    """The class-wise errors of the rows, followed by the errors of the resamples."""
    assert rows.scores is not None
    pairs = rows.n * rows.scores.n_classes
    runs = max(min(runs, MOST_WORK // pairs), FEWEST)
    clusters = None if rows.clusters is None else rows.clusters.ranks()
    plug_in, squares = np.zeros(runs + 1), np.zeros(runs + 1)
    shares, worth = shares_of(rows)
    normal = rows.n >= NORMAL_FROM and clusters is None and pairs < BLOCK_VALUES
    for sums in binned(rows, options):
        start = 0
        if normal and 3 * sums[0].shape[0] <= MOST_SUMS:
            drawn = [_normal_sums(sums, shares, worth, runs, seed)]
        else:
            every = [shares[None, :], *_counts(shares, clusters, runs, seed)]
            drawn = [tuple(np.asarray(matrix @ counts.T) for matrix in sums) for counts in every]
        for mass, residuals, hits in drawn:
            part = slice(start, start + mass.shape[1])
            powers, square = _errors(mass, residuals, hits, worth, options.p)
            plug_in[part] += powers
            squares[part] += square
            start = part.stop
    k = rows.scores.n_classes
    return {
        "ece-classwise": (plug_in / k) ** (1 / options.p),
        "ece-marginal": np.sqrt(np.maximum(squares / k, 0.0)),
    }


def shares_of(rows: Rows) -> tuple[Floats, float]:
    """The share of each row in the total weight, and the effective number of rows."""
    shares = np.full(rows.n, 1.0 / rows.n) if rows.weights is None else rows.weights / rows.weights.sum()
    return shares, 1.0 / float(np.square(shares).sum())


def _normal_sums(sums: list[Any], shares: Floats, worth: float, runs: int, seed: int) -> tuple[Floats, ...]:
    """Sums over bins of the rows (first) and of resamples, drawn from a normal distribution with their covariance.

    Rows drawn `worth` times with probabilities w give Z c the mean Z w and the covariance (Z diag(w) Zᵀ − Z w wᵀ Zᵀ)
    / worth, where a column of Z holds what a row adds to each sum.
    """
    from scipy.sparse import vstack

    stacked = vstack(sums, format="csr")
    mean = stacked @ shares
    covariance = ((stacked * shares[None, :]) @ stacked.T).toarray() - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance / worth)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = mean[:, None] + root @ np.random.default_rng(seed).standard_normal((mean.size, runs))
    mass, residuals, hits = np.split(np.concatenate([mean[:, None], drawn], axis=1), len(sums))
    return np.maximum(mass, 0.0), residuals, hits


def _rejected(rows: Rows) -> bool:
    """Whether the test of single classes rejects calibration; False without rows or with too many classes to test."""
    from bpmcli.core.metrics.canonical import distribution_test

    try:
        return rows.n > 0 and distribution_test(rows, smooth=False).classwise <= 0.05
    except FitError:
        return False


def _common_order(rows: Rows) -> Ints:
    """An order of the rows that depends only on what they hold."""
    assert rows.labels is not None
    assert rows.scores is not None
    keys: list[Any] = [] if rows.weights is None else [rows.weights]
    return np.lexsort([*keys, rows.labels, rows.scores.hashes()])


def _classes(rows: Rows) -> Iterator[tuple[Floats, Floats, slice]]:
    """For each class, or label of a multi-label file: log-odds, whether it is true, and the positions of its rows."""
    if rows.label_names:
        for k in range(len(rows.label_names)):
            at = slice(k, None, len(rows.label_names))
            yield rows.log_odds[at].copy(), rows.hits[at].astype(np.float64), at
        return
    assert rows.scores is not None
    assert rows.labels is not None
    for k, x in rows.scores.log_odds():
        yield x, (rows.labels == k).astype(np.float64), slice(None)


def binned(rows: Rows, options: MetricOptions) -> Iterator[list[Any]]:
    """Sparse matrices (bins of some classes × rows) whose products with counts are mass, residuals and hits of bins.

    If a row is about one label of many, it stands for a larger share of the rows of that label.
    """
    from scipy.sparse import csr_array, vstack

    held: list[list[Any]] = [[], [], []]
    labels = max(len(rows.label_names), 1)
    for x, y, part in _classes(rows):
        sample = sample_from_log_odds(x, y, None if rows.weights is None else rows.weights[part])
        residuals = y - sigmoid(x)
        make_room_for_hit(x)  # as the sample does
        edges: Any = (
            mass_edges(sample, options.n_bins, whole_ties=True)
            if options.binning == "mass"
            else width_edges(sample, options.n_bins)[0]
        )
        # The edges are positions in the sorted sample; a row belongs to the bin in which its cell begins.
        cell = np.clip(np.searchsorted(sample.log_odds, x, side="right") - 1, 0, sample.mass.size - 1)
        found = np.clip(np.searchsorted(edges, sample.mass_before[cell], side="right") - 1, 0, len(edges) - 2)
        at = found, np.arange(rows.n)[part]
        shape = (len(edges) - 1, rows.n)
        for matrices, values in zip(held, (np.ones(x.size), residuals, y), strict=True):
            matrices.append(csr_array((labels * values, at), shape=shape))
        if len(held[0]) * rows.n >= BLOCK_VALUES:
            yield [vstack(matrices, format="csr") for matrices in held]
            held = [[], [], []]
    if held[0]:
        yield [vstack(matrices, format="csr") for matrices in held]


def _errors(mass: Floats, residuals: Floats, hits: Floats, worth: float, p: float) -> tuple[Floats, Floats]:
    """Σ over bins of mass |gap|^p, and of the debiased mass · gap², for every resample (columns)."""
    full = mass > 0
    size = np.where(full, mass, 1.0)
    gaps, rates, rows = residuals / size, hits / size, mass * worth
    variance = np.maximum(rates * (1.0 - rates), 0.0)
    many = rows > 1 + 1e-9
    square = np.where(many, gaps**2 - variance / np.where(many, rows - 1, 1.0), 0.0)
    return (mass * np.abs(gaps) ** p).sum(axis=0), (mass * square).sum(axis=0)
