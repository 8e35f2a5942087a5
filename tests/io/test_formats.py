"""Laws that every format in the registry keeps."""

from __future__ import annotations

import gzip
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from bpmcli.core.data.categorical import categorical
from bpmcli.errors import DataError
from bpmcli.io.formats import readers, writers
from bpmcli.io.layout import InputOptions
from bpmcli.io.opening import by_content
from bpmcli.io.readers import read_rows
from bpmcli.io.writers import open_writer

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(3), 50)
LABELS = RNG.integers(0, 3, 50)
TEXT_FORMATS = {suffix: writer for suffix, writer in writers().items() if writer.keeps_text}


@pytest.mark.parametrize("suffix", writers())
def test_what_is_written_is_read_again_bit_for_bit(suffix, tmp_path):
    path = str(tmp_path / f"x{suffix}")
    with open_writer(path) as out:
        out.write({"probs": PROBS, "label": LABELS})
    rows = read_rows(path, InputOptions(), distributions=True).rows
    assert np.array_equal(rows.labels, LABELS)
    assert np.array_equal(rows.logits, read_rows_of_arrays().logits)


def read_rows_of_arrays():
    from collections import Counter

    from bpmcli.io.formats.reader import ColumnBatch
    from bpmcli.io.layout import Layout
    from bpmcli.io.readers import rows_of

    layout = Layout("probs", ("probs",), False, None, "label", None, None, None, None, "top-label", n_classes=3)
    batch = ColumnBatch(0, 50, {"probs": PROBS, "label": LABELS}, {})
    return rows_of(batch, layout, Counter(), distributions=True)


@pytest.mark.skipif(sys.platform != "linux", reason="names must be valid Unicode")
@pytest.mark.parametrize("suffix", writers())
def test_names_that_are_not_utf_8_can_be_written(suffix, tmp_path):
    path = f"{tmp_path}/\udcff{suffix}"
    with open_writer(path) as out:
        out.write({"probs": PROBS, "label": LABELS})
    assert np.array_equal(read_rows(path, InputOptions()).rows.labels, LABELS)


@pytest.mark.parametrize("suffix", writers())
def test_a_format_is_recognised_by_content(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    with open_writer(str(path)) as out:
        out.write({"probs": PROBS, "label": LABELS})
    assert by_content(path.read_bytes()[: 1 << 16]).label == readers()[suffix].label


@pytest.mark.parametrize("suffix", [suffix for suffix, writer in writers().items() if not writer.to_stdout])
def test_a_file_that_was_cut_off_is_refused(suffix, tmp_path):
    """Not plain text, where a line may end anywhere."""
    path = tmp_path / f"x{suffix}"
    with open_writer(str(path)) as out:
        for _ in range(2):
            out.write({"probs": PROBS, "label": LABELS})
    whole = path.read_bytes()
    for size in np.linspace(1, len(whole) - 1, 40).astype(int):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError):
            read_rows(str(path), InputOptions())


@pytest.mark.parametrize("target", TEXT_FORMATS)
@pytest.mark.parametrize("origin", TEXT_FORMATS)
def test_numbers_keep_their_digits_from_text_to_text(run, origin, target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    note = categorical(["1.50", "007", "1e3", "-0.0", "0x10"])
    with open_writer(f"in{origin}") as out:
        out.write({"confidence": np.linspace(0.5, 0.9, 5), "note": note})
    params = (
        '{"schema": "bpmcli/calibrator", "version": 1, "method": "identity", "target": "top-label", "parameters": {}}'
    )
    (tmp_path / "p.json").write_text(params)
    assert run("apply", "p.json", f"in{origin}", "-o", f"out{target}").code == 0
    opened = gzip.open if target.endswith(".gz") else open
    with opened(f"out{target}", "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert [line.split(TEXT_FORMATS[target].delimiter)[1] for line in lines[1:]] == note.tolist()


@pytest.mark.parametrize("suffix", TEXT_FORMATS)
def test_text_that_could_not_be_read_again_is_refused(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    note = categorical(["a\0b", "c"])
    with pytest.raises(DataError, match="'note' holds text with a NUL character"), open_writer(str(path)) as out:
        out.write({"confidence": np.array([0.5, 0.9]), "note": note})
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "start", "said"),
    [
        ("a.pt", b"PK\x03\x04", "torch.load('a.pt', weights_only=True"),  # torch.save writes a zip archive
        ("a.joblib", b"\x78\x9c", "joblib.load('a.joblib')"),
        ("a.pkl", b"\x80\x04", "pickle.load(open('a.pkl', 'rb'))"),
        ("a.xlsx", b"PK\x03\x04", "pandas.read_excel('a.xlsx').to_csv('a.csv', index=False)"),
        ("a.xls", b"\xd0\xcf\x11\xe0", "pandas.read_excel('a.xls')"),
        ("a.rds", b"\x1f\x8b\x08", 'write.csv(readRDS("a.rds"), "a.csv", row.names = FALSE)'),
        ("a.RData", b"BZh9", 'write.csv(get(load("a.RData")), "a.csv"'),
        ("a.dta", b"<stata_dta>", "pandas.read_stata('a.dta')"),
    ],
)
def test_files_that_are_not_read_are_refused_with_the_line_that_converts_them(run, name, start, said):
    Path(name).write_bytes(start + b"\1\2\3" * 50)
    err = run("metrics", name, code=3).err
    line = err.partition("convert it: ")[2]
    program = shlex.split(line)
    assert program[0] in ("python", "Rscript")
    assert said in program[2]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.xlsm", "a.xlsm: is an Excel file, which bpmcli does not read"),
        ("a.rda", "a.rda: is an R file (.RData), which"),
        ("a.sas7bdat", "a.sas7bdat: is a SAS file, which"),
    ],
)
def test_files_of_other_programs_are_named(run, name, said):
    Path(name).write_bytes(b"\1\2\3" * 50)
    assert said in run("metrics", name, code=3).err


@pytest.mark.parametrize(
    ("name", "start", "written"), [("a.xlsx", b"PK\x03\x04", "a-3.csv"), ("a.pkl", b"\x80\x04", "a-3.npz")]
)
def test_the_line_that_converts_a_file_overwrites_nothing(run, name, start, written):
    Path(name).write_bytes(start + b"\1\2\3" * 50)
    for taken in ("a.csv", "a-2.csv", "a.npz", "a-2.npz"):
        Path(taken).touch()
    assert repr(written) in shlex.split(run("metrics", name, code=3).err.partition("convert it: ")[2])[2]


@pytest.mark.parametrize("name", ["foreign", "xlsx", "pickle", ".pkl"])
def test_formats_that_are_not_read_are_no_input_formats(run, name):
    Path("a.xlsx").write_bytes(b"PK\x03\x04")
    said = run("metrics", "a.xlsx", "--input-format", name, code=2).err
    assert f"--input-format {name}: unknown format" in said
    listed = said.partition("known formats: ")[2]
    assert "csv" in listed
    assert "foreign" not in listed
    assert "pickle" not in listed


def test_suffixes_that_are_not_read_are_not_listed_as_known(run):
    Path("empty").mkdir()
    Path("a.xyz").write_bytes(b"\0\1")
    for said in (run("metrics", "empty", code=2).err, run("metrics", "a.xyz", code=3).err):
        assert ".csv" in said
        assert ".xlsx" not in said
        assert ".pkl" not in said
