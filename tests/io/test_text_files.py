"""csv and jsonl files that go wrong far from their beginning: a sentence with the row, never a crash."""

from __future__ import annotations

import csv as csv_module
import gzip
import json
import math
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from bpmcli.errors import DataError
from bpmcli.io import read_rows
from bpmcli.io.formats import csv_file, jsonl_file
from bpmcli.io.formats.json_lines import CheckedLines
from bpmcli.io.writers import open_writer

BLOCK = 1 << 16
FAR = 6_000
"""Rows that fill more than the block from which types are taken."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (csv_file, jsonl_file):
        monkeypatch.setattr(module, "BLOCK", BLOCK)


def csv(path: Path, row: str, last: str) -> str:
    path.write_text("confidence,hit\n" + f"{row}\n" * FAR + f"{last}\n")
    return str(path)


def jsonl(path: Path, last: str, rows: int = 3_000) -> str:
    path.write_text('{"confidence": 0.5123, "hit": 1}\n' * rows + last)
    return str(path)


@pytest.mark.parametrize(
    ("row", "last", "words"),
    [
        ("0.512345678,1", "abc,1", r"column 'confidence' holds 'abc' \(row 6001\), which is not a number"),
        (
            "0.512345678,1",
            "0.5,yes",
            r"column 'hit' holds 'yes' \(row 6001\), which is not a whole number, like the values before it",
        ),
        (
            "0.512345678,true",
            "0.5,x",
            r"column 'hit' holds 'x' \(row 6001\), which is not true or false, like the values before it",
        ),
    ],
)
def test_a_csv_value_out_of_place_is_named_with_its_row(tmp_path, row, last, words):
    with pytest.raises(DataError, match=words):
        read_rows(csv(tmp_path / "a.csv", row, last))


def test_a_csv_value_near_the_beginning_is_named_with_its_row(tmp_path):
    (tmp_path / "a.csv").write_text("confidence,hit\n0.5,1\nabc,1\n0.2,0\n")
    with pytest.raises(DataError, match=r"holds 'abc' \(row 2\)"):
        read_rows(str(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ('{"confidence": 0.7, "hit": "yes"}\n', r"'hit' holds numbers first and text later \(row 3001\)"),
        ('\n{"confidence": "x", "hit": 1}\n', r"'confidence' holds numbers first and text later \(row 3001\)"),
        ('{"confidence": 0.7, "hit":\n', r"is not valid JSON \(row 3001\)"),
        # These two make pyarrow's parser crash.
        ("null\n", "line 3001 is not a JSON object"),
        ('{"hit": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}\n", "line 3001 is nested more than 500 deep"),
        ('{"hit": 1, "x": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}\n", "line 3001 is nested more than 500"),
    ],
)
def test_a_json_line_out_of_place_is_named_with_its_row(tmp_path, last, words):
    with pytest.raises(DataError, match=words):
        read_rows(jsonl(tmp_path / "a.jsonl", last))


def test_fields_nobody_asked_for_may_come_and_change(tmp_path):
    last = '{"confidence": 0.7, "hit": 0, "new": [1]}\n{"confidence": 0.7, "hit": 0, "new": "x"}\n'
    assert read_rows(jsonl(tmp_path / "a.jsonl", last)).rows.n == 3_002


def test_a_new_field_far_inside_is_passed_on_as_json_only(run, tmp_path):
    jsonl(tmp_path / "a.jsonl", '{"confidence": 0.7, "hit": 0, "new": 1}\n')
    run("fit", "a.jsonl", "--method", "identity", "-o", "p.json")
    run("apply", "p.json", "a.jsonl", "-o", "out.jsonl")
    assert json.loads(Path("out.jsonl").read_text().splitlines()[-1])["new"] == 1
    ran = run("apply", "p.json", "a.jsonl", "-o", "out.parquet", code=3)
    assert "a line has a field that the first 0 MB of lines do not have" in ran.err
    assert not Path("out.parquet").exists()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_checked_wherever_blocks_begin(size):
    import io

    def read(text: str) -> bytes:
        lines = CheckedLines(io.BytesIO(text.encode()))
        found = b""
        while block := lines.read(size):
            found += block
        return found

    good = '\ufeff{"a": "null\\n[["}\n \t{"b": [[1, 2], {}]}\r\n\n  \n{"c": 1}'
    assert read(good.removeprefix("\ufeff")).decode() == good.removeprefix("\ufeff")
    if size > 2:
        assert read(good).decode() == good
    for bad in ("null", " [1]", '"x"', "\t3"):
        with pytest.raises(DataError, match="line 6 is not a JSON object"):
            read(good.removeprefix("\ufeff") + "\n" + bad + "\n{}")


def test_many_brackets_are_no_deep_nesting(tmp_path):
    rows = [{"confidence": 0.5, "hit": i % 2, "x": [[j] for j in range(900)]} for i in range(20)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read_rows(str(tmp_path / "a.jsonl")).rows.n == 20


CELLS = ["", "a", "a,b", 'q"q', "x\ny", "\r", " lead", "é🎉", "1e5", "\t", "NA", "'", "#"]


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".tsv", "\t")])
def test_any_column_comes_back_from_text(tmp_path, suffix, delimiter):
    """Against Python's own csv reader: plain columns are written on a faster way than others."""
    path = str(tmp_path / f"a{suffix}")
    for seed in range(60):
        rng = Random(seed)
        kinds = [[1.5, math.nan, 0.1 + 0.2], [3, -(2**60)], CELLS, ["a", "z"], [None, True, False]]
        columns = {
            rng.choice(["a", "b,c", "c\rd", 'g"h']) + str(i): [rng.choice(kind) for _ in range(5)]
            for i, kind in enumerate(rng.choices(kinds, k=rng.choice([1, 2, 3])))
        }
        with open_writer(path) as out:
            for _ in range(2):
                out.write({name: pa.array(values) for name, values in columns.items()})
        rows = zip(*columns.values(), strict=True)
        expected = [["" if v is None else str(v) for v in row] for row in rows] * 2
        with open(path, newline="", encoding="utf-8") as file:
            assert list(csv_module.reader(file, delimiter=delimiter)) == [list(columns), *expected]


@pytest.mark.parametrize("row", [1, 30, 60])
@pytest.mark.parametrize("column", ["confidence", "hit", "note"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_quote_that_is_never_closed_is_refused(tmp_path, row, column, packed):
    """pyarrow takes all rows after it for one text: as many rows as before would be missing from the result."""
    order = [name for name in ("confidence", "hit", "note") if name != column] + [column]
    values = {"confidence": "0.75", "hit": "1", "note": "a"}
    lines = [
        ",".join(('"' if i == row and name == column else "") + values[name] for name in order) for i in range(1, 61)
    ]
    text = "\n".join([",".join(order), *lines, ""]).encode()
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    with pytest.raises(DataError, match=rf"line {row + 1} opens a quote that is never closed|holds '.*not a number"):
        read_rows(str(path))


def test_quotes_within_text_are_letters(tmp_path):
    (tmp_path / "a.csv").write_text('confidence,hit,note\n0.5,1,a 5" pipe\n0.75,0,"two\nlines and ""quotes"""\n')
    assert read_rows(str(tmp_path / "a.csv")).rows.n == 2
