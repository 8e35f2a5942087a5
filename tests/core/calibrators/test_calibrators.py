"""Every calibrator: against independent packages (tests/oracles/calibrators.json), and laws over the registry."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize, minimize_scalar

from bpmcli.core.calibrators import METHODS, Calibrator, FitOptions, Fitted, fit_calibrator, scaled_likelihood
from bpmcli.core.calibrators.histogram import Histogram
from bpmcli.core.data.log_odds import log_odds_of_confidences, log_softmax, reduce_logits
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import sigmoid
from bpmcli.errors import DataError

ROOT = Path(__file__).resolve().parents[3]
ORACLES = json.loads((ROOT / "tests/oracles/calibrators.json").read_text())["files"]
CURVES = [name for name, entry in METHODS.items() if not entry.needs_distribution]
DISTRIBUTIONS = [name for name, entry in METHODS.items() if entry.needs_distribution]
OLD = ["bpm-averaged", "bpm", "identity"]
"""Their degenerate rows and weights are tested with the curves themselves, and the identity has no fit."""
NEW = [name for name in CURVES if name not in OLD]
BINNED = ["bpm", "histogram"]
RISING = ["bpm", "identity", "isotonic", "beta"]
GRID = np.concatenate([[-700.0, -37.0], np.linspace(-12, 12, 97), [37.0, 700.0]])


def model(n: int = 400, k: int = 4, seed: int = 0, t: float = 2.0, decimals: int | None = None) -> Rows:
    """A classifier whose logits need a temperature of `t`; rounding makes ties."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(n, k))
    logits[np.arange(n), rng.integers(k, size=n)] += 4.0
    if decimals is not None:
        logits = logits.round(decimals)
    return from_logits(logits, (logits / t + rng.gumbel(size=(n, k))).argmax(axis=1))


def from_logits(logits: np.ndarray, labels: np.ndarray, from_probs: bool = False) -> Rows:
    reduced = reduce_logits(logits)
    hits = reduced.predictions == labels
    return Rows(reduced.log_odds, hits, None, reduced.predictions, labels, None, logits, from_probs)


def curve_rows(log_odds: list[float] | np.ndarray, hits: list[int] | np.ndarray) -> Rows:
    return Rows(np.array(log_odds, dtype=float), np.array(hits, dtype=bool))


def applied(calibrator: Calibrator, rows: Rows) -> tuple[np.ndarray, ...]:
    """What the calibrator makes of the rows, whichever kind it is."""
    if calibrator.needs_distribution:
        return (calibrator.log_probabilities(rows.logits),)
    return (*calibrator(rows.log_odds), *calibrator(GRID))


def codes(fitted: Fitted) -> list[str]:
    return [n.code for n in fitted.notices]


# Independent packages


