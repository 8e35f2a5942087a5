"""npz archives: arrays streamed side by side. The scored array fixes the number of rows."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any, ClassVar

import numpy as np

from bpmcli.errors import DataError
from bpmcli.io.columns import EXACT_INTEGER, Array, to_numpy
from bpmcli.io.formats import reads, writes
from bpmcli.io.formats.npy_array import NpyArray, as_column
from bpmcli.io.formats.reader import ColumnBatch, Reader, rows_per_batch
from bpmcli.io.formats.writer import Writer
from bpmcli.io.opening import open_bytes
from bpmcli.record import Record

PIECE = 1 << 20

LOCAL_HEADER = 30
"""Bytes before the name of a member of a zip archive; the last four are the lengths of name and extra field."""

LONGEST_NAME = (1 << 16) - 1
LONG_NAME = f"has a name of more than {LONGEST_NAME} bytes"

LARGEST_TEXT = 1 << 24
"""Bytes of metadata that bpmcli reads from an archive."""

CLASS_NAMES = ("classes", "class_names", "classes_", "label_names", "target_names", "names")
"""Arrays that list the classes in the order of the scores."""

LARGEST_PADDED = 1 << 30
"""npz pads text to its longest value; text that would take more bytes than this is refused."""


@reads("npz", ".npz")
class NpzReader(Reader):
    """Arrays of a zip archive. Arrays with as many rows as the scores are columns; the others belong to the file."""

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start.startswith((b"PK\x03\x04", b"PK\x05\x06"))

    def inspect(self) -> None:
        self.members: dict[str, str] = {}
        self.others: list[str] = []
        with self.opened() as raw, zipfile.ZipFile(raw) as archive:
            for info in archive.infolist():
                self._inspect(archive, info)
        self.n_rows = max((column.rows or 0 for column in self.columns.values()), default=None)

    def _inspect(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        name = info.filename.removesuffix(".npy")
        if name in self.members:
            raise DataError(f"two arrays are called '{name}'", "save every array under a name of its own")
        with archive.open(info) as f:
            array = NpyArray(f, name)
            array.check_size(info.file_size - array.start)
            self.members[name] = info.filename
            if array.shape:
                self.columns[name] = array.info()
            elif array.dtype.kind == "U" and name.startswith("bpmcli"):
                if array.nbytes > LARGEST_TEXT:
                    raise DataError(f"'{name}' claims {array.nbytes >> 20} MB of metadata", "save the file again")
                self.metadata[name] = str(np.frombuffer(f.read(array.nbytes), dtype=array.dtype)[0])
            else:
                self.others.append(name)

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[ColumnBatch]:
        n = self.columns[names[0]].rows
        assert n is not None
        asked = list(dict.fromkeys(names))
        passed = [k for k, c in self.columns.items() if rest and c.rows == n and k not in numeric]
        with self.opened() as raw, zipfile.ZipFile(raw) as archive, ExitStack() as stack:
            arrays = {name: self._array(archive, name, stack) for name in dict.fromkeys([*asked, *passed])}
            step = rows_per_batch(sum(a.row_values for a in arrays.values()), sum(a.row_bytes for a in arrays.values()))
            for start in range(0, n, step):
                count = min(step, n - start)
                data = {name: array.take(count) for name, array in arrays.items()}
                columns = {name: as_column(data[name]) for name in asked}
                yield ColumnBatch(start, count, columns, {name: data[name] for name in passed})

    def class_names(self, label: str, n: int) -> tuple[str, ...] | None:
        for name, column in self.columns.items():
            if name.lower() in CLASS_NAMES and column.rows == n and column.kind in "US" and column.width is None:
                values = next(iter(self.batches([name]))).columns[name]
                return tuple(values.tolist())  # type: ignore[union-attr]
        return super().class_names(label, n)

    def count_rows(self) -> int:
        return next((c.rows or 0 for c in self.columns.values()), 0)

    def file_arrays(self, scores: str) -> list[str]:
        n = self.columns[scores].rows
        return [name for name in self.members if name in self.others or self._rows(name) not in (n, None)]

    def _rows(self, name: str) -> int | None:
        return self.columns[name].rows if name in self.columns else None

    @contextmanager
    def opened_array(self, name: str) -> Iterator[IO[bytes]]:
        with self.opened() as raw, zipfile.ZipFile(raw) as archive, archive.open(self.members[name]) as f:
            yield f

    def _array(self, archive: zipfile.ZipFile, name: str, stack: ExitStack) -> NpyArray:
        info = archive.getinfo(self.members[name])
        file = stack.enter_context(archive.open(info))
        array = NpyArray(file, name)
        if not array.scattered:
            return array
        if info.compress_type == zipfile.ZIP_STORED and "://" not in self.path:
            # Values are read at their positions. A first pass checks their size and the archive's checksum.
            array.check_size(sum(len(piece) for piece in iter(lambda: file.read(PIECE), b"")))
            raw: IO[bytes] = stack.enter_context(open_bytes(self.path))
            raw.seek(info.header_offset + LOCAL_HEADER - 4)
            lengths = np.frombuffer(raw.read(4), dtype="<u2")
            raw.seek(int(lengths.sum()), os.SEEK_CUR)
        else:
            from tempfile import TemporaryFile

            raw = stack.enter_context(TemporaryFile())  # noqa: SIM115
            with archive.open(info) as whole:
                shutil.copyfileobj(whole, raw, PIECE)
            raw.seek(0)
        return NpyArray(raw, name)


class _Chunk(Record):
    """Some rows of one array in the temporary file."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@writes(".npz")
