"""What `fit` writes, `apply` reads: every method with every option, on rows that are hard to fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from conftest import arrays

from bpmcli.core.calibrators import METHODS, band
from bpmcli.core.compare import before_after
from bpmcli.tasks import apply, fit

Run = Callable[..., Any]

OPTIONS: dict[str, tuple[object, ...]] = {
    "plain": (),
    "by": ("--by", "site", "--min-group", 4),
    "classwise": ("--classwise", "--min-group", 4),
    "marginal": ("--marginal", "--min-group", 4),
    "interval": ("--interval", 0.9),
    "event": ("--event",),
}


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def hard(n: int = 80, k: int = 3) -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=(n, k))
    labels = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    top = z.argmax(axis=1)
    wrong = (top + 1) % k
    counts = rng.multinomial(5, rng.dirichlet(np.full(k, 0.5), size=n))
    two = z[:, :2]
    event = (rng.random(n) < softmax(two)[:, 1]).astype(int)
    many = 2 * rng.normal(size=(n, 20))
    sharp = softmax(np.where(np.arange(k) == top[:, None], 1e3, z))
    return {
        "ties": {"probs": counts / 5, "labels": labels},
        "saturated": {"probs": sharp, "labels": labels},
        "separable": {"logits": np.where(top == labels, 3.0, 0.3)[:, None] * np.eye(k)[top], "labels": labels},
        "two rows": {"logits": z[:2], "labels": np.array([top[0], wrong[1]])},
        "all correct": {"logits": z, "labels": top},
        "all wrong": {"logits": z, "labels": wrong},
        "two classes": {"logits": two, "labels": event},
        "two classes, probabilities": {"probs": (softmax(two) * 4).round() / 4, "labels": event},
        "two classes, separable": {"logits": two, "labels": (two[:, 1] > two[:, 0]).astype(int)},
        "twenty classes": {"logits": many, "labels": (many + rng.gumbel(size=many.shape)).argmax(axis=1)},
    }


@pytest.mark.parametrize("case", hard())
@pytest.mark.parametrize("method", METHODS)
def test_what_fit_writes_apply_reads(run: Run, method: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number = list(METHODS).index(method) + list(hard()).index(case)
    judged: list[Any] = []

    def once(*arguments: Any) -> Any:
        """More fits and a verdict, which are not looked at here: only those of the first option are made."""
        if not judged:
            judged.append(before_after.before_after(*arguments))
        return judged[0]

    monkeypatch.setattr(fit, "before_after", once)
    monkeypatch.setattr(before_after, "FOLDS", 2)
    if number % 3:  # every method is cross-validated on every third data set
        monkeypatch.setattr(before_after, "MOST_VALUES", 0)
    monkeypatch.setattr(band, "curve_band", partial(band.curve_band, runs=60))
    data = hard()[case]
    scores = next(iter(data))
    n, k = data[scores].shape
    np.savez("in.npz", **data, site=np.arange(n) % 3)
    quick = case in ("all correct", "twenty classes" if method == "bpm-averaged" else "two classes")  # 60 refits each
    rows_of_bpm = n >= 60  # fewer are refused: three bins of twenty rows
    # Groups take most of the time: every method meets both kinds of groups on every other data set.
    other = ("by", "classwise")[number % 2]
    for option, argv in OPTIONS.items():
        if option == other:
            continue
        whole = METHODS[method].needs_distribution
        if (option == "event" and k != 2) or (option in ("marginal", "interval") and whole):
            continue
        if option == "interval" and not quick:
            continue
        ran = run("fit", "in.npz", "--method", method, *argv, "-o", f"{option}.json", code=None)
        if method == "bpm" and not rows_of_bpm:
            assert ran.code == 4, ran
            continue
        if option == "interval" and ran.code == 4:
            assert "resamples" in ran.err, ran  # the curve itself has no band on such rows
            continue
        assert ran.code == 0, ran
        monkeypatch.setattr(apply, "JUDGED_ROWS", 1000 if option == "plain" else 0)  # one pair of verdicts is enough
        run("apply", f"{option}.json", "in.npz", "--as", "probs", "-o", "out.npz", "-q")
        probs = arrays("out.npz")["probs"]
        assert probs.shape == (n, k)
        assert np.all((probs >= 0) & (probs <= 1))
        np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=0, atol=1e-9)
        if option != "event":
            assert np.array_equal(probs.argmax(axis=1), data[scores].argmax(axis=1))


@pytest.mark.parametrize("method", ["temperature", "ets"])
def test_an_event_is_two_classes(run: Run, method: str) -> None:
    """Logits, probabilities and P(y = 1) of the same rows give the same calibrator and the same answers."""
    data = hard(400)["two classes"]
    p = softmax(data["logits"])
    np.savez("logits.npz", **data)
    np.savez("probs.npz", probs=p, labels=data["labels"])
    np.savez("single.npz", probs=p[:, 1], labels=data["labels"])
    found = {}
    for name in ("logits", "probs", "single"):
        run("fit", f"{name}.npz", "--event", "--method", method, "-o", "p.json")
        run("apply", "p.json", f"{name}.npz", "--event", "--as", "probs", "-o", "out.npz")
        out = arrays("out.npz")["probs"]
        found[name] = out if out.ndim == 1 else out[:, 1]
    np.testing.assert_allclose(found["logits"], found["probs"], atol=1e-9)
    np.testing.assert_allclose(found["logits"], found["single"], atol=1e-9)
    if method == "temperature":
        # For two classes the event and the predicted class have the same likelihood.
        run("fit", "logits.npz", "--method", method, "-o", "p.json")
        run("apply", "p.json", "logits.npz", "--as", "probs", "-o", "out.npz")
        np.testing.assert_allclose(found["logits"], arrays("out.npz")["probs"][:, 1], atol=1e-9)
    names = run("compare", "calibrators", "single.npz", "--event", "--method", method, "-m", "ks", "--folds", 3).out
    assert method in names
