"""Tables written batch by batch, one class per format. A new format is one class with one decorator."""

from __future__ import annotations

import csv
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any, ClassVar

import numpy as np

from bpmcli.errors import DataError, UsageError
from bpmcli.io.atomic import atomic_path, write_text
from bpmcli.io.columns import Lists, to_arrow, to_list, to_numpy
from bpmcli.io.sources import STDIN, suffix_of


class Writer:
    """Writes batches of columns; `close` makes the file complete."""

    def __init__(self, path: str, metadata: Mapping[str, str]) -> None:
        self.path, self.metadata = path, metadata

    def write(self, columns: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


WRITERS: dict[str, type[Writer]] = {}


def writer(*suffixes: str) -> Callable[[type[Writer]], type[Writer]]:
    """Register an output format by its suffixes."""

    def register(cls: type[Writer]) -> type[Writer]:
        for suffix in suffixes:
            WRITERS[suffix] = cls
        return cls

    return register


@contextmanager
def open_writer(path: str, suffix: str | None = None, metadata: Mapping[str, str] | None = None) -> Iterator[Writer]:
    """A writer by suffix; the file appears when the block ends well, and not otherwise."""
    suffix = suffix or suffix_of(path)
    if suffix not in WRITERS:
        raise UsageError(f"{path}: cannot write '{suffix}' files", "known formats: " + ", ".join(WRITERS))
    if path == STDIN:
        if suffix not in TEXT_SUFFIXES:
            raise UsageError(f"{suffix[1:]} cannot go to standard output", "name a file with -o")
        out = WRITERS[suffix](STDIN, metadata or {})
        yield out
        out.close()
        return
    with atomic_path(path) as temporary:
        out = WRITERS[suffix](temporary, metadata or {})
        try:
            yield out
        except BaseException:
            with suppress(Exception):
                out.close()
            raise
        out.close()


def spread_matrices(columns: Mapping[str, Any], flat: bool = False) -> dict[str, Any]:
    """Matrices as one column per class (`probs` becomes prob_0, prob_1, …); if `flat`, lists as well."""
    out: dict[str, Any] = {}
    for name, values in columns.items():
        if flat and isinstance(values, Lists):
            values = values.matrix(np.nan)
        if isinstance(values, np.ndarray) and values.ndim == 2:
            stem = name.removesuffix("s")
            out.update({f"{stem}_{k}": values[:, k] for k in range(values.shape[1])})
        else:
            out[name] = values
    return out


class _TextWriter(Writer):
    """Text goes to a file or straight to standard output."""

    def __init__(self, path: str, metadata: Mapping[str, str]) -> None:
        super().__init__(path, metadata)
        self.started = False
        self.file: IO[str] = self._open(path)

    def _open(self, path: str) -> IO[str]:
        return sys.stdout if path == STDIN else open(path, "w", encoding="utf-8", newline="")

    def close(self) -> None:
        if self.file is sys.stdout:
            self.file.flush()
        else:
            self.file.close()


@writer(".csv")
class CsvWriter(_TextWriter):
    """Numbers in their shortest exact form, text as it came."""

    delimiter: ClassVar[str] = ","

    def write(self, columns: Mapping[str, Any]) -> None:
        spread = spread_matrices(columns, flat=True)
        out = csv.writer(self.file, delimiter=self.delimiter, lineterminator="\n")
        if not self.started:
            out.writerow(spread)
            self.started = True
        out.writerows(zip(*(to_list(v) for v in spread.values()), strict=True))


@writer(".tsv")
class TsvWriter(CsvWriter):
    """The same with tabs."""

    delimiter: ClassVar[str] = "\t"


class _Gzipped(_TextWriter):
    def _open(self, path: str) -> IO[str]:
        import gzip
        import io

        # No name and no time in the header: the same input gives the same bytes.
        self._raw = open(path, "wb")  # noqa: SIM115
        return io.TextIOWrapper(gzip.GzipFile("", "wb", fileobj=self._raw, mtime=0), encoding="utf-8", newline="")

    def close(self) -> None:
        super().close()
        self._raw.close()


@writer(".csv.gz")
class CsvGzWriter(_Gzipped, CsvWriter):
    """Compressed csv."""


@writer(".tsv.gz")
class TsvGzWriter(_Gzipped, TsvWriter):
    """Compressed tsv."""


@writer(".jsonl", ".ndjson")
class JsonlWriter(_TextWriter):
    """One object per line; matrices stay lists."""

    def write(self, columns: Mapping[str, Any]) -> None:
        names = list(columns)
        for values in zip(*(to_list(v) for v in columns.values()), strict=True):
            self.file.write(json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False, default=str) + "\n")


