"""Files of every format as streams of batches. A new format is one class with one decorator."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from bpmcli.errors import DataError
from bpmcli.io.columns import Array, Lists

BATCH_VALUES = 1 << 20
"""Values per batch: 8 MB of float64."""

STDIN = "-"


class Column(NamedTuple):
    """What is known of a column before reading it."""

    name: str
    width: int | None
    """None: one value per row; otherwise the number of classes, 0 if it varies."""
    kind: str
    """numpy's letter: f, i, u, b or U."""


class Batch(NamedTuple):
    """Some rows: decoded columns, those passed through undecoded, and rows with a null."""

    start: int
    n: int
    columns: dict[str, Array | Lists]
    passed: Mapping[str, Any] = MappingProxyType({})
    missing: Array | None = None
    nulls: Mapping[str, Array] = MappingProxyType({})
    """The same by column, for those that have any."""


class Part(NamedTuple):
    """Consecutive row groups of a file."""

    first_group: int
    last_group: int
    first_row: int


class Source:
    """An open-able file: what columns it has, and its rows batch by batch."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    magic: ClassVar[bytes] = b""
    label: ClassVar[str] = ""

    def __init__(self, path: str) -> None:
        self.path = path
        self.columns: dict[str, Column] = {}
        self.metadata: dict[str, str] = {}
        self.n_rows: int | None = None
        self.part: Part | None = None
        with self.reporting():
            self.inspect()

    def opened(self) -> Any:
        """Under `with`: the path, or an open file if it is not local."""
        if "://" not in self.path:
            return nullcontext(self.path)
        from bpmcli.io.remote import opened

        return opened(self.path)

    def inspect(self) -> None:
        """Fill in the columns."""
        raise NotImplementedError

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[Batch]:
        """The batches; `numeric` names must be numbers, `rest` passes the other columns through."""
        raise NotImplementedError

    keep_text: bool = False
    """Columns that pass through stay text, so that they come out as they went in."""

    def leftovers(self) -> dict[str, Any]:
        """What is in the file but has no rows, such as class names."""
        return {}

    def batches(self, names: Sequence[str], numeric: Sequence[str] = (), rest: bool = False) -> Iterator[Batch]:
        """The rows of the named columns, in order."""
        with self.reporting():
            yield from self.read(names, numeric, rest)

    def rows_at_most(self, enough: int) -> int:
        """No fewer than the file's rows; counted only where a bound by its size would exceed `enough`."""
        if self.n_rows is not None:
            return self.n_rows
        return 0

    def parts(self, rows: int) -> list[Part]:
        """Runs of row groups with at least `rows` rows; empty if the file cannot be read in parts."""
        return []

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Whatever a library throws becomes a sentence."""
        try:
            yield
        except DataError:
            raise
        except FileNotFoundError as e:
            # fsspec says so too when the host does not answer, or does not let us.
            cause = e.__cause__
            refused = getattr(cause, "status", 404) != 404
            if refused or (isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError)):
                raise DataError(f"cannot be reached: {' '.join(str(cause).split())[:200]}") from None
            raise DataError("no such file") from None
        except PermissionError:
            raise DataError("not readable (permission denied)") from None
        except IsADirectoryError:
            raise DataError("is a directory") from None
        except Exception as e:  # a file can make a reader fail in any way
            text = " ".join(str(e).split()) or type(e).__name__
            if "support range requests" in text:
                raise DataError("its server gives files only from the beginning", "download it first") from None
            raise DataError(f"cannot be read as {self.label}: {text[:200]}", self.advice()) from None

    def advice(self) -> str:
        return "is the file complete, and does its suffix fit its content?"


_SOURCES: dict[str, type[Source]] = {}


def known_sources() -> dict[str, type[Source]]:
    """Every format by its suffixes: a new module of formats is imported here."""
    from bpmcli.io import source_arrow, source_numpy, source_text  # noqa: F401  (they register themselves)

    return _SOURCES


def source(label: str, *suffixes: str, magic: bytes = b"") -> Callable[[type[Source]], type[Source]]:
    """Register a format by its suffixes."""

    def register(cls: type[Source]) -> type[Source]:
        cls.label, cls.suffixes, cls.magic = label, suffixes, magic
        for suffix in suffixes:
            _SOURCES[suffix] = cls
        return cls

    return register


def suffix_of(path: str) -> str:
    """The suffix that names the format; `.csv.gz` counts as one."""
    name = os.path.basename(path.split("?", maxsplit=1)[0] if path.startswith("http") else path).lower()
    stem, suffix = os.path.splitext(name)
    if suffix == ".gz":
        suffix = os.path.splitext(stem)[1] + suffix
    return suffix


def open_source(path: str) -> Source:
    """The file as a source, by suffix; by content if the suffix says nothing."""
    if path == STDIN:
        return _from_stdin()
    if "://" not in path and not os.path.exists(path):
        raise DataError("no such file" if path else "an empty name")
    if os.path.isdir(path):
        raise DataError("is a directory")
    suffix = suffix_of(path)
    found = known_sources().get(suffix)
    by_content = _by_content(path)
    if found is None:
        if by_content is None:
            known = ", ".join(s for s in known_sources())
            raise DataError(f"unknown suffix '{suffix}'" if suffix else "no suffix", f"known formats: {known}")
        return by_content(path)
    if by_content is not None and by_content is not found:
        raise DataError(
            f"has the suffix {suffix} but holds {by_content.label}", f"rename it to {by_content.suffixes[0]}"
        )
    return found(path)


def _by_content(path: str) -> type[Source] | None:
    if "://" in path and suffix_of(path) in known_sources():
        return None  # spare the request
    try:
        with open_bytes(path) as f:
            start = f.read(8)
    except OSError:
        return None
    return next((s for s in known_sources().values() if s.magic and start.startswith(s.magic)), None)


def open_bytes(path: str) -> Any:
    if "://" not in path:
        return open(path, "rb")
    from bpmcli.io.remote import opened

    return opened(path)


def _from_stdin() -> Source:
    """stdin goes to a temporary file first: columns are looked at before rows are read."""
    if sys.stdin is None:
        raise DataError("is closed", "pipe csv or jsonl into it, or name a file")
    copy = tempfile.NamedTemporaryFile(prefix="bpmcli-", delete=False)  # noqa: SIM115
    try:
        with copy:
            while block := sys.stdin.buffer.read(1 << 20):
                copy.write(block)
        with open(copy.name, "rb") as f:
            start = f.read(4096).lstrip()
        if not start:
            raise DataError("no rows")
        for cls in known_sources().values():
            if cls.magic and start.startswith(cls.magic):
                raise DataError(f"holds {cls.label}", "standard input takes csv or jsonl")
        if b"\0" in start or start.startswith(b"\x1f\x8b"):
            raise DataError("is not text", "standard input takes csv or jsonl, not compressed")
        if start.startswith(b"{"):
            found = known_sources()[".jsonl"](copy.name)
        else:
            found = known_sources()[".tsv" if b"\t" in start.split(b"\n")[0] else ".csv"](copy.name)
    except BaseException:
        os.unlink(copy.name)
        raise
    import atexit

    atexit.register(_remove, copy.name)
    return found


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
