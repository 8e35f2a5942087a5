"""npz and npy files, streamed array by array. Pickles are refused, never loaded."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from bpmcli.errors import DataError
from bpmcli.io.columns import Array
from bpmcli.io.sources import BATCH_VALUES, Batch, Column, Source, open_bytes, source


def _rows_per_batch(widths: Sequence[int | None]) -> int:
    return max(1, BATCH_VALUES // max(1, sum(w or 1 for w in widths)))


PIECE = 1 << 20
LOCAL_HEADER = 30
"""Bytes in front of the name of a zip archive's member; the last four are the lengths of name and extra field."""
TRUNCATED = "the file is truncated: copy it again"
UNEQUAL = "arrays of one file describe the same rows; name another one with --label, --hit or --logits"

COMPANIONS = ("labels", "label", "hits", "hit", "pred", "weights")
"""Files beside scores: x_logits.npy finds x_labels.npy."""


class _NpyMember:
    """One array of an npz or npy file, read in chunks.

    Arrays in C order are read from front to back. Rows of arrays in Fortran order lie all over the file: they are
    gathered by reads at their positions, which takes as long as a memory map would, and a file that is cut off
    meanwhile is an error and no crash.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        from numpy.lib import format as npy

        self.file, self.name = file, name
        version = npy.read_magic(file)
        if version == (1, 0):
            header = npy.read_array_header_1_0(file)
        elif version == (2, 0):
            header = npy.read_array_header_2_0(file)
        else:
            raise DataError(f"array '{name}' has npy version {version[0]}.{version[1]}, which is not supported")
        self.shape, self.fortran, self.dtype = header
        if self.dtype.hasobject:
            raise DataError(
                f"array '{name}' holds Python objects; they are pickles and are never loaded",
                "save it as numbers: np.asarray(values, dtype=float)",
            )
        self.scattered = self.fortran and len(self.shape) > 1
        self.start = file.tell()
        """Where the values begin; in a file that can be read at any position, if they are scattered."""
        self._at = 0

    def take(self, n: int) -> Array:
        """The next n rows."""
        if self.scattered:
            return self._gathered(n)
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        return self._bytes(n * width).reshape((n, *self.shape[1:]))

    def _gathered(self, n: int) -> Array:
        """The next n values of every column."""
        columns = np.empty((int(np.prod(self.shape[1:], dtype=np.int64)), n), dtype=self.dtype)
        for i, column in enumerate(columns):
            self.file.seek(self.start + (i * self.shape[0] + self._at) * self.dtype.itemsize)
            column[:] = self._bytes(n)
        self._at += n
        rows: Array = columns.reshape((*self.shape[:0:-1], n)).T
        return rows

    def text(self) -> str:
        """A zero-dimensional text array, such as the metadata `simulate` writes."""
        return str(np.frombuffer(self.file.read(self.dtype.itemsize), dtype=self.dtype)[0])

    def _bytes(self, count: int) -> Array:
        size = count * self.dtype.itemsize
        data = self.file.read(size)
        if len(data) != size:
            raise DataError(f"array '{self.name}' ends too early", TRUNCATED)
        return np.frombuffer(data, dtype=self.dtype)


@source("npz", ".npz", magic=b"PK\x03\x04")
class NpzSource(Source):
    """Arrays of a zip archive; those of the first dimension's length are columns."""

    def inspect(self) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        with self.opened() as raw, zipfile.ZipFile(raw) as archive:
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                with archive.open(info) as f:
                    member = _NpyMember(f, name)
                    if not member.shape:
                        if member.dtype.kind == "U":
                            self.metadata[name] = member.text()
                        continue
                self.shapes[name] = member.shape
                self.n_rows = max(self.n_rows or 0, member.shape[0])
                self.columns[name] = _array_column(name, member.shape, member.dtype)

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[Batch]:
        wanted = list(self.columns) if rest else list(dict.fromkeys(names))
        lengths = {name: self.shapes[name][0] for name in wanted}
        n = lengths[names[0]]
        for name in names:
            if lengths[name] != n:
                raise DataError(f"'{names[0]}' has {n} rows but '{name}' has {lengths[name]}", UNEQUAL)
        wanted = [name for name in wanted if lengths[name] == n]
        step = _rows_per_batch([self.columns[name].width for name in wanted])
        with self.opened() as raw, zipfile.ZipFile(raw) as archive, ExitStack() as stack:
            members = {name: self._member(archive, name, stack) for name in wanted}
            for start in range(0, n, step):
                count = min(step, n - start)
                data = {name: _squeeze(m.take(count)) for name, m in members.items()}
                passed = {k: v for k, v in data.items() if k not in names}
                yield Batch(start, count, {k: data[k] for k in names}, passed)

    def leftovers(self) -> dict[str, Any]:
        n = max((shape[0] for shape in self.shapes.values()), default=0)
        out: dict[str, Any] = {}
        with self.opened() as raw, zipfile.ZipFile(raw) as archive, ExitStack() as stack:
            for name, shape in self.shapes.items():
                if shape[0] != n:
                    out[name] = self._member(archive, name, stack).take(shape[0])
        return out

    def _member(self, archive: zipfile.ZipFile, name: str, stack: ExitStack) -> _NpyMember:
        info = archive.getinfo(_member_name(archive, name))
        file = stack.enter_context(archive.open(info))
        member = _NpyMember(file, name)
        if not member.scattered:
            return member
        if info.compress_type == zipfile.ZIP_STORED and "://" not in self.path:
            # Read where it lies; once through before, which checks its size and the archive's checksum.
            values = sum(len(piece) for piece in iter(lambda: file.read(PIECE), b""))
            if values < int(np.prod(member.shape, dtype=np.int64)) * member.dtype.itemsize:
                raise DataError(f"array '{name}' ends too early", TRUNCATED)
            raw: IO[bytes] = stack.enter_context(open_bytes(self.path))
            raw.seek(info.header_offset + LOCAL_HEADER - 4)
            lengths = np.frombuffer(raw.read(4), dtype="<u2")
            raw.seek(int(lengths.sum()), os.SEEK_CUR)
        else:
            raw = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            with archive.open(info) as whole:
                shutil.copyfileobj(whole, raw, PIECE)
            raw.seek(0)
        return _NpyMember(raw, name)


