"""Distinct values and their counts, as long as there are at most LIMIT of them.

The choice depends only on the data, not on row order or file splits: a union can only have at most LIMIT distinct
values if each of its parts has at most LIMIT.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bpmcli.core.data.sample import Floats, Ints
from bpmcli.core.summary.grid import Bools, Values

LIMIT = 1 << 16
"""The largest number of distinct values that are kept."""

FIRST_LOOK = 3 << 15
"""Rows that are collected before they are counted."""

_SLOT_BITS = 18  # among 98304 distinct rows, more than LIMIT have a slot of their own
_LOOKUP_BITS = 20  # few values share a slot
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.int64(1)  # the same type as the table: ufunc.at is ten times slower otherwise
_MIRROR = np.int64(2**63 - 1)
_HALF = np.float64(0.5).view(np.int64)


def codes_of(m: Floats, high: Bools) -> Ints:
    """m and its side of one half as one integer that grows with the confidence."""
    bits = m.astype(np.float64).view(np.int64)
    return np.where(high, bits ^ _MIRROR, bits)


def from_codes(codes: Ints) -> tuple[Floats, Bools]:
    """The inverse of `codes_of`."""
    high = codes > _HALF
    return np.where(high, codes ^ _MIRROR, codes).view(np.float64), high


def grouped(keys: npt.NDArray[Any], *columns: Values) -> tuple[Values, ...]:
    """Sorted distinct keys, and the sums of the columns for each."""
    if not keys.size:
        return keys, *columns
    whole = all(column.dtype.kind == "i" for column in columns)
    order = np.argsort(keys, kind=None if whole else "stable")  # floats are added in the order in which they came
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], *(np.add.reduceat(column[order], starts) for column in columns)


class Waiting(NamedTuple):
    """Values that have not been counted yet: single rows, or counts by value."""

    codes: Ints
    hits: Values
    rows: Values | None = None


class Distinct:
    """Counts by value. Rows are collected until there are enough to be counted together."""

    def __init__(self, kind: type) -> None:
        self.table = Waiting(np.zeros(0, dtype=np.int64), np.zeros(0, kind), np.zeros(0, kind))
        self.waiting: list[Waiting] = []
        self._rows = 0
        # Rows since the table was made, as misses and hits by value; where the value of a slot is in the table.
        self._seen = np.zeros(0, dtype=np.int64)
        self._at: npt.NDArray[np.int32] | None = None

    def add(self, more: Waiting) -> bool:
        """Add values. Returns False if there are now more than LIMIT, some of which are still uncounted."""
        if self.table.codes.size and more.rows is None:
            more = self._unknown(more)
        if not more.codes.size:
            return True
        self.waiting.append(more)
        self._rows += more.codes.size
        # The cost of counting grows with the number of values, so many rows should share it.
        return self._rows < max(FIRST_LOOK, 4 * self.table.codes.size) or self.settle()

    def settle(self) -> bool:
        """Count what was collected. Returns False if there are more than LIMIT values."""
        codes, hits, rows = self.table
        if rows is not None and self._seen.any():
            self.table = Waiting(codes, hits + self._seen[1::2], rows + self._seen[0::2] + self._seen[1::2])
            self._seen[:] = 0
        if not self.waiting:
            return True
        parts = [self.table, *self.waiting]
        codes = np.concatenate([part.codes for part in parts])
        if codes.size > LIMIT and _at_least(codes) > LIMIT:
            return False
        counts = [np.ones(p.codes.size, self.kind) if p.rows is None else p.rows for p in parts]
        hits = np.concatenate([part.hits.astype(self.kind, copy=False) for part in parts])
        codes, hits, count = grouped(codes, hits, np.concatenate(counts))
        if codes.size > LIMIT:
            return False
        self.table, self.waiting, self._rows = Waiting(codes, hits, count), [], 0
        self._seen, self._at = np.zeros(0, dtype=np.int64), None
        return True

    def _unknown(self, more: Waiting) -> Waiting:
        """Count the rows whose values are already in the table; return the rest, which are new or share a slot."""
        codes = self.table.codes
        if self._at is None:
            self._seen, self._at = np.zeros(2 * codes.size, dtype=np.int64), np.zeros(1 << _LOOKUP_BITS, dtype=np.int32)
            self._at[_slots(codes, _LOOKUP_BITS)] = np.arange(codes.size)
        at = self._at[_slots(more.codes, _LOOKUP_BITS)].astype(np.int64)
        known = codes[at] == more.codes
        place = 2 * at + more.hits
        if known.all():
            np.add.at(self._seen, place, _ONE)
            return Waiting(more.codes[:0], more.hits[:0])
        np.add.at(self._seen, place[known], _ONE)
        return Waiting(more.codes[~known], more.hits[~known])

    @property
    def kind(self) -> np.dtype[Any]:
        return self.table.hits.dtype

    def take_weights(self) -> None:
        """Switch to weights; everything added so far has weight one."""
        codes, hits, rows = self.table
        assert rows is not None
        self.table = Waiting(codes, hits.astype(np.float64), rows.astype(np.float64))


def _at_least(codes: Ints) -> int:
    """The occupied slots of a hash table: close to the number of distinct values, and never more than it."""
    taken = np.zeros(1 << _SLOT_BITS, dtype=bool)
    taken[_slots(codes, _SLOT_BITS)] = True
    return int(np.count_nonzero(taken))


def _slots(codes: Ints, bits: int) -> Ints:
    """The slot of every value in a hash table."""
    mixed = codes.view(np.uint64) * _MIX
    slots: Ints = np.right_shift(mixed, np.uint64(64 - bits), out=mixed).view(np.int64)
    return slots
