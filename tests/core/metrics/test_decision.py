"""Pass, fail or inconclusive."""

from __future__ import annotations

import numpy as np
import pytest

from bpmcli.core.metrics.decision import FAIL, INCONCLUSIVE, PASS, decide, of_difference, two_digits


@pytest.mark.parametrize(
    ("low", "value", "high", "outcome"),
    [
        (0.00, 0.01, 0.02, PASS),
        (0.00, 0.02, 0.03, PASS),  # at the limit is within it
        (0.03, 0.04, 0.05, INCONCLUSIVE),  # low must exceed the limit
        (0.031, 0.04, 0.05, FAIL),
        (0.01, 0.02, 0.04, INCONCLUSIVE),
        (0.01, 0.035, 0.04, INCONCLUSIVE),
    ],
)
def test_the_whole_interval_decides(low, value, high, outcome):
    found = decide(value, low, high, 0.03, 1000)
    assert found.outcome == outcome
    assert (found.rows_to_decide is None) == (outcome != INCONCLUSIVE)


def test_the_rows_that_would_decide_follow_the_square_root_law():
    # The upper limit is 0.02 above the value and would have to be 0.01 above it: four times the rows.
    assert decide(0.02, 0.0, 0.04, 0.03, 1000).rows_to_decide == 4000
    assert decide(0.04, 0.02, 0.05, 0.03, 1000).rows_to_decide == 4000
    assert decide(0.03, 0.02, 0.05, 0.03, 1000).rows_to_decide is None  # the value is at the limit itself


def test_what_can_be_detected_lies_above_the_limit_by_the_reach_of_the_interval():
    assert decide(0.02, 0.005, 0.04, 0.03, 1000).detectable == pytest.approx(0.045)


@pytest.mark.parametrize(
    ("rows", "shown"), [(1, 1), (99.2, 100), (101, 110), (1234, 1300), (98765, 99000), (1e13, None)]
)
def test_numbers_of_rows_are_rounded_up_to_two_digits(rows, shown):
    assert two_digits(rows) == shown


def test_the_interval_of_a_difference_of_independent_runs():
    """Against simulation: normal estimates with these intervals."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.05, 0.004, 100_000), rng.normal(0.03, 0.003, 100_000)
    z = 1.959963984540054
    low, high = of_difference(0.05 - z * 0.004, 0.05 + z * 0.004, 0.03 - z * 0.003, 0.03 + z * 0.003, 0.05, 0.03)
    np.testing.assert_allclose([low, high], np.quantile(a - b, [0.025, 0.975]), atol=2e-4)
