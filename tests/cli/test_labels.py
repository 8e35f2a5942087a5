"""Files beyond one known class per row: several labels at once, and rows of no class."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Ran, arrays

from bpmcli.core.data.log_odds import log_softmax

Run = Callable[..., Ran]


def results(run: Run, *argv: object) -> list[dict]:
    return json.loads(run("metrics", *argv, "--format", "json").out)["results"]


def multi(n: int = 300, k: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 3, (n, k))
    return p, (rng.random((n, k)) < p**1.4).astype(int)


def write_csv(path: str, p: np.ndarray, y: np.ndarray, **more: list[str]) -> None:
    """Columns by name; the labels are in another order than the probabilities."""
    names = ["cat", "dog", "cow", "ant"]
    order = [names.index(name) for name in sorted(names)]
    head = [*(f"prob_{name}" for name in names), *(f"label_{names[k]}" for k in order), *more]
    lines = [",".join(head)]
    for i, (row, labels) in enumerate(zip(p, y, strict=True)):
        cells = [*(repr(float(v)) for v in row), *(str(labels[k]) for k in order), *(v[i] for v in more.values())]
        lines.append(",".join(cells))
    Path(path).write_text("\n".join(lines) + "\n")


def test_pooled_labels_are_events(run: Run) -> None:
    p, y = multi()
    np.savez("m.npz", probs=p, labels=y)
    np.savez("flat.npz", probs=p.ravel(), y=y.ravel())
    names = "ece,ks,brier,nll,auroc"
    (pooled,), (flat,) = results(run, "m.npz", "--multi-label", "-m", names), results(run, "flat.npz", "--event", "-m", names)  # fmt: skip
    assert pooled["n"] == 1200
    assert (pooled["items"], pooled["labels"], pooled["target"]) == (300, 4, "event")
    assert {k: v["value"] for k, v in pooled["metrics"].items()} == {k: v["value"] for k, v in flat["metrics"].items()}


def test_intervals_do_not_depend_on_the_order_of_the_rows(run: Run) -> None:
    p, y = multi()
    p = np.round(p, 1)
    order = np.random.default_rng(1).permutation(len(p))
    found = []
    for rows in (np.arange(len(p)), order):
        np.savez("m.npz", probs=p[rows], labels=y[rows], w=1 + rows % 3)
        (record,) = results(run, "m.npz", "--multi-label", "--weight", "w", "-m", "ece,ks", "--interval", "0.9")
        found.append([record["metrics"][name][limit] for name in ("ece", "ks") for limit in ("low", "high")])
    assert found[1] == pytest.approx(found[0], rel=1e-9)


def test_every_label_by_itself_and_their_mean(run: Run) -> None:
    p, y = multi()
    np.savez("m.npz", probs=p, labels=y)
    (record,) = results(run, "m.npz", "--multi-label", "--classwise", "-m", "ece")
    alone = []
    for k, one in enumerate(record["classwise"]):
        np.savez("one.npz", probs=p[:, k], y=y[:, k])
        alone.append(results(run, "one.npz", "--event", "-m", "ece")[0]["metrics"]["ece"]["value"])
        assert one["metrics"]["ece"]["value"] == alone[-1]
        assert one["rows"] == y[:, k].sum()
    assert record["metrics"]["ece-classwise"]["value"] == pytest.approx(np.mean(alone), rel=1e-12)
    assert "each label" in run("metrics", "m.npz", "--multi-label", "--classwise").out


def test_columns_lists_and_logits_agree(run: Run) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    p, y = multi()
    write_csv("m.csv", p, y)
    np.savez("m.npz", probs=p, labels=y)
    np.savez("l.npz", logits=np.log(p) - np.log1p(-p), labels=y.astype(bool))
    pq.write_table(pa.table({"probs": p.tolist(), "labels": y.tolist()}), "m.parquet")
    found = [results(run, path, "--multi-label", "--classwise", "-m", "ece,nll")[0] for path in ("m.npz", "m.csv", "m.parquet", "l.npz")]  # fmt: skip
    for other in found[1:]:
        for name in ("ece", "nll", "ece-classwise", "ece-marginal"):
            assert other["metrics"][name]["value"] == pytest.approx(found[0]["metrics"][name]["value"], abs=1e-9)
    assert [one["class"] for one in found[1]["classwise"]] == ["cat", "dog", "cow", "ant"]


def test_labels_of_one_row_are_not_independent(run: Run) -> None:
    # Every row has the same label 20 times: the interval is that of 100 rows, not of 2000.
    rng = np.random.default_rng(0)
    p = np.repeat(rng.random((100, 1)), 20, axis=1)
    y = np.repeat(rng.random((100, 1)) < 0.5, 20, axis=1).astype(int)
    np.savez("m.npz", probs=p, labels=y)
    np.savez("one.npz", probs=p[:, 0], y=y[:, 0])
    widths = []
    for argv in (["m.npz", "--multi-label"], ["one.npz", "--event"]):
        found = results(run, *argv, "-m", "brier", "--interval", "0.9")[0]["metrics"]["brier"]
        widths.append(found["high"] - found["low"])
    assert widths[0] == pytest.approx(widths[1], rel=0.25)


def test_groups_and_weights_repeat_for_each_label(run: Run) -> None:
    p, y = multi()
    write_csv("m.csv", p, y, site=["a", "b"] * 150, w=["1", "0"] * 150)
    first, second = results(run, "m.csv", "--multi-label", "--by", "site", "-m", "brier")
    assert first["n"] == second["n"] == 600
    assert first["metrics"]["brier"]["value"] == pytest.approx(np.mean((p[::2] - y[::2]) ** 2))
    (weighted,) = results(run, "m.csv", "--multi-label", "--weight", "w", "-m", "brier")
    assert weighted["metrics"]["brier"]["value"] == pytest.approx(np.mean((p[::2] - y[::2]) ** 2))


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("path", ["m.csv", "m.npz"])
def test_fit_and_apply_several_labels(run: Run, path: str) -> None:
    p, y = multi(800)
    write_csv("m.csv", p, y)
    np.savez("m.npz", probs=p, labels=y)
    run("fit", path, "--multi-label", "--min-group", 1000, "--method", "beta", "-o", "params.json")
    np.savez("flat.npz", probs=p.ravel(), y=y.ravel())
    run("fit", "flat.npz", "--event", "--method", "beta", "-o", "flat.json")
    run("apply", "params.json", path, "--multi-label", "-o", f"out{path[1:]}")
    run("apply", "flat.json", "flat.npz", "-o", "flat_out.npz")
    expected = arrays("flat_out.npz")["probs"].reshape(p.shape)
    if path == "m.npz":
        found = arrays("out.npz")["probs"]
        assert np.array_equal(arrays("out.npz")["labels"], y)
    else:
        lines = Path("out.csv").read_text().splitlines()
        assert lines[0] == Path("m.csv").read_text().splitlines()[0]
        found = np.array([[float(v) for v in line.split(",")[:4]] for line in lines[1:]])
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("value", [1.5, -0.25, np.nan])
def test_a_bad_probability_is_named_with_its_row(run: Run, value: float) -> None:
    p, y = multi(10)
    p[2, 1] = value
    np.savez("m.npz", probs=p, labels=y)
    ran = run("metrics", "m.npz", "--multi-label", "-m", "ece", code=3)
    assert "(row 3)" in ran.err


def test_logits_of_labels_stay_logits(run: Run) -> None:
    p, y = multi(400)
    np.savez("p.npz", probs=p, labels=y)
    np.savez("l.npz", logits=np.log(p) - np.log1p(-p), labels=y)
    run("fit", "p.npz", "--multi-label", "--method", "beta", "-o", "params.json")
    for path in ("p.npz", "l.npz"):
        run("apply", "params.json", path, "--multi-label", "-o", f"out_{path}")
    logits, probs = arrays("out_l.npz")["logits"], arrays("out_p.npz")["probs"]
    assert 1 / (1 + np.exp(-logits)) == pytest.approx(probs, rel=1e-6)


def test_every_label_has_a_calibrator_of_its_own(run: Run, unjudged: None) -> None:
    """As if each label had been a file by itself; a label with too few rows uses the pooled calibrator."""
    p, y = multi(400)
    np.savez("m.npz", probs=p, labels=y)
    run("fit", "m.npz", "--multi-label", "--method", "beta", "-o", "own.json")
    grouping = json.loads(Path("own.json").read_text())["grouping"]
    assert (grouping["kind"], list(grouping["groups"])) == ("label", ["0", "1", "2", "3"])
    run("apply", "own.json", "m.npz", "--multi-label", "-o", "out.npz")
    found = arrays("out.npz")["probs"]
    for k in range(4):
        np.savez("one.npz", probs=p[:, k], labels=y[:, k].astype(int))
        run("fit", "one.npz", "--event", "--method", "beta", "-o", "one.json")
        run("apply", "one.json", "one.npz", "-o", "one_out.npz")
        assert found[:, k] == pytest.approx(arrays("one_out.npz")["probs"], rel=1e-9)
    ran = run("fit", "m.npz", "--multi-label", "--method", "beta", "--min-group", 500, "-o", "pooled.json")
    assert "4 of 4" in ran.err
    run("apply", "pooled.json", "m.npz", "--multi-label", "-o", "pooled.npz", "-q")
    order = np.argsort(p.ravel())
    assert np.all(np.diff(arrays("pooled.npz")["probs"].ravel()[order]) >= 0)  # one curve for all
    assert not np.all(np.diff(found.ravel()[order]) >= 0)
    assert "add --multi-label" in run("apply", "own.json", "one.npz", "-o", "x.npz", code=3).err


def test_what_multi_label_refuses(run: Run) -> None:
    p, y = multi(20)
    np.savez("m.npz", probs=p, labels=y)
    assert "--multi-label" in run("metrics", "m.npz", code=3).err  # the hint names it
    q = p / p.sum(axis=1, keepdims=True)
    several = np.zeros_like(y)
    several[3] = 1
    several[:3, 0] = 1
    several[4:, 1] = 1
    np.savez("q.npz", probs=q, labels=several)
    assert "--multi-label, if a row may have several labels" in run("metrics", "q.npz", code=3).err
    run("metrics", "q.npz", "--multi-label", "-m", "ece")
    np.savez("narrow.npz", probs=p, labels=y[:, :3])
    assert "20 × 4 probabilities but 20 × 3 labels" in run("metrics", "narrow.npz", "--multi-label", code=3).err
    np.savez("two.npz", probs=p, labels=y * 2)
    assert "labels must be 0 or 1, found 2" in run("metrics", "two.npz", "--multi-label", code=3).err
    np.savez("flat.npz", probs=p[:, 0], labels=y[:, 0])
    assert "needs a probability for each label" in run("metrics", "flat.npz", "--multi-label", code=3).err
    bad = p.copy()
    bad[2, 1] = np.nan
    np.savez("nan.npz", probs=bad, labels=y)
    assert "hint" in run("metrics", "nan.npz", "--multi-label", code=3).err
    run("metrics", "nan.npz", "--multi-label", "--skip-missing", "-m", "ece")
    assert (
        "no columns with labels" in run("metrics", "flat.npz", "--multi-label", "--probs", "probs,labels", code=3).err
    )
    for other in (["--event"], ["--unknown", "1"], ["--top-k", "2"]):
        assert "exclude each other" in run("metrics", "m.npz", "--multi-label", *other, code=2).err
    for groups in ("--classwise", "--marginal"):
        assert "fits a calibrator to each label" in run("fit", "m.npz", "--multi-label", groups, code=2).err
        assert "--event and" in run("fit", "m.npz", "--event", groups, code=2).err
    missing = run("metrics", "m.npz", "--multi-label", "-m", "nll-all,ece").err
    assert "no nll-all: with --multi-label a row has no single true class" in missing
    run("fit", "m.npz", "--multi-label", "--method", "isotonic", "-o", "event.json")
    np.savez("c.npz", confidence=p[:, 0], hit=y[:, 0])
    run("fit", "c.npz", "--method", "isotonic", "-o", "top.json")
    assert "fit with --multi-label too" in run("apply", "top.json", "m.npz", "--multi-label", "-o", "x.npz", code=3).err
    assert "no nll-all" in run("metrics", "m.npz", "--multi-label", "-m", "nll-all,ece").err


def open_set(path: str, label: object = -1) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels; every fifth row belongs to no class."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (500, 4))
    labels = rng.integers(0, 4, 500)
    labels[::5] = label
    np.savez(path, logits=logits, labels=labels)
    return logits, labels


@pytest.mark.parametrize("label", [-1, 4, 99])
def test_unknown_rows_are_misses_and_reported_apart(run: Run, label: int) -> None:
    logits, labels = open_set("o.npz", label)
    ran = run("metrics", "o.npz", code=3)
    assert f"--unknown {label}" in ran.err  # the hint works
    (record,) = results(run, "o.npz", "--unknown", label, "-m", "brier,nll-all,ece-classwise,brier-all")
    p = np.exp(log_softmax(logits))
    confidence, top = p.max(axis=1), p.argmax(axis=1)
    known = labels != label
    hits = (top == labels) & known
    assert record["accuracy"] == pytest.approx(hits.mean())
    assert record["metrics"]["brier"]["value"] == pytest.approx(np.mean((confidence - hits) ** 2))
    assert record["unknown_rows"] == 100
    assert record["unknown_confidence"] == pytest.approx(confidence[~known].mean())
    assert record["known_accuracy"] == pytest.approx(hits[known].mean())
    assert record["known_confidence"] == pytest.approx(confidence[known].mean())
    true = p[np.flatnonzero(known), labels[known]]
    assert record["metrics"]["nll-all"]["value"] == pytest.approx(-np.log(true).mean())
    assert "unknown rows" in run("metrics", "o.npz", "--unknown", label, "-m", "ece").out
    assert "unknown rows" in run("metrics", "o.npz", "--unknown", label, "-m", "ece", "-f", "csv").out


def test_unknown_names(run: Run) -> None:
    Path("a.csv").write_text("prob_cat,prob_dog,label\n0.9,0.1,cat\n0.2,0.8,bird\n0.6,0.4,dog\n")
    assert "--unknown bird, if it means none of them" in run("metrics", "a.csv", code=3).err
    (record,) = results(run, "a.csv", "--unknown", "bird", "-m", "ece")
    assert (record["unknown_rows"], record["accuracy"]) == (1, pytest.approx(1 / 3))
    Path("p.csv").write_text("confidence,prediction,label\n0.9,cat,cat\n0.2,bird,bird\n0.6,cat,dog\n")
    (record,) = results(run, "p.csv", "--unknown", "bird", "-m", "ece")
    assert (record["unknown_rows"], record["accuracy"]) == (1, pytest.approx(1 / 3))  # a miss, whatever is predicted


def test_other_labels_outside_the_classes_are_still_refused(run: Run) -> None:
    logits, labels = open_set("o.npz")
    labels[1] = 7
    np.savez("o.npz", logits=logits, labels=labels)
    assert "label 7 is outside" in run("metrics", "o.npz", "--unknown", "-1", code=3).err
    assert "are numbers" in run("metrics", "o.npz", "--unknown", "bird", code=3).err
    np.savez("c.npz", confidence=np.linspace(0.1, 0.9, 50), hit=np.arange(50) % 2)
    assert "--unknown needs labels" in run("metrics", "c.npz", "--unknown", "0", code=3).err
    np.savez("h.npz", confidence=np.linspace(0.1, 0.9, 50), hit=np.arange(50) % 2, y=np.arange(50) % 3)
    err = run("metrics", "h.npz", "--unknown", "0", "--label", "y", code=3).err
    assert "--unknown needs labels, but 'hit' says which rows are correct" in err


def test_all_rows_unknown_and_none(run: Run) -> None:
    logits, labels = open_set("o.npz")
    np.savez("all.npz", logits=logits, labels=np.full(500, -1))
    (record,) = results(run, "all.npz", "--unknown", "-1", "-m", "brier,nll-all,ece-classwise,canonical-p")
    assert (record["accuracy"], record["unknown_rows"]) == (0.0, 500)
    assert record["metrics"]["nll-all"]["value"] is None
    np.savez("none.npz", logits=logits, labels=np.maximum(labels, 0))
    (record,) = results(run, "none.npz", "--unknown", "-1", "-m", "brier", "--top-k", "2")
    assert record["unknown_rows"] == 0


def test_fit_with_unknown_rows(run: Run, unjudged: None) -> None:
    open_set("o.npz")
    run("fit", "o.npz", "--unknown", "-1", "--method", "beta", "-o", "p.json")
    run("apply", "p.json", "o.npz", "-o", "out.npz")
    (before,), (after,) = (results(run, path, "--unknown", "-1", "-m", "ece") for path in ("o.npz", "out.npz"))
    assert after["metrics"]["ece"]["value"] < before["metrics"]["ece"]["value"]
    assert after["unknown_confidence"] < before["unknown_confidence"]
    assert "works on confidences" in run("fit", "o.npz", "--unknown", "-1", "--method", "temperature", code=3).err
    run("fit", "o.npz", "--unknown", "-1", "--method", "auto", "-o", "auto.json")
    run("fit", "o.npz", "--unknown", "-1", "--marginal", "--method", "beta", "--min-group", "20", "-o", "marginal.json")


def test_columns_numbered_from_one_and_labels_from_zero(run):
    rows = "\n".join(f"0.7,0.2,0.1,{i % 3}" for i in range(30))
    Path("zero.csv").write_text(f"p1,p2,p3,label\n{rows}\n")
    error = run("metrics", "zero.csv", "-m", "ece", code=3).err
    assert "label 0 is outside 1 … 3 (row 1; 10 such rows here)" in error
    assert "add one to the labels, or number the columns from 0" in error
    Path("zero.csv").write_text(f"p0,p1,p2,label\n{rows}\n")
    run("metrics", "zero.csv", "-m", "ece")
    Path("none.csv").write_text(
        "p1,p2,p3,label\n" + "\n".join(f"0.7,0.2,0.1,{i % 3 + 1}" for i in range(30)) + "\n0.7,0.2,0.1,-1\n"
    )
    assert "say --unknown -1" in run("metrics", "none.csv", "-m", "ece", code=3).err
    run("metrics", "none.csv", "-m", "ece", "--unknown", "-1")


def test_columns_of_labels_that_hold_lists_are_refused_and_do_not_stop_apply(run):
    row = '{"prob_a": 0.3, "prob_b": 0.6, "label_a": [0, 1], "label_b": 1}\n'
    Path("odd.jsonl").write_text(row * 80)
    Path("good.jsonl").write_text(row.replace("[0, 1]", "0") * 80)
    ran = run("metrics", "odd.jsonl", "--multi-label", "-m", "ece", code=3)
    assert "'label_a' holds several values per row" in ran.err
    run("fit", "good.jsonl", "--multi-label", "--method", "platt", "-o", "p.json")
    assert "before:" in run("apply", "p.json", "good.jsonl", "--multi-label", "-o", "o.jsonl").err
    assert "before:" not in run("apply", "p.json", "odd.jsonl", "--multi-label", "-o", "o.jsonl").err
