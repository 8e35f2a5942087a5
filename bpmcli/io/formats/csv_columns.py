"""What is asked about the columns of csv files, and how their lines end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

DECIMAL_COMMA = r"^( *[-+]?[0-9]+),([0-9]*([eE][-+]?[0-9]+)? *)$"
"""A number with a decimal comma, in its two parts."""


class LineEnds:
    """Writes lines to a file with their line end, a carriage return and a line feed, replaced by a line feed."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def write(self, line: str) -> int:
        return self.file.write(line[:-2] + "\n")


def has_nul(values: Sequence[Any]) -> bool:
    """Whether a column of text has a NUL character, which no reader accepts as text."""
    first = next((v for v in values if v is not None), None)
    return isinstance(first, str) and any("\0" in v for v in values if isinstance(v, str))


def has_nested(values: Sequence[Any]) -> bool:
    """Whether a column holds lists or objects."""
    return isinstance(next((v for v in values if v is not None), None), (list, dict))


def with_points(record: Any, names: Sequence[str]) -> Any:
    """A batch whose numbers, held as text in these columns, have decimal points instead of commas."""
    import pyarrow.compute as pc

    for name in names:
        at = record.schema.get_field_index(name)
        text = pc.replace_substring_regex(record.column(at), DECIMAL_COMMA, r"\1.\2")
        record = record.set_column(at, record.schema.field(at), text)
    return record


def expected(kind: str) -> str:
    """What a column of this arrow type should hold, for a message."""
    if kind == "double":
        return "a number"
    return {"int64": "a whole number", "bool": "true or false"}.get(kind, f"a {kind}") + ", like the values before it"