def _member_name(archive: zipfile.ZipFile, name: str) -> str:
    return f"{name}.npy" if f"{name}.npy" in archive.NameToInfo else name


def _array_column(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Column:
    width = None if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1) else int(np.prod(shape[1:]))
    return Column(name, width, dtype.kind)


def _squeeze(values: Array) -> Array:
    """Labels of shape (N, 1) are labels of shape (N,)."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


@source("npy", ".npy", magic=b"\x93NUMPY")
class NpySource(Source):
    """A structured array, or scores with their labels in a file beside it (`x_logits.npy`, `x_labels.npy`)."""

    ROLES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("logits", "logits"), ("prob", "probs"), ("conf", "confidence"),
    )  # fmt: skip

    def inspect(self) -> None:
        self.files: dict[str, str] = {}
        with open_bytes(self.path) as f:
            member = _NpyMember(f, Path(self.path).stem)
        if member.dtype.names:
            self.dtype = member.dtype
            self.n_rows = member.shape[0] if member.shape else None
            for name in member.dtype.names:
                sub = member.dtype[name]
                self.columns[name] = _array_column(name, (0, *sub.shape), sub.base)
            return
        if not member.shape:
            raise DataError("holds a single number")
        self.n_rows = member.shape[0]
        stem = Path(self.path).stem
        role = next((role for word, role in self.ROLES if word in stem.lower()), "array")
        self.files[role] = self.path
        for word in COMPANIONS:
            beside = re.sub("logits|probs|confidences|confidence|conf", word, stem, flags=re.IGNORECASE)
            path = Path(self.path).with_name(beside + ".npy")
            if beside != stem and path.exists():
                self.files[word] = str(path)
        for name, path_ in self.files.items():
            with open_bytes(path_) as f:
                m = _NpyMember(f, name)
                self.columns[name] = _array_column(name, m.shape, m.dtype)

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[Batch]:
        with ExitStack() as stack:
            if not self.files:
                member = _NpyMember(stack.enter_context(open_bytes(self.path)), "array")
                n, step = member.shape[0], _rows_per_batch([c.width for c in self.columns.values()])
                for start in range(0, n, step):
                    rows = member.take(min(step, n - start))
                    passed = {k: rows[k] for k in self.columns if rest and k not in names}
                    yield Batch(start, len(rows), {k: _squeeze(rows[k]) for k in names}, passed)
                return
            wanted = list(self.columns) if rest else list(names)
            members = {k: _NpyMember(stack.enter_context(open_bytes(self.files[k])), k) for k in wanted}
            n = members[names[0]].shape[0]
            for k, m in members.items():
                if m.shape[0] != n:
                    raise DataError(f"'{names[0]}' has {n} rows but '{k}' has {m.shape[0]}", UNEQUAL)
            step = _rows_per_batch([self.columns[k].width for k in wanted])
            for start in range(0, n, step):
                count = min(step, n - start)
                data = {k: _squeeze(m.take(count)) for k, m in members.items()}
                yield Batch(
                    start, count, {k: data[k] for k in names}, {k: v for k, v in data.items() if k not in names}
                )
