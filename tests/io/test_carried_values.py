"""Columns that `apply` carries along: values for which the other format has no counterpart are refused, never changed."""

from __future__ import annotations

import csv
import datetime
import json
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import arrays

from bpmcli.cli import main

pytestmark = pytest.mark.usefixtures("unjudged")

N = 60
SCORES = {"confidence": [0.5 + i / 200 for i in range(N)], "hit": [i % 2 for i in range(N)]}


@pytest.fixture(scope="module")
def parameters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    np.savez(folder / "fit.npz", **SCORES)
    assert main(["fit", str(folder / "fit.npz"), "--method", "identity", "-o", str(folder / "p.json"), "-q"]) == 0
    return (folder / "p.json").read_bytes()


@pytest.fixture
def calibrate(run, parameters):
    """Calibrate one file into another."""
    Path("p.json").write_bytes(parameters)

    def calibrated(source: str, target: str, code: int = 0) -> str:
        ran = run("apply", "p.json", source, "-o", target, code=code)
        assert Path(target).exists() == (code == 0)
        return ran.err

    return calibrated


def table(kind: pa.DataType | None, *values: object) -> None:
    """a.arrow with a column x that repeats some values."""
    x = values[0] if isinstance(values[0], pa.Array) else pa.array([values[i % len(values)] for i in range(N)], kind)
    whole = pa.table({**SCORES, "x": x})
    with pa.ipc.new_file("a.arrow", whole.schema) as out:
        out.write_table(whole)


def texts(name: str) -> list[str]:
    with Path(name).open(newline="", encoding="utf-8") as lines:
        return [row["x"] for row in csv.DictReader(lines)]


def objects(*values: object) -> list[dict[str, object]]:
    return [{"confidence": 0.5 + i / 200, "hit": i % 2, "x": values[i % len(values)]} for i in range(N)]


def test_a_time_with_a_zone_says_that_it_is_in_utc(calibrate):
    table(pa.timestamp("ms", "+05:30"), 0, 1_700_000_000_120, None)
    calibrate("a.arrow", "o.csv")
    assert texts("o.csv")[:3] == ["1970-01-01 00:00:00Z", "2023-11-14 22:13:20.12Z", ""]


def test_all_times_of_a_column_have_one_spelling(calibrate):
    table(pa.timestamp("s"), 0, 1_700_000_000, None)
    calibrate("a.arrow", "o.csv")
    assert texts("o.csv")[:3] == ["1970-01-01 00:00:00", "2023-11-14 22:13:20", ""]


@pytest.mark.parametrize("target", ["o.csv", "o.jsonl"])
def test_a_time_beyond_the_calendar_is_refused(calibrate, target):
    table(pa.timestamp("us"), 0, 2**62)
    assert "'x' holds a time beyond the calendar" in calibrate("a.arrow", target, code=3)


