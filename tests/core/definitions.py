"""The definitions, evaluated directly and slowly: what the fast code is compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def spread_ties(s: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted confidences, with the hits of equal ones replaced by their mean."""
    order = np.argsort(s, kind="stable")
    s, h = s[order], h[order].astype(float)
    for value in np.unique(s):
        h[s == value] = h[s == value].mean()
    return s, h


def ece(s: np.ndarray, h: np.ndarray, n_bins: int, p: float = 1.0) -> float:
    s, h = spread_ties(s, h)
    total = 0.0
    for b in np.array_split(np.arange(s.size), min(n_bins, s.size)):
        total += b.size / s.size * abs(h[b].mean() - s[b].mean()) ** p
    return total ** (1 / p)


def ece_width(s: np.ndarray, h: np.ndarray, n_bins: int) -> float:
    edges = np.arange(1, n_bins) / n_bins
    index = np.searchsorted(edges, s, side="right")
    return sum((index == b).mean() * abs(h[index == b].mean() - s[index == b].mean()) for b in np.unique(index))


def ece_sweep(s: np.ndarray, h: np.ndarray) -> tuple[float, int]:
    ss, hh = spread_ties(s, h)
    best = 1
    for n_bins in range(2, s.size + 1):
        rates = [hh[b].mean() for b in np.array_split(np.arange(ss.size), n_bins)]
        if any(b < a - 1e-9 for a, b in zip(rates[:-1], rates[1:], strict=True)):
            break
        best = n_bins
    return ece(s, h, best), best


def ks(s: np.ndarray, h: np.ndarray) -> float:
    order = np.argsort(s, kind="stable")
    s, drift = s[order], np.cumsum(s[order] - h[order])
    last = np.append(s[1:] != s[:-1], True)
    return float(np.abs(drift[last]).max()) / s.size


def debiased_by_sampling(s: np.ndarray, h: np.ndarray, n_bins: int, rng: np.random.Generator) -> tuple[float, float]:
    """Kumar's estimator with its Monte-Carlo mean, and that mean's standard error."""
    s, h = spread_ties(s, h)
    bins = np.array_split(np.arange(s.size), n_bins)
    weight = np.array([b.size for b in bins]) / s.size
    accuracy = np.array([h[b].mean() for b in bins])
    confidence = np.array([s[b].mean() for b in bins])
    deviation = np.sqrt(accuracy * (1 - accuracy) / np.array([b.size for b in bins]))
    draws = np.abs(rng.normal(accuracy, deviation, size=(200_000, n_bins)) - confidence) @ weight
    return 2 * float(weight @ np.abs(accuracy - confidence)) - draws.mean(), float(draws.std() / math.sqrt(draws.size))


def smooth_ece_at(s: np.ndarray, h: np.ndarray, sigma: float, n_grid: int = 20_001) -> float:
    """∫ |Σ K(t, sᵢ)(sᵢ − hᵢ)|/N dt with the reflected Gaussian, image by image, by the trapezoid rule."""
    t = np.linspace(0, 1, n_grid)
    smoothed = np.zeros(n_grid)
    reach = range(-math.ceil(5 * sigma) - 1, math.ceil(5 * sigma) + 2)
    for value, hit in zip(s, h, strict=True):
        for k in reach:
            for image in (2 * k + value, 2 * k - value):
                smoothed += (value - hit) * np.exp(-(((t - image) / sigma) ** 2) / 2)
    smoothed /= sigma * math.sqrt(2 * math.pi) * s.size
    return float(np.trapezoid(np.abs(smoothed), t) if hasattr(np, "trapezoid") else np.trapz(np.abs(smoothed), t))


def ls_ece(x: np.ndarray, h: np.ndarray, sigma: float = 1 / 15) -> float:
    """∫ |Σ φ(t − xᵢ)(hᵢ − sigmoid(t))|/N dt by exact kernel sums on a fine grid."""
    t = np.arange(x.min() - 9 * sigma, x.max() + 9 * sigma, sigma / 400)
    values = np.zeros_like(t)
    truth = 1 / (1 + np.exp(-t))
    for position, hit in zip(x, h, strict=True):
        near = slice(*np.searchsorted(t, [position - 9 * sigma, position + 9 * sigma]))
        kernel = np.exp(-(((t[near] - position) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
        values[near] += kernel * (hit - truth[near])
    return float(np.abs(values).sum() * (sigma / 400)) / x.size


def paper_objective(s: np.ndarray, h: np.ndarray, theta: np.ndarray, counts: list[int]) -> float:
    """Algorithm 1 as printed, bin by bin."""
    alpha, beta, c = theta
    return paper_loss(s, h, lambda mean: 1 / (1 + mean**-alpha * (1 - mean) ** beta * math.exp(c)), counts)


def paper_loss(s: np.ndarray, h: np.ndarray, g: Callable[[float], float], counts: list[int]) -> float:
    """The same for any curve."""
    s, h = spread_ties(s, h)
    total = 0.0
    for count in counts:
        for b in np.array_split(np.arange(s.size), count):
            total += b.size / s.size * math.exp((g(s[b].mean()) - h[b].mean()) ** 2)
    return total / len(counts)


def authors_objective(s: np.ndarray, h: np.ndarray, theta: np.ndarray) -> float:
    """What the published code minimises: last bin and remainder dropped, no weights, −Σ exp(−d²)."""
    s, h = spread_ties(s, h)
    alpha, beta, c = theta
    n = s.size
    total = 0.0
    for count in range(n // 100, n // 20 + 1, (n // 20 - n // 100) // 10):
        size = n // count
        for i in range(count - 1):
            mean = min(max(s[i * size : (i + 1) * size].mean(), 1e-10), 1 - 1e-10)
            rate = h[i * size : (i + 1) * size].mean()
            g = 1 / (1 + 1 / (math.exp(-c) * mean**alpha / (1 - mean) ** beta))
            total -= math.exp(-((g - rate) ** 2))
    return total


def assert_derivatives(f: Any, theta: np.ndarray, step: float = 1e-6) -> None:
    """Gradient and Hessian of an objective against central differences."""
    _, gradient, hessian = f(theta)
    for i, e in enumerate(np.eye(theta.size) * step):
        up, down = f(theta + e), f(theta - e)
        np.testing.assert_allclose(gradient[i], (up[0] - down[0]) / (2 * step), rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(hessian[i], (up[1] - down[1]) / (2 * step), rtol=1e-4, atol=1e-7)