class NpzWriter(Writer):
    """All arrays go to one temporary file first, because a zip archive takes one member at a time."""

    instead: ClassVar[str] = "parquet"

    def __init__(self, path: str, metadata: Mapping[str, str], origin: Reader | None = None) -> None:
        super().__init__(path, metadata, origin)
        self.chunks: dict[str, list[_Chunk]] = {}
        from tempfile import TemporaryFile

        self.file = TemporaryFile()  # noqa: SIM115
        self.copies: list[tuple[Reader, str]] = []

    def prepare(self, name: str, values: Any) -> Array:
        if _is_long(name):
            raise DataError(LONG_NAME)
        if name != self.keyed and str(kind := getattr(values, "type", "")).startswith("struct"):
            raise DataError(f"holds values of type {str(kind)[:80]}")  # only of scores is it known what the keys mean
        return np.ascontiguousarray(to_numpy(values))

    def put(self, columns: Mapping[str, Any]) -> None:
        for name, array in columns.items():
            chunks = self.chunks.setdefault(name, [])
            if chunks and chunks[0].shape[1:] != array.shape[1:]:
                raise self.cannot_hold(name, "holds lists of different lengths")
            chunks.append(_Chunk(self.file.tell(), array.dtype, array.shape))
            if array.dtype.kind == "U":
                self._check_padding(name, chunks)
            self.file.write(array.tobytes())

    def _check_padding(self, name: str, chunks: Sequence[_Chunk]) -> None:
        longest = max(chunk.dtype.itemsize for chunk in chunks)
        if longest * sum(int(np.prod(chunk.shape)) for chunk in chunks) > LARGEST_PADDED:
            limit = f"{LARGEST_PADDED >> 30} GiB"
            raise self.cannot_hold(name, f"holds text that takes more than {limit} padded to its longest value")

    def carry(self, origin: Reader, names: Sequence[str]) -> bool:
        free = [name for name in names if name not in self.chunks]
        for name in filter(_is_long, free):
            raise self.cannot_hold(name, LONG_NAME)
        self.copies += [(origin, name) for name in free]
        self.carried += free
        return True

    def abandon(self) -> None:
        self.file.close()

    def close(self) -> None:
        from numpy.lib import format as npy

        with self.file, zipfile.ZipFile(self.path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, chunks in self.chunks.items():
                dtype = self._common_type(chunks)
                shape = (sum(chunk.shape[0] for chunk in chunks), *chunks[0].shape[1:])
                header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
                with archive.open(_member(name), "w", force_zip64=True) as out:
                    npy.write_array_header_2_0(out, header)
                    for chunk in chunks:
                        self._copy(name, chunk, dtype, out)
            for origin, name in self.copies:
                with origin.opened_array(name) as whole, archive.open(_member(name), "w", force_zip64=True) as out:
                    for block in _blocks(origin, whole):
                        out.write(block)
            for name, text in self.metadata.items():
                with archive.open(_member(name), "w") as out:
                    npy.write_array(out, np.array(text))

    def _common_type(self, chunks: Sequence[_Chunk]) -> np.dtype[Any]:
        """One type for all chunks: text as wide as its longest value, whole numbers as floats beside NaN."""
        types = list(dict.fromkeys(chunk.dtype for chunk in chunks))
        return types[0] if len(types) == 1 else np.result_type(*types)

    def _copy(self, name: str, chunk: _Chunk, dtype: np.dtype[Any], out: IO[bytes]) -> None:
        count = int(np.prod(chunk.shape))
        self.file.seek(chunk.offset)
        step = max(1, PIECE // max(1, dtype.itemsize))
        for start in range(0, count, step):
            data = self.file.read(min(step, count - start) * chunk.dtype.itemsize)
            if chunk.dtype != dtype:
                values = np.frombuffer(data, dtype=chunk.dtype)
                if chunk.dtype.kind in "iu" and np.abs(values.astype(np.float64)).max(initial=0) >= EXACT_INTEGER:
                    raise self.cannot_hold(name, "has missing values beside whole numbers that float64 cannot hold")
                data = values.astype(dtype).tobytes()
            out.write(data)


def _blocks(origin: Reader, whole: IO[bytes]) -> Iterator[bytes]:
    """The content of an array; what is wrong with it is reported as any other damage of its file."""
    block = b"?"
    while block:
        with origin.reporting():
            block = whole.read(PIECE)
        yield block


def _is_long(name: str) -> bool:
    """Whether a name is longer than the name of a member of a zip archive can be."""
    return len(_member(name).filename.encode()) > LONGEST_NAME


def _member(name: str) -> zipfile.ZipInfo:
    """A fixed date: the same input gives the same bytes."""
    return zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
