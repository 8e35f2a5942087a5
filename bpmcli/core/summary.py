"""A sample of any size in a table of fixed size, built in one pass and merged by addition.

A row with confidence s goes to the cell named by the leading bits of m = min(s, 1 − s), mirrored at
one half: 2^9 cells per factor of two of m, cut further where they are wider than 2^-16. A cell knows how
many hits and misses it holds and the sum of m, so accuracy and mean confidence stay exact; only the order
of the rows inside a cell is lost. A table of cells is a `Sample`: every metric and fit runs from it as it is.

Counts are integers and m is kept in fixed point (32 leading bits: exact for float32 data, within 2^-33
of m otherwise), so unweighted summaries add up to the same bits in any order. Weighted ones hold floats
and are merged along a fixed tree (`core.merging`), whatever the number of workers.

Error bound: an inner edge of equal-mass bins that falls into a cell with a share p of all rows and hit
rate a moves at most a(1 − a)p of hits and p·2^-9·m of confidence to the other side, see `edge_bound`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bpmcli.core.binning import array_split_edges
from bpmcli.core.sample import Floats, Ints, Sample
from bpmcli.errors import DataError

MANTISSA_BITS = 9
FIXED_BITS = 16
"""A cell is at most 2^-9 of m and at most 2^-16 wide: the edges of both grids are edges of cells."""

KEPT_BITS = 31
"""Bits of m below the first one that enter sums: 2^21 rows of 32 bits add up exactly in a float64."""

CHECKED_EVERY = (1 << 20) - (1 << 15)
"""Rows between looks at the fullest cell: its sums become whole numbers before it holds 2^21 rows."""

UNIT_SQUARE = 160
"""Σ m² is kept as a whole number of 2^-160."""

BARE_FLOOR = 2.0**-54
"""A bare confidence of 0 or 1: m is taken as what float64 cannot tell from it (BARE_LIMIT in log-odds)."""

_SHIFT = 52 - MANTISSA_BITS
_HALF = (1022 << MANTISSA_BITS) + (1 << (FIXED_BITS - 1))  # the key of m = 0.5
_DROPPED = 52 - KEPT_BITS
_ONE = np.int32(1)  # of the table's own type: ufunc.at is ten times slower otherwise
_CHUNK = 1 << 15  # rows worked at a time: their arrays stay in the cache
_MOST = 1 << (62 - KEPT_BITS + MANTISSA_BITS)  # rows a cell can take before its sum overflows: 10^12


_Convert = Callable[[Any, Floats, npt.NDArray[np.bool_]], None]
"""Scores of some rows → m and whether s > 0.5."""


@dataclass(frozen=True)
class Summary:
    """Cells in order of confidence: 0 is s = 0.5, negative ones lie below, positive ones above."""

    cells: npt.NDArray[np.int32]
    count: npt.NDArray[Any]
    """Rows (int64), or their weight (float64)."""
    hits: npt.NDArray[Any]
    excess: npt.NDArray[Any]
    """Σ (m − least m of the cell), in units of 2^-31 of the cell's power of two."""
    n: int
    """Rows with a positive weight."""
    squares: Any
    """Σ m² in units of 2^-160 (whole number), or Σ w·m² (float)."""
    weight_squares: float | None = None
    """Σ w²; None without weights."""

    @property
    def weighted(self) -> bool:
        return self.weight_squares is not None

    def to_sample(self) -> Sample:
        """The cells as a sample: mass, hits and mean confidence of each."""
        if not self.n:
            raise DataError("no rows")
        depth = np.abs(self.cells)
        least, unit = (values[depth] for values in _grid(int(depth.max()) + 1))
        m = least + unit * (self.excess / self.count)
        low = self.cells <= 0
        count = self.count.astype(np.float64)
        total = float(count.sum())
        scale = self.n / total if self.weighted else 1.0
        effective = total * total / self.weight_squares if self.weight_squares is not None else float(self.n)
        squares = float(self.squares) if self.weighted else self.squares / (1 << UNIT_SQUARE)
        # What the spread inside the cells adds to the variance of confidence.
        inner = max(0.0, (squares - float(count @ np.square(m))) / total)
        x = np.log(m) - np.log1p(-m)
        return Sample(
            np.where(low, x, -x), np.where(low, m, 1.0 - m), np.where(low, 1.0 - m, m),
            count * scale, self.hits * scale, self.n, effective, self.weighted, summarised=True, inner_variance=inner,
        )  # fmt: skip


