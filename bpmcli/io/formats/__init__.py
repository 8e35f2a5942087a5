"""File formats: one module `NAME_file.py` for each, with a reader class, a writer class or both.

To add a format, write such a module and decorate its classes with `@reads` and `@writes`. Nothing else needs to
change: suffixes, recognition by content, `--input-format`, messages and tests use this registry. A module is imported
only when a file needs it, because start-up time counts: `.npz` first tries `npz_file`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from bpmcli.errors import UsageError

if TYPE_CHECKING:
    from bpmcli.io.formats.reader import Reader
    from bpmcli.io.formats.writer import Writer

STDIN = "-"
"""Standard input as an input, standard output as an output."""

R = TypeVar("R", bound="type[Reader]")
W = TypeVar("W", bound="type[Writer]")

_READERS: dict[str, type[Reader]] = {}
_WRITERS: dict[str, type[Writer]] = {}


def reads(label: str, *suffixes: str) -> Callable[[R], R]:
    """Register a reader under the format's name and its suffixes."""

    def register(cls: R) -> R:
        cls.label, cls.suffixes = label, suffixes
        _READERS.update(dict.fromkeys(suffixes, cls))
        return cls

    return register


def writes(*suffixes: str) -> Callable[[W], W]:
    """Register a writer under its suffixes."""

    def register(cls: W) -> W:
        cls.label = suffixes[0].lstrip(".")
        _WRITERS.update(dict.fromkeys(suffixes, cls))
        return cls

    return register


def _load_all() -> None:
    folder = os.path.dirname(__file__)
    for name in sorted(os.listdir(folder)):
        if name.endswith("_file.py"):
            import_module(f"{__name__}.{name[:-3]}")


def _load(suffix: str) -> None:
    """Import the module that is named after a suffix, if there is one; otherwise all of them."""
    name = f"{suffix.removesuffix('.gz').strip('.')}_file"
    if name.isidentifier() and os.path.exists(os.path.join(os.path.dirname(__file__), f"{name}.py")):
        import_module(f"{__name__}.{name}")
    else:
        _load_all()


def readers() -> dict[str, type[Reader]]:
    """Every reader by suffix."""
    _load_all()
    return _READERS


def known_suffixes() -> str:
    """The suffixes of all files that can be read, for a message."""
    return ", ".join(suffix for suffix, cls in readers().items() if not cls.refused)


def writers() -> dict[str, type[Writer]]:
    """Every writer by suffix."""
    _load_all()
    return _WRITERS


def reader_for(suffix: str) -> type[Reader] | None:
    """The reader of a suffix."""
    if suffix and suffix not in _READERS:
        _load(suffix)
    return _READERS.get(suffix)


def writer_for(suffix: str) -> type[Writer] | None:
    """The writer of a suffix."""
    if suffix and suffix not in _WRITERS:
        _load(suffix)
    return _WRITERS.get(suffix)


def reader_named(name: str) -> type[Reader]:
    """The reader of a format given with `--input-format`: a format's name or one of its suffixes."""
    wanted = name.lower().strip()
    found = reader_for("." + wanted.lstrip("."))
    found = found or next((cls for cls in readers().values() if cls.label == wanted), None)
    if found is None or found.refused:
        known = ", ".join(dict.fromkeys(cls.label for cls in readers().values() if not cls.refused))
        raise UsageError(f"--input-format {name}: unknown format", f"known formats: {known}")
    return found


SEPARATOR = "::"
"""Separates the path of an HDF5 file from a group inside it."""


def file_and_group(path: str) -> tuple[str, str]:
    """The file and the group that `file.h5::group` names; the group is empty for a path that names a whole file.

    Files and groups may have the separator in their own names, so the longest beginning that is a file counts.
    """
    end = len(path)
    while SEPARATOR in path[:end] and not os.path.exists(path):
        end = path.rindex(SEPARATOR, 0, end)
        if os.path.isfile(path[:end]):
            return path[:end], path[end + len(SEPARATOR) :]
    return path, ""


def suffix_of(path: str) -> str:
    """The suffix that names the format; `.csv.gz` counts as one."""
    name = os.path.basename(path.split("?", maxsplit=1)[0] if path.startswith("http") else path).lower()
    stem, suffix = os.path.splitext(name)
    if suffix == ".gz":
        suffix = os.path.splitext(stem)[1] + suffix
    return suffix
