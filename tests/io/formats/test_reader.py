"""What every reader offers, on one that is made by hand: errors as sentences, rows per batch, defaults."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest

from bpmcli.core.data.categorical import Categorical
from bpmcli.errors import BpmError, DataError
from bpmcli.io.columns import Lists
from bpmcli.io.formats import reader
from bpmcli.io.formats.reader import ColumnBatch, ColumnInfo, Reader, is_plain, rows_per_batch


class Made(Reader):
    """Seven rows in batches of three."""

    label = "made"

    def inspect(self) -> None:
        self.columns = {"x": ColumnInfo("x", None, "f")}

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[ColumnBatch]:
        assert (list(numeric), rest) == ([], False)  # unless `batches` is told
        for start in (0, 3, 6):
            values = np.arange(start, min(start + 3, 7))
            yield ColumnBatch(start, values.size, dict.fromkeys(names, values))


def said(error: BaseException, cause: BaseException | None = None) -> tuple[str, str | None]:
    """The message and the hint into which an error is turned."""
    error.__cause__ = cause
    with pytest.raises(BpmError) as found, Made("a").reporting():
        raise error
    return found.value.message, found.value.hint


class RefusedError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"host\n says {status}")
        self.status = status


def test_errors_of_libraries_become_sentences():
    assert said(DataError("as it is", "hint")) == ("as it is", "hint")
    assert said(PermissionError())[0] == "not readable (permission denied)"
    assert said(IsADirectoryError())[0] == "is a directory"
    assert said(MemoryError()) == ("does not fit into memory", "split it into smaller files")
    damaged = "is the file complete, and does its suffix fit its content?"
    assert said(ValueError("bad\n\x07 <Thing at 0x7f00> here at 0xab")) == ("cannot be read as made: bad here", damaged)
    assert said(KeyError())[0] == "cannot be read as made: KeyError"
    assert said(ValueError("x" * 300))[0] == f"cannot be read as made: {'x' * 200}"
    assert said(ValueError("The HTTP server does not support range requests, sorry")) == (
        "the server does not support range requests", "download it first",
    )  # fmt: skip
    few = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    assert "cannot be read" not in said(few)[0]


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (None, "no such file"),
        (FileNotFoundError("x"), "no such file"),
        (RefusedError(404), "no such file"),
        (ValueError("x"), "no such file"),
        (RefusedError(403), "cannot be reached: host says 403"),
        (ConnectionError("no route\n to host"), "cannot be reached: no route to host"),
        (OSError("x" * 300), f"cannot be reached: {'x' * 200}"),
    ],
)
def test_a_file_that_is_not_there_or_cannot_be_reached(cause, message):
    assert said(FileNotFoundError("a"), cause)[0] == message


def test_rows_are_counted_if_nothing_states_them():
    found = Made("a")
    assert (found.count_rows(), found.rows_at_most(100)) == (7, 0)
    assert Made.written("a") == (["x"], 7)
    found.n_rows = 5
    assert (found.count_rows(), found.rows_at_most(100)) == (5, 5)


def test_what_a_reader_does_if_it_says_nothing_else():
    found = Made("a")
    assert found.file_arrays("x") == []
    assert found.parts(10) == []
    assert found.notices() == ()
    assert (Reader.refused, Reader.in_folders, Reader.distinct) == (False, True, True)


@pytest.mark.parametrize("name", [b"a.txt", b"a\xff.txt"])
def test_a_file_is_opened_by_its_path_if_that_is_text(tmp_path, name):
    path = str(tmp_path / os.fsdecode(name))
    try:
        with open(path, "wb") as file:
            file.write(b"abc")
    except (OSError, UnicodeError):
        pytest.skip("this file system refuses names that are not text")
    assert is_plain(path) is (b"\xff" not in name)
    with Made(path).opened() as raw:
        assert raw == path if is_plain(path) else raw.read() == b"abc"


def test_a_file_in_a_store_is_opened():
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/reader/a.txt", b"abc")
    with Made("memory://reader/a.txt").opened() as raw:
        assert raw.read() == b"abc"


def test_columns_that_were_passed_on_take_the_form_of_others():
    found = Made("a")
    for values in (Lists(np.arange(3.0), np.array([1, 2])), Categorical(["a"], np.array([0]))):
        assert found.as_read("x", values)[0] is values
        assert found.as_read("x", values)[1] is None
    values, missing = found.as_read("x", np.array([[1.0], [2.0]]))
    assert (values.tolist(), missing) == ([1.0, 2.0], None)
    values, missing = found.as_read("x", pa.array([1.0, None]))
    assert missing is not None
    assert missing.tolist() == [False, True]


def test_rows_per_batch():
    values, size = 1 << 20, 1 << 26  # 8 MB of float64, and 64 MB however wide the rows are
    assert (values, size) == (reader.BATCH_VALUES, reader.BATCH_BYTES)
    assert rows_per_batch(1, 8) == values
    assert rows_per_batch(3, 24) == values // 3
    assert rows_per_batch(1, 1000) == size // 1000
    assert rows_per_batch(0, 0) == values
    assert rows_per_batch(2 * values, 8) == 1
    assert rows_per_batch(1, 1 << 28) == 1
    with pytest.raises(DataError, match="a single row takes 256 MB, but at most 256 MB are read"):
        rows_per_batch(1, (1 << 28) + 1)
