"""The averaged curve and its TCE: laws for any data, and the cases it was made for."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bpmcli.core.calibrators import FitOptions
from bpmcli.core.calibrators.averaged import Averaged, calibrator_of, fit
from bpmcli.core.compare.truths import TRUTHS, ead, simulate
from bpmcli.core.curves.averaged.batches import BendBatch, ComponentBatch, FormulaBatch, fit_batch
from bpmcli.core.curves.averaged.cells import cells_for_fit
from bpmcli.core.curves.averaged.curve import AveragedCurve
from bpmcli.core.curves.averaged.explain import short_confidence
from bpmcli.core.curves.averaged.mixture import (
    averaged_mixture,
    band_mixture,
    fit_averaged,
    prior_share,
    tails,
)
from bpmcli.core.curves.averaged.shapes import Prior
from bpmcli.core.curves.averaged.tce import tce_averaged, tce_interval
from bpmcli.core.curves.bpm import fit_bpm
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Sample, sample_from_confidences, sample_from_log_odds, sigmoid
from bpmcli.errors import DataError

GRID = np.concatenate([[-700.0, -50.0], np.linspace(-40, 40, 4001), [50.0, 700.0]])


def drawn(name: str, n: int, seed: int = 0) -> Sample:
    return simulate(TRUTHS[name], n, np.random.default_rng([seed, n])).sample()


def odd_samples() -> dict[str, Sample]:
    rng = np.random.default_rng(1)
    x = rng.normal(2, 3, 300)
    return {
        "ten rows": sample_from_log_odds(x[:10], x[:10] > 1),
        "one row": sample_from_log_odds([1.5], [1]),
        "all hits": sample_from_log_odds(x, np.ones(300)),
        "all misses": sample_from_log_odds(x, np.zeros(300)),
        "one confidence": sample_from_log_odds(np.full(50, 0.7), np.arange(50) % 2),
        "saturated": sample_from_log_odds(np.full(50, 700.0), np.arange(50) % 5 > 0),
        "both ends": sample_from_log_odds(np.tile([-700.0, 700.0], 40), np.arange(80) % 3 > 0),
        "inverted": sample_from_log_odds(x, x < 2),
        "separated": sample_from_log_odds(x, x > 2),
        "weighted": sample_from_log_odds(x, rng.random(300) < sigmoid(x), rng.exponential(size=300)),
        "D3": drawn("D3", 2000),
        "D4": drawn("D4", 5000),
    }


@pytest.mark.parametrize("name", odd_samples())
def test_curve_is_monotone_and_within_bounds(name: str) -> None:
    sample = odd_samples()[name]
    curve = fit_averaged(sample)
    g, miss = curve(GRID)
    assert np.all(np.isfinite(g))
    assert np.all((g >= 0) & (miss >= 0) & (np.abs(g + miss - 1) < 1e-12))
    assert np.all(np.diff(g) >= -1e-15)
    assert np.all(np.diff(miss) <= 1e-15)
    assert np.abs(np.diff(curve.at(np.linspace(0.001, 0.999, 20001)))).max() < 0.02  # no jumps
    assert sum(curve.weights) == pytest.approx(1)
    assert curve.explain(sample)
    assert 0 <= tce_averaged(sample).value <= 1


@pytest.mark.parametrize("batch", [FormulaBatch, BendBatch])
def test_gradient_vanishes_at_the_optimum(batch: type[FormulaBatch] | type[BendBatch]) -> None:
    """Derivatives agree with finite differences, and the fit ends at an optimum."""
    cells = cells_for_fit(drawn("D5", 1000))
    components = batch(cells, Prior())
    theta = components.mean + np.random.default_rng(0).normal(0, 0.2, components.mean.shape)
    g, _, jacobian = components.evaluate(theta)
    for slot in range(theta.shape[1]):
        nudged = theta.copy()
        nudged[:, slot] += 1e-6
        assert jacobian[:, slot] == pytest.approx(
            (components.evaluate(nudged)[0] - g) / 1e-6 * used(components, slot), abs=2e-5
        )
    found = fit_batch(components, cells)
    for nudge in (-0.05, 0.05):
        assert np.all(value(components, found.theta + nudge, cells) >= value(components, found.theta, cells) - 1e-4)


@pytest.mark.parametrize("batch", [FormulaBatch, BendBatch])
def test_some_members_are_what_they_are_among_all(batch: type[FormulaBatch] | type[BendBatch]) -> None:
    components = batch(cells_for_fit(drawn("D3", 1000)), Prior())
    theta = components.mean + np.random.default_rng(0).normal(0, 0.2, components.mean.shape)
    for rows in (np.array([0, 3, 5]), np.array([len(components.kinds) - 1])):
        part = components.take(rows)
        assert list(part.kinds) == [components.kinds[i] for i in rows]
        for alone, among in zip(part.evaluate(theta[rows]), components.evaluate(theta), strict=True):
            assert alone == pytest.approx(among[rows], rel=1e-12)
        assert np.array_equal(part.bend(theta[rows]), components.bend(theta)[rows])


@pytest.mark.parametrize("batch", [FormulaBatch, BendBatch])
def test_values_are_those_of_the_curves_and_derivatives_are_theirs(
    batch: type[FormulaBatch] | type[BendBatch],
) -> None:
    components, x = batch(cells_for_fit(drawn("D3", 1000)), Prior()), np.linspace(-15, 15, 61)
    components.place(x)
    theta = components.mean + np.random.default_rng(0).normal(0, 0.2, components.mean.shape)
    if isinstance(components, FormulaBatch):
        theta *= components.free
    else:
        theta[::2, [1, -2]] = -0.5  # slopes outside the rows count as 0, so that nothing depends on them
    g, miss, jacobian = components.evaluate(theta)
    for i, curve in enumerate(components.components(theta)):
        assert g[i] == pytest.approx(curve(x)[0], rel=1e-9)
        assert miss[i] == pytest.approx(curve(x)[1], rel=1e-9)
    for slot in range(theta.shape[1]):
        step = 1e-6 * (np.arange(theta.shape[1]) == slot)
        change = (components.evaluate(theta + step)[0] - components.evaluate(theta - step)[0]) / 2e-6
        assert jacobian[:, slot] == pytest.approx(change * used(components, slot), abs=1e-7), slot


def test_bends_find_a_steep_step() -> None:
    # From 0.2 to 0.9 within 0.2 in log-odds: slopes beyond any fixed box.
    x = np.linspace(0.5, 2.5, 20_000)
    hits = (np.arange(x.size) * 0.6180339887) % 1 < np.where(x < 1.5, 0.2, 0.9)
    mixture = averaged_mixture(sample_from_log_odds(x, hits))
    found = mixture.found[1]
    assert found.evaluations < 40
    assert np.abs(found.theta[:, 1:-1]).max() > 12
    assert mixture.curve(np.array([1.35, 1.65]))[0] == pytest.approx([0.2, 0.9], abs=0.03)


def test_bends_are_named_when_the_rows_ask_for_them() -> None:
    few = drawn("D5", 300)
    assert "no shape of curve stood out (the best with a formula: " in fit_averaged(few).explain(few)
    x = np.linspace(0.5, 2.5, 5000)
    stepped = sample_from_log_odds(x, (np.arange(5000) * 0.6180339887) % 1 < np.where(x < 1.5, 0.5, 0.9))
    assert (
        fit_averaged(stepped).explain(stepped).endswith("shape of the curve: a curve without a formula (weight 100 %)")
    )
    assert prior_share("bends") == pytest.approx(12 / 18.4)


def test_levels_of_draws() -> None:
    assert tails(0.95) == pytest.approx((0.03, 0.97), abs=1e-4)
    levels = np.array([tails(level) for level in (1e-6, 0.1, 0.5, 0.95, 0.9999)])
    assert np.all(np.diff(levels[:, 1]) > 0)
    assert np.all((levels[:, 0] < levels[:, 1]) & (levels.sum(axis=1) == pytest.approx(1)))


def used(components: ComponentBatch, slot: int) -> np.ndarray:
    free = components.free[:, slot, None] if isinstance(components, FormulaBatch) else np.ones((1, 1))
    return np.asarray(free, dtype=float)


def value(components: ComponentBatch, theta: np.ndarray, cells) -> np.ndarray:  # type: ignore[no-untyped-def]
    g, miss, _ = components.evaluate(theta)
    r = theta - components.mean
    if isinstance(components, FormulaBatch):
        r = r * components.free
        g, miss, _ = components.evaluate(components.mean + r)
    prior = 0.5 * np.einsum("mi,mij,mj->m", r, components.precision, r)
    return prior - np.log(g) @ cells.hits - np.log(miss) @ (cells.mass - cells.hits)


def test_rows_in_any_order_give_the_same_bits() -> None:
    rows = simulate(TRUTHS["D2"], 3000, np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(3000)
    weights = np.random.default_rng(2).exponential(size=3000).round(2) + 0.01
    for w, shuffled in ((None, None), (weights, weights[order])):
        one = sample_from_log_odds(rows.log_odds, rows.hits, w)
        two = sample_from_log_odds(rows.log_odds[order], rows.hits[order], shuffled)
        assert fit_averaged(one) == fit_averaged(two)
        assert tce_averaged(one) == tce_averaged(two)


def test_cells_change_nothing_that_matters() -> None:
    """A million rows fit like the few hundred cells they fall into."""
    sample = drawn("D4", 200_000)
    cells = cells_for_fit(sample)
    assert cells.mass.size < 600
    assert cells.mass.sum() == pytest.approx(sample.n)
    few = drawn("D4", 1000)
    rows = fit_averaged(few)
    # Twice the same rows are twice the evidence; half the weight each is the same again.
    doubled = sample_from_log_odds(np.tile(few.log_odds, 2), np.tile(few.hits, 2))
    assert np.abs(fit_averaged(doubled).distance(GRID) - rows.distance(GRID)).max() > 1e-4


def test_weights_of_one_change_nothing() -> None:
    rows = simulate(TRUTHS["D5"], 1000, np.random.default_rng(0))
    plain = fit_averaged(sample_from_log_odds(rows.log_odds, rows.hits))
    weighted = fit_averaged(sample_from_log_odds(rows.log_odds, rows.hits, np.full(1000, 3.0)))
    assert weighted.distance(GRID) == pytest.approx(plain.distance(GRID), abs=1e-9)


def test_few_rows_leave_the_identity() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(1, 1, 10)
    curve = fit_averaged(sample_from_log_odds(x, rng.random(10) < sigmoid(x)))
    assert np.abs(curve.distance(np.linspace(-3, 3, 50))).max() < 0.08
    assert "with only 10 rows, the priors have as much influence as the data" in curve.explain(
        sample_from_log_odds(x, np.ones(10))
    )


def test_explanations_near_one_and_of_crossings() -> None:
    """Every confidence is 1; a curve that is above the diagonal, then below it; places that need more digits."""
    ones = sample_from_log_odds(np.full(200, 700.0), np.arange(200) % 4 > 0)
    assert "over-confident wherever most rows are (by up to 0.2" in fit_averaged(ones).explain(ones)
    rng = np.random.default_rng(0)
    x = rng.normal(1.5, 2, 40_000)
    crossing = sample_from_log_odds(x, rng.random(x.size) < sigmoid(0.4 * x))
    said = fit_averaged(crossing).explain(crossing)
    assert said.startswith("under-confident below 0.4")
    assert "over-confident above 0.5" in said
    assert [short_confidence(s) for s in (0.5, 0.123, 0.95, 0.9996, 1.0, 0.0, 2e-5)] == [
        "0.5", "0.12", "0.95", "0.9996", "1", "0", "2e-05",
    ]  # fmt: skip
    one = sample_from_log_odds([3.0], [0])
    assert fit_averaged(one).explain(one).startswith("with only 1 row, the priors")


def test_flatness_is_not_called_a_fall() -> None:
    """Accuracy 0.6 at every confidence, and none: noise falls here and there, and the curve is held flat."""
    rng = np.random.default_rng(1)
    for rate in (0.6, 0.0):
        x = rng.normal(2, 2, 3000)
        sample = sample_from_log_odds(x, rng.random(x.size) < rate)
        assert "falls" not in fit_averaged(sample).explain(sample)


def test_beyond_the_rows_nothing_is_made_up() -> None:
    """Two wrong rows do not raise low confidences, and a slope fitted to the rows ends soon beyond them."""
    few = fit_averaged(sample_from_log_odds([0.6, 2.6], [0, 0]))
    assert few(np.array([-37.0, -4.6]))[0].max() < 0.2
    rng = np.random.default_rng(0)
    x = rng.normal(1.5, 1.2, 20_000)
    wavy = fit_averaged(sample_from_log_odds(x, rng.random(x.size) < sigmoid(0.3 * np.sin(3 * x))))
    assert wavy(np.array([37.0]))[0] < 0.8
    # One wrong row that was expected changes nothing, least of all far from it.
    assert fit_averaged(sample_from_log_odds([-700.0], [0])).at(np.array([0.5, 0.9])) == pytest.approx(
        [0.5, 0.9], abs=0.02
    )
    x = rng.uniform(9, 14, 5000)
    assert fit_averaged(sample_from_log_odds(x, rng.random(5000) < sigmoid(x))).at(np.array([0.9]))[0] < 0.95


def test_nothing_changes_beyond_the_largest_log_odds() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1.5, 2000)
    falls = fit_averaged(sample_from_log_odds(x, rng.random(2000) < sigmoid(-x)))
    assert np.ptp(falls(np.linspace(-2000, 2000, 4001))[0]) < 1e-12


def test_what_rows_cannot_tell_is_not_said() -> None:
    """On calibrated rows the fitted curve is nearly always off the diagonal; the explanation must rarely say so."""
    said = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        s = rng.beta(3, 0.5, 1000)
        sample = sample_from_confidences(s, rng.random(1000) < s)
        said += not fit_averaged(sample).explain(sample).startswith("calibrated")
    assert said <= 6  # 95 % sure of each: more than 6 of 30 with a chance of 0.001
    s = np.random.default_rng(0).random(20_000)
    sample = sample_from_confidences(s, np.random.default_rng(1).random(s.size) < np.where(s > 0.9, s - 0.2, s))
    assert fit_averaged(sample).explain(sample).startswith("over-confident above 0.8")


def test_one_outcome_moves_the_curve_as_far_as_the_rows_allow() -> None:
    x = np.linspace(-1, 3, 400)
    up, down = (fit_averaged(sample_from_log_odds(x, np.full(400, h))) for h in (1, 0))
    assert up(x)[0].min() > 0.6
    assert down(x)[0].max() < 0.4


def test_ceiling_of_d3_is_found() -> None:
    sample = drawn("D3", 10_000)
    curve = fit_averaged(sample)
    assert curve.end_weights["ceiling"] > 0.95
    assert curve(np.array([40.0]))[0] == pytest.approx(np.exp(-0.03), abs=0.01)
    assert "ceiling 0.97" in curve.explain(sample)
    assert "over-confident" in curve.explain(sample)


@pytest.mark.parametrize("name", TRUTHS)
def test_closer_to_the_truth_than_the_paper(name: str) -> None:
    truth = TRUTHS[name]
    both = [(ead(fit_averaged(s), truth.curve), ead(fit_bpm(s).curve, truth.curve)) for s in samples(name, 10_000, 16)]
    ours, paper = np.mean(both, axis=0)
    assert ours < paper


def samples(name: str, n: int, runs: int) -> list[Sample]:
    return [drawn(name, n, 100 + seed) for seed in range(runs)]


@pytest.mark.parametrize("name", TRUTHS)
def test_tce_is_nearly_unbiased(name: str) -> None:
    errors = np.array([tce_averaged(s).value for s in samples(name, 4000, 12)]) - TRUTHS[name].tce()
    assert abs(errors.mean()) < 3 * errors.std(ddof=1) / np.sqrt(errors.size) + 0.002


def test_tce_is_at_least_the_mean_gap() -> None:
    for name in TRUTHS:
        sample = drawn(name, 3000)
        assert tce_averaged(sample).value >= abs(sample.mean_gap) - 1e-3, name


def test_posterior_draws_have_the_spread_of_refits() -> None:
    # On other samples from the same truth the curve moves as far as the posterior of one of them says.
    x = np.array([0.5, 1.5, 3.0])
    curves = np.array([fit_averaged(drawn("D4", 2000, seed))(x)[0] for seed in range(40)])
    draws = sigmoid(averaged_mixture(drawn("D4", 2000)).draws(x, 4000, np.random.default_rng(0)))
    assert draws.shape == (4000, 3)
    assert np.min(draws.std(axis=0) / curves.std(axis=0)) > 0.6
    assert np.max(draws.std(axis=0) / curves.std(axis=0)) < 1.7


def test_bands_are_drawn_from_shapes_that_can_move() -> None:
    """On calibrated rows the identity carries weight, and its draws would all be one curve."""
    x = np.random.default_rng(0).normal(1, 2, 2000)
    sample = sample_from_log_odds(x, np.random.default_rng(1).random(2000) < sigmoid(x))
    assert averaged_mixture(sample).curve.shape_weights["identity"] > 0.2
    mixture = band_mixture(sample)
    assert "identity" not in mixture.curve.shape_weights
    assert mixture.weights.sum() == pytest.approx(1)
    draws = mixture.draws(np.array([1.0]), 1000, np.random.default_rng(0))[:, 0]
    assert np.unique(draws).size > 990
    # Weights are evidence times the square of the number of parameters.
    both = [
        dict(zip(m.batches[0].kinds, m.weights.tolist(), strict=False)) for m in (averaged_mixture(sample), mixture)
    ]
    plain, free = ({shape: w[shape, ""] for shape in ("slope", "slope+shift", "beta")} for w in both)
    assert free["slope+shift"] / free["slope"] == pytest.approx(4 * plain["slope+shift"] / plain["slope"])
    assert free["beta"] / free["slope"] == pytest.approx(9 * plain["beta"] / plain["slope"])


def test_draws_of_one_shape_have_the_textbook_variance() -> None:
    # One component, slope+shift: var η = (1, x) H⁻¹ (1, x)' with H the information plus the prior's precision.
    sample = drawn("D4", 3000)
    mixture = averaged_mixture(sample)
    index = mixture.batches[0].kinds.index(("slope+shift", ""))
    weights = np.zeros(mixture.weights.size)
    weights[index] = 1.0
    alone = mixture._replace(weights=weights)
    x = np.array([-1.0, 0.0, 2.0])
    u, _, shift, _ = alone.curve.components[0].theta
    cells = cells_for_fit(sample)
    g = sigmoid(np.exp(u) * cells.log_odds + shift)
    design = np.stack([np.exp(u) * cells.log_odds, np.ones(cells.mass.size)])
    prior = Prior()
    information = (design * cells.mass * g * (1 - g)) @ design.T + np.diag([prior.slope**-2, prior.shift**-2])
    row = np.stack([np.exp(u) * x, np.ones(3)])
    expected = np.sqrt(np.einsum("in,ij,jn->n", row, np.linalg.inv(information), row))
    eta = alone.draws(x, 20_000, np.random.default_rng(1))
    assert eta.std(axis=0) == pytest.approx(expected, rel=0.03)
    assert eta.mean(axis=0) == pytest.approx(np.exp(u) * x + shift, abs=0.05 * expected.max())


@pytest.mark.parametrize("name", odd_samples())
def test_interval_of_tce_is_one_for_any_sample(name: str) -> None:
    sample = odd_samples()[name]
    low, high = tce_interval(sample, 1.0, 0.95)
    assert 0 <= low < high <= 1
    assert tce_interval(sample, 1.0, 0.95) == (low, high)
    wide = tce_interval(sample, 1.0, 0.999)
    assert wide[0] <= low
    assert wide[1] >= high


def test_interval_of_tce_reaches_down_to_the_truth_where_noise_looks_like_error() -> None:
    """One truth is calibrated except at the top, where accuracy falls; the other is calibrated everywhere, with a TCE of 0."""
    covered = {"falls above 0.95": 0, "calibrated": 0}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        s = rng.beta(3, 1, 2000)
        draw = rng.random(2000)
        low, high = tce_interval(
            sample_from_confidences(s, draw < np.where(s < 0.95, s, 0.95 - 8 * (s - 0.95))), 1, 0.95
        )
        covered["falls above 0.95"] += low <= 0.0326 <= high
        covered["calibrated"] += tce_interval(sample_from_confidences(s, draw < s), 1, 0.95)[0] == 0
    assert min(covered.values()) >= 9, covered


def test_interval_of_tce_where_all_is_saturated() -> None:
    # 400 hits at a confidence of 1: an error of 0.02 would have shown a miss with probability 0.9997.
    sample = sample_from_log_odds(np.full(400, 700.0), np.ones(400))
    assert tce_interval(sample, 1.0, 0.95)[1] < 0.02


def test_interval_of_tce_narrows_like_the_root_of_n() -> None:
    widths = [np.diff(tce_interval(drawn("D5", n), 1.0, 0.95))[0] for n in (1000, 16_000)]
    assert 3 < widths[0] / widths[1] < 5.5


def test_saved_and_loaded_bit_for_bit() -> None:
    sim = simulate(TRUTHS["D1"], 2000, np.random.default_rng(0))
    fitted = fit(Rows(sim.log_odds, sim.hits.astype(bool)), FitOptions())
    loaded = Averaged.from_parameters(json.loads(json.dumps(fitted.calibrator.parameters())))
    assert loaded == fitted.calibrator
    assert all(np.array_equal(a, b) for a, b in zip(loaded(GRID), fitted.calibrator(GRID), strict=True))
    json.dumps(fitted.report)
    curve = fit_averaged(sim.sample())
    assert isinstance(curve, AveragedCurve)
    assert np.array_equal(calibrator_of(curve)(GRID)[0], curve(GRID)[0])


@pytest.mark.parametrize(
    "change",
    [
        {"shapes": ["spiral"]},
        {"weights": []},
        {"weights": [-1.0]},
        {"weights": [0.5]},
        {"thetas": [1.0]},
        {"ends": ["roof"]},
        {"knots": [1.0, 1.0]},
        {"flat_eta": [1.0]},
        {"flat_eta": [1.0, 0.0]},
        {"flat_log_odds": [1.0, 1.0]},
        {"flat_log_odds": [], "flat_eta": [1.0]},
    ],
)
def test_broken_parameters_are_refused(change: dict[str, list[object]]) -> None:
    good = {"shapes": ["slope"], "ends": [""], "weights": [1.0], "thetas": [0.0] * 4, "knots": []}
    good |= {"flat_log_odds": [-9.0, -8.0], "flat_eta": [-9.0, -8.5]}
    assert Averaged.from_parameters(good)(np.array([2.0]))[0] == pytest.approx(sigmoid(np.array([2.0])))
    with pytest.raises(DataError):
        Averaged.from_parameters({**good, **change})
