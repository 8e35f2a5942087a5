"""Is a summary file what `summarize` writes? Whatever was done to it, reading it ends in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bpmcli.core.summary.grid import FIXED_BITS, KEPT_BITS, MANTISSA_BITS
from bpmcli.errors import DataError
from bpmcli.io.columns import Array

DEEPEST = (1022 << MANTISSA_BITS) + (1 << (FIXED_BITS - 1))
"""No m > 0 lies more cells below one half."""

LARGEST = 1e100
"""No weight of a cell comes near this; beyond it squares overflow."""


def check_header(about: Any) -> None:
    """Every field is of its type."""
    _demand(isinstance(about, dict), "is no table of fields")
    tables = about.get("tables")
    _demand(isinstance(tables, list) and bool(tables), "has no tables")
    for entry in tables:
        _demand(isinstance(entry, dict) and isinstance(entry.get("group"), str), "has a table without a group")
        for name in ("n", "cells"):
            _demand(_is_count(entry.get(name)) and entry[name] > 0, f"has a table with {name} = {entry.get(name)!r}")
        squares = entry.get("weight_squares", "nothing")
        _demand(squares is None or _is_weight(squares), f"has a table with weight_squares = {squares!r}")
    _demand(len({entry["group"] for entry in tables}) == len(tables), "has two tables for one group")
    _demand(about.get("by") is None or isinstance(about["by"], str), "has groups of no column")
    odd, metadata = about.get("odd", {}), about.get("metadata", {})
    _demand(isinstance(odd, dict) and all(map(_is_count, odd.values())), "has counts that are none")
    _demand(isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values()), "has odd metadata")


def check_columns(columns: Sequence[Any], tables: Sequence[Mapping[str, Any]]) -> None:
    """As many numbers as the header says, in cell, count, hits, excess (and value), and such as rows leave behind."""
    sound = all(isinstance(c, np.ndarray) and c.dtype.kind in "iuf" and np.isfinite(c).all() for c in columns)
    sound = sound and all(c.size == sum(entry["cells"] for entry in tables) for c in columns)
    sound = sound and all(c.dtype == np.int64 for c in columns[4:])
    if not (sound and _possible(*(c.astype(np.float64) for c in columns[:4]))):
        _refuse()
    at = 0
    for entry in tables:
        _check_squares(entry, float(columns[1][at : at + entry["cells"]].sum(dtype=np.float64)))
        at += entry["cells"]


def _check_squares(entry: Mapping[str, Any], total: float) -> None:
    """(Σw)² / n ≤ Σw² ≤ (Σw)², whatever the weights are."""
    squares = entry["weight_squares"]
    if squares is not None and not total * total / entry["n"] * (1 - 1e-6) <= squares <= total * total * (1 + 1e-6):
        _refuse()


def _refuse() -> None:
    raise DataError(
        "its table contradicts its header, or what rows can leave behind",
        "the file was changed: summarise the data again",
    )


def _possible(cells: Array, count: Array, hits: Array, excess: Array) -> bool:
    if not ((np.abs(cells) <= DEEPEST).all() and (count > 0).all() and (count < LARGEST).all()):
        return False
    # Sums of floats may end a rounding error outside.
    inside = (excess >= -1e-3 * count) & (excess <= (1 << KEPT_BITS) * (1 + 1e-9) * count)
    return bool((inside & (hits >= 0) & (hits <= count)).all())


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _is_weight(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _demand(sound: bool, what: str) -> None:
    if not sound:
        raise DataError(f"its header {what}", "the file was changed: summarise the data again")
