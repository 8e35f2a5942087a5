"""How a csv file is written, by its first lines: separator, decimal sign, header, and names of rows."""

from __future__ import annotations

import io

import pytest

from bpmcli.io.formats import csv_dialect
from bpmcli.io.formats.csv_dialect import Dialect, dialect, first_lines


def found(text: str, delimiter: str = ",") -> Dialect:
    return dialect(text.encode(), delimiter)


PLAIN = Dialect(",")
NO_HEADER = Dialect(",", ".", ("0", "1"))


@pytest.mark.parametrize(
    ("text", "delimiter", "expected"),
    [
        # Commas and tabs
        ("s,h\n0.5,1\n", ",", PLAIN),
        ("s\th\n0.5\t1\n", "\t", Dialect("\t")),
        ("s\th\n0,5\t1\n", "\t", Dialect("\t", ",")),
        ("", ",", PLAIN),
        # Semicolons
        ("s;h\n0,5;1\n", ",", Dialect(";", ",")),
        ("s;h\n0.5;1\n", ",", Dialect(";")),
        ("s;h\n0.5;1\n", "\t", Dialect("\t")),
        ("a;b,c\n1,2\n", ",", PLAIN),
        ('"a, b";s\n"x";0,5\n', ",", Dialect(";", ",")),
        ('"a\nb";s\n"x";0,5\n', ",", Dialect(";", ",")),
        ("s,h\n0.5,a;b\n", ",", PLAIN),
        ('"a;b",h\n0.5,1\n', ",", PLAIN),
        ("0,5;1\n0,25;0\n", ",", Dialect(";", ",", ("0", "1"))),
        ("0,5;1\n2;0\n", ",", Dialect(";", ",", ("0", "1"))),
        # Decimal commas: some number has one, and none has a point.
        ("s;t\n0,5;1.5\n", ",", Dialect(";")),
        ("s;t\n1;1\n1;1\n0,5;x\n", ",", Dialect(";", ",")),
        ("s;t\n1;1\n1;1\n.5;1\n,5;1\n", ",", Dialect(";")),
        ("s;t;0.95\n0,5;1;2\n", ",", Dialect(";", ",")),
        ("s;t\n 0,5 ;x\n", ",", Dialect(";", ",")),
        ('s,t\n"1,234",x\n', ",", PLAIN),
        # Spaces
        ("s h\n0.5 1\n0.25 0\n", ",", Dialect(" ")),
        ("s h\n0,5 1\n", ",", Dialect(" ", ",")),
        ("0.5 1\n0.25 0\n", ",", Dialect(" ", ".", ("0", "1"))),
        ("0.5 1\n", ",", Dialect(" ", ".", ("0", "1"))),
        ("s h\n", ",", PLAIN),
        ("s h\n0.5 x\n0.5 y\n", ",", Dialect(" ")),
        ("s h\nx 0.5\ny 0.5\n", ",", Dialect(" ")),
        ('"s h" t\nx 0.5\n', ",", Dialect(" ")),
        ("red fox\nbrown bear\n", ",", PLAIN),
        ("s h\n0.5 x\nz y\n", ",", PLAIN),
        ("s h\n0.5 1\n0.5\n", ",", PLAIN),
        ("s h\n0.5\n0.25\n", ",", PLAIN),
        ("s h \n0.5 1 \n", ",", PLAIN),
        ("s  h\n0.5  1\n", ",", PLAIN),
        ("a b\tc\n1 2\n", ",", PLAIN),
        ("s h\n0.5 1\n", "\t", Dialect("\t")),
        ("s h k\n0.5 1\n0.25 0\n", ",", PLAIN),
        # No header
        ("0.5,1\n0.25,0\n", ",", NO_HEADER),
        ("1,0.5\n0,0.25\n", ",", NO_HEADER),
        ("nan,1e-3\n0.5,1\n", ",", NO_HEADER),
        ("0.5\t1\n", "\t", Dialect("\t", ".", ("0", "1"))),
        ("0,1\n0.5,1\n", ",", PLAIN),
        ("0.5,h\n0.25,0\n", ",", PLAIN),
        # Headers that are comments
        ("# s,h\n0.5,1\n", ",", Dialect(",", ".", ("s", "h"), 1)),
        ("\r\n\n# s h\n0.5 1\n", ",", Dialect(" ", ".", ("s", "h"), 3)),
        ("# s;h\n0,5;1\n", ",", Dialect(";", ",", ("s", "h"), 1)),
        ("# 0.5,1\n0.5,1\n", ",", NO_HEADER),
        ('# "s\nt",h\n0.5,1\n', ",", PLAIN),
        ("#s,h\n0.5,1\n", ",", PLAIN),
        ("\n\ns,h\n0.5,1\n", ",", PLAIN),
        # Names of rows
        ('"s","h"\n"1",0.5,1\n"2",0.5,1\n', ",", Dialect(",", ".", ("row.names", "s", "h"), 1)),
        ('\n\r\n"s","h"\n"x",0.5,1\n\n"x",0.5,1\n', ",", Dialect(",", ".", ("row.names", "s", "h"), 3)),
        ('"s" "h"\n"a" 0.5 1\n"b" 0.5 1\n', ",", Dialect(" ", ".", ("row.names", "s", "h"), 1)),
        ("s h\n1 0.5 1\n2 0.5 1\n", ",", Dialect(" ", ".", ("row.names", "s", "h"), 1)),
        ("0 1\n1 0.5 0.5\n2 0.25 0.75\n", ",", Dialect(" ", ".", ("row.names", "0", "1"), 1)),
        ("s\th\n1\t0.5\t1\n2\t0.5\t1\n", "\t", Dialect("\t", ".", ("row.names", "s", "h"), 1)),
        ('"s";"h"\n"1";0,5;1\n"2";0,5;1\n', ",", Dialect(";", ",", ("row.names", "s", "h"), 1)),
        ('"s";"h"\n"1";0,5;1\n"2";1;1\n', ",", Dialect(";", ",", ("row.names", "s", "h"), 1)),
        ('"s","h"\n"1","1,234",1\n', ",", Dialect(",", ".", ("row.names", "s", "h"), 1)),
        ('"1,5";"h"\n"1";0.5;1\n', ",", Dialect(";", ".", ("row.names", "1,5", "h"), 1)),
        ("s,h\n1,0.5,1\n2,0.5,1\n", ",", PLAIN),
        ("s\th\n2\t0.5\t1\n3\t0.5\t1\n", "\t", Dialect("\t")),
        ("s\th\n1\t0,5\t1\n2\t0,5\t1\n", "\t", Dialect("\t", ",")),
        ('"s","h"\n"1",0.5,1\n2,0.5,1\n', ",", PLAIN),
        ('"name","s"\nPoe, Edgar,0.5\n', ",", PLAIN),
        ('s,h\n"1",0.5,1\n"2",0.5,1\n', ",", PLAIN),
        ('"s","h"\n"1",0.5,1\n"2",0.5\n', ",", PLAIN),
        ('"s","h"\n"a",0.5,\n"b",0.5,\n', ",", PLAIN),
        ('"s","h"\n"a",0.5,\n"b",0.5,1\n', ",", Dialect(",", ".", ("row.names", "s", "h"), 1)),
        ('"s"\t"h"\n"a"\t0.5\t\n"b"\t0.5\t1\n', "\t", Dialect("\t", ".", ("row.names", "s", "h"), 1)),
        ('"s\nt"\t"h"\n1\t0.5\t1\n', "\t", Dialect("\t")),
        ('"s","h"\n', ",", PLAIN),
    ],
)  # fmt: skip
def test_dialects(text, delimiter, expected):
    assert found(text, delimiter) == expected


