"""The steps of the paper's fit one by one: objective, bounds, starts, refinement, checks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from definitions import assert_derivatives, authors_objective, paper_objective

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.curves import bpm
from bpmcli.core.curves.bpm import bounds, check_family, fit_bpm, objective
from bpmcli.core.curves.families import BETA, FAMILIES, IDENTITY
from bpmcli.core.curves.solve import Minimum
from bpmcli.core.data.binning import Bins, author_scheme_bins, scheme_bins, scheme_counts
from bpmcli.core.data.sample import Sample, sample_from_confidences, sample_from_log_odds
from bpmcli.errors import FitError, UsageError


def rows(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.02, 0.98, n)
    return s, rng.random(n) < s**1.5


def drawn(n: int, name: str = "D4") -> Sample:
    return simulate(TRUTHS[name], n, np.random.default_rng(0)).sample()


THETAS = [(0.7, 0.4, 0.2), (1.5, 2.5, -1.0), (0.2, 3.0, 2.0)]


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("variant", ["paper", "authors"])
def test_objective_and_its_derivatives(theta, variant):
    s, h = rows()
    sample = sample_from_confidences(s, h)
    bins = scheme_bins(sample, np.array([5, 9])) if variant == "paper" else author_scheme_bins(sample)
    f = objective(bins, BETA, variant)
    value = f(np.array(theta))[0]
    if variant == "paper":
        assert value == pytest.approx(paper_objective(s, h, np.array(theta), [5, 9]) - 1, abs=1e-12)
    else:
        assert value == pytest.approx(authors_objective(s, h, np.array(theta)) + bins.mass.sum(), abs=1e-9)
    assert_derivatives(f, np.array(theta))


def test_distances_keep_their_digits_on_both_sides():
    # Curve and accuracy agree to 1e-10 near 0 and near 1: d² must not be rounding.
    tiny = np.array([1e-12])
    for low in (True, False):
        s, q = (tiny, 1 - tiny) if low else (1 - tiny, tiny)
        bins = Bins(np.ones(1), s, q, np.zeros(1) if low else np.ones(1))
        value = objective(bins, BETA)(np.array([1.0, 1.0, 0.0]))[0]
        assert value == pytest.approx(1e-24, rel=1e-6)


@pytest.mark.parametrize("saturated", [0.0, 1.0])
def test_the_authors_clip_the_mean_confidence(saturated):
    bins = Bins(np.ones(1), np.array([saturated]), np.array([1 - saturated]), np.array([0.5]))
    g = 1 / (1 + (1e10 if saturated == 0 else 1e-10))
    value = objective(bins, BETA, "authors")(np.array([1.0, 1.0, 0.0]))[0]
    assert value == pytest.approx(1 - math.exp(-((g - 0.5) ** 2)), rel=1e-9)


def test_bounds_of_families_and_of_the_authors():
    lower, upper = bounds(BETA, "paper")
    assert (lower.tolist(), upper.tolist()) == ([0, 0, -1000], [1000, 1000, 1000])
    lower, upper = bounds(BETA, "authors")
    assert (lower.tolist(), upper.tolist()) == ([-1000] * 3, [1000] * 3)
    lower, upper = bounds(FAMILIES["logflip-logit"], "paper")
    assert (lower.tolist(), upper.tolist()) == ([-1000, -1000], [1000, 0])


@pytest.mark.parametrize(
    ("variant", "optimizer", "option"),
    [("authors", "newton", "--variant authors"), ("paper", "nelder-mead", "--optimizer nelder-mead")],
)
def test_only_the_papers_family_has_the_authors_variant(variant, optimizer, option):
    check_family(BETA, variant, optimizer)
    check_family(FAMILIES["log-log"], "paper", "newton")
    with pytest.raises(UsageError, match=f"{option} works with the paper's own curve family, not with log-log"):
        check_family(FAMILIES["log-log"], variant, optimizer)


def test_a_summary_has_no_bins_of_the_authors():
    summarised = drawn(1000)._replace(summarised=True)
    with pytest.raises(FitError, match="not available from a summary"):
        fit_bpm(summarised, variant="authors")


def test_bin_counts_of_both_variants():
    sample = drawn(1000)
    assert fit_bpm(sample, variant="authors").schemes == tuple(range(10, 51, 4))
    assert bpm._authors_counts(150).tolist() == [1, 2, 3, 4, 5, 6, 7]
    large = drawn(70_000)._replace(from_summary=True)
    assert (fit_bpm(large).schemes[0], fit_bpm(large).schemes[-1]) == (600, 3000)


def test_identity_is_not_searched_for():
    sample = drawn(600)
    fit = fit_bpm(sample, family=IDENTITY)
    bins = scheme_bins(sample, scheme_counts(600))
    expected = bins.mass @ np.exp((bins.confidences - bins.accuracies) ** 2)
    assert fit.objective == pytest.approx(expected, abs=1e-12)
    assert (fit.optimizer, fit.evaluations, fit.converged, fit.curve.params) == ("none", 1, True, ())


@pytest.mark.parametrize("family", [BETA, FAMILIES["logit-logit"]])
@pytest.mark.parametrize("outcome", [0, 1])
def test_one_outcome_is_a_flat_curve(family, outcome):
    fit = fit_bpm(sample_from_confidences(np.linspace(0.2, 0.9, 300), np.full(300, outcome)), family=family)
    flat = 40.0 if outcome else -40.0
    assert fit.curve.params == ((0.0, 0.0, -flat) if family is BETA else (flat, 0.0))
    assert (fit.evaluations, fit.converged, fit.optimizer) == (1, True, "newton")
    assert isinstance(fit.objective, float)
    assert fit.objective == pytest.approx(1.0, abs=1e-15)


def test_flat_curves_have_the_accuracy_asked_for():
    for name in ("beta", "logit-logit", "log-log", "logflip-log"):
        family = FAMILIES[name]
        theta = bpm._flat(family, math.log(0.3 / 0.7))
        eta = theta @ family.columns(np.array([-2.0, 1.0]))
        np.testing.assert_allclose(family.link.inverse(eta)[0], 0.3, rtol=1e-12)


@pytest.mark.parametrize(
    ("variant", "counts", "large"),
    [
        ("paper", [600, 900], True),
        ("paper", [599, 900], False),
        ("paper", [600], False),
        ("authors", [600, 900], False),
    ],
)
def test_which_samples_are_solved_coarse_first(variant, counts, large):
    assert bpm._is_large(variant, np.array(counts)) is large


class Solver:
    """Stands for `minimise`: gives prepared values, and remembers the starts and objectives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *values: float) -> None:
        self.values, self.calls = list(values), []
        monkeypatch.setattr(bpm, "minimise", self)

    def __call__(self, f, start, lower, upper):
        self.calls.append((f, tuple(start)))
        return Minimum(np.asarray(start) + 100, self.values.pop(0), 10, True)


