"""A sample of any size in a table of fixed size, built in one pass and merged by addition.

A row is represented by m = min(s, 1 − s) and its side of one half. As long as there are few distinct values
(`distinct`), they are kept and nothing is lost. With more, rows are counted in the cells of a fixed grid (`grid.py`):
a cell stores its correct and wrong rows and the sum of m, so accuracy and mean confidence stay exact, and only the
order of the rows inside a cell is lost. Either way the table becomes a `Sample`, from which every metric and fit is
computed.

Counts are integers and m is stored in fixed point (32 leading bits: exact for float32 data, within 2^-33 of m
otherwise), so unweighted summaries have the same bits whatever the order. Weighted summaries hold floats and are
merged along a fixed tree (`merging`), whatever the number of workers.

Error bound: if an inner edge of equal-mass bins falls into a cell with a share p of all rows and accuracy a, at most
a(1 − a)p of the correct rows and p·2^-9·m of the confidence end up on the wrong side; see `edge_bound`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bpmcli.core.data.binning import array_split_edges
from bpmcli.core.data.sample import Floats, Ints, Sample, make_room_for_hit, sample_at
from bpmcli.core.summary.cell_table import CellTable
from bpmcli.core.summary.distinct import Distinct, Waiting, codes_of, from_codes, grouped
from bpmcli.core.summary.grid import (
    CHUNK,
    FIXED_BITS,
    KEPT_BITS,
    MANTISSA_BITS,
    Bools,
    Placer,
    Values,
    depths_of,
    grid_cells,
    least_and_units,
)
from bpmcli.errors import DataError

BARE_FLOOR = 2.0**-54
"""The m that stands for a confidence of exactly 0 or 1: the largest that float64 rounds to it (see BARE_LIMIT)."""

_MOST = 1 << (62 - KEPT_BITS + MANTISSA_BITS)  # rows a cell can take before its sum overflows: 10^12

_HEAVIEST = 1e80
"""Weights up to this can be summed and squared without overflow."""

RATIOS = "only ratios of weights count: divide them all by the largest"

_Convert = Callable[[Any, Values, Bools], int]
"""Converts scores to m and whether s > 0.5, in place, and returns how many depths m may have."""


@dataclass(frozen=True)
class Summary:
    """Cells in order of confidence: cell 0 is s = 0.5, negative cells lie below, positive ones above."""

    cells: npt.NDArray[np.int32]
    count: Values
    """Rows (int64), or their weight (float64)."""
    hits: Values
    excess: Values
    """Σ (m − least m of the cell), in units of 2^-31 of the cell's power of two."""
    n: int
    """Rows with a positive weight."""
    weight_squares: float | None = None
    """Σ w²; None without weights."""
    values: Ints | None = None
    """Distinct values as numbered by `codes_of`, if there are few: then there is one entry per value, not per cell."""

    @property
    def weighted(self) -> bool:
        return self.weight_squares is not None

    def to_sample(self) -> Sample:
        """Mass, hits and mean confidence of each cell, or of each distinct value."""
        if not self.n:
            raise DataError("no rows")
        total = float(self.count.sum())
        scale = self.n / total if self.weighted else 1.0
        effective = total * total / self.weight_squares if self.weight_squares is not None else float(self.n)
        if self.values is not None:
            m, high = from_codes(self.values)
            x = _log_odds(m, high)
            make_room_for_hit(x)  # as in every other sample, so that the same values tie
            x, count, hits = grouped(x, self.count, self.hits)
            return sample_at(x, count * scale, hits * scale, self.n, effective, self.weighted, from_summary=True)
        depth = np.abs(self.cells)
        least, unit = (values[depth] for values in least_and_units(int(depth.max()) + 1))
        m, high = least + unit * (self.excess / self.count), self.cells > 0
        # Rows that are spread evenly inside their cells add this to the variance of the confidence.
        width = np.minimum(least / (1 << MANTISSA_BITS), 1.0 / (1 << FIXED_BITS))
        inner = float(np.maximum(self.count * scale - 1.0, 0.0) @ np.square(width)) / (12 * self.n)
        return Sample(
            _log_odds(m, high), np.where(high, 1.0 - m, m), np.where(high, m, 1.0 - m), self.count * scale,
            self.hits * scale, self.n, effective, self.weighted,
            from_summary=True, summarised=True, inner_variance=inner,
        )  # fmt: skip


