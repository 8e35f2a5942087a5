"""Counts and sums by cell, in dense arrays: whole numbers, or floats where rows have weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bpmcli.core.data.sample import Floats, Ints
from bpmcli.core.summary.grid import CHUNK, LOW_BITS, Values, insets

ROWS_A_PLACE = 1 << 20
"""The rows that one int64 can count: the sum of their low bits is below bit _COUNT_AT, their number above it."""

_COUNT_AT = LOW_BITS + 20

_LOW_SUM = (1 << _COUNT_AT) - 1


class CellTable:
    """Count, correct rows and excess by cell, in order of confidence; s = 0.5 is in the middle."""

    def __init__(self, weighted: bool = False) -> None:
        self.weighted = weighted
        self._sums: list[Values] = [np.zeros(0, self._kind) for _ in range(3)]
        # Rows since the last `_settle`, by 2 · high + hit and depth: their number and low bits in one number, or
        # their weights and weighted low bits in two.
        self._fresh: Values = np.zeros((4, 0), self._kind)
        self._low: Values = np.zeros((4, 0))
        self._spare = ROWS_A_PLACE  # rows that can be added before any number could overflow

    @property
    def _kind(self) -> type:
        return np.float64 if self.weighted else np.int64

    def make_room(self, depths: int) -> int:
        """Make room for rows of this many depths. Returns the number of depths that there is room for now."""
        more = depths - int(self._fresh.shape[1])
        if more > 0:
            self._fresh = np.pad(self._fresh, ((0, 0), (0, more)))
            self._low = np.pad(self._low, ((0, 0), (0, more))) if self.weighted else self._low
        return max(depths, depths - more)

    def add_rows(self, places: Ints, low: Ints, weights: Floats | None) -> None:
        """Add rows at the places that a `Placer` computed; there must be room for them."""
        if weights is not None:
            np.add.at(self._fresh.reshape(-1), places, weights)
            np.add.at(self._low.reshape(-1), places, weights * low)
            return
        np.bitwise_or(low, 1 << _COUNT_AT, out=low)
        np.add.at(self._fresh.reshape(-1), places, low)
        self._spare -= places.size
        if self._spare < CHUNK:
            fullest = int(self._fresh.max() >> _COUNT_AT)
            if fullest > ROWS_A_PLACE // 2:
                self._settle()
                fullest = 0
            self._spare = ROWS_A_PLACE - fullest

    def add_cells(self, cells: npt.NDArray[np.int32], *sums: Values) -> None:
        """Add the count, correct rows and excess of cells, which may repeat."""
        if not cells.size:
            return
        self._reach(max(-int(cells.min()), int(cells.max())) + 1)
        at = cells.astype(np.int64) + self._sums[0].size // 2
        for mine, others in zip(self._sums, sums, strict=True):
            np.add.at(mine, at, others.astype(mine.dtype, copy=False))

    def taken(self) -> tuple[Values, ...]:
        """The cells that hold rows, with their count, correct rows and excess."""
        if not self._sums[0].size:
            return self._fresh_cells()
        self._settle()
        at = np.flatnonzero(self._sums[0])
        cells = (at - self._sums[0].size // 2).astype(np.int32)
        return cells, *(values[at] for values in self._sums)

    def take_weights(self) -> None:
        """Switch to weights; everything added so far has weight one."""
        self._settle()
        self.weighted = True
        self._sums = [values.astype(np.float64) for values in self._sums]
        self._fresh = self._low = np.zeros((4, 0))

    def _settle(self) -> None:
        self.add_cells(*self._fresh_cells())
        self._fresh[:], self._low[:] = 0, 0

    def _fresh_cells(self) -> tuple[Values, ...]:
        fresh, lows = self._fresh, self._low
        if fresh.shape[1]:
            # Both sides have s = 0.5 at depth 0.
            for values in (fresh, lows) if self.weighted else (fresh,):
                values[:2, 0] += values[2:, 0]
                values[2:, 0] = 0
        sides = []
        for high in (0, 1):
            pair = fresh[2 * high], fresh[2 * high + 1]
            depth = np.flatnonzero((pair[0] != 0) | (pair[1] != 0))
            misses, hits = (values[depth] for values in pair)
            if self.weighted:
                low = lows[2 * high][depth] + lows[2 * high + 1][depth]
            else:
                low = (misses & _LOW_SUM) + (hits & _LOW_SUM)
                misses, hits = misses >> _COUNT_AT, hits >> _COUNT_AT
            rows = misses + hits
            excess = low - rows * insets(fresh.shape[1])[depth]
            cells = (depth if high else -depth).astype(np.int32)
            # Below one half, deeper cells have lower confidences.
            sides.append([values if high else values[::-1] for values in (cells, rows, hits, excess)])
        return tuple(np.concatenate(both) for both in zip(*sides, strict=True))

    def _reach(self, depths: int) -> None:
        """Make room for that many depths on both sides."""
        size = self._sums[0].size
        if 2 * depths - 1 > size:
            old, self._sums = self._sums, [np.zeros(2 * depths - 1, self._kind) for _ in range(3)]
            start = depths - 1 - size // 2
            for values, fresh in zip(old, self._sums, strict=True):
                fresh[start : start + size] = values
