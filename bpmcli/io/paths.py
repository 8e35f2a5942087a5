"""Inputs as given on the command line: files, globs, directories, `-`."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bpmcli.errors import DataError, UsageError
from bpmcli.io.formats import STDIN, readers, suffix_of
from bpmcli.io.streams import copied, is_stream

HDF5 = (".h5", ".hdf5", ".he5")
"""Files that can hold several inputs."""


class Input(NamedTuple):
    """A file, and where it lies below the directory it was found in."""

    path: str
    relative: str


def expand(arguments: Iterable[str]) -> list[Input]:
    """Every input once, in order; what a glob or directory holds is sorted."""
    found: dict[str, Input] = {}
    arguments = list(arguments)
    for argument in arguments:
        if len(arguments) > 1 and is_stream(argument):
            _read_now(argument)  # workers cannot: the stream belongs to this process
        for item in _expand_one(argument):
            found.setdefault(item.path, item)
    items = list(found.values())
    if len({item.relative for item in items}) < len(items):
        # Same names in several folders: keep as much of the tree as tells them apart.
        folders = [os.path.dirname(os.path.abspath(item.path)) for item in items]
        base = os.path.commonpath(folders)
        items = [Input(item.path, os.path.relpath(os.path.abspath(item.path), base)) for item in items]
    return items


def _expand_folder(argument: str) -> list[Input]:
    """The inputs below a folder, which may itself be a data set."""
    from bpmcli.io.formats.hf_file import is_dataset, splits

    sets = [argument] if is_dataset(argument) else splits(argument)
    if sets:
        return [Input(path, os.path.basename(os.path.normpath(path))) for path in sets]
    files = sorted(str(p) for p in Path(argument).rglob("*") if p.is_file() and _is_input(p.name))
    files = [f for f in files if not _is_companion(f)]
    files = [f for f in files if not any(part.startswith(".") for part in Path(f).relative_to(argument).parts)]
    if not files:
        raise UsageError(f"{argument}: no file with a known suffix below it", "known: " + ", ".join(readers()))
    return [Input(f, os.path.relpath(f, argument)) for f in files]


def _is_input(name: str) -> bool:
    """Whether a file in a folder is an input: its suffix says so, and it is not a document such as a parameter file."""
    found = readers().get(suffix_of(name))
    return found is not None and found.in_folders


def _read_now(argument: str) -> None:
    """Copy a stream; what is wrong with it is reported by whoever reads the copy."""
    with suppress(DataError):
        copied(argument)


def _expand_one(argument: str) -> list[Input]:
    if argument == STDIN:
        return [Input(STDIN, "stdin")]
    if "://" in argument:
        return _expand_remote(argument)
    if os.path.isdir(argument):
        return _expand_folder(argument)
    if not os.path.exists(argument) and glob.has_magic(argument):
        matches = sorted(m for m in glob.glob(argument, recursive=True) if os.path.isfile(m))
        if not matches:
            raise DataError(f"{argument}: no file matches")
        base = os.path.commonpath([os.path.dirname(m) for m in matches]) if len(matches) > 1 else ""
        return [Input(m, os.path.relpath(m, base) if base else os.path.basename(m)) for m in matches]
    if suffix_of(argument) in HDF5 and os.path.isfile(argument):
        from bpmcli.io.formats.hdf5_file import SEPARATOR, groups

        return [Input(name, os.path.basename(argument) + name[len(argument) :].replace(SEPARATOR, "/"))
                for name in groups(argument)]  # fmt: skip
    return [Input(argument, os.path.basename(argument))]


def _is_companion(path: str) -> bool:
    """x_labels.npy belongs to x_logits.npy and is not an input of its own."""
    from bpmcli.io.formats.npy_file import COMPANIONS

    return path.endswith(".npy") and Path(path).stem.lower().endswith(COMPANIONS)


def _expand_remote(argument: str) -> list[Input]:
    from bpmcli.io.remote import listing

    found = listing(argument)
    if found is None:
        return [Input(argument, os.path.basename(argument))]
    files = [f for f in found if _is_input(f)]
    if not files:
        raise UsageError(f"{argument}: no file with a known suffix there", "known: " + ", ".join(readers()))
    scheme = argument[: argument.index("://") + 3]
    base = scheme + os.path.commonpath([os.path.dirname(f[len(scheme) :]) for f in files])
    return [Input(f, f[len(base) + 1 :]) for f in files]
