"""A new calibrator of whole distributions is one class and one decorated function: every command then knows it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import arrays

import bpmcli.core.calibrators as package
from bpmcli.core.calibrators import METHODS, DistributionCalibrator, FitOptions, Fitted, method
from bpmcli.core.data.log_odds import log_softmax
from bpmcli.core.data.rows import Rows
from bpmcli.errors import DataError

Run = Callable[..., Any]


@dataclass(frozen=True)
class ClassPriors(DistributionCalibrator):
    """softmax(z + b): belongs to a number of classes, and may put another class on top."""

    shifts: tuple[float, ...]
    table: tuple[tuple[float, ...], ...]
    """Exists only to test that nested lists can be saved and loaded."""

    @property
    def n_classes(self) -> int:
        return len(self.shifts)

    def log_probabilities(self, logits: np.ndarray) -> np.ndarray:
        return log_softmax(logits + np.array(self.shifts))


@pytest.fixture
def class_priors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dict(METHODS)

    @method("class-priors", "one shift for each class", "-", ClassPriors)
    def fit(rows: Rows, options: FitOptions) -> Fitted:
        assert rows.logits is not None
        assert rows.labels is not None
        classes = rows.logits.shape[1]
        shifts = np.log1p(np.bincount(rows.labels, minlength=classes)) - np.log1p(
            np.bincount(rows.logits.argmax(axis=1), minlength=classes)
        )
        return Fitted(ClassPriors(tuple((5 * shifts).tolist()), ((1.0, 2.0), (3.0,))))

    yield
    METHODS.clear()
    METHODS.update(before)


def write(path: str, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(600, classes))
    labels = (z + 0.3 * np.arange(classes) + rng.gumbel(size=z.shape)).argmax(axis=1)
    np.savez(path, logits=z, labels=labels)
    return z, labels


def test_fit_apply_and_compare_know_a_new_calibrator(run: Run, class_priors: None) -> None:
    z, _ = write("val.npz", 5, 0)
    write("test.npz", 5, 1)
    assert "class-priors" in run("fit", "--method", "list").out
    run("fit", "val.npz", "--method", "class-priors", "-o", "p.json")
    parameters = json.loads(Path("p.json").read_text())["parameters"]
    assert parameters["table"] == [[1.0, 2.0], [3.0]]
    shifted = z + np.array(parameters["shifts"])

    # The class stays unless that is allowed; then the distribution is the calibrator's own.
    run("apply", "p.json", "val.npz", "--as", "probs", "-o", "kept.npz")
    assert np.array_equal(arrays("kept.npz")["probs"].argmax(axis=1), z.argmax(axis=1))
    told = run("apply", "p.json", "val.npz", "--as", "probs", "-o", "free.npz", "--allow-argmax-change").err
    moved = int((shifted.argmax(axis=1) != z.argmax(axis=1)).sum())
    assert moved > 20
    assert f"{moved} rows" in told
    np.testing.assert_allclose(arrays("free.npz")["probs"], np.exp(log_softmax(shifted)), rtol=1e-12)


def test_compare_measures_how_often_the_class_is_kept(run: Run, class_priors: None) -> None:
    write("val.npz", 5, 0)
    z, labels = write("test.npz", 5, 1)
    argv = ("compare", "calibrators", "--calibration", "val.npz", "--evaluation", "test.npz", "-f", "json")
    found = json.loads(run(*argv, "--method", "class-priors", "--method", "temperature", "-m", "ks").out)
    value = {(s["method"], s["score"]): s["value"] for s in found["inputs"][0]["scores"]}
    run("fit", "val.npz", "--method", "class-priors", "-o", "p.json")
    shifted = z + np.array(json.loads(Path("p.json").read_text())["parameters"]["shifts"])
    kept = (shifted.argmax(axis=1) == z.argmax(axis=1)).mean()
    assert 0.2 < kept < 0.95
    assert value["class-priors", "kept"] == pytest.approx(kept, rel=1e-12)
    assert value["temperature", "kept"] == 1.0
    # The confidence that is scored is the calibrated probability of the class that the model predicted.
    rows = np.arange(labels.size)
    g = np.exp(log_softmax(shifted))[rows, z.argmax(axis=1)]
    hits = z.argmax(axis=1) == labels
    assert value["class-priors", "nll"] == pytest.approx(-np.log(np.where(hits, g, 1 - g)).mean(), rel=1e-9)


def test_another_number_of_classes_is_a_sentence(run: Run, class_priors: None) -> None:
    write("val.npz", 5, 0)
    write("other.npz", 4, 1)
    run("fit", "val.npz", "--method", "class-priors", "-o", "p.json")
    ran = run("apply", "p.json", "other.npz", "-o", "out.npz", code=3)
    assert "fitted to 5 classes, but this input has 4" in ran.err


@dataclass(frozen=True)
class Broken(DistributionCalibrator):
    """Promises to keep the order but reverses it if `sign` is negative; sums to `total`."""

    keeps_order = True
    sign: float
    total: float

    def log_probabilities(self, logits: np.ndarray) -> np.ndarray:
        return log_softmax(self.sign * logits) + np.log(self.total)


@pytest.mark.parametrize("bad", [{"sign": -1.0, "total": 1.0}, {"sign": 1.0, "total": 0.9}])
def test_the_load_check_holds_a_class_to_its_promise(bad: dict[str, float]) -> None:
    Broken.from_parameters({"sign": 1.0, "total": 1.0})
    with pytest.raises(DataError, match="valid calibrator"):
        Broken.from_parameters(bad)


def test_two_classes_are_an_event() -> None:
    x = np.array([-700.0, -2.0, 0.0, 3.0, 700.0])
    g, miss = METHODS["temperature"].calibrator(2.0)(x)  # type: ignore[call-arg]
    np.testing.assert_allclose(g, 1 / (1 + np.exp(-x / 2)), rtol=1e-14)
    np.testing.assert_allclose(miss, 1 / (1 + np.exp(x / 2)), rtol=1e-14)


def test_every_file_of_the_room_is_found() -> None:
    """No list names the calibrators: what a file registers is there."""
    folder = Path(package.__file__).parent
    named = {name for path in folder.glob("*.py") for name in re.findall(r'@method\(\s*"([^"]+)"', path.read_text())}
    assert named == set(METHODS)
    kinds = [entry.needs_distribution for entry in METHODS.values()]
    assert kinds == sorted(kinds)


def test_averaged_weights_that_round_above_one_are_sound() -> None:
    """Σ w g was 1.0000000000000002 where all components give 1: `fit` wrote what `apply` refused."""
    rng = np.random.default_rng(0)
    weights = next(w for w in (rng.dirichlet(np.ones(9)) for _ in range(1000)) if sum(w.tolist()) > 1.0)
    parameters = {
        "shapes": ["identity"] * 9, "ends": [""] * 9, "weights": weights.tolist(), "thetas": [0.0] * 36,
        "knots": [], "flat_log_odds": [], "flat_eta": [],
    }  # fmt: skip
    g, miss = METHODS["bpm-averaged"].calibrator.from_parameters(parameters)(np.array([-700.0, 0.0, 700.0]))
    assert g.tolist() == [pytest.approx(0.0, abs=1e-200), 0.5, 1.0]
    assert miss[0] == 1.0
