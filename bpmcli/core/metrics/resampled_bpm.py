"""tce-bpm on all resamples at once.

The paper's fit is repeated on every resample with three simplifications, whose common effect is added back by
`intervals`:

- There is one binning (the finest of the paper's, at most BINS bins) instead of eleven.
- Every bin keeps the cells that it has in the sample; bins are not made again for each resample.
- The integral uses the nodes of the integral over the sample.

With errors d of a few hundredths, exp(d²) is nearly 1 + d², so the parameters are close to a fit by weighted least
squares and hardly depend on the binning. benchmarks/fast_intervals.py compares the spread with full refits.
"""

from __future__ import annotations

import numpy as np

from bpmcli.core.curves.bpm import BOX, FLAT, fit_bpm
from bpmcli.core.curves.families import log_complement, log_confidence
from bpmcli.core.curves.tce import NARROWEST, WIDEST, beta_by_moments, density_nodes
from bpmcli.core.data.binning import array_split_edges, scheme_counts
from bpmcli.core.data.sample import Floats, Sample, gap, sigmoid_pair
from bpmcli.core.metrics.definitions import tce_of_curve
from bpmcli.core.metrics.registry import MetricOptions
from bpmcli.core.metrics.resamples import Resamples

BINS = 150
STEPS = 12
CHUNK = 250
"""Resamples evaluated at a time, so that arrays stay in the cache."""


def tce_bpm(drawn: Resamples, options: MetricOptions) -> Floats:
    """TCE of the beta curve on every resample, under a Beta density by moments or the empirical one."""
    cells = drawn.cells
    if options.variant == "authors":
        return _authors(drawn, options)
    start = fit_bpm(cells, schemes=options.schemes, bins=options.bins).curve.params
    counts = scheme_counts(cells.n, options.schemes, options.bins, capped=True)
    theta = _fits(drawn, np.array(start), int(min(counts[-1], BINS)))
    out = np.empty(drawn.size)
    for first in range(0, drawn.size, CHUNK):
        part = slice(first, first + CHUNK)
        out[part] = _errors(Resamples(cells, drawn.mass[part], drawn.hits[part]), theta[part], options)
    return out


def _authors(drawn: Resamples, options: MetricOptions) -> Floats:
    """The published code's fit, resample by resample, each started at the parameters of the sample."""
    start = fit_bpm(drawn.cells, variant="authors").curve.params
    out = []
    for sample in drawn.samples():
        curve = fit_bpm(sample, variant="authors", start=start).curve
        out.append(tce_of_curve(sample, curve, options.density, options.p)[0])
    return np.array(out)


def _fits(drawn: Resamples, start: Floats, count: int) -> Floats:
    """Parameters (α, β, c) of every resample: damped Newton steps from the parameters of the sample, with α, β ≥ 0."""
    mass, confidences, rates = _fixed_bins(drawn, count)
    x = np.log(confidences) - np.log1p(-confidences)
    columns = np.stack([log_confidence(x), -log_complement(x), np.full_like(x, -1.0)])
    theta = np.tile(start, (drawn.size, 1))
    damping = np.zeros(drawn.size)
    value, gradient, hessian = _objective(theta, columns, mass, rates)
    for _ in range(STEPS):
        free = ~((theta <= 0.0) & (gradient >= 0.0) & np.array([True, True, False]))
        diagonal = np.maximum(np.einsum("rii->ri", hessian), 1e-12)
        matrix = hessian * (free[:, :, None] & free[:, None, :])
        matrix += np.eye(3) * np.where(free, (damping[:, None] + 1e-9) * diagonal, 1.0)[:, :, None]
        step = -_solved(matrix, (gradient * free)[:, :, None])[:, :, 0]
        trial = np.clip(theta + step, [0.0, 0.0, -BOX], BOX)
        new = _objective(trial, columns, mass, rates)
        better = new[0] < value
        gain = np.where(better, value - new[0], 0.0)
        theta[better], value = trial[better], np.where(better, new[0], value)
        gradient[better], hessian[better] = new[1][better], new[2][better]
        damping = np.where(better, np.where(damping < 1e-3, 0.0, damping / 8), np.maximum(8 * damping, 0.01))
        if np.all((gain < 1e-10 * value) & (better | (damping > 1.0))):
            break
    correct = drawn.hits_before[:, -1] / drawn.n
    theta[correct >= 1 - 1e-12] = 0.0, 0.0, -FLAT
    theta[correct <= 0.0] = 0.0, 0.0, FLAT
    return theta


def _solved(matrices: Floats, right: Floats) -> Floats:
    """matrices⁻¹ right. If bins of equal confidence make a matrix singular, the shortest solution."""
    try:
        found = np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:
        found = np.linalg.pinv(matrices, hermitian=True) @ right
    return found.astype(np.float64, copy=False)


