"""The true calibration error of a curve under a density: TCE_p = (∫ |g(s) − s|^p ξ(s) ds)^(1/p).

The density ξ is the empirical density of the sample, or a Beta density by moments (as in the paper).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from bpmcli.core.curves.families import log_complement, log_confidence
from bpmcli.core.data.sample import Floats, Sample


class BetaDensity(NamedTuple):
    """Beta(a1, a2) over confidence."""

    a1: float
    a2: float

    def log_weight(self, log_odds: Floats) -> Floats:
        """Log density of the log-odds, without its constant: a1 log s + a2 log(1 − s)."""
        return self.a1 * log_confidence(log_odds) + self.a2 * log_complement(log_odds)


WIDEST = 1e-6
"""A Beta distribution with smaller parameters has practically no mass between 0 and 1."""

NARROWEST = 1e7
"""A Beta distribution with larger parameters has a standard deviation below 2e-4 and is practically constant."""


def beta_by_moments(sample: Sample) -> BetaDensity | None:
    """a1 = m²(1−m)/v − m, a2 = a1(1−m)/m with the sample variance v (paper, Algorithm 2).

    None if v is 0, or at least m(1 − m), which no Beta distribution reaches.
    """
    weights = sample.mass / sample.n
    m, miss = float(weights @ sample.confidences), float(weights @ sample.complements)
    if sample.effective_n <= 1 or m <= 0 or miss <= 0:
        return None
    # The complement has the same deviations as the confidence, and keeps its digits where the confidence saturates.
    deviation = sample.complements - miss if m > 0.5 else sample.confidences - m
    v = (float(weights @ np.square(deviation)) + sample.inner_variance) * sample.effective_n / (sample.effective_n - 1)
    if not 1e-30 < v < m * miss:
        return None
    a1 = m * m * miss / v - m
    a2 = a1 * miss / m
    # Practically one value or two: the integral would only resolve rounding.
    return BetaDensity(a1, a2) if min(a1, a2) > WIDEST and a1 + a2 < NARROWEST else None


_NODES = 16
MOST_PANELS = 1 << 13
"""If more panels than this still disagree, the rest is rounding."""

_TAIL = 45.0
"""A share e^-45 of the mass is left out at either end."""


class MeasurableCurve(Protocol):
    """Any curve that gives g(s) − s as a function of the log-odds."""

    def distance(self, log_odds: Floats) -> Floats: ...


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[Floats, Floats]:
    """Nodes and weights by Newton's method; importing numpy.polynomial would take 10 ms at every start."""
    n = _NODES
    x = np.cos(np.pi * (np.arange(n) + 0.75) / (n + 0.5))
    for _ in range(6):
        below, value = np.ones(n), x
        for k in range(2, n + 1):
            below, value = value, ((2 * k - 1) * x * value - (k - 1) * below) / k
        slope = n * (x * value - below) / (x * x - 1)
        x = x - value / slope
    return x, 2 / ((1 - x * x) * slope * slope)


def _distinct(points: Floats) -> Floats:
    """Sorted distinct values. Not np.unique, because that imports numpy.ma."""
    points = np.sort(points)
    keep = np.concatenate([[True], np.diff(points) > 0])
    distinct: Floats = points[keep]
    return distinct


def integrate(f: Callable[[Floats], Floats], edges: Floats, tolerance: float = 1e-14) -> Floats:
    """∫ f over [edges[0], edges[-1]] by Gauss–Legendre panels, halved until they agree.

    `f` maps n abscissae to an array of shape (m, n); the m integrals come back.
    """
    nodes, weights = _gauss_legendre()

    def panels(a: Floats, b: Floats) -> Floats:
        half = (b - a) / 2
        x = (a + b)[:, None] / 2 + half[:, None] * nodes
        values = f(x.ravel())
        return (values.reshape(-1, a.size, _NODES) @ weights) * half

    a, b = edges[:-1], edges[1:]
    coarse = panels(a, b)
    total = np.zeros(coarse.shape[0])
    for _ in range(40):
        middle = (a + b) / 2
        left, right = panels(a, middle), panels(middle, b)
        fine = left + right
        scale = np.abs(total) + np.abs(fine).sum(axis=1)
        # Differences below 1e-16 of the largest integral are rounding, which halving cannot reduce.
        enough = tolerance * scale + 1e-16 * scale.max()
        rough = (np.abs(fine - coarse) > enough[:, None]).any(axis=0)
        total += fine[:, ~rough].sum(axis=1)
        if not rough.any():
            break
        if a.size > MOST_PANELS:
            total += fine[:, rough].sum(axis=1)
            break
        a, b = np.concatenate([a[rough], middle[rough]]), np.concatenate([middle[rough], b[rough]])
        coarse = np.concatenate([left[:, rough], right[:, rough]], axis=1)
    return total


