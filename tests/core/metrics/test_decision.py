"""The rule behind gates: pass, fail, or the rows cannot tell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bpmcli.core.metrics.decision import FAIL, INCONCLUSIVE, PASS, at_most, decide, smallest_detectable


@pytest.mark.parametrize(
    ("value", "low", "high", "outcome"),
    [
        (0.01, 0.00, 0.03, PASS),  # at the limit is below it
        (0.01, 0.00, 0.0301, INCONCLUSIVE),
        (0.05, 0.03, 0.08, INCONCLUSIVE),  # at the limit is not surely above it
        (0.05, 0.0301, 0.08, FAIL),
        (0.03, 0.03, 0.03, PASS),
        (0.00, 0.00, 0.00, PASS),
        (None, 0.00, 0.01, FAIL),
        (0.01, None, 0.01, FAIL),
        (0.01, 0.00, None, FAIL),
        (math.nan, 0.00, 0.01, FAIL),
        (0.01, 0.00, math.inf, FAIL),
        (math.inf, math.inf, math.inf, FAIL),
    ],
)
def test_the_interval_decides(value, low, high, outcome):
    assert decide(value, low, high, 0.03, 1000).outcome == outcome


def test_numbers_are_compared_apart_from_their_rounding():
    assert at_most(0.8 - 0.7, 0.1, 0.8, 0.7)
    assert not at_most(0.1 + 1e-11, 0.1, 0.8, 0.7)
    assert at_most(0.1 + 0.2 - 0.3, 0.0, 0.3)  # 6e-17
    assert not at_most(1e-11, 0.0, 0.3)
    assert at_most(0.0, 0.0)
    assert decide(0.0, 0.0, 0.0, 0.0, 1000).outcome == PASS
    assert not at_most(math.inf, 0.1)
    assert not at_most(math.nan, 0.1)


def test_what_is_decided_needs_no_more_rows():
    assert decide(0.01, 0.0, 0.02, 0.03, 1000).rows_needed is None
    assert decide(0.06, 0.05, 0.07, 0.03, 1000).rows_needed is None


def test_the_rows_that_would_decide():
    # Reach 0.03, distance 0.01: three times as far, so nine times as many rows.
    assert decide(0.02, 0.01, 0.05, 0.03, 1000).rows_needed == 9000
    # Above the limit it is the lower end that must pass it: reach 0.02, distance 0.01.
    assert decide(0.04, 0.02, 0.09, 0.03, 1000).rows_needed == 4000
    # Rounded up to two digits.
    assert decide(0.02, 0.01, 0.05, 0.03, 1234).rows_needed == 12_000
    # Never as many as there are, or fewer.
    assert decide(0.02, 0.01, 0.03 + 1e-12, 0.03, 7).rows_needed == 8
    assert decide(0.02, 0.01, 0.03 + 4e-14, 0.03, 7).rows_needed == 8


def test_that_many_rows_decide_if_errors_shrink_with_their_root():
    rng = np.random.default_rng(0)
    for _ in range(300):
        value, limit = rng.random(2) * 0.1
        low, high = value - rng.random() * value, value + rng.random() * 0.1
        found = decide(value, low, high, limit, 500)
        if found.outcome == INCONCLUSIVE and found.rows_needed is not None:
            less = math.sqrt(500 / found.rows_needed)
            again = decide(value, value - less * (value - low), value + less * (high - value), limit, 500)
            assert again.outcome == (PASS if value <= limit else FAIL)


def test_a_value_at_the_limit_needs_more_rows_than_are_worth_naming():
    assert decide(0.03, 0.02, 0.04, 0.03, 10).rows_needed is None
    assert decide(0.03, 0.02, 0.04, 0.03, 1000).rows_needed is None
    assert decide(0.03 - 1e-5, 0.02, 0.04, 0.03, 1000).rows_needed is None
    assert decide(0.03, 0.03, 0.05, 0.03, 1000).rows_needed is None
    # More than a thousand times as many: the square of 31.62.
    assert decide(0.029, 0.02, 0.029 + 0.0316, 0.03, 1000).rows_needed == 1_000_000
    assert decide(0.029, 0.02, 0.029 + 0.03163, 0.03, 1000).rows_needed is None


def test_the_smallest_detectable_error():
    found = decide(0.02, 0.01, 0.05, 0.03, 1000, mean_confidence=0.9).detectable
    assert found is not None
    accuracy = 0.9 - found  # z(0.95) + z(0.8) = 1.644854 + 0.841621
    assert found == pytest.approx(0.03 + 2.486475 * (accuracy * (1 - accuracy) / 1000) ** 0.5)
    assert smallest_detectable(0.03, 1000, 0.95, 0.9) == found, "whatever this sample's own interval is"
    assert smallest_detectable(0.03, 1000, 0.95, 0.1) == pytest.approx(found), "too low and too high are treated alike"
    assert decide(0.02, 0.01, 0.05, 0.03, 1000, 0.95, 0.9, 100).detectable == smallest_detectable(0.03, 100, 0.95, 0.9)
    assert smallest_detectable(0.9, 10, 0.95, 0.5) <= 1.0
    assert smallest_detectable(0.6, 1000, 0.95, 0.5) == pytest.approx(0.6), "then every row is wrong, or right"
    assert decide(0.02, 0.01, 0.05, 0.03, 1000).detectable is None, "nothing is known of the confidences"
    assert decide(0.9, 0.8, 1.0, 1.0, 1000, mean_confidence=0.9).detectable is None, "no error is above 1"


def test_an_error_called_detectable_is_found_in_about_four_of_five_samples():
    rng = np.random.default_rng(0)
    for rows in (200, 2000):
        error = smallest_detectable(0.03, rows, 0.95, 0.9)
        wrong = rng.binomial(rows, 0.1 + error, 20_000) / rows - 0.1  # mean confidence minus accuracy
        reach = 1.644854 * np.sqrt((wrong + 0.1) * (0.9 - wrong) / rows)
        assert np.mean(wrong - reach > 0.03) == pytest.approx(0.8, abs=0.05)


def test_a_limit_below_zero_fails_and_has_a_detectable_error() -> None:
    """A debiased metric may be below 0. (Found by hand: the square root of a negative variance.)"""
    found = decide(0.02, 0.01, 0.03, -1.0, 200, mean_confidence=0.9)
    assert found.outcome == FAIL
    assert found.detectable is not None
    assert 0 <= found.detectable < 1e-9, "every error is above such a limit"
    near = decide(0.0, -0.02, 0.02, -0.01, 200, mean_confidence=0.9)
    assert near.outcome == INCONCLUSIVE
    assert near.detectable is not None
    assert near.detectable > 0.01
