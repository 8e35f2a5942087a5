"""What every reader offers: the columns of a file, and its rows batch by batch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import IO, Any, ClassVar

import numpy as np

from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.notices import Notice
from bpmcli.errors import DataError, too_many_files
from bpmcli.io.columns import Array, Lists, from_arrow
from bpmcli.record import Record

BATCH_VALUES = 1 << 20
"""Values per batch: 8 MB of float64."""

BATCH_BYTES = 1 << 26
"""Bytes per batch, however wide its rows are, as long as a batch has more than one row."""

LARGEST_ROW = 1 << 28
"""A row of more bytes than this is refused; a few copies of such a row still fit into a gigabyte of memory."""


_ADDRESS = re.compile(r"<[\w. ]+ at 0x[0-9a-f]+>| at 0x[0-9a-f]+")
"""Memory addresses in error texts, which mean nothing to a reader and change from run to run."""


class ColumnInfo(Record):
    """What is known about a column before it is read."""

    name: str
    width: int | None
    """The number of values per row: None for a plain column, 0 if the number varies."""
    kind: str
    """numpy's letter for the type: f, i, u, b or U."""
    rows: int | None = None
    """The number of rows, if columns of one file may differ in it."""
    classes: tuple[str, ...] | None = None
    """The names of the classes, if the column holds an object per row."""


class ColumnBatch(Record):
    """Some consecutive rows: the columns asked for as arrays, and the other columns in the file's own form."""

    start: int
    n: int
    columns: dict[str, Array | Lists | Categorical]
    passed: Mapping[str, Any] = MappingProxyType({})
    missing: Array | None = None
    """Rows with a null in any of the columns asked for."""
    nulls: Mapping[str, Array] = MappingProxyType({})
    """Rows with a null, for each column that has nulls."""


class RowGroups(Record):
    """Consecutive row groups of a file, which can be read on their own."""

    first_group: int
    last_group: int
    first_row: int


