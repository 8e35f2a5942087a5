"""The grid of a summary: from m = min(s, 1 − s) of a row to its cell, and back.

The leading bits of m choose the cell: 2^9 cells per factor of two, divided further where they would be wider than
2^-16. The depth of a cell is the number of cells between it and m = 0.5. Sums of m use its 32 leading bits as whole
numbers, so that they do not depend on the order of the rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bpmcli.core.data.sample import Floats, Ints

Bools = npt.NDArray[np.bool_]
Values = npt.NDArray[Any]
"""Whole numbers (int64), or floats where rows have weights."""

MANTISSA_BITS = 9
FIXED_BITS = 16
"""A cell is at most 2^-9 m and at most 2^-16 wide: the edges of both grids are edges of cells."""

KEPT_BITS = 31
"""Bits of m after the leading one that enter sums: exact for float32, within 2^-33 of m otherwise."""

LOW_BITS = KEPT_BITS - MANTISSA_BITS
"""The kept bits that lie below those that choose the cell."""

CHUNK = 1 << 15
"""Rows processed at a time, so that their arrays stay in the cache."""


def depths_of(m: Floats) -> Ints:
    """How many cells m lies below one half."""
    bits = m.view(np.int64)
    half = (1022 << MANTISSA_BITS) + (1 << (FIXED_BITS - 1))
    fixed = np.multiply(m, float(1 << FIXED_BITS)).astype(np.int64)
    return half - (bits >> (52 - MANTISSA_BITS)) - fixed


def low_bits_of(m: Floats) -> Ints:
    """The kept bits of m that do not choose its cell: those below the first nine after the leading one."""
    return (m.view(np.int64) >> (52 - KEPT_BITS)) & ((1 << LOW_BITS) - 1)


def rounded(m: Floats) -> Floats:
    """m rounded to its kept bits."""
    dropped = 52 - KEPT_BITS
    bits = (m.view(np.int64) + (1 << (dropped - 1))) & (-1 << dropped)
    return bits.view(np.float64)


def grid_cells(m: Floats, high: Bools) -> tuple[npt.NDArray[np.int32], Ints]:
    """The cell of every m, and how far above the cell's least m it lies, in units of 2^-31 of its power of two."""
    m = rounded(m)
    depth = depths_of(m)
    cells = np.where(high, depth, -depth).astype(np.int32)
    return cells, low_bits_of(m) - insets(int(depth.max(initial=0)) + 1)[depth]


def least_and_units(depths: int) -> tuple[Floats, Floats]:
    """The least m of each depth and the unit of its sums. (Depths without any m are set to one.)"""
    least, unit, _ = _grid(1 << (depths - 1).bit_length())
    return least[:depths], unit[:depths]


@lru_cache(maxsize=20)
def _grid(depths: int) -> tuple[Floats, Floats, Ints]:
    """The same with the low bits of the least m, for a power of two of depths, so that small tables share a result."""
    least = np.ones(depths)
    for power in range(-1, -1075, -1):
        steps = 1 << max(MANTISSA_BITS, power + FIXED_BITS)
        m = np.ldexp(1.0 + np.arange(steps if power < -1 else 1) / steps, power)
        depth = depths_of(m)
        inside = depth < depths
        least[depth[inside]] = m[inside]
        if not inside.all():
            break
    unit: Floats = np.ldexp(1.0, (least.view(np.int64) >> 52) - 1023 - KEPT_BITS)
    return least, unit, low_bits_of(least)


def insets(depths: int) -> Ints:
    """The low bits of the least m of each depth. The low bits of a row minus these are its excess."""
    return _grid(1 << (depths - 1).bit_length())[2][:depths]


class Placer:
    """Computes the place of every row in a table. Its buffers are reused for all chunks."""

    def __init__(self, kind: npt.DTypeLike, size: int = CHUNK) -> None:
        # float32 has fewer bits than are kept, so it can be processed in half of the memory.
        self.short = np.dtype(kind) == np.float32
        self.m: npt.NDArray[Any] = np.empty(size, np.float32 if self.short else np.float64)
        self.high = np.empty(size, dtype=bool)
        self._bits: npt.NDArray[Any] = self.m.view(np.int32 if self.short else np.int64)
        self._wide, self._index = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        self._scaled = np.empty_like(self.m)
        self._name, self._part = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
        self._inner = np.empty(size, dtype=np.int8)

    def places(self, hits: Bools, depths: int) -> tuple[Ints, Ints]:
        """For the rows in `m` and `high`: depth + depths · (2 · high + hit), and their low bits."""
        n = hits.size
        m, bits, name, part, low = self.m[:n], self._bits[:n], self._name[:n], self._part[:n], self._wide[:n]
        scaled, inner, index = self._scaled[:n], self._inner[:n], self._index[:n]
        mantissa, half = (23, 126) if self.short else (52, 1022)
        if not self.short:
            # Round to the kept bits; the bits below them are shifted away.
            np.add(bits, 1 << (51 - KEPT_BITS), out=bits)
            np.right_shift(bits, mantissa - MANTISSA_BITS, out=low)
            name[:] = low
        else:
            np.right_shift(bits, mantissa - MANTISSA_BITS, out=name)
        np.multiply(m, m.dtype.type(1 << FIXED_BITS), out=scaled)
        part[:] = scaled
        np.add(name, part, out=name)
        np.subtract((half << MANTISSA_BITS) + (1 << (FIXED_BITS - 1)), name, out=name)
        np.left_shift(self.high[:n].view(np.int8), 1, out=inner)
        np.bitwise_or(inner, hits.view(np.int8), out=inner)
        part[:] = inner
        np.multiply(part, depths, out=part)
        np.add(name, part, out=name)
        index[:] = name
        if self.short:
            np.bitwise_and(bits, (1 << (mantissa - MANTISSA_BITS)) - 1, out=part)
            np.left_shift(part, KEPT_BITS - mantissa, out=part)
            low[:] = part
        else:
            np.right_shift(bits, mantissa - KEPT_BITS, out=low)
            np.bitwise_and(low, (1 << LOW_BITS) - 1, out=low)
        return index, low
