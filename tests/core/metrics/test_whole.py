"""Metrics of whole distributions: definitions evaluated directly, other packages, and laws for every registry entry."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from conftest import ROOT

from bpmcli.core.data.class_scores import ClassScores
from bpmcli.core.data.log_odds import log_softmax, reduce_logits, reduce_probs
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import sample_from_log_odds
from bpmcli.core.metrics import METRICS, MetricOptions, measure
from bpmcli.core.metrics import canonical as canonical_module
from bpmcli.core.metrics.canonical import distribution_test
from bpmcli.core.metrics.class_check import class_check
from bpmcli.core.metrics.classwise import Asked, class_samples, class_table
from bpmcli.core.metrics.whole import IMPOSSIBLE, whole_losses
from bpmcli.core.metrics.whole_intervals import whole_intervals
from bpmcli.errors import FitError

WHOLE = [name for name, entry in METRICS.items() if entry.needs_classes]
ORACLE = json.loads((ROOT / "tests" / "oracles" / "classes.json").read_text())["cases"]


def rows_of(logits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None, parts: int = 1) -> Rows:
    top = reduce_logits(logits)
    scores = ClassScores(np.array_split(logits, parts), from_probs=False)
    return Rows(top.log_odds, top.predictions == labels, weights, top.predictions, labels, scores=scores)


def of_probs(probs: np.ndarray, labels: np.ndarray) -> Rows:
    top = reduce_probs(probs)
    scores = ClassScores([probs], from_probs=True)
    return Rows(top.log_odds, top.predictions == labels, None, top.predictions, labels, scores=scores)


def case(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """As in benchmarks/oracle_classes.py: probabilities, and labels that disagree with them a little."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.geomspace(0.3, 2.0, k), n)
    true = probs**0.7
    edges = np.cumsum(true / true.sum(axis=1, keepdims=True), axis=1)
    return probs, np.minimum((rng.random((n, 1)) > edges).sum(axis=1), k - 1)


def draw(truth: str, n: int, k: int, rng: np.random.Generator) -> Rows:
    """As in benchmarks/canonical.py: distributions of random logits, and labels that are drawn from others."""
    logs = log_softmax(rng.normal(0, 2, (n, k)))
    true, top = logs.copy(), logs.argmax(axis=1)
    if truth == "temperature":
        true *= 0.8
    elif truth == "shift":
        true[:, 0] += 0.35
        true[:, 1] -= 0.35
    elif truth == "slopes":
        true *= np.where(np.arange(k) < k // 2, 1.2, 0.8)
    elif truth == "rest":  # the confidence stays calibrated
        rest = np.where(np.arange(k) == top[:, None], 0.0, np.exp(logs))
        true = np.log(0.6 * rest + 0.4 * rest.sum(axis=1, keepdims=True) / (k - 1))
        true[np.arange(n), top] = logs[np.arange(n), top]
    edges = np.cumsum(np.exp(log_softmax(true)), axis=1)
    return rows_of(logs, np.minimum((rng.random((n, 1)) * edges[:, -1:] > edges).sum(axis=1), k - 1))


def value(name: str, rows: Rows, **options: object) -> float:
    found = measure(rows.sample, [name], MetricOptions(**options), rows)[name].value  # type: ignore[arg-type]
    assert found is not None
    return found


def some(n: int = 300, k: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (n, k))
    return logits, rng.integers(0, k, n)


@pytest.mark.parametrize("name", ORACLE)
def test_other_packages_agree(name):
    expected = dict(ORACLE[name])
    rows = of_probs(*case(*expected.pop("case")))
    for key, number in expected.items():
        metric, *how = key.split()
        options = {"binning": how[0], "p": float(how[1])} if how else {}
        assert value(metric, rows, **options) == pytest.approx(number, abs=1e-12), key


def test_losses_equal_their_definition():
    logits, labels = some()
    p = np.exp(log_softmax(logits))
    true = p[np.arange(300), labels]
    log_loss, brier = whole_losses(log_softmax(logits), labels)
    assert log_loss == pytest.approx(-np.log(true), rel=1e-12)
    assert brier == pytest.approx(((p - np.eye(4)[labels]) ** 2).sum(axis=1), rel=1e-12)


def test_losses_of_saturated_rows_keep_their_digits():
    # The others have e^-50 and e^-60: log loss e^-50 (1 + e^-10) to first order, Brier (a + b)² + a² + b².
    log_loss, brier = whole_losses(log_softmax(np.array([[0.0, -50.0, -60.0]])), np.array([0]))
    a, b = math.exp(-50), math.exp(-60)
    assert log_loss[0] == pytest.approx(a + b, rel=1e-12)
    assert brier[0] == pytest.approx((a + b) ** 2 + a**2 + b**2, rel=1e-12)
    # Logits express a loss of 1000; a probability of exactly 0 costs as much as the smallest float64.
    assert whole_losses(log_softmax(np.array([[0.0, -1000.0]])), np.array([1]))[0] == pytest.approx(1000.0)
    found = measure(*_zero())["nll-all"]
    assert found.value == pytest.approx(IMPOSSIBLE)
    assert [n.code for n in found.notices] == ["zero-for-true"]
    rows = rows_of(*some())
    assert measure(rows.sample, ["nll-all"], rows=rows)["nll-all"].notices == ()


def test_without_a_known_label_only_the_brier_score_is_left():
    logits, _ = some(20)
    rows = rows_of(logits, np.full(20, -1))
    found = measure(rows.sample, WHOLE, rows=rows)
    assert found["nll-all"].why_missing == found["canonical-p"].why_missing == "no label is one of the classes"
    assert found["brier-all"].value == pytest.approx(np.mean(np.sum(np.exp(log_softmax(logits)) ** 2, axis=1)))


def _zero() -> tuple:
    rows = of_probs(np.array([[1.0, 0.0]]), np.array([1]))
    return rows.sample, ["nll-all"], None, rows


def test_classwise_errors_are_those_of_each_class_as_an_event():
    logits, labels = some(500, 5, 3)
    p = np.exp(log_softmax(logits))
    rows = rows_of(logits, labels)
    alone = [sample_from_log_odds(np.log(p[:, k]) - np.log1p(-p[:, k]), labels == k) for k in range(5)]
    for power in (1.0, 2.0):
        errors = [measure(one, ["ece"], MetricOptions(p=power))["ece"].value for one in alone]
        assert value("ece-classwise", rows, p=power) == pytest.approx(np.mean(np.power(errors, power)) ** (1 / power))
    squares = [measure(one, ["ece-debiased"], MetricOptions(p=2))["ece-debiased"].value ** 2 for one in alone]
    assert value("ece-marginal", rows) == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-9)


