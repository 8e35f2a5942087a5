"""What csv, tsv and jsonl have in common: reading and writing lines of UTF-8 text, plain or gzipped."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import IO, Any, ClassVar

import numpy as np

from bpmcli.core.data.categorical import Categorical
from bpmcli.errors import DataError
from bpmcli.io.columns import Lists, is_text, to_arrow
from bpmcli.io.formats import STDIN
from bpmcli.io.formats.reader import Reader, is_plain
from bpmcli.io.formats.record_batches import ArrowReader
from bpmcli.io.formats.writer import Writer
from bpmcli.io.times import clock_times, iso_times

HEAD = 1 << 16
"""Bytes that are checked to be text before anything else."""

SHORTEST_LINE = 4
"""Bytes of the shortest row with two columns, `1,1` and a line end: bounds the number of rows of a file."""

GZIP = b"\x1f\x8b"
GZIP_RATIO = 1000
"""gzip shrinks data to no less than about a thousandth."""


class TextReader(ArrowReader):
    """A reader of files whose rows are lines."""

    has_digits: ClassVar[bool] = True

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        if start.startswith(GZIP):
            from bpmcli.io.opening import unzipped

            start = unzipped(start)
        return is_utf8(start) and cls.looks_like(start)

    @classmethod
    def looks_like(cls, text: bytes) -> bool:
        """Whether text that begins like this has the format."""
        raise NotImplementedError

    def inspect(self) -> None:
        from bpmcli.io.opening import open_bytes

        with open_bytes(self.path) as raw:
            self.compressed = raw.read(2) == GZIP
        super().inspect()

    def stream(self) -> Any:
        """The text, unpacked."""
        import pyarrow as pa

        raw: Any = self.path
        if not is_plain(self.path):
            raw = open(self.path, "rb")  # noqa: SIM115
        if "://" in self.path:
            from bpmcli.io.remote import opened

            raw = opened(self.path)
        return pa.input_stream(raw, compression="gzip" if self.compressed else None)

    def size(self) -> int:
        """Bytes of the file."""
        if "://" not in self.path:
            return os.path.getsize(self.path)
        from bpmcli.io.remote import size

        return int(size(self.path))

    def rows_at_most(self, enough: int) -> int:
        bound = self.size() * (GZIP_RATIO if self.compressed else 1) // SHORTEST_LINE + 1
        return bound if bound <= enough else self.count_lines()

    def count_lines(self) -> int:
        """The number of line ends plus one, which is at least the number of rows."""
        lines = 1
        with self.reporting(), self.stream() as raw:
            while block := raw.read(1 << 22):
                lines += block.count(b"\n")
        return lines


def is_utf8(start: bytes) -> bool:
    """Whether bytes are text; the last character may be cut off."""
    if not start.strip() or b"\0" in start:
        return False
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(start) - 4
    return True


def opened_text(path: str) -> Any:
    """The bytes of a local text file, unpacked."""
    with open(path, "rb") as raw:
        packed = raw.read(2) == GZIP
    if not packed:
        return open(path, "rb")
    import gzip

    return gzip.open(path, "rb")


class CountedLines:
    """Counts the lines of an output, block by block.

    A line of more than `longest` bytes is refused: whether pyarrow can read such a line depends on its place.
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.lines = 0
        self._length = 0  # of the line that the last block ended in

    def add(self, size: int, found: int, first: int, last: int) -> None:
        """The next block: its size, its number of line ends, and the places of the first and the last."""
        if self._length + (first if found else size) > self.longest:
            raise DataError(
                f"has a line of more than {self.longest >> 20} MB", "write parquet instead (-o out.parquet)"
            )
        self._length = size - 1 - last if found else self._length + size
        self.lines += found

    def add_plain(self, block: bytes) -> None:
        """The next block, in which every line feed ends a line."""
        self.add(len(block), block.count(b"\n"), block.find(b"\n"), block.rfind(b"\n"))


class TextWriter(Writer):
    """Text goes to a file, or straight to standard output."""

    instead: ClassVar[str] = "parquet"
    to_stdout: ClassVar[bool] = True

    def __init__(self, path: str, metadata: Mapping[str, str], origin: Reader | None = None) -> None:
        super().__init__(path, metadata, origin)
        self.file: IO[str] = self.open(path)

    def open(self, path: str) -> IO[str]:
        """The file to write to; UTF-8 whatever the terminal's encoding is."""
        if path != STDIN:
            return open(path, "w", encoding="utf-8", newline="")
        if sys.stdout is None:
            raise DataError("standard output is closed", "name a file with -o")
        sys.stdout.flush()
        return io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")

    def close(self) -> None:
        if self.path == STDIN:
            self.file.flush()
            self.file.detach()  # type: ignore[attr-defined]
        else:
            self.file.close()

    def abandon(self) -> None:
        self.close()

    def prepare(self, name: str, values: Any) -> list[Any]:
        return plain_values(values)


class Gzipped(TextWriter):
    """The same text, gzipped."""

    to_stdout: ClassVar[bool] = False

    def open(self, path: str) -> IO[str]:
        import gzip

        # No name and no time in the header: the same input gives the same bytes.
        self._raw = open(path, "wb")  # noqa: SIM115
        return io.TextIOWrapper(gzip.GzipFile("", "wb", fileobj=self._raw, mtime=0), encoding="utf-8", newline="")

    def close(self) -> None:
        super().close()
        self._raw.close()


def plain_values(values: Any) -> list[Any]:
    """Python values that csv and JSON can express; other types are refused."""
    if isinstance(values, Lists):
        ends = np.cumsum(values.lengths).tolist()
        flat = values.values.tolist()
        return [flat[e - n : e] for e, n in zip(ends, values.lengths.tolist(), strict=True)]
    if isinstance(values, Categorical):
        return Categorical([_valid(text) for text in values.categories], values.codes).tolist()
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "biu" or (values.dtype.kind == "f" and values.dtype.itemsize <= 8):
            return list(values.tolist())
        if values.dtype.kind in "US" and values.ndim > 1:
            return [plain_values(row) for row in values]
        if values.dtype.kind in "US":
            return [_valid(text) for text in values.tolist()]
        values = to_arrow(values)
    return _arrow_values(values)


def _valid(text: str | bytes) -> str:
    if isinstance(text, bytes):
        return text.decode("utf-8")
    text.encode("utf-8")
    return text


def _arrow_values(column: Any) -> list[Any]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return iso_times(column)
    if pa.types.is_time(kind):
        return clock_times(column)
    if pa.types.is_decimal(kind):
        return [None if v is None else str(v) for v in column.to_pylist()]
    if not _plain(kind):
        raise DataError(f"holds values of type {kind}")
    return list(column.to_pylist())


def _plain(kind: Any) -> bool:
    """Whether text and JSON can express an arrow type without loss."""
    import pyarrow as pa

    types = pa.types
    if types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return True
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _plain(kind.value_type)
    if types.is_struct(kind):
        return all(_plain(kind.field(i).type) for i in range(kind.num_fields))
    return is_text(kind)


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def json_text(value: Any) -> str:
    """JSON of a plain value; NaN becomes null, infinity is refused."""
    kind = type(value)
    if kind is int:
        return repr(value)
    if kind is str:
        return encode_basestring(value)
    if value is None:
        return "null"
    try:
        return _encoder.encode(value)
    except ValueError:
        return _encoder.encode(_without_nan(value))


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        if value in (float("inf"), float("-inf")):
            raise DataError("holds infinity")
        return None if math.isnan(value) else value
    if isinstance(value, list):
        return [_without_nan(v) for v in value]
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    return value
