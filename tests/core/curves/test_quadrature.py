"""The parts of the integral one by one: nodes, panels, crossings, edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import beta as beta_distribution

from bpmcli.core.curves.families import parse_curve
from bpmcli.core.curves.tce import (
    BetaDensity,
    _distinct,
    _edges,
    _gauss_legendre,
    _roots,
    density_nodes,
    integrate,
    tce_beta,
    tce_empirical,
)
from bpmcli.core.data.sample import sample_from_log_odds


class Counted:
    """A function, or several, and how often it was evaluated."""

    def __init__(self, *functions) -> None:
        self.functions, self.evaluations = functions, 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.evaluations += x.size
        return np.stack([f(x) for f in self.functions])


def test_nodes_are_those_of_numpy():
    x, w = np.polynomial.legendre.leggauss(16)
    nodes, weights = _gauss_legendre()
    np.testing.assert_allclose(nodes[::-1], x, atol=1e-15)
    np.testing.assert_allclose(weights[::-1], w, rtol=1e-13)


def test_distinct_values():
    assert _distinct(np.array([3.0, 1.0, 3.0, 2.0, 1.0])).tolist() == [1.0, 2.0, 3.0]


def test_smooth_functions_need_one_halving():
    f = Counted(lambda x: x**31, np.exp, lambda x: 0 * x)
    found = integrate(f, np.array([0.0, 0.5, 2.0]))
    np.testing.assert_allclose(found, [2.0**32 / 32, math.exp(2) - 1, 0.0], rtol=1e-14)
    assert f.evaluations == 2 * 16 + 4 * 16
    nothing = Counted(lambda x: 0 * x)
    assert integrate(nothing, np.array([0.0, 1.0])).tolist() == [0.0]
    assert nothing.evaluations == 3 * 16


def test_panels_are_halved_only_where_they_disagree():
    f = Counted(lambda x: np.sqrt(np.abs(x - 0.3)))
    expected = (0.3**1.5 + 0.7**1.5) * 2 / 3
    assert integrate(f, np.array([0.0, 1.0]))[0] == pytest.approx(expected, rel=1e-11)
    assert 1500 < f.evaluations < 2000  # about fifty halvings of the one panel around 0.3
    rough = Counted(lambda x: np.sqrt(np.abs(x - 0.3)))
    assert integrate(rough, np.array([0.0, 1.0]), tolerance=1e-4)[0] == pytest.approx(expected, rel=1e-3)
    assert rough.evaluations < f.evaluations / 4


def test_one_function_that_needs_halving_is_enough():
    found = integrate(Counted(np.exp, lambda x: np.sqrt(np.abs(x - 0.3))), np.array([0.0, 1.0]))
    np.testing.assert_allclose(found, [math.e - 1, (0.3**1.5 + 0.7**1.5) * 2 / 3], rtol=1e-11)


def test_a_function_that_never_settles_ends_with_the_sum_of_its_panels():
    f = Counted(lambda x: 1.0 + 1e-6 * np.sign(np.sin(1e12 * x)))
    assert integrate(f, np.array([0.0, 1.0]))[0] == pytest.approx(1.0, abs=1e-5)
    assert 500_000 < f.evaluations < 1_300_000


def test_an_integral_that_is_rounding_beside_another_is_not_refined():
    noise = lambda x: 1e-17 * np.sign(np.sin(1e9 * x))  # noqa: E731
    f = Counted(np.exp, noise)
    integrate(f, np.array([0.0, 1.0]))
    assert f.evaluations == 3 * 16
    alone = Counted(noise)
    integrate(alone, np.array([0.0, 1.0]))
    assert alone.evaluations > 3 * 16


@pytest.mark.parametrize(("a1", "a2"), [(2.77, 0.04), (0.5, 0.7), (40.0, 3.0), (1e4, 2e4), (0.5, 0.001)])
def test_edges_cover_the_mass_and_are_fine_near_the_mode(a1, a2):
    edges = _edges(BetaDensity(a1, a2))
    assert np.all(np.diff(edges) > 0)
    law = beta_distribution(a1, a2)
    assert law.logcdf(expit(edges[0])) < -40
    assert beta_distribution(a2, a1).logcdf(expit(-edges[-1])) < -40
    mode, spread = math.log(a1 / a2), math.sqrt(1 / a1 + 1 / a2)
    assert edges[0] == pytest.approx(mode - 10 * spread - 45 / a1)
    assert edges[-1] == pytest.approx(mode + 10 * spread + 45 / a2)
    near, steps = min(1.0, spread), [0.0, *(2.0**k for k in range(-1, 14))]
    points = [
        place + sign * unit * step for place, unit in ((mode, near), (0.0, 1.0)) for sign in (1, -1) for step in steps
    ]
    expected = sorted({edges[0], edges[-1], *(x for x in points if edges[0] < x < edges[-1])})
    np.testing.assert_allclose(edges, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_fixed_nodes_integrate_a_density_and_its_neighbours(parts):
    density = BetaDensity(3.0, 0.7)
    x, weights = density_nodes(density, parts)
    assert x.size == 16 * parts * (_edges(density).size - 1)
    assert np.all(np.diff(x.reshape(-1, 16).mean(axis=1)) > 0)
    for a1, a2 in ((3.0, 0.7), (2.8, 0.75)):
        constant = math.exp(math.lgamma(a1) + math.lgamma(a2) - math.lgamma(a1 + a2))
        total = weights @ np.exp(BetaDensity(a1, a2).log_weight(x))
        assert total == pytest.approx(constant, rel=1e-12 if parts > 1 else 1e-9)
    default, _ = density_nodes(density)
    assert default.size == 16 * 2 * (_edges(density).size - 1)


@pytest.mark.parametrize(("b0", "b1"), [(0.5, 0.5), (-3.0, 2.5), (0.01, 0.99), (4.0, 3.0)])
def test_crossings_of_a_line_in_log_odds(b0, b1):
    # b0 + b1 x = x at x = b0 / (1 − b1).
    edges = np.array([-7.0, -2.3, 0.1, 1.77, 6.0])
    roots = _roots(parse_curve(f"logit-logit:{b0},{b1}").distance, edges)
    assert roots == pytest.approx([b0 / (1 - b1)], abs=1e-8)


def test_crossings_are_found_between_edges_and_quickly():
    calls = []

    def distance(x: np.ndarray) -> np.ndarray:
        calls.append(x.size)
        return np.sin(x)

    roots = _roots(distance, np.array([0.5, 10.0, 20.0]))
    assert roots == pytest.approx(np.pi * np.arange(1, 7), abs=1e-8)
    assert calls[0] == 33
    assert len(calls) < 12
    assert _roots(lambda x: 1.0 + x * x, np.array([-1.0, 1.0])).size == 0
    assert _roots(lambda x: 1e-16 * np.sin(9 * x), np.array([-1.0, 1.0])).size == 0  # rounding, not crossings
    late = lambda x: np.where(x < -0.5, 1.0, 1e-16 * np.sin(9 * x))  # noqa: E731
    assert _roots(late, np.array([-1.0, 1.0])).size == 0
    assert _roots(lambda x: np.where(x < 0.5, -1e-17, 1.0), np.array([0.0, 1.0])) == pytest.approx([0.5], abs=0.07)


def test_an_easy_crossing_does_not_end_the_search_for_a_hard_one():
    line_and_bend = lambda x: np.where(x < 3, x - 1.03, 1 - np.exp(5 * (x - 4.21)))  # noqa: E731
    assert _roots(line_and_bend, np.array([0.0, 2.9, 5.0])) == pytest.approx([1.03, 4.21], abs=1e-8)


def test_tce_under_a_narrow_density():
    # g(s) = s² has E|s² − s| = m − E s².
    a1, a2 = 1e5, 2e5
    m = a1 / (a1 + a2)
    expected = m - m * (a1 + 1) / (a1 + a2 + 1)
    assert tce_beta(parse_curve("log-log:0,2"), BetaDensity(a1, a2)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5])
def test_tce_of_a_constant_curve(p):
    # g = ½ under the uniform density: (∫ |½ − s|^p ds)^(1/p) = ½ (p + 1)^(−1/p).
    assert tce_beta(parse_curve("logit-logit:0,0"), BetaDensity(1, 1), p) == pytest.approx(
        0.5 * (p + 1) ** (-1 / p), rel=1e-12
    )
    assert tce_beta(parse_curve("logit-logit:0,0"), BetaDensity(1, 1)) == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_tce_over_weighted_and_tied_rows(p):
    x, h, w = np.array([-1.0, -1.0, 0.5, 2.0]), np.array([0, 1, 1, 1]), np.array([1.0, 2.0, 3.0, 4.0])
    curve = parse_curve("logit-logit:0.3,0.7")
    error = np.abs(expit(0.3 + 0.7 * x) - expit(x)) ** p
    assert tce_empirical(curve, sample_from_log_odds(x, h), p) == pytest.approx(error.mean() ** (1 / p))
    assert tce_empirical(curve, sample_from_log_odds(x, h, w), p) == pytest.approx((w @ error / 10) ** (1 / p))
    assert tce_empirical(curve, sample_from_log_odds(x, h)) == tce_empirical(curve, sample_from_log_odds(x, h), 1.0)
