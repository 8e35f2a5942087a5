"""The integral against values known to eighteen digits, closed forms and mpmath-free quadrature."""

from __future__ import annotations

import numpy as np
import pytest

from bpmcli.core.compare.truths import TRUTHS, custom_truth, ead
from bpmcli.core.curves.families import FAMILIES, parse_curve
from bpmcli.core.curves.tce import BetaDensity, beta_by_moments, tce_beta, tce_empirical
from bpmcli.core.data.sample import sample_from_confidences, sample_from_log_odds
from bpmcli.errors import UsageError

EXACT = {  # 60-digit quadrature
    "D1": 0.0497260182523389859,
    "D2": 0.0129348048725853605,
    "D3": 0.0409891008341064922,
    "D4": 0.0738305880522094601,
    "D5": 0.275411171023917876,
}


@pytest.mark.parametrize("name", EXACT)
def test_true_errors_of_the_paper(name):
    assert TRUTHS[name].tce() == pytest.approx(EXACT[name], rel=1e-13)


def test_identity_has_no_error():
    for curve in ("identity", "beta:1,1,0", "logit-logit:0,1", "log-log:0,1", "logflip-logflip:0,1"):
        assert tce_beta(parse_curve(curve), BetaDensity(2.77, 0.04)) < 1e-15


@pytest.mark.parametrize(("a1", "a2"), [(2.0, 3.0), (0.3, 0.2), (500.0, 20.0), (1e5, 2e5), (1.0, 0.01)])
def test_second_moment_in_closed_form(a1, a2):
    # g(s) = s² has E|s² − s| = m − E s².
    m = a1 / (a1 + a2)
    second = m * (a1 + 1) / (a1 + a2 + 1)
    assert tce_beta(parse_curve("log-log:0,2"), BetaDensity(a1, a2)) == pytest.approx(m - second, rel=1e-10)


@pytest.mark.parametrize("curve", ["beta:0.3,0.35,0.37", "beta:30,25,2", "logit-log:1,2", "beta:0,0.5,0.4"])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_agrees_with_a_fine_riemann_sum(curve, p):
    g, density = parse_curve(curve), BetaDensity(1.5, 0.6)
    # |g − s| has kinks, its square has none. Outside the weight is below 1e-15.
    x = np.linspace(-25, 60, 950_001 if p == 1.0 else 100_001)
    weight = np.exp(density.log_weight(x))
    expected = (np.sum(weight * np.abs(g.distance(x)) ** p) / np.sum(weight)) ** (1 / p)
    assert tce_beta(g, density, p) == pytest.approx(expected, rel=1e-8)


def test_empirical_density_is_the_mean_over_rows():
    rng = np.random.default_rng(0)
    s = rng.random(500)
    curve = parse_curve("beta:0.5,0.5,0.2")
    sample = sample_from_confidences(s, s > 0.5)
    assert tce_empirical(curve, sample) == pytest.approx(np.mean(np.abs(curve.at(s) - s)), rel=1e-12)


def test_moments_give_back_their_beta():
    rng = np.random.default_rng(0)
    found = beta_by_moments(sample_from_confidences(s := rng.beta(3, 0.7, 1000), np.ones(1000)))
    assert found is not None
    m, v = s.mean(), s.var(ddof=1)
    a1 = m * m * (1 - m) / v - m
    assert found.a1 == pytest.approx(a1, rel=1e-10)
    assert found.a2 == pytest.approx(a1 * (1 - m) / m, rel=1e-10)


@pytest.mark.parametrize("a", [(0.7, 3.0), (6.0, 5.0), (2.0, 2.0), (0.5, 300.0)])
def test_moments_of_low_confidences_give_back_their_beta(a):
    s = np.random.default_rng(1).beta(*a, 1000)
    found = beta_by_moments(sample_from_confidences(s, np.ones(1000)))
    assert found is not None
    m, v = s.mean(), s.var(ddof=1)
    assert found.a1 == pytest.approx(m * m * (1 - m) / v - m, rel=1e-9)
    assert found.a2 == pytest.approx(found.a1 * (1 - m) / m, rel=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("scale", "narrow"), [(3e-7, False), (1.5e-7, False), (0.8e-7, True), (0.5e-7, True)])