def _log_odds(m: Floats, high: Bools) -> Floats:
    x: Floats = np.log(m)
    x -= np.log1p(-m)
    return np.negative(x, out=x, where=high)


def are_values(values: Ints, cells: npt.NDArray[np.int32], follows: Bools) -> bool:
    """Whether stored values can be the distinct values of these cells, ascending where one `follows` another."""
    m = from_codes(values)[0]
    ascending = values[1:] > values[:-1]
    if not (ascending[follows[1:]].all() and (m > 0.0).all() and (m <= 0.5).all()):
        return False
    return np.array_equal(grid_cells(*from_codes(values))[0], cells)


def edge_bound(sample: Sample, n_bins: int = 15) -> float:
    """The largest possible difference between `ece` from a summary and from the rows.

    Σ over inner edges of 2p(a(1 − a) + 2^-9·min(s, 1 − s)), with p and a the share of rows and the accuracy of the cell
    into which the edge falls.
    """
    if not sample.summarised:
        return 0.0
    edges = array_split_edges(sample.n, min(n_bins, sample.n))[1:-1]
    at = np.unique(np.clip(np.searchsorted(sample.mass_before, edges, side="right") - 1, 0, sample.mass.size - 1))
    rate = sample.hits[at] / sample.mass[at]
    width = np.minimum(sample.confidences[at], sample.complements[at]) / (1 << MANTISSA_BITS)
    return float(np.sum(2 * sample.mass[at] / sample.n * (rate * (1 - rate) + width)))


