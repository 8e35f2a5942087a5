"""`apply` passes rows, values, types, order and metadata on unchanged, or refuses them by name."""

from __future__ import annotations

import csv
import json
import os
import resource
from pathlib import Path

import forked
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from conftest import arrays

from bpmcli.cli import main
from bpmcli.errors import DataError
from bpmcli.io.columns import Objects
from bpmcli.io.formats import jsonl_file
from bpmcli.io.writers import open_writer

pytestmark = pytest.mark.usefixtures("unjudged")

N = 400


def bare(n: int = N) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1.0, n)
    return {"confidence": s, "hit": rng.random(n) < s}


@pytest.fixture(scope="module")
def parameters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    np.savez(folder / "fit.npz", **bare())
    assert main(["fit", str(folder / "fit.npz"), "--method", "identity", "-o", str(folder / "p.json"), "-q"]) == 0
    return (folder / "p.json").read_bytes()


@pytest.fixture
def fitted(run, parameters):
    """Rows in fit.npz, parameters in p.json; returns the runner."""
    np.savez("fit.npz", **bare())
    Path("p.json").write_bytes(parameters)
    return run


@pytest.mark.parametrize("other", [np.arange(1000), np.arange(7), np.float64(1.5), np.array("v2"), np.zeros((2, 3, 4))])
def test_arrays_of_the_file_are_carried_along(fitted, other):
    before = bare()
    np.savez("a.npz", **before, other=other)
    fitted("apply", "p.json", "a.npz", "-o", "out.npz")
    after = arrays("out.npz")
    assert after["confidence"].shape == (N,)
    assert np.array_equal(after["hit"], before["hit"])
    assert after["other"].dtype == other.dtype
    assert np.array_equal(after["other"], other)
    ran = fitted("apply", "p.json", "a.npz", "-o", "out.csv")
    assert "left out of the table: other" in ran.err
    assert len(pd.read_csv("out.csv")) == N


def test_a_calibration_and_a_test_split_in_one_file(fitted):
    test, cal = bare(), bare(250)
    np.savez("a.npz", **{f"test_{k}": v for k, v in test.items()}, **{f"cal_{k}": v for k, v in cal.items()})
    fitted("apply", "p.json", "a.npz", "--confidence", "test_confidence", "-o", "out.npz")
    after = arrays("out.npz")
    assert {k: len(v) for k, v in after.items()} == {
        "test_confidence": N, "test_hit": N, "cal_confidence": 250, "cal_hit": 250,
    }  # fmt: skip
    assert np.array_equal(after["cal_confidence"], cal["confidence"])


def test_labels_of_another_length_are_refused_with_the_row(fitted):
    z = np.random.default_rng(0).normal(size=(10, 3))
    np.savez("a.npz", logits=z, labels=np.zeros(9, dtype=int))
    for argv in (["apply", "p.json", "a.npz", "-o", "out.npz"], ["metrics", "a.npz"]):
        ran = fitted(*argv, code=3)
        assert "'logits' has 10 rows but 'labels' has 9: row 10 of 'logits' has no 'labels'" in ran.err
    assert not Path("out.npz").exists()


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".arrow", ".csv", ".jsonl"])
@pytest.mark.parametrize("dtype", [">i8", ">f4", "<i2", "u1", "f2", "?", "<U5", ">U3"])
def test_every_byte_order_and_type_keeps_its_values(fitted, suffix, dtype):
    values = (np.arange(N) % 2 if dtype == "?" else np.arange(N) % 100).astype(dtype)
    np.savez("a.npz", **bare(), x=values)
    fitted("apply", "p.json", "a.npz", "-o", f"out{suffix}")
    if suffix == ".npz":
        found = arrays("out.npz")["x"]
        assert found.dtype == values.dtype
    else:
        found = table(f"out{suffix}")["x"].to_numpy()
    assert [str(v) for v in found.tolist()] == [str(v) for v in values.tolist()]


def table(path: str) -> pd.DataFrame:
    if path.endswith(".csv"):
        return pd.read_csv(path)
    if path.endswith(".jsonl"):
        return pd.read_json(path, lines=True, dtype=False)
    return pd.read_parquet(path) if path.endswith(".parquet") else pa.ipc.open_file(path).read_all().to_pandas()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
