"""The standard error of a difference of scores: direct formulas, the jackknife, and laws."""

from __future__ import annotations

import numpy as np
import pytest

from bpmcli.core.data.categorical import categorical
from bpmcli.core.data.class_scores import ClassScores
from bpmcli.core.data.log_odds import reduce_probs
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Ints, sigmoid
from bpmcli.core.metrics import METRICS, MetricOptions, measure
from bpmcli.core.metrics.influence import CLASS_ERRORS, influences, noise_of_fewer, slope, standard_error
from bpmcli.core.metrics.paired import paired_differences
from bpmcli.core.metrics.paired_scores import is_score, score_errors
from bpmcli.errors import UsageError

OPTIONS = MetricOptions()
SCORES = [name for name in METRICS if is_score(name)]
MEANS = [name for name in SCORES if name not in CLASS_ERRORS]


def pair(n: int = 150, k: int = 3, weighted: bool = False, noises: tuple[float, ...] = (0.3, 0.9)) -> tuple[Rows, Rows]:
    """Two noisy models of the same rows."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(n, k))
    labels = (z + rng.gumbel(size=(n, k))).argmax(axis=1)
    weights = rng.uniform(0.5, 2.0, n) if weighted else None
    out = []
    for noise in noises:
        probs = np.exp(z + noise * rng.normal(size=(n, k)))
        probs /= probs.sum(axis=1, keepdims=True)
        top = reduce_probs(probs)
        scores = ClassScores([probs], from_probs=True)
        out.append(Rows(top.log_odds, top.predictions == labels, weights, top.predictions, labels, scores=scores))
    return out[0], out[1]


def difference(first: Rows, second: Rows, name: str) -> float:
    before, after = values(first, second, name)
    return after - before


def values(first: Rows, second: Rows, name: str) -> tuple[float, float]:
    found = [measure(rows.sample, [name], OPTIONS, rows)[name].value for rows in (first, second)]
    assert found[0] is not None
    assert found[1] is not None
    return found[0], found[1]


def error(first: Rows, second: Rows, name: str) -> float:
    return score_errors(first, second, {name: values(first, second, name)}, OPTIONS)[name]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MEANS)
def test_standard_errors_agree_with_the_jackknife(name: str, weighted: bool) -> None:
    first, second = pair(weighted=weighted)
    n, loose = first.n, {"mcb": 0.1, "dsc": 0.1}  # without a row, isotonic regression changes in steps
    left_out = [np.delete(np.arange(n), i) for i in range(n)]
    drops = np.array([difference(first.take(rows), second.take(rows), name) for rows in left_out])
    jackknife = float(np.sqrt((n - 1) / n * np.square(drops - drops.mean()).sum()))
    assert error(first, second, name) == pytest.approx(jackknife, rel=loose.get(name, 0.02))


@pytest.mark.parametrize("name", SCORES)
def test_neither_the_order_of_the_rows_nor_a_copy_of_each_row_in_its_cluster_matters(name: str) -> None:
    first, second = pair()
    found = error(first, second, name)
    assert found > 0
    order = np.random.default_rng(1).permutation(first.n)
    again = error(first.take(order), second.take(order), name)
    assert again == pytest.approx(found, rel=1e-9)
    if name in MEANS:
        twice = np.repeat(np.arange(first.n), 2)
        clusters = categorical([str(i) for i in twice])
        copies = [rows.take(twice)._replace(clusters=clusters) for rows in (first, second)]
        assert error(copies[0], copies[1], name) == pytest.approx(found, rel=1e-9)


def class_error(rows: Rows, drawn: Ints, name: str) -> float:
    """The class-wise error of drawn rows in 15 bins of all rows; squared for `ece-marginal`. Sizes are multiples of 15."""
    assert rows.scores is not None
    total, classes = 0.0, list(rows.scores.log_odds())
    for k, x in classes:
        bins = np.argsort(np.argsort(x)) // (rows.n // 15)
        y = (rows.labels == k).astype(float)
        for b in range(15):
            inside = drawn[bins[drawn] == b]
            if name == "ece-classwise":
                total += abs(float((y - sigmoid(x))[inside].sum()))
            elif inside.size > 1:
                gap, rate = (y - sigmoid(x))[inside].mean(), y[inside].mean()
                total += inside.size * (gap**2 - rate * (1 - rate) / (inside.size - 1))
    return total / rows.n / len(classes)


@pytest.mark.parametrize("name", CLASS_ERRORS)
def test_class_wise_errors_agree_with_resamples_of_both_models(name: str) -> None:
    """Where the models are clearly miscalibrated: the same rows are drawn for both, in the bins of each model."""
    first, second = (sharper(rows) for rows in pair(300, noises=(0.0, 0.1)))
    rng = np.random.default_rng(0)
    every = np.arange(300)
    drawn = [rng.integers(0, 300, 300) for _ in range(400)]
    found = np.array([[class_error(rows, some, name) for some in (every, *drawn)] for rows in (first, second)])
    if name == "ece-marginal":
        found -= (found[:, 1:].mean(axis=1) - found[:, 0])[:, None] * (np.arange(found.shape[1]) > 0)
        found = np.sqrt(np.maximum(found, 0.0))
    assert found[1, 0] - found[0, 0] == pytest.approx(difference(first, second, name))
    together = float((found[1, 1:] - found[0, 1:]).std(ddof=1))
    apart = float((found[1, 1:] - np.roll(found[0, 1:], 1)).std(ddof=1))
    assert apart > 1.5 * together, "otherwise this test shows nothing"
    assert error(first, second, name) == pytest.approx(together, rel=0.15)
    assert error(first, first, name) == 0.0
    one = influences(first, [name], OPTIONS)[name]
    alone = slope(values(first, first, name)[0], values(first, first, name)[0], one.power) * standard_error(
        one.rows, first
    )
    assert alone == pytest.approx(float(found[0, 1:].std(ddof=1)), rel=0.15)


def sharper(rows: Rows) -> Rows:
    """The same rows with probabilities to the power of 4, which is over-confident."""
    assert rows.scores is not None
    probs = rows.scores.parts[0] ** 4
    return rows._replace(scores=ClassScores([probs / probs.sum(axis=1, keepdims=True)], from_probs=True))


def test_calibrated_models_have_standard_errors_of_the_right_size() -> None:
    """Where every gap is noise, the difference of class-wise errors divided by its standard error is about normal."""
    ratios = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        true = rng.dirichlet(np.ones(3), 300)
        labels = (true.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)
        models = []
        for _ in range(2):
            seen = 1 + rng.multinomial(10, true)
            probs = seen / seen.sum(axis=1, keepdims=True)
            top = reduce_probs(probs)
            models.append(Rows(top.log_odds, top.predictions == labels, None, top.predictions, labels, scores=ClassScores([probs], True)))  # fmt: skip
        ratios.append(difference(*models, "ece-classwise") / error(*models, "ece-classwise"))
    assert 0.75 < float(np.sqrt(np.mean(np.square(ratios)))) < 1.2


@pytest.mark.parametrize(("name", "p"), [("ece-classwise", 1.0), ("ece-classwise", 3.0), ("ece-marginal", 2.0)])
def test_influences_are_derivatives(name: str, p: float) -> None:
    """A row with a little more weight, in fixed bins; gaps that are not noise."""
    rows = sharper(pair(3000, noises=(0.0, 0.0))[0])
    found = influences(rows, [name], OPTIONS._replace(p=p))[name]
    assert found.power == p
    assert rows.scores is not None
    moved, step = np.arange(0, rows.n, 60), 1e-6
    expected = np.zeros(moved.size)
    for k, x in rows.scores.log_odds():
        bins, gaps = np.argsort(np.argsort(x)) // (rows.n // 15), (rows.labels == k) - sigmoid(x)
        mass, total = np.bincount(bins) / rows.n, np.bincount(bins, gaps) / rows.n
        for j, i in enumerate(moved):
            share = np.eye(15)[bins[i]]
            m, r = mass + step * (share - mass), total + step * (share * gaps[i] - total)
            expected[j] += (np.sum(m * np.abs(r / m) ** p) - np.sum(mass * np.abs(total / mass) ** p)) / step / 3
    off = found.rows[moved] - expected  # a few gaps are near 0, where the derivative is smoothed
    assert float(np.sqrt(np.mean(off**2))) < (0.12 if p == 1 else 0.05) * float(expected.std())


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_noise_of_fewer_rows_is_what_rows_left_out_add(p: float) -> None:
    """A third of the rows, drawn many times, in the bins of all rows."""
    rows = pair(600, noises=(0.4, 0.4))[0]
    options = OPTIONS._replace(p=p)
    one = influences(rows, ["ece-classwise"], options)["ece-classwise"]
    assert rows.scores is not None
    rng = np.random.default_rng(2)
    some = [rng.permutation(600)[:200] for _ in range(300)]
    powers = np.zeros(301)
    for k, x in rows.scores.log_odds():
        bins, gaps = np.argsort(np.argsort(x)) // 40, (rows.labels == k) - sigmoid(x)
        for i, drawn in enumerate((np.arange(600), *some)):
            mass, total = np.bincount(bins[drawn], minlength=15), np.bincount(bins[drawn], gaps[drawn], 15)
            powers[i] += float(np.sum(mass * np.abs(total / np.maximum(mass, 1)) ** p)) / drawn.size / 3
    added = float(powers[1:].mean() - powers[0])
    assert added > 0
    assert noise_of_fewer(one.noise, 3.0) == pytest.approx(added, rel=0.1)
    assert noise_of_fewer(one.noise, 1.0) == noise_of_fewer(None, 3.0) == 0.0


def test_neither_p_values_nor_calibration_errors_are_taken_for_scores() -> None:
    first, second = pair()
    with pytest.raises(UsageError, match="canonical-p is a P-value"):
        paired_differences(first, second, ["nll", "canonical-p"], OPTIONS)
    for name in ("canonical-p", "ece"):
        with pytest.raises(UsageError, match=f"{name} is not a mean over rows"):
            score_errors(first, second, {name: (0.1, 0.2)}, OPTIONS)


def test_differences_of_scores_have_intervals_and_p_values() -> None:
    first, second = pair(600)
    for found in paired_differences(first, second, SCORES, OPTIONS, runs=60):
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.difference < found.high
        assert (found.p_value < 0.05) == (found.low > 0 or found.high < 0)
    worse = {d.metric: d for d in paired_differences(first, second, ["nll-all", "accuracy"], OPTIONS)}
    assert worse["nll-all"].low > 0  # the second model has the larger noise


@pytest.mark.parametrize("name", SCORES)
def test_models_that_differ_by_rounding_are_equal(name: str) -> None:
    """Weights that are 1e280 times as large are the same weights, but their sums are rounded differently."""
    first, _ = pair(400, weighted=True)
    assert first.weights is not None
    for factor in (1e280, 1e-7, 1 / 3):
        (found,) = paired_differences(first, first._replace(weights=first.weights * factor), [name], OPTIONS)
        assert (found.difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)