def edge_bound(sample: Sample, n_bins: int = 15) -> float:
    """The most by which `ece` from a summary can differ from the exact one: Σ over inner edges of
    2p(a(1 − a) + 2^-9·min(s, 1 − s)), p and a the share and hit rate of the cell an edge falls into.
    """
    edges = array_split_edges(sample.n, min(n_bins, sample.n))[1:-1]
    at = np.unique(np.clip(np.searchsorted(sample.mass_before, edges, side="right") - 1, 0, sample.mass.size - 1))
    rate = sample.hits[at] / sample.mass[at]
    width = np.minimum(sample.confidences[at], sample.complements[at]) / (1 << MANTISSA_BITS)
    return float(np.sum(2 * sample.mass[at] / sample.n * (rate * (1 - rate) + width)))


def _depths(m: Floats) -> Ints:
    """How many cells m lies below one half: _HALF − (leading bits of m as a number + ⌊2^16·m⌋)."""
    fixed = np.multiply(m, float(1 << FIXED_BITS)).astype(np.int64)
    return _HALF - (m.view(np.int64) >> _SHIFT) - fixed


@lru_cache(maxsize=4)
def _grid(depths: int) -> tuple[Floats, Floats]:
    """Least m of each depth, and the unit of its sums. (Depths that no m has are left at one.)"""
    least = np.ones(depths)
    for power in range(-1, -1075, -1):
        steps = 1 << max(MANTISSA_BITS, power + FIXED_BITS)
        m = np.ldexp(1.0 + np.arange(steps if power < -1 else 1) / steps, power)
        depth = _depths(m)
        inside = depth < depths
        least[depth[inside]] = m[inside]
        if not inside.all():
            break
    unit: Floats = np.ldexp(1.0, (least.view(np.int64) >> 52) - 1023 - KEPT_BITS)
    return least, unit