def stored(name: str) -> tuple[Rows, np.ndarray]:
    """A sample file as benchmarks/oracle_calibrators.py reads it, and the points of its oracle."""
    with np.load(ROOT / "sample_data" / name) as file:
        labels = file["labels"]
        with np.errstate(divide="ignore"):
            logits = file["logits"].astype(float) if "logits" in file else np.log(file["probs"].astype(float))
    probs = np.exp(log_softmax(logits))
    s = np.clip(probs.max(axis=1).round(14), 1e-14, 1 - 1e-14)
    rows = from_logits(logits, labels, from_probs=True)
    return rows._replace(log_odds=log_odds_of_confidences(s)), log_odds_of_confidences(
        np.array(ORACLES[name]["points"])
    )


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("method", ["isotonic", "platt", "beta", "histogram"])
def test_curves_agree_with_independent_packages(name, method):
    rows, points = stored(name)
    wanted = ORACLES[name][method]
    calibrator = fit_calibrator(method, rows).calibrator
    values = np.array(wanted["values"])
    np.testing.assert_allclose(calibrator(points[: values.size])[0], values, rtol=0, atol=1e-6)
    for parameter in set(wanted) & {"a", "b", "c"}:
        assert calibrator.parameters()[parameter] == pytest.approx(wanted[parameter], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", ORACLES)
def test_platt_agrees_with_scikit_learns_own_solver(name):
    rows, points = stored(name)
    g = fit_calibrator("platt", rows).calibrator(points)[0]
    np.testing.assert_allclose(g, ORACLES[name]["platt"]["sigmoid_calibration"], rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ORACLES)
def test_temperature_agrees_with_80_bit_arithmetic_and_scikit_learn(name):
    fitted = fit_calibrator("temperature", stored(name)[0])
    wanted = ORACLES[name]["temperature"]
    found = fitted.calibrator.parameters()["temperature"]
    assert found == pytest.approx(wanted["temperature"], rel=1e-13)
    assert found == pytest.approx(wanted["scikit_learn"], rel=1e-7)


@pytest.mark.parametrize("name", ORACLES)
def test_spline_is_the_authors_up_to_their_ranks(name):
    rows, points = stored(name)
    wanted = ORACLES[name]["spline"]
    values = np.clip(wanted["values"], wanted["clip"], 1 - wanted["clip"])
    g = fit_calibrator("spline", rows).calibrator(points[: values.size])[0]
    np.testing.assert_allclose(g, values, rtol=0, atol=2.0 / rows.n)


# Laws


@pytest.mark.parametrize("method", [name for name in METHODS if name != "identity"])
def test_over_confidence_is_repaired(method):
    """A fit that stops at its start, or that fits something else, passes all the other laws."""
    rows, later = model(600, t=3.0), model(600, t=3.0, seed=1)
    calibrator = fit_calibrator(method, rows).calibrator
    if calibrator.needs_distribution:
        log_probs = calibrator.log_probabilities(later.logits)
        g = np.exp(log_probs[np.arange(later.n), later.predictions])
        miss = 1.0 - g
    else:
        g, miss = calibrator.probabilities_within(later.log_odds)
    before = np.where(later.hits, sigmoid(later.log_odds), sigmoid(-later.log_odds))
    gain = np.mean(np.log(np.where(later.hits, g, miss)) - np.log(before))
    assert gain > 0.37  # the true temperature gains 0.42


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("decimals", [None, 0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_the_rows_does_not_matter(method, decimals, weighted):
    rows = model(decimals=decimals)
    rng = np.random.default_rng(5)
    if weighted:
        rows = rows._replace(weights=rng.choice([0.0, 0.3, 1.0, 2.7], size=rows.n))
    fitted = fit_calibrator(method, rows)
    for _ in range(3):
        again = fit_calibrator(method, rows.take(rng.permutation(rows.n)))
        assert again == fitted


@pytest.mark.parametrize("method", METHODS)
def test_the_order_inside_a_chunk_does_not_matter(method, monkeypatch):
    """Vector instructions treat the last elements of a chunk apart."""
    monkeypatch.setattr(scaled_likelihood, "CHUNK_VALUES", 4 * 37)
    rows = model(301)
    order = np.random.default_rng(1).permutation(rows.n)
    assert fit_calibrator(method, rows.take(order)).calibrator == fit_calibrator(method, rows).calibrator


@pytest.mark.parametrize("method", METHODS)
def test_saved_and_loaded_is_bit_equal(method):
    rows = model()
    calibrator = fit_calibrator(method, rows).calibrator
    text = json.dumps(calibrator.parameters(), allow_nan=False)
    loaded = METHODS[method].calibrator.from_parameters(json.loads(text))
    assert loaded == calibrator
    for ours, theirs in zip(applied(calibrator, rows), applied(loaded, rows), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("method", METHODS)
def test_the_report_is_json_and_the_method_is_described(method):
    fitted = fit_calibrator(method, model())
    json.dumps(dict(fitted.report), allow_nan=False)
    assert METHODS[method].summary


@settings(max_examples=40, deadline=None)
@given(
    data=st.lists(
        st.tuples(st.sampled_from([-40.0, -2.0, 0.0, 0.7, 3.0, 3.0000001, 36.0, 700.0]), st.booleans()), min_size=1
    ),
    method=st.sampled_from(NEW),
)
def test_any_rows_give_probabilities_or_a_sentence(data, method):
    rows = curve_rows([x for x, _ in data], [h for _, h in data])
    fitted = fit_calibrator(method, rows)
    g, miss = fitted.calibrator(GRID)
    assert np.all((g >= 0) & (g <= 1) & (miss >= 0) & (miss <= 1))
    np.testing.assert_allclose(g + miss, 1.0, rtol=0, atol=1e-15)
    if method in RISING:
        assert np.all(np.diff(g) >= -1e-15)


@pytest.mark.parametrize("method", CURVES)
def test_confidence_and_complement_add_up_and_rise(method):
    g, miss = fit_calibrator(method, model(2000)).calibrator(GRID)
    assert np.all((g >= 0) & (miss >= 0))
    np.testing.assert_allclose(g + miss, 1.0, rtol=0, atol=1e-15)
    if method in RISING:
        assert np.all(np.diff(g) >= 0)


@pytest.mark.parametrize("method", DISTRIBUTIONS)
def test_distributions_add_up_and_keep_the_prediction_if_they_promise_to(method):
    rows = model()
    log_probs = fit_calibrator(method, rows).calibrator.log_probabilities(rows.logits)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1.0, rtol=0, atol=1e-14)
    if METHODS[method].calibrator.keeps_order:
        assert np.array_equal(log_probs.argmax(axis=1), rows.predictions)


def degenerate() -> dict[str, Rows]:
    rows = model(200)
    never = rows.logits.argmin(axis=1)
    uneven = np.random.default_rng(0).random(200)
    return {
        "all hits": from_logits(rows.logits, rows.predictions),
        "all misses": from_logits(rows.logits, never),
        "all hits, weighted": from_logits(rows.logits, rows.predictions)._replace(weights=uneven),
        "all misses, weighted": from_logits(rows.logits, never)._replace(weights=uneven),
        "one hit": from_logits(rows.logits[:1], rows.predictions[:1]),
        "one miss": from_logits(rows.logits[:1], never[:1]),
        "constant": from_logits(np.tile(rows.logits[0], (200, 1)), rows.labels),
        "no information": from_logits(np.zeros((200, 4)), rows.labels),
        "separated": rows._replace(log_odds=np.where(rows.hits, 2.0, 1.0)),
    }


@pytest.mark.parametrize("method", [*NEW, *DISTRIBUTIONS])
@pytest.mark.parametrize("case", degenerate())
def test_degenerate_rows_give_a_bounded_answer_and_a_notice(method, case):
    rows = degenerate()[case]
    fitted = fit_calibrator(method, rows)
    values = applied(fitted.calibrator, rows)
    assert not any(np.isnan(v).any() for v in values)
    if method in NEW and case != "separated":
        assert fitted.notices
        g = fitted.calibrator(rows.log_odds)[0]
        rate = rows.hits.mean()
        if 0 < rate < 1:
            np.testing.assert_allclose(g, rate, atol=1 / rows.n)
        elif method != "spline":
            assert np.all(np.abs(g - rate) <= 1 / 3 + 1e-15)
            assert np.all(g != rate)


@pytest.mark.parametrize("method", [*NEW, *DISTRIBUTIONS])
def test_the_scale_of_the_weights_does_not_matter(method):
    rows = model()
    weights = np.random.default_rng(2).choice([0.5, 1.0, 4.0], size=rows.n)
    light, heavy = (fit_calibrator(method, rows._replace(weights=w)).calibrator for w in (weights, 8 * weights))
    for a, b in zip(applied(light, rows), applied(heavy, rows), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    equal = fit_calibrator(method, rows._replace(weights=np.full(rows.n, 3.0))).calibrator
    for a, b in zip(applied(equal, rows), applied(fit_calibrator(method, rows).calibrator, rows), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in BINNED and not METHODS[name].counts_rows])
def test_whole_weights_are_repeated_rows(method):
    """Not for methods whose fit depends on the number of rows, and not for bins, whose edges are at equal weight."""
    rows = model(800)
    weights = np.random.default_rng(3).integers(0, 4, size=rows.n)
    weighted = fit_calibrator(method, rows._replace(weights=weights.astype(float))).calibrator
    repeated = fit_calibrator(method, rows.take(np.repeat(np.arange(rows.n), weights))).calibrator
    # Rates of 0 and 1 stop at a bound that counts rows.
    slack = 5e-3 if method in ("isotonic", "spline") else 1e-9
    for a, b in zip(applied(weighted, rows), applied(repeated, rows), strict=True):
        np.testing.assert_allclose(a, b, atol=slack, rtol=1e-9)


@pytest.mark.parametrize("method", [*NEW, *DISTRIBUTIONS])
def test_bad_weights_are_refused(method):
    rows = model(100)
    for bad in (np.full(100, -1.0), np.full(100, np.nan), np.zeros(100)):
        with pytest.raises(DataError, match="weights"):
            fit_calibrator(method, rows._replace(weights=bad))


# One method at a time


def test_isotonic_minimises_the_weighted_squares():
    """Against the quadratic programme itself."""
    rng = np.random.default_rng(0)
    x = np.arange(12) / 4
    hits = rng.random((12, 5)) < sigmoid(x)[:, None]
    rows = curve_rows(np.repeat(x, 5), hits.ravel())
    rates = hits.mean(axis=1)
    solved = minimize(
        lambda g: ((g - rates) ** 2).sum(),
        np.sort(rates),
        jac=lambda g: 2 * (g - rates),
        constraints={"type": "ineq", "fun": np.diff},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    pure = (rates > 0) & (rates < 1)
    np.testing.assert_allclose(fit_calibrator("isotonic", rows).calibrator(x)[0][pure], solved.x[pure], atol=1e-6)


def test_isotonic_moves_zero_and_one_inside_no_further_than_the_next_block():
    # 0 of 3, then 1 of 10, then 2 of 2
    rows = curve_rows([0.0] * 3 + [1.0] * 10 + [2.0] * 2, [0] * 3 + [1] + [0] * 9 + [1] * 2)
    fitted = fit_calibrator("isotonic", rows)
    np.testing.assert_allclose(fitted.calibrator(np.array([0.0, 1.0, 2.0]))[0], [0.1, 0.1, 0.75])
    assert codes(fitted) == ["rates-moved"]
    assert "2 of 3 blocks (5 rows)" in str(fitted.notices[0])


def test_isotonic_is_straight_in_confidence_also_next_to_one():
    rows = curve_rows([30.0, 30.0, 31.0, 31.0, 31.0, 31.0], [0, 1, 1, 1, 1, 0])
    calibrator = fit_calibrator("isotonic", rows).calibrator
    q = sigmoid(-np.array([30.0, 30.3, 31.0]))
    share = (q[0] - q[1]) / (q[0] - q[2])
    assert calibrator(np.array([30.3]))[0][0] == pytest.approx(0.5 + 0.25 * share, rel=1e-12)


def test_isotonic_keeps_only_the_ends_of_its_blocks():
    calibrator = fit_calibrator("isotonic", model(5000)).calibrator
    rates = np.array(calibrator.rates)
    assert rates.size < 300
    assert not np.any((rates[2:] == rates[1:-1]) & (rates[1:-1] == rates[:-2]))


def test_histogram_edges_lie_midway_in_confidence():
    calibrator = fit_calibrator(
        "histogram", curve_rows([-1.0, 0.0, 1.0, 2.0], [0, 1, 0, 1]), FitOptions(n_bins=2)
    ).calibrator
    assert sigmoid(np.array(calibrator.edges)) == pytest.approx([sigmoid(np.array([0.0, 1.0])).mean()], rel=1e-15)
    assert calibrator.rates == (0.5, 0.5)
    steps = Histogram(calibrator.edges, (0.25, 0.75))
    assert steps(np.array([-700.0, *calibrator.edges, 700.0]))[0].tolist() == [0.25, 0.25, 0.75]


def test_histogram_keeps_ties_together_and_says_which_bins_are_pure():
    fitted = fit_calibrator("histogram", curve_rows([0.0] * 8 + [1.0, 2.0], [1, 0] * 4 + [1, 1]), FitOptions(n_bins=5))
    assert fitted.calibrator.rates == (0.5, 0.75)
    assert fitted.report == {"bins": 2}
    assert codes(fitted) == ["rates-moved"]


def test_large_samples_take_the_coarse_start_to_the_same_optimum():
    rows = model(30_000)
    sample = rows.sample
    for method in ("platt", "beta"):
        calibrator = fit_calibrator(method, rows).calibrator
        n_hits = sample.hits.sum()
        up = (
            np.where(rows.hits, (n_hits + 1) / (n_hits + 2), 1 / (rows.n - n_hits + 2))
            if method == "platt"
            else rows.hits
        )
        g, _ = calibrator(rows.log_odds)
        # At the optimum the residuals are orthogonal to every free column.
        assert abs(np.mean(g - up)) < 1e-12
        assert abs(np.mean((g - up) * rows.log_odds)) < 1e-11


def test_beta_stays_on_its_bounds():
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    calibrator = fit_calibrator("beta", curve_rows(x, rng.random(500) < sigmoid(-x))).calibrator
    assert calibrator.parameters() | {"c": 0} == {"a": 0.0, "b": 0.0, "c": 0}
    assert np.ptp(calibrator(GRID)[0]) < 1e-12


@pytest.mark.parametrize(
    ("x", "hits"),
    [
        ([0.0, 1.0, 1.0, 2.0], [0, 0, 1, 1]),
        ([-40.0, 3.0, 3.0000001], [0, 1, 0]),
        ([0.5] * 30 + [2.0] * 30, [0] * 30 + [1] * 30),
    ],
)
def test_beta_of_separated_outcomes_is_the_posterior_mode(x, hits):
    """Against scipy on the likelihood with the stated priors."""
    rows = curve_rows(x, hits)
    fitted = fit_calibrator("beta", rows)
    assert codes(fitted) == ["beta-separated"]
    log_s, log_q = -np.log1p(np.exp(-rows.log_odds)), -np.log1p(np.exp(rows.log_odds))

    def minus_log_posterior(theta: np.ndarray) -> float:
        eta = theta[0] * log_s - theta[1] * log_q - theta[2]
        nll = np.logaddexp(0.0, np.where(rows.hits, -eta, eta)).sum()
        return float(nll + ((theta - [1, 1, 0]) ** 2).sum() / 8)

    solved = minimize(minus_log_posterior, [1.0, 1.0, 0.0], bounds=[(0, None), (0, None), (None, None)], tol=1e-14)
    found = np.array(list(fitted.calibrator.parameters().values()))
    assert minus_log_posterior(found) <= solved.fun + 1e-9
    np.testing.assert_allclose(found, solved.x, atol=2e-3)


def test_beta_needs_no_prior_where_the_likelihood_has_a_maximum():
    for x, hits in (([0.0, 1.0, 1.0, 2.0], [0, 1, 1, 0]), ([-40.0, 36.0], [1, 0])):
        assert not codes(fit_calibrator("beta", curve_rows(x, hits)))


def test_spline_minimises_the_integrated_square():
    """Against least squares on a fine grid of the same curve."""
    from scipy.interpolate import CubicSpline

    rows = model(300, decimals=1)
    sample = rows.sample
    fitted = fit_calibrator("spline", rows)
    t = (np.arange(60_000) + 0.5) / 60_000
    ranks = sample.mass_before / sample.n
    gap = np.concatenate([[0.0], np.cumsum(sample.hits - sample.mass * sample.confidences)]) / sample.n
    basis = CubicSpline(np.linspace(0, 1, 6), np.eye(6), bc_type="natural")
    weights = np.linalg.lstsq(basis(t), np.interp(t, ranks, gap), rcond=None)[0]
    middle = (ranks[:-1] + ranks[1:]) / 2
    np.testing.assert_allclose(fitted.calibrator.corrections, basis.derivative()(middle) @ weights, atol=1e-6)


def test_spline_keeps_heavy_ties_among_its_points(monkeypatch):
    from bpmcli.core.calibrators import spline

    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=1000), np.full(500, 5.0)])
    rows = curve_rows(x, rng.random(1500) < sigmoid(0.7 * x))
    every = fit_calibrator("spline", rows).calibrator
    monkeypatch.setattr(spline, "POINTS", 50)
    few = fit_calibrator("spline", rows).calibrator
    assert len(few.log_odds) < 53
    assert few.log_odds[-1] == 5.0
    np.testing.assert_allclose(few(x)[0], every(x)[0], atol=5e-3)


def nll(rows: Rows, t: float) -> float:
    return -log_softmax(rows.logits / t)[np.arange(rows.n), rows.labels].mean()


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1.0, 37.0, 1e6, 1e30])
def test_temperature_converges_at_any_scale_of_the_logits(scale):
    rows = model(500)
    once = fit_calibrator("temperature", rows)
    scaled = fit_calibrator("temperature", rows._replace(logits=rows.logits * scale))
    assert scaled.calibrator.temperature == pytest.approx(scale * once.calibrator.temperature, rel=1e-12)
    assert scaled.report["standard_error"] == pytest.approx(scale * once.report["standard_error"], rel=1e-6)


