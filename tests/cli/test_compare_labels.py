"""compare on multi-label files (--multi-label) and on rows of no class (--unknown): the same figures as metrics and fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpmcli.core.calibrators import fit_calibrator
from bpmcli.core.compare.folds import row_folds
from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.errors import DataError

Run = Callable[..., Any]
SAMPLE_DATA = Path(__file__).resolve().parents[2] / "sample_data"
SCORES = ("nll", "brier", "tce", "ece")


@pytest.fixture
def tags(tmp_path: Path) -> Path:
    """400 items with two labels: the probabilities of one are right, those of the other should be squared."""
    rng = np.random.default_rng(3)
    p = rng.beta(1, 2, (400, 2))
    np.savez(tmp_path / "tags.npz", probs=p, labels=rng.random((400, 2)) < p ** np.array([1, 2]))
    return tmp_path / "tags.npz"


@pytest.fixture
def open_set(tmp_path: Path) -> Path:
    stored = dict(np.load(SAMPLE_DATA / "digits_test.npz"))
    stored["labels"][::20] = -1
    np.savez(tmp_path / "open.npz", **stored)
    return tmp_path / "open.npz"


def scores(run: Run, *argv: object) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for s in json.loads(run(*argv, "-f", "json").out)["inputs"][0]["scores"]:
        found.setdefault(s["method"], {})[s["score"]] = s["value"]
    return found


def measured(run: Run, *argv: object) -> dict[str, float]:
    record = json.loads(run("metrics", *argv, "-m", ",".join(SCORES), "-f", "json").out)["results"][0]
    return {name: record["metrics"][name]["value"] for name in SCORES}


@pytest.mark.parametrize("how", ["--multi-label", "--unknown=-1"])
def test_uncalibrated_scores_are_those_of_metrics(run: Run, tags: Path, open_set: Path, how: str) -> None:
    path = tags if how == "--multi-label" else open_set
    found = scores(run, "compare", "calibrators", path, how, "--method", "identity", "--in-sample")["identity"]
    assert {name: found[name] for name in SCORES} == pytest.approx(measured(run, path, how), abs=1e-12)


def test_each_label_gets_its_own_calibrator(run: Run, unjudged: None, tags: Path, tmp_path: Path) -> None:
    """What `fit` and `apply` do to the same rows has the same scores; one curve for both labels does not."""
    found = scores(run, "compare", "calibrators", tags, "--multi-label", "--method", "platt,identity", "--in-sample")
    run("fit", tags, "--multi-label", "--method", "platt", "-o", tmp_path / "p.json")
    run("apply", tmp_path / "p.json", tags, "--multi-label", "-o", tmp_path / "done.npz")
    after = measured(run, tmp_path / "done.npz", "--multi-label")
    assert {name: found["platt"][name] for name in SCORES} == pytest.approx(after, abs=1e-9)
    pooled = scores(run, "compare", "calibrators", tags, "--multi-label", "--method", "identity", "--in-sample")
    assert pooled["identity"]["nll"] > after["nll"] + 0.01


def test_all_methods_are_cross_validated_on_labels(run: Run, tags: Path) -> None:
    argv = ("compare", "calibrators", tags, "--multi-label", "--repeats", 1, "--folds", 2)
    found = scores(run, *argv, "--method", "isotonic,temperature,identity", "-m", "ece")
    assert all(one["nll"] is not None and one["nll-all"] is None for one in found.values())
    assert found["isotonic"]["nll"] < found["identity"]["nll"]


def test_whole_distributions_are_left_out_for_unknown_rows(run: Run, open_set: Path) -> None:
    argv = ("compare", "calibrators", open_set, "--unknown", "-1", "--folds", 2, "--repeats", 1)
    ran = run(*argv, "--method", "temperature,platt", "-m", "ece")
    assert "unknown rows (--unknown) have none: temperature" in ran.err
    assert "platt" in ran.out
    assert "nll-all" not in ran.out
    refused = run(*argv, "--method", "temperature", code=3)
    assert "add --method bpm-averaged" in refused.err


def test_compare_metrics_knows_the_same_options(run: Run, tags: Path, open_set: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.npz").write_bytes(tags.read_bytes())
    for path, how in (
        (tags, ["--multi-label"]),
        (open_set, ["--unknown=-1"]),
        (SAMPLE_DATA / "digits_test.npz", ["--top-k", 2]),
    ):
        ran = run("compare", "metrics", path, *how, "-m", ",".join(SCORES), "-f", "json")
        record = json.loads(ran.out)["results"][0]["metrics"]
        assert {name: record[name]["value"] for name in SCORES} == measured(run, path, *how)
    pair = ("compare", "metrics", tags, tmp_path / "copy.npz", "--paired", "-m", "ece", "--resamples", 50)
    difference = json.loads(run(*pair, "--multi-label", "-f", "json").out)["differences"][0]
    assert difference["first"] == pytest.approx(measured(run, tags, "--multi-label")["ece"])
    assert difference["difference"] == 0


def items(n: int = 40) -> Rows:
    """Three labels per item, with ties."""
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, 3 * n).astype(float)
    groups, clusters = np.tile(np.arange(3), n), np.repeat(np.arange(n), 3)
    return Rows(
        x, rng.random(3 * n) < 0.3, target=EVENT, groups=Categorical(["a", "b", "c"], groups),
        clusters=Categorical([str(i) for i in range(n)], clusters), label_names=("a", "b", "c"),
    )  # fmt: skip


def test_an_item_is_held_out_as_a_whole() -> None:
    rows = items()
    numbers = row_folds(rows, 4, np.random.default_rng(0)).reshape(-1, 3)
    assert (numbers == numbers[:, :1]).all()
    assert np.bincount(numbers[:, 0]).tolist() == [10] * 4
    true = rows.hits.reshape(-1, 3).sum(axis=1)
    share = [true[numbers[:, 0] == fold].sum() for fold in range(4)]
    assert max(share) - min(share) <= 3  # items with few and many labels are spread evenly
    with pytest.raises(DataError, match="40 items are too few for 30 folds"):
        row_folds(rows, 30, np.random.default_rng(0))


def test_folds_of_items_do_not_depend_on_their_order() -> None:
    rows = items()
    order = np.random.default_rng(1).permutation(40)
    index = (3 * order[:, None] + np.arange(3)).ravel()
    moved = rows.take(index)._replace(clusters=Categorical([str(i) for i in range(40)], np.repeat(np.arange(40), 3)))
    folds = [row_folds(one, 4, np.random.default_rng(0)) for one in (rows, moved)]

    def content(one: Rows, numbers: np.ndarray) -> list[Any]:
        x, y, fold = one.log_odds.reshape(-1, 3).tolist(), one.hits.reshape(-1, 3).tolist(), numbers[::3].tolist()
        return sorted(zip(x, y, fold, strict=True))

    assert content(rows, folds[0]) == content(moved, folds[1])
    assert fit_calibrator("platt", rows).calibrator == fit_calibrator("platt", moved).calibrator