class Accumulator:
    """Adds rows and summaries up. Dense by depth (distance from one half), side and outcome."""

    def __init__(self, weighted: bool = False) -> None:
        kind = np.float64 if weighted else np.int64
        self.count: npt.NDArray[Any] = np.zeros(0, kind)  # four per depth: side (low, high) × outcome (miss, hit)
        self.excess: npt.NDArray[Any] = np.zeros(0, kind)  # two per depth
        self.n = 0
        self.squares: Any = 0.0 if weighted else 0
        self.weight_squares: float | None = 0.0 if weighted else None
        # Since the last `_settle`: count and Σ m, which stays exact up to 2^21 rows a cell.
        self._fresh: npt.NDArray[Any] = np.zeros(0, np.float64 if weighted else np.int32)
        self._sums = np.zeros(0)
        self._unchecked = 0
        self.saturated = 0
        """Bare confidences that were 0 or 1."""

    def add(self, log_odds: Floats, hits: npt.NDArray[np.bool_], weights: Floats | None = None) -> None:
        """Rows as log-odds within ±700."""
        if weights is not None:
            self._take_weights()
            bad = ~np.isfinite(weights) | (weights < 0)
            if bad.any():
                raise DataError(f"weights must be finite and not negative, found {weights[bad][0]}")
            if not weights.all():
                keep = weights > 0
                log_odds, hits, weights = log_odds[keep], hits[keep], weights[keep]
        elif self.weight_squares is not None:
            weights = np.ones(log_odds.size)
        self._add(_from_log_odds, log_odds, hits, weights)

    def add_confidences(self, confidences: npt.NDArray[Any], hits: npt.NDArray[np.bool_]) -> bool:
        """Unweighted rows as bare confidences, without a logarithm. False, and none added: some are not in [0, 1]."""
        if self.weight_squares is not None or not confidences.size:
            return not confidences.size
        low, high = confidences.min(), confidences.max()
        if not (low >= 0.0 and high <= 1.0):
            return False
        if low < BARE_FLOOR or high == 1.0:
            self.saturated += int(np.count_nonzero(confidences == 0.0) + np.count_nonzero(confidences == 1.0))
            self._add(_from_saturated, confidences, hits, None)
        else:
            self._add(_from_confidences, confidences, hits, None)
        return True

    def _add(self, convert: _Convert, scores: Any, hits: Any, weights: Floats | None) -> None:
        """In chunks that stay in the cache from the score to the table."""
        m, fixed, high = np.empty(_CHUNK), np.empty(_CHUNK), np.empty(_CHUNK, dtype=bool)
        index, fixed_index = np.empty(_CHUNK, dtype=np.int64), np.empty(_CHUNK, dtype=np.int64)
        for rows in _slices(scores.size, _CHUNK):
            n = rows.stop - rows.start
            if n < _CHUNK:
                m, fixed, high, index, fixed_index = m[:n], fixed[:n], high[:n], index[:n], fixed_index[:n]
            convert(scores[rows], m, high)
            bits = m.view(np.int64)
            if scores.dtype != np.float32:  # which has no more bits
                np.add(bits, 1 << (_DROPPED - 1), out=bits)
                np.bitwise_and(bits, -1 << _DROPPED, out=bits)
            # index = 4 · depth + 2 · high + hit, see `_depths`.
            np.right_shift(bits, _SHIFT, out=index)
            np.multiply(m, float(1 << FIXED_BITS), out=fixed)
            fixed_index[:] = fixed
            np.add(index, fixed_index, out=index)
            np.left_shift(index, 2, out=index)
            inner = high.view(np.int8) * np.int8(2)
            inner += hits[rows].view(np.int8)
            np.subtract(inner, index, out=index)
            np.add(index, 4 * _HALF, out=index)
            self._count(m, index, None if weights is None else weights[rows])

    def _count(self, m: Floats, index: Ints, weights: Floats | None) -> None:
        """Add a chunk to the tables."""
        size = int(index.max()) + 1
        if size > self._fresh.size:
            self._fresh, self._sums = _padded(self._fresh, size), _padded(self._sums, size)
        if weights is None:
            np.add.at(self._fresh, index, _ONE)
            np.add.at(self._sums, index, m)
            # In runs so short that BLAS never splits them among threads: the same bits everywhere.
            squares = sum(float(np.dot(m[run], m[run])) for run in _slices(m.size, 1 << 13))
            self.squares += int(squares * 2.0**UNIT_SQUARE)
        else:
            assert self.weight_squares is not None
            np.add.at(self._fresh, index, weights)
            np.add.at(self._sums, index, weights * m)
            self.squares += float(np.einsum("i,i,i->", weights, m, m))
            self.weight_squares += float(np.einsum("i,i->", weights, weights))
        self.n += m.size
        self._unchecked += m.size
        if self._unchecked > CHECKED_EVERY:
            self._unchecked = 0
            if self._fresh.max() > CHECKED_EVERY:
                self._settle()

    def _settle(self) -> None:
        """Turn float sums of m, still exact, into whole numbers."""
        if not self._fresh.size:
            return
        depths = -(-self._fresh.size // 4)
        self._reach(depths)
        count, sums = (v[0::2] + v[1::2] for v in (_padded(v, 4 * depths) for v in (self._fresh, self._sums)))
        least, unit = (np.repeat(values, 2) for values in _grid(depths))
        self.count[: self._fresh.size] += self._fresh
        self.excess[: 2 * depths] += ((sums - count * least) / unit).astype(self.excess.dtype)
        self._fresh[:], self._sums[:] = 0, 0.0

    def absorb(self, part: Summary) -> None:
        """Add a summary."""
        if part.weighted:
            self._take_weights()
        depth, high = np.abs(part.cells).astype(np.int64), part.cells > 0
        if depth.size:
            self._reach(int(depth.max()) + 1)
        self.count[4 * depth + 2 * high] += part.count - part.hits
        self.count[4 * depth + 2 * high + 1] += part.hits
        self.excess[2 * depth + high] += part.excess
        self.n += part.n
        if self.weight_squares is None:
            self.squares += part.squares
        else:
            self.squares += part.squares if part.weighted else part.squares / (1 << UNIT_SQUARE)
            self.weight_squares += float(part.n) if part.weight_squares is None else part.weight_squares

    def summary(self) -> Summary:
        """What was added, without the empty cells."""
        self._settle()
        outcomes = self.count.reshape(-1, 2, 2)
        count = outcomes.sum(axis=2)
        # From the lowest confidence to the highest: low cells backwards, then high ones. At depth 0 both are s = 0.5.
        if count.size and count[0, 1]:
            outcomes[0, 0] += outcomes[0, 1]
            outcomes[0, 1] = 0
            self.excess[0] += self.excess[1]
            self.excess[1] = 0
            count = outcomes.sum(axis=2)
        low, high = np.flatnonzero(count[:, 0])[::-1], np.flatnonzero(count[:, 1])
        pick = np.concatenate([2 * low, 2 * high + 1])
        cells = np.concatenate([-low, high]).astype(np.int32)
        flat = count.ravel()[pick]
        if flat.size and flat.max() > _MOST and self.weight_squares is None:
            raise DataError(f"a cell holds more than {_MOST} rows", "split the data into several summaries")
        hits = outcomes[:, :, 1].ravel()[pick]
        return Summary(cells, flat, hits, self.excess[pick], self.n, self.squares, self.weight_squares)

    def _reach(self, depths: int) -> None:
        """Room for that many depths."""
        if 4 * depths > self.count.size:
            self.count = _padded(self.count, 4 * depths)
            self.excess = _padded(self.excess, 2 * depths)

    def _take_weights(self) -> None:
        """What was added so far has weight one."""
        if self.weight_squares is not None:
            return
        self._settle()
        self.count, self.excess = self.count.astype(np.float64), self.excess.astype(np.float64)
        self._fresh = self._fresh.astype(np.float64)
        self.squares = self.squares / (1 << UNIT_SQUARE)
        self.weight_squares = float(self.n)


def _from_log_odds(x: Floats, m: Floats, high: npt.NDArray[np.bool_]) -> None:
    """m = 1 / (1 + e^|x|), which cannot overflow for |x| ≤ 700."""
    np.exp(np.abs(x, out=m), out=m)
    np.add(m, 1.0, out=m)
    np.reciprocal(m, out=m)
    np.greater(x, 0.0, out=high)


def _from_confidences(s: npt.NDArray[Any], m: Floats, high: npt.NDArray[np.bool_]) -> None:
    """m = min(s, 1 − s), exact: 1 − s is for s ≥ 0.5."""
    s = s.astype(np.float64, copy=False)
    np.subtract(1.0, s, out=m)
    np.less(m, s, out=high)
    np.minimum(m, s, out=m)


def _from_saturated(s: npt.NDArray[Any], m: Floats, high: npt.NDArray[np.bool_]) -> None:
    """The same where some s are 0 or 1."""
    _from_confidences(s, m, high)
    np.maximum(m, BARE_FLOOR, out=m)


def summary_of(log_odds: Floats, hits: npt.NDArray[np.bool_], weights: Floats | None = None) -> Summary:
    """Rows in memory as a summary."""
    total = Accumulator(weights is not None)
    total.add(log_odds, hits, weights)
    return total.summary()


def _slices(n: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _padded(values: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    if values.size == size:
        return values
    out = np.zeros(size, values.dtype)
    out[: values.size] = values
    return out
