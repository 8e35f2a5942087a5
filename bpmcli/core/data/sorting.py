"""Sorts rows into cells: distinct log-odds with their mass and the mass of their correct rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpmcli.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from bpmcli.core.data.sample import Floats


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