class Reader:
    """A file that can be read: what columns it has, and its rows batch by batch."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    label: ClassVar[str] = ""

    refused: ClassVar[bool] = False
    """Files of this format are never read: the reader only says how to convert them."""

    in_folders: ClassVar[bool] = True
    """If a folder is given, files with these suffixes are inputs."""

    distinct: ClassVar[bool] = True
    """Whether the content alone identifies this format; almost any text could be csv."""

    containers: ClassVar[tuple[bytes, ...]] = ()
    """Marks of general containers, such as zip, that files with these suffixes may also begin with."""

    row_key: str | None = None
    """The column that names a row's cluster, if the format has one. Rows with the same value are not independent."""

    outcome_hint: ClassVar[str] = ""
    """How to supply the labels, if the format does not have them."""

    written_as: str = ""
    """The suffix of the output that the columns are written to, if any: a reader may then keep text as it is."""

    group: str | None = None
    """The column that names a row's group, if any: 007 is a name there, and not the number 7."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.columns: dict[str, ColumnInfo] = {}
        self.metadata: dict[str, str] = {}
        """Metadata that bpmcli itself stored in the file."""
        self.table_metadata: dict[bytes, bytes] = {}
        """Metadata that other programs stored, such as the description of a pandas index."""
        self.n_rows: int | None = None
        self.row_groups: RowGroups | None = None
        """The row groups to read, if not all."""
        with self.reporting():
            self.inspect()

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        """Whether a file that begins with these bytes has this format."""
        raise NotImplementedError

    def opened(self) -> Any:
        """For a `with` statement: the path, or an open file if it is not local or its name is not UTF-8."""
        if "://" not in self.path:
            return nullcontext(self.path) if is_plain(self.path) else open(self.path, "rb")
        from bpmcli.io.remote import opened

        return opened(self.path)

    def inspect(self) -> None:
        """Fill in the columns."""
        raise NotImplementedError

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[ColumnBatch]:
        """The batches. `numeric` columns must be numbers; with `rest`, all other columns are passed on."""
        raise NotImplementedError

    def file_arrays(self, scores: str) -> list[str]:
        """Arrays that belong to the file and not to the rows of `scores`, such as class names."""
        return []

    @contextmanager
    def opened_array(self, name: str) -> Iterator[IO[bytes]]:
        """One of the file's arrays in npy format, to be copied as it is."""
        raise NotImplementedError
        yield

    def as_read(self, name: str, values: Any) -> tuple[Array | Lists | Categorical, Array | None]:
        """A column that was passed on, in the form of a column that was asked for, and which values are missing."""
        if isinstance(values, (Lists, Categorical)):
            return values, None
        if isinstance(values, np.ndarray):
            from bpmcli.io.formats.npy_array import as_column

            return as_column(values), None
        return from_arrow(values)

    def batches(self, names: Sequence[str], numeric: Sequence[str] = (), rest: bool = False) -> Iterator[ColumnBatch]:
        """The rows of the named columns, in order. The first name fixes the number of rows."""
        with self.reporting():
            yield from self.read(names, numeric, rest)

    def class_names(self, label: str, n: int) -> tuple[str, ...] | None:
        """The names of the n classes in the order of the scores, if the file or a file beside it lists them."""
        from bpmcli.io.class_names import beside

        return beside(self.path, n)

    def count_rows(self) -> int:
        """The number of rows. If the file does not state it, one column is read to count them."""
        if self.n_rows is not None:
            return self.n_rows
        return sum(batch.n for batch in self.batches([next(iter(self.columns))]))

    @classmethod
    def written(cls, path: str) -> tuple[list[str], int]:
        """The columns and the number of rows of a local file that was just written."""
        found = cls(path)
        return list(found.columns), found.count_rows()

    def rows_at_most(self, enough: int) -> int:
        """An upper bound of the number of rows; rows are counted only if the bound exceeds `enough`."""
        return self.n_rows or 0

    def parts(self, rows: int) -> list[RowGroups]:
        """Runs of row groups with at least `rows` rows; empty if the file cannot be read in parts."""
        return []

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Turns whatever a library raises into a DataError."""
        try:
            yield
        except DataError:
            raise
        except FileNotFoundError as e:
            # fsspec raises this as well when the host does not answer or refuses access.
            cause = e.__cause__
            refused = getattr(cause, "status", 404) != 404
            if refused or (isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError)):
                raise DataError(f"cannot be reached: {' '.join(str(cause).split())[:200]}") from None
            raise DataError("no such file") from None
        except PermissionError:
            raise DataError("not readable (permission denied)") from None
        except IsADirectoryError:
            raise DataError("is a directory") from None
        except MemoryError:
            raise DataError("does not fit into memory", "split it into smaller files") from None
        except Exception as e:  # a damaged file can make a library fail in any way
            if many := too_many_files(e):
                raise many from None
            text = _ADDRESS.sub("", "".join(c if c.isprintable() else " " for c in str(e)))
            text = " ".join(text.split()) or type(e).__name__
            if "support range requests" in text:
                raise DataError("the server does not support range requests", "download it first") from None
            raise DataError(f"cannot be read as {self.label}: {text[:200]}", self.advice()) from None

    def notices(self) -> tuple[Notice, ...]:
        """What the user should know about the file, once it was read."""
        return ()

    def advice(self) -> str:
        """The hint for a file that cannot be read."""
        return "is the file complete, and does its suffix fit its content?"


def is_plain(path: str) -> bool:
    """Whether a local path is valid text; pyarrow cannot open any other."""
    try:
        os.fspath(path).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def rows_per_batch(row_values: int, row_bytes: int) -> int:
    """The number of rows that fit into a batch by both limits, at least one."""
    if row_bytes > LARGEST_ROW:
        raise DataError(
            f"a single row takes {row_bytes / 2**20:.0f} MB, but at most {LARGEST_ROW >> 20} MB are read",
            "store less per row",
        )
    return max(1, min(BATCH_VALUES // max(1, row_values), BATCH_BYTES // max(1, row_bytes)))
