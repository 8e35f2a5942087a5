"""compare calibrators: the real command."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from conftest import arrays

from bpmcli.core.calibrators import METHODS
from bpmcli.core.metrics import calibration_errors

Run = Callable[..., Any]
SAMPLE_DATA = Path(__file__).resolve().parents[2] / "sample_data"
VAL, TEST, OVER = (SAMPLE_DATA / f"digits_{name}.npz" for name in ("val", "test", "overconfident"))
FEW = ("--method", "identity", "--method", "platt", "-m", "ks")
PAIR = ("compare", "calibrators", "--calibration", VAL, "--evaluation", TEST)
CROSS = ("compare", "calibrators", "--folds", 3, "--repeats", 2, *FEW)


def document(run: Run, *argv: object) -> Any:
    return json.loads(run(*argv, "-f", "json").out)


def tidy(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_two_files_every_calibrator_every_score(run: Run) -> None:
    found = document(run, *PAIR, "--folds", 3)
    scores = found["inputs"][0]["scores"]
    assert {s["method"] for s in scores} == set(METHODS)
    assert {s["score"] for s in scores} == {"tce", "ece", "brier", "nll", "nll-all", "brier-all", "kept"}
    assert found["evaluation"] == "held-out"
    assert found["inputs"][0]["rows"] == [599, 599]
    assert found["inputs"][0]["choice"]["by"] == "nll-all"
    nll = {s["method"]: s for s in scores if s["score"] == "nll-all"}
    best = found["inputs"][0]["choice"]["best"][0]
    assert nll[best]["value"] == min(s["value"] for s in nll.values())
    assert best != "identity"
    assert nll["identity"]["p_value"] < 0.05
    assert "identity" not in found["inputs"][0]["choice"]["not_significantly_worse"]


def test_the_deciding_scores_come_first_and_tce_is_shown(run: Run) -> None:
    two = (*PAIR, "--folds", 2, "--method", "identity,temp", "--method", "identity")
    header = next(line for line in run(*two).out.splitlines() if line.startswith("calibrator"))
    assert header.split() == ["calibrator", "nll-all", "brier-all", "nll", "brier", "tce", "ece", "kept"]
    header = next(line for line in run(*two, "--rank-by", "brier").out.splitlines() if line.startswith("calibrator"))
    assert header.split()[1] == "brier"
    scores = document(run, *two)["inputs"][0]["scores"]
    by = {(s["method"], s["score"]): s["value"] for s in scores}
    assert {method for method, _ in by} == {"identity", "temperature"}
    measured = json.loads(run("metrics", TEST, "-m", "tce,ece", "-f", "json").out)["results"][0]["metrics"]
    assert by["identity", "tce"] == pytest.approx(measured["tce"]["value"], rel=1e-12)
    every = {s["score"] for s in document(run, *two, "-m", "all")["inputs"][0]["scores"]}
    assert {*calibration_errors(), "kept"} <= every


def test_the_figures_are_those_of_fit_apply_metrics(run: Run) -> None:
    run("fit", VAL, "--method", "platt", "-o", "p.json")
    run("apply", "p.json", TEST, "--as", "probs", "-o", "out.npz", "--allow-argmax-change")
    probs, labels = (arrays("out.npz")[k] for k in ("probs", "labels"))
    top = arrays(TEST)["logits"].argmax(axis=1)
    g, hits = probs[np.arange(599), top], top == labels
    scores = document(run, *PAIR, *FEW)["inputs"][0]["scores"]
    by = {(s["method"], s["score"]): s["value"] for s in scores}
    assert by["platt", "brier"] == pytest.approx(np.mean((g - hits) ** 2), rel=1e-9)
    assert by["platt", "nll"] == pytest.approx(-np.mean(np.log(np.where(hits, g, 1 - g))), rel=1e-9)
    raw = json.loads(run("metrics", TEST, "-m", "ks", "-f", "json").out)["results"][0]["metrics"]["ks"]["value"]
    assert by["identity", "ks"] == pytest.approx(raw, rel=1e-9)


def test_the_table_says_how_it_was_made(run: Run) -> None:
    out = run(*PAIR, *FEW).out
    assert out.startswith("held-out: fitted to 599 rows of")
    assert "* best, ~ not significantly worse (paired t-test, jackknife over folds" in out
    out = run(*CROSS, OVER).out
    assert "3-fold cross-validation of 1,797 rows" in out
    assert "2 times, stratified by outcome" in out
    assert "Nadeau-Bengio" in out
    assert "in-sample" not in out


@pytest.mark.parametrize("format_", ["table", "markdown", "csv", "json"])
def test_in_sample_is_stamped(run: Run, format_: str) -> None:
    argv = ("compare", "calibrators", TEST, "--in-sample", *FEW)
    out = run(*argv, "-f", format_, "-o", "t.csv").out
    assert "in-sample" in out
    if format_ == "table":
        assert out.startswith("in-sample")
        assert "no choice" in out
    assert {row["evaluation"] for row in tidy(Path("t.csv").read_text())} == {"in-sample"}
    # Several files: the summary is stamped as well.
    assert "in-sample" in run("compare", "calibrators", TEST, VAL, "--in-sample", *FEW).out


def test_fitted_rows_are_never_scored_silently(run: Run) -> None:
    Path("copy.npz").write_bytes(VAL.read_bytes())
    for path in (VAL, "copy.npz"):
        err = run("compare", "calibrators", "--calibration", VAL, "--evaluation", path, code=2).err
        assert "fitted to the same rows" in err
        assert "--in-sample" in err
    data = arrays(VAL)
    np.savez("half.npz", logits=data["logits"][:300], labels=data["labels"][:300])
    err = run("compare", "calibrators", "--calibration", VAL, "--evaluation", "half.npz", *FEW).err
    assert "300 of 300 evaluation rows are also calibration rows" in err
    assert "also calibration rows" not in run(*PAIR, *FEW).err


def test_a_sorted_file_gives_the_same_answer(run: Run) -> None:
    data = arrays(OVER)
    hits = data["logits"].argmax(axis=1) == data["labels"]
    order = np.lexsort((data["labels"], hits))
    np.savez("sorted.npz", logits=data["logits"][order], labels=data["labels"][order])
    a, b = (document(run, *CROSS, path)["inputs"][0]["scores"] for path in (OVER, "sorted.npz"))
    for one, two in zip(a, b, strict=True):
        if one["score"] in ("nll", "brier"):
            assert one["value"] == pytest.approx(two["value"], rel=0.05)
            assert two["standard_error"] < 3 * one["standard_error"]


def test_several_files_make_a_tidy_table_and_ranks(run: Run) -> None:
    import pyarrow.parquet as pq

    out = run(*CROSS, OVER, TEST, "-o", "t.parquet").out
    assert "mean rank over 2 inputs" in out
    assert out.splitlines()[3].split()[:4] == ["platt", "2", "2", "2"]
    found = pq.read_table("t.parquet").to_pylist()
    assert len(found) == 2 * 2 * 6
    assert {row["input"] for row in found} == {str(OVER), str(TEST)}
    run(*CROSS, OVER, TEST, "-o", "t.csv")
    assert [row["method"] for row in tidy(Path("t.csv").read_text())] == [row["method"] for row in found]
    places = document(run, *CROSS, OVER, TEST)["ranks"]
    assert {p["score"] for p in places} == {"ks", "brier", "nll", "nll-all", "brier-all", "kept"}
    pairs = ("--calibration", VAL, "--evaluation", TEST, "--calibration", VAL, "--evaluation", OVER)
    assert len(document(run, "compare", "calibrators", *pairs, *FEW)["inputs"]) == 2


def test_one_and_two_workers_agree(run: Run) -> None:
    one = run(*CROSS, OVER, "-f", "csv", "-j", 1).out
    two = forked.run(*CROSS, OVER, "-f", "csv", "-j", 2)
    assert two.out.decode() == one, two
    assert run(*CROSS, OVER, "-f", "csv", "--seed", 1).out != one


def test_learning_curve(run: Run) -> None:
    argv = (*CROSS, OVER, "--learning-curve", "30,600,5000", "--method", "bpm")
    ran = run(*argv)
    assert "30        600" in ran.out
    assert "1,797 rows are too few for calibration sets of 5000" in ran.err
    assert "bpm failed in 6 of 6 fits to 30 rows" in ran.err
    scores = document(run, *argv)["inputs"][0]["scores"]
    nll = {(s["method"], s["calibration_rows"]): s["value"] for s in scores if s["score"] == "nll"}
    assert nll["platt", 600] < nll["platt", 30]
    assert nll["bpm", 30] is None
    ran = run(*PAIR, *FEW, "--learning-curve", "50,300", "--repeats", 1)
    assert "held-out nll-all by number of calibration rows, mean of 5 draws" in ran.out
    out = run(*CROSS, OVER, TEST, "--learning-curve", "50,300").out
    assert "mean rank by nll-all over 2 inputs, by number of calibration rows" in out


def test_bare_confidences_leave_out_what_needs_all_classes(run: Run) -> None:
    rng = np.random.default_rng(0)
    s = rng.beta(2, 0.5, 300)
    np.savez("bare.npz", confidence=s, hit=rng.random(300) < s**2)
    ran = run("compare", "calibrators", "bare.npz", "--folds", 2, "--repeats", 1, *FEW, "--method", "temperature")
    assert "only confidences: temperature" in ran.err
    assert "temperature" not in ran.out
    assert "kept" not in ran.out
    ran = run("compare", "calibrators", "bare.npz", "--method", "ets", code=3)
    assert "bare.npz: ets: whole distributions need the scores of all classes" in ran.err
    ran = run("compare", "calibrators", "bare.npz", VAL, "--in-sample", "--method", "ets", "-m", "ks", code=3)
    assert "bare.npz" in ran.err
    assert "ets" in ran.out  # the other file is still compared


def test_the_log_loss_of_all_classes_decides_where_it_is_known(run: Run) -> None:
    """As in `fit --method auto`; bare confidences are ranked by their own log loss."""
    whole = document(run, *PAIR, *FEW)["inputs"][0]
    value = {s["method"]: s["value"] for s in whole["scores"] if s["score"] == "nll-all"}
    assert whole["choice"]["by"] == "nll-all"
    assert whole["choice"]["best"] == [min(value, key=value.get)]
    x = np.random.default_rng(0).normal(size=400)
    hits = np.random.default_rng(1).random(400) < 1 / (1 + np.exp(-x))
    np.savez("bare.npz", confidence=1 / (1 + np.exp(-np.abs(x))), correct=hits == (x > 0))
    bare = document(run, "compare", "calibrators", "bare.npz", "--folds", "3", "--repeats", "1", "--method", "platt")
    assert bare["inputs"][0]["choice"]["by"] == "nll"
    several = ("compare", "calibrators", VAL, "bare.npz", "--folds", "3", "--repeats", "1", "--method", "platt")
    assert {one["choice"]["by"] for one in document(run, *several)["inputs"]} == {"nll"}


def test_rank_by_decides(run: Run) -> None:
    found = document(run, *PAIR, *FEW, "--rank-by", "ece")
    assert found["inputs"][0]["choice"]["by"] == "ece"
    assert "ece" in {s["score"] for s in found["inputs"][0]["scores"]}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "give --calibration and --evaluation"),
        ((VAL, "--calibration", VAL), "give --calibration and --evaluation"),
        (("--calibration", VAL), "1 --calibration but 0 --evaluation"),
        ((VAL, "--folds", 1), "--folds must be between 2 and 1000, got 1"),
        ((VAL, "--repeats", 0), "--repeats must be between 1 and 1000, got 0"),
        ((VAL, "--rank-by", "x"), "unknown score 'x'"),
        ((VAL, "--method", "x"), "unknown method 'x'"),
        ((VAL, "--metric", "x"), "unknown metric 'x'"),
        ((VAL, "-o", "t.xyz"), "cannot write '.xyz'"),
        ((VAL, "--in-sample", "--learning-curve", "50"), "exclude each other"),
        ((VAL, "--in-sample", "--repeats", "2"), "--repeats needs"),
        ((VAL, "--learning-curve", "x"), "expected sizes"),
        (("--calibration", VAL, "--evaluation", TEST, "--in-sample"), "--in-sample takes one file"),
    ],
)
def test_usage_errors(run: Run, argv: tuple[object, ...], said: str) -> None:
    assert said in run("compare", "calibrators", *argv, code=2).err


def test_the_order_of_the_rows_does_not_matter(run: Run) -> None:
    """Folds depend on the content of the rows, so the output is the same to the last byte."""
    whole = arrays(OVER)
    rng = np.random.default_rng(0)
    whole = {name: values[:200] for name, values in whole.items()}
    order = rng.permutation(200)
    np.savez("a.npz", **whole)
    np.savez("b.npz", **{name: values[order] for name, values in whole.items()})
    argv = ("--folds", 3, "--repeats", 2, "-m", "ece", "--method", "isotonic", "--method", "temperature", "-f", "json")
    for more in ((), ("--learning-curve", "50,80")):
        a, b = (run("compare", "calibrators", f"{name}.npz", *argv, *more).out for name in "ab")
        assert a.replace("a.npz", "b.npz") == b
    a, b = (
        run("compare", "calibrators", "--calibration", f"{x}.npz", "--evaluation", TEST, *argv[4:]).out for x in "ab"
    )
    assert a.replace("a.npz", "b.npz") == b
    # Equal log-odds, equal labels, other scores of the remaining classes: still one order.
    z = np.array([[2.0, 1.0, 0.0], [2.0, 0.0, 1.0]])[rng.integers(2, size=60)]
    labels = rng.integers(3, size=60)
    np.savez("a.npz", logits=z, labels=labels)
    np.savez("b.npz", logits=z[::-1], labels=labels[::-1])
    a, b = (run("compare", "calibrators", f"{x}.npz", *argv).out for x in "ab")
    assert a.replace("a.npz", "b.npz") == b


def test_every_metric_can_decide_and_a_noisy_one_says_so(run: Run) -> None:
    found = document(run, *PAIR, *FEW[:4], "--metric", "tce", "--rank-by", "tce")
    assert found["inputs"][0]["choice"]["by"] == "tce"
    assert "tce is not a proper score" in run(*PAIR, *FEW, "--rank-by", "tce").out
    assert "not a proper score" not in run(*PAIR, *FEW, "--rank-by", "brier").out
    curve = run("compare", "calibrators", OVER, *FEW[:4], "--learning-curve", "50", "--rank-by", "ece").out
    assert "ece is not a proper score" in curve
    assert "tce" in run(*PAIR, "--rank-by", "nonsense", code=2).err
