"""Arrays in npy format, read directly: headers, both orders, text, and files that lie about themselves."""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

from bpmcli.core.data.categorical import Categorical
from bpmcli.errors import DataError
from bpmcli.io.formats import npy_array
from bpmcli.io.formats.npy_array import NpyArray, array_info, as_column, as_npy, check_text

VALUES = np.arange(2.0 * 3 * 4).reshape(4, 3, 2)


def file(values: Any, version: tuple[int, int] | None = None, allow_pickle: bool = False) -> io.BytesIO:
    raw = io.BytesIO()
    npy.write_array(raw, np.asanyarray(values), version, allow_pickle=allow_pickle)
    raw.seek(0)
    return raw


def header(kind: str, shape: tuple[int, ...], fortran: bool = False, data: bytes = b"") -> io.BytesIO:
    """A file that says this about itself."""
    raw = io.BytesIO()
    npy.write_array_header_1_0(raw, {"descr": kind, "fortran_order": fortran, "shape": shape})
    return io.BytesIO(raw.getvalue() + data)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
@pytest.mark.parametrize("values", [VALUES, VALUES[:, 0], VALUES[:, 0, 0], np.array(["a", "bc", "d", ""])])
def test_a_few_rows_at_a_time(values, version, order):
    found = NpyArray(file(np.asarray(values, order=order), version), "x")
    assert (found.shape, found.dtype, found.start) == (values.shape, values.dtype, found.file.tell())
    assert found.scattered == (order == "F" and values.ndim > 1)
    assert found.row_values == values[0].size
    assert found.row_bytes == values[:1].nbytes
    assert found.nbytes == values.nbytes
    taken = [found.take(1), found.take(2), found.take(1)]
    assert [len(part) for part in taken] == [1, 2, 1]
    assert np.array_equal(np.concatenate(taken), values)


def test_a_single_value_has_its_bytes():
    found = NpyArray(file(1.5), "x")
    assert (found.shape, found.nbytes) == ((), 8)


@pytest.mark.parametrize("shape", [(3, 0), (0, 2)])
def test_rows_without_values(shape):
    assert NpyArray(file(np.zeros(shape, np.float32)), "x").take(shape[0]).shape == shape


def test_texts_without_letters():
    assert NpyArray(header("|S0", (2,)), "x").take(2).tolist() == [b"", b""]


def test_the_order_of_a_single_dimension_does_not_matter():
    """Some writers claim that it is Fortran's. Then the file need not be one that can be read at any position."""
    found = NpyArray(header("<f8", (3,), True, np.arange(3.0).tobytes()), "x")
    assert not found.scattered
    assert found.take(3).tolist() == [0, 1, 2]


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("lost", [1, 8])
def test_an_array_that_ends_too_early(order, lost):
    cut = io.BytesIO(file(np.asarray(VALUES, order=order)).getvalue()[:-lost])
    found = NpyArray(cut, "x")
    with pytest.raises(DataError, match="array 'x' ends too early") as error:
        found.take(4)
    assert error.value.hint == npy_array.TRUNCATED
    found.check_size(VALUES.nbytes)
    with pytest.raises(DataError, match="array 'x' ends too early"):
        found.check_size(VALUES.nbytes - 1)


def test_objects_are_never_loaded():
    with pytest.raises(DataError, match="array 'x' holds Python objects; they are pickles and are never loaded"):
        NpyArray(file(np.array([{}, None]), allow_pickle=True), "x")
    with pytest.raises(ValueError, match="Object arrays cannot be saved"), as_npy(np.array([{}])):
        pass
    with pytest.raises(ValueError, match="magic string"):
        NpyArray(io.BytesIO(pickle.dumps(1) + bytes(10)), "x")


@pytest.mark.parametrize("version", [(1, 1), (3, 0), (0, 1), (2, 1)])
def test_other_versions_are_refused(version):
    raw = file(VALUES).getvalue()
    with pytest.raises(DataError, match=rf"array 'x' has npy version {version[0]}\.{version[1]}"):
        NpyArray(io.BytesIO(raw[:6] + bytes(version) + raw[8:]), "x")


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
def test_the_length_of_a_header_is_checked_before_it_is_read(more, refused):
    length = (1 << 16) + more
    raw = npy.magic(2, 0) + struct.pack("<I", length) + file(VALUES).getvalue()[10:-1].ljust(length)
    if refused:
        with pytest.raises(DataError, match="array 'x' claims a header of 65537 bytes"):
            NpyArray(io.BytesIO(raw), "x")
    else:
        with pytest.raises(ValueError, match="large and may not be safe"):  # numpy's own limit
            NpyArray(io.BytesIO(raw), "x")


@pytest.mark.parametrize("kind", ["<u4", ">u4"])
def test_text_beyond_unicode_is_refused(kind):
    """Python's decoder fails on such text without a place."""
    letters = np.array([0x10FFFF, ord("a")], kind)
    check_text("x", letters.view(kind.replace("u4", "U1")))
    check_text("x", np.zeros(0, "U3"))
    check_text("x", np.zeros(2, "U0"))
    letters = np.array([ord("a"), 0x110000], kind).view(kind.replace("u4", "U1"))
    with pytest.raises(DataError, match="array 'x' holds text that is not valid Unicode"):
        check_text("x", letters)
    rows = np.zeros(2, [("n", "i4"), ("t", letters.dtype)])
    check_text("x", rows)
    rows["t"] = letters
    with pytest.raises(DataError, match="array 't' holds text that is not valid Unicode"):
        check_text("x", rows)
    with pytest.raises(DataError, match="array 'x' holds text"):
        NpyArray(io.BytesIO(file(np.zeros(2, "<U1")).getvalue()[:-8] + struct.pack("<2I", 1, 0x110000)), "x").take(2)


@pytest.mark.parametrize(
    ("shape", "width"), [((5,), None), ((5, 1), None), ((5, 2), 2), ((5, 1, 1), 1), ((5, 2, 3), 6), ((5, 0), 0)]
)
def test_what_is_known_before_an_array_is_read(shape, width):
    info = array_info("x", shape, np.dtype("f4"))
    assert (info.name, info.width, info.kind, info.rows) == ("x", width, "f", 5)


def test_an_array_as_a_file():
    with as_npy(VALUES) as raw:
        assert np.array_equal(npy.read_array(raw), VALUES)


def test_columns_of_one_value_and_of_text():
    assert as_column(np.array([[1.0], [2.0]])).tolist() == [1.0, 2.0]
    for values in (VALUES[:, :1], VALUES[:, 0], VALUES[:, 0, 0], np.array([["a", "b"]])):
        assert as_column(values) is values
    for values in (np.array(["b", "a", "b"]), np.array([[b"b"], [b"a"], [b"b"]])):
        found = as_column(values)
        assert isinstance(found, Categorical)
        assert (list(found.categories), found.codes.tolist()) == (["a", "b"], [1, 0, 1])
    odd = as_column(np.array([b"\xff", "é".encode()]))
    assert odd.tolist() == ["\\xff", "é"]
