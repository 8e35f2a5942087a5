"""smECE and LS-ECE, the two kernel-smoothed metrics, as deterministic integrals on a grid."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bpmcli.core.data.sample import Floats, Sample, sigmoid

LS_SIGMA = 1 / 15
"""Smoothing of the log-odds (Chidambaram et al. 2024 take the inverse of 15 bins)."""

LS_REACH = 40.0
"""Beyond these log-odds the sigmoid is 0 or 1 to 4e-18 and the integrand does not change sign."""

SHARING = 1 / 6
"""Sharing a weight between two nodes adds h²/6 to the kernel's variance on average; the kernel is narrowed by that."""

LS_STEPS = 64
SM_GRID = 1 << 15

SM_BISECTIONS = 12
"""The bandwidth is searched like the reference: halvings of [0, 1], then the middle of what is left.
The exact fixed point would move the value by less than 2e-5."""


def spread_on_grid(positions: Floats, weights: Floats, n_nodes: int) -> Floats:
    """Each weight shared between its two neighbouring nodes; positions in units of the grid."""
    node = np.minimum(positions.astype(np.int64), n_nodes - 2)
    right = (positions - node) * weights
    grid: Floats = np.bincount(node, weights - right, n_nodes).astype(np.float64, copy=False)
    grid[1:] += np.bincount(node, right, n_nodes - 1)
    return grid


def integral_of_absolute(values: Floats, step: float) -> float:
    """∫|f| of the straight lines between equidistant values, exact where they cross zero."""
    a, b = values[:-1], values[1:]
    size = np.abs(a) + np.abs(b)
    crossing = a * b < 0
    area = size / 2
    area[crossing] = (a[crossing] ** 2 + b[crossing] ** 2) / (2 * size[crossing])
    return float(area.sum()) * step


def smooth_ece(sample: Sample, n_grid: int = SM_GRID) -> tuple[float, float]:
    """smECE and its bandwidth: ∫ |Σ K_σ(t, ŝᵢ)(ŝᵢ − hᵢ)|/N dt at the σ where it equals σ.

    K is the Gaussian reflected at 0 and 1, whose eigenfunctions are cos(πkt): one cosine transform
    of the residuals, and every bandwidth is a multiplication and a transform back.
    Błasiok & Nakkiran, ICLR 2024.
    """
    residuals = sample.residuals / sample.n
    grid = spread_on_grid(sample.confidences * n_grid, residuals, n_grid + 1)
    grid[0] *= 2
    grid[-1] *= 2
    spectrum = np.fft.rfft(np.concatenate([grid, grid[-2:0:-1]])).real
    spectrum[0] /= 2
    widening = SHARING / n_grid**2

    def smoothed(sigma: float) -> float:
        # Frequencies beyond 9/(πσ) are damped below 1e-17.
        n = min(n_grid, 1 << max(12, math.ceil(math.log2(24 / sigma))))
        k = np.arange(min(n, math.ceil(9 / (math.pi * sigma))))
        kept = np.zeros(n + 1)
        kept[: k.size] = spectrum[: k.size] * np.exp(-np.square(math.pi * k) * (sigma**2 - widening) / 2) * n
        kept[0] *= 2
        return integral_of_absolute(np.fft.irfft(kept)[: n + 1], 1 / n)

    return _fixed_point(smoothed)


def _fixed_point(f: Callable[[float], float]) -> tuple[float, float]:
    """f(σ) and σ where f(σ) = σ; f does not increase."""
    low, high = 0.0, 1.0
    for _ in range(SM_BISECTIONS):
        middle = (low + high) / 2
        if f(middle) > middle:
            low = middle
        else:
            high = middle
    sigma = (low + high) / 2
    return f(sigma), sigma


def logit_smoothed_ece(sample: Sample, sigma: float = LS_SIGMA, steps: int = LS_STEPS) -> float:
    """LS-ECE: ∫ |Σ φ_σ(t − xᵢ)(hᵢ − sigmoid(t))|/N dt over log-odds t, by FFT.

    This is exactly the expectation that Chidambaram et al. (ICML 2024) estimate by sampling smoothed logits.
    """
    step = sigma / steps
    x = np.clip(sample.log_odds, -LS_REACH, LS_REACH)
    margin = 9 * sigma
    low = float(x[0]) - margin
    n_nodes = math.ceil((float(x[-1]) + margin - low) / step) + 2
    positions = (x - low) / step
    mass = spread_on_grid(positions, sample.mass / sample.n, n_nodes)
    hits = spread_on_grid(positions, sample.hits / sample.n, n_nodes)
    size = fft_size(n_nodes)
    frequency = np.arange(size // 2 + 1) * (2 * math.pi / (size * step))
    damping = np.exp(-np.square(frequency) * (sigma**2 - SHARING * step**2) / 2) / step
    density: Floats = np.fft.irfft(np.fft.rfft(mass, size) * damping)[:n_nodes]
    hit_density: Floats = np.fft.irfft(np.fft.rfft(hits, size) * damping)[:n_nodes]
    t: Floats = low + step * np.arange(n_nodes, dtype=np.float64)
    # Above zero, misses are compared with complements, because both are small there.
    small = density * sigmoid(-np.abs(t))
    return integral_of_absolute(np.where(t > 0, density - hit_density - small, small - hit_density), step)


def fft_size(n: int) -> int:
    """The least even 2^a·3^b·5^c of at least n: there the FFT is fast."""
    odd = [3**b * 5**c for b in range(4) for c in range(3)]
    sizes: list[int] = [k << max(1, math.ceil(math.log2(n / k))) for k in odd]
    return min(sizes)