def test_temperature_reports_its_likelihood_and_standard_error():
    rows = model(500)
    fitted = fit_calibrator("temperature", rows)
    t, report = fitted.calibrator.temperature, fitted.report
    assert report["nll_before"] == pytest.approx(nll(rows, 1.0), rel=1e-13)
    assert report["nll_after"] == pytest.approx(nll(rows, t), rel=1e-13)
    h = 1e-3 * t
    bend = (nll(rows, t + h) - 2 * nll(rows, t) + nll(rows, t - h)) / h**2
    assert report["standard_error"] == pytest.approx(1 / math.sqrt(rows.n * bend), rel=1e-4)
    assert abs(t - 2.0) < 4 * report["standard_error"]


def test_standard_errors_cover_the_true_temperature():
    off = []
    for seed in range(60):
        fitted = fit_calibrator("temperature", model(400, seed=seed))
        off.append((fitted.calibrator.temperature - 2.0) / fitted.report["standard_error"])
    assert 0.75 < np.std(off) < 1.3


@pytest.mark.parametrize(
    ("case", "code"), [("right", "temperature-all-correct"), ("wrong", "temperature-uninformative")]
)
def test_a_prior_keeps_the_temperature_finite(case, code):
    """Against scipy on the likelihood with the prior log T ~ N(0, 1)."""
    rows = model(100)
    rows = from_logits(rows.logits, rows.predictions if case == "right" else rows.logits.argmin(axis=1))
    fitted = fit_calibrator("temperature", rows)
    assert codes(fitted) == [code]

    def minus_log_posterior(log_t: float) -> float:
        log_probs = log_softmax(rows.logits / math.exp(log_t))
        return float(log_t**2 / 2 - log_probs[np.arange(100), rows.labels].sum())

    solved = minimize_scalar(minus_log_posterior, bounds=(-10, 10), method="bounded", options={"xatol": 1e-10})
    assert math.log(fitted.calibrator.temperature) == pytest.approx(solved.x, abs=1e-6)
    ets = fit_calibrator("ets", rows)
    assert ets.calibrator.temperature == fitted.calibrator.temperature
    assert ets.report["nll_after"] <= fitted.report["nll_after"] + 1e-12