class Accumulator:
    """Adds up rows and summaries: by distinct value while there are few of them, by cell from then on."""

    def __init__(self, weighted: bool = False) -> None:
        self.n = 0
        self.weight_squares: float | None = 0.0 if weighted else None
        self.saturated = 0
        """How many confidences were exactly 0 or 1."""
        self._few: Distinct | None = Distinct(np.float64 if weighted else np.int64)
        self._table = CellTable(weighted)

    def add(self, log_odds: Floats, hits: Bools, weights: Floats | None = None) -> None:
        """Add rows given as log-odds within ±700."""
        if weights is not None:
            self._take_weights()
            bad = ~np.isfinite(weights) | (weights < 0)
            if bad.any():
                raise DataError(f"weights must be finite and not negative, found {weights[bad][0]}")
            if weights.max(initial=0.0) > _HEAVIEST:
                raise DataError(f"a weight of {weights.max():g} is too large to be summed up", RATIOS)
            if not weights.all():
                keep = weights > 0
                log_odds, hits, weights = log_odds[keep], hits[keep], weights[keep]
        elif self.weight_squares is not None:
            weights = np.ones(log_odds.size)
        self._add(_from_log_odds, log_odds, hits, weights)

    def add_confidences(self, confidences: Values, hits: Bools) -> bool:
        """Add unweighted rows given as confidences. Returns False, and adds none, if some are not in [0, 1]."""
        if self.weight_squares is not None or not confidences.size:
            return not confidences.size
        low, high = confidences.min(), confidences.max()
        if not (low >= 0.0 and high <= 1.0):
            return False
        if confidences.dtype == np.float16:
            confidences = confidences.astype(np.float32)
        if low < BARE_FLOOR or high == 1.0:
            self.saturated += sum(int(np.count_nonzero(confidences == end)) for end in (0.0, 1.0) if end in (low, high))
            self._add(_from_saturated, confidences, hits, None)
        else:
            self._add(_from_confidences, confidences, hits, None)
        return True

    def _add(self, convert: _Convert, scores: Values, hits: Bools, weights: Floats | None) -> None:
        """Add rows in chunks that stay in the cache on the way from the score to the table."""
        placer = Placer(scores.dtype, min(CHUNK, scores.size))
        for start in range(0, scores.size, CHUNK):
            rows = slice(start, min(start + CHUNK, scores.size))
            m, high = placer.m[: rows.stop - start], placer.high[: rows.stop - start]
            depths = convert(scores[rows], m, high)
            mine = None if weights is None else weights[rows]
            if mine is not None:
                assert self.weight_squares is not None
                self.weight_squares += float(np.einsum("i,i->", mine, mine))
            if self._few is None:
                self._table.add_rows(*placer.places(hits[rows], self._table.make_room(depths)), mine)
                continue
            codes = codes_of(m, high)
            self._keep(Waiting(codes, hits[rows]) if mine is None else Waiting(codes, hits[rows] * mine, mine))
        self.n += scores.size

    def _keep(self, values: Waiting) -> None:
        if self._few is not None and not self._few.add(values):
            self._spill()

    def _spill(self) -> None:
        """There are too many distinct values: from now on, rows are counted by cell."""
        assert self._few is not None
        parts = [self._few.table, *self._few.waiting]
        self._few, placer = None, Placer(np.float64)
        for codes, hits, count in parts:
            n = codes.size
            if count is None:  # a chunk of rows
                placer.m[:n], placer.high[:n] = from_codes(codes)
                room = self._table.make_room(max(BARE_DEPTHS, _depths(placer.m[:n])))
                self._table.add_rows(*placer.places(hits, room), np.ones(n) if self._table.weighted else None)
            else:
                cells, inside = grid_cells(*from_codes(codes))
                self._table.add_cells(cells, count, hits, inside * count)

    def absorb(self, part: Summary) -> None:
        """Add a summary."""
        if part.weighted:
            self._take_weights()
        if self._few is not None and part.values is None:
            self._spill()
        if self._few is not None and part.values is not None:
            self._keep(Waiting(part.values, part.hits, part.count))
        else:
            self._table.add_cells(part.cells, part.count, part.hits, part.excess)
        self.n += part.n
        if self.weight_squares is not None:
            self.weight_squares += float(part.n) if part.weight_squares is None else part.weight_squares

    def summary(self) -> Summary:
        """Everything added so far as a summary, without empty cells."""
        if self.n and self.weight_squares is not None and self.weight_squares < _HEAVIEST**-2:
            raise DataError("the weights are too small to be squared", RATIOS)
        if self._few is not None and not self._few.settle():
            self._spill()
        if self._few is not None:
            values, hits, count = self._few.table
            assert count is not None
            cells, inside = grid_cells(*from_codes(values))
            return Summary(cells, count, hits, inside * count, self.n, self.weight_squares, values)
        cells, count, hits, excess = self._table.taken()
        if count.max() > _MOST and self.weight_squares is None:
            raise DataError(f"a cell holds more than {_MOST} rows", "split the data into several summaries")
        return Summary(cells, count, hits, excess, self.n, self.weight_squares)

    def _take_weights(self) -> None:
        """Switch to weights; everything added so far has weight one."""
        if self.weight_squares is None:
            self.weight_squares = float(self.n)
            self._table.take_weights()
            if self._few is not None:
                self._few.take_weights()


def _depths(m: Floats) -> int:
    return int(depths_of(m.min(keepdims=True))[0]) + 1


BARE_DEPTHS = _depths(np.array([BARE_FLOOR]))


def _from_log_odds(x: Floats, m: Floats, high: Bools) -> int:
    """m = 1 / (1 + e^|x|), which cannot overflow for |x| ≤ 700."""
    np.exp(np.abs(x, out=m), out=m)
    np.add(m, 1.0, out=m)
    np.reciprocal(m, out=m)
    np.greater(x, 0.0, out=high)
    return _depths(m)


def _from_confidences(s: Values, m: Values, high: Bools) -> int:
    """m = min(s, 1 − s), which is exact because 1 − s is exact for s ≥ 0.5."""
    np.subtract(s.dtype.type(1.0), s, out=m)
    np.less(m, s, out=high)
    np.minimum(m, s, out=m)
    return BARE_DEPTHS


def _from_saturated(s: Values, m: Values, high: Bools) -> int:
    """The same conversion where some confidences are 0 or 1."""
    _from_confidences(s, m, high)
    np.maximum(m, m.dtype.type(BARE_FLOOR), out=m)
    return BARE_DEPTHS


def summary_of(log_odds: Floats, hits: Bools, weights: Floats | None = None) -> Summary:
    """The summary of rows in memory."""
    total = Accumulator(weights is not None)
    total.add(log_odds, hits, weights)
    return total.summary()
