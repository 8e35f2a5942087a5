"""Makes standard output and standard error usable even if they are closed, full, or not UTF-8.

If messages cannot be written, the exit code stays the same. If data cannot be written, that is an error.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from contextlib import suppress
from typing import Any, BinaryIO, TextIO, cast

ASCII = {"…": "...", "±": "+-", "−": "-", "–": "-", "→": "->", "≤": "<=", "≥": ">=", "√": "sqrt", "·": "*"}
"""Replacements for characters of bpmcli's own tables and messages, for terminals that cannot show them."""


def _replace(error: UnicodeError) -> tuple[str | bytes, int]:
    """Characters that a stream cannot encode: names that are not UTF-8 keep their bytes, others are spelled out."""
    assert isinstance(error, UnicodeEncodeError)
    out = b""
    for character in error.object[error.start : error.end]:
        code = ord(character)
        if 0xDC80 <= code <= 0xDCFF:
            out += bytes([code - 0xDC00])
        else:
            out += ASCII.get(character, character).encode("ascii", "backslashreplace")
    return out, error.end


def prepare() -> tuple[TextIO, TextIO]:
    """Make the standard streams safe to use. Returns both as they were, to be put back by `restore`."""
    _fill_closed_descriptors()
    codecs.register_error("bpmcli", _replace)
    if sys.stdout is None:
        sys.stdout = cast(TextIO, Closed())
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    stdout, sys.stdout = sys.stdout, _buffered(sys.stdout)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="bpmcli")
    stderr, sys.stderr = sys.stderr, cast(TextIO, _Messages(sys.stderr))
    return stdout, stderr


def restore(stdout: TextIO, stderr: TextIO) -> None:
    """Put the standard streams back."""
    sys.stderr.flush()
    sys.stdout, sys.stderr = stdout, stderr


def _buffered(stream: TextIO) -> TextIO:
    """A stream that writes everything or raises an error.

    With PYTHONUNBUFFERED=1 the text stream of Python writes to the file descriptor directly and does not notice if the
    system takes only a part of the data, as on a disk that is almost full.
    """
    raw = None if isinstance(stream, Closed) else getattr(stream, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        return stream
    whole = io.BufferedWriter(io.FileIO(raw.fileno(), "wb", closefd=False))
    return io.TextIOWrapper(whole, encoding=stream.encoding, errors=stream.errors, line_buffering=True)


def forget(stream: TextIO) -> None:
    """Discard all further output, including the flush at exit."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _fill_closed_descriptors() -> None:
    """Keep file descriptors 0, 1 and 2 in use: otherwise the next file to be opened would become standard output."""
    with suppress(OSError):  # no descriptor is left, so these are in use
        number = os.open(os.devnull, os.O_RDWR)
        while number < 3:
            number = os.open(os.devnull, os.O_RDWR)
        os.close(number)


class Closed:
    """Stands for a closed standard output (`>&-`): writing data is an error, a table is not shown."""

    encoding = "utf-8"

    @property
    def buffer(self) -> BinaryIO:
        raise OSError(errno.EBADF, "standard output is closed")

    def write(self, data: Any) -> int:
        raise OSError(errno.EBADF, "standard output is closed")

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return 1


class _Messages:
    """Standard error. If its reader has ended (`2>&1 | head`) or the disk is full, only messages are lost."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        try:
            return self.stream.write(text)
        except OSError:
            forget(self.stream)
            return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except OSError:
            forget(self.stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
