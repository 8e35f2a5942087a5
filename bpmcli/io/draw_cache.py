"""Finished draws of a benchmark on disk, so that an interrupted run goes on where it stopped.

One JSON object per line: first what the values hang on, then one data set each. The file is replaced as
a whole, so it is always complete; a draw that was not saved is drawn again, from its own seed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bpmcli import __version__
from bpmcli.errors import DataError
from bpmcli.io.writers import write_text

SCHEMA = "bpmcli/draws"
EVERY = 5.0
"""Seconds between two saves."""


def _code() -> bytes:
    """All of the arithmetic: draws of other code are not ours, whatever its version says."""
    core = Path(__file__).resolve().parent.parent / "core"
    return b"".join(path.read_bytes() for path in sorted(core.rglob("*.py")))


class DrawCache:
    """Values by the identity of their draw."""

    def __init__(self, path: str, setting: Mapping[str, Any]) -> None:
        """`setting` is everything but the draw that decides the values; another one is refused."""
        self.path = path
        text = json.dumps(setting, sort_keys=True, default=list)
        digest = hashlib.sha256(text.encode() + _code()).hexdigest()
        self.header = {"schema": SCHEMA, "version": 1, "tool": f"bpmcli {__version__}", "setting": digest}
        self.values: dict[str, Any] = self._load() if os.path.exists(path) else {}
        self.unsaved, self.saved_at = 0, time.monotonic()

    def _load(self) -> dict[str, Any]:
        try:
            with open(self.path, encoding="utf-8") as f:
                lines = [json.loads(line) for line in f]
            header, entries = lines[0], lines[1:]
            if header["schema"] != SCHEMA:
                raise KeyError
            values = {entry["draw"]: entry["values"] for entry in entries}
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error.strerror})") from None
        except (ValueError, KeyError, TypeError, IndexError):
            raise DataError(f"{self.path}: does not hold the draws of a benchmark", "name another file") from None
        if header != self.header:
            raise DataError(
                f"{self.path}: holds draws of other options, another seed or another version of bpmcli",
                "name another file, or delete this one",
            )
        return values

    def add(self, draw: str, values: Any) -> None:
        """Keep the values; on disk every few seconds."""
        self.values[draw] = values
        self.unsaved += 1
        if time.monotonic() - self.saved_at > EVERY:
            self.save()

    def save(self) -> None:
        """Replace the file, if there is anything new."""
        if self.unsaved:
            entries = ({"draw": draw, "values": values} for draw, values in self.values.items())
            write_text(self.path, "".join(json.dumps(line) + "\n" for line in [self.header, *entries]))
        self.unsaved, self.saved_at = 0, time.monotonic()
