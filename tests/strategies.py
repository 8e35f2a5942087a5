"""Samples for property tests: ties, saturation and every size included."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


@st.composite
def rows(draw: st.DrawFn, min_size: int = 1, max_size: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Confidences (continuous, tied or saturated) and hits."""
    n = draw(st.integers(min_size, max_size))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    confidences = rng.beta(*draw(st.sampled_from([(2.77, 0.04), (1.2, 0.2), (2.0, 2.0)])), size=n)
    levels = draw(st.sampled_from([None, 3, 11]))
    if levels:
        confidences = np.round(confidences * levels) / levels
    hits = rng.random(n) < draw(st.sampled_from([0.0, 0.3, 0.9, 1.0]))
    return confidences, hits
