"""`--method auto`: an averaged method unless the cross-validated log loss of another is clearly lower."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpmcli.core.calibrators import METHODS, FitOptions, fit_calibrator, method_named
from bpmcli.core.compare.choice import _chosen, choose_method
from bpmcli.core.compare.cross_validation import Contest, cross_validate
from bpmcli.core.compare.scores import Judge
from bpmcli.core.data.log_odds import log_softmax, reduce_logits
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.data.sample import sigmoid
from bpmcli.core.metrics import MetricOptions
from bpmcli.errors import UsageError

Run = Callable[..., Any]


def rows_of(n: int, sharp: float = 2.0) -> Rows:
    """An over-confident model of four classes."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(n, 4))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    found = reduce_logits(sharp * z)
    return Rows(found.log_odds, found.predictions == labels, None, found.predictions, labels, logits=sharp * z)


FEW = ["identity", "platt", "temperature", "histogram"]


def test_the_lowest_cross_validated_log_loss_wins() -> None:
    rows = rows_of(600, sharp=3.0)
    choice = choose_method(rows, methods=FEW)
    contest = Contest(tuple(FEW), ("nll-all",), FitOptions(), 5, 1, 0)
    outcomes = cross_validate(rows, contest, 0)
    means = {m: float(np.mean([o.scores[m]["nll-all"] for o in outcomes])) for m in FEW}  # type: ignore[misc]
    assert choice.losses == pytest.approx(means)
    assert choice.method == min(means, key=lambda m: means[m]) == "temperature"
    text = str(choice.notice)
    assert "chose temperature: its log loss of all classes is" in text
    assert f"against {means['identity']:.4f} uncalibrated" in text


def test_calibrated_rows_are_left_alone_or_hardly_touched() -> None:
    rng = np.random.default_rng(0)
    x = 2 * rng.normal(size=3000)
    for target, what in ((EVENT, "of y = 1"), ("top-label", "of the predicted class")):
        rows = Rows(x, rng.random(3000) < sigmoid(x), target=target)
        choice = choose_method(rows, methods=["identity", "histogram", "isotonic"])
        assert choice.method == "identity"
        assert choice.judged_by == what
        second = min(("histogram", "isotonic"), key=lambda name: choice.losses[name])
        assert str(choice.notice).startswith(
            f"--method auto chose identity, which changes nothing: the log loss {what} is "
            f"{choice.losses['identity']:.4f} uncalibrated and {choice.losses[second]:.4f} with {second}, the best "
            "calibrator, in 5-fold cross-validation of 3000 rows"
        )


def test_an_averaged_method_is_left_only_for_one_that_is_clearly_better() -> None:
    def chosen(*excess: float, preferred: str = "averaged-matrix") -> str:
        by_fold = {
            preferred: 1.0 + np.array(excess),
            "spline": np.ones(len(excess)),
            "platt": np.full(len(excess), 1.5),
        }
        return _chosen(by_fold, {name: float(values.mean()) for name, values in by_fold.items()})

    assert chosen(0.1, 0.2, -0.1, 0.0, 0.1) == "averaged-matrix"  # 0.06 ± 0.051
    assert chosen(0.1, 0.2, 0.1, 0.0, 0.1) == "spline"  # 0.10 ± 0.032
    assert chosen(-0.1, -0.2, -0.1, 0.0, -0.1) == "averaged-matrix"
    assert chosen(0.1, 0.2, -0.1, 0.0, 0.1, preferred="bpm-averaged") == "bpm-averaged"
    assert chosen(0.1, 0.2, -0.1, 0.0, 0.1, preferred="isotonic") == "spline"


def test_losses_of_whole_distributions_by_hand() -> None:
    rows = rows_of(200)
    assert rows.logits is not None
    assert rows.labels is not None
    index = np.arange(200)
    p = np.exp(log_softmax(rows.logits))
    truth = np.eye(4)[rows.labels]
    for name in ("identity", "temperature"):
        fitted = fit_calibrator(name, rows).calibrator
        if name == "temperature":
            p = np.exp(fitted.log_probabilities(rows.logits))  # type: ignore[attr-defined]
        found = Judge(rows).confidences(fitted).scores(("nll-all", "brier-all"), MetricOptions())
        assert found["nll-all"] == pytest.approx(-np.log(p[index, rows.labels]).mean(), rel=1e-9)
        assert found["brier-all"] == pytest.approx(((p - truth) ** 2).sum(axis=1).mean(), rel=1e-9)


def test_fit_says_which_method_and_why(run: Run) -> None:
    rows = rows_of(300, sharp=3.0)
    np.savez("a.npz", logits=rows.logits, labels=rows.labels)
    ran = run("fit", "a.npz", "--method", "auto", "-o", "p.json")
    document = json.loads(Path("p.json").read_text())
    chosen = document["method"]
    assert chosen in METHODS
    losses = document["fit"]["choice"]["losses"]
    assert chosen == "averaged-matrix"
    assert min(losses.values()) < losses[chosen] < losses["identity"]
    assert f"--method auto chose {chosen}" in ran.err
    assert "which is not clearly lower" in ran.err
    run("apply", "p.json", "a.npz", "-o", "out.npz")
    assert "may choose" in run("fit", "a.npz", "--method", "auto", "--plot", "x.png", "-o", "q.json", code=2).err


def test_names_are_understood_by_their_beginning() -> None:
    assert method_named("bpm_averaged").name == "bpm-averaged"
    assert method_named("Temp").name == "temperature"
    assert method_named("BPM:log-log").name == "bpm:log-log"
    for unknown in ("b", "xyz", "", "str"):
        with pytest.raises(UsageError, match="unknown method"):
            method_named(unknown)