def test_class_samples_are_exact_near_one():
    rows = rows_of(np.array([[100.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), np.array([0, 1]))
    samples = [sample for _, sample in class_samples(rows)]
    assert samples[0].log_odds[-1] == pytest.approx(100 - math.log(2))
    assert samples[1].log_odds == pytest.approx([-100 - math.log1p(math.exp(-100)), -math.log(2)])


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("weighted", [False, True])
def test_row_order_and_parts_never_matter(name, weighted):
    logits, labels = some()
    logits[:150] = np.round(logits[:150])  # ties
    weights = np.random.default_rng(1).exponential(size=300) if weighted else None
    order = np.random.default_rng(0).permutation(300)
    there = value(name, rows_of(logits, labels, weights))
    back = value(name, rows_of(logits[order], labels[order], None if weights is None else weights[order], parts=3))
    assert there == back, "not bit for bit"


@pytest.mark.parametrize("name", WHOLE)
def test_class_order_never_matters(name):
    if name == "canonical-p":
        pytest.skip("its simulated labels are drawn class by class")
    logits, labels = some()
    swap = np.array([2, 0, 3, 1])
    assert value(name, rows_of(logits[:, np.argsort(swap)], swap[labels])) == pytest.approx(value(name, rows_of(logits, labels)), rel=1e-12)  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(("n", "k"), [(1, 2), (1, 5), (2, 3), (40, 2), (30, 60), (3, 1000)])
def test_values_are_in_range(name, n, k):
    found = value(name, rows_of(*some(n, k)))
    assert 0.0 <= found <= {"nll-all": np.inf, "brier-all": 2.0}.get(name, 1.0)


@pytest.mark.parametrize("name", ["nll-all", "brier-all", "ece-classwise"])
def test_duplicated_data_leave_plug_in_metrics_unchanged(name):
    logits, labels = some(300)
    twice = rows_of(np.tile(logits, (2, 1)), np.tile(labels, 2))
    assert value(name, twice) == pytest.approx(value(name, rows_of(logits, labels)), abs=1e-12)


@pytest.mark.parametrize("name", WHOLE)
def test_zero_weights_are_no_rows(name):
    logits, labels = some(200)
    weights = np.repeat([1.0, 0.0], 100)
    found = value(name, rows_of(logits, labels, weights))
    alone = value(name, rows_of(logits[:100], labels[:100]))
    # Rows without weight are drawn all the same, so that the test's random numbers differ.
    assert found == pytest.approx(alone, abs=0.15 if name == "canonical-p" else 1e-9)


@pytest.mark.parametrize("name", WHOLE)
def test_a_metric_without_classes_says_why(name):
    sample = sample_from_log_odds(np.zeros(3), np.ones(3))
    assert "scores of all classes" in str(measure(sample, [name])[name].why_missing)


def test_rows_of_no_class():
    logits, labels = some(50)
    labels[:10] = -1
    rows, known = rows_of(logits, labels), rows_of(logits[10:], labels[10:])
    p = np.exp(log_softmax(logits))
    assert value("nll-all", rows) == pytest.approx(value("nll-all", known), rel=1e-12)
    one_hot = np.where(labels[:, None] >= 0, np.eye(4)[labels], 0.0)
    assert value("brier-all", rows) == pytest.approx(((p - one_hot) ** 2).sum(axis=1).mean(), rel=1e-12)
    nobody = rows_of(logits, np.full(50, -1))
    assert measure(nobody.sample, ["nll-all"], None, nobody)["nll-all"].value is None


def test_large_tables_are_never_copied_whole(monkeypatch):
    # Blocks of classes and chunks of rows give what one piece gives.
    import bpmcli.core.data.class_scores as module

    rows = rows_of(*some(200, 7))
    whole = {name: value(name, rows) for name in WHOLE}
    monkeypatch.setattr(module, "BLOCK_VALUES", 500)
    monkeypatch.setattr(module, "CHUNK_VALUES", 100)
    monkeypatch.setattr(canonical_module, "CHUNK", 400 * 30)
    again = {name: value(name, rows_of(*some(200, 7), parts=4)) for name in WHOLE}
    assert again == pytest.approx(whole, rel=1e-12, abs=0.1)


def test_canonical_test_keeps_its_level():
    # 200 calibrated data sets: more than 20 P-values up to 0.05 have a probability of 0.0012.
    found = [distribution_test(draw("calibrated", 150, 4, np.random.default_rng(s)), 99, s) for s in range(200)]
    assert sum(test.canonical <= 0.05 for test in found) <= 20
    assert sum(test.classwise <= 0.05 for test in found) <= 20
    assert 70 <= sum(test.canonical <= 0.5 for test in found) <= 130


def test_canonical_test_level_with_weights_and_many_classes():
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = draw("calibrated", 80, 100, rng)
        assert rows.scores is not None
        rows = rows_of(rows.scores.parts[0], rows.labels, rng.exponential(size=80))
        rejected += distribution_test(rows, 99, seed).canonical <= 0.05
    assert rejected <= 9  # probability 0.001 of more


def test_the_canonical_test_needs_bounded_memory(monkeypatch):
    monkeypatch.setattr(canonical_module, "MOST_SUMS", 10_000)
    rows = draw("slopes", 400, 4, np.random.default_rng(0))
    assert distribution_test(rows).canonical <= 0.02  # fewer landmarks
    with pytest.raises(FitError, match="too many"):
        distribution_test(draw("calibrated", 20, 60, np.random.default_rng(0)))


@pytest.mark.parametrize("truth", ["temperature", "slopes", "rest"])
def test_canonical_test_finds_errors(truth):
    found = [distribution_test(draw(truth, 1500, 6, np.random.default_rng(s)), 99, s).canonical for s in range(8)]
    assert np.median(found) <= 0.02


def test_a_calibrated_confidence_does_not_hide_classes():
    rows = draw("rest", 4000, 5, np.random.default_rng(0))
    found = class_check(rows)
    assert found.p_value <= 0.01
    assert "single classes are not" in found.sentence
    assert class_check(draw("calibrated", 4000, 5, np.random.default_rng(0))).sentence == ""


def test_the_sentence_names_the_class():
    rows = draw("shift", 6000, 3, np.random.default_rng(2))
    assert rows.scores is not None
    said = np.exp(log_softmax(rows.scores.parts[0])).mean(axis=0)
    k = int(np.abs(said - np.bincount(rows.labels) / 6000).argmax())
    assert f"class {k} gets {100 * said[k]:.1f} % on average" in class_check(rows).sentence


def test_intervals_cover_the_truth():
    # 40 data sets: fewer than 32 intervals of 95 % cover with probability 0.0003. The truth comes from many rows.
    names, covered = (
        ("nll-all", "brier-all", "ece-marginal"),
        dict.fromkeys(("nll-all", "brier-all", "ece-marginal"), 0),
    )
    many = draw("slopes", 200_000, 4, np.random.default_rng(1))
    truth = {name: value(name, many, n_bins=100) for name in names}
    for seed in range(40):
        rows = draw("slopes", 1000, 4, np.random.default_rng([7, seed]))
        values = {name: value(name, rows) for name in names}
        for name, found in whole_intervals(rows, values, MetricOptions(), 0.95, 200, seed).items():
            assert found is not None
            covered[name] += found.low <= truth[name] <= found.high
    assert min(covered.values()) >= 32, covered


def test_the_interval_of_calibrated_classes_begins_at_zero():
    rows = draw("calibrated", 1000, 5, np.random.default_rng(4))
    found = whole_intervals(rows, {"ece-classwise": value("ece-classwise", rows)}, MetricOptions(), 0.95, 50, 0)
    assert found["ece-classwise"] is not None
    assert found["ece-classwise"].low == 0.0


def test_intervals_do_not_depend_on_row_order():
    logits, labels = some(250)
    order = np.random.default_rng(2).permutation(250)
    values = {name: value(name, rows_of(logits, labels)) for name in WHOLE}
    first = whole_intervals(rows_of(logits, labels), values, MetricOptions(), 0.9, 40, 3)
    second = whole_intervals(rows_of(logits[order], labels[order]), values, MetricOptions(), 0.9, 40, 3)
    assert first == second
    assert first["canonical-p"] is None


def test_the_table_of_classes():
    logits, labels = some(400, 3, 5)
    rows = rows_of(logits, labels)
    table = class_table(rows, Asked(["ece", "accuracy", "nll-all"], MetricOptions(), resamples=30))
    assert [one["class"] for one in table] == ["0", "1", "2"]
    assert sum(one["rows"] for one in table) == 400
    p = np.exp(log_softmax(logits))
    for k, one in enumerate(table):
        assert one["rate"] == pytest.approx(np.mean(labels == k))
        assert one["mean_probability"] == pytest.approx(p[:, k].mean())
        assert one["gap"] == pytest.approx(one["rate"] - one["mean_probability"])
        assert list(one["metrics"]) == ["ece"]
        assert one["metrics"]["ece"]["low"] <= one["metrics"]["ece"]["value"] <= one["metrics"]["ece"]["high"]


def test_auroc_equals_its_definition():
    rng = np.random.default_rng(0)
    x, hits = np.round(rng.normal(0, 2, 80)), rng.random(80) < 0.6
    above, equal = x[hits][:, None] > x[~hits], x[hits][:, None] == x[~hits]
    found = measure(sample_from_log_odds(x, hits), ["auroc"])["auroc"].value
    assert found == pytest.approx(np.mean(above + 0.5 * equal), rel=1e-12)
    assert measure(sample_from_log_odds(x, np.ones(80)), ["auroc"])["auroc"].why_missing == "all rows are correct"


def test_sums_drawn_with_their_covariance_give_the_limits_of_resampled_rows(monkeypatch):
    from bpmcli.core.metrics import whole_intervals as module

    probs, labels = case(3000, 3, 5)
    rows = rows_of(np.log(probs), labels)
    values = {name: value(name, rows) for name in ("ece-classwise", "ece-marginal", "nll-all", "brier-all")}
    resampled = whole_intervals(rows, values, MetricOptions(), 0.9, 1500, 0)
    monkeypatch.setattr(module, "NORMAL_FROM", 1)
    normal = whole_intervals(rows, values, MetricOptions(), 0.9, 1500, 0)
    for name, found in resampled.items():
        width = found.high - found.low
        assert width > 0
        assert normal[name] != found
        # Limits of 1500 resamples vary by 4 % of the width (standard deviation).
        assert normal[name].low == pytest.approx(found.low, abs=0.15 * width)
        assert normal[name].high == pytest.approx(found.high, abs=0.15 * width)


@pytest.mark.parametrize("offset", [2.0**30, -(2.0**40), 2.0**53])
def test_a_constant_added_to_all_logits_changes_no_digit(offset):
    logits = np.arange(12.0).reshape(4, 3) * 2.0
    scores, moved = (ClassScores([z], from_probs=False) for z in (logits, logits + offset))
    for (_, a), (_, b) in zip(scores.chunks(), moved.chunks(), strict=True):
        assert np.array_equal(a, b)
    for (_, a), (_, b) in zip(scores.classes(), moved.classes(), strict=True):
        assert np.array_equal(a, b)


def test_equal_classes_have_no_spread_that_is_negative():
    """The logarithms of a row are all equal, so the variance under a change of temperature is 0."""
    rows = rows_of(np.full((200, 10), 2.0**53), np.arange(200) % 10)
    with np.errstate(invalid="raise"):
        found = distribution_test(rows, 99)
    assert 0.01 <= found.canonical <= 1.0


@pytest.mark.parametrize("mask", [float(np.finfo(np.float32).min), -1e200, float(np.finfo(np.float64).min)])
def test_a_masked_class_has_a_probability_of_0(mask):
    """Masked logits are the smallest finite number: their losses would be as large, and their sum infinite."""
    logits, labels = np.arange(12.0).reshape(4, 3) % 5, np.array([0, 1, 2, 2])
    logits[:, 2] = mask
    rows = rows_of(logits, labels)
    known = -log_softmax(logits[:2, :2])[[0, 1], [0, 1]]
    assert METRICS["nll-all"].compute(rows, MetricOptions()).value == pytest.approx((known.sum() + 2 * IMPOSSIBLE) / 4)
    for k, log_p in rows.scores.classes():
        assert np.isneginf(log_p).all() == (k == 2)
