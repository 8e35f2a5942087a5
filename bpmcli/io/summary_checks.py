"""Checks that `summarize` can have written the table of a summary file. Its header was checked before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from bpmcli.core.data.sample import Ints
from bpmcli.core.summary.grid import FIXED_BITS, KEPT_BITS, MANTISSA_BITS
from bpmcli.core.summary.summary import are_values
from bpmcli.errors import DataError
from bpmcli.io.columns import Array

DEEPEST = (1022 << MANTISSA_BITS) + (1 << (FIXED_BITS - 1))
"""The depth of the smallest positive m: no cell is farther from one half."""

LARGEST = 1e100
"""No weight of a cell comes near this; beyond it squares overflow."""


def check_table(columns: Sequence[Any], tables: Sequence[Mapping[str, Any]]) -> None:
    """Raise DataError if no rows can give these columns (cell, count, hits, excess and perhaps value), group by group.

    All groups are checked at once: there may be as many as rows.
    """
    if len({entry["group"] for entry in tables}) != len(tables):
        _refuse("two tables have the same group")
    sizes = np.array([entry["cells"] for entry in tables])
    if not all(isinstance(c, np.ndarray) and c.dtype.kind in "iuf" and c.size == sizes.sum() for c in columns):
        _refuse("its columns do not hold one number per cell")
    if not all(np.isfinite(c).all() for c in columns) or any(c.dtype != np.int64 for c in columns[4:]):
        _refuse("its columns do not hold finite numbers")
    if not _possible(*(c.astype(np.float64) for c in columns[:4])):
        _refuse("its cells hold numbers that no rows can give")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    _check_totals(np.add.reduceat(columns[1].astype(np.float64), starts), tables)
    _check_order(columns, starts, sizes, tables)


def _possible(cells: Array, count: Array, hits: Array, excess: Array) -> bool:
    if not ((np.abs(cells) <= DEEPEST).all() and (count > 0).all() and (count < LARGEST).all()):
        return False
    # Sums of floats may exceed the limits by rounding.
    inside = (excess >= -1e-3 * count) & (excess <= (1 << KEPT_BITS) * (1 + 1e-9) * count)
    return bool((inside & (hits >= 0) & (hits <= count)).all())


def _check_totals(totals: Array, tables: Sequence[Mapping[str, Any]]) -> None:
    """Rows add up to n; weights w of n rows satisfy (Σw)² / n ≤ Σw² ≤ (Σw)²."""
    n = np.array([entry["n"] for entry in tables], dtype=np.float64)
    weighted = np.array([entry.get("weight_squares") is not None for entry in tables])
    squares = np.array([entry.get("weight_squares") or 0.0 for entry in tables], dtype=np.float64)
    if (totals != n)[~weighted].any():
        _refuse("its counts do not add up to the rows in its header")
    least, most = totals * totals / n * (1 - 1e-6), totals * totals * (1 + 1e-6)
    if ((squares < least) | (squares > most))[weighted].any():
        _refuse("its weights contradict the sum of their squares")


def _check_order(columns: Sequence[Array], starts: Ints, sizes: Ints, tables: Sequence[Mapping[str, Any]]) -> None:
    """Within a group cells ascend; where distinct values are kept, these ascend and lie in their cells."""
    distinct = np.array([bool(entry.get("distinct")) and len(columns) > 4 for entry in tables])
    own = np.repeat(distinct, sizes)
    follows = np.ones(own.size, dtype=bool)
    follows[starts] = False
    cells = columns[0].astype(np.int64)
    ascending = np.diff(cells, prepend=cells[:1]) > 0
    if not ascending[follows & ~own].all():
        _refuse("its cells are not in order")
    if own.any() and not are_values(columns[4][own], cells[own].astype(np.int32), follows[own]):
        _refuse("its values are not the values of its cells, in order")


def _refuse(what: str) -> NoReturn:
    raise DataError(f"its table contradicts its header: {what}", "the file was changed: summarise the data again")
