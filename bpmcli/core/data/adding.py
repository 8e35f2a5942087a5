"""Rows are added up: sorted into cells (distinct log-odds with the mass of all rows and of correct ones), or unsorted.

Sums over rows in any order have the same bits, because every term is split into two whole numbers of 30 bits. Whole
numbers add up without rounding while their sum is below 2⁵³, which is so for up to 2²³ rows. What is cut off a term is
below 2⁻⁶⁰ of the largest term.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpmcli.errors import DataError
from bpmcli.record import Record

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

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


def sorted_cells(x: Floats, is_hit: npt.NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """Distinct log-odds in ascending order, their mass and the mass of their correct rows.

    The lowest bit of every log-odds must be free: the outcome is packed into it, so that one array is sorted.
    """
    bits = np.bitwise_or(x.view(np.int64), is_hit)
    x = bits.view(np.float64)
    x.sort()
    hit_bits = (bits & 1).astype(np.float64)
    np.bitwise_and(bits, ~np.int64(1), out=bits)
    new = x[1:] != x[:-1]
    if new.all():
        return x, np.ones(x.size), hit_bits
    starts = np.concatenate([[0], np.flatnonzero(new) + 1])
    mass = np.diff(np.append(starts, x.size)).astype(np.float64)
    return x[starts], mass, np.add.reduceat(hit_bits, starts)


def weighted_cells(
    x: Floats, hits: npt.NDArray[np.bool_], weights: Floats
) -> tuple[Floats, Floats, Floats, int, float]:
    """Sorted log-odds with their mass and the mass of their correct rows, the number of rows, and the effective one."""
    if weights.size != x.size:
        raise DataError(f"{x.size} confidences but {weights.size} weights")
    bad = ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(f"weights must be finite and not negative, found {weights[row]} (row {row + 1})")
    if not (weights > 0).any():
        raise DataError("all weights are zero")
    # Only ratios of weights matter; scaled by the largest, neither sums nor squares overflow.
    weights = weights / weights.max()
    keep = weights > 1e-150
    x, hits, weights = x[keep], hits[keep], weights[keep]
    # A complete order, so that sums do not depend on the order of the rows.
    order = np.lexsort((hits, weights, x))
    x, hits, weights = x[order], hits[order], weights[order]
    n = x.size
    effective = float(np.sum(weights)) ** 2 / float(np.dot(weights, weights))
    weights = weights * (n / np.sum(weights))
    starts = np.concatenate([[0], np.flatnonzero(x[1:] != x[:-1]) + 1])
    return x[starts], np.add.reduceat(weights, starts), np.add.reduceat(weights * hits, starts), n, effective
