"""Lines of JSON: their values, and checks before pyarrow parses them, because some lines crash the process."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bpmcli.errors import DataError

DEEPEST = 500
"""The deepest nesting of lists and objects; pyarrow's parser would recurse until the stack is full."""

LONE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
"""Escapes in JSON text; group 1 is half of a surrogate pair, which is valid in JSON and is not a character."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
REPLACEMENT = rb"\ufffd"

_STRAY = re.compile(rb"(?:\A|\n)[ \t\r]*(?=[^\s{])")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class CheckedLines:
    """A readable file that checks that every line begins with a brace and is not nested too deeply.

    pyarrow refuses files that contain half of a surrogate pair. These escapes are replaced by a replacement character
    of the same length, and `replaced` becomes true.
    """

    closed = False

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self._line = 1
        self._at_start = True  # only blanks so far in this line
        self._held = b""
        self.replaced = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True
        self.raw.close()

    def read(self, size: int = -1) -> bytes:
        block = self._without_lone_surrogates(size)
        text = block.removeprefix(BYTE_ORDER_MARK) if self._line == 1 else block
        self._check_starts(text)
        if text.count(b"{") + text.count(b"[") > 3 * text.count(b"\n") + DEEPEST:
            self._check_depth(text)
        self._line += block.count(b"\n")
        rest = text.rstrip(b" \t\r")
        self._at_start = rest.endswith(b"\n") if rest else self._at_start
        return block

    def _without_lone_surrogates(self, size: int) -> bytes:
        """The next block. If it has such escapes, it ends with a whole line, so that no pair is torn apart."""
        fresh: bytes = self.raw.read(size - len(self._held) if size > 0 else size)
        block, self._held = self._held + fresh, b""
        if _SURROGATE.search(block) is None and b"\\" not in block[-12:]:
            return block
        end = block.rfind(b"\n") + 1
        if fresh and end:
            block, self._held = block[:end], block[end:]
        return LONE.sub(self._replacement, block)

    def _replacement(self, found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            return found[0]
        self.replaced = True
        return REPLACEMENT

    def _check_starts(self, text: bytes) -> None:
        # The rest of a line that began in the previous block was checked there.
        start = 0 if self._at_start else text.find(b"\n")
        stray = _STRAY.search(text, start) if start >= 0 else None
        if stray:
            line = self._line + text.count(b"\n", 0, stray.end())
            raise DataError(f"line {line} is not a JSON object", "every line is one object, in braces")

    def _check_depth(self, text: bytes) -> None:
        """Brackets inside text are counted too; text hardly ever has hundreds of unclosed brackets."""
        for number, line in enumerate(text.split(b"\n"), start=self._line):
            if line.count(b"{") + line.count(b"[") <= DEEPEST:
                continue
            letters = np.frombuffer(line, dtype=np.uint8) & ~np.uint8(32)  # [ and {, ] and } differ in that bit
            steps = (letters == ord("[")).astype(np.int32) - (letters == ord("]"))
            if int(np.cumsum(steps).max()) > DEEPEST:
                raise DataError(f"line {number} is nested more than {DEEPEST} deep", "take that line out")


_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # its fast part, without a regular expression


def parsed(line: bytes) -> Any:
    """One value, like json.loads, but without detecting the encoding of every line."""
    text = line.decode("utf-8", "surrogatepass").strip(" \t\r\n")
    value, end = _scan(text, 0)
    if end != len(text):
        raise ValueError("more than one value")
    return value


def first_fault(lines: Iterable[bytes], column: str | None = None) -> str | None:
    """What pyarrow could not parse, and in which row: slow, so it runs only after an error."""
    before = None
    inner: dict[str, str] = {}
    for row, line in enumerate((line for line in lines if line.strip()), start=1):
        try:
            value = json.loads(line, parse_float=_finite)
        except OverflowError as error:
            return f"holds {str(error)[:20]}, which is too large for a number (row {row})"
        except (ValueError, RecursionError):
            return f"is not valid JSON (row {row})"
        kind = _kind(value.get(column)) if column and isinstance(value, dict) else None
        if before and kind and kind != before:
            return f"'{column}' holds {before} first and {kind} later (row {row})"
        before = before or kind
        found = value.get(column) if column and isinstance(value, dict) else None
        for key, each in found.items() if isinstance(found, dict) else ():
            kind = _kind(each)
            if kind and inner.setdefault(key, kind) != kind:
                return f"'{column}.{key}' holds {inner[key]} first and {kind} later (row {row})"
    return None


def lines_of(stream: Any) -> Iterator[bytes]:
    rest = b""
    while block := stream.read(1 << 20):
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    yield rest


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise OverflowError(text)
    return value


def _kind(value: Any) -> str | None:
    names = {bool: "true or false", int: "numbers", float: "numbers", str: "text", list: "lists", dict: "objects"}
    return names.get(type(value))


def within_float64(value: Any) -> Any:
    """The same JSON value with float64 instead of whole numbers that int64 cannot hold, as pyarrow reads them."""
    if isinstance(value, list):
        return [within_float64(each) for each in value]
    return float(value) if type(value) is int and not -(1 << 63) <= value < 1 << 63 else value


def whole_numbers_in(value: Any) -> Iterator[int]:
    """The whole numbers of a JSON value, at any depth."""
    if type(value) is int:
        yield value
    elif isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from whole_numbers_in(each)