def test_columns_of_one_name_are_refused(fitted, suffix):
    np.savez("a.npz", **bare(), x=np.zeros((N, 2)), x_0=np.ones(N))
    ran = fitted("apply", "p.json", "a.npz", "-o", f"out{suffix}", code=3)
    assert "'x' and 'x_0' would both be written as column 'x_0'" in ran.err
    assert not Path(f"out{suffix}").exists()
    fitted("apply", "p.json", "a.npz", "-o", "out.npz")


STRANGE = {
    "complex": np.zeros(N, dtype=complex),
    "longdouble": np.zeros(N, dtype=np.longdouble),
    "void": np.zeros(N, dtype="V4"),
    "cube": np.zeros((N, 2, 2)),
    "structured": np.zeros(N, dtype=[("a", "i4"), ("b", "f4")]),
    "years": np.zeros(N, dtype="M8[Y]"),
    "days that 32 bits cannot count": np.full(N, 1 << 62).astype("M8[D]"),
    "surrogate": np.full(N, "\ud800"),
}


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".jsonl"])
@pytest.mark.parametrize("case", STRANGE)
def test_types_a_table_cannot_hold_are_refused_by_name(fitted, suffix, case):
    if case == "cube" and suffix in (".csv", ".jsonl"):
        pytest.skip("JSON holds nested lists")
    np.savez("a.npz", **bare(), odd=STRANGE[case])
    ran = fitted("apply", "p.json", "a.npz", "-o", f"out{suffix}", code=3)
    assert "'odd' " in ran.err
    assert "cannot hold" in ran.err
    assert sorted(p.name for p in Path().iterdir()) == ["a.npz", "fit.npz", "p.json"]
    fitted("apply", "p.json", "a.npz", "-o", "out.npz")
    assert arrays("out.npz")["odd"].tobytes() == STRANGE[case].tobytes()


def test_dates_of_arrays_become_dates_of_tables(fitted):
    days = np.datetime64("2024-02-28") + np.arange(N)
    np.savez("a.npz", **bare(), day=days, when=days.astype("M8[ns]"))
    fitted("apply", "p.json", "a.npz", "-o", "out.parquet")
    assert np.array_equal(table("out.parquet")["when"].to_numpy().astype("M8[D]"), days)
    fitted("apply", "p.json", "a.npz", "-o", "out.csv")
    assert table("out.csv")["day"].tolist() == [str(d) for d in days]


def strange_columns() -> dict[str, pa.Array]:
    far = pa.array([2**62] * N, pa.int64())
    return {
        "far": far.cast(pa.timestamp("s")),
        "zone": pa.array([0] * N, pa.int64()).cast(pa.timestamp("us", "Mars/Olympus")),
        "interval": pa.array([pa.MonthDayNano([1, 2, 3])] * N),
        "binary": pa.array([b"\xff"] * N),
        "duration": pa.array([1] * N, pa.int64()).cast(pa.duration("s")),
        "invalid": pa.Array.from_buffers(
            pa.string(), N, [None, pa.py_buffer(np.arange(N + 1, dtype=np.int32)), pa.py_buffer(b"\xff" * N)]
        ),
    }


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".npz", ".arrow"])
@pytest.mark.parametrize("case", ["far", "zone", "interval", "binary", "duration", "invalid"])
def test_strange_arrow_columns_end_in_a_file_or_a_sentence(fitted, suffix, case):
    data = pa.table({**{k: pa.array(v) for k, v in bare().items()}, "odd": strange_columns()[case]})
    pyarrow.feather.write_feather(data, "a.arrow")
    ran = fitted("apply", "p.json", "a.arrow", "-o", f"out{suffix}", code=None)
    assert ran.code in (0, 3), ran
    assert (ran.code == 0) == Path(f"out{suffix}").exists()
    assert "internal error" not in ran.err
    if ran.code:
        assert "odd" in ran.err
    elif suffix in (".parquet", ".arrow"):
        back = pq.read_table("out.parquet") if suffix == ".parquet" else pa.ipc.open_file("out.arrow").read_all()
        assert back["odd"].combine_chunks().cast(data["odd"].type).equals(data["odd"].combine_chunks())
    assert [p.name for p in Path().iterdir() if p.name.endswith(".part")] == []


