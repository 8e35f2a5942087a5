"""Inputs as given on the command line: files, globs, directories, `-`."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from bpmcli.errors import DataError, UsageError
from bpmcli.io.formats import SEPARATOR, STDIN, known_suffixes, readers, suffix_of
from bpmcli.io.opening import copied, is_stream
from bpmcli.record import Record

HDF5 = (".h5", ".hdf5", ".he5")
"""Files that can hold several inputs."""


class Input(Record):
    """A file, and where it lies below the directory it was found in."""

    path: str
    """The path as it was given, for messages."""
    relative: str
    location: str | None = None
    """Where to read the file, if that differs from the path: an absolute path for workers in other directories."""

    @property
    def place(self) -> str:
        return self.location or self.path


def expand(arguments: Iterable[str], workers: bool = True) -> list[Input]:
    """Every input once, in the order given; files of a glob or directory are sorted.

    Without `workers`, a stream is read when it is its turn, so that the results of inputs before it need not wait.
    """
    found: dict[str, Input] = {}
    arguments = list(arguments)
    for argument in arguments:
        if workers and len(arguments) > 1 and is_stream(argument):
            _read_now(argument)  # read here, because the stream belongs to this process and not to workers
        for item in _expand_one(argument):
            found.setdefault(item.path, item)
    items = list(found.values())
    if len({item.relative for item in items}) < len(items):
        # Same names in several folders: keep as much of the tree as distinguishes them.
        folders = [os.path.dirname(os.path.abspath(item.path)) for item in items]
        base = os.path.commonpath(folders)
        items = [Input(item.path, os.path.relpath(os.path.abspath(item.path), base)) for item in items]
    return items


def _expand_folder(argument: str) -> list[Input]:
    """The inputs below a folder, which may itself be a data set."""
    from bpmcli.io.formats.hf_file import dataset_splits, is_dataset

    sets = [argument] if is_dataset(argument) else dataset_splits(argument)
    if sets:
        return [Input(path, os.path.basename(os.path.normpath(path))) for path in sets]
    files = sorted(str(p) for p in Path(argument).rglob("*") if p.is_file() and (_is_input(p.name) or _is_log(p)))
    files = [f for f in files if not _is_companion(f)]
    files = [f for f in files if not any(part.startswith(".") for part in Path(f).relative_to(argument).parts)]
    if not files:
        raise UsageError(f"{argument}: no file with a known suffix below it", "known: " + known_suffixes())
    return [Input(f, os.path.relpath(f, argument)) for f in files]


def _is_input(name: str) -> bool:
    """Whether a file in a folder is an input: its suffix says so, and it is not a document such as a parameter file."""
    found = readers().get(suffix_of(name))
    return found is not None and found.in_folders


def _read_now(argument: str) -> None:
    """Copy a stream; problems are reported when the copy is read."""
    with suppress(DataError):
        copied(argument)


def _expand_one(argument: str) -> list[Input]:
    if argument == STDIN:
        return [Input(STDIN, "stdin")]
    if argument[:7].lower() == "file://":
        from bpmcli.io.remote import local_path

        return _expand_one(local_path(argument))
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
    return _expand_file(argument)


def _expand_file(argument: str) -> list[Input]:
    """One input, or the groups of an HDF5 file, each an input of its own."""
    base = os.path.basename(argument)
    if suffix_of(argument) not in HDF5 or not os.path.isfile(argument):
        return [Input(argument, base)]
    from bpmcli.io.formats.hdf5_file import groups

    return [Input(name, base + name[len(argument) :].replace(SEPARATOR, "/")) for name in groups(argument)]


def _is_log(path: Path) -> bool:
    """Whether a JSON file is an evaluation log; lm-evaluation-harness writes its results beside its samples."""
    if suffix_of(path.name) == ".eval":
        return True
    if suffix_of(path.name) != ".json":
        return False
    from bpmcli.io import logs

    with path.open("rb") as f:
        return logs.recognised(f.read(4096)) is not None


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
        raise UsageError(f"{argument}: no file with a known suffix there", "known: " + known_suffixes())
    scheme = argument[: argument.index("://") + 3]
    base = scheme + os.path.commonpath([os.path.dirname(f[len(scheme) :]) for f in files])
    return [Input(f, f[len(base) + 1 :]) for f in files]


def similar_file(path: str) -> str | None:
    """The existing file whose name is most like one that does not exist; None if there is none."""
    from bpmcli.core.data.names import nearest

    folder, name = os.path.split(path)
    try:
        # A broken link is listed under the very name that does not exist.
        others = [other for other in sorted(os.listdir(folder or ".")) if other != name]
    except OSError:
        return None
    # Without suffixes: two names are not similar just because both end in .csv.
    alike = nearest(_stem(name), [_stem(other) for other in others])
    same = [other for other in others if _stem(other) == alike]
    near = nearest(name, same) or next(iter(same), None)
    return os.path.join(folder, near) if near else None


def _stem(name: str) -> str:
    """The name of a file without the suffix of its format, and without .gz."""
    return os.path.splitext(name.removesuffix(".gz"))[0]