def test_moments_keep_their_digits_where_confidences_saturate(sign, scale, narrow):
    """Seen from 1, deviations of 1e-7 have nine digits. Beta(2, 2e7) counts as constant."""
    tiny = np.random.default_rng(2).gamma(2.0, scale, 500)
    found = beta_by_moments(sample_from_log_odds(sign * (np.log1p(-tiny) - np.log(tiny)), np.ones(500)))
    assert (found is None) is narrow
    if found is not None:
        m, v = tiny.mean(), tiny.var(ddof=1)
        small = m * m * (1 - m) / v - m
        large = small * (1 - m) / m
        assert sorted(found) == pytest.approx([small, large], rel=1e-12)


@pytest.mark.parametrize(("spread", "exists"), [(0.4, True), (0.49999, True), (0.4999999, False)])
def test_almost_only_zeros_and_ones_are_no_beta(spread, exists):
    """Beta(a, a) with small a has the standard deviation 1/2 √(1/(2a + 1))."""
    sample = sample_from_confidences([0.5 - spread, 0.5 + spread] * 50_000, [0, 1] * 50_000)
    assert (beta_by_moments(sample) is not None) is exists


@pytest.mark.parametrize("high", [5_000, 95_000])
def test_one_parameter_that_is_too_small_is_enough(high):
    """The moments are those of Beta(5e-7, 9.5e-6), or of its mirror image."""
    values = np.where(np.arange(100_000) < high, 1 - 9.5e-7, 9.5e-7)
    assert beta_by_moments(sample_from_confidences(values, np.ones(100_000))) is None


def test_two_rows_are_enough_for_moments():
    assert beta_by_moments(sample_from_confidences([0.7, 0.8], [1, 1])) is not None


def test_moments_of_a_summary_count_the_variance_inside_its_cells():
    sample = sample_from_confidences([0.6, 0.8], [1, 1], [300.0, 100.0])
    inside = sample._replace(inner_variance=0.01)
    v = (0.75 * 0.05**2 + 0.25 * 0.15**2 + 0.01) * sample.effective_n / (sample.effective_n - 1)
    found = beta_by_moments(inside)
    assert found is not None
    assert found.a1 == pytest.approx(0.65 * 0.65 * 0.35 / v - 0.65, rel=1e-9)


def test_no_beta_without_variance_or_with_too_much():
    assert beta_by_moments(sample_from_confidences([0.7] * 50, [1] * 50)) is None
    assert beta_by_moments(sample_from_confidences([0.0, 1.0] * 50, [0, 1] * 50)) is None
    assert beta_by_moments(sample_from_confidences([0.7], [1])) is None


@pytest.mark.parametrize("name", FAMILIES)
def test_families_keep_value_and_complement_apart(name):
    family = FAMILIES[name]
    params = family.identity
    if params is None:
        params = (-0.5, 0.7 if family.upper[1] > 0 else -0.7)
    curve = parse_curve(f"{name}:" + ",".join(map(str, params))) if params else parse_curve(name)
    x = np.linspace(-600, 600, 2001)
    g, miss = curve(x)
    assert np.all((g >= 0) & (g <= 1) & (miss >= 0) & (miss <= 1))
    assert np.allclose(g + miss, 1, atol=1e-15)
    assert np.all(np.diff(g) >= -1e-15)


def test_curve_at_the_ends():
    curve = parse_curve("beta:0.5,0.5,0.2")
    assert curve.at(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    assert ead(curve, curve) == 0.0
    # One half apart everywhere: the sum has 1001 terms, the divisor is 1000.
    low, high = parse_curve("logit-logit:-40,0"), parse_curve("logit-logit:0,0")
    assert ead(low, high) == pytest.approx(0.5005, abs=1e-9)


@pytest.mark.parametrize("text", ["cubic:1,2", "beta:1,2", "beta:1,x,0", "beta:1,nan,0", "logit-logit:inf,1"])
def test_bad_curves_are_usage_errors(text):
    with pytest.raises(UsageError):
        parse_curve(text)


@pytest.mark.parametrize("beta", ["1", "1,2,3", "0,1", "-1,2", "a,b", "inf,1"])
def test_bad_beta_parameters_are_usage_errors(beta):
    with pytest.raises(UsageError):
        custom_truth("identity", beta)
