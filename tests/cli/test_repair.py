"""What fit and apply say about before and after, and which options parameter files store."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import SAMPLE_DATA, arrays

from bpmcli.core.calibrators import FitOptions, fit_calibrator
from bpmcli.core.compare.before_after import before_after
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import sample_from_log_odds
from bpmcli.core.metrics.verdict import verdict

VAL, TEST = SAMPLE_DATA / "digits_val.npz", SAMPLE_DATA / "digits_test.npz"


def test_fit_says_before_and_after(run):
    ran = run("fit", VAL, "--method", "temperature", "-o", "p.json")
    first, before, after, *_ = ran.out.splitlines()
    assert first == "temperature -> p.json"
    assert before.startswith(
        "Before: over-confident; it says 96.6 % and is right 86.3 % of the time; calibration error"
    )
    assert after.startswith("After (5-fold cross-validation): calibrated as far as 599 rows can tell; it says 8")
    found = json.loads(Path("p.json").read_text())["validation"]
    assert found["how"] == "5-fold cross-validation"
    assert found["before"]["name"] == "over-confident"
    assert found["after"]["tce"] < 0.03 < found["before"]["tce"]
    assert found["after"]["right"] == pytest.approx(found["before"]["right"])
    assert f"{100 * found['after']['says']:.1f} %" in after
    ran = run("fit", VAL, "--method", "temperature")  # parameters to standard output: the same words as notes
    assert before in ran.err
    assert after in ran.err
    assert run("fit", VAL, "-q").err == ""


def test_after_is_held_out_not_in_sample():
    """If labels are noise, fine bins overfit; the cross-validated verdict must show it."""
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1, 400)
    x = np.log(s) - np.log1p(-s)
    rows = Rows(x, rng.random(400) < 0.75)
    fitted = fit_calibrator("histogram", rows, FitOptions(n_bins=100)).calibrator
    g, miss = fitted(x)
    own = verdict(sample_from_log_odds(np.log(g) - np.log(miss), rows.hits))
    found = before_after("histogram", rows, FitOptions(n_bins=100))
    assert found.after is not None
    assert found.rows == 400
    assert found.after.tce > own.tce + 0.05


def test_what_cannot_be_held_out_is_said(run):
    run("summarize", VAL, "-o", "s.parquet")
    ran = run("fit", "s.parquet", "--method", "platt", "-o", "p.json")
    assert "Before: over-confident" in ran.out
    assert "After: not judged (a summary has no rows that could be held out)" in ran.out
    assert json.loads(Path("p.json").read_text())["validation"]["after"] is None
    np.savez("few.npz", confidence=[0.6, 0.9, 0.8], hits=[1, 0, 1])
    assert "After: not judged (3 rows are too few for 5 folds)" in run("fit", "few.npz", "--method", "platt", "-o", "p.json").out  # fmt: skip


def test_the_order_of_the_rows_does_not_matter(run):
    data = arrays(VAL)
    order = np.random.default_rng(1).permutation(len(data["labels"]))
    np.savez("mixed.npz", **{name: values[order] for name, values in data.items()})
    run("fit", VAL, "--method", "temperature", "-o", "a.json")
    run("fit", "mixed.npz", "--method", "temperature", "-o", "b.json")
    a, b = (json.loads(Path(name).read_text())["validation"] for name in ("a.json", "b.json"))
    assert a == b


def test_the_order_of_rows_that_differ_only_in_their_group_does_not_matter(run):
    rng = np.random.default_rng(0)
    s = rng.choice([0.6, 0.7, 0.9], 900)
    data = {"confidence": s, "hits": rng.random(900) < s - 0.1, "site": rng.choice(["a", "b", "c"], 900)}
    order = rng.permutation(900)
    np.savez("rows.npz", **data)
    np.savez("mixed.npz", **{name: values[order] for name, values in data.items()})
    run("fit", "rows.npz", "--by", "site", "--method", "platt", "-o", "a.json")
    run("fit", "mixed.npz", "--by", "site", "--method", "platt", "-o", "b.json")
    a, b = (json.loads(Path(name).read_text())["validation"] for name in ("a.json", "b.json"))
    assert a == b


def test_folds_of_multi_label_rows_do_not_depend_on_the_order_in_which_groups_appear(run):
    rng = np.random.default_rng(0)
    p = rng.choice([0.2, 0.5, 0.8], (400, 3))
    site = np.where(rng.random(400) < 0.5, "a", "b")
    site[0], site[-1] = "b", "a"
    lines = [",".join(map(str, [*row, *labels, name])) + "\n"
             for row, labels, name in zip(p, (rng.random((400, 3)) < p**1.5).astype(int), site, strict=True)]  # fmt: skip
    for name, order in (("rows", lines), ("mixed", lines[::-1])):
        Path(f"{name}.csv").write_text("prob_x,prob_y,prob_z,label_x,label_y,label_z,site\n" + "".join(order))
        options = ("--multi-label", "--by", "site", "--method", "platt", "--min-group", "50")
        run("fit", f"{name}.csv", *options, "-o", f"{name}.json")
    a, b = (json.loads(Path(f"{name}.json").read_text())["validation"] for name in ("rows", "mixed"))
    assert a == b


def test_apply_says_before_and_after_on_labelled_rows(run):
    run("fit", VAL, "--method", "temperature", "-o", "p.json")
    said = run("apply", "p.json", TEST, "-o", "out.npz").err.splitlines()
    assert said[-2].startswith("  before: over-confident; it says 96.6 % and is right 87.6 % of the time")
    assert said[-1].startswith("  after: calibrated as far as 599 rows can tell; it says 86.4 %")
    np.savez("bare.npz", logits=arrays(TEST)["logits"])
    assert "before:" not in run("apply", "p.json", "bare.npz", "-o", "out.npz").err
    np.savez("bad.npz", logits=arrays(TEST)["logits"], labels=np.full(599, 77))
    assert "before:" not in run("apply", "p.json", "bad.npz", "-o", "out.npz").err
    assert run("apply", "p.json", TEST, "-o", "out.npz", "-q").err == ""


CONFIDENCES = "confidence,hit,w\n" + "".join(f"{0.6 + i % 7 / 20},{int(i % 3 > 0)},1\n" for i in range(300))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize(
    ("old", "new", "judged"),
    [
        ("", "", True),
        (",1,1\n", ",true,1\n", True),  # text: true and 0
        (",0,1\n", ",-1,1\n", True),
        ("0.6,0,1\n", "0.6,,1\n", False),
        ("0.6,0,1\n", "0.6,NaN,1\n", False),
        ("0.6,0,1\n", "0.6,2,1\n", False),
        (",1\n", ",0\n", False),  # no row has any weight
        ("hit,", "other,", False),
    ],
)
def test_labels_that_cannot_be_used_change_nothing_but_the_verdicts(run, suffix, old, new, judged):
    run("simulate", "D1", "-n", "500", "-o", "d.csv")
    run("fit", "d.csv", "--method", "platt", "-o", "p.json")
    Path("in.csv").write_text(CONFIDENCES.replace(old, new))
    weight = ["--weight", "w"] if old == ",1\n" else []
    said = run("apply", "p.json", "in.csv", *weight, "-o", f"out.{suffix}").err
    assert ("before:" in said) == judged
    assert "300 rows" in said
    run("apply", "p.json", "in.csv", *weight, "-o", f"quiet.{suffix}", "-q")
    assert Path(f"out.{suffix}").read_bytes() == Path(f"quiet.{suffix}").read_bytes()


@pytest.mark.parametrize(
    ("labels", "options", "judged"),
    [
        ([1, 0] * 150, (), True), ([1, 0] * 149, (), False), ([1, 0] * 151, (), False), ([1, 5] * 150, (), False),
        ([1, 0] * 150, ("--skip-missing",), True),
    ],
)  # fmt: skip
def test_apply_judges_by_labels_of_another_file(run, labels, options, judged):
    np.save("y.npy", np.array(labels))
    scores = ["" if options and i == 7 else str(0.2 + i % 5 / 10) for i in range(300)]
    Path("in.csv").write_text("id,prob\n" + "".join(f"{i},{score}\n" for i, score in enumerate(scores)))
    np.savez("val.npz", probs=np.linspace(0.1, 0.9, 300), labels=[1, 0] * 150)
    run("fit", "val.npz", "--event", "--method", "platt", "-o", "p.json")
    ran = run("apply", "p.json", "in.csv", "--label", "y.npy", *options, "-o", "out.csv")
    assert ("before: " in ran.err) == judged


def test_apply_judges_what_it_can_read_only_once(run, monkeypatch):
    run("fit", VAL, "--method", "temperature", "-o", "p.json")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEST.read_bytes())))
    assert "before: over-confident" in run("apply", "p.json", "-", "-o", "out.npz").err


def test_what_apply_says_about_standard_output_names_its_input(run):
    run("fit", VAL, "--method", "temperature", "-o", "p.json")
    Path("in.csv").write_text("prob,label\n" + "0.9,1\n0.8,0\n" * 50)
    said = run("apply", "p.json", "in.csv", "-o", "-").err.splitlines()
    first = said.index(next(line for line in said if line.startswith("  before: ")))
    assert said[first - 1].startswith("in.csv -> standard output: 100 rows, mean confidence ")
    Path("in.csv").write_text("prob\n" + "0.9\n0.8\n" * 50)
    assert "standard output" not in run("apply", "p.json", "in.csv", "-o", "-").err


def test_more_rows_than_the_limit_are_not_judged(run, monkeypatch):
    monkeypatch.setattr("bpmcli.tasks.apply.JUDGED_ROWS", 598)
    run("fit", VAL, "--method", "temperature", "-o", "p.json")
    assert "before:" not in run("apply", "p.json", TEST, "-o", "out.npz").err


def test_judging_on_the_fitted_rows_is_a_warning(run):
    run("fit", VAL, "--method", "temperature", "-o", "p.json")
    warning = "the calibrator was fitted to these very rows"
    assert warning in run("apply", "p.json", VAL, "-o", "out.npz").err
    assert warning not in run("apply", "p.json", TEST, "-o", "out.npz").err
    Path("copy.npz").write_bytes(VAL.read_bytes())
    assert warning in run("apply", "p.json", "copy.npz", "-o", "out.npz").err
    run("fit", VAL, "--method", "identity", "-o", "p.json")
    said = run("apply", "p.json", VAL, "-o", "out.npz").err
    assert warning in said
    assert "still miscalibrated" not in said


def test_another_part_of_the_fitted_file_is_not_the_fitted_rows(run):
    val, test = arrays(VAL), arrays(TEST)
    np.savez(
        "both.npz",
        cal_logits=val["logits"],
        cal_labels=val["labels"],
        test_logits=test["logits"],
        test_labels=test["labels"],
    )
    run("fit", "both.npz", "--logits", "cal_logits", "--method", "temperature", "-o", "p.json")
    warning = "the calibrator was fitted to these very rows"
    assert warning in run("apply", "p.json", "both.npz", "-o", "out.npz").err
    assert warning not in run("apply", "p.json", "both.npz", "--logits", "test_logits", "-o", "out.npz").err


def test_parameters_of_another_model_that_make_things_worse_are_a_warning(run):
    run("fit", VAL, "--method", "temperature", "-o", "p.json")
    warning = "the calibration error of these rows is larger after calibration than before"
    assert warning not in run("apply", "p.json", TEST, "-o", "out.npz").err
    assert warning in run("apply", "p.json", SAMPLE_DATA / "digits_good.npz", "-o", "out.npz").err


@pytest.mark.parametrize("method", ["temperature", "ets", "bpm", "histogram"])
def test_another_number_of_classes_is_a_notice(run, method):
    """These methods can be applied to any number of classes; those that cannot refuse."""
    data = arrays(VAL)
    few = data["labels"] < 6
    np.savez("six.npz", logits=data["logits"][few, :6], labels=data["labels"][few])
    run("fit", VAL, "--method", method, "-o", "p.json")
    assert json.loads(Path("p.json").read_text())["sample"]["classes"] == 10
    said = "the calibrator was fitted to scores of 10 classes, but this input has 6"
    assert said in run("apply", "p.json", "six.npz", "-o", "out.npz").err
    assert "was fitted to scores" not in run("apply", "p.json", TEST, "-o", "out.npz").err
    np.savez("bare.npz", confidence=[0.6, 0.9])  # its classes are unknown
    if method in ("bpm", "histogram"):
        assert "was fitted to scores" not in run("apply", "p.json", "bare.npz", "-o", "out.npz").err


def test_parameters_remember_the_columns(run):
    data = arrays(VAL)
    np.savez("val.npz", output=data["logits"], truth=data["labels"])
    np.savez("test.npz", output=arrays(TEST)["logits"], truth=arrays(TEST)["labels"])
    run("fit", "val.npz", "--logits", "output", "--label", "truth", "--method", "temperature", "-o", "p.json")
    assert json.loads(Path("p.json").read_text())["columns"] == {"logits": "output", "label": "truth"}
    assert "after: calibrated" in run("apply", "p.json", "test.npz", "-o", "out.npz").err
    assert set(arrays("out.npz")) == {"output", "truth"}
    found = run("metrics", "out.npz", "--logits", "output", "--label", "truth", "-q", "-f", "json").out
    assert json.loads(found)["results"][0]["verdict"]["name"] == "calibrated"
    # Other names in another file are still recognised, and the command line wins.
    run("apply", "p.json", TEST, "-o", "plain.npz")
    np.testing.assert_array_equal(arrays("plain.npz")["logits"], arrays("out.npz")["output"])
    np.savez("two.npz", output=arrays(TEST)["logits"], other=arrays(TEST)["logits"] * 2)
    run("apply", "p.json", "two.npz", "--logits", "other", "-o", "two_out.npz")
    assert np.array_equal(arrays("two_out.npz")["output"], arrays(TEST)["logits"])


def test_percentages_are_remembered(run):
    rng = np.random.default_rng(2)
    s = rng.uniform(50, 100, 300)
    hits = (rng.random(300) * 110 < s).astype(int)
    Path("a.csv").write_text("sure,correct\n" + "".join(f"{a},{b}\n" for a, b in zip(s, hits, strict=True)))
    run("fit", "a.csv", "--confidence", "sure", "--scale", "percent", "--method", "platt", "-o", "p.json")
    rows = list(csv.DictReader(io.StringIO(run("apply", "p.json", "a.csv", "-q").out)))
    assert list(rows[0]) == ["sure", "correct"]
    assert max(float(row["sure"]) for row in rows) > 1.5


def test_parameters_of_earlier_releases_still_load(run):
    run("fit", VAL, "--method", "temperature", "-o", "p.json")
    document = json.loads(Path("p.json").read_text())
    for name in ("validation", "columns", "inputs"):
        document.pop(name, None)
    Path("old.json").write_text(json.dumps(document))
    run("apply", "p.json", TEST, "-o", "new.npz", "-q")
    run("apply", "old.json", TEST, "-o", "old.npz", "-q")
    np.testing.assert_array_equal(arrays("new.npz")["logits"], arrays("old.npz")["logits"])


@pytest.mark.parametrize(
    ("field", "value"),
    [("columns", {"logits": 3}), ("columns", []), ("inputs", [3]), ("inputs", [{"sha256": 1}]), ("validation", [])],
)
def test_damaged_fields_are_refused(run, field, value):
    run("fit", VAL, "--method", "temperature", "-o", "p.json")
    document = json.loads(Path("p.json").read_text())
    Path("p.json").write_text(json.dumps({**document, field: value}))
    assert field in run("apply", "p.json", TEST, "-o", "out.npz", code=3).err


def test_groups_as_csv_are_a_line_each(run):
    rng = np.random.default_rng(3)
    s = rng.uniform(0.5, 1, 900)
    site = np.repeat(["a", "b", "c"], [400, 400, 100])
    np.savez("g.npz", confidence=s, hits=rng.random(900) < s - 0.1, site=site)
    out = run("fit", "g.npz", "--by", "site", "--method", "platt", "-o", "p.json", "-f", "csv").out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["group"], row["rows"], row["calibrator"]) for row in rows] == [
        ("a", "400", "own"), ("b", "400", "own"), ("c", "100", "pooled")]  # fmt: skip
    assert json.loads(Path("p.json").read_text())["validation"]["after"]["tce"] < 0.08


def test_an_error_that_is_left_gets_advice_that_works(run):
    run("simulate", "D1", "-n", "2000", "-o", "d.csv")
    advice = run("fit", "d.csv", "--method", "identity", "-o", "p.json").out.splitlines()[3]
    assert re.match(
        r"An error is left: try --method (bpm-averaged|isotonic), which leaves \d+\.\d+ points, 95 %", advice
    )
    method = advice.split("--method ")[1].split(",")[0]
    better = run("fit", "d.csv", "--method", method, "-o", "p.json").out
    assert "After (5-fold cross-validation): calibrated as far as 2,000 rows can tell" in better
    assert "An error is left" not in better


def test_without_a_better_method_the_advice_names_more_rows(run, monkeypatch):
    monkeypatch.setattr("bpmcli.core.compare.before_after.ALTERNATIVES", ("identity", "temperature"))
    run("simulate", "D1", "-n", "2000", "-o", "d.csv")
    ran = run("fit", "d.csv", "--method", "identity", "-o", "p.json")
    assert "An error is left: fit on more rows if you have them, or see with `bpmcli compare calibrators`" in ran.out
    run("compare", "calibrators", "d.csv", "--method", "identity,isotonic", "--repeats", "1")