@pytest.mark.parametrize("target", ["o.csv", "o.jsonl"])
@pytest.mark.parametrize("wrong", [-5, 86_400_000_000_000])
def test_a_time_of_no_day_is_refused(calibrate, wrong, target):
    table(None, pa.array([0, wrong] * (N // 2)).view(pa.time64("ns")))
    assert "'x' holds a time beyond the calendar" in calibrate("a.arrow", target, code=3)
    table(None, pa.array([0, 86_399_000_000_000] * (N // 2)).view(pa.time64("ns")))
    calibrate("a.arrow", "o.tsv")


@pytest.mark.parametrize("target", ["o.csv", "o.jsonl", "o.parquet"])
def test_a_date_that_is_not_a_whole_day_does_not_become_another_day(calibrate, target):
    table(None, pa.array([0, -5] * (N // 2)).view(pa.date64()))
    assert "'x' holds a date that is not a whole day" in calibrate("a.arrow", target, code=3)
    calibrate("a.arrow", "o.arrow")
    with pa.ipc.open_file("o.arrow") as same:
        assert same.read_all()["x"].combine_chunks().view(pa.int64())[1].as_py() == -5


def test_text_that_ends_with_nul_is_refused_by_npz(calibrate):
    table(pa.string(), "a", "end\0")
    assert "'x' holds text that ends with a NUL character" in calibrate("a.arrow", "o.npz", code=3)


@pytest.mark.parametrize("belongs_to", ["rows", "file"])
def test_a_name_that_an_archive_cannot_hold_is_refused(calibrate, belongs_to):
    long = "k" * 65_535
    if belongs_to == "rows":
        pq.write_table(pa.table({**SCORES, long: SCORES["hit"]}), "a.parquet")
        said = calibrate("a.parquet", "o.npz", code=3)
    else:
        np.savez("a.npz", **SCORES)
        with zipfile.ZipFile("a.npz", "a") as archive, archive.open(long, "w") as out:
            np.lib.format.write_array(out, np.arange(7))
        said = calibrate("a.npz", "o.npz", code=3)
    assert "…' has a name of more than 65535 bytes, which npz cannot hold" in said
    assert len(said) < 1000


def test_a_null_among_the_words_of_a_dictionary_is_a_missing_value(calibrate):
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 20), pa.array(["a", None, "b"]))
    table(None, words)
    assert "'x' has missing text" in calibrate("a.arrow", "o.npz", code=3)
    calibrate("a.arrow", "o.jsonl")
    assert [json.loads(line)["x"] for line in Path("o.jsonl").read_text().splitlines()][:3] == ["a", None, "b"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([Decimal("1.12345678901234567890")] * N).dictionary_encode(),
        pa.array([[Decimal("1.12345678901234567890")]] * N),
        pa.array([datetime.datetime(2024, 1, 1)] * N).dictionary_encode(),
        pa.array([{"cat": 0.5, "dog": 0.25}] * N),
    ],
    ids=["decimals in a dictionary", "lists of decimals", "times in a dictionary", "objects of numbers"],
)
def test_types_that_numpy_lacks_are_refused_at_any_depth(calibrate, values):
    table(None, values)
    assert "'x' holds values of type" in calibrate("a.arrow", "o.npz", code=3)


def test_lists_of_length_zero_that_parquet_could_not_read_back(calibrate):
    table(pa.list_(pa.float64(), 0), [])
    assert "'x' holds lists whose length is fixed at 0" in calibrate("a.arrow", "o.parquet", code=3)


def test_a_type_that_parquet_lacks_is_blamed_on_its_column(calibrate):
    table(pa.decimal128(5, -2), Decimal("1E+3"))
    said = calibrate("a.arrow", "o.parquet", code=3)
    assert "'x' holds a value (Scale must be" in said
    assert "cannot be written" not in said


@pytest.mark.parametrize("target", ["o.csv", "o.parquet"])
def test_an_array_without_columns_is_not_lost_in_a_table(calibrate, target):
    np.savez("a.npz", **SCORES, x=np.zeros((N, 0)))
    assert "'x' has no columns" in calibrate("a.npz", target, code=3)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow", "npz"])
def test_an_array_of_one_column_keeps_its_name_and_its_role(run, calibrate, suffix):
    columns = {name: np.array(values)[:, None] for name, values in SCORES.items()}
    np.savez("a.npz", **columns, x=np.arange(N)[:, None], x_0=np.arange(N) + 7, w=np.ones((N, 1)))
    calibrate("a.npz", f"o.{suffix}")
    np.savez("flat.npz", **SCORES, x=np.arange(N), x_0=np.arange(N) + 7, w=np.ones(N))
    calibrate("flat.npz", f"same.{suffix}")
    assert suffix == "npz" or Path(f"o.{suffix}").read_bytes() == Path(f"same.{suffix}").read_bytes()
    shown = [run("metrics", f"{name}.{suffix}", "-m", "ece", "--weight", "w", "-q").out for name in ("o", "same")]
    assert shown[0].split("\n")[1:] == shown[1].split("\n")[1:]


@pytest.mark.parametrize("value", [["2024-01-01"], {"a": {"b": "2024-01-01 10:00:00"}}], ids=["list", "object"])
def test_text_inside_json_that_looks_like_a_date_stays_text(calibrate, value):
    Path("a.jsonl").write_text("\n".join(map(json.dumps, objects(value))))
    calibrate("a.jsonl", "o.parquet")
    assert pq.read_table("o.parquet")["x"].to_pylist() == [value] * N
    calibrate("a.jsonl", "o.csv")
    assert json.loads(texts("o.csv")[0]) == value


@pytest.mark.parametrize("target", ["o.csv", "o.parquet", "o.npz"])
@pytest.mark.parametrize(
    "value", [[12345678901234567890], {"a": [{"b": 2**53 + 1}, {"b": 0.5}]}], ids=["list", "object"]
)
def test_long_whole_numbers_inside_json_are_not_rounded(calibrate, value, target):
    Path("a.jsonl").write_text("\n".join(map(json.dumps, objects(value))))
    assert "'x' holds whole numbers such as" in calibrate("a.jsonl", target, code=3)
    calibrate("a.jsonl", "o.jsonl")
    assert json.loads(Path("o.jsonl").read_text().splitlines()[0])["x"] == value


@pytest.mark.parametrize("digits", [301, 400])
@pytest.mark.parametrize("target", ["o.parquet", "o.npz", "o.csv"])
def test_whole_numbers_beyond_float64_do_not_become_infinite(calibrate, digits, target):
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in objects(10 ** (digits - 1) + 1)))
    assert "'x' holds whole numbers such as 1000" in calibrate("a.jsonl", target, code=3)
    calibrate("a.jsonl", "o.jsonl")
    assert str(10 ** (digits - 1) + 1) in Path("o.jsonl").read_text()


def test_missing_values_beside_true_and_false_do_not_become_numbers(calibrate):
    pq.write_table(pa.table(SCORES | {"x": [True, None] * (N // 2)}), "a.parquet")
    assert "'x' has missing values beside true and false, which npz cannot hold" in calibrate(
        "a.parquet", "o.npz", code=3
    )
    calibrate("a.parquet", "o.jsonl")
    assert [json.loads(line)["x"] for line in Path("o.jsonl").read_text().splitlines()] == [True, None] * (N // 2)


def test_whole_numbers_that_only_float64_holds_keep_their_digits_as_text(calibrate):
    Path("a.jsonl").write_text("\n".join(map(json.dumps, objects(2**64))))
    calibrate("a.jsonl", "o.parquet")
    assert pq.read_table("o.parquet")["x"].to_pylist() == [2**64] * N
    assert f"'x' holds whole numbers such as {2**64}, which would be rounded" in calibrate("a.jsonl", "o.csv", code=3)
    Path("a.jsonl").write_text("\n".join(map(json.dumps, objects(10**30))))  # 1e+30 in text, and not exact as float64
    assert f"'x' holds whole numbers such as {10**30}, which would be rounded" in calibrate("a.jsonl", "o.csv", code=3)


MIXED = ["a", 1, 2**64, True, None, [1, "x"], {"b": 0.5}, "1", "\ud83d"]


def test_mixed_values_of_a_json_document_come_out_as_they_went_in(calibrate):
    Path("a.json").write_text(json.dumps(objects(*MIXED)))
    calibrate("a.json", "o.jsonl")
    assert [json.loads(line)["x"] for line in Path("o.jsonl").read_text().splitlines()][: len(MIXED)] == MIXED
    assert "'x' holds half of a surrogate pair" in calibrate("a.json", "o.csv", code=3)
    Path("a.json").write_text(json.dumps(objects(*MIXED[:-1])))
    calibrate("a.json", "o.csv")
    assert texts("o.csv")[: len(MIXED) - 1] == ["a", "1", str(2**64), "true", "", '[1, "x"]', '{"b": 0.5}', "1"]
    assert "'x' holds values of different kinds, which parquet cannot hold" in calibrate("a.json", "o.parquet", code=3)


def test_truth_values_beside_numbers_of_a_json_document_are_no_numbers(calibrate):
    Path("a.json").write_text(json.dumps(objects(1, True, 0.5)))
    assert "'x' holds values of different kinds" in calibrate("a.json", "o.npz", code=3)


def test_data_sets_of_hdf5_keep_their_text_and_single_values(calibrate):
    h5py = pytest.importorskip("h5py")
    pairs = np.array([["a", "é"]] * N, dtype=object)
    with h5py.File("a.h5", "w") as file:
        for name, values in SCORES.items():
            file[name] = values
        file.create_dataset("x", data=pairs, dtype=h5py.string_dtype())
        file["version"], file["note"], file["nothing"] = 3, "made in May", h5py.Empty("f8")
    calibrate("a.h5", "o.npz")
    found = arrays("o.npz")
    assert found["x"].tolist() == pairs.tolist()
    assert (found["version"], found["note"]) == (3, "made in May")
    assert "left out of the table: note, version" in calibrate("a.h5", "o.csv")


def test_text_of_hdf5_is_not_padded_to_its_longest_value(run, calibrate):
    h5py = pytest.importorskip("h5py")
    site = np.array(["a", "b"] * 5000, dtype=object)
    site[7] = "y" * 50_000  # 2 GB if every value were as wide
    with h5py.File("a.h5", "w") as file:
        file["confidence"], file["hit"] = np.full(10_000, 0.7), np.ones(10_000, dtype=int)
        file.create_dataset("x", data=site, dtype=h5py.string_dtype())
    calibrate("a.h5", "o.csv")
    assert texts("o.csv") == site.tolist()
    assert "'x' holds text that takes 1.9 GiB padded" in calibrate("a.h5", "o.npz", code=3)
    assert "a.h5,b,4999," in run("metrics", "a.h5", "--by", "x", "-m", "ece", "-f", "csv").out


@pytest.mark.parametrize("source", ["a.parquet", "a.arrows"])
def test_categories_that_differ_from_batch_to_batch_go_into_one_arrow_file(run, calibrate, source):
    groups = [["low", None, "high"], ["mid", "low", "top"], ["high", "new", "mid"]]
    flat = [group for three in groups for group in three]
    parts = [
        pa.table({"confidence": [0.6, 0.7, 0.8], "hit": [0, 1, 1], "x": pa.array(group).dictionary_encode()})
        for group in groups
    ]
    with (
        pq.ParquetWriter(source, parts[0].schema)
        if source == "a.parquet"
        else pa.ipc.new_stream(source, parts[0].schema) as out
    ):
        for part in parts:
            out.write_table(part)
    calibrate(source, "o.arrow")
    found = pa.ipc.open_file("o.arrow").read_all()["x"]
    assert found.to_pylist() == flat
    assert pa.types.is_dictionary(found.type)
    calibrate("o.arrow", "again.arrow")
    assert pa.ipc.open_file("again.arrow").read_all()["x"].to_pylist() == flat


def test_numbers_in_views_of_text_are_read(run):
    whole = pa.table(SCORES | {"confidence": pa.array(map(str, SCORES["confidence"]), pa.string_view())})
    with pa.ipc.new_file("a.arrow", whole.schema) as out:
        out.write_table(whole)
    assert "0.64750" in run("metrics", "a.arrow", "-m", "ece").out
