"""Simulated data follows its distribution: in log-odds, where saturation hides nothing, and in its hits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betainc
from scipy.stats import binomtest, chi2, kstest

from bpmcli.core.compare.truths import TRUTHS, EmpiricalDensity, Simulated, Truth, custom_truth, simulate
from bpmcli.core.curves.tce import BetaDensity
from bpmcli.core.data.sample import Floats, sample_from_log_odds, sigmoid

N = 20_000
REFUSED = 1e-3
"""P-values below this count as a misfit; the seed is fixed, so the test is not flaky."""


def beta_cdf(x: Floats, density: BetaDensity) -> Floats:
    """P(log-odds ≤ x), each side from its own tail: 1 − ŝ never has to be told from zero."""
    low = betainc(density.a1, density.a2, sigmoid(x))
    high = 1.0 - betainc(density.a2, density.a1, sigmoid(-x))
    return np.where(x < 0, low, high)


def ks(x: Floats, density: BetaDensity) -> float:
    return float(kstest(beta_cdf(x, density), "uniform").pvalue)


def hits_chi_square(drawn: Simulated, g: Floats, n_bins: int = 25) -> float:
    """Σ (hits − Σg)² / Σg(1−g) over bins of equal mass, those left out in which hardly a miss is expected."""
    parts = np.array_split(np.argsort(drawn.log_odds), n_bins)
    terms = [(drawn.hits[p].sum() - g[p].sum(), (g[p] * (1 - g[p])).sum()) for p in parts]
    terms = [(gap, variance) for gap, variance in terms if variance > 5]
    return float(chi2.sf(sum(gap**2 / variance for gap, variance in terms), len(terms)))


@pytest.mark.parametrize("name", TRUTHS)
def test_log_odds_follow_the_beta_distribution(name: str) -> None:
    truth = TRUTHS[name]
    drawn = simulate(truth, N, np.random.default_rng(1))
    assert ks(drawn.log_odds, truth.density) > REFUSED


@pytest.mark.parametrize("name", ["D1", "D2"])
def test_the_test_sees_what_plain_confidences_lose(name: str) -> None:
    """numpy's own Beta rounds a quarter of these confidences to 1: the same test refuses them."""
    density = TRUTHS[name].density
    s = np.random.default_rng(1).beta(density.a1, density.a2, N)
    with np.errstate(divide="ignore"):
        x = np.minimum(np.log(s) - np.log1p(-s), 40.0)
    assert ks(x, density) < 1e-10


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("far", [10.0, 37.0, 100.0])
def test_the_saturated_tail_has_its_mass(name: str, far: float) -> None:
    truth = TRUTHS[name]
    x = simulate(truth, N, np.random.default_rng(2)).log_odds
    beyond = float(betainc(truth.density.a2, truth.density.a1, sigmoid(np.array([-far])))[0])
    assert binomtest(int((x > far).sum()), N, beyond).pvalue > REFUSED


@pytest.mark.parametrize("name", TRUTHS)
def test_hits_follow_the_curve(name: str) -> None:
    truth = TRUTHS[name]
    drawn = simulate(truth, N, np.random.default_rng(3))
    g, _ = truth.curve(drawn.log_odds)
    assert hits_chi_square(drawn, g) > REFUSED
    np.testing.assert_array_equal(g, drawn.true_g)
    # The test can fail: it rejects the identity, and a curve that is two points off.
    assert hits_chi_square(drawn, np.clip(g - 0.02, 1e-3, 1 - 1e-3)) < REFUSED


def test_one_seed_one_data_set() -> None:
    one, two = (simulate(TRUTHS["D3"], 500, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one.log_odds, two.log_odds)
    np.testing.assert_array_equal(one.hits, two.hits)


def test_a_files_confidences_as_the_density() -> None:
    curve = custom_truth("logit-logit:-0.5,0.7", "1,1").curve
    x = np.array([-1.0, 0.5, 0.5, 0.5, 2.0, 60.0])
    truth = Truth("file", curve, EmpiricalDensity(sample_from_log_odds(x, np.zeros(6), np.array([1, 1, 1, 1, 2, 4.0]))))
    drawn = simulate(truth, N, np.random.default_rng(4))
    counts = [int((np.abs(drawn.log_odds - v) < 1e-9).sum()) for v in (-1.0, 0.5, 2.0, 60.0)]
    assert sum(counts) == N
    expected = np.array([0.1, 0.3, 0.2, 0.4])
    assert chi2.sf(((np.array(counts) - N * expected) ** 2 / (N * expected)).sum(), 3) > REFUSED
    assert hits_chi_square(drawn, drawn.true_g, 4) > REFUSED
    g = curve(np.array([-1.0, 0.5, 2.0, 60.0]))[0]
    assert truth.tce() == pytest.approx(expected @ np.abs(g - sigmoid(np.array([-1.0, 0.5, 2.0, 60.0]))), abs=1e-12)
