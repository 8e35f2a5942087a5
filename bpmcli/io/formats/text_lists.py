"""Lists of numbers that a csv file holds as text, as pandas and numpy write them: `[0.1, 0.7, 0.2]`, `[0.1 0.7 0.2]`.

The text is taken apart by regular expressions; nothing is evaluated.
"""

from __future__ import annotations

from typing import Any

from bpmcli.errors import DataError

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf|Infinity)"
SEPARATOR = r"(?:\s*,\s*|\s+)"
"""A comma or white space. Two commas are a gap, so such a text is not a list."""
_NUMBERS = rf"\s*{NUMBER}(?:{SEPARATOR}{NUMBER})+,?\s*"
LIST = rf"^\s*(?:(?:array|tensor)\()?(?:\[{_NUMBERS}\]|\({_NUMBERS}\))(?:, *dtype=[\w.]+)?\)?\s*$"
"""Both brackets are of one kind: `(0.5, 0.7]` is an interval, as pandas' cut writes it."""
SHORTENED = r"\.\.\."
SCALAR = r"np\.float\d+\(([^()]*)\)"
"""A number in a list of numpy's numbers: [np.float64(0.1), np.float64(0.9)]."""
OPENING, CLOSING = r"^\s*(?:(?:array|tensor)\()?[\[(]\s*", r",?\s*[\])](?:, *dtype=[\w.]+)?\)?\s*$"


def with_list_columns(schema: Any, first: Any) -> Any:
    """The schema of a csv file, with columns of text that hold lists turned into columns of lists.

    `first` are the rows that are looked at. All their texts must be lists of two or more numbers, and one must have a
    decimal point, because `[1, 2]` may be anything.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(schema):
        if not pa.types.is_string(field.type):
            continue
        column = pc.replace_substring_regex(first.column(place), SCALAR, r"\1")
        column = column.filter(pc.not_equal(column, ""))
        lists = pc.or_(
            pc.match_substring_regex(column, LIST), pc.match_substring_regex(column, SHORTENED + r"[\s\S]*\]")
        )
        if len(column) and pc.all(lists).as_py() and pc.any(pc.match_substring(column, ".")).as_py():
            schema = schema.set(place, pa.field(field.name, pa.list_(pa.float64())))
    return schema


def as_lists(record: Any, names: list[str], start: int) -> Any:
    """A record batch whose named columns of text become lists; `start` is its first row."""
    for name in names:
        place = record.schema.get_field_index(name)
        record = record.set_column(place, name, _lists(name, record.column(place), start))
    return record


def _lists(name: str, column: Any, start: int) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pc.replace_substring_regex(column, SCALAR, r"\1")
    empty = pc.equal(pc.utf8_trim_whitespace(column), "")
    good = pc.or_(pc.match_substring_regex(column, LIST), empty)
    if not pc.all(good, min_count=0).as_py():
        raise _refusal(name, column, good, start)
    inside = pc.replace_substring_regex(pc.replace_substring_regex(column, OPENING, ""), CLOSING, "")
    parts = pc.split_pattern_regex(pc.if_else(empty, pa.scalar(None, pa.string()), inside), SEPARATOR)
    return pa.ListArray.from_arrays(parts.offsets, parts.values.cast(pa.float64()), mask=parts.is_null())


def _refusal(name: str, column: Any, good: Any, start: int) -> DataError:
    row = good.to_pylist().index(False)
    found = " ".join(str(column[row]).split())
    if "..." in found:
        return DataError(
            f"'{name}' holds a list that numpy shortened (row {start + row + 1})",
            "write all values: np.set_printoptions(threshold=10**9) before to_csv, or frame.to_parquet(path)",
        )
    return DataError(
        f"'{name}' holds '{found[:40]}' (row {start + row + 1}), which is not a list of numbers", "fix that row"
    )
