"""The paper's loss with other curve families: definition, global optimum, shape, parameters."""

from __future__ import annotations

import json
import math
from statistics import mean

import numpy as np
import pytest
from definitions import assert_derivatives, paper_loss

from bpmcli.core.calibrators import FitOptions, fit_calibrator, method_named
from bpmcli.core.calibrators.bpm import Bpm
from bpmcli.core.compare.truths import TRUTHS, ead, simulate
from bpmcli.core.curves.bpm import bounds, fit_bpm, objective
from bpmcli.core.curves.families import BETA, FAMILIES, IDENTITY, Curve, Family, parse_curve
from bpmcli.core.curves.solve import minimise
from bpmcli.core.data.binning import scheme_bins, scheme_counts
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Sample, sample_from_confidences, sample_from_log_odds
from bpmcli.core.metrics import MetricOptions
from bpmcli.core.metrics.definitions import tce_of_curve
from bpmcli.errors import DataError, FitError, UsageError

PAIRS = [name for name in FAMILIES if name not in ("beta", "identity")]
OTHERS = [*PAIRS, "identity"]

TRANSFORMS = {"logit": lambda s: math.log(s / (1 - s)), "log": math.log, "logflip": lambda s: math.log(1 - s)}
INVERSES = {
    "logit": lambda eta: 1 / (1 + math.exp(-eta)),
    "log": lambda eta: min(1.0, math.exp(eta)),
    "logflip": lambda eta: max(0.0, 1 - math.exp(eta)),
}


def by_definition(name: str, params: tuple[float, ...], s: float) -> float:
    link, transform = name.split("-")
    return INVERSES[link](params[0] + params[1] * TRANSFORMS[transform](s))


def drawn(name: str, n: int, seed: int = 0) -> Sample:
    return simulate(TRUTHS[name], n, np.random.default_rng(seed)).sample()


def own_family(truth: str) -> Family:
    curve = TRUTHS[truth].curve
    assert isinstance(curve, Curve)
    return curve.family


@pytest.mark.parametrize("name", PAIRS)
def test_objective_is_algorithm_one_with_the_familys_curve(name):
    rng = np.random.default_rng(0)
    s = np.clip(np.round(rng.beta(2, 0.8, 700), 2), 0.01, 0.99)  # ties
    h = rng.random(700) < 0.9 * s
    fit = fit_bpm(sample_from_confidences(s, h), family=FAMILIES[name])
    expected = paper_loss(s, h, lambda m: by_definition(name, fit.curve.params, m), list(fit.schemes))
    assert fit.objective == pytest.approx(expected, abs=1e-12)


