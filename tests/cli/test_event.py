"""--event on the scores of two classes: P(y = 1) is that of class 1."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import arrays


@pytest.fixture
def files(run) -> tuple[str, ...]:
    """The same probabilities in every shape."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 1, 2000)
    y = (rng.random(2000) < p**1.5).astype(int)
    np.savez("one.npz", probs=p, labels=y)
    np.savez("probs.npz", probs=np.stack([1 - p, p], axis=1), labels=y)
    np.savez("logits.npz", logits=np.stack([np.log1p(-p), np.log(p)], axis=1) + 3, labels=y)
    rows = [f"{1 - a},{a},{b}\n" for a, b in zip(p.tolist(), y.tolist(), strict=True)]
    with open("columns.csv", "w") as out:
        out.write("prob_0,prob_1,label\n" + "".join(rows))
    lines = [json.dumps({"probs": [1 - a, a], "y": b}) + "\n" for a, b in zip(p.tolist(), y.tolist(), strict=True)]
    with open("lists.jsonl", "w") as out:
        out.writelines(lines)
    return "probs.npz", "logits.npz", "columns.csv", "lists.jsonl"


def measured(run, path: str, *options: str) -> dict[str, float]:
    record = json.loads(run("metrics", path, "--event", "-f", "json", *options).out)["results"][0]
    assert record["target"] == "event"
    return {name: found["value"] for name, found in record["metrics"].items()} | {"rate": record["event_rate"]}


def test_two_classes_measure_as_one_probability(run, files):
    expected = measured(run, "one.npz")
    for path in files:
        assert measured(run, path) == pytest.approx(expected, abs=1e-8), path
        assert measured(run, path, "--summary")["ece"] == pytest.approx(expected["ece"], abs=1e-4), path
    assert "label = 1" in run("metrics", "probs.npz", "--event", "--explain-input").out


@pytest.mark.usefixtures("unjudged")
def test_apply_writes_both_classes(run, files):
    run("fit", "one.npz", "--event", "-o", "p.json")
    run("apply", "p.json", "one.npz", "-o", "expected.npz")
    expected = arrays("expected.npz")["probs"]
    for path in ("probs.npz", "logits.npz"):
        run("apply", "p.json", path, "--as", "probs", "-o", "out.npz")
        probs = arrays("out.npz")["probs"]
        assert probs[:, 1] == pytest.approx(expected, abs=1e-12)
        assert probs.sum(axis=1) == pytest.approx(np.ones(2000), abs=1e-15)
    for path in ("columns.csv", "lists.jsonl"):
        run("apply", "p.json", path, "-o", f"out-{path}")
        assert measured(run, f"out-{path}")["ece"] == pytest.approx(measured(run, "expected.npz")["ece"], abs=1e-9)


def test_more_classes_have_no_event(run):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1, 1, 1], 50)
    np.savez("three.npz", probs=probs, labels=rng.integers(0, 2, 50))
    assert "this file has scores of 3 classes" in run("metrics", "three.npz", "--event", code=3).err
    with open("three.jsonl", "w") as out:
        out.writelines(json.dumps({"probs": row, "y": 1}) + "\n" for row in probs.tolist())
    assert "there are scores of 3 classes (row 1)" in run("metrics", "three.jsonl", "--event", code=3).err
    np.savez("bad.npz", probs=probs[:, :2] / probs[:, :2].sum(axis=1, keepdims=True), labels=rng.integers(0, 3, 50))
    assert "must be 0 or 1" in run("metrics", "bad.npz", "--event", code=3).err


def test_the_rate_of_an_event_is_never_called_accuracy(run):
    np.savez("a.npz", probs=np.linspace(0.1, 0.9, 40), labels=np.arange(40) % 3 > 0)
    for format_ in ("json", "csv", "jsonl"):
        out = run("metrics", "a.npz", "--event", "-m", "ece", "-f", format_, "-q").out
        assert "accuracy" not in out
        assert "event" in out
    for format_ in ("json", "csv", "table"):
        out = run("metrics", "a.npz", "--event", "-m", "ece", "-f", format_, "--bins-table", "-q").out
        assert "accuracy" not in out
    assert "event rate" in run("compare", "a.npz", "a.npz", "--event", "-m", "ece").out


