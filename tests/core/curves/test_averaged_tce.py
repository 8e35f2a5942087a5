"""TCE of the averaged curve: its weights, shift, draws and limits, each against its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.curves.averaged import tce as module
from bpmcli.core.curves.averaged.mixture import tails
from bpmcli.core.curves.averaged.shapes import Prior
from bpmcli.core.curves.averaged.tce import (
    METRIC_PRIOR,
    _matching_shift,
    _quantile,
    by_akaike,
    least_error,
    posterior_tce,
    tce_averaged,
    tce_interval,
    unbiased_curve,
)
from bpmcli.core.data.sample import Sample, sample_from_confidences, sample_from_log_odds


def drawn(name: str = "D4", n: int = 1000, seed: int = 0) -> Sample:
    return simulate(TRUTHS[name], n, np.random.default_rng(seed)).sample()


@pytest.fixture(scope="module")
def sample() -> Sample:
    return drawn()


def test_priors_are_twice_as_wide():
    assert METRIC_PRIOR.slope == pytest.approx(2 * Prior().slope)
    assert METRIC_PRIOR.shift == pytest.approx(2 * Prior().shift)


def test_weights_are_akaikes(sample):
    mixture = unbiased_curve(sample).mixture
    for batch, found in zip(mixture.batches, mixture.found, strict=True):
        logs = by_akaike(batch, found)
        for i in range(len(logs)):
            # k = tr(I (I + P)⁻¹), with I + P what the fit returns as its information.
            total = found.information[i]
            k = np.trace((total - batch.precision[i]) @ np.linalg.inv(total))
            assert logs[i] == pytest.approx(found.log_likelihood[i] - k, abs=1e-6)
            assert -1e-6 < k < batch.mean.shape[1] + 1e-6


@pytest.mark.parametrize(("eta", "hits"), [(0.0, 55.0), (2.0, 10.0), (-1.0, 99.9), (30.0, 1.0)])
def test_shift_solves_its_equation(eta, hits):
    eta, mass = np.array([eta, eta + 0.5]), np.array([40.0, 60.0])
    found = _matching_shift(eta, mass, hits)
    expected = brentq(lambda d: mass @ expit(eta + d) + d / 0.25**2 - hits, -40, 40, xtol=1e-14)
    assert found == pytest.approx(expected, abs=1e-10)


def test_value_is_the_mean_distance_of_the_shifted_curve():
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(1, 2, 600), 1)
    h = rng.random(600) < expit(0.6 * x)
    for weights in (None, rng.integers(1, 4, 600).astype(float)):
        tied = sample_from_log_odds(x, h, weights)
        matched = unbiased_curve(tied)
        g, miss = matched.mixture.curve(x)
        shifted = expit(np.log(g / miss) + matched.shift)
        np.testing.assert_allclose(matched.distance(x), shifted - expit(x), atol=1e-12)
        w = np.ones(600) if weights is None else weights
        for p in (1.0, 2.0):
            found = tce_averaged(tied, p)
            assert found.value == pytest.approx((w @ np.abs(shifted - expit(x)) ** p / w.sum()) ** (1 / p), rel=1e-9)
            assert found.shift == matched.shift
        assert tce_averaged(tied) == tce_averaged(tied, 1.0)
    assert found.shape in matched.mixture.curve.shape_weights
    assert found.weight == max(matched.mixture.curve.shape_weights.values())


def test_mean_of_the_curve_is_close_to_the_accuracy():
    # Slightly off, because the shift has a prior of sd ¼: Σ mass g + δ/¼² = hits.
    sample = sample_from_confidences(np.linspace(0.6, 0.95, 400), np.arange(400) % 3 == 0)
    matched = unbiased_curve(sample)
    cells = matched.mixture.cells
    g = matched.distance(cells.log_odds) + expit(cells.log_odds)
    assert cells.mass @ g + matched.shift / 0.25**2 == pytest.approx(cells.hits.sum(), abs=1e-6)


def test_the_curve_is_fitted_once_per_sample(sample):
    assert unbiased_curve(sample) is unbiased_curve(sample)
    assert tce_averaged(sample) is tce_averaged(sample, 1.0)
    assert posterior_tce(sample, 1.0, 0) is posterior_tce(sample, 1.0, 0)
    assert posterior_tce(sample, 1.0, 0).size == 1000
    assert not np.array_equal(posterior_tce(sample, 1.0, 0), posterior_tce(sample, 1.0, 1))
    assert not np.array_equal(posterior_tce(sample, 1.0, 0), posterior_tce(sample, 2.0, 0))


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_draws_are_the_error_of_drawn_curves_under_drawn_confidences(sample, p):
    matched = unbiased_curve(sample)
    cells = matched.mixture.cells
    total = cells.mass.sum()
    eta = matched.mixture.draws(None, 300, np.random.default_rng(4)) + matched.shift
    error = np.abs(expit(eta) - expit(cells.log_odds)) ** p
    mean = error @ cells.mass / total
    variance = ((error - mean[:, None]) ** 2 @ cells.mass) / (total * (total + 1))
    rng = np.random.default_rng(4)
    matched.mixture.draws(None, 300, rng)
    expected = np.maximum(mean + np.sqrt(variance) * rng.standard_normal(300), 0) ** (1 / p)
    np.testing.assert_allclose(matched.tce_draws(p, 300, np.random.default_rng(4)), expected, rtol=1e-9)


def test_distances_of_drawn_curves_have_a_sign(sample):
    """Where confidence is too high, they are negative. The verdict judges the direction of an error by them."""
    matched = unbiased_curve(sample)
    log_odds = matched.mixture.cells.log_odds
    eta = matched.mixture.draws(None, 20, np.random.default_rng(4)) + matched.shift
    found = matched.distance_draws(20, np.random.default_rng(4))
    np.testing.assert_allclose(found, expit(eta) - expit(log_odds), atol=1e-12)
    assert matched.shift != 0.0


def test_draws_survive_log_odds_beyond_the_limits():
    sample = sample_from_log_odds([-700.0, 700.0] * 50, [0, 1] * 50)
    found = unbiased_curve(sample).tce_draws(1.0, 50, np.random.default_rng(0))
    assert np.all((found >= 0) & (found < 0.1))


@pytest.mark.parametrize("rank", [0.0, 0.025, 0.31, 0.975, 1.0])
def test_quantile_is_numpys(rank):
    for size in (2, 7, 1000):
        values = np.random.default_rng(size).normal(size=size)
        assert _quantile(values, rank) == pytest.approx(np.quantile(values, rank), abs=1e-14)


@pytest.mark.parametrize(("name", "n"), [("D4", 1000), ("D2", 300)])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_limits_are_quantiles_moved_down_by_the_excess(name, n, p):
    sample = drawn(name, n)
    draws = posterior_tce(sample, p, 0)
    matched = unbiased_curve(sample)
    cells = matched.mixture.cells
    value = (np.abs(matched.distance(cells.log_odds)) ** p @ cells.mass / cells.mass.sum()) ** (1 / p)
    low, high = np.quantile(draws, tails(0.9))
    excess = max(draws.mean() - value, 0)
    found = tce_interval(sample, p, 0.9)
    assert found[0] == pytest.approx(max(low - (2 + math.sqrt(2)) * excess, 0), abs=1e-12)
    assert found[1] == pytest.approx(max(high - excess, value), abs=1e-12)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.03, (0.04 - (2 + math.sqrt(2)) * 0.02, 0.04)), (0.08, (0.04, 0.08)), (0.01, (0.0, 0.02)), (0.045, None)],
)
def test_limits_for_given_draws(sample, monkeypatch, value, expected):
    # Draws from 0.04 to 0.06, mean 0.05; the distance is constant.
    monkeypatch.setattr(module, "posterior_tce", lambda *_: np.linspace(0.04, 0.06, 1001))
    matched = module.unbiased_curve(sample)
    constant = matched._replace(at_cells=np.full(matched.at_cells.size, -value))
    monkeypatch.setattr(module, "unbiased_curve", lambda _: constant)
    low, high = tce_interval(sample, 1.0, 0.9999999)
    if expected is None:
        expected = (0.04 - (2 + math.sqrt(2)) * 0.005, 0.055)
    assert (low, high) == pytest.approx((max(expected[0], 0.0), expected[1]), abs=1e-6)


@pytest.mark.parametrize(
    ("confidence", "correct", "n"), [(0.999, 7, 10), (0.6, 10, 10), (0.9, 90, 100), (0.99, 27, 30)]
)
def test_the_least_error_is_how_far_the_mean_lies_outside_the_score_interval(confidence, correct, n):
    sample = sample_from_confidences(np.full(n, confidence), np.arange(n) < correct)
    # The score interval holds every rate p with |accuracy − p| ≤ z √(p(1 − p)/n); z is the normal 99.5 % point.
    p = np.linspace(0, 1, 200_001)
    held = p[np.abs(correct / n - p) <= 2.5758293035489 * np.sqrt(p * (1 - p) / n)]
    expected = max(held[0] - confidence, confidence - held[-1], 0.0)
    assert least_error(sample, 0.95) == pytest.approx(expected, abs=1e-5)
    assert tce_interval(sample, 1.0, 0.95)[0] >= min(expected, tce_averaged(sample).value) - 1e-5
