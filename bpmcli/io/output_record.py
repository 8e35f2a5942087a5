"""What the outputs of a directory were made from, so that a batch continues where it stopped.

Every output that is complete adds one line to a file in the directory: what it was made from, its size and its
checksum. Lines are appended under a lock by whichever process finished the output, so a batch may be killed at any
moment and two batches may write at once. On a store, which cannot append, each output has a small object instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from bpmcli.errors import BpmError
from bpmcli.io.document_kinds import OUTPUT
from bpmcli.io.documents import check, parse
from bpmcli.io.params import checksum
from bpmcli.io.remote import is_remote

RECORD = ".bpmcli-outputs.jsonl"
OBJECTS = ".bpmcli-outputs"
"""The folder of such objects on a store."""

LARGEST_RECORD = 1 << 28
"""The most bytes of a record that are read: a million outputs."""


class Made(NamedTuple):
    """An output as it was when it was recorded."""

    origin: str
    size: int
    checksum: str


def origin_of(path: str, made_with: Any) -> str:
    """A checksum of everything that decides an output: the input as it is now, parameters and options."""
    if is_remote(path):
        from bpmcli.io.remote import fingerprint

        now: Any = fingerprint(path)
    else:
        try:
            status = os.stat(path)
            now = [os.path.abspath(path), status.st_size, status.st_mtime_ns]
        except OSError:
            now = None
    text = json.dumps([path if is_remote(path) else None, now, made_with], sort_keys=True, default=list)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


class OutputRecord:
    """The record of one directory, as it was when this was made."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.made = dict(_entries(folder))

    def is_current(self, target: str, origin: str) -> bool:
        """Whether the output was made from this origin and still has the bytes that were written."""
        entry = self.made.get(_key(self.folder, target))
        return entry is not None and entry.origin == origin and _measured(target) == (entry.size, entry.checksum)


def record_output(folder: str, target: str, origin: str) -> None:
    """Add a complete output to the record of its directory."""
    found = _measured(target)
    if found is None:
        return
    key = _key(folder, target)
    line = json.dumps({"output": key, "origin": origin, "size": found[0], "checksum": found[1]})
    if is_remote(folder):
        from bpmcli.io.writers import write_text

        write_text(f"{folder.rstrip('/')}/{OBJECTS}/{hashlib.sha256(key.encode()).hexdigest()[:32]}.json", line)
        return
    path = os.path.join(folder, RECORD)
    if os.path.lexists(path) and not _is_own(path):
        return
    # An output that cannot be recorded is still complete; the next run makes it again.
    with suppress(OSError), _locked(path) as handle:
        # If a full disk cut the last line off, this one begins on a new line.
        cut = os.lseek(handle, 0, os.SEEK_END) > 0 and os.lseek(handle, -1, os.SEEK_END) >= 0
        cut = cut and os.read(handle, 1) != b"\n"
        os.write(handle, ("\n" * cut + line + "\n").encode())


def _key(folder: str, target: str) -> str:
    if is_remote(folder):
        return target[len(folder.rstrip("/")) + 1 :]
    return os.path.relpath(target, folder).encode("utf-8", "backslashreplace").decode()


def _measured(target: str) -> tuple[int, str] | None:
    """Size and checksum of an output; None if there is none."""
    if is_remote(target):
        from bpmcli.io.remote import fingerprint

        found = fingerprint(target)
        return None if found is None else (int(found["size"] or 0), str(found["tag"]))
    try:
        return (os.path.getsize(target), checksum(target) or "") if os.path.isfile(target) else None
    except OSError:
        return None


def _entries(folder: str) -> Iterator[tuple[str, Made]]:
    """Every valid line. Outputs whose lines are damaged are made again."""
    for line in _lines(folder):
        with suppress(BpmError):
            entry = parse(line, "")
            check(entry, OUTPUT, "")
            yield entry["output"], Made(entry["origin"], entry["size"], entry["checksum"])


def _lines(folder: str) -> list[bytes]:
    if is_remote(folder):
        from bpmcli.io.remote import read_objects

        return read_objects(f"{folder.rstrip('/')}/{OBJECTS}")
    path = os.path.join(folder, RECORD)
    try:
        if not _is_own(path):
            return []
        with open(path, "rb") as f:
            return f.read(LARGEST_RECORD).split(b"\n")
    except OSError:
        return []


def _is_own(path: str) -> bool:
    """Whether a record is a file of its directory: through a link, another file would be written to."""
    return stat.S_ISREG(os.lstat(path).st_mode)


@contextmanager
def _locked(path: str) -> Iterator[int]:
    """The file, open for appending and locked until the end of the block. Windows has no such lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)
