"""Finds quotes that are never closed: pyarrow reads everything after them, whole rows included, as one text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bpmcli.errors import DataError

QUOTE = ord('"')
RETURN = ord("\r")
CACHED = 1 << 18
"""Bytes that are searched for quotes at a time: so few that the comparison stays in the cache."""
LONGEST = 1 << 28
"""The longest field in characters; the csv module refuses longer ones."""


@contextmanager
def closed_quotes(stream: Callable[[], Any], delimiter: str) -> Iterator[Any]:
    """A file to read from. Once it is read to its end, an odd number of quotes makes it be read again and checked."""
    with stream() as raw:
        counted = _CountedQuotes(raw)
        try:
            yield counted
        finally:
            counted.stopped = True
    if counted.ended and counted.quotes % 2:
        with stream() as raw:
            _refuse_open_quote(raw, delimiter)


class _CountedQuotes:
    """A readable file that counts its quotes."""

    closed = False

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.quotes = 0
        self.stopped = False
        """Set when no more is needed, so that a thread of pyarrow that reads ahead ends."""
        self.ended = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True
        self.raw.close()

    def read(self, size: int) -> Any:
        """The next bytes, in memory that pyarrow reuses; Python would allocate new memory for every block."""
        if self.stopped:
            return b""
        block = self.raw.read_buffer(size)
        letters = np.frombuffer(block, dtype=np.uint8)
        # After a block that ends in a carriage return, pyarrow drops a line feed, even one inside quotes.
        while letters.size and letters[-1] == RETURN and (more := self.raw.read(1)):
            block = bytes(block) + more
            letters = np.frombuffer(block, dtype=np.uint8)
        self.quotes += sum(np.count_nonzero(letters[i : i + CACHED] == QUOTE) for i in range(0, letters.size, CACHED))
        self.ended = self.ended or not letters.size
        return block


def _refuse_open_quote(raw: Any, delimiter: str) -> None:
    """Refuse text that ends inside quotes, with the line in which they begin."""
    before = csv.field_size_limit(LONGEST)
    begin = 1
    try:
        rows = csv.reader(io.TextIOWrapper(raw, "utf-8-sig", newline=""), delimiter=delimiter, strict=True)
        for _ in rows:
            begin = rows.line_num + 1
    except csv.Error as error:
        if "unexpected end" in str(error) or "field larger" in str(error):
            raise DataError(f"line {begin} opens a quote that is never closed", "close it, or remove it") from None
    finally:
        csv.field_size_limit(before)


def header_and_rows(path: str, delimiter: str, longest: int) -> tuple[list[str], int]:
    """The names in the first line of a file, and the number of its rows: lines whose end is not inside quotes.

    A line of more than `longest` bytes is refused.
    """
    from bpmcli.io.formats.text_lines import CountedLines, opened_text

    counted = CountedLines(longest)
    with opened_text(path) as raw, io.TextIOWrapper(raw, "utf-8", newline="") as text:
        names = next(csv.reader(text, delimiter=delimiter), [])
    with opened_text(path) as raw:
        inside = False  # a quoted text, whose line ends do not count
        while block := raw.read(min(1 << 22, longest)):
            if b'"' not in block and not inside:
                counted.add_plain(block)
                continue
            letters = np.frombuffer(block, dtype=np.uint8)
            quoted = np.logical_xor(np.cumsum(letters == QUOTE) & 1, inside)
            ends = np.flatnonzero((letters == ord("\n")) & ~quoted)
            counted.add(len(block), ends.size, *((int(ends[0]), int(ends[-1])) if ends.size else (0, 0)))
            inside = bool(quoted[-1])
    return names, counted.lines - 1
