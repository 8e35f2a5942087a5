"""What an arrow file claims about its record batches, read from its headers before arrow allocates anything.

Headers are flatbuffers, whose tables store where their fields are (see the format's File.fbs and Message.fbs). A
compressed buffer begins with its unpacked length, which arrow does not check.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

from bpmcli.errors import DataError

MAGIC = b"ARROW1"
CONTINUED = b"\xff\xff\xff\xff"
BLOCK = struct.Struct("<qi4xq")
BUFFER = struct.Struct("<qq")
DICTIONARY, RECORDS = 2, 3
"""Kinds of message: the entries of a dictionary, and rows."""

LARGEST_HEADER = 1 << 27
LARGEST_UNPACKED = 1 << 28
"""A record batch may unpack to this many bytes, however small it is."""
LARGEST_RATIO = 16
"""A batch that unpacks to more may be at most this many times as large as what is stored."""
MOST_ROWS = 1 << 24
ROWS_PER_BYTE = 64
"""A batch of more than MOST_ROWS rows must unpack to at least one byte for every 64 rows."""

AGAIN = "write the file again, in batches of at most a million rows"


class Batch(NamedTuple):
    """One record batch or dictionary as its header describes it."""

    rows: int
    size: int
    """Bytes once it is unpacked."""
    is_rows: bool


class _Table(NamedTuple):
    """A table of a flatbuffer."""

    data: bytes
    at: int

    def _place(self, field: int) -> int | None:
        vtable = self.at - self._number("<i", self.at)
        size = self._number("<H", vtable)
        offset = self._number("<H", vtable + 4 + 2 * field) if 4 + 2 * field < size else 0
        return self.at + offset if offset else None

    def _number(self, form: str, at: int) -> int:
        if at < 0:
            raise struct.error("a negative offset")
        return int(struct.unpack_from(form, self.data, at)[0])

    def number(self, field: int, form: str) -> int:
        at = self._place(field)
        return 0 if at is None else self._number(form, at)

    def table(self, field: int) -> _Table | None:
        at = self._place(field)
        return None if at is None else _Table(self.data, at + self._number("<I", at))

    def structs(self, field: int, form: struct.Struct) -> list[tuple[int, ...]]:
        at = self._place(field)
        if at is None:
            return []
        start = at + self._number("<I", at)
        count = self._number("<I", start)
        end = start + 4 + count * form.size
        if end > len(self.data):
            raise struct.error("a list ends too early")
        return list(form.iter_unpack(self.data[start + 4 : end]))


def _root(data: bytes) -> _Table:
    return _Table(data, int(struct.unpack_from("<I", data)[0]))


def file_batches(raw: IO[bytes]) -> list[Batch]:
    """Every batch of a file with a footer, checked."""
    size = raw.seek(0, 2)
    raw.seek(max(0, size - 10))
    end = raw.read(10)
    length = int.from_bytes(end[:4], "little", signed=True)
    if end[4:] != MAGIC or not 0 < length <= min(size - 10, LARGEST_HEADER):
        raise DataError("is not a complete arrow file: its end is missing", "copy it again")
    raw.seek(size - 10 - length)
    try:
        footer = _root(raw.read(length))
        blocks = [*footer.structs(2, BLOCK), *footer.structs(3, BLOCK)]
        return [_batch(raw, offset, header, size) for offset, header, _ in blocks]
    except struct.error:
        raise DataError("is damaged: its headers cannot be read", "copy it again") from None


def stream_batches(raw: IO[bytes]) -> Iterator[Batch]:
    """Every batch of a stream, checked."""
    size, at = raw.seek(0, 2), 0
    while at + 8 <= size:
        raw.seek(at)
        start = raw.read(8)
        header = int.from_bytes(start[4:] if start.startswith(CONTINUED) else start[:4], "little", signed=True)
        prefix = 8 if start.startswith(CONTINUED) else 4
        if header == 0:
            return
        if not 0 < header <= min(size - at, LARGEST_HEADER):
            raise DataError("is damaged: a message ends too early", "copy it again")
        raw.seek(at + prefix)
        try:
            message = _root(raw.read(header))
            body = message.number(3, "<q")
            if message.number(1, "<B") in (DICTIONARY, RECORDS):
                yield _batch(raw, at, prefix + header, size)
        except struct.error:
            raise DataError("is damaged: its headers cannot be read", "copy it again") from None
        at += prefix + header + max(0, body)


def _batch(raw: IO[bytes], offset: int, header: int, size: int) -> Batch:
    """The batch whose message begins at `offset`; what it claims is compared with the file."""
    if offset < 0 or not 0 < header <= LARGEST_HEADER or offset + header > size:
        raise DataError("is damaged: a record batch lies outside of the file", "copy it again")
    raw.seek(offset)
    data = raw.read(header)
    message = _root(data[8 if data.startswith(CONTINUED) else 4 :])
    body, kind = message.number(3, "<q"), message.number(1, "<B")
    found = message.table(2)
    if kind == DICTIONARY and found is not None:
        found = found.table(1)
    if found is None or kind not in (DICTIONARY, RECORDS):
        raise struct.error("not a batch")
    if body < 0 or offset + header + body > size:
        raise DataError("ends too early", "copy it again")
    rows, buffers = found.number(0, "<q"), found.structs(2, BUFFER)
    unpacked = body if found.table(3) is None else _unpacked(raw, offset + header, buffers, size)
    if unpacked > max(LARGEST_UNPACKED, LARGEST_RATIO * body):
        raise DataError(f"a record batch claims {unpacked / 2**20:.0f} MB packed into {body} bytes", AGAIN)
    if rows < 0 or rows > max(MOST_ROWS, ROWS_PER_BYTE * unpacked):
        raise DataError(f"a record batch claims {rows} rows in {body} bytes", AGAIN)
    return Batch(rows, unpacked, kind == RECORDS)


def _unpacked(raw: IO[bytes], start: int, buffers: list[tuple[int, ...]], size: int) -> int:
    """The sum of the lengths that compressed buffers begin with; −1 stands for a buffer that is stored uncompressed."""
    total = 0
    for offset, length in buffers:
        if length <= 0:
            continue
        if offset < 0 or start + offset + length > size:
            raise DataError("ends too early", "copy it again")
        raw.seek(start + offset)
        claimed = int.from_bytes(raw.read(8), "little", signed=True)
        total += length if claimed < 0 else claimed
    return total
