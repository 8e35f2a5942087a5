"""Where outputs of many inputs go, and whether they are still up to date."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bpmcli import __version__
from bpmcli.errors import UsageError
from bpmcli.io.documents import dumps
from bpmcli.io.paths import Input
from bpmcli.io.writers import write_text

RECORD = ".bpmcli-outputs.json"
"""Lies in the output folder: what each output was made from."""


def output_paths(items: Sequence[Input], folder: str, suffixes: Sequence[str]) -> list[str]:
    """One path per input below the folder, in the same tree, with its own suffix.

    Where two inputs differ only in their suffix, the outputs keep it: a.npz and a.csv become
    a.npz.json and a.csv.json. Two inputs for one output are refused, never overwritten.
    """
    stems = [os.path.splitext(item.relative)[0] if item.relative.endswith(".gz") else item.relative for item in items]
    plain = [os.path.splitext(stem)[0] + suffix for stem, suffix in zip(stems, suffixes, strict=True)]
    often = Counter(plain)
    targets = [
        path if often[path] == 1 else item.relative + suffix
        for path, item, suffix in zip(plain, items, suffixes, strict=True)
    ]
    twice = [path for path, count in Counter(targets).items() if count > 1]
    if twice:
        both = [item.path for item, target in zip(items, targets, strict=True) if target == twice[0]]
        raise UsageError(
            f"{both[0]} and {both[1]} would both be written to {os.path.join(folder, twice[0])}",
            "give the directory that holds them, so that its tree is kept",
        )
    return [os.path.join(folder, target) for target in targets]


def spare_inputs(items: Sequence[Input], *targets: str | None) -> None:
    """Refuse to write onto an input, also through links."""
    for target in targets:
        if target in (None, "-") or not os.path.exists(target):
            continue
        for item in items:
            if os.path.exists(item.path) and os.path.samefile(item.path, target):
                raise UsageError(f"{target} is the input itself", "write to another file")


class Record:
    """What the outputs of a folder were made from: inputs, parameters and options."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        try:
            with open(os.path.join(folder, RECORD), encoding="utf-8") as f:
                document = json.load(f)
            self.made: dict[str, Any] = dict(document["outputs"]) if document.get("version") == 1 else {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.made = {}

    def key(self, target: str) -> str:
        return os.path.relpath(target, self.folder)

    def is_current(self, target: str, origin: Mapping[str, Any]) -> bool:
        return os.path.exists(target) and self.made.get(self.key(target)) == dict(origin)

    def save(self, fresh: Mapping[str, Mapping[str, Any]]) -> None:
        """Remember newly made outputs."""
        if not fresh:
            return
        self.made |= {self.key(target): dict(origin) for target, origin in fresh.items()}
        document = {"schema": "bpmcli/outputs", "version": 1, "tool": f"bpmcli {__version__}", "outputs": self.made}
        write_text(os.path.join(self.folder, RECORD), dumps(document))


def origin_of(path: str, **made_with: Any) -> dict[str, Any]:
    """An input as it is now, and what is done to it."""
    try:
        status = os.stat(path)
        now = {"size": status.st_size, "modified": status.st_mtime_ns}
    except OSError:
        now = {}
    return {"input": os.path.abspath(path), **now, **made_with}
