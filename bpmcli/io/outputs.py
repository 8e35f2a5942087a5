"""Which file each input is written to, and which inputs are left out or spared."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Sequence

from bpmcli.errors import UsageError
from bpmcli.io.paths import Input
from bpmcli.io.remote import is_remote, local_path


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
    """Refuse to write onto an input, also through links or another spelling of its path."""
    remote = {item.path for item in items if is_remote(item.path)}
    local = {_identity(item.path) for item in items if os.path.exists(item.path)}
    for target in targets:
        if target is None or target == "-":
            continue
        place = local_path(target)
        if target in remote or (os.path.exists(place) and _identity(place) in local):
            raise UsageError(f"{target} is the input itself", "write to another file or directory")


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def without_outputs(items: Sequence[Input], arguments: Sequence[str], folder: str) -> list[Input]:
    """The inputs apart from outputs of an earlier run: files below `folder` that a search found on its way.

    A file that was named is always an input, and so is one below a folder that holds all that was searched.
    """
    named = {local_path(argument) for argument in arguments}
    searched = [base for argument in named if (base := _searched(argument))]
    outputs = [base for base in searched if _is_below(folder, base)]
    kept = [
        item
        for item in items
        if item.path in named
        or not _is_below(item.path, folder)
        or not any(_is_below(item.path, base) for base in outputs)
    ]
    if items and not kept:
        raise UsageError(f"all {len(items)} inputs are below {folder}, where outputs go", "name another --output-dir")
    same = [base for base in searched if os.path.abspath(base) == os.path.abspath(folder)]
    if same:
        raise UsageError(
            f"--output-dir {folder} is also where the inputs are: they would be replaced",
            f"--output-dir {os.path.join(folder, 'calibrated')}",
        )
    return kept


def _searched(argument: str) -> str | None:
    """The directory that an argument searches; None for a single file."""
    if os.path.isdir(argument):
        return argument
    if is_remote(argument) or os.path.exists(argument) or not glob.has_magic(argument):
        return None
    plain = argument
    while glob.has_magic(plain):
        plain = os.path.dirname(plain)
    return plain or os.curdir


def _is_below(path: str, folder: str) -> bool:
    folder = os.path.abspath(folder)
    return os.path.abspath(path).startswith(folder if folder.endswith(os.sep) else folder + os.sep)
