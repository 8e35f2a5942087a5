"""Lines of text: what is taken for text, how many rows there can be, and how values are written."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import math
import os
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bpmcli.core.data.categorical import Categorical
from bpmcli.errors import DataError
from bpmcli.io.columns import Lists
from bpmcli.io.formats.csv_file import CsvReader, CsvWriter, TsvGzWriter
from bpmcli.io.formats.text_lines import CountedLines, is_utf8, json_text, opened_text, plain_values


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (b"a,b\n", True), ("é🎉".encode(), True), (b"", False), (b" \n", False), (b"a\0b", False),
        ("abcd🎉".encode()[:-1], True), ("abcd🎉".encode()[:-3], True),  # cut inside the last character
        (b"a\xffbcde", False), (b"ab\xffcdef", False), (b"abc\xffdef", True), (b"abcd\xff", True),
    ],
)  # fmt: skip
def test_what_is_text(start, text):
    assert is_utf8(start) is text


def test_recognised_packed_or_not():
    table, other = b"a,b\n0.5,1\n", b"a\tb\n"
    for packed in (False, True):
        assert CsvReader.recognises(gzip.compress(table) if packed else table)
        assert not CsvReader.recognises(gzip.compress(other) if packed else other)
    assert not CsvReader.recognises(b"a,\xff\0b\n0.5,1\n")
    assert CsvReader.has_digits  # a text such as 0.9 says with how many digits it was written


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", [b"a.csv", b"a.gz", "a b#é.csv".encode(), b"a\xff.csv"])
def test_rows_are_bounded_by_bytes_or_counted(tmp_path, name, packed):
    path = tmp_path / os.fsdecode(name)
    text = b"s,h\n" + b"0.5,1\n" * 20
    try:
        path.write_bytes(gzip.compress(text) if packed else text)
    except (OSError, UnicodeError):
        pytest.skip("this file system refuses names that are not text")
    found = CsvReader(str(path))
    assert found.size() == path.stat().st_size
    with found.stream() as raw:
        assert raw.read() == text
    with opened_text(str(path)) as raw:
        assert raw.read() == text
    assert found.count_lines() == 22  # the header, 20 rows, and what may follow the last line end
    # A row has at least four bytes, `1,1` and a line end; gzip shrinks to no less than a thousandth.
    bound = found.size() * (1000 if packed else 1) // 4 + 1
    assert found.rows_at_most(bound) == bound
    assert found.rows_at_most(bound - 1) == 22


def test_text_in_a_store():
    fsspec = pytest.importorskip("fsspec")
    text = b"s,h\n0.5,1\n"
    fsspec.filesystem("memory").pipe("/lines/a.csv", text)
    found = CsvReader("memory://lines/a.csv")
    assert (list(found.columns), found.size(), found.rows_at_most(1)) == (["s", "h"], len(text), 3)


def test_a_file_that_begins_with_other_bytes_is_no_text(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"s\xffs,h\n0.5,1\n")
    with pytest.raises(DataError, match="is not text") as error:
        _ = CsvReader(str(tmp_path / "a.csv")).columns
    assert error.value.hint.endswith("; or say what it is with --input-format")


def test_lines_are_counted_over_blocks():
    def counted(text: str, longest: int, size: int) -> int:
        lines = CountedLines(longest)
        for at in range(0, len(text), size):
            lines.add_plain(text[at : at + size].encode())
        return lines.lines

    for size in (1, 2, 3, 100):
        assert counted("ab\nabcd\n\nab\nabc", 4, size) == 4
        assert counted("abcd\n", 4, size) == 1
    for size in (1, 2, 3):
        for text in ("abcde", "abcde\n", "ab\nabcde\nab\n", "a\n\nabcde"):
            with pytest.raises(DataError, match="has a line of more than 0 MB") as error:
                counted(text, 4, size)
            assert error.value.hint == "write parquet instead (-o out.parquet)"
    with pytest.raises(DataError, match="has a line of more than 3 MB"):
        counted("a" * (3 << 20) + "b", 3 << 20, 1 << 21)


DAY = datetime.date(2020, 1, 2)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (Lists(np.array([1.0, 2.0, 3.0]), np.array([1, 0, 2])), [[1.0], [], [2.0, 3.0]]),
        (Categorical(["a", "b"], np.array([1, 0, 1])), ["b", "a", "b"]),
        (np.array([1, 2], np.uint8), [1, 2]),
        (np.array([True, False]), [True, False]),
        (np.array([0.5, np.inf]), [0.5, np.inf]),
        (np.array([0.1], np.float32), [float(np.float32(0.1))]),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(["a", "é"]), ["a", "é"]),
        (np.array([b"a", "é".encode()]), ["a", "é"]),
        (np.array([["a", "b"], ["c", "d"]]), [["a", "b"], ["c", "d"]]),
        (np.array([b"a"])[:, None], [["a"]]),
        (np.array(["2020-01-02"], "M8[D]"), ["2020-01-02"]),
        (pa.array([1, None]), [1, None]),
        (pa.array([None, None]), [None, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array([0.5]), [0.5]),
        (pa.array(["a", None]), ["a", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array([DAY, None]), ["2020-01-02", None]),
        (pa.array([datetime.datetime(2020, 1, 2, 3, 4, 5)]), ["2020-01-02 03:04:05"]),
        (pa.array([datetime.time(3, 4, 5)]), ["03:04:05.000000"]),
        (pa.array([Decimal("1.50"), None]), ["1.50", None]),
        (pa.array([[1, 2], None]), [[1, 2], None]),
        (pa.array([[1]], pa.large_list(pa.int64())), [[1]]),
        (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), [[1, 2]]),
        (pa.array([{"a": 1, "b": ["x"]}]), [{"a": 1, "b": ["x"]}]),
    ],
)
def test_values_as_csv_and_json_have_them(values, expected):
    found = plain_values(values)
    assert found == expected
    assert [type(v) for v in found] == [type(v) for v in expected]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([b"a"]), pa.array([[DAY]]), pa.array([{"a": 1, "b": DAY}]), pa.array([{"b": DAY, "a": 1}]),
        pa.array([datetime.timedelta(1)]), pa.array([[Decimal("1.5")]]),
    ],
)  # fmt: skip
def test_values_without_a_spelling_are_refused(values):
    with pytest.raises(DataError, match="holds values of type"):
        plain_values(values)


def test_text_that_is_not_utf8_is_refused():
    for values in (np.array([b"\xff"]), np.array(["\ud800"]), Categorical(["\ud800"], np.array([0]))):
        with pytest.raises(UnicodeError):
            plain_values(values)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize <= 8, reason="no longer floats here")
def test_longer_floats_are_not_rounded():
    with pytest.raises((DataError, pa.ArrowException)):
        plain_values(np.array([0.1], np.longdouble))


@pytest.mark.parametrize(
    "value",
    [5, -(2**60), 0.1, "é\n\"'", None, True, [1, "a", None], {"a": ["é", {"b": None}]}, "", [], 1e300],
)
def test_json_is_that_of_python(value):
    assert json_text(value) == json.dumps(value, ensure_ascii=False)


def test_json_has_no_nan_and_no_infinity():
    assert json_text(math.nan) == "null"
    assert json_text([0.5, math.nan, {"a": math.nan, "b": "x", "c": 1}]) == '[0.5, null, {"a": null, "b": "x", "c": 1}]'
    for value in (math.inf, -math.inf, [math.inf], {"a": [-math.inf]}):
        with pytest.raises(DataError, match="holds infinity"):
            json_text(value)


def test_packed_text_has_no_name_and_no_time(tmp_path):
    """The same input gives the same bytes."""
    path: Path = tmp_path / "a.tsv.gz"
    out = TsvGzWriter(str(path), {})
    out.write({"s": np.array([0.5])})
    out.close()
    raw = path.read_bytes()
    assert raw[3:8] == bytes(5)  # no flags, so no name; the time is 0
    assert out._raw.closed
    assert not TsvGzWriter.to_stdout


def test_text_goes_to_standard_output_or_to_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw = io.BytesIO()
    shown = io.TextIOWrapper(raw, encoding="ascii", write_through=False)
    monkeypatch.setattr(sys, "stdout", shown)
    shown.write("before\n")
    out: Any = CsvWriter("-", {})
    out.write({"t": np.array(["é"])})
    out.close()
    shown.write("after\n")  # it is still open
    shown.flush()
    assert raw.getvalue().decode() == "before\nt\né\nafter\n"
    assert CsvWriter.to_stdout
    out = CsvWriter(str(tmp_path / "a.csv"), {})
    out.write({"t": np.array(["é"])})
    assert not out.file.closed
    out.close()
    assert out.file.closed
    assert (tmp_path / "a.csv").read_bytes().decode() == "t\né\n"
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(DataError, match="standard output is closed"):
        CsvWriter("-", {})