def constant(value: float):
    return lambda theta: (value, np.zeros(3), np.eye(3))


BOX = (np.full(3, -1e3), np.full(3, 1e3))
FLAT = np.array([0.0, 0.0, 1.5])


def test_two_starts_that_agree_are_enough(monkeypatch):
    solver = Solver(monkeypatch, 0.5, 0.5 * (1 - 1e-10))
    best = bpm._multi_start(constant(0.6), None, *BOX, FLAT)
    assert [start for _, start in solver.calls] == list(bpm.STARTS[:2])
    assert (best.value, best.evaluations, best.converged) == (0.5 * (1 - 1e-10), 20, True)
    assert best.x.tolist() == [v + 100 for v in bpm.STARTS[1]]


def test_starts_that_disagree_are_followed_by_all_others(monkeypatch):
    solver = Solver(monkeypatch, 0.5, 0.5 * (1 + 1e-8), 0.7, 0.4, 0.6)
    best = bpm._multi_start(constant(0.6), None, *BOX, FLAT)
    assert [start for _, start in solver.calls] == list(bpm.STARTS)
    assert (best.value, best.evaluations) == (0.4, 50)
    assert best.x.tolist() == [v + 100 for v in bpm.STARTS[3]]


def test_starts_disagree_relative_to_their_value(monkeypatch):
    solver = Solver(monkeypatch, 1e-4, 1e-4 * (1 + 1e-8), 0.7, 0.4, 0.6)
    bpm._multi_start(constant(0.6), None, *BOX, FLAT)
    assert len(solver.calls) == 5


