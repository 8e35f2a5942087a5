"""Comparing calibrators: splits, proper scores, standard errors, tests and ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from bpmcli.core.calibrators import METHODS, Calibrator, Fitted, Method, fit_calibrator
from bpmcli.core.calibrators.distributions import calibrate_distributions
from bpmcli.core.calibrators.spread import Spread
from bpmcli.core.compare.cross_validation import (
    DRAW,
    FOLD,
    WHOLE,
    Contest,
    Outcome,
    applicable,
    compare_once,
    cross_validate,
    learn,
    shared_rows,
)
from bpmcli.core.compare.folds import fold_numbers
from bpmcli.core.compare.score_table import BEST, CLOSE, CalibratorScore, ranks, table
from bpmcli.core.compare.scores import Judge, loss, score_names
from bpmcli.core.data.log_odds import reduce_logits
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import sigmoid
from bpmcli.core.metrics import MetricOptions
from bpmcli.errors import DataError


def rows_of(n: int, seed: int = 0, classes: int = 4, sharp: float = 2.0) -> Rows:
    """An over-confident model whose rows are sorted by label, as many files are."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, classes)) * 2
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    labels = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    order = np.argsort(labels, kind="stable")
    z, labels = sharp * z[order], labels[order]
    found = reduce_logits(z)
    return Rows(found.log_odds, found.predictions == labels, None, found.predictions, labels, logits=z)


# ---------------------------------------------------------------- splits


