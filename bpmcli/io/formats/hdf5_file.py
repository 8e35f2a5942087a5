"""HDF5 files. Every group that holds data sets is an input of its own (`file.h5::group`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from bpmcli.core.data.categorical import Categorical, categorical
from bpmcli.errors import DataError
from bpmcli.io.columns import Array, to_numpy
from bpmcli.io.formats import SEPARATOR, file_and_group, reads
from bpmcli.io.formats.npy_array import array_info, as_column, as_npy
from bpmcli.io.formats.reader import ColumnBatch, Reader, rows_per_batch

MOST_GROUPS = 100_000

LARGEST_UNPACKED = 1 << 28
"""Bytes that a data set may claim, however few are stored."""
LARGEST_RATIO = 1000
"""A data set that claims more may claim at most this many times what is stored; gzip packs hardly more tightly."""
LARGEST_CHUNK = 1 << 27


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise DataError("HDF5 files need the package h5py", "pip install h5py") from None
    return h5py


def groups(path: str) -> list[str]:
    """The groups of a file that hold data sets, as `path::group`; the path itself if the file has only one input."""
    h5py = _h5py()
    found: list[str] = []
    try:
        with h5py.File(path, "r") as file:
            pending, seen = [""], set()
            while pending and len(found) < MOST_GROUPS:
                name = pending.pop()
                group = file[name] if name else file
                if (place := h5py.h5o.get_info(group.id).addr) in seen:
                    continue  # a group can be inside itself
                seen.add(place)
                inside = [key for key in group if group.get(key, getlink=True).__class__ is h5py.HardLink]
                kinds = {key: group.get(key, getclass=True) for key in inside}
                if any(kind is h5py.Dataset for kind in kinds.values()):
                    found.append(name)
                pending += [f"{name}/{key}" if name else key for key in inside if kinds[key] is h5py.Group]
    except (OSError, RuntimeError, KeyError, ValueError):
        return [path]  # the reader will report what is wrong
    if found in ([], [""]):
        return [path]
    return sorted(f"{path}{SEPARATOR}{name}" if name else path for name in found)


@reads("hdf5", ".h5", ".hdf5", ".he5")
class Hdf5Reader(Reader):
    """Data sets of one group. Data sets with as many rows as the scores are columns."""

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start.startswith(b"\x89HDF\r\n\x1a\n")

    def _group(self, file: Any) -> Any:
        name = file_and_group(self.path)[1]
        if not name:
            return file
        if name not in file:
            raise DataError(f"has no group '{name}'", "leave the group out to take all of them")
        return file[name]

    def inspect(self) -> None:
        h5py = _h5py()
        path, texts = file_and_group(self.path)[0], False
        self.single: list[str] = []
        with h5py.File(path, "r") as file:
            group = self._group(file)
            for name in group:
                if group.get(name, getlink=True).__class__ is not h5py.HardLink:
                    continue  # a link can lead to another file
                data = group[name]
                if isinstance(data, h5py.Dataset) and data.shape is not None:
                    text = self._is_text(name, data)
                    texts = texts or data.dtype.hasobject
                    if data.shape:
                        self.columns[name] = array_info(name, data.shape, np.dtype("U1") if text else data.dtype)
                    else:
                        self.single.append(name)
        if texts:
            from bpmcli.io.formats.hdf5_heap import check_heaps

            check_heaps(path)
        self.n_rows = max((c.rows or 0 for c in self.columns.values()), default=None)

    def _is_text(self, name: str, data: Any) -> bool:
        """Whether a data set holds text. One that cannot be read is refused."""
        h5py = _h5py()
        if data.is_virtual or data.external:
            raise DataError(f"'{name}' has its values in another file", "store them in this one")
        text = h5py.check_string_dtype(data.dtype) is not None
        if data.dtype.hasobject and not text:
            raise DataError(f"'{name}' holds values of different lengths", "store arrays of one shape")
        _check_claim(name, data)
        return text

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[ColumnBatch]:
        h5py = _h5py()
        n = self.columns[names[0]].rows or 0
        passed = [k for k, c in self.columns.items() if rest and c.rows == n and k not in numeric]
        with h5py.File(file_and_group(self.path)[0], "r") as file:
            group = self._group(file)
            wanted = {name: group[name] for name in dict.fromkeys([*names, *passed])}
            values = sum(self.columns[name].width or 1 for name in wanted)
            size = sum((self.columns[name].width or 1) * data.dtype.itemsize for name, data in wanted.items())
            step = rows_per_batch(values, size)
            for start in range(0, n, step):
                stop = min(start + step, n)
                arrays = {name: _values(name, data, slice(start, stop)) for name, data in wanted.items()}
                columns = {name: a if isinstance(a := arrays[name], Categorical) else as_column(a) for name in names}
                yield ColumnBatch(start, stop - start, columns, {name: arrays[name] for name in passed})

    @contextmanager
    def opened_array(self, name: str) -> Iterator[IO[bytes]]:
        h5py = _h5py()
        with h5py.File(file_and_group(self.path)[0], "r") as file:
            values = _values(name, self._group(file)[name], ())
        with as_npy(to_numpy(values)) as found:
            yield found

    def file_arrays(self, scores: str) -> list[str]:
        return [name for name, c in self.columns.items() if c.rows != self.columns[scores].rows] + self.single


def _check_claim(name: str, data: Any) -> None:
    """Raise DataError for values that are not stored and for chunks that are too large: HDF5 unpacks whole chunks."""
    stored, claimed = int(data.id.get_storage_size()), int(data.nbytes)
    if claimed > max(LARGEST_UNPACKED, LARGEST_RATIO * stored):
        raise DataError(
            f"'{name}' claims {claimed / 2**20:.0f} MB, of which {stored} bytes are stored", "write the file again"
        )
    chunk = int(np.prod(data.chunks or (0,), dtype=np.float64)) * data.dtype.itemsize
    if chunk > LARGEST_CHUNK:
        raise DataError(
            f"'{name}' is stored in chunks of {chunk / 2**20:.0f} MB, but at most {LARGEST_CHUNK >> 20} MB are read",
            "write it in smaller chunks",
        )


def _values(name: str, data: Any, rows: slice | tuple[()]) -> Array | Categorical:
    """Some rows of a data set, or all of it for `()`. Text in one dimension is not padded to its longest value."""
    if _h5py().check_string_dtype(data.dtype) is None:
        return np.asarray(data[rows])
    found = np.asarray(data.asstr()[rows], dtype=object)
    texts = categorical([str(text) for text in found.ravel()])
    if found.ndim == 1:
        return texts
    try:
        return to_numpy(texts).reshape(found.shape)
    except DataError as error:
        raise DataError(f"'{name}' {error.message}", "store it in one dimension") from None