def test_a_header_is_not_skipped():
    """pyarrow reads it, unless there are `names`."""
    assert (PLAIN.decimal, PLAIN.names, PLAIN.skip) == (".", None, 0)


def test_only_the_first_lines_are_looked_at():
    """A hundred lines; what follows may be anything."""
    lines = ["s h", *["0.5 1"] * (csv_dialect.FEW - 1)]
    assert found("\n".join([*lines, "0.5 1 2", ""])) == Dialect(" ")
    assert found("\n".join([*lines[:-1], "0.5 1 2", ""])) == PLAIN
    rows = ['"s","h"', *[f'"{k}",0.5,1' for k in range(1, csv_dialect.FEW)]]
    assert found("\n".join([*rows, "0.5,1", ""])).names == ("row.names", "s", "h")
    assert found("\n".join([*rows[:-1], "0.5,1", ""])).names is None
    # A decimal comma counts wherever it is.
    assert found("s;t\n" + "1;1\n" * 120 + "0,5;1\n") == Dialect(";", ",")


def test_a_long_first_line_is_not_searched_for_spaces_to_its_end():
    assert found("a" * (csv_dialect.SHORT - 2) + " b\n0.5 1\n").delimiter == " "
    assert found("a" * csv_dialect.SHORT + " b\n0.5 1\n").delimiter == ","


def test_a_field_longer_than_the_limit_of_the_csv_module():
    """Its limit of 131,072 characters belongs to the whole process, and is put back."""
    before = csv_dialect.csv.field_size_limit()
    text = f'"s";"{"x" * 200_000}"\n0,5;1\n'
    assert found(text) == Dialect(";", ",")
    assert found("0.5,1" + "\n" + "x" * 200_000) == NO_HEADER
    assert csv_dialect.csv.field_size_limit() == before


def test_bytes_that_are_not_text_have_a_dialect():
    assert dialect(b"\xef\xbb\xbf0.5;1\n\xff;2\n", ",") == Dialect(";", ".", ("0", "1"))


@pytest.mark.parametrize(
    ("text", "size", "most", "expected"),
    [
        (b"ab\ncd\nef", 7, 100, b"ab\ncd\n"),
        (b"ab\ncd\nef", 6, 100, b"ab\ncd\n"),
        (b"ab\ncd\nef", 5, 100, b"ab\ncd\n"),  # the first two lines are longer
        (b"ab\rcd\ref", 7, 100, b"ab\rcd\r"),
        (b"ab\ncd\nef\r", 7, 100, b"ab\ncd\n"),
        (b"ab\r\ncd\r\n", 8, 100, b"ab\r\ncd\r\n"),
        (b"ab\n\n\ncd\n", 5, 100, b"ab\n\n\ncd\n"),
        (b"abcdef", 2, 4, b"abcd"),
        (b"ab\ncd", 3, 100, b"ab\ncd"),
        (b"ab\ncd\n", 100, 100, b"ab\ncd\n"),
        (b"", 3, 100, b""),
    ],
)
def test_first_lines(text, size, most, expected):
    assert first_lines(io.BytesIO(text), size, most) == expected