@pytest.mark.parametrize(("flat", "tried"), [(0.5, False), (0.499, True)])
def test_the_flat_curve_is_tried_if_it_is_better(monkeypatch, flat, tried):
    solver = Solver(monkeypatch, 0.5, 0.5, 0.3)
    best = bpm._multi_start(constant(flat), None, *BOX, FLAT)
    assert len(solver.calls) == 2 + tried
    assert (best.value, best.evaluations) == ((0.3, 30) if tried else (0.5, 20))


def test_a_coarse_objective_is_searched_first(monkeypatch):
    fine, coarse = constant(0.6), constant(0.7)
    solver = Solver(monkeypatch, 0.5, 0.5, 0.55)
    best = bpm._multi_start(fine, coarse, *BOX, FLAT)
    assert [f for f, _ in solver.calls] == [coarse, coarse, fine]
    assert solver.calls[2][1] == tuple(v + 100 for v in bpm.STARTS[0])
    assert (best.value, best.evaluations) == (0.55, 30)


def test_everything_but_the_last_step_is_on_the_coarse_objective(monkeypatch):
    fine, coarse = constant(0.6), constant(0.2)
    solver = Solver(monkeypatch, 0.5, 0.6, 0.5, 0.5, 0.5, 0.3, 0.25)
    best = bpm._multi_start(fine, coarse, *BOX, FLAT)
    assert [f for f, _ in solver.calls] == [coarse] * 6 + [fine]
    assert (best.value, best.evaluations) == (0.25, 70)


@pytest.mark.parametrize(("n", "asked"), [(62_000, [11, 1]), (5_000, [11])])
def test_the_coarse_bins_are_those_of_the_smallest_bin_count(monkeypatch, n, asked):
    made, given = [], []
    kept = bpm.scheme_bins, bpm._multi_start
    monkeypatch.setattr(bpm, "scheme_bins", lambda sample, counts: made.append(counts.size) or kept[0](sample, counts))
    monkeypatch.setattr(bpm, "_multi_start", lambda f, coarse, *more: given.append(coarse) or kept[1](f, coarse, *more))
    fit_bpm(drawn(n))
    assert made == asked
    assert (given[0] is None) == (asked == [11])


@pytest.mark.parametrize("name", ["beta", "logit-log"])
def test_large_samples_end_at_the_optimum_of_all_bins(name):
    sample = drawn(62_000)
    fit = fit_bpm(sample, family=FAMILIES[name])
    f = objective(scheme_bins(sample, scheme_counts(sample.n)), FAMILIES[name])
    value, gradient, hessian = f(np.array(fit.curve.params))
    assert fit.objective - 1 == pytest.approx(value, rel=1e-9)
    assert gradient @ np.linalg.solve(hessian, gradient) < 1e-12 * value
    # Most evaluations are on the coarse bins, and all are counted.
    assert fit.evaluations > 8


def test_search_of_another_family_counts_every_evaluation(monkeypatch):
    found = {"first": Minimum(np.array([1.0, 2.0]), 0.5, 7, True), "last": Minimum(np.array([3.0, 4.0]), 0.4, 5, False)}
    monkeypatch.setattr(bpm, "lowest_minimum", lambda *_: found["first"])
    monkeypatch.setattr(bpm, "lower_minimum", lambda *_: found["last"])
    Solver(monkeypatch, 0.45, 0.45)
    bins = scheme_bins(drawn(300), np.array([5]))
    family = FAMILIES["logit-logit"]
    best = bpm._search(constant(0.0), bins, bins, family, *BOX, FLAT)
    assert (best.evaluations, best.converged, best.value) == (7 + 10 + 5, False, 0.4)
    assert bpm._search(constant(0.0), bins, None, family, *BOX, FLAT) == found["first"]
    # Without overlap the steepest curve is best, and the value is practically zero.
    found["last"] = Minimum(np.zeros(2), bpm.PERFECT / 2, 5, False)
    assert bpm._search(constant(0.0), bins, bins, family, *BOX, FLAT).converged


@pytest.mark.parametrize(
    ("accuracy", "c"), [(1.0, -math.log(1e12 - 1)), (0.0, math.log(1e12 - 1)), (0.25, math.log(3))]
)
def test_extreme_accuracies_still_give_a_flat_start(monkeypatch, accuracy, c):
    monkeypatch.setattr(bpm, "_multi_start", lambda *given: given[4])
    flat = bpm._global_minimum(constant(0.0), None, None, BETA, accuracy, BOX)  # type: ignore[arg-type]
    assert flat == pytest.approx([0.0, 0.0, c], rel=1e-4)


