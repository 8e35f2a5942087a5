"""One array in numpy's npy format, read in chunks. Pickles are refused, never loaded."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from bpmcli.core.data.categorical import Categorical
from bpmcli.errors import DataError
from bpmcli.io.columns import Array, Lists
from bpmcli.io.formats.reader import ColumnInfo

LAST_CHARACTER = 0x10FFFF
"""The largest code point of Unicode."""

LONGEST_HEADER = 1 << 16
"""Bytes; numpy refuses headers of more than 10,000, but only after it has read them."""

TRUNCATED = "the file is truncated: copy it again"


class NpyArray:
    """An array whose header has been read.

    Arrays in C order are read from front to back. Rows of arrays in Fortran order are spread over the file and read at
    their positions. That takes as long as a memory map, but a file that is cut off while it is read is an error and
    not a crash.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        from numpy.lib import format as npy

        self.file, self.name = file, name
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise DataError(f"array '{name}' has npy version {version[0]}.{version[1]}, which is not supported")
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        with warnings.catch_warnings():  # a damaged header is parsed as Python, which warns about odd escapes in it
            warnings.simplefilter("ignore")
            self.shape, self.fortran, self.dtype = read_header(_header(file, 2 if version == (1, 0) else 4, name))
        if self.dtype.hasobject:
            raise DataError(
                f"array '{name}' holds Python objects; they are pickles and are never loaded",
                "save it as numbers: np.asarray(values, dtype=float)",
            )
        self.scattered = self.fortran and len(self.shape) > 1
        self.start = file.tell()
        """Where the values begin; scattered values need a file that can be read at any position."""
        self._at = 0

    @property
    def row_values(self) -> int:
        """Values per row, in exact arithmetic: headers can claim any shape."""
        product = 1
        for n in self.shape[1:]:
            product *= int(n)
        return product

    @property
    def row_bytes(self) -> int:
        return self.row_values * int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self.row_bytes * int(self.shape[0] if self.shape else 1)

    def check_size(self, available: int) -> None:
        """Compare the size the header claims with the bytes there are, before anything is allocated."""
        if self.nbytes > available:
            raise DataError(f"array '{self.name}' ends too early", TRUNCATED)

    def info(self) -> ColumnInfo:
        """The array as a column."""
        return array_info(self.name, self.shape, self.dtype)

    def take(self, n: int) -> Array:
        """The next n rows."""
        if self.scattered:
            return self._gathered(n)
        return self._values(n * self.row_values).reshape((n, *self.shape[1:]))

    def _gathered(self, n: int) -> Array:
        """The next n values of every column."""
        columns = np.empty((self.row_values, n), dtype=self.dtype)
        for i, column in enumerate(columns):
            self.file.seek(self.start + (i * self.shape[0] + self._at) * self.dtype.itemsize)
            column[:] = self._values(n)
        self._at += n
        rows: Array = columns.reshape((*self.shape[:0:-1], n)).T
        return rows

    def _values(self, count: int) -> Array:
        size = count * self.dtype.itemsize
        data = self.file.read(size)
        if len(data) != size:
            raise DataError(f"array '{self.name}' ends too early", TRUNCATED)
        if not size:
            return np.zeros(count, dtype=self.dtype)
        values = np.frombuffer(data, dtype=self.dtype)
        check_text(self.name, values)
        return values


def _header(file: IO[bytes], size: int, name: str) -> IO[bytes]:
    """The header, after its length in `size` bytes. A length beyond `LONGEST_HEADER` is refused before it is read."""
    length = file.read(size)
    claimed = int.from_bytes(length, "little")
    if claimed > LONGEST_HEADER:
        raise DataError(f"array '{name}' claims a header of {claimed} bytes", "save it again")
    return io.BytesIO(length + file.read(claimed))


def check_text(name: str, values: Array) -> None:
    """Raise DataError for text with invalid code points, which Python cannot handle."""
    for field in values.dtype.names or ():
        check_text(field, values[field])
    if values.dtype.kind == "U" and values.size and values.dtype.itemsize:
        letters = np.ascontiguousarray(values).view(values.dtype.byteorder.replace("|", "=") + "u4")
        if int(letters.max()) > LAST_CHARACTER:
            raise DataError(f"array '{name}' holds text that is not valid Unicode", "save it again")


def array_info(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> ColumnInfo:
    """What is known about an array before it is read."""
    one = len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
    width = 1
    for n in shape[1:]:
        width *= int(n)
    return ColumnInfo(name, None if one else width, dtype.kind, int(shape[0]))


@contextmanager
def as_npy(values: Array) -> Iterator[IO[bytes]]:
    """An array as a file in npy format."""
    import tempfile

    from numpy.lib import format as npy

    with tempfile.TemporaryFile() as file:
        npy.write_array(file, values, allow_pickle=False)
        file.seek(0)
        yield file


def as_column(values: Array) -> Array | Lists | Categorical:
    """An array in the form the readers use: (N, 1) is (N,), text is categorical."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "US":
        return values
    words, codes = np.unique(values, return_inverse=True)
    # Bytes that are not UTF-8 become escapes such as \xff. Only a word that spells out such an escape looks the same.
    names = [w.decode("utf-8", "backslashreplace") if isinstance(w, bytes) else str(w) for w in words.tolist()]
    return Categorical(names, codes.astype(np.int64))
