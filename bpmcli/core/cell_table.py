"""Rows and sums by cell, dense: what is added is whole numbers, unless rows have weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bpmcli.core.grid import CHUNK, LOW_BITS, depths_of, grid, low_bits_of
from bpmcli.core.sample import Floats, Ints

CHECKED_EVERY = 1 << 19
"""Rows between looks at the fullest place, which may hold twice as many."""

_COUNT_AT = LOW_BITS + 20
"""Rows are counted from this bit upwards, and the low bits of 2^20 of them add up below it."""

Column = npt.NDArray[Any]


class CellTable:
    """Count, hits and excess by cell, from the lowest confidence to the highest; the middle one is s = 0.5."""

    def __init__(self, weighted: bool = False) -> None:
        kind = np.float64 if weighted else np.int64
        self.weighted = weighted
        self.count: Column = np.zeros(1, kind)
        self.hits: Column = np.zeros(1, kind)
        self.excess: Column = np.zeros(1, kind)
        # Since the last `_settle`, at 4 · depth + 2 · high + hit: rows and low bits in one number, or weights and
        # weighted low bits in two.
        self._fresh: Column = np.zeros(0, kind)
        self._low: Column = np.zeros(0)
        self._least = 1.0
        self._unchecked = 0
        self._settled = True

    def make_room(self, least: float) -> None:
        """For rows whose m is no smaller."""
        if least < self._least:
            self._least = least
            size = 4 * (int(depths_of(np.array([least]))[0]) + 1)
            self._fresh = _padded(self._fresh, size)
            self._low = _padded(self._low, size if self.weighted else 0)

    def add_rows(self, places: Ints, low: Ints, weights: Floats | None) -> None:
        """Rows where a `Placer` says; there must be room for them."""
        self._settled = False
        if weights is not None:
            np.add.at(self._fresh, places, weights)
            np.add.at(self._low, places, weights * low)
            return
        np.bitwise_or(low, 1 << _COUNT_AT, out=low)
        np.add.at(self._fresh, places, low)
        self._unchecked += places.size
        if self._unchecked > CHECKED_EVERY - CHUNK:
            self._unchecked = 0
            if self._fresh.max() >> _COUNT_AT > CHECKED_EVERY:
                self._settle()

    def add_cells(self, cells: npt.NDArray[np.int32], count: Column, hits: Column, excess: Column) -> None:
        """Cells of another table; they may repeat."""
        if not cells.size:
            return
        self._reach(max(-int(cells.min()), int(cells.max())) + 1)
        at = cells.astype(np.int64) + self.count.size // 2
        for mine, others in ((self.count, count), (self.hits, hits), (self.excess, excess)):
            np.add.at(mine, at, others.astype(mine.dtype, copy=False))

    def taken(self) -> tuple[npt.NDArray[np.int32], Column, Column, Column]:
        """Cells that hold rows, and what they hold."""
        self._settle()
        at = np.flatnonzero(self.count)
        cells = (at - self.count.size // 2).astype(np.int32)
        return cells, self.count[at], self.hits[at], self.excess[at]

    def take_weights(self) -> None:
        """What was added so far has weight one."""
        self._settle()
        self.count, self.hits, self.excess = (v.astype(np.float64) for v in (self.count, self.hits, self.excess))
        self._fresh, self._low, self._least = np.zeros(0), np.zeros(0), 1.0
        self.weighted = True

    def _settle(self) -> None:
        if self._settled:
            return
        depths = self._fresh.size // 4
        self._reach(depths)
        count, low = self._fresh, self._low
        if not self.weighted:
            count, low = self._fresh >> _COUNT_AT, self._fresh & ((1 << _COUNT_AT) - 1)
        inset = low_bits_of(grid(depths)[0])
        middle = self.count.size // 2
        for high in (0, 1):
            # Low cells run backwards from the middle.
            step = (
                slice(middle, middle + depths)
                if high
                else slice(middle, middle - depths if middle >= depths else None, -1)
            )
            rows = count[2 * high :: 4] + count[2 * high + 1 :: 4]
            self.count[step] += rows
            self.hits[step] += count[2 * high + 1 :: 4]
            self.excess[step] += low[2 * high :: 4] + low[2 * high + 1 :: 4] - rows * inset
        self._fresh[:], self._low[:] = 0, 0
        self._settled = True

    def _reach(self, depths: int) -> None:
        """Room for that many depths on both sides."""
        more = depths - (self.count.size + 1) // 2
        if more > 0:
            self.count, self.hits, self.excess = (np.pad(v, more) for v in (self.count, self.hits, self.excess))


def _padded(values: Column, size: int) -> Column:
    out = np.zeros(size, values.dtype)
    out[: values.size] = values
    return out