@pytest.mark.parametrize("names", [("cat", "dog"), ("yes", "no"), ("True", "False")])
def test_the_event_of_two_named_classes_is_the_second_column(run, names):
    """Also if the names are words for true and false in the other order."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 500).round(4)
    y = rng.random(500) < p
    label = np.where(y, names[1], names[0])
    lines = [f"{1 - a:.4f},{a:.4f},{b}" for a, b in zip(p, label, strict=True)]
    Path("a.csv").write_text("\n".join([f"prob_{names[0]},prob_{names[1]},label", *lines]) + "\n")
    np.savez("b.npz", probs=np.stack([1 - p, p], axis=1), labels=y.astype(int))
    named, plain = (run("metrics", name, "--event", "-m", "ece,tce,brier", "-f", "json") for name in ("a.csv", "b.npz"))
    assert f"y = 1 means {names[1]}, the second of the two classes, and y = 0 means {names[0]}" in named.err
    assert "y = 1 means" not in plain.err
    run("fit", "a.csv", "--event", "--method", "platt", "-o", "p.json")
    assert "mean P(y = 1) 0." in run("apply", "p.json", "a.csv", "-o", "out.csv").err
    one, two = (json.loads(ran.out)["results"][0] for ran in (named, plain))
    assert one["event_rate"] == two["event_rate"] == y.mean()
    for metric in ("ece", "tce", "brier"):
        assert one["metrics"][metric]["value"] == pytest.approx(two["metrics"][metric]["value"], abs=1e-9)


def test_labels_true_and_false_are_the_columns_of_these_names(run):
    """The column of True may come first; csv readers take such labels for 1 and 0."""
    lines = [f"{p},{1 - p},{p > 0.5}" for p in (0.9, 0.2, 0.7, 0.4)]
    Path("a.csv").write_text("\n".join(["prob_True,prob_False,label", *lines]) + "\n")
    assert json.loads(run("metrics", "a.csv", "-m", "ece", "-f", "json").out)["results"][0]["accuracy"] == 1.0


def test_words_for_0_and_1_are_labels_beside_named_columns(run):
    """But not if the columns are called by such words: Yes is then no class of the columns yes and no."""
    for names, label, code in ((("neg", "pos"), "yes", 0), (("no", "yes"), "Yes", 3)):
        lines = [f"{1 - p},{p},{label if p > 0.5 else 'no'}" for p in (0.9, 0.2, 0.7)]
        Path("a.csv").write_text("\n".join([f"prob_{names[0]},prob_{names[1]},label", *lines]) + "\n")
        ran = run("metrics", "a.csv", "--event", "-m", "ece", "-f", "json", code=code)
        if code:
            assert "label 'Yes' is not a class (row 1)" in ran.err
        else:
            assert json.loads(ran.out)["results"][0]["event_rate"] == pytest.approx(2 / 3)


def test_nothing_that_is_said_of_an_event_is_about_a_predicted_class(run):
    """Too high above 0.5 and too low below, with ties, saturated rows and pure bins."""
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(1500), np.zeros(30), np.ones(30)])
    y = rng.random(p.size) < np.where((p == 0) | (p == 1), p, 0.5 + 0.6 * (p - 0.5))
    np.savez("event.npz", probs=p, labels=y.astype(int))
    first = run("metrics", "event.npz", "--event", "--diagram")
    assert "Half of the error is between probability 0." in first.out
    assert "probabilities that are too high and too low cancel in it." in first.out
    said = [
        first,
        run("metrics", "event.npz", "--event", "--bins-table"),
        run("fit", "event.npz", "--event", "--method", "bpm-averaged", "-o", "p.json"),
        run("fit", "event.npz", "--event", "--method", "histogram", "-o", "q.json"),
        run("fit", "event.npz", "--event", "--method", "identity", "-o", "r.json"),
        run("apply", "p.json", "event.npz", "-o", "out.npz"),
        run("compare", "calibrators", "event.npz", "--event", "--method", "identity,platt", "--repeats", "1"),
    ]
    for ran in said:
        words = (ran.out + ran.err).replace("if these are bare confidences", "").replace("confidence interval", "")
        assert not re.findall(r".*(?:confiden|accura|correct\b|is right).*", words)
