"""The paper's fit: its objective as printed, its optimum against scipy, its invariances."""

from __future__ import annotations

import numpy as np
import pytest
from definitions import assert_derivatives, authors_objective, paper_objective
from scipy.optimize import least_squares, minimize

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.curves.bpm import bounds, fit_bpm, objective
from bpmcli.core.curves.families import BETA
from bpmcli.core.curves.solve import minimise
from bpmcli.core.data.binning import scheme_bins, scheme_counts
from bpmcli.core.data.sample import sample_from_confidences, sample_from_log_odds
from bpmcli.errors import FitError


def drawn(name: str, n: int, seed: int = 0):
    return simulate(TRUTHS[name], n, np.random.default_rng(seed)).sample()


def test_objective_is_algorithm_one_as_printed():
    rng = np.random.default_rng(0)
    s = np.round(rng.beta(2, 0.8, 700), 2)  # ties
    h = rng.random(700) < s
    s = np.clip(s, 0.01, 0.99)
    sample = sample_from_confidences(s, h)
    fit = fit_bpm(sample)
    counts = [int(c) for c in np.linspace(7, 35, 11).astype(int)]
    assert list(fit.schemes) == counts
    assert fit.objective == pytest.approx(paper_objective(s, h, np.array(fit.curve.params), counts), abs=1e-12)


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("n", [500, 2000])
def test_no_random_start_finds_a_better_optimum(name, n):
    sample = drawn(name, n)
    fit = fit_bpm(sample)
    f = objective(scheme_bins(sample, scheme_counts(n)), BETA)
    lower, upper = bounds(BETA, "paper")
    rng = np.random.default_rng(1)
    best = min(minimise(f, np.array([*rng.exponential(2, 2), rng.normal(0, 3)]), lower, upper).value for _ in range(20))
    assert fit.objective - 1 <= best + 1e-9


@pytest.mark.parametrize("name", ["D1", "D3", "D5"])
def test_optimum_agrees_with_scipy(name):
    sample = drawn(name, 3000)
    bins = scheme_bins(sample, scheme_counts(3000))
    columns = BETA.columns(np.log(bins.confidences) - np.log(bins.complements))

    def residuals(theta):
        d = 1 / (1 + np.exp(-theta @ columns)) - bins.accuracies
        return np.sqrt(bins.mass * np.expm1(d * d)) * np.sign(d)

    found = least_squares(residuals, [1, 1, 0], bounds=([0, 0, -50], [50, 50, 50]), xtol=1e-14, ftol=1e-14, gtol=1e-14)
    fit = fit_bpm(sample)
    assert fit.objective - 1 <= 2 * found.cost + 1e-10
    assert fit.curve.params == pytest.approx(tuple(found.x), abs=2e-3)


def test_derivatives_are_exact():
    f = objective(scheme_bins(drawn("D4", 800), scheme_counts(800)), BETA)
    assert_derivatives(f, np.array([0.7, 0.4, 0.2]))


@pytest.mark.parametrize("name", ["D3", "D4"])
def test_authors_variant_reproduces_their_objective_and_optimum(name):
    rng = np.random.default_rng(5)
    truth = TRUTHS[name]
    s = np.clip(rng.beta(truth.density.a1, truth.density.a2 + 0.3, 300), 1e-6, 1 - 1e-6)
    h = rng.random(300) < truth.curve.at(s)
    fit = fit_bpm(sample_from_confidences(s, h), variant="authors")
    assert fit.objective == pytest.approx(authors_objective(s, h, np.array(fit.curve.params)), rel=1e-12)
    theirs = minimize(
        lambda t: authors_objective(s, h, t), [5.0, 5.0, 10 * np.log(2)], method="Nelder-Mead", options={"fatol": 1e-10}
    )
    assert fit.curve.params == pytest.approx(tuple(theirs.x), abs=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_nelder_mead_by_name_gives_the_same_curve(seed):
    sample = drawn("D5", 1000, seed)
    newton, simplex = fit_bpm(sample), fit_bpm(sample, optimizer="nelder-mead")
    assert "nelder-mead" in simplex.optimizer
    assert simplex.objective == pytest.approx(newton.objective, abs=1e-9)


def test_nelder_mead_outside_the_constraints_is_replaced_and_says_so():
    # A falling curve: without constraints β goes negative.
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1, 2000)
    fit = fit_bpm(sample_from_confidences(s, rng.random(2000) < 1.2 - s), optimizer="nelder-mead")
    assert "nelder-mead-replaced" in fit.notices
    assert min(fit.curve.params[:2]) >= 0


