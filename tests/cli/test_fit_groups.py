"""fit --by, --classwise, --marginal, and what apply promises: the real commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import arrays

from bpmcli.core.calibrators import METHODS, fit_calibrator
from bpmcli.core.calibrators.distributions import calibrate_distributions
from bpmcli.core.calibrators.spread import IN_PROPORTION, fit_spread
from bpmcli.io.readers import read_rows

Run = Callable[..., Any]
SAMPLE_DATA = Path(__file__).resolve().parents[2] / "sample_data"
VAL, TEST, OVER = (SAMPLE_DATA / f"digits_{name}.npz" for name in ("val", "test", "overconfident"))


@pytest.fixture
def grouped(run: Run) -> dict[str, np.ndarray]:
    """Three devices, of which one is rare; confidences that need another curve on each."""
    rng = np.random.default_rng(3)
    device = rng.choice(["007", "b", "rare"], p=[0.5, 0.45, 0.05], size=900)
    s = rng.beta(2.0, 0.6, 900)
    hit = rng.random(900) < np.where(device == "007", s**3, s)
    columns = {"id": np.arange(900), "device": device, "confidence": s, "hit": hit.astype(int)}
    _write("all.csv", columns)
    for name in ("007", "b"):
        _write(f"{name}.csv", {k: v[device == name] for k, v in columns.items()})
    return columns


def _write(path: str, columns: dict[str, np.ndarray]) -> None:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    Path(path).write_text("\n".join(lines) + "\n")


def column(path: str, name: str) -> list[str]:
    head, *lines = Path(path).read_text().splitlines()
    return [line.split(",")[head.split(",").index(name)] for line in lines]


# ---------------------------------------------------------------- --by


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("method", ["bpm", "isotonic"])
def test_each_group_has_the_curve_of_its_own_rows(run: Run, grouped: dict[str, np.ndarray], method: str) -> None:
    ran = run("fit", "all.csv", "--by", "device", "--method", method, "-o", "p.json")
    assert "1 of 3 groups (" in ran.err
    assert " has fewer than 200 rows or could not be fitted, and uses the pooled calibrator: rare" in ran.err
    document = json.loads(Path("p.json").read_text())
    assert document["version"] == 2
    assert list(document["grouping"]["groups"]) == ["007", "b"]
    assert document["grouping"]["pooled"]["rare"]["why"] == "fewer than 200 rows"
    run("fit", "all.csv", "--method", method, "-o", "pooled.json")
    assert json.loads(Path("pooled.json").read_text())["parameters"] == document["parameters"]
    run("apply", "p.json", "all.csv", "-o", "out.csv")
    run("apply", "pooled.json", "all.csv", "-o", "pooled.csv")
    done, pooled = (np.array(column(f, "confidence")) for f in ("out.csv", "pooled.csv"))
    for name in ("007", "b"):
        run("fit", f"{name}.csv", "--method", method, "-o", "own.json")
        run("apply", "own.json", f"{name}.csv", "-o", "own.csv")
        assert column("own.csv", "confidence") == done[grouped["device"] == name].tolist()
    rare = grouped["device"] == "rare"
    assert (done[rare] == pooled[rare]).all()
    assert (done != pooled).mean() > 0.9
    # Order, other columns and the text of the group column stay.
    assert column("out.csv", "id") == [str(i) for i in range(900)]
    assert column("out.csv", "device") == grouped["device"].tolist()


@pytest.mark.usefixtures("unjudged")
def test_unseen_groups_are_counted(run: Run, grouped: dict[str, np.ndarray]) -> None:
    run("fit", "all.csv", "--by", "device", "-o", "p.json")
    _write("new.csv", {"device": np.array(["b", "x", "y", "x"]), "confidence": np.array([0.5, 0.6, 0.7, 0.8])})
    ran = run("apply", "p.json", "new.csv", "-o", "out.csv")
    assert "3 rows are in 2 groups with no fitted calibrator (x, y); used the pooled calibrator" in ran.err
    _write("one.csv", {"device": np.array(["b", "x"]), "confidence": np.array([0.5, 0.6])})
    ran = run("apply", "p.json", "one.csv", "-o", "out1.csv")
    assert "1 row is in a group with no fitted calibrator (x); used the pooled calibrator" in ran.err
    run("fit", "all.csv", "-o", "pooled.json")
    run("apply", "pooled.json", "new.csv", "-o", "pooled.csv")
    assert column("out.csv", "confidence")[1:] == column("pooled.csv", "confidence")[1:]
    _write("none.csv", {"confidence": np.array([0.5])})
    ran = run("apply", "p.json", "none.csv", code=3)
    assert "no column 'device', which holds the groups of these parameters" in ran.err


def test_min_group(run: Run, grouped: dict[str, np.ndarray]) -> None:
    run("fit", "all.csv", "--by", "device", "--min-group", 10, "--method", "platt", "-o", "p.json")
    grouping = json.loads(Path("p.json").read_text())["grouping"]
    assert (list(grouping["groups"]), grouping["pooled"], grouping["minimum"]) == (["007", "b", "rare"], {}, 10)
    # A group that cannot be fitted falls back as well, and says why.
    run("fit", "all.csv", "--by", "device", "--min-group", 10, "-o", "p.json")
    assert "three bins of 20 rows" in json.loads(Path("p.json").read_text())["grouping"]["pooled"]["rare"]["why"]
    assert "no column 'x'" in run("fit", "all.csv", "--by", "x", code=3).err
    assert "needs --by" in run("fit", "all.csv", "--min-group", 10, code=2).err
    assert "exclude each other" in run("fit", "all.csv", "--by", "device", "--classwise", code=2).err
    assert "a summary does not store classes" in run("fit", "all.csv", "--classwise", "--summary", code=2).err


def test_streams_row_by_row(run: Run, grouped: dict[str, np.ndarray]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(grouped), "all.parquet", row_group_size=70)
    run("fit", "all.csv", "--by", "device", "-o", "p.json")
    run("apply", "p.json", "all.parquet", "-o", "out.parquet")
    run("apply", "p.json", "all.csv", "-o", "out.csv")
    found = pq.read_table("out.parquet")
    assert [repr(v) for v in found["confidence"].to_pylist()] == column("out.csv", "confidence")
    assert found["device"].to_pylist() == grouped["device"].tolist()


# ---------------------------------------------------------------- per class


@pytest.mark.usefixtures("unjudged")
def test_classwise_is_by_predicted_class(run: Run) -> None:
    data = arrays(OVER)
    top = data["logits"].argmax(axis=1)
    run("fit", OVER, "--classwise", "--min-group", 150, "--method", "platt", "-o", "p.json")
    np.savez("three.npz", logits=data["logits"][top == 3], labels=data["labels"][top == 3])
    run("fit", "three.npz", "--method", "platt", "-o", "three.json")
    found = json.loads(Path("p.json").read_text())["grouping"]
    assert found["kind"] == "predicted-class"
    assert found["groups"]["3"]["parameters"] == json.loads(Path("three.json").read_text())["parameters"]
    run("apply", "p.json", OVER, "--as", "probs", "-o", "out.npz", "--allow-argmax-change")
    run("apply", "three.json", "three.npz", "--as", "probs", "-o", "own.npz", "--allow-argmax-change")
    # The calibrated confidence is that of the class's own rows; the other classes share by one temperature of all rows.
    np.testing.assert_array_equal(arrays("out.npz")["probs"][top == 3, 3], arrays("own.npz")["probs"][:, 3])
    np.savez("bare.npz", confidence=np.linspace(0.1, 0.9, 300), hit=np.arange(300) % 2)
    assert "needs the scores of all classes" in run("fit", "bare.npz", "--classwise", code=3).err


def test_marginal_calibrates_every_class_against_the_rest(run: Run) -> None:
    run("fit", OVER, "--marginal", "--min-group", 150, "--method", "beta", "-o", "p.json")
    found = json.loads(Path("p.json").read_text())["grouping"]
    assert found["kind"] == "marginal"
    labels = arrays(OVER)["labels"]
    assert {k: g["n"] for k, g in found["groups"].items()} == {str(k): int((labels == k).sum()) for k in range(10)}
    run("apply", "p.json", OVER, "--as", "probs", "-o", "out.npz")
    check_distributions(arrays("out.npz")["probs"], arrays(OVER)["logits"].argmax(axis=1))
    ran = run("apply", "p.json", OVER, "--as", "probs", "-o", "free.npz", "--allow-argmax-change")
    assert "rows: the calibrated confidence fell below the probability of another class" in ran.err
    free = arrays("free.npz")["probs"]
    raw = np.exp(arrays(OVER)["logits"])
    raw /= raw.sum(axis=1, keepdims=True)
    gaps = [abs(p.mean(axis=0) - np.bincount(labels) / labels.size).mean() for p in (free, raw)]
    assert gaps[0] < gaps[1] / 2
    assert "works on all classes at once" in run("fit", OVER, "--marginal", "--method", "ets", code=2).err


# ---------------------------------------------------------------- what apply promises


def check_distributions(probs: np.ndarray, predictions: np.ndarray) -> None:
    assert np.isfinite(probs).all()
    assert probs.min() >= 0
    assert abs(probs.sum(axis=1) - 1).max() < 1e-12
    assert (probs.argmax(axis=1) == predictions).all()


@pytest.mark.usefixtures("unjudged")  # test_fit_apply_law.py judges every method
@pytest.mark.parametrize("method", list(METHODS))
def test_save_load_apply_is_bit_equal_and_keeps_its_promises(run: Run, method: str) -> None:
    run("fit", VAL, "--method", method, "-o", "p.json")
    run("apply", "p.json", TEST, "--as", "probs", "-o", "out.npz")
    found = arrays("out.npz")["probs"]
    rows = read_rows(str(TEST), distributions=True).rows
    assert rows.logits is not None
    assert rows.predictions is not None
    check_distributions(found, rows.predictions)
    val = read_rows(str(VAL), distributions=True).rows
    fitted = fit_calibrator(method, val).calibrator
    spread = (fit_spread(val) if fitted.spreads else None) or IN_PROPORTION
    expected = calibrate_distributions(fitted, rows.logits, rows.log_odds, rows.predictions, spread=spread).probs
    np.testing.assert_array_equal(found, expected)
    # Another order of the rows: the same rows in that order.
    order = np.random.default_rng(0).permutation(rows.n)
    data = arrays(TEST)
    np.savez("mixed.npz", logits=data["logits"][order], labels=data["labels"][order])
    run("apply", "p.json", "mixed.npz", "--as", "probs", "-o", "mixed_out.npz")
    np.testing.assert_array_equal(arrays("mixed_out.npz")["probs"], found[order])
    np.testing.assert_array_equal(arrays("mixed_out.npz")["labels"], data["labels"][order])


@pytest.mark.usefixtures("unjudged")
def test_one_hot_rows_do_not_become_nan(run: Run) -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([0.3] * 3, 150)
    probs[:20] = np.eye(3)[rng.integers(0, 3, 20)]
    labels = np.where(rng.random(150) < 0.2, 0, probs.argmax(axis=1))
    np.savez("a.npz", probs=probs, labels=labels)
    for method in METHODS:
        run("fit", "a.npz", "--method", method, "-o", "p.json")
        run("apply", "p.json", "a.npz", "--as", "probs", "-o", "out.npz")
        check_distributions(arrays("out.npz")["probs"], probs.argmax(axis=1))
    run("fit", "a.npz", "--marginal", "--min-group", 15, "-o", "p.json")
    run("apply", "p.json", "a.npz", "--as", "probs", "-o", "out.npz")
    check_distributions(arrays("out.npz")["probs"], probs.argmax(axis=1))


def test_rounding_does_not_change_the_class(run: Run) -> None:
    # At this temperature the second class leads by less than the last digit.
    Path("p.json").write_text(
        json.dumps({"schema": "bpmcli/calibrator", "version": 1, "method": "temperature", "target": "top-label",
                    "parameters": {"temperature": 1e17}})
    )  # fmt: skip
    np.savez("a.npz", logits=np.array([[0.0, 1.0, 0.5], [2.0, 1.0, 0.0]]))
    ran = run("apply", "p.json", "a.npz", "--as", "probs", "-o", "out.npz")
    assert "class" not in ran.err
    check_distributions(arrays("out.npz")["probs"], np.array([1, 0]))


def test_binary_predictions_stay_on_their_side(run: Run) -> None:
    Path("p.json").write_text(
        json.dumps({"schema": "bpmcli/calibrator", "version": 1, "method": "histogram", "target": "top-label",
                    "parameters": {"edges": [], "rates": [0.5]}})
    )  # fmt: skip
    _write("a.csv", {"prob": np.array([0.9, 0.2])})
    run("apply", "p.json", "a.csv", "-o", "out.csv")
    high, low = map(float, column("out.csv", "prob"))
    assert low <= 0.5 < high


def test_log_odds_come_out_as_log_odds(run: Run) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 3, 400)
    y = (rng.random(400) < 1 / (1 + np.exp(-x / 2))).astype(int)
    _write("a.csv", {"logit": x, "label": y})
    run("fit", "a.csv", "--method", "temperature", "-o", "p.json")
    t = json.loads(Path("p.json").read_text())["parameters"]["temperature"]
    run("apply", "p.json", "a.csv", "-o", "out.csv")
    np.testing.assert_allclose([float(v) for v in column("out.csv", "logit")], x / t, rtol=1e-9)


def test_distribution_calibrators_say_what_they_need(run: Run) -> None:
    run("fit", VAL, "--method", "temperature", "-o", "p.json")
    _write("a.csv", {"confidence": np.array([0.9, 0.5])})
    ran = run("apply", "p.json", "a.csv", code=3)
    assert "temperature needs the scores of all classes, but this input has only confidences" in ran.err


@pytest.mark.parametrize(
    "broken",
    [{}, {"kind": "x", "column": None, "minimum": 1, "groups": {}}, {"kind": "column", "column": None, "minimum": 1,
     "groups": {}}, {"kind": "marginal", "column": None, "minimum": 1, "groups": {"1": {"parameters": {"a": 1}}}}],
)  # fmt: skip
def test_broken_groupings_are_refused(run: Run, broken: dict[str, Any]) -> None:
    run("fit", VAL, "--method", "platt", "-o", "p.json")
    document = json.loads(Path("p.json").read_text())
    assert document["version"] == 1  # without groups older releases still read it
    Path("p.json").write_text(json.dumps(document | {"version": 2, "grouping": broken}))
    assert run("apply", "p.json", TEST, "--as", "probs", "-o", "out.npz", code=3).err.startswith(
        "bpmcli: error: p.json: "
    )