def test_a_pandas_index_stays_an_index(fitted):
    frame = pd.DataFrame({**bare(), "site": ["a", "b"] * (N // 2)}, index=[f"row {i}" for i in range(N)])
    frame.index.name = "who"
    frame.to_parquet("a.parquet")
    fitted("apply", "p.json", "a.parquet", "-o", "out.parquet")
    after = pd.read_parquet("out.parquet")
    assert after.index.equals(frame.index)
    assert after.index.name == "who"
    assert list(after.columns) == list(frame.columns)
    pd.testing.assert_series_equal(after["site"], frame["site"])


def test_numbers_with_gaps_far_apart_keep_their_values(fitted):
    """The first batch has no nulls: the type must not be taken from it alone."""
    n = 40_000
    ids = pa.array([None if i == n - 1 else i for i in range(n)], pa.int64())
    data = pa.table({"confidence": np.full(n, 0.7), "hit": np.ones(n, dtype=int), "id": ids})
    with pa.ipc.new_file("a.arrow", data.schema) as out:
        out.write_table(data, max_chunksize=1000)
    fitted("apply", "p.json", "a.arrow", "-o", "out.npz")
    found = arrays("out.npz")["id"]
    assert np.array_equal(found[:-1], np.arange(n - 1))
    assert np.isnan(found[-1])
    big = pa.table({**{k: data[k] for k in ("confidence", "hit")}, "id": pa.array([2**60, *[None] * (n - 1)])})
    pq.write_table(big, "b.parquet")
    assert (
        "'id' has missing values beside whole numbers"
        in fitted("apply", "p.json", "b.parquet", "-o", "b.npz", code=3).err
    )


def test_an_output_that_lost_rows_is_not_renamed(tmp_path, monkeypatch):
    from bpmcli.io.formats.csv_file import CsvWriter

    def forget(self, columns):
        kept = {k: v[:-1] for k, v in columns.items()}
        return original(self, kept)

    original = CsvWriter.put
    monkeypatch.setattr(CsvWriter, "put", forget)
    with (
        pytest.raises(DataError, match="1 columns, 9 rows instead of 1 columns, 10 rows"),
        open_writer(str(tmp_path / "a.csv")) as out,
    ):
        out.write({"x": np.arange(10)})
    assert list(tmp_path.iterdir()) == []


def test_text_with_line_ends_and_quotes_survives_csv(fitted):
    notes = ['say "hi"', "two\nlines", "a,b", " padded ", "NA", "null", "é🎉", "'"] * (N // 8)
    pq.write_table(pa.table({**{k: pa.array(v) for k, v in bare().items()}, "note": notes}), "a.parquet")
    for suffix in (".csv", ".tsv", ".jsonl", ".npz", ".csv.gz"):
        fitted("apply", "p.json", "a.parquet", "-o", f"out{suffix}")
        fitted("apply", "p.json", f"out{suffix}", "-o", "again.parquet")
        assert pq.read_table("again.parquet")["note"].to_pylist() == notes, suffix


def test_lists_of_different_lengths_are_not_padded(fitted):
    rows = [{"confidence": 0.8, "hit": 1, "x": [0.5] * (1 + i % 3)} for i in range(N)]
    Path("a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert "'x' holds lists of different lengths" in fitted("apply", "p.json", "a.jsonl", "-o", "o.npz", code=3).err
    fitted("apply", "p.json", "a.jsonl", "-o", "o.csv")
    assert [json.loads(x) for x in table("o.csv")["x"]] == [r["x"] for r in rows]
    fitted("apply", "p.json", "a.jsonl", "-o", "o.jsonl")
    assert [json.loads(line)["x"] for line in Path("o.jsonl").read_text().splitlines()] == [r["x"] for r in rows]


def test_nan_becomes_null_in_jsonl_and_infinity_is_refused(fitted):
    x = np.where(np.arange(N) % 2, np.nan, 1.0)
    np.savez("a.npz", **bare(), x=x)
    fitted("apply", "p.json", "a.npz", "-o", "o.jsonl")
    assert [json.loads(line)["x"] for line in Path("o.jsonl").read_text().splitlines()][:2] == [1.0, None]
    np.savez("b.npz", **bare(), x=np.full(N, np.inf))
    assert (
        "'x' holds infinity, which jsonl cannot hold" in fitted("apply", "p.json", "b.npz", "-o", "b.jsonl", code=3).err
    )


def test_npz_with_many_columns_needs_few_files(fitted):
    np.savez("a.npz", **bare(), **{f"c{i}": np.full(N, i) for i in range(300)})
    ran = forked.run("apply", "p.json", "a.npz", "-o", "out.npz", limits={resource.RLIMIT_NOFILE: 64})
    assert ran.code == 0, ran
    assert arrays("out.npz")["c299"].tolist() == [299] * N


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".csv"])
def test_devices_are_written_to_or_refused(fitted, suffix):
    os.symlink("/dev/null", f"null{suffix}")
    os.symlink("/dev/full", f"full{suffix}")
    fitted("apply", "p.json", "fit.npz", "-o", f"null{suffix}")
    ran = fitted("apply", "p.json", "fit.npz", "-o", f"full{suffix}", code=3)
    assert "cannot be written (No space left on device)" in ran.err
    assert Path(f"null{suffix}").is_symlink()


def test_json_comes_out_as_it_went_in(fitted):
    """From jsonl to jsonl nothing is converted: big numbers, texts like dates, mixed types, fields that come and go."""
    rows = [
        {"confidence": 0.7, "hit": 1, "big": 10**30, "day": "2024-01-01", "mixed": [1, "a", None]},
        {"day": "2024-01-01T00:00:00Z", "confidence": 0.6, "hit": 0, "late": {"x": [{}]}, "mixed": 3},
        {"confidence": 0.9, "hit": 1, "mixed": None, "text": "a\r\nb \u2028 \u00e9"},
    ] * 20
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fitted("apply", "p.json", "a.jsonl", "-o", "o.jsonl")
    found = [json.loads(line) for line in Path("o.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    for before, after in zip([dict(row) for row in rows], found, strict=True):
        assert after.pop("confidence") == pytest.approx(before.pop("confidence"))
        assert after == before


def test_text_of_csv_stays_text_in_other_formats(fitted):
    Path("a.csv").write_text("confidence,hit,t,h,d\n" + "0.7,1,12:30,0x10,2024-01-01\n0.6,0,08:00,17,2024-01-02\n" * 20)
    for suffix in (".parquet", ".jsonl"):
        fitted("apply", "p.json", "a.csv", "-o", f"o{suffix}")
        if suffix == ".parquet":
            found = table("o.parquet")
        else:
            found = pd.DataFrame([json.loads(line) for line in Path("o.jsonl").read_text().splitlines()])
        assert found["t"].tolist()[:2] == ["12:30", "08:00"]
        assert found["h"].tolist()[:2] == ["0x10", "17"]
        assert found["d"].tolist()[:2] == ["2024-01-01", "2024-01-02"]


def test_a_carriage_return_in_text_survives(fitted):
    pq.write_table(
        pa.table({**{k: pa.array(v) for k, v in bare().items()}, "note": ["a\rb", "c"] * (N // 2)}), "a.parquet"
    )
    fitted("apply", "p.json", "a.parquet", "-o", "o.csv")
    fitted("apply", "p.json", "o.csv", "-o", "again.parquet")
    assert pq.read_table("again.parquet")["note"].to_pylist() == ["a\rb", "c"] * (N // 2)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.string()])
def test_a_group_column_keeps_its_type_and_its_nulls(run, kind):
    groups = ["a", "b", None, "c"] * (N // 4)
    data = pa.table({**{k: pa.array(v) for k, v in bare().items()}, "site": pa.array(groups, pa.string()).cast(kind)})
    pq.write_table(data.filter(pa.compute.is_valid(data["site"])), "fit.parquet")
    pq.write_table(data, "a.parquet")
    run("fit", "fit.parquet", "--by", "site", "--min-group", "50", "--method", "identity", "-o", "p.json")
    ran = run("apply", "p.json", "a.parquet", "-o", "out.parquet")
    after = pq.read_table("out.parquet")["site"]
    assert after.to_pylist() == groups
    assert after.type == pq.read_table("a.parquet")["site"].type
    assert "100 rows" in ran.err


def test_file_names_that_are_not_text(fitted):
    name = os.fsdecode(b"\xff.csv")
    Path(name).write_text("confidence,hit\n" + "0.7,1\n0.6,0\n" * 20)
    pq.write_table(pa.table({k: pa.array(v) for k, v in bare().items()}), "a.parquet")
    os.rename("a.parquet", os.fsdecode(b"\xff.parquet"))
    for path in (name, os.fsdecode(b"\xff.parquet")):
        fitted("apply", "-q", "p.json", path, "-o", "out.csv")


def test_half_a_surrogate_pair_is_written_as_an_escape(tmp_path):
    """Found by the fuzzer: UTF-8 cannot hold it, but JSON can."""
    path = tmp_path / "o.jsonl"
    with open_writer(str(path), ".jsonl") as writer:
        writer.write({"note": Objects(["x\ud800y", "é"])})
    assert [json.loads(line)["note"] for line in path.read_text(encoding="utf-8").splitlines()] == ["x\ud800y", "é"]


def test_pictures_and_junit_files_do_not_overwrite_inputs(run):
    Path("a.csv").write_text("confidence,hit\n0.9,1\n0.6,0\n")
    for option in ("--junit", "--plot"):
        target = "a.csv" if option == "--junit" else "a.png"
        if option == "--plot":
            Path("a.csv").rename("a.png")
        run("metrics", target, "--input-format", "csv", "-m", "ece", option, target, code=2)
        assert Path(target).read_text().startswith("confidence")


def test_a_carriage_return_in_a_column_name_comes_back(run, tmp_path):
    table = pa.table({"confidence": [0.6, 0.7], "hit": [1, 0], "a\rb": [1, 2]})
    pq.write_table(table, tmp_path / "a.parquet")
    run("fit", tmp_path / "a.parquet", "--method", "platt", "-o", tmp_path / "p.json")
    run("apply", tmp_path / "p.json", tmp_path / "a.parquet", "-o", tmp_path / "o.csv")
    with open(tmp_path / "o.csv", newline="") as file:
        assert "a\rb" in next(csv.reader(file))


@pytest.mark.parametrize("kind", ["hdf5", "safetensors"])
def test_arrays_of_other_lengths_go_from_any_format_into_npz(run, tmp_path, kind):
    columns = {**bare(40), "vocab": np.arange(7)}
    columns["hit"] = columns["hit"].astype(np.int64)
    path = tmp_path / f"a.{kind}"
    if kind == "hdf5":
        with pytest.importorskip("h5py").File(path, "w") as file:
            for name, values in columns.items():
                file.create_dataset(name, data=values)
    else:
        header, body = {}, b""
        for name, values in columns.items():
            offsets = [len(body), len(body) + values.nbytes]
            dtype = "F64" if values.dtype.kind == "f" else "I64"
            header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": offsets}
            body += values.tobytes()
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    run("fit", path, "--method", "platt", "-o", tmp_path / "p.json")
    run("apply", tmp_path / "p.json", path, "-o", tmp_path / "o.npz")
    assert arrays(tmp_path / "o.npz")["vocab"].tolist() == list(range(7))


@pytest.mark.parametrize("source", ["csv", "jsonl"])
@pytest.mark.parametrize("target", ["parquet", "npz", "csv", "jsonl"])
def test_long_keys_keep_their_digits_or_are_refused(source, target, fitted):
    key = 98765432109876543210
    with open(f"k.{source}", "w") as file:
        file.write("confidence,key,large\n" if source == "csv" else "")
        for i in range(5):
            row = {"confidence": 0.75, "key": key + i, "large": 1e300}
            file.write(json.dumps(row) + "\n" if source == "jsonl" else ",".join(map(str, row.values())) + "\n")
    ran = fitted("apply", "p.json", f"k.{source}", "-o", f"out.{target}", "-q", code=None)
    if source == "csv" and target in ("parquet", "npz"):
        found = arrays("out.npz")["key"] if target == "npz" else pq.read_table("out.parquet")["key"].to_pylist()
        assert list(found) == [str(key + i) for i in range(5)]
    elif source in ("csv", target):
        assert ran.code == 0, ran.err
        assert str(key + 3) in Path(f"out.{target}").read_text()
    else:
        assert ran.code == 3
        assert f"'key' holds whole numbers such as {key}, which would be rounded" in ran.err
        assert not Path(f"out.{target}").exists()


def test_large_numbers_are_searched_once_and_not_in_every_batch(fitted, monkeypatch):
    monkeypatch.setattr(jsonl_file, "BLOCK", 1 << 9)
    Path("k.jsonl").write_text('{"confidence": 0.75, "large": 1e300}\n' * 200)
    reader = jsonl_file.JsonlReader
    before, searched = reader.whole_numbers, []
    monkeypatch.setattr(reader, "whole_numbers", lambda self, name: searched.append(name) or before(self, name))
    fitted("apply", "p.json", "k.jsonl", "-o", "out.parquet", "-q")
    assert searched == ["large"]


def test_no_file_that_is_read_is_written(fitted):
    """Neither an HDF5 file of which groups are read, nor the file of labels or of parameters."""
    h5py = pytest.importorskip("h5py")
    rows = bare()
    with h5py.File("a.h5", "w") as file:
        for group in ("one", "two"):
            for name, values in rows.items():
                file[f"{group}/{name}"] = values
    np.savez("scores.npz", probs=rows["confidence"])
    np.save("labels.npy", rows["hit"].astype(int))
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    for arguments in (
        ["metrics", "a.h5", "-m", "ece", "--junit", "a.h5"],
        ["metrics", "scores.npz", "--label", "labels.npy", "-m", "ece", "--junit", "labels.npy"],
        ["fit", "scores.npz", "--label", "labels.npy", "--method", "platt", "-o", "labels.npy"],
        ["apply", "p.json", "fit.npz", "-o", "p.json"],
    ):
        ran = fitted(*arguments, code=2)
        assert "is the input itself" in ran.err or "cannot write" in ran.err, ran.err
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_names_with_nul_are_refused_by_csv(fitted):
    pa.feather.write_feather(pa.table({"confidence": [0.5, 0.75], "we\0ight": [1, 2]}), "a.arrow")
    ran = fitted("apply", "p.json", "a.arrow", "-o", "o.csv", "-q", code=3)
    assert "NUL" in ran.err


def test_text_is_not_padded_beyond_memory(fitted):
    """A file of a few kilobytes whose text would take 18 GiB as an array of numpy."""
    words = pa.DictionaryArray.from_arrays(pa.array([0] + [1] * 99, pa.int32()), pa.array(["x" * 50_000_000, "y"]))
    rows = bare(100)
    pq.write_table(pa.table({"confidence": rows["confidence"], "note": words}), "a.parquet", compression="zstd")
    ran = fitted("apply", "p.json", "a.parquet", "-o", "o.npz", "-q", code=3)
    assert "'note' holds text that takes 18.6 GiB padded to its longest value" in ran.err
    assert not Path("o.npz").exists()


@pytest.mark.parametrize("dtype", ["U", "S"])
def test_text_in_two_dimensions_becomes_lists(dtype, fitted):
    rows = bare(3)
    np.savez(
        "a.npz", **rows, tags=np.array([["a", "é"], ["b", "c"], ["d", ""]]) if dtype == "U" else np.full((3, 2), b"x")
    )
    fitted("apply", "p.json", "a.npz", "-o", "o.jsonl", "-q")
    found = [json.loads(line)["tags"] for line in Path("o.jsonl").read_text().splitlines()]
    assert found == ([["a", "é"], ["b", "c"], ["d", ""]] if dtype == "U" else [["x", "x"]] * 3)


@pytest.mark.parametrize("command", ["metrics", "fit", "summarize"])
@pytest.mark.parametrize("name", ["void", "cube"])
def test_odd_arrays_in_a_role_are_refused(command, name, fitted):
    rows = bare(60)
    np.savez("a.npz", **rows, void=np.zeros(60, "V5"), cube=np.zeros((60, 2, 2)))
    role = ["--prediction", "void", "--label", "hit"] if name == "void" else ["--probs", "cube", "--label", "hit"]
    target = {"metrics": [], "fit": ["--method", "platt", "-o", "z.json"], "summarize": ["-o", "z.parquet"]}[command]
    ran = fitted(command, "a.npz", *role, *target, "-q", code=3)
    assert name in ran.err


def test_views_of_text_pass_through(fitted):
    rows = bare(80)
    site = pa.array(["a", "b"] * 40, pa.string_view())
    pq.write_table(pa.table({**rows, "site": site}), "a.parquet")
    fitted("fit", "a.parquet", "--method", "platt", "--by", "site", "-o", "g.json", "-q")
    fitted("apply", "g.json", "a.parquet", "-o", "o.parquet", "-q")
    assert pq.read_table("o.parquet")["site"].to_pylist() == ["a", "b"] * 40


def test_views_of_text_lose_the_rows_that_are_skipped(fitted):
    rows = bare(80)
    scores = pa.array([None if i % 3 == 0 else float(x) for i, x in enumerate(rows["confidence"])])
    site, nested = pa.array(["a", "b"] * 40, pa.string_view()), pa.array([["x"], []] * 40, pa.list_(pa.string_view()))
    table = pa.table({**rows, "confidence": scores, "site": site, "nested": nested})
    pa.feather.write_feather(table, "a.arrow", compression="uncompressed")
    fitted("fit", "a.arrow", "--method", "platt", "--skip-missing", "-o", "g.json", "-q")
    fitted("apply", "g.json", "a.arrow", "--skip-missing", "-o", "o.arrow", "-q")
    found, kept = pa.feather.read_table("o.arrow"), [i for i in range(80) if i % 3]
    assert found["site"].to_pylist() == [site[i].as_py() for i in kept]
    assert found["nested"].to_pylist() == [nested[i].as_py() for i in kept]