def _fixed_bins(drawn: Resamples, count: int) -> tuple[Floats, Floats, Floats]:
    """Mass, mean confidence and accuracy in the bins that the sample has: (R, B) each."""
    cells = drawn.cells
    positions = array_split_edges(cells.n, count)[1:-1]
    before = cells.mass_before
    cell = np.clip(np.searchsorted(before, positions, side="right") - 1, 0, cells.mass.size - 1)
    inside = np.clip((positions - before[cell]) / cells.mass[cell], 0.0, 1.0)

    def binned(cumulative: Floats) -> Floats:
        inner = cumulative[:, cell] + inside * (cumulative[:, cell + 1] - cumulative[:, cell])
        edges = np.concatenate([np.zeros((drawn.size, 1)), inner, cumulative[:, -1:]], axis=1)
        return np.diff(edges, axis=1)

    mass, hits, residuals = binned(drawn.mass_before), binned(drawn.hits_before), binned(drawn.residuals_before)
    full = mass > 1e-9
    size = np.where(full, mass, 1.0)
    confidences = np.clip(np.where(full, (hits - residuals) / size, 0.5), 1e-15, 1 - 1e-15)
    return np.where(full, mass, 0.0) / drawn.n, confidences, np.where(full, hits / size, 0.0)


def _objective(theta: Floats, columns: Floats, mass: Floats, rates: Floats) -> tuple[Floats, Floats, Floats]:
    """Σ w (e^{d²} − 1) of every resample, its gradient (R, 3) and Hessian (R, 3, 3)."""
    eta = np.einsum("rk,krb->rb", theta, columns)
    g, miss = sigmoid_pair(eta)
    d = g - rates
    square = d * d
    growth = np.expm1(square)
    first = g * miss
    factor = 2.0 * mass * (growth + 1.0)
    slope = factor * d * first
    bend = factor * ((1.0 + 2.0 * square) * first * first + d * first * (miss - g))
    gradient = np.einsum("krb,rb->rk", columns, slope)
    hessian = np.empty((theta.shape[0], 3, 3))
    for i in range(3):
        for j in range(i + 1):
            hessian[:, i, j] = hessian[:, j, i] = np.einsum("rb,rb,rb->r", columns[i], columns[j], bend)
    return np.einsum("rb,rb->r", mass, growth), gradient, hessian


def _errors(drawn: Resamples, theta: Floats, options: MetricOptions) -> Floats:
    """(∫ |g(s) − s|^p ξ(s) ds)^(1/p) of every resample."""
    cells, p = drawn.cells, options.p
    out: Floats = (np.sum(drawn.mass * _distances(theta, cells.log_odds) ** p, axis=1) / drawn.n) ** (1 / p)
    beta = beta_by_moments(cells) if options.density == "beta" else None
    if beta is None:
        return out
    a1, a2, known = _moments(drawn, cells)
    nodes, weights = density_nodes(beta)
    logs = np.outer(a1, log_confidence(nodes)) + np.outer(a2, log_complement(nodes))
    density = np.exp(logs - logs.max(axis=1, keepdims=True)) * weights
    integral = np.sum(density * _distances(theta, nodes) ** p, axis=1) / density.sum(axis=1)
    return np.where(known, integral ** (1 / p), out)


def _distances(theta: Floats, log_odds: Floats) -> Floats:
    """|g − s| at the same log-odds for every resample: (R, points)."""
    columns = np.stack([log_confidence(log_odds), -log_complement(log_odds), np.full_like(log_odds, -1.0)])
    return np.abs(gap(log_odds, *sigmoid_pair(theta @ columns)))


def _moments(drawn: Resamples, cells: Sample) -> tuple[Floats, Floats, np.ndarray]:
    """Parameters of the Beta density by moments, and where there is one (as `beta_by_moments` decides)."""
    m, miss = drawn.mass @ cells.confidences / drawn.n, drawn.mass @ cells.complements / drawn.n
    centre = float(cells.mass @ cells.complements) / cells.n
    away = cells.complements - centre
    square = drawn.mass @ np.square(away) / drawn.n - np.square(drawn.mass @ away / drawn.n)
    v = (square + cells.inner_variance) * cells.effective_n / max(cells.effective_n - 1, 1e-9)
    known = (v > 1e-30) & (v < m * miss)
    a1 = m * m * miss / np.where(known, v, 1.0) - m
    a2 = a1 * miss / np.where(m > 0, m, 1.0)
    known &= (np.minimum(a1, a2) > WIDEST) & (a1 + a2 < NARROWEST)
    return np.where(known, a1, 1.0), np.where(known, a2, 1.0), known
