"""Odd inputs must end in a message that names the place, and never in an arbitrary number."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import arrays

from bpmcli.io.formats import jsonl_file
from bpmcli.io.readers import SUMMARY_KEY

Run = Callable[..., Any]
SAMPLE_DATA = Path(__file__).resolve().parents[2] / "sample_data"
VAL, TEST = (SAMPLE_DATA / f"digits_{name}.npz" for name in ("val", "test"))


def write_rows(path: str, weights: np.ndarray, hits: np.ndarray | None = None) -> None:
    rng = np.random.default_rng(1)
    s = rng.random(weights.size)
    hits = rng.random(s.size) < s if hits is None else hits
    pq.write_table(pa.table({"confidence": s, "hit": hits, "w": weights}), path)


# ---------------------------------------------------------------- one outcome


@pytest.mark.parametrize("prior", ["beta", "logit-logit", "logflip-logflip"])
@pytest.mark.parametrize("mode", ["--exact", "--summary"])
@pytest.mark.parametrize("what", ["correct", "wrong"])
def test_weighted_rows_of_one_outcome_are_told(run: Run, prior: str, mode: str, what: str) -> None:
    for seed in range(3):  # sums of weights round up, down, or not at all
        weights = np.random.default_rng(seed).exponential(size=1000)
        write_rows("w.parquet", weights, np.full(1000, what == "correct"))
        ran = run("fit", "w.parquet", "--weight", "w", "--prior", prior, mode)
        document = json.loads(ran.out)
        assert f"all rows are {what}" in ran.err
        assert document["sample"]["accuracy"] == (what == "correct")
        assert document["fit"]["evaluations"] == 1


# ---------------------------------------------------------------- columns


@pytest.mark.parametrize("command", ["metrics", "fit", "summarize"])
@pytest.mark.parametrize("form", ["npz", "parquet", "jsonl"])
def test_groups_are_one_value_per_row(run: Run, command: str, form: str) -> None:
    rows = arrays(VAL)
    lists = {"logits": rows["logits"].tolist(), "labels": rows["labels"].tolist()}
    if form == "npz":
        np.savez("x.npz", **rows)
    elif form == "parquet":
        pq.write_table(pa.table(lists), "x.parquet")
    else:
        lines = [json.dumps(dict(zip(lists, row, strict=True))) for row in zip(*lists.values(), strict=True)]
        Path("x.jsonl").write_text("\n".join(lines))
    out = ("-o", "out.parquet") if command == "summarize" else ()
    ran = run(command, f"x.{form}", "--by", "logits", *out, code=3)
    assert "'logits' must hold one value per row" in ran.err


def test_predictions_are_one_value_per_row(run: Run) -> None:
    table = pa.table({"confidence": [0.5, 0.6], "prediction": [[1], [1, 2]], "label": [1, 0]})
    pq.write_table(table, "x.parquet")
    assert "'prediction' must hold one value per row" in run("metrics", "x.parquet", code=3).err


def test_a_missing_value_is_named(run: Run) -> None:
    Path("x.csv").write_text("confidence,hit,g\n0.5,1,a\n0.6,,a\n,1,a\n0.7,0,\n")
    assert "a value is missing in 'hit' (row 2; 2 such rows here)" in run("metrics", "x.csv", code=3).err
    ran = run("metrics", "x.csv", "--by", "g", "--skip-missing", "-m", "ece")
    assert "3 rows without a score, label or group were skipped" in ran.err


# ---------------------------------------------------------------- parameter files


@pytest.fixture
def marginal(run: Run, unjudged: None) -> dict[str, Any]:
    run("fit", VAL, "--marginal", "--method", "platt", "--min-group", 1, "-o", "p.json")
    return json.loads(Path("p.json").read_text())


def refused(run: Run, document: dict[str, Any]) -> str:
    Path("bad.json").write_text(json.dumps(document))
    errors = [
        run("apply", "bad.json", TEST, "-o", "out.npz", code=3).err,
        run("compare", "metrics", "--truth", "bad.json", "--runs", 1, code=3).err,
    ]
    assert all("bad.json: " in error for error in errors)
    return errors[0]


@pytest.mark.parametrize("odd", [[], {}, ["a"], {"a": 1}, 3, True])
def test_parameter_files_of_odd_types(run: Run, marginal: dict[str, Any], odd: Any) -> None:
    grouping = marginal["grouping"]
    name = next(iter(grouping["groups"]))
    assert "bad.json: method: must be text" in refused(run, {**marginal, "method": odd})
    assert "grouping.column: must be text" in refused(run, {**marginal, "grouping": {**grouping, "column": odd}})
    if not isinstance(odd, dict):
        groups = {**grouping["groups"], name: {"n": 1, "parameters": odd}}
        text = refused(run, {**marginal, "grouping": {**grouping, "groups": groups}})
        assert f"bad.json: grouping.groups.{name}.parameters: must be an object" in text


@pytest.mark.usefixtures("unjudged")
def test_a_truth_whose_report_is_none(run: Run) -> None:
    run("fit", VAL, "-o", "p.json")
    document = json.loads(Path("p.json").read_text())
    for odd in ({}, None, {"density": []}, {"density": None}):
        Path("bad.json").write_text(json.dumps({**document, "fit": odd}))
        assert "no Beta distribution" in run("compare", "metrics", "--truth", "bad.json", code=3).err


@pytest.mark.usefixtures("unjudged")
def test_knots_ascend(run: Run) -> None:
    run("fit", TEST, "--method", "bpm-averaged", "-o", "p.json")
    document = json.loads(Path("p.json").read_text())
    knots = document["parameters"]["knots"]
    assert len(knots) > 1
    for bad in (knots[::-1], [knots[1], *knots[1:]]):
        Path("bad.json").write_text(json.dumps({**document, "parameters": {**document["parameters"], "knots": bad}}))
        assert "not in ascending order" in run("apply", "bad.json", TEST, "-o", "out.npz", code=3).err


# ---------------------------------------------------------------- summaries


@pytest.mark.parametrize("count", [4.6e18, 1e99])
def test_weights_and_their_squares_belong_together(run: Run, count: float) -> None:
    write_rows("rows.parquet", np.random.default_rng(0).exponential(size=500))
    run("summarize", "rows.parquet", "--weight", "w", "-o", "cells.parquet")
    table = pq.read_table("cells.parquet")
    counts = table.column("count").to_numpy().copy()
    counts[7] = count
    at = table.column_names.index("count")
    pq.write_table(table.set_column(at, "count", pa.array(counts)), "bad.parquet")
    assert "contradicts its header" in run("metrics", "bad.parquet", "-m", "all", code=3).err
    about = json.loads(table.schema.metadata[SUMMARY_KEY.encode()])
    about["tables"][0]["weight_squares"] = 1.1 * float(table.column("count").to_numpy().sum()) ** 2
    pq.write_table(table.replace_schema_metadata({SUMMARY_KEY: json.dumps(about)}), "bad.parquet")
    assert "contradicts its header" in run("metrics", "bad.parquet", "-m", "all", code=3).err


@pytest.mark.parametrize("heavy", [1e18, 1e79])
def test_what_summarize_writes_metrics_reads(run: Run, heavy: float) -> None:
    weights = np.ones(500)
    weights[3] = heavy
    write_rows("rows.parquet", weights)
    run("summarize", "rows.parquet", "--weight", "w", "-o", "cells.parquet")
    run("metrics", "cells.parquet", "-m", "all")


@pytest.mark.parametrize(("weight", "why"), [(1e120, "too large"), (1e290, "too large"), (1e-200, "too small")])
def test_weights_that_no_summary_can_hold(run: Run, weight: float, why: str) -> None:
    write_rows("rows.parquet", np.full(500, weight))
    ran = run("summarize", "rows.parquet", "--weight", "w", "-o", "cells.parquet", code=3)
    assert why in ran.err
    assert "only ratios of weights count" in ran.err
    run("metrics", "rows.parquet", "--weight", "w", "-m", "ece")


def test_a_summary_cannot_be_made_rows_again(run: Run) -> None:
    run("summarize", VAL, "-o", "cells.parquet")
    run("fit", VAL, "-o", "p.json")
    for options in (["--method", "temperature"], ["--method", "ets"], ["--classwise"], ["--marginal"]):
        assert "give the files that were summarised" in run("fit", "cells.parquet", *options, code=2).err
    assert "is a summary" in run("apply", "p.json", "cells.parquet", "-o", "out.parquet", code=3).err


# ---------------------------------------------------------------- several files


def test_files_that_do_not_go_together_are_named(run: Run) -> None:
    rng = np.random.default_rng(0)
    for name, n in (("a", 300), ("b", 300), ("c", 200)):
        s = rng.random(n)
        pq.write_table(pa.table({"probs": s, "label": (rng.random(n) < s).astype(int)}), f"{name}.parquet")
    run("summarize", "a.parquet", "--event", "-o", "event.parquet")
    for mode in ("--exact", "--summary"):
        error = run("metrics", "--pool", "b.parquet", "event.parquet", mode, code=3).err
        assert "event.parquet is about P(y = 1), b.parquet about the predicted class" in error
    for other, what in (("b", "the labels differ"), ("c", "one file has 300 rows")):
        error = run("compare", "metrics", "a.parquet", f"{other}.parquet", "--paired", code=3).err
        assert f"a.parquet and {other}.parquet: {what}" in error


def test_few_resamples_give_no_interval(run: Run) -> None:
    for options in (["--interval", "0.9"], ["--fail-above", "ece=0.9", "--gate-confidence", "0.9"]):
        assert "between 20 and" in run("metrics", VAL, "-m", "ece", *options, "--resamples", 19, code=2).err
    assert "between 20 and" in run("compare", "metrics", VAL, TEST, "--paired", "--resamples", 1, code=2).err


def test_a_number_too_large_is_found_in_its_row(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_file, "BLOCK", 1 << 16)
    for row, number in ((3, "1e999"), (5_000, "-1e999")):
        lines = ['{"confidence": 0.5, "hit": 1}'] * 5_001
        lines[row - 1] = f'{{"confidence": {number}, "hit": 1}}'
        Path("x.jsonl").write_text("\n".join(lines))
        ran = run("metrics", "x.jsonl", code=3)
        assert f"holds {number}, which is too large for a number (row {row})" in ran.err


def test_rows_of_jsonl_are_counted_from_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_file, "BLOCK", 1 << 16)
    good, bad = '{"confidence": 0.5, "hit": 1}\n', '{"confidence": 0.5, "confidence": 0.6, "hit": 1}\n'
    Path("x.jsonl").write_text(good + bad)
    assert "specified twice in row 2" in run("metrics", "x.jsonl", code=3).err
    Path("x.jsonl").write_text(good * 5_000 + bad)  # where a block begins is not known
    error = run("metrics", "x.jsonl", code=3).err
    assert "specified twice" in error
    assert "in row" not in error


def test_a_curve_that_touches_zero_is_written_above_it(run: Run) -> None:
    rng = np.random.default_rng(0)
    s = rng.random(2000)
    lines = [f"{a},{int(b)}" for a, b in zip(s, rng.random(2000) < np.maximum(0, 2 * s - 1), strict=True)]
    Path("x.csv").write_text("\n".join(["confidence,hit", *lines]) + "\n")
    run("fit", "x.csv", "--prior", "logflip-logflip", "-o", "p.json")
    run("apply", "p.json", "x.csv", "-o", "y.csv")
    written = [line.split(",")[0] for line in Path("y.csv").read_text().splitlines()[1:]]
    assert float(min(written, key=float)) == 1e-15  # where the curve itself is 0
    assert not any(text.startswith("-") for text in written)


def test_logits_at_the_end_of_the_range(run: Run) -> None:
    rng = np.random.default_rng(0)
    logits = rng.choice([-1e308, 0.0, 1.0, 1e308], size=(400, 3))
    np.savez("x.npz", logits=logits, labels=rng.integers(0, 3, 400))
    run("metrics", "x.npz", "-m", "ece")
    run("fit", "x.npz", "--marginal", "--method", "platt")
