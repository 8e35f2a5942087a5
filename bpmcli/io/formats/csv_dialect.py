"""How a csv file is written: its separator, its decimal sign, and whether it has a header.

Shell completion imports this module, so it needs nothing but the standard library.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any, NamedTuple

_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?|[+-]?(nan|inf)", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_DECIMAL_POINT = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")
_QUOTED = re.compile(r'(?:^|(?<=[,;\t\r\n]))"[^"]*(?:""[^"]*)*"')


_COMMENT = re.compile(r"\A# +(?=[^\s#])")
_ANY_QUOTED = re.compile(r'"[^"]*"')

FEW = 100
"""The separator is found from this many lines."""
SHORT = 1 << 16
"""Whether spaces separate the fields is found from this many characters of the first line."""
ROW_NAMES = "row.names"


class Dialect(NamedTuple):
    """How the fields of a file are separated and written."""

    delimiter: str
    decimal: str = "."
    names: tuple[str, ...] | None = None
    """Names for the columns of a file without a header (0, 1, 2, …), or whose header is a comment or lacks a name."""
    skip: int = 0
    """Lines before the data, if `names` are given."""


def first_lines(raw: Any, size: int, most: int) -> bytes:
    """The complete lines among the first `size` bytes; the first two lines if these are longer, up to `most` bytes."""
    head = b""
    while len(head) < most and (block := bytes(raw.read(size))):
        head += block
        complete = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1]
        if len(head) >= size and re.search(rb"[^\r\n][\r\n]+[^\r\n]", complete):
            return complete
    return head


def dialect(head: bytes, delimiter: str) -> Dialect:
    """The dialect of a file that begins with these lines; `delimiter` is the one that its suffix stands for.

    Where the decimal sign is a comma, spreadsheets and R's write.csv2 separate fields by semicolons. A first line is
    data and not a header if it holds nothing but numbers and one of them has a decimal sign: `0,1,2` are the names that
    pandas gives to columns without names. R's write.table and numpy's savetxt separate fields by spaces, and savetxt
    writes `# ` before the header.
    """
    decoded = head.decode("utf-8-sig", "replace")
    text = decoded.lstrip("\r\n")  # as pyarrow skips empty lines
    skip = 1 + len(re.findall(r"\r\n|\r|\n", decoded[: len(decoded) - len(text)]))
    commented, text = _COMMENT.match(text) is not None, _COMMENT.sub("", text)
    if delimiter == "," and _has_semicolons(text):
        delimiter = ";"
    elif delimiter == "," and _has_spaces(text):
        delimiter = " "
    lines = _records(text, delimiter, FEW if delimiter == "," else None)
    first = lines[0] if lines else []
    if _has_row_names(lines, text):
        decimal = _decimal(lines[1:]) if delimiter != "," else "."
        return Dialect(delimiter, decimal, (ROW_NAMES, *first), skip)
    has_header = not _all_numbers(first) or all(_WHOLE.fullmatch(field.strip()) for field in first)
    decimal = _decimal(lines[1:] if has_header else lines) if delimiter != "," else "."
    if has_header and commented and not any("\n" in name for name in first):
        return Dialect(delimiter, decimal, tuple(first), skip)
    return Dialect(delimiter, decimal, None if has_header else tuple(map(str, range(len(first)))))


def _has_semicolons(text: str) -> bool:
    """Whether semicolons separate the fields of the first line: commas are in quotes, or in numbers."""
    if ";" not in text:
        return False
    first = re.split(r"[\r\n]", _QUOTED.sub("quoted", text), maxsplit=1)[0]
    return ";" in first and ("," not in first or _all_numbers(first.split(";")))


def _has_spaces(text: str) -> bool:
    """Whether single spaces separate the fields: all lines have as many, and in some column all fields are numbers."""
    first = re.split(r"[\r\n]", _ANY_QUOTED.sub("quoted", text[:SHORT]), maxsplit=1)[0]
    if " " not in first or first != first.strip() or any(sign in first for sign in (",", ";", "\t", "  ")):
        return False
    lines = _records(text, " ", FEW)
    rows = lines[1:] or lines
    if len({len(row) for row in rows}) != 1 or not any(
        _all_numbers([row[k] for row in rows]) for k in range(len(rows[0]))
    ):
        return False
    return len(lines[0]) == len(rows[0]) or _has_row_names(lines, text)


def _has_row_names(lines: list[list[str]], text: str) -> bool:
    """Whether the header lacks a name for the first column, as write.table in R leaves it out for the names of rows.

    A text with an unquoted comma makes rows that look the same. So the names of rows must all be quoted, or must be
    1, 2, 3, … in a file without commas.
    """
    rows = lines[1:FEW]
    if not rows or any(len(row) != len(lines[0]) + 1 for row in rows) or any("\n" in name for name in lines[0]):
        return False
    if not any(row[-1] for row in rows):  # a separator at the end of every line
        return False
    starts = [line[:1] for line in re.split(r"[\r\n]+", text)[: len(rows) + 1]]
    numbered = [row[0] for row in rows] == [str(k + 1) for k in range(len(rows))]
    return (numbered and "," not in text) or set(starts) == {'"'}


def _records(text: str, delimiter: str, most: int | None) -> list[list[str]]:
    """The fields of the first lines that are not empty, up to a line that cannot be parsed."""
    found: list[list[str]] = []
    before = csv.field_size_limit()
    csv.field_size_limit(max(before, len(text)))
    try:
        for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if record:
                found.append(record)
            if len(found) == most:
                break
    except csv.Error:
        pass
    finally:
        csv.field_size_limit(before)
    return found


def _decimal(lines: list[list[str]]) -> str:
    """A comma if some numbers have one and none has a point: `1,5` in a file with `0.7` is text."""
    fields = [field.strip() for line in lines for field in line]
    comma = any(_DECIMAL_COMMA.fullmatch(field) for field in fields)
    return "," if comma and not any(_DECIMAL_POINT.fullmatch(field) for field in fields) else "."


def _all_numbers(fields: list[str]) -> bool:
    return all(_NUMBER.fullmatch(field.strip()) for field in fields)
