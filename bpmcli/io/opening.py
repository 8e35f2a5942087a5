"""From a path to a reader: by `--input-format`, by suffix, or by content where the suffix says nothing."""

from __future__ import annotations

import os
from typing import Any

from bpmcli.errors import DataError
from bpmcli.io.formats import reader_for, reader_named, readers, suffix_of
from bpmcli.io.formats.reader import Reader

GZIP = b"\x1f\x8b"


def open_reader(path: str, input_format: str | None = None) -> Reader:
    """The reader of a file, directory, stream or remote object."""
    from bpmcli.io.streams import HEAD, copied, is_stream

    if "::" in path and not os.path.exists(path) and os.path.isfile(path.partition("::")[0]):
        return reader_named("hdf5")(path)
    stream = is_stream(path)
    if stream:
        path = copied(path)
    elif "://" not in path and not os.path.exists(path):
        raise DataError("no such file" if path else "an empty name")
    if input_format:
        return reader_named(input_format)(path)
    if os.path.isdir(path):
        return _folder(path)
    suffix = "" if stream else suffix_of(path)
    named = reader_for(suffix)
    if named is not None and "://" in path:
        return named(path)  # saves a request
    head = _head(path, HEAD)
    if named is not None and (head is None or not head.strip() or named.recognises(head)):
        return named(path)
    return _by_content_or_suffix(head, named, suffix)(path)


def _by_content_or_suffix(head: bytes | None, named: type[Reader] | None, suffix: str) -> type[Reader]:
    """The reader of a file whose suffix says nothing, or something else than its content."""
    found = by_content(head or b"")
    if named is None:
        return _unnamed(found, head, suffix)
    if found is not None and found.label.startswith(named.label):
        return found  # a variant of the format, such as arrow's stream format
    if found is not None and found.distinct:
        raise DataError(f"has the suffix {suffix} but holds {found.label}", f"--input-format {found.label}")
    return named  # its own message says what is wrong


def _folder(path: str) -> Reader:
    from bpmcli.io.formats.hf_file import ArrowStreamReader, is_dataset

    if is_dataset(path):
        return ArrowStreamReader(path)
    raise DataError("is a directory")


def _unnamed(found: type[Reader] | None, head: bytes | None, suffix: str) -> type[Reader]:
    """The reader of a file whose suffix says nothing."""
    if found is not None:
        return found
    if head is not None and not head.strip():
        raise DataError("no rows", "the input is empty")
    known = ", ".join(readers())
    raise DataError(f"unknown suffix '{suffix}'" if suffix else "no suffix", f"known formats: {known}")


def by_content(head: bytes) -> type[Reader] | None:
    """The format that a file's first bytes belong to; gzip is looked into."""
    if head.startswith(GZIP):
        head = unzipped(head)
    return next((cls for cls in dict.fromkeys(readers().values()) if cls.recognises(head)), None)


def unzipped(head: bytes, most: int = 1 << 16) -> bytes:
    """The beginning of gzipped data; empty if it is damaged."""
    import zlib

    try:
        return zlib.decompressobj(wbits=31).decompress(head, most)
    except zlib.error:
        return b""


def _head(path: str, size: int) -> bytes | None:
    """The first bytes of a file; None if it cannot be opened, which its reader reports."""
    try:
        with open_bytes(path) as f:
            head: bytes = f.read(size)
            return head
    except OSError:
        return None


def open_bytes(path: str) -> Any:
    """A binary file, local or remote."""
    if "://" not in path:
        return open(path, "rb")
    from bpmcli.io.remote import opened

    return opened(path)
