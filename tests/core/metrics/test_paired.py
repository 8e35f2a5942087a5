"""Paired differences: sign, interval, P-value, and refusal of rows that are not the same."""

from __future__ import annotations

import numpy as np
import pytest

from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import sigmoid
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.metrics.paired import paired_differences
from bpmcli.errors import DataError

NAMES = ["ece", "ks"]


def models(n: int = 1500, seed: int = 0) -> tuple[Rows, Rows]:
    """An over-confident model, and the same model calibrated."""
    rng = np.random.default_rng(seed)
    x = np.abs(rng.normal(0, 2, n))
    hits = rng.random(n) < sigmoid(x)
    return Rows(2 * x, hits), Rows(x, hits)


def test_a_better_model_is_found_better():
    worse, better = models()
    for found in paired_differences(worse, better, NAMES, MetricOptions(), runs=100):
        assert found.first is not None
        assert found.second is not None
        assert found.difference == pytest.approx(found.second - found.first)
        assert found.difference < 0
        assert found.high is not None
        assert found.high < 0
        assert found.p_value is not None
        assert found.p_value < 0.05


def test_merged_cells_give_the_interval_of_whole_rows():
    # More rows than cells: against a bootstrap that knows nothing of cells.
    worse, better = models(6000)
    found = paired_differences(worse, better, ["ece"], MetricOptions(), runs=400)[0]
    rng = np.random.default_rng(1)
    plain = []
    for _ in range(400):
        rows = rng.integers(0, 6000, 6000)
        values = [measure(m.take(rows).sample, ["ece"])["ece"].value for m in (worse, better)]
        plain.append(values[1] - values[0])
    assert found.low is not None
    assert found.high is not None
    # Drawing the outcomes again from the fitted curves leaves out the noise that the rows already have.
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * np.std(plain), rel=0.25)


def test_interval_and_p_value_never_contradict_each_other():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, luck = rng.normal(1, 2, 400), rng.random(400)
        second = np.abs(x + rng.normal(0, 0.7, 400))
        first = Rows(np.abs(x), luck < sigmoid(np.abs(x)))
        other = Rows(second, luck < sigmoid(0.7 * second))
        for found in paired_differences(first, other, [*NAMES, "ece-debiased"], MetricOptions(), runs=60):
            assert None not in (found.low, found.high, found.p_value, found.difference)
            assert (found.low <= 0 <= found.high) == (found.p_value > 0.05)
            assert (found.low + found.high) / 2 == pytest.approx(found.difference, abs=1e-12)


def test_tce_is_compared_with_few_refits():
    worse, better = models(500)
    (found,) = paired_differences(worse, better, ["tce"], MetricOptions(), runs=40)
    assert found.high is not None
    assert found.high < 0
    assert found.p_value is not None
    assert found.p_value < 0.001


def test_a_model_does_not_differ_from_itself():
    worse, _ = models()
    for found in paired_differences(worse, worse, NAMES, MetricOptions(), runs=50):
        assert found.difference == 0.0
        assert (found.low, found.high) == (0.0, 0.0)
        assert found.p_value == 1.0


def test_pairing_beats_two_separate_intervals():
    # Two nearly equal models: their difference is known far better than either error.
    rng = np.random.default_rng(0)
    worse, _ = models(800)
    other = Rows(worse.log_odds * 1.01, worse.hits)
    (found,) = paired_differences(worse, other, ["ks"], MetricOptions(), runs=100, seed=int(rng.integers(9)))
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low < 0.005


def test_rows_that_differ_are_refused():
    a, _ = models(100)
    with pytest.raises(DataError, match="one file has 100 rows, the other 99"):
        paired_differences(a, a.take(np.arange(99)), NAMES, MetricOptions(), runs=2)
    x = Rows(a.log_odds, a.hits, labels=np.arange(100) % 3)
    y = Rows(a.log_odds, a.hits, labels=np.arange(1, 101) % 3)
    with pytest.raises(DataError, match="the labels differ in 100 rows"):
        paired_differences(x, y, NAMES, MetricOptions(), runs=2)
