"""`--method auto`: an averaged method unless the cross-validated log loss of another is clearly lower."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpmcli.core.calibrators import METHODS, FitOptions, fit_calibrator, method_named
from bpmcli.core.compare.choice import Choice, _chosen, choose_method
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
            f"--method auto chose identity, because there is nothing to repair: the log loss {what} is "
            f"{choice.losses['identity']:.4f} uncalibrated and {choice.losses[second]:.4f} with {second}, the best "
            "calibrator, in 5-fold cross-validation of 3,000 rows"
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


def test_the_usual_method_is_named_if_another_is_clearly_better() -> None:
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1.0, 1500)
    rows = Rows(np.log(s) - np.log1p(-s), rng.random(1500) < np.where(s * 10 % 1 > 0.5, 0.95, 0.35))  # not monotone
    choice = choose_method(rows, methods=["histogram", "isotonic", "bpm-averaged"])
    by_fold = cross_validate(rows, Contest(("histogram", "bpm-averaged"), ("nll",), FitOptions(), 5, 1, 0), 0)
    first, second = (np.array([o.scores[m]["nll"] for o in by_fold]) for m in ("histogram", "bpm-averaged"))
    error = np.std(second - first, ddof=1) / np.sqrt(5)
    assert choice.method == "histogram"
    assert choice.errors["bpm-averaged"] == pytest.approx(error)
    assert str(choice.notice).endswith(
        f"uncalibrated and {second.mean():.4f} for bpm-averaged, the usual choice, which is clearly higher "
        f"(difference {(second - first).mean():.4f}, standard error {error:.4f})"
    )


@pytest.mark.parametrize(("raw", "repairs"), [(1.021, True), (1.019, False), (0.9, False)])
def test_leaving_the_scores_alone_is_as_good_unless_two_standard_errors_worse(raw: float, repairs: bool) -> None:
    losses = {"averaged-matrix": 1.0, "identity": raw, "beta": 1.1}
    choice = Choice("averaged-matrix", "of all classes", losses, dict.fromkeys(losses, 0.01), 500)
    text = str(choice.notice)
    if repairs:
        assert text.endswith(
            "is 1.0000 in 5-fold cross-validation of 500 rows, against 1.0210 uncalibrated and 1.1000 for beta"
        )
    else:
        assert (
            "chose averaged-matrix, but there may be nothing to repair: its log loss of all classes is 1.0000" in text
        )
        assert (
            f"not clearly below {raw:.4f} uncalibrated (difference {abs(raw - 1):.4f}, standard error 0.0100)" in text
        )


def test_a_small_standard_error_keeps_its_digits() -> None:
    losses = {"platt": 0.61231, "identity": 0.6191, "averaged-matrix": 0.61243}
    choice = Choice("platt", "of y = 1", losses, dict.fromkeys(losses, 0.0000312), 12345)
    assert str(choice.notice).endswith("clearly higher (difference 0.000120, standard error 0.000031)")
    assert "cross-validation of 12,345 rows" in str(choice.notice)


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


def test_names_are_understood_by_their_beginning() -> None:
    assert method_named("bpm_averaged").name == "bpm-averaged"
    assert method_named("Temp").name == "temperature"
    assert method_named("BPM:log-log").name == "bpm:log-log"
    for unknown in ("b", "xyz", "", "str"):
        with pytest.raises(UsageError, match="unknown method"):
            method_named(unknown)