def test_probabilities_of_zero_get_a_floor():
    """Trees give exact zeros: they stay possible, and the fit is that of the floored probabilities."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(15, rng.dirichlet(np.full(5, 0.4), size=400))
    labels = np.array([rng.choice(5, p=(c + 0.5) / (15 + 2.5)) for c in counts])
    with np.errstate(divide="ignore"):
        rows = from_logits(np.log(counts / 15), labels, from_probs=True)
    fitted = fit_calibrator("temperature", rows)
    floor = fitted.calibrator.floor
    assert floor == 1 / 800
    assert "temperature-saturated" in codes(fitted)
    assert "0.00125 of every distribution" in str(fitted.notices[0])
    mixed = np.log((1 - floor) * counts / 15 + floor / 5)
    t = fitted.calibrator.temperature
    np.testing.assert_allclose(fitted.calibrator.log_probabilities(rows.logits), log_softmax(mixed / t), rtol=1e-9)

    # Where the old rule has no best temperature, the floored rows decide.
    hard = from_logits(rows.logits, counts.argmin(axis=1), from_probs=True)
    again = fit_calibrator("temperature", hard)
    plain = fit_calibrator("temperature", from_logits(np.log((1 - floor) * counts / 15 + floor / 5), hard.labels))
    assert again.calibrator.temperature == pytest.approx(plain.calibrator.temperature, rel=1e-9)
    for method in ("temperature", "ets"):
        calibrator = fit_calibrator(method, hard).calibrator
        assert np.isfinite(calibrator.log_probabilities(rows.logits)).all()
        assert type(calibrator).from_parameters(calibrator.parameters()) == calibrator


def test_parameter_files_without_a_floor_still_load():
    loaded = METHODS["temperature"].calibrator.from_parameters({"temperature": 2.0})
    assert loaded.floor == 0.0
    assert loaded.parameters() == {"temperature": 2.0}
    with pytest.raises(DataError):
        METHODS["temperature"].calibrator.from_parameters({"temperature": 2.0, "floor": 1.5})


def test_temperature_refuses_what_it_cannot_use():
    rows = model(100)
    with pytest.raises(DataError, match="needs the scores of all classes"):
        fit_calibrator("temperature", rows._replace(logits=None))
    with pytest.raises(DataError, match="class numbers"):
        fit_calibrator("ets", rows._replace(labels=rows.labels + 1))


def test_absent_classes_are_left_out():
    rows = model(300, k=3)
    absent = np.full((300, 2), -np.inf)
    padded = rows._replace(logits=np.concatenate([rows.logits, absent], axis=1))
    plain, wide = fit_calibrator("temperature", rows), fit_calibrator("temperature", padded)
    assert wide.calibrator.temperature == pytest.approx(plain.calibrator.temperature, rel=1e-13)
    assert not wide.notices
    assert np.all(np.isneginf(wide.calibrator.log_probabilities(padded.logits)[:, 3:]))
    mixed = fit_calibrator("ets", padded).calibrator.log_probabilities(padded.logits)
    np.testing.assert_allclose(np.exp(mixed).sum(axis=1), 1.0, atol=1e-14)
    with pytest.raises(DataError, match="label's own logit"):
        fit_calibrator("temperature", padded._replace(labels=np.full(300, 4)))


def test_probabilities_of_zero_are_reported():
    rows = model(300)
    logits = np.where(rows.logits < -3, -np.inf, rows.logits)
    lost = int(np.isneginf(logits).any(axis=1).sum())
    assert lost > 0
    fitted = fit_calibrator("temperature", rows._replace(logits=logits, from_probs=True))
    assert codes(fitted)[0] == "temperature-saturated"
    assert str(lost) in str(fitted.notices[0])
    logits = rows.logits.copy()
    logits[0, rows.labels[0]] = -np.inf
    fitted = fit_calibrator("temperature", rows._replace(logits=logits, from_probs=True))
    assert codes(fitted) == ["temperature-saturated", "label-impossible"]
    logits[0, rows.labels[0]] = logits[0].max() + math.log(1e-12)
    same = fit_calibrator("temperature", rows._replace(logits=logits))
    assert fitted.calibrator.temperature == pytest.approx(same.calibrator.temperature, rel=1e-12)


def test_chunks_do_not_matter(monkeypatch):
    rows = model(300)
    whole = fit_calibrator("temperature", rows).calibrator
    monkeypatch.setattr(scaled_likelihood, "CHUNK_VALUES", 1)
    assert fit_calibrator("temperature", rows).calibrator == whole


@pytest.mark.parametrize("seed", range(4))
def test_ensemble_weights_are_the_best_on_the_simplex(seed):
    """Against SLSQP on the authors' sum."""
    rows = model(600, seed=seed)
    flip = np.random.default_rng(seed).random(rows.n) < 0.05
    rows = rows._replace(labels=np.where(flip, (rows.labels + 1) % 4, rows.labels))
    fitted = fit_calibrator("ets", rows)
    p = fitted.calibrator
    index = np.arange(rows.n)
    parts = np.stack([
        np.exp(log_softmax(rows.logits / p.temperature))[index, rows.labels],
        np.exp(log_softmax(rows.logits))[index, rows.labels],
        np.full(rows.n, 0.25),
    ])  # fmt: skip
    solved = minimize(
        lambda w: -np.log(w @ parts).mean(),
        np.array([0.8, 0.1, 0.1]),
        jac=lambda w: -(parts / (w @ parts)).mean(axis=1),
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    ours = np.array([p.scaled, p.raw, p.uniform])
    assert ours.sum() == pytest.approx(1.0, abs=1e-15)
    assert fitted.report["nll_after"] <= solved.fun + 1e-10
    assert fitted.report["nll_after"] <= fitted.report["nll_temperature"] + 1e-12
    assert fitted.report["nll_temperature"] <= fitted.report["nll_before"]
    np.testing.assert_allclose(ours @ parts, solved.x @ parts, atol=1e-4)
    got = p.log_probabilities(rows.logits)[index, rows.labels]
    np.testing.assert_allclose(np.exp(got), ours @ parts, rtol=1e-12)


def test_ensemble_survives_logits_that_overflow():
    rows = model(300)
    big = rows._replace(logits=rows.logits * 1e4)
    fitted = fit_calibrator("ets", big)
    assert np.isfinite(fitted.calibrator.log_probabilities(big.logits)[np.arange(300), rows.labels]).all()


def test_temperature_is_the_root_scipy_finds():
    rows = model(500, k=7, seed=3)
    z, index = rows.logits, np.arange(rows.n)

    def slope(b: float) -> float:
        p = np.exp(log_softmax(b * z))
        return float(((p * z).sum(axis=1) - z[index, rows.labels]).mean())

    t = fit_calibrator("temperature", rows).calibrator.temperature
    assert t == pytest.approx(1 / brentq(slope, 0.01, 10, xtol=1e-15), rel=1e-12)


@lru_cache
def parameters_of_digits(name):
    rows, _ = stored("digits_val.npz")
    return fit_calibrator(name, rows).calibrator.parameters()


@pytest.mark.parametrize("name", [m for m in METHODS if m != "identity"])
@pytest.mark.parametrize("bad", ["x", None, True, {}, ["a"], [None, None], 1e308, -1e308, [1e308, 2.0]])
def test_parameters_that_make_no_curve_are_refused(name, bad):
    good = parameters_of_digits(name)
    for key in good:
        with pytest.raises(DataError):
            METHODS[name].calibrator.from_parameters({**good, key: bad})


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("histogram", {"rates": [0.5, 1.7]}),
        ("histogram", {"rates": [0.5]}),
        ("histogram", {"edges": [1.0, 0.5], "rates": [0.1, 0.2, 0.3]}),
        ("isotonic", {"rates": [-0.1, 0.7]}),
        ("isotonic", {"log_odds": [1.0, 1.0]}),
    ],
)
def test_steps_are_checked_one_by_one(method, changes):
    """Found by the fuzzer: a narrow bin with a rate of 1.7 lay between the points at which curves were checked."""
    sound = (
        {"edges": [1.0], "rates": [0.5, 0.7]}
        if method == "histogram"
        else {"log_odds": [0.0, 1.0], "rates": [0.5, 0.7]}
    )
    METHODS[method].calibrator.from_parameters(sound)
    with pytest.raises(DataError):
        METHODS[method].calibrator.from_parameters({**sound, **changes})
