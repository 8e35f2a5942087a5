"""Types of the csv columns that `apply` carries along to a format with types.

A column becomes a column of numbers only if every text in it is the one spelling that we would write for its number, or
empty; so writing it as csv again gives the same text. Anything else stays text: 003, +5, 1.50, 1e3, NA, true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

WHOLE = r"^(0|-?[1-9][0-9]{0,18})$"
"""Whole numbers as Python writes them, of at most 19 digits."""


def exact_types(names: Sequence[str], records: Iterable[Any], decimal: str = ".") -> dict[str, Any]:
    """The type of every column, by all rows of the file, whose columns are given as text: int64, bool, float64 or text.

    All texts of a column must fit one type: `-1` beside `0.5` is text, because as a number it would become -1.0.
    """
    import pyarrow as pa

    open_kinds = {name: [pa.int64(), pa.bool_(), pa.float64()] for name in names}
    filled = set[str]()
    for record in records:
        for name, column in zip(names, record.columns, strict=True):
            if not open_kinds[name]:
                continue
            column = _filled(column if decimal == "." else _with_points(column, decimal))
            if len(column):
                filled.add(name)
                open_kinds[name] = [kind for kind in open_kinds[name] if _is_exact(column, kind)]
        if not any(open_kinds.values()):
            break
    return {name: kinds[0] if kinds and name in filled else pa.string() for name, kinds in open_kinds.items()}


def _with_points(column: Any, decimal: str) -> Any:
    """Decimal points instead of commas; a text with a point is not a number here."""
    import pyarrow.compute as pc

    return pc.replace_substring(pc.replace_substring(column, ".", "?"), decimal, ".")


def _filled(column: Any) -> Any:
    import pyarrow.compute as pc

    empty = pc.equal(column, "")
    return column.filter(pc.invert(empty)) if pc.any(empty).as_py() else column


def _is_exact(column: Any, kind: Any) -> bool:
    """Whether every text is what we would write for its value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(kind):
        return bool(pc.all(pc.is_in(column, pa.array(["True", "False"]))).as_py())
    if pa.types.is_integer(kind):
        if not pc.all(pc.match_substring_regex(column, WHOLE)).as_py():
            return False
        try:
            column.cast(kind)
        except pa.ArrowInvalid:  # beyond 64 bits
            return False
        return True
    return _are_shortest(column)


def _are_shortest(column: Any) -> bool:
    """Whether every text is the shortest decimal of a float64, as Python writes it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        numbers = column.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    if not pc.all(pc.is_finite(numbers)).as_py():
        return False
    # pyarrow finds the same digits and is much faster, but writes whole, large and small numbers in another way.
    size = pc.abs(numbers)
    usual = pc.and_(pc.and_(pc.greater(size, 1e-4), pc.less(size, 1e15)), pc.match_substring(column, "."))
    same = pc.and_(usual, pc.equal(numbers.cast(pa.string()), column))
    texts, values = column.filter(pc.invert(same)).to_pylist(), numbers.filter(pc.invert(same)).to_pylist()
    return all(text == repr(value) for text, value in zip(texts, values, strict=True))
