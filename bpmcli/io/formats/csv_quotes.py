"""Finds quotes that are never closed: pyarrow reads everything after them, whole rows included, as one text.

A quote opens a text only where a field begins; elsewhere, as in 5" pipe, it is a letter. Inside a text, two quotes
stand for one, and a single one closes it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bpmcli.errors import DataError

QUOTE, RETURN, NEW_LINE = b'"\r\n'
BOM = b"\xef\xbb\xbf"
CACHED = 1 << 18
"""Bytes that are searched for quotes at a time: so few that the comparison stays in the cache."""
BLOCK = 1 << 22


@contextmanager
def closed_quotes(stream: Callable[[], Any], delimiter: str) -> Iterator[Any]:
    """A file to read from. If its quotes do not come in pairs, it is read again at the end, quote by quote."""
    with stream() as raw:
        counted = _CountedQuotes(raw, delimiter)
        try:
            yield counted
        finally:
            counted.stopped = True
    if counted.ended and (counted.quotes % 2 or not counted.in_pairs):
        _refuse_open_quote(stream, delimiter)


class _CountedQuotes:
    """A readable file that counts its quotes."""

    closed = False

    def __init__(self, raw: Any, delimiter: str) -> None:
        self.raw = raw
        self.quotes = 0
        self.in_pairs = True
        """Whether every second quote, from the first one on, stands where a field begins or right after a quote. If so,
        and if their number is even, none is left open."""
        self.stopped = False
        """Set when no more is needed, so that a thread of pyarrow that reads ahead ends."""
        self.ended = False
        self._before_opening = np.zeros(256, dtype=bool)
        self._before_opening[[ord(delimiter), NEW_LINE, RETURN, QUOTE]] = True
        self._last = NEW_LINE
        self._start = True

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
        if self._start and letters[:3].tobytes() == BOM:
            self._count(letters[3:])
        else:
            self._count(letters)
        self._start = False
        self.ended = self.ended or not letters.size
        return block

    def _count(self, letters: Any) -> None:
        for i in range(0, letters.size, CACHED):
            part = letters[i : i + CACHED]
            quotes = part == QUOTE
            if number := np.count_nonzero(quotes):
                self.in_pairs = self.in_pairs and self._open_fields(part, np.flatnonzero(quotes)[self.quotes % 2 :: 2])
                self.quotes += number
            self._last = int(part[-1])

    def _open_fields(self, letters: Any, places: Any) -> bool:
        """Whether a field may begin at all of these places, or they follow a quote."""
        before = letters[places - 1]
        if places.size and not places[0]:
            before[0] = self._last
        return bool(self._before_opening[before].all())


def _refuse_open_quote(stream: Callable[[], Any], delimiter: str) -> None:
    """Refuse text that ends inside quotes, with the line in which they begin."""
    begin = _open_quote(stream, (ord(delimiter), NEW_LINE, RETURN))
    if begin is None:
        return
    line = 1
    with stream() as raw:
        while begin > 0 and (block := raw.read(min(begin, BLOCK))):
            line += block.count(b"\n")
            begin -= len(block)
    raise DataError(f"line {line} opens a quote that is never closed", "close it, or remove it")


def _open_quote(stream: Callable[[], Any], before_opening: tuple[int, ...]) -> int | None:
    """The place of the quote that is never closed, if there is one."""
    begin: int | None = None
    closing = -1  # the place of a quote that closes the text unless another one follows
    offset, last = 0, NEW_LINE
    with stream() as raw:
        while block := raw.read(BLOCK):
            block = b"\n\n\n" + block[3:] if not offset and block.startswith(BOM) else block
            for i in np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == QUOTE).tolist():
                if closing >= 0:
                    follows, closing = offset + i == closing + 1, -1
                    if follows:
                        continue
                    begin = None
                if begin is not None:
                    closing = offset + i
                elif (block[i - 1] if i else last) in before_opening:
                    begin = offset + i
            offset, last = offset + len(block), block[-1]
    return begin if closing < 0 else None


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
            ends = np.flatnonzero((letters == NEW_LINE) & ~quoted)
            counted.add(len(block), ends.size, *((int(ends[0]), int(ends[-1])) if ends.size else (0, 0)))
            inside = bool(quoted[-1])
    return names, counted.lines - 1
