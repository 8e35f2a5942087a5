"""Columns of a batch as numpy arrays and back, without importing pandas on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bpmcli.core.data.categorical import Categorical, categorical
from bpmcli.core.data.sample import Ints
from bpmcli.errors import DataError
from bpmcli.record import Record

if TYPE_CHECKING:
    import numpy.typing as npt

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]

EXACT_INTEGER = 1 << 53
"""Float64 holds every whole number up to this."""


LARGEST_PADDED = 1 << 28
"""numpy pads text to its longest value; a batch whose text would take more bytes than this is refused."""


class Lists(Record):
    """A column of lists, flattened."""

    values: Array
    lengths: Ints

    @property
    def ragged(self) -> bool:
        """Whether the lists differ in length."""
        return bool(self.lengths.size) and int(self.lengths.min()) != int(self.lengths.max())

    def take(self, keep: npt.NDArray[np.bool_]) -> Lists:
        """The chosen rows."""
        return Lists(self.values[np.repeat(keep, self.lengths)], self.lengths[keep])

    def slice(self, start: int, stop: int) -> Lists:
        """Consecutive rows."""
        before = int(self.lengths[:start].sum())
        lengths = self.lengths[start:stop]
        return Lists(self.values[before : before + int(lengths.sum())], lengths)

    def matrix(self, pad: float) -> Array:
        """One row per list; shorter lists are filled up with `pad`. Callers keep ragged batches small."""
        n = self.lengths.size
        width = int(self.lengths.max()) if n else 0
        if not self.ragged:
            return self.values.reshape(n, width)
        out = np.full((n, width), pad)
        out[np.arange(width) < self.lengths[:, None]] = self.values
        return out


ABSENT = object()
"""Stands for a field that a JSON object does not have, which is not the same as null."""


class Objects:
    """JSON values row by row, exactly as they were read."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, length: int) -> Objects:
        """Consecutive rows."""
        return Objects(self.values[start : start + length])

    def take(self, keep: npt.NDArray[np.bool_]) -> Objects:
        """The chosen rows."""
        return Objects([value for value, kept in zip(self.values, keep.tolist(), strict=True) if kept])


def from_arrow(column: Any) -> tuple[Array | Lists | Categorical, Array | None]:
    """Values and, if any are null, a mask of them (the values at nulls are arbitrary)."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind) and column.dictionary.null_count:
        column = column.dictionary_decode()  # arrow does not count a null among the words as a missing value
        kind = column.type
    if pa.types.is_struct(kind):
        from bpmcli.io import structs

        if structs.is_spark_vector(kind):
            return from_arrow(structs.vector_values(column))
        if keys := structs.class_keys(kind):
            return structs.matrix(column, keys)
    missing = None
    if column.null_count:
        missing = _dlpack(column.is_null().cast(pa.int8())).astype(bool)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = column.value_lengths()
        counts = _dlpack(lengths.fill_null(0) if lengths.null_count else lengths).astype(np.int64)
        flat = column.flatten()
        if flat.null_count:
            raise DataError("a list holds a null", "remove it, or leave the whole list empty (null)")
        values = _scalars(flat)
        if isinstance(values, Categorical):
            raise DataError("a list holds text", "store lists of numbers")
        return Lists(values, counts), missing
    return _scalars(column), missing


def _scalars(column: Any) -> Array | Categorical:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column))
    if pa.types.is_dictionary(kind):
        if is_text(kind.value_type):
            return _categorical(column)
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_boolean(kind):
        return _booleans(column.fill_null(False) if column.null_count else column)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
        kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return _dlpack(column.fill_null(0) if column.null_count else column)
    if is_text(kind):
        return _categorical((column.fill_null("") if column.null_count else column).dictionary_encode())
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        from bpmcli.io.times import iso_times

        return categorical([value or "" for value in iso_times(column)])
    raise DataError(f"a column of type {kind} cannot be used here", "store numbers, text or lists of numbers")


def is_text(kind: Any) -> bool:
    """Whether an arrow type is text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view")


def _categorical(column: Any) -> Categorical:
    """Text that arrow has split into a dictionary and indices; nulls get an arbitrary code."""
    words = [word if word is not None else "" for word in column.dictionary.to_pylist()] or [""]
    indices = column.indices
    codes = _dlpack(indices.fill_null(0) if indices.null_count else indices).astype(np.int64)
    if len(set(words)) == len(words):
        return Categorical(words, codes)
    known = categorical(words)  # some files repeat a word in their dictionary
    return Categorical(known.categories, known.codes[codes])


