"""How a csv file is written: its separator, its decimal sign, and whether it has a header."""

from __future__ import annotations

import re
from typing import NamedTuple

_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?|[+-]?(nan|inf)", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")


class Dialect(NamedTuple):
    """How the fields of a file are separated and written."""

    delimiter: str
    decimal: str = "."
    names: tuple[str, ...] | None = None
    """Names for the columns of a file without a header: 0, 1, 2, …"""


def dialect(head: bytes, delimiter: str) -> Dialect:
    """The dialect of a file that begins like this; `delimiter` is the one that its suffix stands for.

    Where the decimal sign is a comma, spreadsheets and R's write.csv2 separate fields by semicolons. A first line is
    data and not a header if it holds nothing but numbers and one of them has a decimal sign: `0,1,2` are the names that
    pandas gives to columns without names.
    """
    lines = head.decode("utf-8-sig", "replace").splitlines()
    first = lines[0] if lines else ""
    decimal = "."
    if delimiter == "," and ";" in first and (first.count(",") == 0 or _all_numbers(first.split(";"))):
        delimiter = ";"
    if delimiter != ",":
        fields = [_bare(field) for line in lines[:3] for field in line.split(delimiter)]
        decimal = "," if any(_DECIMAL_COMMA.fullmatch(field) for field in fields) else "."
    fields = first.split(delimiter)
    if not _all_numbers(fields) or all(_WHOLE.fullmatch(_bare(field)) for field in fields):
        return Dialect(delimiter, decimal)
    return Dialect(delimiter, decimal, tuple(map(str, range(len(fields)))))


def _all_numbers(fields: list[str]) -> bool:
    return all(_NUMBER.fullmatch(_bare(field)) for field in fields)


def _bare(field: str) -> str:
    return field.strip().strip('"')
