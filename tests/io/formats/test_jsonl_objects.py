"""Objects of class probabilities in JSON lines and in arrow files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

GOOD = {"probs": {"cat": 0.4, "dog": 0.6}, "label": "dog"}


def write(name: str, *rows: object) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("probs", "label", "said"),
    [
        ({"cat": 0.5, "dog": "x"}, "cat", "'probs.dog' holds numbers first and text later (row 31)"),
        ({"cat": 0.5}, "cat", "a value is missing in 'probs' (row 31)"),
        (None, "cat", "a value is missing in 'probs' (row 31)"),
        ({"cat": 1.5, "dog": -0.5}, "cat", "found -0.5 (row 31)"),
        ([0.5, 0.5], "cat", "'probs' holds objects first and lists later (row 31)"),
        ({"cat": 0.5, "dog": 0.5}, "cow", "label 'cow' is not a class (row 31)"),
    ],
)
def test_malformed_objects_are_refused_with_their_row(run, probs, label, said):
    write("a.jsonl", *[GOOD] * 30, {"probs": probs, "label": label})
    assert said in run("metrics", "a.jsonl", "-m", "ece", code=3).err


def test_the_order_of_the_keys_does_not_matter(run):
    write("a.jsonl", *[GOOD] * 15, *[{"probs": {"dog": 0.6, "cat": 0.4}, "label": "dog"}] * 15)
    found = json.loads(run("metrics", "a.jsonl", "-m", "ece", "-f", "json").out)["results"][0]
    assert (found["accuracy"], found["classes"]) == (1.0, 2)
    assert found["mean_confidence"] == pytest.approx(0.6)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "csv"])
def test_apply_keeps_the_names_of_the_classes(run, suffix):
    rng = np.random.default_rng(0)
    p = rng.random(120)
    rows = [{"probs": {"cat": x, "dog": 1 - x}, "label": "cat" if rng.random() < 0.5 else "dog"} for x in p.tolist()]
    write("a.jsonl", *rows)
    run("fit", "a.jsonl", "--method", "temperature", "-o", "p.json")
    run("apply", "p.json", "a.jsonl", "-o", f"out.{suffix}")
    found = json.loads(run("metrics", f"out.{suffix}", "-m", "ece", "-f", "json").out)["results"][0]
    before = json.loads(run("metrics", "a.jsonl", "-m", "ece", "-f", "json").out)["results"][0]
    assert (found["classes"], found["accuracy"]) == (2, before["accuracy"])
    assert found["mean_confidence"] < before["mean_confidence"]
    if suffix == "jsonl":
        assert list(json.loads(Path("out.jsonl").read_text().splitlines()[0])["probs"]) == ["cat", "dog"]


@pytest.mark.parametrize("as_probs", [False, True])
def test_other_objects_stay_one_column_of_csv(run, as_probs):
    place = [{"lat": 1.5, "lon": 2.5}, None, {"lat": None, "lon": 3.5}] * 40
    logits = [{"cat.x": x, "dog": -x} for x in np.random.default_rng(0).normal(size=120).tolist()]
    label = ["cat.x", "dog", "dog"] * 40
    pq.write_table(pa.table({"logits": logits, "place": place, "label": label}), "a.parquet")
    run("fit", "a.parquet", "--method", "temperature", "-o", "p.json")
    run("apply", "p.json", "a.parquet", "-o", "out.csv", *(["--as", "probs"] if as_probs else []))
    with open("out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    name = "probs" if as_probs else "logits"
    assert list(rows[0]) == [f"{name}.cat.x", f"{name}.dog", "place", "label"]
    assert [row["place"] and json.loads(row["place"]) for row in rows[:3]] == [place[0], "", place[2]]


def test_sparse_vectors_of_spark_are_refused(run):
    fields = {"type": pa.int8(), "size": pa.int32(), "indices": pa.list_(pa.int32()), "values": pa.list_(pa.float64())}
    dense = {"type": 1, "size": None, "indices": None, "values": [0.3, 0.7]}
    sparse = {"type": 0, "size": 2, "indices": [1], "values": [1.0]}
    column = pa.array([dense, sparse], pa.struct(list(fields.items())))
    pq.write_table(pa.table({"probability": column, "label": [1, 1]}), "a.parquet")
    said = run("metrics", "a.parquet", code=3).err
    assert "'probability': holds sparse vectors" in said
    assert "df.withColumn('probability', pyspark.ml.functions.vector_to_array('probability'))" in said


def test_scores_that_are_long_whole_numbers_are_read_by_apply_too(run, unjudged):
    whole = [10**30, 2, -(10**30), 1.5]
    for name, scores in (("log_odds", whole * 20), ("logits", [[x, 0] for x in whole] * 20)):
        outcome = {"hit": 1} if name == "log_odds" else {"label": 0}
        Path("a.jsonl").write_text("\n".join(json.dumps({name: x, **outcome, "key": 10**30}) for x in scores))
        run("fit", "a.jsonl", "--method", "platt", "-o", "p.json")
        run("apply", "p.json", "a.jsonl", "-o", "o.jsonl")
        rows = [json.loads(line) for line in Path("o.jsonl").read_text().splitlines()]
        assert [row["key"] for row in rows] == [10**30] * 80


def test_a_group_that_is_empty_text_in_every_row_gets_the_pooled_calibrator(run):
    write("a.jsonl", *({"confidence": 0.6 + i % 40 / 100, "hit": i % 3 > 0, "site": "ab"[i % 2]} for i in range(120)))
    run("fit", "a.jsonl", "--by", "site", "--method", "platt", "-o", "p.json")
    write("b.jsonl", *({"confidence": 0.7, "site": "", "note": [1]} for _ in range(3)))
    run("apply", "p.json", "b.jsonl", "-o", "c.jsonl")
    assert [json.loads(line)["site"] for line in Path("c.jsonl").read_text().splitlines()] == [""] * 3