def test_constraints_hold_at_the_optimum():
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1, 2000)
    alpha, beta, _ = fit_bpm(sample_from_confidences(s, rng.random(2000) < 1.2 - s)).curve.params
    assert alpha >= 0
    assert beta >= 0


@pytest.mark.parametrize(("n", "subject"), [(1, "1 row is"), (20, "20 rows are"), (59, "59 rows are")])
def test_too_few_rows_is_a_fit_error_that_says_so(n, subject):
    with pytest.raises(FitError, match=f"{subject} too few"):
        fit_bpm(sample_from_confidences(np.linspace(0.3, 0.9, n), np.arange(n) % 2))


@pytest.mark.parametrize("n", [60, 61, 99, 100, 101, 239, 240])
def test_small_sizes_fit(n):
    # The authors' code divides by zero below 100 rows and has a zero step below 240.
    rng = np.random.default_rng(n)
    s = rng.uniform(0.3, 1, n)
    assert fit_bpm(sample_from_confidences(s, rng.random(n) < s)).converged


def test_authors_variant_on_few_rows_is_a_fit_error():
    s = np.linspace(0.1, 0.9, 200)
    with pytest.raises(FitError, match="240"):
        fit_bpm(sample_from_confidences(s, s > 0.5), variant="authors")


@pytest.mark.parametrize("outcome", [0, 1])
def test_one_outcome_gives_a_flat_curve(outcome):
    s = np.linspace(0.2, 0.95, 300)
    g = fit_bpm(sample_from_confidences(s, np.full(300, outcome))).curve.at(s)
    assert np.abs(g - outcome).max() < 1e-3


def test_constant_confidence_fits_its_hit_rate():
    fit = fit_bpm(sample_from_confidences(np.full(200, 0.8), np.arange(200) % 4 > 0))
    assert fit.curve.at(np.array([0.8]))[0] == pytest.approx(0.75, abs=1e-6)


def test_options_choose_the_bin_counts():
    sample = drawn("D4", 1000)
    assert fit_bpm(sample, bins=(10, 20), schemes=3).schemes == (10, 15, 20)
    assert fit_bpm(sample, bins=(10, 20), schemes=None).schemes == tuple(range(10, 21))
    assert fit_bpm(sample, bins=(12, 12)).schemes == (12,)
    with pytest.raises(FitError, match="2000 bins"):
        fit_bpm(sample, bins=(10, 2000))


def test_row_order_does_not_matter_bit_for_bit():
    rng = np.random.default_rng(0)
    for ties in (False, True):
        x = np.round(rng.normal(1, 2, 1000), 1 if ties else 12)
        h = rng.random(1000) < 0.7
        order = rng.permutation(1000)
        assert fit_bpm(sample_from_log_odds(x, h)) == fit_bpm(sample_from_log_odds(x[order], h[order]))


def test_curve_moves_little_when_the_data_does():
    # Theorem 1: Lipschitz continuity. One hit in 2000 flips, all confidences shift by 1e-4.
    rng = np.random.default_rng(0)
    x = rng.normal(1.5, 1.5, 2000)
    h = rng.random(2000) < 1 / (1 + np.exp(-0.6 * x))
    flipped = h.copy()
    flipped[17] = ~flipped[17]
    s = np.linspace(0.3, 0.99, 50)
    before = fit_bpm(sample_from_log_odds(x, h)).curve.at(s)
    after = fit_bpm(sample_from_log_odds(x + 1e-4, flipped)).curve.at(s)
    assert np.abs(before - after).max() < 0.01


def test_large_samples_are_solved_coarse_first_and_end_at_the_same_optimum():
    sample = drawn("D3", 120_000)
    fit = fit_bpm(sample)
    assert fit.schemes[0] >= 1000
    f = objective(scheme_bins(sample, scheme_counts(sample.n)), BETA)
    lower, upper = bounds(BETA, "paper")
    direct = minimise(f, np.array([1.0, 1.0, 0.0]), lower, upper)
    assert fit.objective - 1 == pytest.approx(direct.value, rel=1e-9)
