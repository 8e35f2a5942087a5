"""The normal distribution. Written here because importing `statistics` would take 6 ms at every start."""

from __future__ import annotations

import math

Z95 = 1.959963984540054
"""A normal variable lies within ± this many standard deviations in 95 % of the cases."""


def normal_cdf(z: float) -> float:
    """Φ(z), to full relative precision in the lower tail."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def normal_quantile(p: float) -> float:
    """Φ⁻¹(p) for 0 < p < 1, by Newton's method on log Φ, which is concave."""
    if p > 0.5:
        return -normal_quantile(1.0 - p)
    z = -math.sqrt(-2.0 * math.log(2.0 * p)) if p < 0.5 else 0.0
    for _ in range(60):
        below = normal_cdf(z)
        density = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
        step = math.log(below / p) * below / density
        z -= step
        if abs(step) < 1e-14 * max(abs(z), 1.0):
            break
    return z
