"""Sums that have the same bits in whatever order the rows stand, so that rows need not be sorted to be added up.

Every term is split into two whole numbers of 30 bits. Whole numbers add up without rounding while their sum is below
2⁵³, which is so for up to 2²³ rows. What is cut off a term is below 2⁻⁶⁰ of the largest term.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpmcli.record import Record

if TYPE_CHECKING:
    from typing import Any

    from bpmcli.core.data.sample import Floats, Ints

BITS = 30
MOST_ROWS = 1 << 22
"""Sums over more rows are made in sorted order."""
LARGEST_SCALE = 1000
"""The exponent of the largest power of two by which terms are multiplied."""


class Terms(Record):
    """Rows or cells in any order."""

    log_odds: Floats
    confidences: Floats
    complements: Floats
    mass: Floats | None
    """None if every mass is one."""
    hits: np.ndarray[Any, Any]
    """The mass of the correct rows; of single rows, whether they are correct."""


def total(values: Floats, mass: Floats | None) -> float:
    """Σ mass · value, for values in [0, 1]."""
    high, low = _parts(values * 2.0**BITS, mass)
    return (float(np.sum(high)) + float(np.sum(low)) / 2.0**BITS) / 2.0**BITS


def totals(values: Floats, mass: Floats | None, bins: Ints, largest: Floats) -> Floats:
    """Σ mass · value in every bin; `largest` is at least the largest value of each bin."""
    scale = np.ldexp(1.0, np.minimum(BITS - np.frexp(largest)[1], LARGEST_SCALE))
    high, low = _parts(values * scale[bins], mass)
    found: Floats = np.bincount(bins, high, scale.size) + np.bincount(bins, low, scale.size) / 2.0**BITS
    found /= scale
    return found


def _parts(scaled: Floats, mass: Floats | None) -> tuple[Floats, Floats]:
    high = np.floor(scaled)
    low = np.rint((scaled - high) * 2.0**BITS)
    return (high, low) if mass is None else (high * mass, low * mass)