def test_folds_are_stratified_and_shuffled() -> None:
    hits = np.repeat([True, False, True], [700, 103, 200])  # sorted, as by label
    numbers = fold_numbers(hits, 5, np.random.default_rng(0))
    for outcome in (True, False):
        counts = np.bincount(numbers[hits == outcome], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert np.ptp(np.bincount(numbers)) <= 1
    # Every fold has rows of every part of the file.
    for part in np.array_split(numbers, 10):
        assert set(part.tolist()) == set(range(5))
    assert not np.array_equal(numbers, fold_numbers(hits, 5, np.random.default_rng(1)))


def test_too_few_rows_for_the_folds() -> None:
    with pytest.raises(DataError, match="9 rows are too few for 5 folds"):
        fold_numbers(np.ones(9, dtype=bool), 5, np.random.default_rng(0))


@dataclass(frozen=True)
class Memory(Calibrator):
    """Refuses every row it was fitted to."""

    seen: tuple[float, ...] = ()
    asked: ClassVar[list[int]] = []

    def __call__(self, log_odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert not np.isin(log_odds, self.seen).any(), "a fitted row was scored"
        self.asked.append(log_odds.size)
        return sigmoid(log_odds), sigmoid(-log_odds)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    def fit(rows: Rows, options: object) -> Fitted:
        return Fitted(Memory(tuple(rows.log_odds.tolist())))

    monkeypatch.setitem(METHODS, "memory", Method("memory", "", "", Memory, fit))
    Memory.asked.clear()
    yield Memory.asked
    Memory.asked.clear()


@pytest.mark.parametrize("sizes", [(), (20, 60)])
def test_no_row_is_scored_by_what_it_was_fitted_to(memory: list[int], sizes: tuple[int, ...]) -> None:
    rows = rows_of(200)
    assert np.unique(rows.log_odds).size == 200
    contest = Contest(("memory",), ("nll",), folds=4, sizes=sizes)
    found = [o for repeat in range(2) for o in cross_validate(rows, contest, repeat)]
    assert len(found) == 8 * max(1, len(sizes))
    assert {o.fitted for o in found} == (set(sizes) or {150})
    # All rows are scored once in each repeat, for each size.
    assert sum(memory) == 2 * 200 * max(1, len(sizes))
    other = rows_of(100, seed=1)
    compare_once(rows, other, contest)
    learn(rows, other, Contest(("memory",), ("nll",), sizes=(50,)), 0)
    with pytest.raises(AssertionError, match="a fitted row was scored"):
        compare_once(rows, rows, contest)


def test_learning_curves_stop_where_rows_end() -> None:
    contest = Contest(("platt",), ("nll",), folds=2, sizes=(50, 100, 101))
    assert [o.fitted for o in cross_validate(rows_of(200), contest, 0)] == [50, 100, 50, 100]


def test_more_calibration_rows_are_better() -> None:
    contest = Contest(("beta", "identity"), ("nll",), folds=2, sizes=(40, 1500))
    rows = rows_of(3200)
    scores = table([o for r in range(3) for o in cross_validate(rows, contest, r)], contest.methods, ("nll",))
    nll = {(s.method, s.calibration_rows): s.value or 0.0 for s in scores}
    assert nll["beta", 1500] < nll["beta", 40]
    assert nll["identity", 1500] == nll["identity", 40] > nll["beta", 1500]


# ---------------------------------------------------------------- scores


def scores(x: list[float], hits: list[bool], weights: list[float] | None = None) -> dict[str, Any]:
    rows = Rows(np.array(x), np.array(hits), None if weights is None else np.array(weights))
    identity = fit_calibrator("identity", rows).calibrator
    return Judge(rows).confidences(identity).scores(("brier", "nll", "kept"), MetricOptions())


def test_proper_scores_by_hand() -> None:
    s = 1 / (1 + np.exp(-1.0))
    found = scores([1.0, 1.0], [True, False])
    assert found["brier"] == pytest.approx(((1 - s) ** 2 + s**2) / 2, rel=1e-14)
    assert found["nll"] == pytest.approx(-(np.log(s) + np.log(1 - s)) / 2, rel=1e-14)
    assert found["kept"] is None
    assert scores([1.0, 1.0, 1.0], [True, False, False], [2, 1, 0])["nll"] == pytest.approx(
        -(2 * np.log(s) + np.log(1 - s)) / 3, rel=1e-14
    )


def test_saturated_confidences_keep_their_digits() -> None:
    assert scores([50.0], [True])["nll"] == pytest.approx(np.exp(-50), rel=1e-12)
    assert scores([50.0], [False])["nll"] == pytest.approx(50.0, rel=1e-12)
    assert scores([50.0], [True])["brier"] == pytest.approx(np.exp(-100), rel=1e-12)
    assert scores([700.0], [False])["nll"] == pytest.approx(700.0)


def test_kept_is_what_apply_counts() -> None:
    rows = rows_of(500, sharp=3.0)
    assert rows.logits is not None
    assert rows.predictions is not None
    for name in METHODS:
        fitted = fit_calibrator(name, rows).calibrator
        spread = Spread(2.0, 0.01)
        kept = Judge(rows).confidences(fitted, spread).scores(("kept",), MetricOptions())["kept"]
        done = calibrate_distributions(fitted, rows.logits, rows.log_odds, rows.predictions, True, spread)
        assert kept == pytest.approx(1 - done.below_runner_up / rows.n), name


def test_distribution_methods_are_scored_on_the_predicted_class() -> None:
    rows = rows_of(300)
    assert rows.logits is not None
    fitted = fit_calibrator("temperature", rows).calibrator
    done = Judge(rows).confidences(fitted)
    top = np.exp(fitted.log_probabilities(rows.logits)).max(axis=1)
    np.testing.assert_allclose(done.g, top, rtol=1e-12)
    np.testing.assert_allclose(done.miss, 1 - top, rtol=1e-7, atol=1e-14)


def test_loss_never_passes_for_better_than_perfect() -> None:
    assert loss("ece-debiased", np.array([-0.01, 0.02])).tolist() == [0.0, 0.02]
    assert loss("kept", np.array([1.0, 0.9])).tolist() == pytest.approx([0.0, 0.1])


# ---------------------------------------------------------------- failures


def test_a_failing_method_is_reported_and_the_others_go_on() -> None:
    rows = rows_of(300)
    few = rows.take(np.arange(12))  # bpm needs bins of twenty rows
    methods = ("bpm", "temperature", "platt")
    found = table(compare_once(few, rows, Contest(methods, folds=3)), methods, score_names())
    failed = {s.method: s.reason for s in found if s.failed}
    assert set(failed) == {"bpm"}
    assert "12 rows are too few" in str(failed["bpm"])
    assert all(s.value is None for s in found if s.method == "bpm")
    assert all(s.value is not None for s in found if s.method == "platt" and s.score != "tce-bpm")


def test_one_failure_leaves_no_mean_over_the_easy_folds() -> None:
    ok = Outcome(FOLD, 80, 20, {"a": {"nll": 0.1}, "b": {"nll": 0.2}}, {})
    bad = Outcome(FOLD, 80, 20, {"b": {"nll": 0.2}}, {"a": "no fit"})
    a, b = table([ok, bad, ok], ["a", "b"], ["nll"])
    assert (a.value, a.failed, a.draws, a.reason) == (None, 1, 3, "no fit")
    assert b.mark == BEST


def test_methods_of_whole_distributions_need_them() -> None:
    rows = rows_of(100)
    bare = Rows(rows.log_odds, rows.hits)
    assert applicable(["bpm", "ets"], bare) == (["bpm"], ["ets"])
    assert applicable(["bpm", "ets"], rows) == (["bpm", "ets"], [])


# ---------------------------------------------------------------- standard errors, tests, ranks


def folds(role: str, fitted: int, scored: int, **values: list[float]) -> list[Outcome]:
    n = len(next(iter(values.values())))
    return [Outcome(role, fitted, scored, {m: {"nll": v[i]} for m, v in values.items()}, {}) for i in range(n)]


def test_nadeau_bengio_by_hand() -> None:
    from scipy.stats import t

    a, b = [0.10, 0.12, 0.11, 0.13], [0.12, 0.13, 0.14, 0.15]
    one, two = table(folds(FOLD, 75, 25, a=a, b=b), ["a", "b"], ["nll"])
    factor = np.sqrt(1 / 4 + 25 / 75)
    assert one.value == pytest.approx(np.mean(a))
    assert one.standard_error == pytest.approx(factor * np.std(a, ddof=1))
    difference = np.subtract(b, a)
    expected = t.sf(difference.mean() / (factor * np.std(difference, ddof=1)), 3)
    assert (one.mark, one.p_value) == (BEST, None)
    assert two.p_value == pytest.approx(expected)
    assert two.mark == ("" if expected <= 0.05 else CLOSE)


def test_holm_and_ties() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(0.1, 0.01, 20)
    close, far = a + rng.normal(0.001, 0.01, 20), a + rng.normal(0.1, 0.01, 20)
    values = {"a": a.tolist(), "same": a.tolist(), "close": close.tolist(), "far": far.tolist()}
    found = {s.method: s for s in table(folds(FOLD, 80, 20, **values), list(values), ["nll"])}
    assert {m: s.mark for m, s in found.items()} == {"a": BEST, "same": BEST, "close": CLOSE, "far": ""}
    alone = {s.method: s for s in table(folds(FOLD, 80, 20, a=values["a"], far=values["far"]), ["a", "far"], ["nll"])}
    assert found["far"].p_value == pytest.approx(3 * (alone["far"].p_value or 0.0))


def test_jackknife_is_the_standard_error_of_a_mean() -> None:
    rows = rows_of(400)
    contest = Contest(("identity",), ("brier",), folds=200)
    (found,) = table(compare_once(rows, rows, contest), ["identity"], ["brier"])
    s = sigmoid(rows.log_odds)
    squared = (s - rows.hits) ** 2
    assert found.value == pytest.approx(squared.mean(), rel=1e-12)
    assert found.standard_error == pytest.approx(np.std(squared, ddof=1) / 20, rel=0.15)
    assert compare_once(rows, rows, contest)[0].role == WHOLE


def test_draws_have_no_p_values() -> None:
    found = table(folds(DRAW, 50, 100, a=[0.1, 0.2], b=[0.2, 0.3]), ["a", "b"], ["nll"])
    assert [s.p_value for s in found] == [None, None]
    assert found[0].standard_error == pytest.approx(0.05)


def test_ranks_share_ties_and_put_failures_last() -> None:
    def record(method: str, value: float | None) -> CalibratorScore:
        return CalibratorScore(method, "ece-debiased", 10, 10, value, None, None, "", 1, int(value is None), None)

    first = [record("a", -0.01), record("b", -0.02), record("c", 0.3), record("d", None)]
    second = [record("a", 0.1), record("b", 0.2)]
    found = {r.method: r for r in ranks([first, second])}
    assert found["a"].mean_rank == pytest.approx((1.5 + 1) / 2)  # below 0 is no better than 0
    assert found["b"].mean_rank == pytest.approx((1.5 + 2) / 2)
    assert (found["c"].mean_rank, found["c"].inputs) == (3, 1)
    assert (found["d"].mean_rank, found["d"].failed) == (4, 1)


def test_rows_in_both_files_are_counted() -> None:
    a, b = rows_of(200), rows_of(100, seed=1)
    assert shared_rows(a, b) == 0
    assert shared_rows(a, a.take(np.arange(30))) == 30
    repeated = a.take(np.arange(200) % 20)  # proves nothing
    assert shared_rows(repeated, a) == 0


def test_weights_of_rows_held_out():
    from bpmcli.core.compare.scores import _mean

    values, huge = np.array([1.0, 3.0]), np.array([1e308, 3e307])
    assert _mean(values, None) == 2.0
    assert _mean(values, huge) == pytest.approx((1.0 + 0.9) / 1.3)
    with pytest.raises(DataError, match="all weights of the rows held out are zero"):
        _mean(values, np.zeros(2))
