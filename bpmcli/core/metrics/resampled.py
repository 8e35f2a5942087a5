"""The metrics on all resamples at once: the same definitions, without a loop over resamples.

Each function returns one value per resample, NaN where there is none. Grids are coarser than the grids of the metrics
themselves. This shifts a metric by the same amount on the sample and on its resamples, and `intervals` adds it back.
benchmarks/fast_intervals.py compares them with the metrics, resample by resample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bpmcli.core.data.binning import array_split_edges
from bpmcli.core.data.sample import Floats, sigmoid
from bpmcli.core.metrics.registry import MetricOptions
from bpmcli.core.metrics.resamples import Resamples
from bpmcli.core.metrics.smoothing import LS_SIGMA, SHARING, fft_size, smooth_ece

SWEEP_CAP = 2000
SWEEP_FIRST = 8
SWEEP_BINS = 1 << 19
"""The number of bins, of several bin counts and resamples, that are held at once."""
MONOTONE_SLACK = 1e-9

LS_STEPS = 4
LS_REACH = 20.0
"""Steps per σ of LS-ECE on resamples, and the log-odds beyond which every row counts as certain (2e-9)."""

SM_GRID = 1 << 9
SM_BANDWIDTHS = 5
SM_RANGE = 4.0
"""smECE on resamples: the error at five bandwidths between σ/4 and 4σ, interpolated where it equals the bandwidth."""


def binned_error(mass: Floats, gaps: Floats, p: float) -> Floats:
    """(Σ_b |b|/N · |gap_b|^p)^(1/p) for every resample."""
    error: Floats = (np.sum(mass * np.abs(gaps) ** p, axis=1) / mass.sum(axis=1)) ** (1 / p)
    return error


def ece(drawn: Resamples, options: MetricOptions) -> Floats:
    mass, gaps, _ = drawn.bins(options.n_bins, options.binning)
    return binned_error(mass, gaps, options.p)


def ece_debiased(drawn: Resamples, options: MetricOptions) -> Floats:
    mass, gaps, rates = drawn.bins(options.n_bins, options.binning, whole_ties=True)
    weights = mass / mass.sum(axis=1, keepdims=True)
    rows = np.maximum(mass * (drawn.cells.effective_n / drawn.n), 1e-300)
    variance = np.maximum(rates * (1.0 - rates), 0.0)
    if options.p == 2:
        many = rows > 1
        square = np.where(many, gaps**2 - variance / np.where(many, rows - 1, 1.0), 0.0)
        root: Floats = np.sqrt(np.maximum(np.sum(weights * square, axis=1), 0.0))
        return root
    if options.p != 1:
        return np.full(drawn.size, np.nan)
    deviation, size = np.sqrt(variance / rows), np.abs(gaps)
    z = size / np.where(deviation > 0, deviation, 1.0)
    erf = np.array([math.erf(v) for v in (z / math.sqrt(2)).ravel().tolist()]).reshape(z.shape)
    folded = np.where(deviation > 0, deviation * math.sqrt(2 / math.pi) * np.exp(-z * z / 2) + size * erf, size)
    value: Floats = np.sum(weights * (2 * size - folded), axis=1)
    return value


def ece_sweep(drawn: Resamples, options: MetricOptions) -> Floats:
    limit = min(drawn.n, SWEEP_CAP)
    best = np.full(drawn.size, limit)
    drops = _drops(drawn)
    most = 4 * int(drops.sum(axis=1).max())
    active, first = np.flatnonzero(drops.any(axis=1)), 2
    while first <= limit and active.size:
        counts = np.arange(first, min(2 * first + SWEEP_FIRST, first + 64, limit + 1))
        near = most * counts.size < int(counts.sum())
        broken = np.empty(active.size, dtype=np.int64)
        for part in _blocks(active.size, most * counts.size if near else int(counts.sum())):
            rows = active[part]
            some = drawn.take(rows)
            broken[part] = _drop_near(some, counts, drops[rows]) if near else _first_drop(some, counts)
        found = broken < counts.size
        best[active[found]] = counts[broken[found]] - 1
        active, first = active[~found], int(counts[-1]) + 1
    out = np.empty(drawn.size)
    for count in np.flatnonzero(np.bincount(best)):
        rows = np.flatnonzero(best == count)
        for part in _blocks(rows.size, int(count)):
            mass, gaps, _ = drawn.take(rows[part]).bins(int(count), "mass")
            out[rows[part]] = binned_error(mass, gaps, options.p)
    return out


def _blocks(size: int, bins: int) -> Iterator[slice]:
    """Parts of the resamples with at most SWEEP_BINS bins together, if each has `bins`."""
    step = max(1, SWEEP_BINS // bins)
    for start in range(0, size, step):
        yield slice(start, start + step)


def _drops(drawn: Resamples) -> npt.NDArray[np.bool_]:
    """Cells (R, C) that have a lower accuracy than the cell before them. Without any, no bins have one either."""
    full = drawn.mass > 0
    rates = np.where(full, drawn.hits, 0.0) / np.where(full, drawn.mass, 1.0)
    last = np.maximum.accumulate(np.where(full, np.arange(full.shape[1]), 0), axis=1)
    found: npt.NDArray[np.bool_] = np.zeros(full.shape, dtype=bool)
    found[:, 1:] = full[:, 1:] & (rates[:, 1:] < np.take_along_axis(rates, last[:, :-1], axis=1))
    return found


def _first_drop(drawn: Resamples, counts: np.ndarray) -> np.ndarray:
    """For every resample, the index of the first bin count whose accuracies are not monotone; counts.size if none."""
    inner = [array_split_edges(drawn.n, int(count))[1:-1] for count in counts]
    cell, inside = drawn.locate(np.concatenate(inner))
    hits = drawn.sums_at(drawn.hits_before, cell, inside)
    broken = np.full(drawn.size, counts.size)
    start = 1
    for index, (count, edges) in enumerate(zip(counts.tolist(), inner, strict=True)):
        columns = np.concatenate([[0], np.arange(start, start + edges.size), [hits.shape[1] - 1]])
        start += edges.size
        rates = np.diff(hits[:, columns], axis=1) / np.diff(array_split_edges(drawn.n, count))
        drop = np.any(rates[:, 1:] < rates[:, :-1] - MONOTONE_SLACK, axis=1)
        broken[drop & (broken == counts.size)] = index
    return broken


def _drop_near(drawn: Resamples, counts: np.ndarray, drops: npt.NDArray[np.bool_]) -> np.ndarray:
    """The same as `_first_drop`, from the bin in which each drop between cells lies and from the bins beside it.

    All other bins are averages of cells in ascending order.
    """
    resample, cell = np.nonzero(drops)
    starts = np.flatnonzero(np.diff(resample, prepend=-1))
    # A resample with fewer drops than others has its first one several times.
    places = np.repeat(drawn.mass_before[resample[starts], cell[starts]][:, None], drops.sum(axis=1).max(), axis=1)
    places[resample, np.arange(resample.size) - starts[resample]] = drawn.mass_before[resample, cell]
    edges = np.empty((drawn.size, counts.size, places.shape[1], 4))
    for index, count in enumerate(counts.tolist()):
        every = array_split_edges(drawn.n, count)
        own = np.searchsorted(every, places, side="right") - 1
        edges[:, index] = every[np.clip(own[:, :, None] + np.arange(-1, 3), 0, count)]
    at, inside = drawn.locate(edges.reshape(drawn.size, -1))
    hits = drawn.sums_at(drawn.hits_before, at, inside)[:, 1:-1].reshape(edges.shape)
    sizes = np.diff(edges)
    rates = np.diff(hits) / np.where(sizes > 0, sizes, 1.0)
    lower = (rates[..., 1:] < rates[..., :-1] - MONOTONE_SLACK) & (sizes[..., 1:] > 0) & (sizes[..., :-1] > 0)
    broken = np.asarray(lower.any(axis=(2, 3)))
    found: np.ndarray = np.where(broken.any(axis=1), broken.argmax(axis=1), counts.size)
    return found


def ks(drawn: Resamples, options: MetricOptions) -> Floats:
    largest: Floats = np.abs(drawn.residuals_before).max(axis=1)
    return largest / drawn.n


def accuracy(drawn: Resamples, options: MetricOptions) -> Floats:
    found: Floats = drawn.hits_before[:, -1] / drawn.n
    return found


def auroc(drawn: Resamples, options: MetricOptions) -> Floats:
    misses = np.maximum(drawn.mass - drawn.hits, 0.0)
    below = np.cumsum(misses, axis=1) - misses / 2
    pairs = drawn.hits.sum(axis=1) * misses.sum(axis=1)
    found: Floats = np.where(pairs > 0, np.sum(drawn.hits * below, axis=1) / np.where(pairs > 0, pairs, 1.0), np.nan)
    return found


def brier(drawn: Resamples, options: MetricOptions) -> Floats:
    cells = drawn.cells
    return _mean_loss(drawn, np.square(cells.complements), np.square(cells.confidences))


def mcb(drawn: Resamples, options: MetricOptions) -> Floats:
    return np.maximum(brier(drawn, options) - drawn.isotonic_loss, 0.0)


def dsc(drawn: Resamples, options: MetricOptions) -> Floats:
    return np.maximum(unc(drawn, options) - drawn.isotonic_loss, 0.0)


def unc(drawn: Resamples, options: MetricOptions) -> Floats:
    rates = accuracy(drawn, options)
    return rates * (1.0 - rates)


def nll(drawn: Resamples, options: MetricOptions) -> Floats:
    x = drawn.cells.log_odds
    return _mean_loss(drawn, np.logaddexp(0.0, -x), np.logaddexp(0.0, x))


def _mean_loss(drawn: Resamples, if_correct: Floats, if_wrong: Floats) -> Floats:
    misses = np.maximum(drawn.mass - drawn.hits, 0.0)
    found: Floats = (drawn.hits @ if_correct + misses @ if_wrong) / drawn.n
    return found


def on_nodes(positions: Floats, values: Floats, n_nodes: int) -> Floats:
    """Values (R, C) at fixed positions, shared between their two neighbouring nodes: (R, n_nodes)."""
    node = np.minimum(positions.astype(np.int64), n_nodes - 2)
    right = positions - node
    starts = np.flatnonzero(np.concatenate([[True], np.diff(node) > 0]))
    out = np.zeros((values.shape[0], n_nodes))
    out[:, node[starts]] = np.add.reduceat(values * (1.0 - right), starts, axis=1)
    out[:, node[starts] + 1] += np.add.reduceat(values * right, starts, axis=1)
    return out


def integrals_of_absolute(values: Floats, step: float) -> Floats:
    """∫|f| of the straight lines between equidistant values, row by row, exact where they cross zero."""
    a, b = values[:, :-1], values[:, 1:]
    size = np.abs(a) + np.abs(b)
    area: Floats = size.sum(axis=1) / 2
    row, column = np.nonzero(a * b < 0)
    u, v = a[row, column], b[row, column]
    # The line covers (u² + v²)/(2 (|u| + |v|)) instead of (|u| + |v|)/2.
    area -= np.bincount(row, np.abs(u * v) / size[row, column], values.shape[0])
    return area * step


def smece(drawn: Resamples, options: MetricOptions) -> Floats:
    """smECE: the error at a few bandwidths, and by interpolation where it equals the bandwidth."""
    _, centre = smooth_ece(drawn.cells)
    grid = on_nodes(drawn.cells.confidences * SM_GRID, drawn.residuals / drawn.n, SM_GRID + 1)
    grid[:, [0, -1]] *= 2
    spectrum = np.fft.rfft(np.concatenate([grid, grid[:, -2:0:-1]], axis=1)).real
    spectrum[:, 0] /= 2
    k = np.arange(SM_GRID + 1)
    sigmas = np.exp(np.linspace(-1, 1, SM_BANDWIDTHS) * math.log(SM_RANGE)) * max(centre, 2.0 / SM_GRID)
    errors = np.empty((drawn.size, SM_BANDWIDTHS))
    for i, sigma in enumerate(sigmas):
        damped = spectrum * np.exp(-np.square(math.pi * k) * max(sigma**2 - SHARING / SM_GRID**2, 0.0) / 2) * SM_GRID
        damped[:, 0] *= 2
        errors[:, i] = integrals_of_absolute(np.fft.irfft(damped)[:, : SM_GRID + 1], 1 / SM_GRID)
    return _fixed_points(np.log(sigmas), errors)


def _fixed_points(logs: Floats, errors: Floats) -> Floats:
    """f(σ) where it equals σ, with f linear in log σ between the bandwidths; f does not increase."""
    above = errors - np.exp(logs) > 0
    left = np.clip(above.sum(axis=1) - 1, 0, logs.size - 2)
    rows = np.arange(errors.shape[0])
    start, slope = errors[rows, left], (errors[rows, left + 1] - errors[rows, left]) / (logs[1] - logs[0])
    at = logs[left]
    for _ in range(30):
        value = np.maximum(start + slope * (at - logs[left]), 1e-12)
        # Newton's method for log f(σ) = log σ.
        at = at - (np.log(value) - at) / (slope / value - 1.0)
    fixed: Floats = np.maximum(start + slope * (at - logs[left]), 0.0)
    return fixed


def ls_ece(drawn: Resamples, options: MetricOptions) -> Floats:
    step = LS_SIGMA / LS_STEPS
    x = np.clip(drawn.cells.log_odds, -LS_REACH, LS_REACH)
    low = float(x[0]) - 9 * LS_SIGMA
    n_nodes = math.ceil((float(x[-1]) + 9 * LS_SIGMA - low) / step) + 2
    size = fft_size(n_nodes)
    frequency = np.arange(size // 2 + 1) * (2 * math.pi / (size * step))
    damping = np.exp(-np.square(frequency) * (LS_SIGMA**2 - SHARING * step**2) / 2) / step / drawn.n
    t: Floats = low + step * np.arange(n_nodes, dtype=np.float64)
    out = np.empty(drawn.size)
    for start in range(0, drawn.size, 256):
        part = slice(start, start + 256)
        mass, hits = (
            np.fft.irfft(np.fft.rfft(on_nodes((x - low) / step, values[part], n_nodes), size) * damping)[:, :n_nodes]
            for values in (drawn.mass, drawn.hits)
        )
        out[part] = integrals_of_absolute(hits.astype(np.float64) - mass * sigmoid(t), step)
    return out
