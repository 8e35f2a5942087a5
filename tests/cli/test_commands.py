"""Each command as a user runs it: content, exit codes, files."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import forked
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import remembered
from conftest import ROOT, SAMPLE_DATA, arrays, untraced

from bpmcli import __version__
from bpmcli.core.metrics import METRICS, everyday_metrics

VAL, TEST = SAMPLE_DATA / "digits_val.npz", SAMPLE_DATA / "digits_test.npz"
OVER = SAMPLE_DATA / "digits_overconfident"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# ---------------------------------------------------------------- fit


def test_fit_writes_versioned_json_and_a_short_table(run):
    ran = run("fit", VAL, "-o", "params.json")
    document = json.loads(Path("params.json").read_text())
    assert document["schema"] == "bpmcli/calibrator"
    assert document["version"] == 1
    assert document["tool"] == f"bpmcli {__version__}"
    assert set(document["parameters"]) == {"alpha", "beta", "c"}
    assert {"objective", "evaluations", "converged", "schemes", "tce", "density"} <= set(document["fit"])
    assert document["sample"]["n"] == 599
    assert document["inputs"][0]["name"] == str(VAL)
    assert len(document["inputs"][0]["sha256"]) == 64
    assert "alpha" in ran.out


def test_fit_without_output_prints_the_parameters(run):
    ran = run("fit", VAL)
    run("fit", VAL, "-o", "params.json")
    assert ran.out == Path("params.json").read_text()
    assert json.loads(ran.out)["method"] == "bpm"


def test_same_input_same_bytes(run):
    for command in (("fit", VAL), ("metrics", VAL, "--noise-floor", "--noise-runs", 5)):
        first = run(*command).out
        remembered.forget()
        assert run(*command).out == first


@pytest.mark.usefixtures("unjudged")
def test_fit_options_reach_the_fit(run):
    plain = json.loads(run("fit", VAL).out)
    assert json.loads(run("fit", VAL, "--schemes", "all").out)["fit"]["schemes"] == list(range(5, 30))
    assert json.loads(run("fit", VAL, "--bins", "6:9").out)["fit"]["schemes"] == [6, 7, 8, 9]
    authors = json.loads(run("fit", VAL, "--variant", "authors").out)
    assert authors["parameters"] != plain["parameters"]
    assert authors["fit"]["variant"] == "authors"
    simplex = json.loads(run("fit", VAL, "--optimizer", "nelder-mead").out)
    assert simplex["fit"]["objective"] == pytest.approx(plain["fit"]["objective"], abs=1e-9)
    empirical = json.loads(run("fit", VAL, "--density", "empirical").out)
    assert empirical["fit"]["density"] == {"density": "empirical"}
    assert json.loads(run("fit", VAL, "--p", 2).out)["fit"]["tce"]["p"] == 2


def test_fit_on_too_few_rows_is_exit_code_four(run):
    np.savez("few.npz", confidence=np.linspace(0.1, 0.9, 30), hits=np.arange(30) % 2)
    ran = run("fit", "few.npz", "-o", "params.json", code=4)
    assert "few.npz: 30 rows are too few" in ran.err
    assert "hint: --method auto works with so few rows" in ran.err
    assert not Path("params.json").exists()
    run("fit", "few.npz", "--method", "auto", "-o", "params.json")
    assert json.loads(Path("params.json").read_text())["method"] == "bpm-averaged"


def test_below_ten_rows_every_hint_leads_to_a_method_that_works(run):
    np.savez("few.npz", confidence=np.linspace(0.1, 0.9, 9), hits=np.arange(9) % 2)
    for more in ([], ["--method", "auto"]):
        ran = run("fit", "few.npz", *more, "-o", "params.json", code=4)
        assert "hint: --method bpm-averaged works with" in ran.err
    run("fit", "few.npz", "--method", "bpm-averaged", "-o", "params.json")
    assert Path("params.json").exists()


def test_fit_several_inputs(run):
    ran = run("fit", VAL, TEST, code=2)
    assert "--output-dir DIR, or --pool" in ran.err
    run("fit", VAL, TEST, "--output-dir", "params")
    assert sorted(os.listdir("params")) == ["digits_test.json", "digits_val.json"]
    run("fit", VAL, TEST, "--pool", "-o", "both.json")
    pooled = json.loads(Path("both.json").read_text())
    assert pooled["sample"]["n"] == 2 * 599
    assert len(pooled["inputs"]) == 2


def test_all_hit_data_says_that_it_is(run):
    np.savez("hit.npz", confidence=np.linspace(0.5, 0.99, 100), hits=np.ones(100))
    assert "all rows are correct" in run("fit", "hit.npz", "-o", "p.json").err
    np.savez("event.npz", probs=np.linspace(0.01, 0.99, 100), labels=np.zeros(100, dtype=int))
    for method in ("bpm", "beta"):
        assert "all rows have y = 0" in run("fit", "event.npz", "--event", "--method", method, "-o", "p.json").err


# ---------------------------------------------------------------- apply


def test_apply_repairs_the_confidence(run):
    run("fit", VAL, "-o", "p.json")
    ran = run("apply", "p.json", TEST, "-o", "out.npz")
    before, after = (
        json.loads(run("metrics", path, "--format", "json").out)["results"][0] for path in (TEST, "out.npz")
    )
    assert after["accuracy"] == before["accuracy"]
    assert after["metrics"]["ece"]["value"] < before["metrics"]["ece"]["value"] / 2
    assert "599 rows" in ran.err
    with np.load("out.npz") as data, np.load(TEST) as source:
        assert set(data) == {"logits", "labels"}
        assert np.abs(np.exp(data["logits"]).sum(axis=1) - 1).max() < 1e-12
        assert np.array_equal(data["logits"].argmax(axis=1), source["logits"].argmax(axis=1))
        assert np.array_equal(data["labels"], source["labels"])


@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv", "jsonl"])
def test_apply_keeps_the_input_format_and_the_numbers(run, suffix):
    run("fit", VAL, "-o", "p.json")
    run("apply", "p.json", f"{OVER}.{suffix}", "-o", f"out.{suffix}")
    run("apply", "p.json", f"{OVER}.npz", "-o", "reference.npz")
    there, back = (table(run("metrics", f, "--format", "csv").out)[0] for f in (f"out.{suffix}", "reference.npz"))
    assert there.pop("input") != back.pop("input")
    assert there == back
    assert len(there) == 8 + len(everyday_metrics())  # four facts, the verdict, tce with its interval


def test_apply_converts_between_formats(run):
    run("fit", VAL, "-o", "p.json")
    run("apply", "p.json", f"{OVER}.csv", "-o", "a.npz")
    run("apply", "p.json", f"{OVER}.npz", "-o", "a.csv")
    run("apply", "p.json", f"{OVER}.jsonl", "-o", "a.parquet")
    run("apply", "p.json", f"{OVER}.parquet", "-o", "a.jsonl.gz")
    run("apply", "p.json", f"{OVER}.parquet", "-o", "a.feather")
    found = [
        json.loads(run("metrics", f, "--format", "json").out)["results"][0]["metrics"]
        for f in ("a.npz", "a.csv", "a.parquet", "a.jsonl.gz", "a.feather")
    ]
    assert all(f == found[0] for f in found)


def test_apply_keeps_other_columns_as_they_were(run):
    run("fit", VAL, "-o", "p.json")
    Path("a.csv").write_text('id,confidence,hit,note\n007,0.9,1,"a, b"\n008,0.99,0,\n')
    assert run("apply", "p.json", "a.csv").out.startswith("id,confidence,hit,note\n007,0.")
    rows = table(run("apply", "p.json", "a.csv").out)
    assert [r["id"] for r in rows] == ["007", "008"]
    assert rows[0]["note"] == "a, b"
    assert [r["hit"] for r in rows] == ["1", "0"]
    assert 0 < float(rows[0]["confidence"]) < float(rows[1]["confidence"]) < 1
    pq.write_table(pa.table({"name": ["x", None], "confidence": [0.5, 0.7], "tags": [["a"], []]}), "a.parquet")
    run("apply", "p.json", "a.parquet", "-o", "b.parquet")
    back = pq.read_table("b.parquet")
    assert back.column_names == ["name", "confidence", "tags"]
    assert back["name"].to_pylist() == ["x", None]
    assert back["tags"].to_pylist() == [["a"], []]


def test_apply_needs_no_labels(run):
    run("fit", VAL, "-o", "p.json")
    np.savez("new.npz", logits=np.array([[3.0, 1.0], [0.0, 9.0]]))
    run("apply", "p.json", "new.npz", "-o", "out.npz")
    with np.load("out.npz") as data:
        assert data["logits"].argmax(axis=1).tolist() == [0, 1]


def test_apply_event_probabilities(run):
    run("fit", SAMPLE_DATA / "digits_even.csv", "--event", "-o", "p.json")
    assert json.loads(Path("p.json").read_text())["target"] == "event"
    rows = table(run("apply", "p.json", SAMPLE_DATA / "digits_even.csv").out)
    p, y = np.array([float(r["prob"]) for r in rows]), np.array([int(r["label"]) for r in rows])
    assert abs(p.mean() - y.mean()) < 0.02
    Path("cal.csv").write_text(run("apply", "p.json", SAMPLE_DATA / "digits_even.csv").out)
    before, after = (
        json.loads(run("metrics", f, "--event", "--format", "json").out)["results"][0]
        for f in (SAMPLE_DATA / "digits_even.csv", "cal.csv")
    )
    assert after["target"] == "event"
    assert after["metrics"]["ece"]["value"] < before["metrics"]["ece"]["value"] / 2


def test_apply_keeps_the_class_silently_and_counts_rows_where_it_may_change(run):
    Path("p.json").write_text(json.dumps({
        "schema": "bpmcli/calibrator", "version": 1, "method": "bpm", "target": "top-label",
        "parameters": {"alpha": 1.0, "beta": 1.0, "c": 2.0}, "fit": {}, "sample": {}, "inputs": [],
    }))  # fmt: skip
    np.savez("a.npz", logits=np.log([[0.5, 0.4, 0.1], [0.98, 0.01, 0.01]]), labels=[0, 0])
    ran = run("apply", "p.json", "a.npz", "--as", "probs", "-o", "kept.npz")
    assert "note" not in ran.err
    with np.load("kept.npz") as data:
        assert data["probs"].argmax(axis=1).tolist() == [0, 0]
        assert np.abs(data["probs"].sum(axis=1) - 1).max() < 1e-12
    ran = run("apply", "p.json", "a.npz", "--as", "probs", "-o", "changed.npz", "--allow-argmax-change")
    assert "the predicted class changed" in ran.err
    with np.load("changed.npz") as data:
        assert data["probs"].argmax(axis=1).tolist() == [1, 0]
        g = 1 / (1 + np.exp(2.0))  # even odds, less the shift
        assert data["probs"][0, 0] == pytest.approx(g, rel=1e-12)
        assert data["probs"][0, 1] == pytest.approx((1 - g) * 0.8, rel=1e-12)


def test_output_dir_mirrors_the_tree_and_skips_what_is_up_to_date(run):
    run("fit", VAL, "-o", "p.json")
    for name in ("a/x.csv", "a/b/y.csv", "z.csv"):
        Path("in", name).parent.mkdir(parents=True, exist_ok=True)
        Path("in", name).write_text("confidence\n0.5\n0.9\n")
    Path("in/readme.md").write_text("not data")
    run("apply", "p.json", "in", "--output-dir", "out")
    made = sorted(str(p.relative_to("out")) for p in Path("out").rglob("[a-z]*") if p.is_file())
    assert made == ["a/b/y.csv", "a/x.csv", "z.csv"]
    assert "3 of 3 outputs are up to date" in run("apply", "p.json", "in", "--output-dir", "out").err
    os.utime("in/z.csv", (2e9, 2e9))
    assert "2 of 3 outputs are up to date" in run("apply", "p.json", "in", "--output-dir", "out").err
    assert "up to date" not in run("apply", "p.json", "in", "--output-dir", "out", "--force").err
    # Other parameters or options make other outputs, whatever the clock says.
    assert "up to date" not in run("apply", "p.json", "in", "--output-dir", "out", "--allow-argmax-change").err
    run("fit", TEST, "-o", "q.json")
    os.utime("q.json", (1e9, 1e9))
    assert "up to date" not in run("apply", "q.json", "in", "--output-dir", "out").err
    # Outputs inside the input folder are not calibrated again.
    run("apply", "p.json", "in", "--output-dir", "in/cal")
    run("apply", "p.json", "in", "--output-dir", "in/cal", "--force")
    assert not Path("in/cal/cal").exists()


def test_outputs_never_overwrite_each_other(run):
    run("fit", VAL, "-o", "p.json")
    for name in ("one/a.csv", "two/a.csv"):
        Path(name).parent.mkdir()
        Path(name).write_text("confidence\n0.5\n")
    run("apply", "p.json", "one/a.csv", "two/a.csv", "--output-dir", "out")
    assert Path("out/one/a.csv").exists()
    assert Path("out/two/a.csv").exists()
    run("fit", f"{OVER}.npz", f"{OVER}.csv", "--output-dir", "params")
    made = {"digits_overconfident.npz.json", "digits_overconfident.csv.json"}
    assert set(os.listdir("params")) == made


def test_apply_needs_all_classes_where_the_method_does(run):
    run("fit", VAL, "--method", "temperature", "-o", "p.json")
    Path("a.csv").write_text("confidence\n0.5\n")
    assert "needs the scores of all classes" in run("apply", "p.json", "a.csv", code=3).err


def test_apply_keeps_lists_and_arrays_without_rows(run):
    run("fit", VAL, "-o", "p.json")
    Path("a.jsonl").write_text('{"logprobs": [-1.0, -2.0]}\n{"logprobs": [-3.0, -0.5, -2.0]}\n')
    lines = [json.loads(line) for line in run("apply", "p.json", "a.jsonl").out.splitlines()]
    assert [len(line["logprobs"]) for line in lines] == [2, 3]
    assert [sum(np.exp(line["logprobs"])) for line in lines] == pytest.approx([1, 1])
    lines = [json.loads(line) for line in run("apply", "p.json", "a.jsonl", "--as", "probs").out.splitlines()]
    assert [len(line["probs"]) for line in lines] == [2, 3]
    pq.write_table(pa.table({"probs": [[0.5, 0.5], [0.9, 0.1]]}), "a.parquet")
    run("apply", "p.json", "a.parquet", "-o", "b.parquet")
    assert pq.read_table("b.parquet").column_names == ["probs"]
    np.savez("a.npz", logits=np.zeros((3, 2)), classes=np.array(["x", "y"]))
    run("apply", "p.json", "a.npz", "-o", "b.npz")
    with np.load("b.npz") as data:
        assert data["classes"].tolist() == ["x", "y"]


def test_apply_refuses_to_overwrite_its_input(run):
    run("fit", VAL, "-o", "p.json")
    Path("a.csv").write_text("confidence\n0.5\n")
    assert "is the input itself" in run("apply", "p.json", "a.csv", "-o", "a.csv", code=2).err


def test_nothing_is_half_written(run):
    run("fit", VAL, "-o", "p.json")
    Path("bad.csv").write_text("confidence,hit\n" + "0.5,1\n" * 1000 + "1.7,1\n")
    ran = run("apply", "p.json", "bad.csv", "-o", "out.csv", code=3)
    assert "(row 1001" in ran.err
    assert sorted(os.listdir(".")) == ["bad.csv", "p.json"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not JSON"),
        ("{}", "is not a bpmcli/calibrator file"),
        ('{"schema": "bpmcli/calibrator", "version": 99}', "has version 99"),
        ('{"schema": "bpmcli/calibrator", "version": 1, "method": "magic", "target": "event", "parameters": {}}', "method: 'magic' is unknown"),
        ('{"schema": "bpmcli/calibrator", "version": 1, "method": "bpm", "target": "top-label"}', "parameters: is missing"),
        ('{"schema": "bpmcli/calibrator", "version": 1, "method": "bpm", "target": "top-label", "parameters": {"alpha": 1}}', "parameters: parameters must be"),
        ('{"schema": "bpmcli/calibrator", "version": 1, "method": "bpm", "target": "top-label", "parameters": {"alpha": NaN, "beta": 1, "c": 0}}', "parameters.alpha: must be a finite number, found nan"),
        ('{"schema": "bpmcli/metrics", "version": 1}', "is not a bpmcli/calibrator file but \"bpmcli/metrics\""),
    ],
)  # fmt: skip
def test_bad_parameter_files(run, text, sentence):
    Path("p.json").write_text(text)
    ran = run("apply", "p.json", TEST, "-o", "out.npz", code=3)
    assert f"p.json: {sentence}" in ran.err
    assert not Path("out.npz").exists()


def test_bad_targets_leave_a_sentence(run):
    run("fit", VAL, "-o", "p.json")
    Path("file").write_text("")
    assert "cannot be written" in run("apply", "p.json", TEST, "-o", "file/out.npz", code=3).err
    Path("folder.npz").mkdir()
    assert "cannot be written" in run("apply", "p.json", TEST, "-o", "folder.npz", code=3).err
    assert "cannot write '.xyz'" in run("apply", "p.json", TEST, "-o", "out.xyz", code=2).err
    assert "cannot go to standard output" in run("apply", "p.json", TEST, code=2).err
    assert sorted(os.listdir(".")) == ["file", "folder.npz", "p.json"]


# ---------------------------------------------------------------- metrics


def test_metrics_in_every_format(run):
    text = run("metrics", TEST).out
    assert all(name in text for name in everyday_metrics())
    document = json.loads(run("metrics", TEST, "--format", "json").out)
    assert (document["schema"], document["version"]) == ("bpmcli/metrics", 1)
    record = document["results"][0]
    assert record["n"] == 599
    assert record["target"] == "top-label"
    assert set(record["metrics"]) == {"tce", *everyday_metrics()}
    every = json.loads(run("metrics", TEST, "-m", "all", "--format", "json").out)["results"][0]["metrics"]
    assert set(every) == set(METRICS)
    (values,) = table(run("metrics", TEST, "--format", "csv").out)
    assert float(values["tce-bpm"]) == record["metrics"]["tce-bpm"]["value"], "csv keeps full precision"
    assert run("metrics", TEST, "--format", "markdown").out.count("|") > 20


def test_several_inputs_make_one_row_each(run):
    rows = table(run("metrics", VAL, TEST, "--format", "csv", "-m", "ks").out)
    assert [r["input"] for r in rows] == [str(VAL), str(TEST)]
    assert set(rows[0]) == {"input", "rows", "accuracy", "mean confidence", "saturated", "ks"}
    assert len(table(run("metrics", VAL, "--format", "csv", "-m", "KS,ece").out)) == 1
    pooled = json.loads(run("metrics", VAL, TEST, "--pool", "--format", "json").out)["results"]
    assert [r["n"] for r in pooled] == [2 * 599]


def test_one_bad_file_does_not_stop_the_others(run):
    Path("bad.npz").write_bytes(b"PK\x03\x04 nothing")
    ran = run("metrics", VAL, "bad.npz", TEST, "--format", "csv", code=3)
    assert len(table(ran.out)) == 2
    assert "bad.npz" in ran.err
    ran = run("metrics", "bad.npz", code=3)
    assert ran.out == ""


def test_workers_do_not_change_the_answer(run):
    one = run("metrics", SAMPLE_DATA, "--format", "json").out
    two = forked.run("metrics", SAMPLE_DATA, "--format", "json", "-j", 2)
    assert two.out.decode() == one, two


def test_globs_and_directories(run):
    by_glob = table(run("metrics", SAMPLE_DATA / "digits_[tv]*.npz", "--format", "csv").out)
    assert [Path(r["input"]).name for r in by_glob] == ["digits_test.npz", "digits_val.npz"]
    assert "no file matches" in run("metrics", "*.nothing", code=3).err
    Path("empty").mkdir()
    assert "no file with a known suffix" in run("metrics", "empty", code=2).err


def test_metric_that_cannot_be_computed_is_missing_with_a_reason(run):
    np.savez("few.npz", confidence=[0.2, 0.9], hits=[0, 1])
    document = json.loads(run("metrics", "few.npz", "--format", "json").out)
    found = document["results"][0]["metrics"]["tce-bpm"]
    assert found["value"] is None
    assert "too few" in found["why_missing"]
    ran = run("metrics", "few.npz")
    assert "tce-bpm" in ran.out
    assert "no tce-bpm: 2 rows are too few" in ran.err


@pytest.mark.parametrize("hits", [[0] * 80, [1] * 80])
@pytest.mark.parametrize("confidence", [[0.7] * 80, list(np.linspace(0.1, 0.9, 80)), [1.0] * 80, [0.0] * 80])
def test_degenerate_data_gives_numbers(run, hits, confidence):
    np.savez("a.npz", confidence=confidence, hits=hits)
    found = json.loads(run("metrics", "a.npz", "--format", "json").out)["results"][0]["metrics"]
    gap = abs(np.mean(confidence) - np.mean(hits))
    for name, measured in found.items():
        assert measured["value"] is not None, name
    assert found["ks"]["value"] == pytest.approx(gap, abs=1e-9)
    assert found["smece"]["value"] == pytest.approx(gap, abs=1e-6)


def test_one_row(run):
    np.savez("a.npz", confidence=[0.7], hits=[1])
    found = json.loads(run("metrics", "a.npz", "--format", "json").out)["results"][0]["metrics"]
    assert found["ece"]["value"] == pytest.approx(0.3)
    assert found["tce-bpm"]["value"] is None


def test_weights_that_are_nearly_zero_are_no_bug(run):
    draw = np.random.default_rng(0)
    np.savez("a.npz", logits=draw.normal(size=(60, 3)), labels=draw.integers(0, 3, 60), w=np.full(60, 1e-310))
    said = run("fit", "a.npz", "--weight", "w", "--method", "ets", "-o", "p.json", code=3).err
    assert "all weights in 'w' are zero or below 1e-290" in said
    assert (
        "all weights in 'w' are zero or below 1e-290"
        in run("metrics", "a.npz", "--weight", "w", "--summary", code=3).err
    )


def test_weights(run):
    Path("a.csv").write_text("confidence,hit,w\n" + "0.9,1,3\n0.6,0,1\n" * 50)
    record = json.loads(run("metrics", "a.csv", "--weight", "w", "--format", "json").out)["results"][0]
    assert record["accuracy"] == pytest.approx(0.75)
    assert record["effective_n"] == pytest.approx(80.0)
    Path("b.csv").write_text("confidence,hit,w\n0.9,1,-1\n")
    assert (
        "b.csv: weights must be finite and not negative, found -1 (row 1)"
        in run("metrics", "b.csv", "--weight", "w", code=3).err
    )
    Path("d.csv").write_text("confidence,hit,w\n" + "0.9,1,1\n" * 9 + "0.6,0,1e-310\n")
    Path("e.csv").write_text("confidence,hit,w\n" + "0.9,1,1\n" * 9 + "0.6,0,0\n")
    shown = [
        run("metrics", path, "--weight", "w", "-m", "ece", "-q").out.split("\n")[1:] for path in ("d.csv", "e.csv")
    ]
    assert shown[0] == shown[1]
    Path("c.csv").write_text("confidence,hit,w\n" + "0.9,1,1\n" * 9 + "0.6,0,1e308\n")
    assert (
        "c.csv: weights must be at most 1e+290, found 1e+308 (row 10)"
        in run("metrics", "c.csv", "--weight", "w", code=3).err
    )
    assert "no column 'u'" in run("metrics", "a.csv", "--weight", "u", code=3).err


def test_nan_rows_can_be_skipped(run):
    np.savez("a.npz", logits=[[1.0, 0.0], [np.nan, 1.0], [0.0, 2.0]], labels=[0, 1, 1])
    assert "--skip-missing" in run("metrics", "a.npz", code=3).err
    ran = run("metrics", "a.npz", "--skip-missing", "--format", "json")
    assert json.loads(ran.out)["results"][0]["n"] == 2


def test_noise_floor_brackets_a_calibrated_model(run):
    run("simulate", "--curve", "identity", "--beta", "2,0.5", "-n", 1500, "-o", "calibrated.npz")
    record = json.loads(run("metrics", "calibrated.npz", "--noise-floor", "--noise-runs", 30, "--format", "json").out)[
        "results"
    ][0]
    for name, floor in record["noise_floor"].items():
        assert 0 < floor["mean"] < floor["high"], name
        assert floor["p_value"] > 0.01, name
    ran = run("metrics", VAL, "--noise-floor", "--noise-runs", 30, "--format", "json")
    over = json.loads(ran.out)["results"][0]
    assert over["noise_floor"]["ece"]["p_value"] == pytest.approx(1 / 31)


def test_bins_table(run):
    rows = table(run("metrics", TEST, "--bins-table", "--format", "csv").out)
    assert len(rows) == 15
    n = np.array([float(r["rows"]) for r in rows])
    gap = np.array([float(r["gap"]) for r in rows])
    ece = json.loads(run("metrics", TEST, "--format", "json").out)["results"][0]["metrics"]["ece"]["value"]
    assert n.sum() == 599
    assert n @ np.abs(gap) / 599 == pytest.approx(ece, rel=1e-12)
    for row in rows:
        assert float(row["accuracy_low"]) <= float(row["accuracy"]) <= float(row["accuracy_high"])
        assert float(row["lower"]) <= float(row["confidence"]) <= float(row["upper"])
    wide = json.loads(run("metrics", TEST, "--bins-table", "--binning", "width", "--format", "json").out)
    assert wide["results"][0]["bins"][-1]["upper"] == 1.0


def test_list_explains_every_metric(run):
    text = run("metrics", "--list").out
    assert all(name in text and METRICS[name].reference in text for name in METRICS)
    assert len(json.loads(run("metrics", "--list", "--format", "json").out)["metrics"]) == len(METRICS)


def test_explain_input(run):
    text = run("metrics", "--explain-input", f"{OVER}.csv").out
    assert "logit_0 … logit_9" in text
    assert "argmax = label" in text
    text = run("metrics", "--explain-input", SAMPLE_DATA / "digits_even.csv", "--event").out
    assert "P(y = 1) itself" in text


def test_standard_input(run, monkeypatch):
    class Stdin:
        def __init__(self, data):
            self.buffer = io.BytesIO(data)

    lines = b"confidence,hit\n" + b"0.9,1\n0.6,0\n" * 40
    monkeypatch.setattr(sys, "stdin", Stdin(lines))
    assert json.loads(run("metrics", "-", "--format", "json").out)["results"][0]["n"] == 80
    monkeypatch.setattr(sys, "stdin", Stdin(b'{"confidence": 0.9, "hit": 1}\n' * 3))
    assert json.loads(run("metrics", "-", "--format", "json").out)["results"][0]["n"] == 3
    monkeypatch.setattr(sys, "stdin", Stdin(b""))
    assert "standard input: no rows" in run("metrics", "-", code=3).err
    monkeypatch.setattr(sys, "stdin", Stdin(TEST.read_bytes()))
    assert json.loads(run("metrics", "-", "--format", "json").out)["results"][0]["n"] == len(np.load(TEST)["labels"])
    monkeypatch.setattr(sys, "stdin", Stdin(bytes(1000)))
    assert "standard input: is neither text nor a known format" in run("metrics", "-", code=3).err


# ---------------------------------------------------------------- gates


def test_gates(run):
    ran = run("metrics", TEST, "--fail-above", "ece=0.05", "--fail-above", "ks=0.5", code=1)
    assert "gate failed" in ran.err
    assert "ece = 0.08951, 0.03951 above the limit 0.05" in ran.err
    assert "gate passed" in ran.err
    assert "ks = 0.08951, within the limit 0.5" in ran.err
    assert "ece" in ran.out, "the table is still printed"
    run("metrics", TEST, "--fail-above", "ece=0.5", code=0)


def test_gate_measures_what_was_not_asked_for(run):
    assert "gate failed" in run("metrics", TEST, "-m", "ks", "--fail-above", "ece=0.05", code=1).err


def test_gate_on_a_metric_that_cannot_be_computed_fails(run):
    np.savez("few.npz", confidence=[0.2, 0.9], hits=[0, 1])
    assert "could not be measured" in run("metrics", "few.npz", "--fail-above", "tce-bpm=0.9", code=1).err


@pytest.mark.parametrize("gate", ["ece=nan", "ece=inf", "ece=", "ece", "ece=x", "sharpness=0.1", "=0.1"])
def test_gates_that_make_no_sense_are_usage_errors(run, gate):
    run("metrics", TEST, "--fail-above", gate, code=2)


def test_unreadable_input_never_passes_a_gate(run):
    run("metrics", TEST, "absent.npz", "--fail-above", "ece=0.9", code=3)


def test_baseline(run):
    Path("old.json").write_text(run("metrics", VAL, "--format", "json").out)
    ran = run("metrics", VAL, "--baseline", "old.json", "--max-increase", "ece=0", code=0)
    assert "gate passed" in ran.err
    document = json.loads(Path("old.json").read_text())
    document["results"][0]["metrics"]["ece"]["value"] -= 0.02
    Path("better.json").write_text(json.dumps(document))
    ran = run("metrics", VAL, "--baseline", "better.json", "--max-increase", "ece=0.005", code=1)
    assert "more than the 0.005 allowed" in ran.err
    run("metrics", VAL, "--baseline", "better.json", code=2)
    run("metrics", VAL, "--max-increase", "ece=0.1", code=2)
    ran = run("metrics", VAL, "--n-bins", 10, "--baseline", "old.json", "--max-increase", "ece=0.9", code=3)
    assert "was measured with n_bins = 15" in ran.err
    Path("event.json").write_text(run("metrics", SAMPLE_DATA / "digits_even.csv", "--event", "--format", "json").out)
    ran = run(
        "metrics", SAMPLE_DATA / "digits_even.csv", "--baseline", "event.json", "--max-increase", "ece=0.9", code=3
    )
    assert "the baseline has target = event" in ran.err
    document["results"][0]["metrics"]["ece"]["value"] = None
    Path("none.json").write_text(json.dumps(document))
    run("metrics", VAL, "--baseline", "none.json", "--max-increase", "ece=0.9", code=3)


# ---------------------------------------------------------------- simulate, compare


@pytest.mark.parametrize("suffix", ["parquet", "npz", "csv", "jsonl", "feather"])
def test_simulated_files_carry_their_truth(run, suffix):
    ran = run("simulate", "D4", "-n", 700, "-o", f"d4.{suffix}")
    assert "exact TCE" in ran.out
    assert "0.07383" in ran.out
    record = json.loads(run("metrics", f"d4.{suffix}", "--format", "json").out)["results"][0]
    assert record["n"] == 700
    if suffix in ("csv", "jsonl"):
        assert json.loads(Path(f"d4.{suffix}.meta.json").read_text())["tce"] == pytest.approx(0.07383058805220946)
    else:
        assert record["true_tce"] == pytest.approx(0.07383058805220946, rel=1e-14)


def test_simulation_is_reproducible_and_seeded(run):
    first, again, other = (run("simulate", "D1", "-n", 50, "--seed", s).out for s in (1, 1, 2))
    assert first == again != other
    rows = table(first)
    assert set(rows[0]) == {"confidence", "hit", "log_odds", "true_g"}
    document = json.loads(run("simulate", "D1", "-n", 50, "-o", "a.npz", "--format", "json").out)
    assert document["tce"] == pytest.approx(0.0497260182523389859, rel=1e-14)


@pytest.mark.parametrize(
    "argv",
    [[], ["D9"], ["D1", "--curve", "identity"], ["--curve", "identity"], ["--curve", "x:1", "--beta", "1,1"],
     ["D1", "-n", "0"], ["D1", "-n", "x"], ["D1", "--p", "nan"], ["--curve", "identity", "--beta", "0,1"]],
)  # fmt: skip
def test_bad_simulations_are_usage_errors(run, argv):
    run("simulate", *argv, code=2)


def test_compare_files_side_by_side(run):
    ran = run("compare", "metrics", VAL, TEST)
    assert str(VAL) in ran.out.splitlines()[0]
    assert any(line.startswith("tce-bpm") for line in ran.out.splitlines())


# ---------------------------------------------------------------- manners


@pytest.mark.parametrize(
    "argv",
    [["metrics"], ["metrics", "a.npz", "--nonsense"], ["metrics", VAL, "--binning", "odd"], ["nonsense"],
     ["metrics", VAL, "-m", "sharpness"], ["metrics", VAL, "--format", "xml"], ["metrics", VAL, "--p", "0.5"],
     ["metrics", VAL, "--p", "nan"], ["metrics", VAL, "--n-bins", "0"], ["metrics", VAL, "--bins", "9:3"],
     ["metrics", VAL, "--schemes", "0"], ["fit", VAL, "--optimizer", "sgd"], ["fit", VAL, "--method", "magic"],
     ["fit", VAL, "--variant", "other"], ["metrics", VAL, "--density", "normal"], ["fit"], ["apply"]],
)  # fmt: skip
def test_usage_errors_are_two_lines_and_exit_code_two(run, argv):
    ran = run(*argv, code=2)
    assert ran.out == ""
    assert ran.err.startswith("bpmcli: error: ")
    assert len(ran.err.strip().splitlines()) <= 2


def test_help_and_version(run):
    assert "bpmcli metrics test.npz" in run("--help").out
    assert "Commands:" in run(code=2).out
    assert run("--version").out == f"bpmcli {__version__}\n"
    for command in ("fit", "apply", "metrics", "simulate", "compare"):
        assert f"Usage: bpmcli {command}" in run(command, "--help").out


def process(*argv: object, **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "bpmcli", *map(str, argv)], capture_output=True, text=True, cwd=ROOT, **kwargs
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['bpmcli', '--help']\nimport bpmcli.cli\n"
        "print(bpmcli.cli.main()); print([m for m in ('numpy','scipy','pandas','pyarrow','rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip().splitlines()[-1] == "[]", done


HEAVY = "scipy pandas pyarrow rich matplotlib importlib.metadata dataclasses tempfile json csv numpy.typing"


@pytest.mark.parametrize(
    ("arguments", "heavy", "most"),
    [(["-m", "ece"], f"{HEAVY} numpy.random numpy.fft random hashlib", 60), ([], HEAVY, 82)],
    ids=["one metric", "verdict"],
)
def test_the_everyday_path_imports_little(arguments, heavy, most):
    """What start-up takes depends on what is imported. benchmarks/startup.py measures it."""
    code = (
        f"import sys; from bpmcli.cli import main; code = main(['metrics', {str(TEST)!r}, *{arguments}])\n"
        f"print(code, [m for m in {heavy.split()} if m in sys.modules])\n"
        "print(sum(m.partition('.')[0] == 'bpmcli' for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=untraced())
    found, modules = done.stdout.strip().splitlines()[-2:]
    assert found == "0 []", done
    assert int(modules) <= most


def test_a_closed_pipe_ends_quietly():
    shell = f"{sys.executable} -m bpmcli simulate D1 -n 200000 -q | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["confidence,hit,log_odds,true_g", "0"]


def test_notes_go_to_standard_error_and_quiet_silences_them():
    noisy = process("metrics", SAMPLE_DATA / "digits_even.csv", "-m", "ece")
    assert "note:" in noisy.stderr
    assert "note:" not in noisy.stdout
    assert process("metrics", SAMPLE_DATA / "digits_even.csv", "-m", "ece", "-q").stderr == ""


def test_an_interrupt_is_exit_code_130(run, monkeypatch):
    from bpmcli.core import metrics

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(metrics, "measure", interrupt)
    monkeypatch.setattr("bpmcli.tasks.measure.measure", interrupt)
    run("metrics", VAL, code=130)


def test_a_bug_says_that_it_is_one(run, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("oops")

    monkeypatch.delenv("BPMCLI_DEBUG")
    monkeypatch.setattr("bpmcli.tasks.measure.measure", broken)
    ran = run("metrics", VAL, code=70)
    assert f"{VAL}: internal error: ZeroDivisionError: oops" in ran.err
    monkeypatch.setattr("bpmcli.tasks.compare.read_rows", broken)
    ran = run("compare", "calibrators", VAL, code=70)
    assert f"error: {VAL}: internal error: ZeroDivisionError: oops" in ran.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(run):
    Path("a.npz").write_bytes(VAL.read_bytes())
    os.chmod("a.npz", 0)
    assert "permission denied" in run("metrics", "a.npz", code=3).err


# ---------------------------------------------------------------- intervals


def test_intervals_in_every_format(run):
    ran = run("metrics", TEST, "-m", "ece", "-m", "ks", "--interval", 0.9, "--resamples", 60, "--format", "json")
    found = json.loads(ran.out)["results"][0]["metrics"]["ece"]
    assert found["low"] < found["value"] < found["high"]
    assert found["level"] == 0.9
    assert "90 % low" in run("metrics", TEST, "-m", "ks", "--interval", 0.9, "--resamples", 20).out
    rows = table(run("metrics", TEST, VAL, "-m", "ks", "--interval", 0.9, "--resamples", 20, "--format", "csv").out)
    assert float(rows[0]["ks low"]) < float(rows[0]["ks"]) < float(rows[0]["ks high"])


def test_gates_that_do_not_flap(run):
    gate = ("metrics", TEST, "-m", "ece", "--resamples", 100, "--fail-above", "ece=0.085")
    run(*gate, code=1)  # the value is above
    ran = run(*gate, "--gate-confidence", 0.95, code=0)
    assert "gate passed" in ran.err  # but not surely
    assert "not surely above the limit 0.085" in ran.err
    ran = run("metrics", TEST, "-m", "tce", "--fail-above", "tce=0.5", "--gate-confidence", 0.95)
    assert "), within the limit 0.5" in ran.err
    ran = run("metrics", TEST, "-m", "ece", "--resamples", 100, "--fail-above", "ece=0.03", "--gate-confidence", 0.95, code=1)  # fmt: skip
    assert "surely above the limit 0.03" in ran.err


@pytest.mark.parametrize(
    "argv",
    [["--interval", "1.5"], ["--interval", "0.9999999999999999"], ["--interval", "nan"], ["--interval", "0.9", "--resamples", "99999999999"], ["--interval", "0"], ["--gate-confidence", "0.95"],
     ["--fail-above", "ece=0.9", "--gate-confidence", "0.4"], ["--resamples", "0"],
     ["--fail-above", "ece=0.9", "--gate-confidence", "0.95", "--interval", "0.5"]],
)  # fmt: skip
def test_bad_levels_are_usage_errors(run, argv):
    run("metrics", TEST, *argv, code=2)


def test_gate_confidence_explains_itself(run):
    ran = run("metrics", TEST, "--fail-above", "tce=0.9", "--gate-confidence", 0.95, "--interval", 0.95, code=2)
    assert "--gate-confidence C uses one end of the interval at level 2C − 1" in ran.err
    assert "leave --interval out or give 0.9\n" in ran.err
    assert "--fail-above tce=0.03 --gate-confidence" in run("metrics", TEST, "--gate-confidence", 0.95, code=2).err


def test_bins_table_keeps_intervals_and_noise_floor(run):
    for extra in (("--interval", 0.9, "--resamples", 20), ("--noise-floor", "--noise-runs", 19)):
        out = run("metrics", TEST, "-m", "ks", "--bins-table", *extra).out
        assert out.index("\nks ") < out.index(" gap")
        rows = table(run("metrics", TEST, "-m", "ks", "--bins-table", *extra, "-f", "csv").out)
        assert len(rows) == 15  # csv stays one table
    assert "\nks " not in run("metrics", TEST, "-m", "ks", "--bins-table").out


def test_the_least_p_value_is_explained(run):
    ran = run("metrics", TEST, "-m", "ks", "--noise-floor", "--noise-runs", 19)
    assert "0.05000 is the smallest P-value that 19 runs can give" in ran.err
    good = SAMPLE_DATA / "digits_good.npz"
    assert "the least" not in run("metrics", good, "-m", "ks", "--noise-floor", "--noise-runs", 19).err


def test_paired_comparison(run):
    run("fit", VAL, "-o", "p.json")
    run("apply", "p.json", TEST, "-o", "c.npz")
    compare = ("compare", "metrics", TEST, "c.npz", "--paired")
    ran = run(*compare, "-m", "ece", "-m", "ks", "--resamples", 100, "--format", "json")
    for found in json.loads(ran.out)["differences"]:
        assert found["difference"] == pytest.approx(found["second"] - found["first"])
        assert found["high"] < 0
        assert found["p_value"] < 0.05
    assert "the second is better" in run(*compare, "-m", "ks", "--resamples", 20).out
    assert "labels differ" in run("compare", "metrics", TEST, VAL, "--paired", code=3).err
    run("compare", "metrics", TEST, "--paired", code=2)
    assert "--plot needs --truth" in run(*compare, "--plot", "p.png", code=2).err


def test_fit_without_a_file_prints_json_only(run):
    assert "always as JSON" in run("fit", VAL, "-f", "csv", code=2).err
    assert "always as JSON" in run("fit", VAL, "-o", "-", "-f", "markdown", code=2).err
    assert json.loads(run("fit", VAL, "-f", "json").out)["method"] == "bpm"


@pytest.mark.parametrize(("method", "own"), [("bpm", ["tce-bpm before"]), ("bpm-averaged", [])])
def test_fit_names_its_errors_as_metrics_does(run, method, own):
    names = [line.split("  ")[0] for line in run("fit", VAL, "--method", method, "-o", "p.json").out.splitlines()]
    assert [name for name in names if name.startswith("tce")] == [*own, "tce before", "tce after"]


def test_fit_stores_a_band_around_the_curve(run):
    document = json.loads(run("fit", OVER.with_suffix(".npz"), "--method", "platt", "--interval", 0.9).out)
    band = document["band"]
    assert band["level"] == 0.9
    assert len(band["low"]) == len(band["high"]) == len(band["confidence"])
    inside = [lo <= hi for lo, hi in zip(band["low"], band["high"], strict=True)]
    assert all(inside)
    narrow = json.loads(run("fit", OVER.with_suffix(".npz"), "--method", "platt", "--interval", 0.5).out)["band"]
    assert narrow["high"][50] - narrow["low"][50] < band["high"][50] - band["low"][50]
    run("fit", VAL, "--interval", 2, code=2)
    assert "maps the scores of all classes" in run("fit", VAL, "--method", "temperature", "--interval", 0.9, code=3).err


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no such device")
def test_devices_are_written_to_and_never_replaced():
    done = process("fit", VAL, "--method", "platt", "-o", "/dev/null")
    assert done.returncode == 0, done
    assert Path("/dev/null").is_char_device()
    # Buffered and unbuffered output fail at different moments.
    for setting in ("", "1"):
        env = {**os.environ, "PYTHONUNBUFFERED": setting}
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "bpmcli", "metrics", str(VAL), "-m", "ece"],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env=env,
            )
        assert done.returncode == 3, done
        assert done.stderr.count("No space left") == 1, done
    assert Path("/dev/full").is_char_device()


def test_closed_standard_input(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input: is closed" in run("metrics", "-", code=3).err


# ---------------------------------------------------------------- what an attacker found


def test_a_saturated_wrong_model_is_not_called_calibrated(run):
    i = np.arange(1000)
    np.savez("hot.npz", probs=np.eye(3)[i % 3], labels=np.where(i % 10 < 6, i % 3, (i + 1) % 3))
    ran = run("metrics", "hot.npz", "-m", "ece,tce-bpm", "--fail-above", "tce-bpm=0.03", "--format", "json", code=1)
    found = json.loads(ran.out)["results"][0]["metrics"]
    assert found["tce-bpm"]["value"] == pytest.approx(0.4, abs=0.01)
    run("fit", "hot.npz", "-o", "p.json")
    run("apply", "p.json", "hot.npz", "-o", "out.npz")
    with np.load("out.npz") as data:
        assert np.isfinite(data["probs"]).all()


def test_nearly_constant_confidences_come_to_an_end(run):
    rng = np.random.default_rng(0)
    np.savez("a.npz", confidence=0.7 + rng.uniform(-1, 1, 1000) * 1e-6, hits=rng.random(1000) < 0.7)
    found = json.loads(run("metrics", "a.npz", "--format", "json").out)["results"][0]["metrics"]
    assert found["ece"]["value"] is not None


def test_probabilities_beside_logits_stay_one_thing_with_them(run):
    run("fit", VAL, "-o", "p.json")
    z = np.array([[3.0, 1.0], [0.0, 2.0]])
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    np.savez("both.npz", logits=z, probs=p)
    run("apply", "p.json", "both.npz", "-o", "out.npz")
    with np.load("out.npz") as data:
        assert set(data) == {"logits", "probs"}
        assert not np.allclose(data["probs"], p)
        assert np.allclose(np.exp(data["logits"]), data["probs"])
    run("apply", "p.json", "both.npz", "--as", "probs", "-o", "out.npz")
    with np.load("out.npz") as data:
        assert set(data) == {"probs"}


@pytest.mark.parametrize("values", [["a", "b"], [1, 2], [{"k": 1}, {"k": 2}]])
def test_a_column_that_only_has_the_name_of_probabilities_is_kept(run, values):
    run("fit", VAL, "-o", "p.json")
    given = pa.table({"logits": [[3.0, 1.0], [0.0, 2.0]], "probs": values, "row": [1, 2]})
    pq.write_table(given, "a.parquet")
    run("apply", "p.json", "a.parquet", "-o", "out.parquet")
    found = pq.read_table("out.parquet")
    assert found["probs"].to_pylist() == values
    assert found["logits"].to_pylist() != given["logits"].to_pylist()
    ran = run("apply", "p.json", "a.parquet", "--as", "probs", "-o", "out.parquet", code=3)
    assert "'probs' is a column already, so the probabilities cannot be written under this name" in ran.err


def test_an_array_of_the_file_that_only_has_the_name_of_probabilities_is_kept(run):
    run("fit", VAL, "-o", "p.json")
    np.savez("a.npz", logits=[[3.0, 1.0], [0.0, 2.0]], probs=np.full((5, 2), 0.5))
    run("apply", "p.json", "a.npz", "-o", "out.npz")
    assert arrays("out.npz")["probs"].tolist() == [[0.5, 0.5]] * 5
    ran = run("apply", "p.json", "a.npz", "--as", "probs", "-o", "again.npz", code=3)
    assert "'probs' is a column already" in ran.err
    assert not Path("again.npz").exists()


def test_probabilities_beside_logits_of_another_length_are_refused(run):
    run("fit", VAL, "-o", "p.json")
    given = pa.table({"logits": [[3.0, 1.0], [0.0, 2.0]], "probs": [[0.5, 0.5], [0.25]]})
    pq.write_table(given, "a.parquet")
    for options in ([], ["--as", "probs"]):
        ran = run("apply", "p.json", "a.parquet", "-o", "out.parquet", *options, code=3)
        assert "'probs' has another number of values per row than the scores" in ran.err
        assert not Path("out.parquet").exists()


@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv", "jsonl"])
@pytest.mark.parametrize("options", [(), ("--event",)])
def test_a_logit_of_an_event_becomes_its_probability(run, options, suffix):
    """Also where the probability stands beside the logit: both are calibrated, or one takes the place of the other."""
    x = np.random.default_rng(0).normal(size=60)
    columns = {"logit": x, "prob": 1 / (1 + np.exp(-x)), "label": (np.arange(60) % 3 > 0).astype(int)}
    frame = pd.DataFrame(columns)
    np.savez("a.npz", **columns)
    frame.to_parquet("a.parquet")
    frame.to_csv("a.csv", index=False)
    frame.to_json("a.jsonl", orient="records", lines=True, double_precision=15)
    run("fit", "a.npz", *options, "--method", "platt", "-o", "p.json")
    run("apply", "p.json", f"a.{suffix}", *options, "-o", "logits.csv")
    run("apply", "p.json", f"a.{suffix}", *options, "--as", "probs", "-o", "probs.csv")
    logits, probs = pd.read_csv("logits.csv"), pd.read_csv("probs.csv")
    assert list(logits) == list(columns)
    assert list(probs) == ["prob", "label"]
    assert logits["prob"].to_numpy() == pytest.approx(1 / (1 + np.exp(-logits["logit"].to_numpy())), abs=1e-9)
    assert probs["prob"].to_numpy() == pytest.approx(logits["prob"].to_numpy(), abs=1e-9)
    assert not np.allclose(logits["logit"], x, atol=0.01)


SPARK = pa.struct([("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())),
                   ("values", pa.list_(pa.float64()))])  # fmt: skip
FORMS = {
    "objects": lambda rows: [dict(zip("abc", row, strict=False)) for row in rows],
    "vectors of Spark": lambda rows: pa.array([{"type": 1, "values": row} for row in rows], SPARK),
    "lists": lambda rows: rows,
}


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize("form", FORMS)
def test_probabilities_beside_logits_are_replaced_in_their_form(run, form, suffix):
    logits, label = [[3.0, 1.0, 0.0], [0.0, 2.0, 1.0]], ["a", "c"]

    def applied(probs: list[list[float]], own: str, code: int) -> str:
        given = pa.table({"logits": FORMS[own](logits), "probs": FORMS[form](probs), "label": label})
        rows = given.to_pylist()
        if suffix == "parquet":
            pq.write_table(given, "a.parquet")
        elif suffix == "jsonl":
            Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            pd.DataFrame(rows).to_csv("a.csv", index=False)
        return run("apply", "p.json", f"a.{suffix}", "-o", "out.jsonl", code=code).err

    if suffix == "csv" and form != "lists":
        pytest.skip("csv holds lists as text, but no objects")
    run("fit", VAL, "--method", "temperature", "-o", "p.json")
    own = "objects" if form == "objects" else "lists"
    applied([[0.9, 0.1, 0.0], [0.1, 0.6, 0.3]], own, code=0)
    for line in Path("out.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert type(row["probs"]) is type(row["logits"])
        new, probs = (list(row[name].values()) if own == "objects" else row[name] for name in ("logits", "probs"))
        assert probs == pytest.approx(np.exp(new) / np.exp(new).sum())
    said = "holds objects, but the scores have no such keys" if form == "objects" else "has another number of values"
    assert f"'probs' {said}" in applied([[0.9, 0.1], [0.1, 0.9]], own, code=3)


def test_another_matrix_is_never_taken_for_the_scores_of_a_table(run):
    rng = np.random.default_rng(0)
    run("fit", VAL, "-o", "p.json")
    both = {"confidence": rng.uniform(0.5, 1.0, 60), "hits": rng.integers(0, 2, 60)}
    np.savez("a.npz", **both, p=rng.normal(size=(60, 3)))
    ran = run("apply", "p.json", "a.npz", "-o", "out.csv", code=3)
    assert "'p' would become columns p_0, p_1, p_2, which are taken for scores" in ran.err
    assert not Path("out.csv").exists()
    run("apply", "p.json", "a.npz", "-o", "out.npz")
    np.savez("b.npz", **both, probs_0=rng.normal(size=(60, 3)))
    run("apply", "p.json", "b.npz", "-o", "out.csv")
    first = pd.read_csv("out.csv")
    run("apply", "p.json", "out.csv", "-o", "again.csv")
    second = pd.read_csv("again.csv")
    assert list(first) == ["confidence", "hits", "probs_0_0", "probs_0_1", "probs_0_2"]
    assert not np.allclose(first["confidence"], second["confidence"])
    assert first.drop(columns="confidence").equals(second.drop(columns="confidence"))


def test_apply_keeps_log_odds_and_confidence_one_thing(run):
    run("fit", VAL, "-o", "p.json")
    run("simulate", "D4", "-n", 100, "-o", "d4.csv")
    run("apply", "p.json", "d4.csv", "-o", "out.csv")
    rows = table(Path("out.csv").read_text())
    for row in rows:
        assert float(row["confidence"]) == pytest.approx(1 / (1 + np.exp(-float(row["log_odds"]))), rel=1e-9)


def test_apply_keeps_words_that_look_missing(run):
    run("fit", VAL, "-o", "p.json")
    Path("a.csv").write_text("confidence,note,label\n0.9,NA,3\n0.8,null,4\n")
    assert [r["note"] for r in table(run("apply", "p.json", "a.csv").out)] == ["NA", "null"]
    run("apply", "p.json", "a.csv", "-o", "a.parquet")
    assert pq.read_table("a.parquet")["label"].to_pylist() == [3, 4]


def test_no_command_overwrites_its_input(run):
    Path("a.npz").write_bytes(VAL.read_bytes())
    assert "is the input itself" in run("fit", "a.npz", "-o", "a.npz", code=2).err
    os.symlink("a.npz", "link.npz")
    assert "is the input itself" in run("fit", "a.npz", "-o", "link.npz", code=2).err


@pytest.mark.parametrize(
    "command",
    [
        "compare calibrators a.csv --method platt -o a.csv",
        "compare calibrators --calibration a.csv --evaluation a.b.json --method platt -o a.b.json",
        "compare calibrators a.csv --label y.csv --method platt -o y.csv",
        "compare metrics a.csv a.b.json -o a.b.json",
        "compare metrics a.csv a.b.json --label y.csv -o y.csv",
        "compare metrics . -o a.csv",
        "compare metrics --truth p.json -o p.json",
        "compare curves --truth D1,p.json -o p.json",
        "compare samples --truth p.json --density-from a.csv -o a.csv",
        "fit a.b.json --output-dir .",
        "fit a.csv --label a.json --output-dir .",
        "metrics a.npz a.metrics.csv -f csv --output-dir .",
        "metrics a.npz --label a.metrics.json --output-dir .",
        "summarize a.npz a.cells.parquet --output-dir .",
    ],
)
def test_no_command_overwrites_a_file_that_it_reads(run, command):
    rows = [{"confidence": 0.6 + 0.1 * (i % 3), "hit": i % 2} for i in range(40)]
    text = "confidence,hit\n" + "".join(f"{row['confidence']},{row['hit']}\n" for row in rows)
    for name in ("a.csv", "a.metrics.csv", "y.csv"):
        Path(name).write_text(text)
    for name in ("a.b.json", "a.json", "a.metrics.json"):
        Path(name).write_text(json.dumps(rows))
    pq.write_table(pa.Table.from_pylist(rows), "a.cells.parquet")
    for name in ("a.npz", "p.json"):
        Path(name).write_bytes(b"")
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert "is the input itself" in run(*command.split(), code=2).err
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (f"metrics {VAL} -m ece --fail-above ece=0 -q", 1),
        (f"metrics {VAL} --interval 0", 2),
        ("metrics no_such_file.npz", 3),
    ],
)
@pytest.mark.parametrize("pipe", ["|", "2>&1 |"])
def test_a_failure_is_one_although_nobody_reads(arguments, code, pipe):
    shell = f"{sys.executable} -m bpmcli {arguments} {pipe} true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == str(code), done


def test_closed_streams_are_no_bug():
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        shell = f"{sys.executable} -m bpmcli metrics {VAL} -m ece --fail-above ece=0 {closed}"
        assert subprocess.run(["bash", "-c", shell], capture_output=True, cwd=ROOT).returncode == 1, closed


@pytest.mark.parametrize("argv", [["--list"], ["--explain-input"], ["--p", "2000"], ["--seed", "-1"], ["--bins", "²"]])
def test_gates_cannot_be_fooled_by_options(run, argv):
    run("metrics", VAL, "--fail-above", "ece=0.9", *argv, code=2)


@pytest.mark.parametrize("value", [True, "0.1", 1e999, [1], None])
def test_baselines_hold_numbers(run, value):
    document = json.loads(run("metrics", VAL, "--format", "json").out)
    document["results"][0]["metrics"]["ece"]["value"] = value
    Path("old.json").write_text(json.dumps(document).replace("Infinity", "1e999"))
    run("metrics", VAL, "--baseline", "old.json", "--max-increase", "ece=0.9", code=3)


@pytest.mark.parametrize(
    "text", ["null\n", '{"confidence": 0.5, "hit": 1}\nnull\n{"confidence": 0.5, "hit": 1}\n', "[]\n"]
)
def test_jsonl_lines_that_are_no_objects(run, text):
    Path("a.jsonl").write_text(text)
    err = run("metrics", "a.jsonl", code=3).err
    assert ("holds json" if text.startswith("[") else "is not a JSON object") in err
