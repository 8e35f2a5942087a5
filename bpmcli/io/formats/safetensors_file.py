"""safetensors files: a JSON header and raw arrays; nothing in them can run code."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np

from bpmcli.errors import DataError
from bpmcli.io.columns import Array
from bpmcli.io.formats import reads
from bpmcli.io.formats.npy_array import TRUNCATED, array_info, as_column, as_npy
from bpmcli.io.formats.reader import ColumnBatch, Reader, rows_per_batch

LARGEST_HEADER = 100 << 20
"""The largest header in bytes, the format's own limit."""

TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "?",
}  # fmt: skip


class _Tensor(NamedTuple):
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    brain: bool
    """bfloat16, the upper half of a float32."""

    @property
    def row_values(self) -> int:
        product = 1
        for n in self.shape[1:]:
            product *= n
        return product


@reads("safetensors", ".safetensors")
class SafetensorsReader(Reader):
    """Tensors with as many rows as the scores are columns."""

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        size = int.from_bytes(start[:8], "little")
        return 2 <= size <= LARGEST_HEADER and start[8:9] == b"{"

    def inspect(self) -> None:
        from bpmcli.io.opening import open_bytes

        with open_bytes(self.path) as f:
            size = int.from_bytes(f.read(8), "little")
            if not 2 <= size <= LARGEST_HEADER:
                raise DataError(f"claims a header of {size} bytes", "is it a safetensors file?")
            text = f.read(size)
            f.seek(0, os.SEEK_END)
            end = f.tell()
        if len(text) != size:
            raise DataError("its header ends too early", TRUNCATED)
        header = json.loads(text)
        if not isinstance(header, dict):
            raise DataError("its header is not an object", "save it again")
        self.tensors = {name: _tensor(name, about, 8 + size, end) for name, about in header.items()
                        if name != "__metadata__"}  # fmt: skip
        for name, tensor in self.tensors.items():
            if tensor.shape:
                kind = np.dtype("<f4") if tensor.brain else tensor.dtype
                self.columns[name] = array_info(name, tensor.shape, kind)
        self.n_rows = max((c.rows or 0 for c in self.columns.values()), default=None)

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[ColumnBatch]:
        from bpmcli.io.opening import open_bytes

        n = self.columns[names[0]].rows or 0
        passed = [k for k, c in self.columns.items() if rest and c.rows == n and k not in numeric]
        wanted = {name: self.tensors[name] for name in dict.fromkeys([*names, *passed])}
        values = sum(t.row_values for t in wanted.values())
        step = rows_per_batch(values, sum(t.row_values * t.dtype.itemsize for t in wanted.values()))
        with open_bytes(self.path) as f:
            for start in range(0, n, step):
                count = min(step, n - start)
                data = {name: _take(f, name, tensor, start, count) for name, tensor in wanted.items()}
                yield ColumnBatch(start, count, {k: as_column(data[k]) for k in names}, {k: data[k] for k in passed})

    @contextmanager
    def opened_array(self, name: str) -> Iterator[IO[bytes]]:
        from bpmcli.io.opening import open_bytes

        tensor = self.tensors[name]
        rows = tensor if tensor.shape else tensor._replace(shape=(1,))
        with open_bytes(self.path) as f:
            values = _take(f, name, rows, 0, rows.shape[0])
        with as_npy(values.reshape(tensor.shape)) as found:
            yield found

    def file_arrays(self, scores: str) -> list[str]:
        n = self.columns[scores].rows
        return [name for name in self.tensors if name not in self.columns or self.columns[name].rows != n]


def _tensor(name: str, about: Any, base: int, end: int) -> _Tensor:
    """A header entry, checked against the size of the file."""
    try:
        dtype = np.dtype(TYPES[about["dtype"]])
        shape = tuple(int(n) for n in about["shape"])
        first, last = (int(i) for i in about["data_offsets"])
    except (KeyError, TypeError, ValueError):
        raise DataError(f"tensor '{name}' has a type or shape that cannot be read", "save it as float32") from None
    size = dtype.itemsize
    for n in shape:
        size *= n
    if min((*shape, first), default=0) < 0 or last - first != size or base + last > end:
        raise DataError(f"tensor '{name}' does not fit into the file", TRUNCATED)
    return _Tensor(dtype, shape, base + first, about["dtype"] == "BF16")


def _take(file: Any, name: str, tensor: _Tensor, start: int, count: int) -> Array:
    row = tensor.row_values * tensor.dtype.itemsize
    file.seek(tensor.start + start * row)
    data = file.read(count * row)
    if len(data) != count * row:
        raise DataError(f"tensor '{name}' ends too early", TRUNCATED)
    values = np.frombuffer(data, dtype=tensor.dtype).reshape((count, *tensor.shape[1:]))
    return (values.astype(np.uint32) << 16).view(np.float32) if tensor.brain else values