def test_a_fit_that_did_not_converge_is_an_error(monkeypatch):
    monkeypatch.setattr(bpm, "_global_minimum", lambda *_: Minimum(np.ones(3), 0.25, 9, False))
    with pytest.raises(FitError, match=r"did not converge: objective 1\.25 after 9 evaluations"):
        fit_bpm(drawn(600))
    with pytest.raises(FitError, match=r"objective -\d+\.75 after 9"):  # 0.25 minus the number of bins
        fit_bpm(drawn(600), variant="authors")


def test_a_start_is_taken_as_it_is(monkeypatch):
    sample = drawn(600)
    solver = Solver(monkeypatch, 0.25)
    fit = fit_bpm(sample, start=(1.0, 2.0, 3.0))
    assert [start for _, start in solver.calls] == [(1.0, 2.0, 3.0)]
    assert (fit.curve.params, fit.evaluations, fit.notices) == ((101.0, 102.0, 103.0), 10, ())


def test_nelder_mead_starts_where_the_published_code_starts(monkeypatch):
    first = []
    bpm._nelder_mead(lambda theta: (first.append(theta) or float(theta @ theta), theta, np.eye(3)), *BOX)
    assert first[0] == pytest.approx([5.0, 5.0, 10 * math.log(2)])


def test_nelder_mead_that_stays_inside_is_kept():
    sample = drawn(1000, "D5")
    simplex, newton = fit_bpm(sample, optimizer="nelder-mead"), fit_bpm(sample)
    assert (simplex.optimizer, simplex.notices) == ("nelder-mead", ())
    assert newton.optimizer == "newton"
    assert newton.evaluations < 60 < simplex.evaluations
    assert simplex.objective == pytest.approx(newton.objective, abs=1e-9)


def test_nelder_mead_that_leaves_the_bounds_is_replaced():
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1, 600)
    sample = sample_from_confidences(s, rng.random(600) < 1.2 - s)
    fit, newton = fit_bpm(sample, optimizer="nelder-mead"), fit_bpm(sample)
    assert (fit.optimizer, fit.notices) == ("nelder-mead, then newton", ("nelder-mead-replaced",))
    assert fit.curve == newton.curve
    assert fit.evaluations > newton.evaluations + 60  # both are counted


@pytest.mark.parametrize(
    ("curvature", "where", "optimal", "inside"),
    [(1.0, (5, 5, 7), True, True), (-1.0, (5, 5, 7), False, True), (1.0, (-5, 5, 7), True, False)],
)
def test_what_counts_as_the_simplexs_optimum(curvature, where, optimal, inside):
    target = np.array(where, dtype=float)

    def f(theta):
        d = theta - target
        return float(d @ d), 2 * d, 2 * curvature * np.eye(3)

    found, stayed = bpm._nelder_mead(f, np.array([0.0, 0.0, -1e3]), np.full(3, 1e3))
    assert (found.converged, stayed) == (optimal, inside)
    assert found.x == pytest.approx(where, abs=1e-3)
    assert found.value == f(found.x)[0]


@pytest.mark.parametrize(
    ("gain", "curvature", "optimal"),
    [(0.6e-9, 2.0, True), (1.2e-9, 2.0, False), (0.0, 0.0, True), (0.0, -0.01, False), (1e-6, 2.0, False)],
)
def test_a_simplex_is_optimal_if_a_newton_step_gains_nothing(gain, curvature, optimal):
    def f(theta):
        d = theta - 5.0
        return float(d @ d), np.array([2 * math.sqrt(gain), 0.0, 0.0]), np.diag([2.0, 2.0, curvature])

    found, inside = bpm._nelder_mead(f, np.full(3, -1e3), np.full(3, 1e3))
    assert (found.converged, inside) == (optimal, True)
    assert bpm._nelder_mead(f, np.full(3, -1e3), np.array([4.0, 1e3, 1e3]))[1] is False


def test_saturated_log_odds_fall_back_on_the_flat_curve():
    # Every start saturates at log-odds of ±600; the flat curve has the accuracy.
    x = np.repeat([-600.0, 600.0], 150)
    sample = sample_from_log_odds(x + np.arange(300) * 1e-3, np.arange(300) % 2)
    fit = fit_bpm(sample)
    assert fit.curve(np.array([-600.0, 600.0]))[0] == pytest.approx([0.5, 0.5], abs=0.02)
