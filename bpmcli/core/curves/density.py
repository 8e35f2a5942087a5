"""The distribution of confidence: Beta by moments (the paper's), or the sample itself."""

from __future__ import annotations

from typing import NamedTuple

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

    None when the confidences have no variance or more than any Beta: v ≥ m(1 − m).
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
