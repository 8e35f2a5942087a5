"""Columns of a batch as numpy arrays, without importing pandas on the way."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bpmcli.core.data.sample import Ints
from bpmcli.errors import DataError

Array = npt.NDArray[Any]


class Lists(NamedTuple):
    """A column of lists, flattened."""

    values: Array
    lengths: Ints

    def matrix(self, pad: float) -> Array:
        """One row per list; shorter lists are filled up with `pad`."""
        n = self.lengths.size
        width = int(self.lengths.max()) if n else 0
        if n and int(self.lengths.min()) == width:
            return self.values.reshape(n, width)
        out = np.full((n, width), pad)
        out[np.arange(width) < self.lengths[:, None]] = self.values
        return out


def from_arrow(column: Any) -> tuple[Array | Lists, Array | None]:
    """Values and, if any are null, a mask of them (null values themselves are arbitrary)."""
    import pyarrow as pa

    kind = column.type
    missing = None
    if column.null_count:
        missing = _dlpack(column.is_null().cast(pa.int8())).astype(bool)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = column.value_lengths()
        counts = _dlpack(lengths.fill_null(0) if lengths.null_count else lengths).astype(np.int64)
        flat = column.flatten()
        if flat.null_count:
            raise DataError("a list holds a null", "remove it, or leave the whole list empty (null)")
        return Lists(_scalars(flat), counts), missing
    return _scalars(column), missing


def _scalars(column: Any) -> Array:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column))
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_boolean(kind):
        return _booleans(column.fill_null(False) if column.null_count else column)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
        kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return _dlpack(column.fill_null(0) if column.null_count else column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        coded = (column.fill_null("") if column.null_count else column).dictionary_encode()
        words = np.array(coded.dictionary.to_pylist() or [""], dtype=np.str_)
        return words[_dlpack(coded.indices)]
    raise DataError(f"a column of type {kind} cannot be used here", "store numbers, text or lists of numbers")


def _booleans(column: Any) -> Array:
    """One bit a value, which dlpack does not know."""
    end = column.offset + len(column)
    bits = np.frombuffer(column.buffers()[1], dtype=np.uint8, count=(end + 7) // 8)
    return np.unpackbits(bits, count=end, bitorder="little")[column.offset :].view(bool)


def _dlpack(column: Any) -> Array:
    if len(column) == 0:
        return np.zeros(0)
    return np.from_dlpack(column)


def to_arrow(values: Any) -> Any:
    """A column for an arrow table; arrow columns pass through."""
    import pyarrow as pa

    if isinstance(values, Lists):
        offsets = np.concatenate([[0], np.cumsum(values.lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(to_arrow(offsets), to_arrow(np.ascontiguousarray(values.values)))
    if not isinstance(values, np.ndarray):
        return values
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(to_arrow(values.ravel()), values.shape[1])
    if values.dtype.kind in "US":
        return pa.array(values.tolist())
    if values.dtype == bool:
        return to_arrow(values.astype(np.int8)).cast(pa.bool_())
    kind = {"f2": pa.float16(), "f4": pa.float32(), "f8": pa.float64()}.get(values.dtype.str[1:])
    if kind is None:
        kind = getattr(pa, values.dtype.name)()
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, values.size, [None, data])


def to_list(values: Any) -> list[Any]:
    """Plain Python values, for csv and jsonl."""
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    if isinstance(values, Lists):
        ends = np.cumsum(values.lengths).tolist()
        flat = values.values.tolist()
        return [flat[e - n : e] for e, n in zip(ends, values.lengths.tolist(), strict=True)]
    return list(values.to_pylist())


def to_numpy(values: Any) -> Array:
    """A numpy array of any column (nulls become NaN or empty text)."""
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, Lists):
        return values.matrix(np.nan)
    array, missing = from_arrow(values)
    if isinstance(array, Lists):
        return array.matrix(np.nan)
    if missing is not None and array.dtype.kind in "fiub":
        array = array.astype(np.float64)
        array[missing] = np.nan
    return array