@writer(".jsonl.gz")
class JsonlGzWriter(_Gzipped, JsonlWriter):
    """Compressed jsonl."""


@writer(".parquet", ".pq")
class ParquetWriter(Writer):
    """Row groups as they come. Without dictionaries, which make float columns a third larger."""

    def __init__(self, path: str, metadata: Mapping[str, str]) -> None:
        super().__init__(path, metadata)
        self.out: Any = None

    def table(self, columns: Mapping[str, Any]) -> Any:
        import pyarrow as pa

        arrays = {name: to_arrow(values) for name, values in spread_matrices(columns).items()}
        return pa.table(arrays).replace_schema_metadata(dict(self.metadata) or None)

    def open(self, schema: Any) -> Any:
        import pyarrow.parquet as pq

        floats = [f.name for f in schema if str(f.type) in ("halffloat", "float", "double")]
        return pq.ParquetWriter(self.path, schema, use_dictionary=[f.name for f in schema if f.name not in floats])

    def write(self, columns: Mapping[str, Any]) -> None:
        table = self.table(columns)
        self.out = self.out or self.open(table.schema)
        self.out.write_table(table)

    def close(self) -> None:
        if self.out is not None:
            self.out.close()


@writer(".arrow", ".feather")
class ArrowWriter(ParquetWriter):
    """Arrow IPC."""

    def open(self, schema: Any) -> Any:
        import pyarrow as pa

        return pa.ipc.new_file(self.path, schema)


@writer(".npz")
class NpzWriter(Writer):
    """Every array goes to a temporary file first: a zip archive takes one member at a time."""

    def __init__(self, path: str, metadata: Mapping[str, str]) -> None:
        super().__init__(path, metadata)
        self.parts: dict[str, tuple[IO[bytes], np.dtype[Any], tuple[int, ...]]] = {}
        self.rows: dict[str, int] = {}

    def write(self, columns: Mapping[str, Any]) -> None:
        for name, values in columns.items():
            array = np.ascontiguousarray(to_numpy(values) if not isinstance(values, Lists) else values.matrix(np.nan))
            if name not in self.parts:
                self.parts[name] = (tempfile.TemporaryFile(), array.dtype, array.shape[1:])  # noqa: SIM115
                self.rows[name] = 0
            file, dtype, shape = self.parts[name]
            if array.shape[1:] != shape or (array.dtype.kind == "U" and array.dtype != dtype):
                raise DataError(f"'{name}' changes its shape on the way", "write to parquet or jsonl instead")
            file.write(array.astype(dtype, copy=False).tobytes())
            self.rows[name] += array.shape[0]

    def close(self) -> None:
        from numpy.lib import format as npy

        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, (file, dtype, shape) in self.parts.items():
                header = {
                    "descr": npy.dtype_to_descr(dtype),
                    "fortran_order": False,
                    "shape": (self.rows[name], *shape),
                }
                with archive.open(_member(name), "w", force_zip64=True) as out:
                    npy.write_array_header_2_0(out, header)
                    file.seek(0)
                    shutil.copyfileobj(file, out, 1 << 20)
                file.close()
            for name, text in self.metadata.items():
                with archive.open(_member(name), "w") as out:
                    npy.write_array(out, np.array(text))


def _member(name: str) -> zipfile.ZipInfo:
    """A fixed date: the same input gives the same bytes."""
    return zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))


TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")

__all__ = ["WRITERS", "Writer", "atomic_path", "open_writer", "write_text", "writer"]
