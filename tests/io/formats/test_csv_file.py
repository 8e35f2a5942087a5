"""csv and tsv files, read and written directly: types, text that stays text, errors with their place."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bpmcli.errors import DataError
from bpmcli.io import read_rows
from bpmcli.io.column_choice import InputOptions
from bpmcli.io.columns import Lists
from bpmcli.io.formats import csv_columns, csv_file, jsonl_file, text_lines, text_lists
from bpmcli.io.formats.csv_file import CsvGzWriter, CsvReader, CsvWriter, TsvGzWriter, TsvReader, TsvWriter
from bpmcli.io.formats.jsonl_file import JsonlReader
from bpmcli.io.opening import open_reader


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


def read(path: Path, text: str | bytes, written_as: str = "") -> CsvReader:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    found = (TsvReader if path.suffix == ".tsv" else CsvReader)(str(path))
    found.written_as = written_as
    return found


def values(found: CsvReader, name: str, numeric: bool = True) -> list:
    return [v for b in found.batches([name], [name] if numeric else []) for v in np.asarray(b.columns[name]).tolist()]


def passed(found: CsvReader, name: str) -> list:
    return [v for batch in found.batches(["s"], ["s"], rest=True) for v in batch.passed[name].to_pylist()]


@pytest.mark.parametrize(
    ("start", "csv", "tsv"),
    [
        (b"a,b\n1,2\n", True, False),
        (b"a\tb\n1\t2\n", False, True),
        (b"\xef\xbb\xbf \r\na,b\n1\t2", True, False),
        (b'{"a": 1}\n', False, False),
        (b"[1, 2]\n", False, False),
        (b'{"a":\t1}\n', False, False),
        (b"a\n\t", True, False),
    ],
)
def test_recognised_by_the_first_line(start, csv, tsv):
    assert CsvReader.looks_like(start) is csv
    assert TsvReader.looks_like(start) is tsv


def test_numbers_types_and_missing_values(path):
    found = read(path, "s,n,t,b\n0.5,1,NA,true\nNA,2,x,false\n")
    assert list(found.columns) == ["s", "n", "t", "b"]
    (batch,) = found.batches(["s", "t"], ["s"], rest=True)
    assert np.asarray(batch.columns["s"])[0] == 0.5
    assert np.asarray(batch.missing).tolist() == [False, True]
    assert batch.columns["t"].tolist() == ["NA", "x"]  # type: ignore[union-attr]
    assert batch.passed["b"].to_pylist() == ["true", "false"]
    assert batch.passed["n"].to_pylist() == [1, 2]
    assert batch.passed["t"].to_pylist() == ["NA", "x"]


def test_a_number_in_quotes_and_a_line_end_in_text(path):
    found = read(path, 's,t\n"0.5","a\nb"\n0.25,"c ""d"", e"\n')
    assert values(found, "s") == [0.5, 0.25]
    assert passed(found, "t") == ["a\nb", 'c "d", e']


@pytest.mark.parametrize("written_as", ["", ".csv", ".tsv.gz", ".parquet"])
def test_text_that_is_not_the_spelling_of_a_number_stays_as_it_is(path, written_as):
    found = read(path, "s,n,f,d,h\n0.5,007,1.50,2020-01-02,0x10\n0.5,8,2.50,2020-01-03,3\n", written_as)
    assert passed(found, "n") == ["007", "8"]
    assert passed(found, "f") == ["1.50", "2.50"]
    assert passed(found, "d") == ["2020-01-02", "2020-01-03"]
    assert passed(found, "h") == ["0x10", "3"]  # not 16


def test_hexadecimal_letters_elsewhere_leave_numbers_alone(path):
    found = read(path, "s,n,t\n0.5,7,0xff is text\n0.5,8,y\n")
    assert passed(found, "n") == [7, 8]
    assert passed(read(path, "s,a,b\n0.5,0X1F,10\n"), "a") == ["0X1F"]


def test_hexadecimal_numbers_far_inside(path):
    # The file is looked through in pieces of 4 MB.
    found = read(path, "s,n,t\n" + f"0.5,7,{'y' * 1_000_000}\n" * 5 + "0.5,0x10,y\n")
    assert passed(found, "n")[-1] == "0x10"


def test_line_ends_in_text_wherever_blocks_begin(path, monkeypatch):
    monkeypatch.setattr(csv_file, "BLOCK", 1 << 10)
    found = read(path, "s,t\n" + '0.5,"a\n\nb\nc"\n' * 500)
    assert passed(found, "t") == ["a\n\nb\nc"] * 500


@pytest.mark.parametrize("text", ["b\r\nc", "b\r\r\nc", "\r\n"])
def test_no_line_feed_is_lost_between_blocks(path, monkeypatch, text):
    """pyarrow drops a line feed at the beginning of a block if the block before it ends in a carriage return."""
    monkeypatch.setattr(csv_file, "BLOCK", 1 << 10)
    for padding in range(14):
        found = read(path, f"s,{'t' * (padding + 1)}\r\n" + f'0.5,"{text}"\r\n' * 400)
        assert passed(found, "t" * (padding + 1)) == [text] * 400


@pytest.mark.parametrize(("text", "expected"), [("s\n90%\n 5.5 %\n", [90, 5.5]), ("s\n0.9\n0.5\n", [0.9, 0.5])])
def test_percent_signs_are_left_out(path, text, expected):
    assert values(read(path, text), "s") == pytest.approx(expected)


def test_only_columns_of_text_are_looked_at_for_percent_signs(path):
    found = read(path, "s,t,n\n0.5,x%,1\n")
    assert [found._is_percent(name) for name in ("s", "t", "n")] == [False, True, False]
    assert read(path, "t\nx\ny%\n")._is_percent("t") is False


def test_an_empty_table_has_no_batches(path):
    found = read(path, "s,h\n")
    assert list(found.batches(["s"])) == []
    assert CsvReader.written(str(path)) == (["s", "h"], 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rows"),
        ("s,h\n0.5,1\n0.5\n", "line 3 has 1 fields, the header 2"),
        ("s;h\n0,5;1\n0,5\n", "line 3 has 1 fields, the header 2"),
        (b"s,t\n0.5,caf\xe9\n" * 3, r"is not text \(UTF-8\)"),
        ("s\n0.5\nabc\n0.1\n", r"column 's' holds 'abc' \(row 2\), which is not a number"),
        ("s\nabc\n0.1\n", r"column 's' holds 'abc' \(row 1\), which is not a number"),
        ("a,s\n1,0.5\n1,abc\n", r"column 's' holds 'abc' \(row 2\), which is not a number"),
    ],
)
def test_bad_files_are_refused_with_their_place(path, text, words):
    with pytest.raises(DataError, match=words):
        values(read(path, text), "s")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "s\tt\n0.7\t1,5\n0.5\t2,5\n"),
        ("a.csv", "s;t\n0.7;1,234\n0.5;2,345\n"),
        ("a.csv", "s;t\n1;1\n1;1\n1;1\n0,5;1\n"),
        ("a.csv", "\n\r\ns;t\n0,5;1\n"),
        ("a.csv", '"a, b";s;t\n"x";0,5;1\n'),
        ("a.csv", '"a\nb";s;t\n"x";"0,5";1'),
        ("a.csv", "s;t\n0,5;1"),
        ("a.csv", "s;t;0.95\n0,5;1;2\n"),
        ("a.csv", 's;t\n0,5;"x;y, z"\n'),
        ("a.csv", 'a";s;t\n1;0,5;1\n'),
    ],
)
def test_separator_and_decimal_sign_of_the_first_lines(tmp_path, name, text):
    found = read(tmp_path / name, text)
    assert [column for column in found.columns if len(column) == 1 and column in "st"] == ["s", "t"]
    assert values(found, "s")[-1] == 0.5


def test_a_decimal_comma_after_a_long_line(path, monkeypatch):
    monkeypatch.setattr(csv_file, "HEAD", 1 << 10)
    assert values(read(path, f"s;t\n0,5;{'x' * 2000}\n0,25;y\n"), "s") == [0.5, 0.25]
    found = read(path, "s;t\n" + "1;1\n" * 255 + "0,5;1\n")
    assert found.dialect.decimal == "."  # the line is beyond the first lines, but the message names it
    with pytest.raises(DataError, match=r"holds '0,5' \(row 256\)"):
        values(found, "s")


def test_a_first_line_longer_than_the_head(path):
    line = ",".join(["0.00025"] * 10_000) + "\n"
    found = read(path, line * 2)
    assert len(found.columns) == 10_000
    assert values(found, "9999") == [0.00025] * 2


def test_a_semicolon_in_one_of_several_names_is_a_name(path):
    assert list(read(path, "a;b,c\n1,2\n").columns) == ["a;b", "c"]
    assert list(read(path, "a\n1\n").columns) == ["a"]


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ("0.5,x", r"column 'h' holds 'x' \(row 601\), which is not a whole number, like the values before it"),
        ("0.5,1,2", "line 602 has 3 fields, the header 2"),
        ("abc,1", r"column 's' holds 'abc' \(row 601\), which is not a number"),
    ],
)
def test_errors_far_inside_name_their_row(path, monkeypatch, last, words):
    monkeypatch.setattr(csv_file, "BLOCK", 1 << 10)
    found = read(path, "s,h\n" + "0.5,1\n" * 600 + last + "\n")
    with pytest.raises(DataError, match=words):
        list(found.batches(["s", "h"], ["s"]))


def test_bytes_that_are_not_text_far_inside(path, monkeypatch):
    monkeypatch.setattr(csv_file, "BLOCK", 1 << 10)
    found = read(path, b"s,t\n" + b"0.5,a\n" * 20_000 + b"0.5,\xff\n")
    with pytest.raises(DataError, match=r"is not text \(UTF-8\)"):
        list(found.batches(["s", "t"], ["s"]))


def test_a_line_longer_than_a_block(path, monkeypatch):
    monkeypatch.setattr(csv_file, "BLOCK", 1 << 10)
    with pytest.raises(DataError, match="has a line of more than 0 MB"):
        read(path, "s,t\n0.5," + "x" * 5000 + "\n" + "0.5,y\n" * 9)


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("place", [0, 5, 40])
def test_an_output_has_no_line_that_may_not_be_read_again(path, monkeypatch, place, quote):
    """pyarrow reads a line of one to two blocks or refuses it, depending on where a block ends."""
    monkeypatch.setattr(csv_file, "BLOCK", 1 << 10)
    inner = "\n" if quote else ""
    for length, refused in ((1000, False), (1030, True), (1900, True)):
        rows = ["0.5,y"] * 50
        rows[place] = f"0.5,{quote}{'x' * (length - 5 - len(inner) - 2 * len(quote))}{inner}{quote}"
        path.write_text("\n".join(["s,t", *rows]) + "\n")
        if refused:
            with pytest.raises(DataError, match="has a line of more than 0 MB"):
                CsvReader.written(str(path))
        else:
            assert CsvReader.written(str(path)) == (["s", "t"], 50)
            assert sum(batch.n for batch in CsvReader(str(path)).batches(["s"])) == 50


@pytest.mark.parametrize("place", [0, 5, 40])
def test_the_same_of_json_lines(tmp_path, monkeypatch, place):
    monkeypatch.setattr(jsonl_file, "BLOCK", 1 << 10)
    path = tmp_path / "a.jsonl"
    for length, refused in ((1000, False), (1030, True), (1900, True)):
        rows = ['{"s": 0.5}'] * 50
        rows[place] = f'{{"s": 0.5, "t": "{"x" * (length - 18)}"}}'
        path.write_text("\n".join(rows) + "\n")
        if refused:
            with pytest.raises(DataError, match="has a line of more than 0 MB"):
                JsonlReader.written(str(path))
        else:
            assert JsonlReader.written(str(path))[1] == 50


@pytest.mark.parametrize(
    ("kind", "words"),
    [("double", "a number"), ("int64", "a whole number, like the values before it"),
     ("bool", "true or false, like the values before it"), ("date32", "a date32, like the values before it")],
)  # fmt: skip
def test_what_was_expected_instead(kind, words):
    assert csv_columns.expected(kind) == words


def test_errors_of_columns_without_a_name(path):
    found = read(path, "s\n1\n")
    with pytest.raises(DataError, match="column '#1' holds 'q', which"):
        found._explain("In CSV column #1: CSV conversion error to double: invalid value 'q'")
    with pytest.raises(DataError, match=r"is not text \(UTF-8\)$"):
        found._explain("invalid UTF8 data")
    found._explain("something else")  # is left as it is


@pytest.mark.parametrize("block", [3, 1 << 22])
@pytest.mark.parametrize("packed", [False, True])
def test_written_rows_are_counted_outside_quotes(path, packed, block, monkeypatch):
    text = b'a,"b\nc"\n1,"x\ny ""z"" \n"\n2,w\n"\n",4\n5,6\n'
    path.write_bytes(gzip.compress(text) if packed else text)
    opened = text_lines.opened_text

    class InBlocks:
        """Gives so many bytes at a time, whatever is asked for."""

        def __init__(self) -> None:
            self.raw = opened(str(path))

        def __enter__(self):
            return self

        def __exit__(self, *_) -> None:
            self.raw.close()

        def read(self, _: int) -> bytes:
            return self.raw.read(block)

        def __getattr__(self, name: str):
            return getattr(self.raw, name)

    calls = iter([opened(str(path)), InBlocks()])
    monkeypatch.setattr(text_lines, "opened_text", lambda _: next(calls))
    assert CsvReader.written(str(path)) == (["a", "b\nc"], 4)


@pytest.mark.parametrize(
    ("writer", "suffix"), [(CsvWriter, ".csv"), (TsvWriter, ".tsv"), (CsvGzWriter, ".csv.gz"), (TsvGzWriter, ".tsv.gz")]
)
def test_what_is_written(tmp_path, writer, suffix):
    path = tmp_path / f"a{suffix}"
    out = writer(str(path), {})
    out.write({"probs": np.array([[0.1, 0.9]]), "t": np.array(['q"x'])})
    out.write({"probs": np.array([[0.25, 0.75]]), "t": np.array(["a,\tb"])})
    out.close()
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if suffix.endswith("gz") else raw).decode()
    if "csv" in suffix:
        assert text == 'prob_0,prob_1,t\n0.1,0.9,"q""x"\n0.25,0.75,"a,\tb"\n'
    else:
        assert text == 'prob_0\tprob_1\tt\n0.1\t0.9\t"q""x"\n0.25\t0.75\t"a,\tb"\n'


@pytest.mark.parametrize("text", ["a\rb", "a\nb", "\r", "a"])
def test_line_ends_in_text_are_quoted(path, text):
    out = CsvWriter(str(path), {})
    out.write({"t": np.array([text, "plain"]), "n": np.array([1, 2])})
    out.close()
    quoted = f'"{text}"' if text != "a" else text
    assert path.read_bytes().decode() == f"t,n\n{quoted},1\nplain,2\n"
    assert passed(read(path, path.read_bytes().replace(b"t,n", b"t,s")), "t") == [text, "plain"]


def test_lists_of_one_length_become_columns(path):
    out = CsvWriter(str(path), {})
    out.write({"probs": Lists(np.array([0.1, 0.9, 0.2, 0.8]), np.array([2, 2]))})
    out.close()
    assert path.read_text() == "prob_0,prob_1\n0.1,0.9\n0.2,0.8\n"


def test_lists_and_objects_become_json(path):
    out = CsvWriter(str(path), {})
    out.write(
        {"x": pa.array([None, {"a": 1}, None]), "l": pa.array([[1], [2, 3], None]), "t": pa.array(["[", None, ""])}
    )
    out.close()
    assert path.read_text() == 'x,l,t\n,[1],[\n"{""a"": 1}","[2, 3]",\n,,\n'


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("[0.1, x]", r"'probs' holds '\[0.1, x\]' \(row 2\), which is not a list of numbers"),
        ("[0.1, , 0.9]", r"'probs' holds '\[0.1, , 0.9\]' \(row 2\), which is not a list of numbers"),
        ("[0.1 ... 0.2]", r"'probs' holds a list that numpy shortened \(row 2\)"),
        ("__import__('os')", r"'probs' holds '__import__\('os'\)' \(row 2\), which is not a list of numbers"),
        ("[0.7, 0.2]", None),
        ("[0.1, nan]", "must be finite"),
        ("", "a value is missing in 'probs'"),
    ],
)
def test_bad_lists_in_text_are_refused(tmp_path, monkeypatch, second, said):
    """The first block decides that the column holds lists, so the bad row comes after it."""
    monkeypatch.setattr(csv_file, "BLOCK", 4096)
    path = tmp_path / "a.csv"
    many = '"[0.25, 0.75]",0\n'
    filler = many * (csv_file.BLOCK // len(many) + 10)
    path.write_text(f'probs,label\n{filler}"{second}",1\n')
    row = filler.count("\n") + 1
    if said is None:
        with pytest.raises(DataError, match=rf"probabilities sum to 0.9 \(row {row}\)"):
            read_rows(str(path))
        return
    with pytest.raises(DataError, match=said.replace("row 2", f"row {row}")):
        read_rows(str(path))


def test_text_that_is_no_list_of_numbers_stays_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('confidence,hit,a,b,c\n0.9,1,"[1, 2]",[0.5],"[x, 0.5]"\n0.7,0,"[3, 4]",[0.5],"[y, 0.5]"\n')
    assert {name: info.width for name, info in CsvReader(str(path)).columns.items()} == dict.fromkeys(
        ("confidence", "hit", "a", "b", "c")
    )


def test_all_texts_must_be_lists_and_one_must_have_a_point(path):
    found = read(path, 's,a,b\n0.5,"[0.5, 1]","[0.5, 1]"\n0.5,"[1, 2]",x\n')
    assert (found.columns["a"].width is None, found.columns["b"].width) == (False, None)


def test_lists_of_a_batch_without_rows():
    nothing = pa.record_batch([pa.array([], pa.string())], ["x"])
    assert text_lists.as_lists(nothing, ["x"], 0).schema.field("x").type == pa.list_(pa.float64())


@pytest.mark.parametrize("brackets", ["(]", "[)"])
def test_intervals_of_pandas_stay_text(tmp_path, brackets):
    path, (first, last) = tmp_path / "a.csv", brackets
    path.write_text(f'confidence,hit,bin\n0.6,1,"{first}0.5, 0.75{last}"\n0.8,1,"{first}0.75, 1.0{last}"\n')
    groups = read_rows(str(path), InputOptions(group="bin")).rows.groups
    assert groups is not None
    assert sorted(groups.categories) == [f"{first}0.5, 0.75{last}", f"{first}0.75, 1.0{last}"]


@pytest.mark.parametrize("text", ["id,confidence,hit,name\n1,0.9,1,Smith, John\n2,0.8,0,Poe, Edgar\n"])
def test_a_comma_outside_quotes_is_not_taken_for_a_name_of_a_row(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match="line 2 has 5 fields, the header 4"):
        read_rows(str(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    "text",
    ["the label\nred fox\nbrown bear\n", "label\n1 fox\n2 bears\n3 hens\n", " p  q\n 1  2\n", "label\nnew york\n"],
)
def test_text_with_spaces_is_one_column(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    assert list(CsvReader(str(tmp_path / "a.csv")).columns) == [text.partition("\n")[0]]


@pytest.mark.parametrize("delimiter", [",", " ", ";"])
@pytest.mark.parametrize("before", ["", "\n\n", "\ufeff"])
def test_a_header_that_numpy_wrote_as_a_comment(path, delimiter, before):
    """Otherwise the first class would be lost: `# logit_0` is no logit."""
    lines = ["logit_0 logit_1 logit_2 label", "0.5 0.25 -0.5 1", "1.5 0.25 -0.5 0"]
    text = before + "# " + "\n".join(lines).replace(" ", delimiter) + "\n"
    found = read(path, text)
    assert list(found.columns) == ["logit_0", "logit_1", "logit_2", "label"]
    assert values(found, "logit_0") == [0.5, 1.5]


def test_a_name_that_begins_with_a_hash_is_kept(path):
    assert list(read(path, "#id,confidence,hit\n1,0.5,1\n").columns) == ["#id", "confidence", "hit"]


def test_a_table_of_r_after_empty_lines(path):
    found = read(path, '\n\r\n"confidence","hit"\n"1",0.5,1\n"2",0.75,0\n')
    assert list(found.columns) == ["row.names", "confidence", "hit"]
    assert values(found, "confidence") == [0.5, 0.75]


def test_a_separator_at_the_end_of_every_line_does_not_shift_the_columns(path):
    with pytest.raises(DataError, match="line 2 has 4 fields, the header 3"):
        read(path, '"name","x","confidence"\n"a",0.5,0.75,\n"b",0.25,0.5,\n')


def test_a_long_value_is_shortened_in_the_message(path):
    with pytest.raises(DataError) as error:
        read_rows(read(path, f"confidence,hit\n{'x' * 10000},1\n").path)
    assert f"holds '{'x' * 80}' (row 1), which is not a number" in str(error.value)


def test_a_table_without_rows_may_have_brackets_in_its_names(path):
    found = read(path, 's,"a[0]"\n')
    assert list(found.columns) == ["s", "a[0]"]
    assert list(found.batches(["s"])) == []


def test_tuples_are_lists(path):
    found = read(path, 's,p\n0.5,"(0.25, 0.75)"\n0.5,"(0.5, 0.5)"\n')
    assert found.columns["p"].width is not None
    (batch,) = found.batches(["p"])
    assert batch.columns["p"].values.tolist() == [0.25, 0.75, 0.5, 0.5]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("a.csv", "quote fields that hold the separator, and leave no line cut off"),
        ("a.txt", "leave out files that are no tables; if this is one, quote fields that hold the separator"),
    ],
)
def test_hints_about_cut_lines(tmp_path, name, hint):
    with pytest.raises(DataError, match="line 2 has 1 fields, the header 2") as error:
        values(read(tmp_path / name, "s,t\n0.5\n"), "s")
    assert error.value.hint == hint


def test_the_first_and_the_last_column_without_a_header_are_named(path):
    (found,) = read(path, "0.5,1,2\n0.25,0,3\n").notices()
    assert dict(found.values) == {"first": "0", "last": "2"}
    assert read(path, "s,t\n0.5,1\n").notices() == ()


def test_an_open_quote_is_found_before_anything_is_read(path):
    with pytest.raises(DataError, match="line 2 opens a quote that is never closed"):
        _ = read(path, 's,t\n0.5,"a\n').columns


def test_a_missing_number_is_not_quoted(path):
    with pytest.raises(DataError, match=r"column 's' holds 'NA' \(row 1\), which is not a number"):
        values(read(path, 's,t\n"NA",1\n0.5,2\n'), "s")


def test_bytes_that_are_not_text_have_a_line(path):
    found = read(path, b"s,t\n" + b"0.5,a\n" * 20_000 + b"0.5,\xff\n")
    with pytest.raises(DataError, match=r"is not text \(UTF-8\) \(line 20002\)"):
        list(found.batches(["s", "t"], ["s"]))


def test_a_file_with_another_suffix_is_not_called_csv(tmp_path):
    """Almost any text could be csv, so the reader of the suffix says what is wrong."""
    (tmp_path / "a.npz").write_text("s,t\n0.5,1\n")
    with pytest.raises(DataError, match="cannot be read as npz"):
        open_reader(str(tmp_path / "a.npz"))


def test_names_of_groups_and_dates_stay_text_where_they_are_used(path):
    text = "s,n,d\n0.5,007,2020-01-02\n0.5,8,2020-01-03\n"
    found = read(path, text)
    assert values(found, "n", numeric=False) == [7, 8]
    assert [v for b in found.batches(["d"]) for v in b.columns["d"].tolist()] == ["2020-01-02", "2020-01-03"]  # type: ignore[union-attr]
    found = read(path, text)
    found.group = "n"
    assert [v for b in found.batches(["n"]) for v in b.columns["n"].tolist()] == ["007", "8"]  # type: ignore[union-attr]


def test_columns_get_types_only_in_formats_with_types(path):
    text = 's,n,l\n0.5,1,"[1, 2]"\n0.5,2,"[3, 4]"\n'
    for written_as, n, lists in ((".csv", ["1", "2"], ["[1, 2]", "[3, 4]"]), (".parquet", [1, 2], None)):
        found = read(path, text, written_as)
        assert passed(found, "n") == n
        assert lists is None or passed(found, "l") == lists
    found = read(path, text, ".parquet")
    assert set(found._exact_types(["n"])) == {"n"}
    assert found._exact_types(["n", "s"]) == {"n": pa.int64(), "s": pa.float64()}  # also of columns asked for later


@pytest.mark.parametrize("columns", [{"s": [0.5], "a\0b": [1]}, {"s": [0.5, 0.6], "t": ["c", "a\0b"]}])
def test_nul_is_not_written(path, columns):
    out = CsvWriter(str(path), {})
    with pytest.raises(DataError, match="NUL"):
        out.write({name: np.array(column) for name, column in columns.items()})
    out.file.close()


def test_plain_batches_have_one_header(path):
    out = CsvWriter(str(path), {})
    for _ in range(2):
        out.write({"s": np.array([0.5]), "n": np.array([1])})
    out.close()
    assert path.read_text() == "s,n\n0.5,1\n0.5,1\n"


def test_text_with_everything_that_needs_quotes(path):
    out = CsvWriter(str(path), {})
    out.write({"t": np.array(['a"b\r,c']), "n": np.array([1])})
    out.close()
    assert path.read_bytes() == b't,n\n"a""b\r,c",1\n'


def test_decimal_commas_become_points_and_other_letters_stay(path):
    """As numbers, long ones were rounded, became infinite, or were spelled in another way."""
    values = ["1,50", "-2,25e3", " 3, ", "+1,0", "1e5", "9" * 20, "1" * 400, "1e400", "007", ""]
    found = read(path, "s;f;n;t\n" + "".join(f"0,5;{value};007;1,2,x\n" for value in values), ".csv")
    assert passed(found, "f") == ["1.50", "-2.25e3", " 3. ", "+1.0", *values[4:]]
    assert passed(found, "n") == ["007"] * 10
    assert passed(found, "t") == ["1,2,x"] * 10
