"""ScoreCalibrator: what `fit` and `apply` would do, on arrays."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SAMPLE_DATA, arrays

from bpmcli import BpmError, ScoreCalibrator, measure, sample_from_confidences, verdict

Run = Callable[..., Any]
VAL, TEST = SAMPLE_DATA / "digits_val.npz", SAMPLE_DATA / "digits_test.npz"


@pytest.mark.parametrize("method", ["averaged-matrix", "temperature", "bpm-averaged"])
def test_it_does_what_fit_and_apply_do(run: Run, method: str) -> None:
    val, test = arrays(VAL), arrays(TEST)
    found = ScoreCalibrator(method, scores="logits").fit(val["logits"], val["labels"])
    run("fit", VAL, "--method", method, "-o", "p.json")
    run("apply", "p.json", TEST, "--as", "probs", "-o", "out.npz")
    written = arrays("out.npz")["probs"]
    assert found.predict_proba(test["logits"]) == pytest.approx(written, abs=1e-12)
    assert ScoreCalibrator.load("p.json", "logits").predict_proba(test["logits"]) == pytest.approx(written, abs=1e-12)
    document = json.loads(Path("p.json").read_text())
    assert found.verdicts_ == document["validation"]["sentences"]
    found.save("q.json")
    run("apply", "q.json", TEST, "--as", "probs", "-o", "again.npz")
    assert arrays("again.npz")["probs"] == pytest.approx(written, abs=1e-12)


@pytest.mark.usefixtures("unjudged")
def test_two_classes_are_an_event(run: Run) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=800)
    y = np.where(rng.random(800) < 1 / (1 + np.exp(-x)), "yes", "no")
    p = 1 / (1 + np.exp(-2 * x))
    np.savez("a.npz", probs=p, labels=(y == "yes").astype(int))
    run("fit", "a.npz", "--event", "--method", "isotonic", "-o", "p.json")
    run("apply", "p.json", "a.npz", "--event", "-o", "out.npz")
    written = arrays("out.npz")["probs"]
    for scores, X in (("probs", p), ("probs", np.stack([1 - p, p], axis=1)), ("logits", 2 * x)):
        found = ScoreCalibrator("isotonic", scores=scores).fit(X, y)
        probs = found.predict_proba(X)
        assert probs[:, 1] == pytest.approx(written, abs=1e-9)
        assert list(found.classes_) == ["no", "yes"]
        assert set(found.predict(X)) == {"no", "yes"}


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("method", ["temperature", "bpm-averaged"])
def test_two_classes_that_fit_calibrated_by_their_prediction(run: Run, method: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    p = 1 / (1 + np.exp(-2 * x))
    X = np.stack([1 - p, p], axis=1)
    np.savez("a.npz", probs=X, labels=(rng.random(300) < 1 / (1 + np.exp(-x))).astype(int))
    run("fit", "a.npz", "--method", method, "-o", "p.json")
    run("apply", "p.json", "a.npz", "--as", "probs", "-o", "out.npz")
    found = ScoreCalibrator.load("p.json")
    assert found.predict_proba(X) == pytest.approx(arrays("out.npz")["probs"], abs=1e-12)
    with pytest.raises(BpmError, match="fitted to the scores of all classes"):
        found.predict_proba(p)


def test_another_number_of_classes_is_refused() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1, 1, 1], 60)
    found = ScoreCalibrator("temperature").fit(probs, probs.argmax(axis=1))
    for columns in (2, 4):
        with pytest.raises(BpmError, match=f"fitted to scores of 3 classes, but X has {columns}"):
            found.predict(rng.dirichlet(np.ones(columns), 5))
    two = ScoreCalibrator("temperature").fit(probs[:, 0], probs[:, 0] > 0.5)
    with pytest.raises(BpmError, match="fitted to two classes"):
        two.predict(probs)


def test_auto_chooses_and_weights_count() -> None:
    val = arrays(VAL)
    found = ScoreCalibrator(scores="logits").fit(val["logits"], val["labels"])
    assert found.document_["method"] == "averaged-matrix"
    weights = np.where(val["labels"] < 5, 2.0, 1.0)
    one, two = (
        ScoreCalibrator("temperature", "logits").fit(val["logits"], val["labels"], w).document_["parameters"]
        for w in (None, weights)
    )
    assert one != two


def test_bad_arrays_are_refused_in_words() -> None:
    probs = np.full((6, 3), 1 / 3)
    labels = np.array([0, 1, 2, 0, 1, 2])
    new = ScoreCalibrator("temperature")
    with pytest.raises(BpmError, match="not fitted"):
        new.predict_proba(probs)
    with pytest.raises(BpmError, match="6 rows of scores need as many labels"):
        new.fit(probs, labels[:5])
    with pytest.raises(BpmError, match="2 different labels, but scores of 3 classes"):
        new.fit(probs, np.array(["a", "b"] * 3))
    with pytest.raises(BpmError, match=r"must be finite, found NaN or inf \(row 2\)"):
        new.fit(np.where(np.arange(6)[:, None] == 1, np.nan, probs), labels)
    with pytest.raises(BpmError, match="'probs' or 'logits', not 'scores'"):
        ScoreCalibrator("temperature", scores="scores").fit(probs, labels)
    with pytest.raises(BpmError, match="unknown method"):
        ScoreCalibrator("nonsense").fit(probs, labels)
    uneven = np.tile([0.5, 0.25, 0.25], (6, 1))
    fitted = ScoreCalibrator("temperature").fit(uneven, labels)
    with pytest.raises(BpmError, match="fitted to the scores of all classes"):
        fitted.predict_proba(np.full(6, 0.5))
    assert list(new.fit(uneven, labels % 2).classes_) == [0, 1, 2]  # class 2 does not occur


@pytest.mark.parametrize(
    "labels",
    [
        [0.0, 1.0, np.nan],
        [0.0, 1.0, np.inf],
        np.array(["a", "b", None], dtype=object),
        np.array([0, 1, np.nan], object),
    ],
)
def test_a_missing_label_is_no_class(labels: Any) -> None:
    with pytest.raises(BpmError, match="the label of row 3 is missing"):
        ScoreCalibrator("temperature").fit(np.tile([0.5, 0.25, 0.25], (3, 1)), labels)


def test_a_fit_that_fails_changes_nothing() -> None:
    probs = np.tile([0.5, 0.25, 0.25], (6, 1))
    fitted = ScoreCalibrator("temperature").fit(probs, list("abcabc"))
    for method, scores in (("nonsense", probs), ("temperature", probs * np.nan)):
        with pytest.raises(BpmError):
            fitted.set_params(method=method).fit(scores, list("xyzxyz"))
        assert fitted.predict(probs).tolist() == ["a"] * 6


def test_weights_of_zero_and_single_numbers_are_refused() -> None:
    probs, labels = np.tile([0.5, 0.25, 0.25], (60, 1)), np.arange(60) % 3
    with pytest.raises(BpmError, match="all weights are zero"):
        ScoreCalibrator().fit(probs, labels, np.zeros(60))
    with pytest.raises(BpmError, match="1 rows of scores need as many labels"):
        ScoreCalibrator().fit(0.5, 1)


def test_a_path_may_be_an_object(tmp_path: Path) -> None:
    probs = np.tile([0.5, 0.25, 0.25], (6, 1))
    fitted = ScoreCalibrator("temperature").fit(probs, [0, 1, 2, 0, 1, 2])
    fitted.save(tmp_path / "p.json")
    assert np.array_equal(ScoreCalibrator.load(tmp_path / "p.json").predict_proba(probs), fitted.predict_proba(probs))


def test_it_can_be_cloned_and_needs_no_scikit_learn() -> None:
    code = "import sys, bpmcli; bpmcli.ScoreCalibrator; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    found = ScoreCalibrator("platt", allow_argmax_change=True)
    assert ScoreCalibrator(**found.get_params()).get_params() == found.get_params()
    assert found.set_params(method="beta").method == "beta"
    with pytest.raises(BpmError, match="no parameter 'folds'"):
        found.set_params(folds=3)
    base = pytest.importorskip("sklearn.base")
    assert base.clone(found).get_params() == found.get_params()


def test_what_a_notebook_shows() -> None:
    sample = sample_from_confidences([0.9] * 200, [1, 1, 1, 0] * 50)
    html = measure(sample, ["ece", "tce"])._repr_html_()
    assert "<table" in html
    assert "0.15" in html
    found = verdict(sample)
    assert found._repr_html_() == f"<p>{found.sentence}</p>"