def _edges(density: BetaDensity) -> Floats:
    """Panel edges, geometrically spaced around the mode and around s = ½, as far as there is mass."""
    mode = float(np.log(density.a1 / density.a2))
    spread = float(np.sqrt(1 / density.a1 + 1 / density.a2))
    low = mode - 10 * spread - _TAIL / density.a1
    high = mode + 10 * spread + _TAIL / density.a2
    steps = np.concatenate([[0.0], 2.0 ** np.arange(-1, 14)])
    near = min(1.0, spread)
    points = np.concatenate([mode + near * steps, mode - near * steps, steps, -steps, [low, high]])
    return _distinct(points[(points >= low) & (points <= high)])


def density_nodes(density: BetaDensity, parts: int = 2) -> tuple[Floats, Floats]:
    """Log-odds and weights of a fixed Gauss–Legendre rule for integrals under densities near this one.

    Every panel of the adaptive rule is cut into `parts`; nothing is refined.
    """
    nodes, weights = _gauss_legendre()
    edges = _edges(density)
    fine = np.append((edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(parts) / parts)).ravel(), edges[-1])
    half = np.diff(fine) / 2
    x = (fine[:-1] + half)[:, None] + half[:, None] * nodes
    return x.ravel(), (half[:, None] * weights).ravel()


def _roots(distance: Callable[[Floats], Floats], edges: Floats) -> Floats:
    """Where the curve crosses the diagonal, by the Illinois method between sign changes."""
    x = np.append(edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(16) / 16), edges[-1])
    d = distance(x)
    crossing = np.flatnonzero((d[:-1] * d[1:] < 0) & (np.maximum(np.abs(d[:-1]), np.abs(d[1:])) > 1e-15))
    a, b, at_a, at_b = x[crossing], x[crossing + 1], d[crossing], d[crossing + 1]
    root: Floats = (a + b) / 2
    for _ in range(60):
        before, root = root, b - at_b * (b - a) / (at_b - at_a)
        # A root that is off by δ costs δ² of the integral.
        if np.all(np.abs(root - before) < 1e-9):
            break
        at = distance(root)
        crossed = at * at_b < 0
        a, at_a = np.where(crossed, b, a), np.where(crossed, at_b, at_a / 2)
        b, at_b = root, at
    return root


def tce_beta(curve: MeasurableCurve, density: BetaDensity, p: float = 1.0) -> float:
    """TCE under a Beta density, integrated over log-odds and split where g(s) = s.

    The density is normalised by the same rule, so its constant is never needed.
    """
    edges = _edges(density)
    edges = _distinct(np.concatenate([edges, _roots(curve.distance, edges)]))
    top = float(density.log_weight(np.array([np.log(density.a1 / density.a2)]))[0])

    def integrand(x: Floats) -> Floats:
        weight = np.exp(density.log_weight(x) - top)
        return np.stack([weight, weight * np.abs(curve.distance(x)) ** p])

    mass, error = integrate(integrand, edges)
    return float((error / mass) ** (1 / p))


def tce_empirical(curve: MeasurableCurve, sample: Sample, p: float = 1.0) -> float:
    """TCE under the sample's own confidences: (mean |g(ŝ) − ŝ|^p)^(1/p)."""
    error = np.abs(curve.distance(sample.log_odds)) ** p
    return float((np.dot(sample.mass, error) / sample.n) ** (1 / p))
