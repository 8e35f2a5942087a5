"""Quotes that are never closed, and the rows of a file whose text has line ends in it."""

from __future__ import annotations

import gzip
import io
import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv

from bpmcli.errors import DataError
from bpmcli.io.formats import csv_quotes, text_lines
from bpmcli.io.formats.csv_quotes import closed_quotes, header_and_rows


def read(text: bytes, delimiter: str = ",", size: int = 1 << 20, enough: int | None = None) -> bytes:
    """What a reader sees that asks for `size` bytes at a time, for `enough` times or to the end."""
    found = b""
    with closed_quotes(lambda: pa.input_stream(pa.BufferReader(text)), delimiter) as raw:
        assert raw.readable()
        assert not raw.closed
        while (enough is None or enough > 0) and (block := bytes(raw.read(size))):
            found += block
            enough = None if enough is None else enough - 1
    assert bytes(raw.read(size)) == b""  # a thread that reads ahead finds the end
    raw.close()
    assert raw.closed
    assert raw.raw.closed
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 1 << 20])
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"a,b\n1,2\n",
        b'"a\n""b""",c\n',
        b'a,5" pipe\n"x",y 3"\n',
        b'a,5" pipe\n',
        b'\xef\xbb\xbf"a",b\n',
        b"a\r\nb\r\r\n",
    ],
)
def test_text_with_closed_quotes_is_left_alone(text, size):
    assert read(text, size=size) == text


@pytest.mark.parametrize(
    ("text", "delimiter", "line"),
    [
        (b'"a', ",", 1),
        (b'a,b\n1,"2\n3,4\n', ",", 2),
        (b'a,b\n"1\n1",2\n3,"4\n', ",", 4),
        (b'a;b\n1;"2\n', ";", 2),
        (b'a;b\n1,"2\n', ",", 2),
        (b'\xef\xbb\xbf"a\n', ",", 1),
        (b'a,b\n\n\n1,"2\n', ",", 4),
        (b'\n"2', ",", 2),
        (b'a,b\n1,5" pipe\n1,"2\n', ",", 3),
        (b'a,b\n1,5"\n"2,""\n', ",", 3),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_an_open_quote_is_refused_with_its_line(text, delimiter, line, size):
    with pytest.raises(DataError, match=f"line {line} opens a quote that is never closed"):
        read(text, delimiter, size)


def test_a_file_that_is_not_read_to_its_end_is_not_checked():
    """The types of columns are found from the beginning, which may end inside quotes."""
    for text in (b'a,b\n1,"2\n3"\n', b'a,b\n1,"2\n3\n'):
        assert read(text, size=8, enough=1) == b'a,b\n1,"2'
        assert read(text, size=4, enough=1) == b"a,b\n"


@pytest.mark.parametrize(
    ("text", "times"),
    [
        (b'"a",b\n', 1),
        (b'\xef\xbb\xbf"a","b ""c"""\n"",d\n', 1),
        (b'a,5" pipe\n', 2),
        (b'a,5" pipe\nb,6" pipe\n', 2),
    ],
)
@pytest.mark.parametrize("size", [3, 100])
def test_a_file_is_read_again_only_if_its_quotes_are_odd(text, times, size):
    streams = iter([pa.input_stream(pa.BufferReader(text)) for _ in range(3)])
    with closed_quotes(lambda: next(streams), ",") as raw:
        while bytes(raw.read(size)):
            pass
    assert len(list(streams)) == 3 - times


def is_open(text: str) -> bool:
    """Whether text ends inside quotes, letter by letter, as pyarrow reads it."""
    inside, i, field = False, 0, True
    while i < len(text):
        if inside and text[i] == '"':
            inside = text[i + 1 : i + 2] == '"'
            i += inside
            field = False
        elif not inside:
            inside = field and text[i] == '"'
            field = text[i] in ",\n\r"
        i += 1
    return inside


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_open_quotes_are_found_among_quotes_that_are_letters(size, monkeypatch):
    """The rule, letter by letter, on all texts of up to five letters of four kinds."""
    monkeypatch.setattr(csv_quotes, "BLOCK", 3 if size == 100 else 4)
    for length in range(1, 6):
        for letters in itertools.product('"x,\n', repeat=length):
            text = "".join(letters)
            try:
                read(text.encode(), size=size)
                refused = False
            except DataError:
                refused = True
            assert refused == is_open(text), text


def test_pyarrow_follows_the_same_rule():
    """A text that is left open takes in the rest of the file; otherwise there are as many rows as lines."""
    for letters in itertools.product('"x ', repeat=4):
        text = "a,b\n1," + "".join(letters) + "\n2,y\n"
        found = csv.read_csv(io.BytesIO(text.encode()), parse_options=csv.ParseOptions(newlines_in_values=True))
        assert (found.num_rows == 1) == is_open(text), text


def test_other_errors_are_left_to_the_reader():
    """An odd quote that does not open a text: strictly, a letter must not follow a quote that closes."""
    text = b'a,b\n"x"y",2\n'
    assert read(text) == text


def test_quotes_are_counted_in_pieces(monkeypatch):
    monkeypatch.setattr(csv_quotes, "CACHED", 4)
    assert read(b'"ab","cd","e"\n') == b'"ab","cd","e"\n'
    with pytest.raises(DataError, match="line 1 opens a quote"):
        read(b'"ab","cd","e\n')


ROWS = [
    (b"a,b\n1,2\n3,4\n", ["a", "b"], 2),
    (b'a,"b\nc"\n1,"x\ny ""z"" \n"\n2,w\n', ["a", "b\nc"], 2),
    (b'a,b\n"1\n\n\n",2\n', ["a", "b"], 1),
    (b"a,b\n", ["a", "b"], 0),
    (b"", [], -1),
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("text", "names", "rows"), ROWS)
def test_rows_end_where_a_line_ends_outside_quotes(tmp_path, text, names, rows, packed):
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(text) if packed else text)
    for longest in (1 << 23, 20):  # blocks of so many bytes
        assert header_and_rows(str(path), ",", longest) == (names, rows)


def test_the_header_has_the_separator_of_its_file(tmp_path):
    (tmp_path / "a.tsv").write_text("a,b\tc\n1\t2\n")
    assert header_and_rows(str(tmp_path / "a.tsv"), "\t", 100) == (["a,b", "c"], 1)


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("quote", [b"", b'"'])
def test_a_long_line_is_refused_wherever_blocks_begin(tmp_path, monkeypatch, block, quote):
    opened = text_lines.opened_text
    asked: list[int] = []

    class InBlocks(io.RawIOBase):
        def __init__(self, path: str) -> None:
            self.raw = opened(path)

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            asked.append(size)
            return bytes(self.raw.read(min(block, size)))

        def readinto(self, into: memoryview) -> int:  # type: ignore[override]
            found = self.raw.read(len(into))
            into[: len(found)] = found
            return len(found)

        def close(self) -> None:
            self.raw.close()
            super().close()

    monkeypatch.setattr(text_lines, "opened_text", InBlocks)
    path: Path = tmp_path / "a.csv"
    for inner, first in ((b"x" * 12, True), (b"\n" * 12, True), (b"x" * 12, False)):
        if b"\n" in inner and not quote:
            continue
        line = quote + inner + quote
        path.write_bytes(b"a\n" + (line + b"\nb\n" if first else b"b\n" * 5 + line + b"\n"))
        assert header_and_rows(str(path), ",", len(line)) == (["a"], 2 if first else 6)
        with pytest.raises(DataError, match="has a line of more than 0 MB"):
            header_and_rows(str(path), ",", len(line) - 1)
    assert min(asked) == 11 + 2 * len(quote)
