"""Group keys compare by value, not by type or spelling."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bpmcli.io.group_keys import group_name, group_names


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (("1", "1.0", "1.000"), "1"),
        (("-3", "-3.0"), "-3"),
        (("0", "0.0", "-0", "-0.0"), "0"),
        (("2.5", "2.50"), "2.5"),
        (("true", "TRUE", "True"), "True"),
        (("007",), "007"),
        (("1e3",), "1e3"),
        (("NA",), "NA"),
        (("1.",), "1."),
        (("", " "), None),
    ],
)
def test_one_value_has_one_name(texts, name):
    assert {group_name(text) for text in texts} == ({name} if name is not None else set(texts))


def test_arrays_of_every_type_give_the_same_names():
    for values in (np.array([1, 2]), np.array([1.0, 2.0]), np.array(["1", "2.0"]), np.array([1, 2], dtype=np.uint8)):
        assert group_names(values).tolist() == ["1", "2"]
    assert group_names(np.array([True, False])).tolist() == group_names(np.array(["true", "false"])).tolist()
    assert group_names(np.array([1e22, 0.1])).tolist() == ["1e+22", "0.1"]


def test_groups_fitted_as_integers_are_found_as_floats_and_text(run):
    rng = np.random.default_rng(0)
    s, g = rng.beta(2, 0.5, 1200), np.arange(1200) % 2 + 1
    hit = rng.random(1200) < np.where(g == 1, s, s**3)
    kinds = {"int": g, "float": g.astype(float), "text": g.astype(str).tolist(), "float_text": [f"{k}.0" for k in g]}
    for name, column in kinds.items():
        pq.write_table(pa.table({"confidence": s, "hit": hit, "site": column}), f"{name}.parquet")
    run("fit", "int.parquet", "--by", "site", "-o", "p.json")
    assert sorted(json.loads(Path("p.json").read_text())["grouping"]["groups"]) == ["1", "2"]
    outputs = []
    for name in kinds:
        ran = run("apply", "p.json", f"{name}.parquet", "-o", f"{name}.out.parquet")
        assert "pooled" not in ran.err, name
        outputs.append(pq.read_table(f"{name}.out.parquet").column("confidence").to_pylist())
    assert all(found == outputs[0] for found in outputs)
    names = [json.loads(run("metrics", f"{k}.parquet", "--by", "site", "-m", "ece", "-f", "json").out) for k in kinds]
    assert all([r["group"] for r in found["results"]] == ["1", "2"] for found in names)


def test_summaries_hold_log_odds_of_any_size(run):
    """Release 0.1.0: `summarize` wrote files that `metrics` refused."""
    Path("a.csv").write_text("log_odds,hit\n800,1\n700,1\n-800,0\n1,0\n")
    run("summarize", "a.csv", "-o", "cells.parquet")
    stored = json.loads(run("metrics", "cells.parquet", "-m", "ece", "-f", "json").out)["results"][0]["metrics"]
    direct = json.loads(run("metrics", "a.csv", "-m", "ece", "-f", "json").out)["results"][0]["metrics"]
    assert stored == direct


def test_bytes_that_are_no_text_are_different_groups(run):
    np.savez("a.npz", confidence=np.full(60, 0.7), hit=np.arange(60) % 2, site=np.array([b"\xff", b"\xfe", b"a"] * 20))
    shown = run("metrics", "a.npz", "--by", "site", "-m", "ece", "-f", "csv", "-q").out.splitlines()[1:]
    assert [line.split(",")[1:3] for line in shown] == [["\\xfe", "20"], ["\\xff", "20"], ["a", "20"]]