def _booleans(column: Any) -> Array:
    """Arrow stores one bit per value, which dlpack does not support."""
    end = column.offset + len(column)
    bits = np.frombuffer(column.buffers()[1], dtype=np.uint8, count=(end + 7) // 8)
    return np.unpackbits(bits, count=end, bitorder="little")[column.offset :].view(bool)


def _dlpack(column: Any) -> Array:
    if len(column) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.from_dlpack(column)


def to_arrow(values: Any) -> Any:
    """A column for an arrow table; arrow columns are returned as they are."""
    import pyarrow as pa

    if isinstance(values, Lists):
        offsets = np.concatenate([[0], np.cumsum(values.lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(to_arrow(offsets), to_arrow(np.ascontiguousarray(values.values)))
    if isinstance(values, Categorical):
        words = pa.array(values.categories, pa.string())
        return pa.DictionaryArray.from_arrays(to_arrow(values.codes), words).dictionary_decode()
    if not isinstance(values, np.ndarray):
        return values
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(to_arrow(values.ravel()), values.shape[1])
    return _numpy_to_arrow(values)


def kept_rows(column: Any, keep: Array) -> Any:
    """The rows of an arrow column where `keep` is true."""
    import pyarrow as pa

    try:
        return column.filter(to_arrow(keep))
    except pa.ArrowNotImplementedError:  # views of text, and runs; slices of any type can be joined
        edges = np.flatnonzero(np.diff(np.concatenate([[False], keep, [False]]))).reshape(-1, 2).tolist()
        return pa.concat_arrays([column.slice(start, stop - start) for start, stop in edges] or [column.slice(0, 0)])


def _numpy_to_arrow(values: Array) -> Any:
    """A one-dimensional array for arrow, in the machine's byte order. Types that arrow does not have are refused."""
    import pyarrow as pa

    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    kind, code = values.dtype.kind, values.dtype.str[1:]
    if values.ndim != 1:
        raise DataError(f"has {values.ndim} dimensions")
    if kind == "U":
        return pa.array(values.tolist(), pa.string())
    if kind == "S":
        return pa.array(values.tolist(), pa.binary())
    if kind == "b":
        return to_arrow(values.astype(np.int8)).cast(pa.bool_())
    if kind in "Mm" and np.datetime_data(values.dtype) in _TIME_UNITS[kind]:
        if code == "M8[D]" and (np.abs(values[~np.isnat(values)].astype(np.int64)) > MOST_DAYS).any():
            raise DataError("holds a time beyond the calendar")
        return pa.array(values)
    if code in _ARROW_NAMES:
        data = pa.py_buffer(np.ascontiguousarray(values))
        return pa.Array.from_buffers(getattr(pa, _ARROW_NAMES[code])(), values.size, [None, data])
    raise DataError(f"holds values of type {values.dtype.name}")


MOST_DAYS = (1 << 31) - 1
"""The most days before or after 1970 that an arrow date can count. pyarrow keeps only the lowest 32 bits of others."""

_TIME_UNITS = {
    "M": {("s", 1), ("ms", 1), ("us", 1), ("ns", 1), ("D", 1)},
    "m": {("s", 1), ("ms", 1), ("us", 1), ("ns", 1)},
}
"""Units of numpy's times that arrow has as well."""

_ARROW_NAMES = {
    "f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64",
}  # fmt: skip


def to_numpy(values: Any) -> Array:
    """A numpy array with the same values: missing numbers become NaN, everything else must fit or is refused."""
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, Categorical):
        return _padded(values)
    missing = None
    if not isinstance(values, Lists):
        _refuse_type(values.type)
        values, missing = from_arrow(values)
    if isinstance(values, Lists):
        if values.ragged or missing is not None:
            raise DataError("holds lists of different lengths")
        return values.matrix(np.nan)
    if isinstance(values, Categorical):
        if missing is not None:
            raise DataError("has missing text")
        return _padded(values)
    if missing is None:
        return np.asarray(values)
    if values.dtype.kind in "iu" and np.abs(values.astype(np.float64)).max(initial=0) >= EXACT_INTEGER:
        raise DataError("has missing values beside whole numbers that float64 cannot hold")
    if values.dtype.kind == "b":
        raise DataError("has missing values beside true and false")
    array: Array = values.astype(np.float64)
    array[missing] = np.nan
    return array


def _padded(values: Categorical) -> Array:
    """Text as numpy stores it, every value as wide as the longest: refused if that takes too much memory."""
    used = [values.categories[code] for code in values.used().tolist()]
    size = 4 * max(map(len, used), default=0) * values.codes.size
    if size > LARGEST_PADDED:
        raise DataError(f"holds text that takes {size / 2**30:.1f} GiB padded to its longest value")
    if any(text.endswith("\0") for text in used):  # numpy pads with NUL characters
        raise DataError("holds text that ends with a NUL character")
    return np.array(values.tolist(), dtype=np.str_)


def _refuse_type(kind: Any) -> None:
    """Refuse types that numpy lacks; what `from_arrow` makes of them is good for groups, but not the same value."""
    import pyarrow as pa

    while pa.types.is_dictionary(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        raise DataError(f"holds values of type {kind}")