def random_curve(family: Family, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Through a random point over a random bin, with a slope of any size."""
    g = rng.uniform(0.02, 0.98)
    slope = 10 ** rng.uniform(-3, 1.3) * (1 if family.upper[1] > 0 else -1)
    level = family.link.forward(np.array([np.log(g / (1 - g))]))[0]
    return np.array([level - slope * family.columns(x[rng.integers(x.size)][None])[1, 0], slope])


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("name", PAIRS)
def test_no_random_start_finds_a_better_optimum(name, truth):
    # Links that are cut off have up to eight minima within 3 %.
    family, sample = FAMILIES[name], drawn(truth, 800, 3)
    bins = scheme_bins(sample, scheme_counts(sample.n))
    x = np.log(bins.confidences) - np.log(bins.complements)
    f = objective(bins, family)
    rng = np.random.default_rng(1)
    best = min(minimise(f, random_curve(family, x, rng), *bounds(family, "paper")).value for _ in range(20))
    assert fit_bpm(sample, family=family).objective - 1 <= best * (1 + 1e-9)


@pytest.mark.parametrize("name", PAIRS)
def test_derivatives_are_exact(name):
    f = objective(scheme_bins(drawn("D4", 800), scheme_counts(800)), FAMILIES[name])
    assert_derivatives(f, np.array([-0.71, 0.3 if FAMILIES[name].upper[1] > 0 else -0.3]))


@pytest.mark.parametrize("truth", ["D1", "D3"])
def test_the_true_family_comes_closer_than_the_papers(truth):
    curve = TRUTHS[truth].curve
    samples = [drawn(truth, 5000, seed) for seed in range(5)]
    own = mean(ead(fit_bpm(s, family=own_family(truth)).curve, curve) for s in samples)
    assert own < 0.8 * mean(ead(fit_bpm(s).curve, curve) for s in samples)


@pytest.mark.parametrize("truth", TRUTHS)
def test_many_rows_give_the_true_parameters(truth):
    # 60,000 rows are searched on one scheme and polished on all.
    curve = TRUTHS[truth].curve
    fit = fit_bpm(drawn(truth, 60_000), family=own_family(truth))
    assert fit.schemes[0] >= 600
    assert ead(fit.curve, curve) < 0.02
    assert fit.curve.params == pytest.approx(curve.params, abs=0.08)


@pytest.mark.parametrize("name", OTHERS)
def test_curves_rise_within_zero_and_one(name):
    rng = np.random.default_rng(0)
    s = rng.uniform(0.3, 1, 1500)
    for rate in (s, 1.2 - s, np.full(1500, 0.98), s**4):  # the second one falls
        g, miss = fit_bpm(sample_from_confidences(s, rng.random(1500) < rate), family=FAMILIES[name]).curve(
            np.linspace(-60, 60, 2001)
        )
        assert np.all((g >= 0) & (g <= 1))
        assert np.all(np.diff(g) >= 0)
        assert np.abs(g + miss - 1).max() < 1e-12


@pytest.mark.parametrize("name", PAIRS)
def test_a_falling_rate_gives_a_flat_curve(name):
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 0.95, 2000)
    sample = sample_from_confidences(s, rng.random(2000) < 1.2 - s)
    g = fit_bpm(sample, family=FAMILIES[name]).curve.at(s)
    assert g == pytest.approx(np.full(2000, sample.accuracy), abs=2e-3)


@pytest.mark.parametrize("outcome", [0, 1])
@pytest.mark.parametrize("name", PAIRS)
def test_one_outcome_gives_a_flat_curve(name, outcome):
    s = np.linspace(0.2, 0.95, 300)
    g = fit_bpm(sample_from_confidences(s, np.full(300, outcome)), family=FAMILIES[name]).curve.at(s)
    assert np.abs(g - outcome).max() < 1e-12


@pytest.mark.parametrize("name", PAIRS)
def test_constant_confidence_fits_its_hit_rate(name):
    sample = sample_from_confidences(np.full(200, 0.8), np.arange(200) % 4 > 0)
    assert fit_bpm(sample, family=FAMILIES[name]).curve.at(np.array([0.8]))[0] == pytest.approx(0.75, abs=1e-6)


@pytest.mark.parametrize("name", PAIRS)
def test_few_rows_and_rows_apart_fit(name):
    x = np.linspace(-3, 3, 60)
    for hits in (x > 0, np.arange(60) != 17):
        assert fit_bpm(sample_from_log_odds(x, hits), family=FAMILIES[name]).converged
    with pytest.raises(FitError, match="59 rows are too few"):
        fit_bpm(sample_from_log_odds(x[1:], x[1:] > 0), family=FAMILIES[name])


def test_log_odds_in_the_hundreds_are_no_worse_than_flat():
    rng = np.random.default_rng(2)
    sample = sample_from_log_odds(rng.normal(0, 500, 900), rng.random(900) < 0.3)
    bins = scheme_bins(sample, scheme_counts(900))
    flat = float(bins.mass @ np.expm1((sample.accuracy - bins.accuracies) ** 2))
    for name in PAIRS:
        assert fit_bpm(sample, family=FAMILIES[name]).objective - 1 <= flat * (1 + 1e-9)


def test_the_identity_is_not_fitted():
    s = np.linspace(0.2, 0.9, 300)
    fit = fit_bpm(sample_from_confidences(s, np.arange(300) % 2), family=IDENTITY)
    assert fit.curve == Curve(IDENTITY, ())
    assert (fit.evaluations, fit.optimizer) == (1, "none")
    expected = paper_loss(s, np.arange(300) % 2, lambda m: m, list(fit.schemes))
    assert fit.objective == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["log-log", "logflip-log"])
def test_row_order_does_not_matter_bit_for_bit(name):
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(1, 2, 1000), 1)
    h = rng.random(1000) < 0.7
    order = rng.permutation(1000)
    first, second = (sample_from_log_odds(x[i], h[i]) for i in (np.arange(1000), order))
    assert fit_bpm(first, family=FAMILIES[name]) == fit_bpm(second, family=FAMILIES[name])


def test_what_was_published_with_the_beta_family_is_refused_with_others():
    sample = drawn("D3", 500)
    with pytest.raises(UsageError, match="--variant authors works with the paper's own curve family, not with log-log"):
        fit_bpm(sample, variant="authors", family=FAMILIES["log-log"])
    with pytest.raises(UsageError, match="--optimizer nelder-mead"):
        fit_bpm(sample, optimizer="nelder-mead", family=IDENTITY)


# ---------------------------------------------------------------- as a calibrator


def rows_of(truth: str, n: int = 1000) -> Rows:
    found = simulate(TRUTHS[truth], n, np.random.default_rng(0))
    return Rows(found.log_odds, found.hits.astype(bool))


@pytest.mark.parametrize("name", FAMILIES)
def test_save_and_load_is_bit_equal(name):
    rows = rows_of("D4")
    fitted = fit_calibrator("bpm", rows, FitOptions(prior=name))
    parameters = fitted.calibrator.parameters()
    assert list(parameters) == ["family"] * (name != "beta") + list(FAMILIES[name].parameters)
    loaded = Bpm.from_parameters(json.loads(json.dumps(parameters)))
    assert loaded == fitted.calibrator
    assert np.array_equal(loaded(rows.sample.log_odds), fitted.calibrator(rows.sample.log_odds))


def test_beta_is_the_plain_method():
    rows = rows_of("D1")
    assert fit_calibrator("bpm", rows, FitOptions(prior="beta")) == fit_calibrator("bpm", rows)
    assert Bpm.from_parameters({"family": "beta", "alpha": 1, "beta": 1, "c": 0}).curve.family is BETA


def test_the_report_has_the_tce_of_that_curve():
    rows = rows_of("D3", 5000)
    fitted = fit_calibrator("bpm", rows, FitOptions(MetricOptions(p=2.0), prior="log-log"))
    value, density, _ = tce_of_curve(rows.sample, fitted.calibrator.curve, "beta", 2.0)
    assert fitted.report["tce"] == {"p": 2.0, "value": value}
    assert fitted.report["density"]["a1"] == density.a1
    plain = fit_calibrator("bpm", rows, FitOptions(prior="log-log")).report["tce"]["value"]
    true = TRUTHS["D3"].tce()
    assert abs(plain - true) < abs(fit_calibrator("bpm", rows).report["tce"]["value"] - true)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"family": "spline", "b0": 0.0, "b1": 1.0}, "unknown curve family 'spline'"),
        ({"family": ["log-log"], "b0": 0.0, "b1": 1.0}, "unknown curve family"),
        ({"family": None, "alpha": 1.0, "beta": 1.0, "c": 0.0}, "unknown curve family 'None'"),
        ({"family": "log-log", "b0": 0.0}, "parameters must be b0, b1, family, found family, b0"),
        ({"family": "log-log", "alpha": 1.0, "beta": 1.0, "c": 0.0}, "parameters must be b0, b1, family"),
        ({"b0": 0.0, "b1": 1.0}, "parameters must be alpha, beta, c"),
        ({"family": "identity", "b0": 0.0}, "parameters must be family"),
        ({"family": "log-log", "b0": "0", "b1": 1.0}, "parameter b0 must be a number"),
        ({"family": "log-log", "b0": 0.0, "b1": 1e200}, "parameter b1 must be a number below 1e100 in size"),
        ({"family": "log-log", "b0": 0.0, "b1": -1.0}, "do not describe a valid calibrator"),
        ({"family": "logit-logflip", "b0": 0.0, "b1": 0.5}, "do not describe a valid calibrator"),
    ],
)
def test_parameters_that_make_no_curve_are_refused(parameters, sentence):
    with pytest.raises(DataError, match=sentence):
        Bpm.from_parameters(parameters)


def test_compare_spells_the_family_after_the_method():
    rows = rows_of("D3")
    entry = method_named("bpm:log-log")
    assert entry.name == "bpm:log-log"
    assert fit_calibrator("bpm:log-log", rows) == fit_calibrator("bpm", rows, FitOptions(prior="log-log"))
    with pytest.raises(UsageError, match="unknown curve family 'cubic'"):
        method_named("bpm:cubic")
    with pytest.raises(UsageError, match="unknown method 'platt:log-log'"):
        method_named("platt:log-log")


def test_families_explain_themselves():
    formulas = [family.formula for family in FAMILIES.values()]
    assert len(set(formulas)) == len(formulas)
    assert parse_curve("log-log:-0.03,1.27").family.formula == "min(1, e^(b0 + b1 log(s)))"
