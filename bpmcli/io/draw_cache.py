"""Finished draws of a simulation on disk, so that an interrupted `compare --resume` continues where it stopped.

One JSON object per line. The first line has everything that the values depend on and a checksum of the other lines;
every other line is one data set. The file is replaced as a whole, so it is always complete. A draw that was not saved
is repeated from its own seed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bpmcli import __version__
from bpmcli.errors import DataError
from bpmcli.io.document_kinds import DRAW, DRAWS
from bpmcli.io.documents import LARGEST_FILE, check, parse, parse_document
from bpmcli.io.remote import read_start
from bpmcli.io.writers import write_text

EVERY = 5.0
"""Seconds between two saves."""


def _code() -> bytes:
    """The source code of all arithmetic, for a checksum: values that other code computed are not reused."""
    core = Path(__file__).resolve().parent.parent / "core"
    return b"".join(path.read_bytes() for path in sorted(core.rglob("*.py")))


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


class DrawCache:
    """Values by the identity of their draw."""

    def __init__(self, path: str, setting: Mapping[str, Any]) -> None:
        """`setting` is everything except the draw that the values depend on; a file with another setting is refused."""
        self.path = path
        text = json.dumps(setting, sort_keys=True, default=list)
        digest = hashlib.sha256(text.encode() + _code()).hexdigest()
        self.header = {
            "schema": DRAWS.schema,
            "version": DRAWS.version,
            "tool": f"bpmcli {__version__}",
            "setting": digest,
        }
        self.values: dict[str, Any] = self._load() if os.path.exists(path) else {}
        self.unsaved, self.saved_at = 0, time.monotonic()

    def _load(self) -> dict[str, Any]:
        hint = "name another file, or delete this one"
        try:
            first, *lines = read_start(self.path, LARGEST_FILE + 1).decode("utf-8", "replace").splitlines() or [""]
            header = parse_document(first, DRAWS)
            if header["setting"] != self.header["setting"]:
                raise DataError("holds draws of other options, another seed or another version of bpmcli", hint)
            if header["content"] != _digest(lines):
                raise DataError("was changed since it was written, or is incomplete", hint)
            entries = [parse(line, hint) for line in lines]
            for number, entry in enumerate(entries, 2):
                check(entry, DRAW, f"line {number}", hint)
                if set(entry["values"]) != set(entries[0]["values"]):
                    raise DataError(f"line {number}.values: other names than in line 2", hint)
        except DataError as error:
            raise error.at(self.path) from None
        return {entry["draw"]: entry["values"] for entry in entries}

    def add(self, draw: str, values: Any) -> None:
        """Keep the values; they are saved to disk every few seconds."""
        self.values[draw] = values
        self.unsaved += 1
        if time.monotonic() - self.saved_at > EVERY:
            self.save()

    def save(self) -> None:
        """Replace the file, if there is anything new."""
        if self.unsaved:
            entries = [json.dumps({"draw": draw, "values": values}) for draw, values in self.values.items()]
            first = json.dumps({**self.header, "content": _digest(entries)})
            write_text(self.path, "".join(f"{line}\n" for line in [first, *entries]))
        self.unsaved, self.saved_at = 0, time.monotonic()
