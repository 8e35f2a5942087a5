"""Every metric against its definition on a few small samples: untied, tied, weighted, summarised."""

from __future__ import annotations

import math

import numpy as np
import pytest
from definitions import ece, ece_sweep, ece_width, ks

from bpmcli.core.curves.bpm import fit_bpm
from bpmcli.core.curves.families import parse_curve
from bpmcli.core.curves.tce import beta_by_moments, tce_beta, tce_empirical
from bpmcli.core.data.class_scores import ClassScores
from bpmcli.core.data.log_odds import reduce_logits
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Sample, sample_from_confidences, sample_from_log_odds
from bpmcli.core.metrics import METRICS, MetricOptions, calibration_errors, measure
from bpmcli.core.metrics.bin_table import bin_table
from bpmcli.core.metrics.canonical import calibrated_rows
from bpmcli.core.metrics.definitions import Measured, tce_of_curve
from bpmcli.core.metrics.noise_floor import calibrated_hits, noise_floor


def drawn(n: int = 200, levels: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    s = rng.beta(2, 0.7, n)
    if levels:
        s = np.round(s * levels) / levels
    return s, rng.random(n) < s**1.6


def found(name: str, sample: Sample, **options: object) -> Measured:
    return measure(sample, [name], MetricOptions(**options))[name]  # type: ignore[arg-type]


@pytest.mark.parametrize("levels", [None, 11])
@pytest.mark.parametrize(("n_bins", "p"), [(15, 1.0), (7, 2.0), (300, 3.0)])
def test_ece(levels, n_bins, p):
    s, h = drawn(levels=levels)
    got = found("ece", sample_from_confidences(s, h), n_bins=n_bins, p=p)
    assert got.value == pytest.approx(ece(s, h, n_bins, p), abs=1e-11)
    assert got.details == {"bins": min(n_bins, 200)}


def test_ece_of_equal_width():
    s, h = drawn()
    assert found("ece", sample_from_confidences(s, h), binning="width").value == pytest.approx(ece_width(s, h, 15))


@pytest.mark.parametrize("levels", [None, 11])
@pytest.mark.parametrize("seed", range(6))
def test_sweep_and_ks(levels, seed):
    s, h = drawn(80 + 7 * seed, levels, seed)
    sample = sample_from_confidences(s, h)
    value, n_bins = ece_sweep(s, h)
    got = found("ece-sweep", sample)
    assert got.value == pytest.approx(value, abs=1e-12)
    assert got.details == {"bins": n_bins}
    assert got.notices == ()
    assert found("ks", sample).value == pytest.approx(ks(s, h), abs=1e-13)


@pytest.mark.parametrize("first_drop", [2, 9, 10, 11, 30, 75, 150])
def test_sweep_stops_before_the_first_drop_wherever_it_is(first_drop):
    # One row is wrong: accuracy drops as soon as the first bin is too short to hold it.
    n = 300
    s = np.linspace(0.5, 0.99, n)
    h = np.ones(n)
    h[math.ceil(n / first_drop)] = 0
    value, n_bins = ece_sweep(s, h)
    got = found("ece-sweep", sample_from_confidences(s, h))
    assert got.details["bins"] == n_bins
    assert got.value == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("n", "bins", "notices"), [(40, 40, []), (2000, 2000, ["sweep-capped"])])
def test_sweep_ends_where_the_rows_or_the_limit_end(n, bins, notices):
    got = found("ece-sweep", sample_from_confidences(np.linspace(0.5, 0.99, n), np.ones(n)))
    assert got.details["bins"] == bins
    assert [notice.code for notice in got.notices] == notices


def test_sweep_ignores_rounding_but_not_a_drop():
    # Accuracies of two bins, 0.5 and a little less: below the slack of 1e-9 it is not a drop.
    sample = sample_from_confidences([0.6, 0.9], [1, 0], [1, 1])
    for lost, bins in ((1e-10, 2), (1e-8, 1)):
        assert found("ece-sweep", sample._replace(hits=np.array([0.5, 0.5 - lost]))).details["bins"] == bins


def test_sweep_says_when_a_summary_makes_it_approximate():
    sample = sample_from_confidences(*drawn(levels=11))
    assert found("ece-sweep", sample._replace(summarised=True)).details["approximate"] is True


def folded(gap: float, sd: float) -> float:
    """E|N(gap, sd²)| by quadrature."""
    x = np.linspace(gap - 12 * sd, gap + 12 * sd, 400_001)
    density = np.exp(-(((x - gap) / sd) ** 2) / 2)
    return float(np.sum(np.abs(x) * density) / np.sum(density))


@pytest.mark.parametrize("weighted", [False, True])
def test_debiased_ece(weighted):
    s, h = drawn(60)
    w = np.where(np.arange(60) % 2, 3.0, 1.0) if weighted else np.ones(60)
    sample = sample_from_confidences(s, h, w if weighted else None)
    share = w.sum() ** 2 / (w @ w) / 60  # effective rows per row
    order = np.argsort(s)
    s, h, w = s[order], h[order], w[order] * 60 / w.sum()
    edges = np.cumsum([0.0, *w])
    cuts = [int(np.argmin(np.abs(edges - 12 * k))) for k in range(6)]
    one = two = 0.0
    for a, b in zip(cuts[:-1], cuts[1:], strict=True):
        mass = w[a:b].sum()
        accuracy, confidence = w[a:b] @ h[a:b] / mass, w[a:b] @ s[a:b] / mass
        gap, variance = abs(accuracy - confidence), accuracy * (1 - accuracy)
        one += mass / 60 * (2 * gap - (folded(gap, math.sqrt(variance / (mass * share))) if variance > 1e-12 else gap))
        two += mass / 60 * (gap**2 - variance / (mass * share - 1))
    assert found("ece-debiased", sample, n_bins=5).value == pytest.approx(one, abs=1e-8)
    assert found("ece-debiased", sample, n_bins=5, p=2.0).value == pytest.approx(math.sqrt(max(two, 0)), abs=1e-12)
    assert found("ece-debiased", sample, n_bins=5).details == {"bins": 5}


def test_debiased_ece_of_single_rows_is_the_ece_or_nothing():
    # An accuracy of 0 or 1 has no variance, and the square of one row says nothing.
    s, h = drawn(10)
    sample = sample_from_confidences(s, h)
    assert found("ece-debiased", sample).value == pytest.approx(ece(s, h, 10))
    assert found("ece-debiased", sample, p=2.0).value == 0.0
    # Two rows in a bin are enough: gap² − a(1 − a)/(2 − 1).
    two = sample_from_confidences([0.9, 0.91], [0, 1])
    assert found("ece-debiased", two, p=2.0, n_bins=1).value == 0.0
    far = sample_from_confidences([0.01, 0.02], [1, 1])
    assert found("ece-debiased", far, p=2.0, n_bins=1).value == pytest.approx(0.985)
    assert found("ece-debiased", far, p=3.0).value is None


@pytest.mark.parametrize("levels", [None, 9])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_the_confidence(levels, weighted):
    s, h = drawn(120, levels)
    s = np.clip(s, 0.01, 0.99)
    w = np.random.default_rng(1).integers(1, 5, 120) if weighted else np.ones(120, dtype=int)
    sample = sample_from_confidences(s, h, w if weighted else None)
    s, h = np.repeat(s, w), np.repeat(h, w)
    assert found("accuracy", sample).value == pytest.approx(h.mean())
    assert found("brier", sample).value == pytest.approx(np.mean((s - h) ** 2), rel=1e-9)
    assert found("nll", sample).value == pytest.approx(-np.mean(np.where(h, np.log(s), np.log(1 - s))), rel=1e-9)
    pairs = np.sign(s[h][:, None] - s[~h][None, :])
    assert found("auroc", sample).value == pytest.approx(np.mean((pairs + 1) / 2), rel=1e-9)
    assert found("auroc", sample_from_confidences(s, np.ones(s.size))).value is None


def test_scores_are_not_taken_for_calibration_errors():
    """`compare metrics` would compare them with the true calibration error, and intervals of some would begin at 0."""
    scores = {"accuracy", "auroc", "brier", "mcb", "dsc", "unc", "nll"}
    whole = {name for name, entry in METRICS.items() if entry.needs_classes}
    assert not (scores | whole) & set(calibration_errors())
    assert not any(METRICS[name].of_event for name in whole)  # an event has no other classes
    assert {"ece", "ece-debiased", "ece-sweep", "ks", "smece", "ls-ece", "tce-bpm", "tce"} <= set(calibration_errors())


def test_ks_with_weights_is_that_of_repeated_rows():
    s, h = drawn(50)
    weights = np.random.default_rng(1).integers(1, 5, 50)
    weighted = found("ks", sample_from_confidences(s, h, weights)).value
    assert weighted == pytest.approx(ks(np.repeat(s, weights), np.repeat(h, weights)), abs=1e-13)


def test_tce_of_the_papers_curve():
    s, h = drawn(400)
    sample = sample_from_confidences(s, h)
    curve, beta = fit_bpm(sample).curve, beta_by_moments(sample)
    assert beta is not None
    got = found("tce-bpm", sample, p=2.0)
    assert got.value == pytest.approx(tce_beta(curve, beta, 2.0), rel=1e-12)
    names = dict(zip(("alpha", "beta", "c"), curve.params, strict=True))
    assert got.details == {**names, "density": "beta", "a1": beta.a1, "a2": beta.a2}
    assert got.notices == ()
    got = found("tce-bpm", sample, density="empirical", schemes=2, bins=(5, 9))
    assert got.value == pytest.approx(tce_empirical(fit_bpm(sample, schemes=2, bins=(5, 9)).curve, sample), rel=1e-12)
    assert got.details["density"] == "empirical"
    assert got.notices == ()


@pytest.mark.parametrize(("s", "reason"), [([0.7] * 9, "is zero"), ([0.0, 1.0] * 9, "is too large or too small")])
def test_without_a_beta_the_confidences_themselves_are_used(s, reason):
    sample, curve = sample_from_confidences(s, np.arange(len(s)) % 2), parse_curve("beta:0.5,0.5,0.2")
    value, density, notices = tce_of_curve(sample, curve)
    assert density is None
    assert value == tce_empirical(curve, sample)
    assert [notice.code for notice in notices] == ["density-empirical"]
    assert reason in str(notices[0])
    assert tce_of_curve(sample, curve, "empirical")[2] == []


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("binning", ["mass", "width"])
def test_bin_table(binning, weighted):
    from scipy.stats import binomtest

    s, h = drawn(400)
    s = np.concatenate([s, [1.0] * 30])
    h = np.concatenate([h, [True] * 30])
    sample = sample_from_confidences(s, h, np.full(430, 3.0) if weighted else None)
    table = bin_table(sample, 6, binning)
    s, h = s[np.argsort(s)], h[np.argsort(s)]
    parts = np.split(np.arange(430), np.cumsum([round(row["rows"]) for row in table])[:-1])
    for row, part in zip(table, parts, strict=True):
        low, high = binomtest(round(row["accuracy"] * part.size), part.size).proportion_ci(0.95, method="wilson")
        assert (row["accuracy_low"], row["accuracy_high"]) == pytest.approx((low, high), abs=1e-9)
        assert row["confidence"] == pytest.approx(s[part].mean())
        assert row["gap"] == pytest.approx(row["accuracy"] - row["confidence"])
        if binning == "mass":
            assert (row["lower"], row["upper"]) == pytest.approx((s[part[0]], s[part[-1]]), abs=1e-12)
            assert row["accuracy"] == pytest.approx(h[part].mean(), abs=0.05)  # ties at 1 are spread
        else:
            assert (row["lower"] * 6, row["upper"] * 6) == pytest.approx(
                (b := math.floor(s[part[0]] * 6 + 1e-9), b + 1)
            )
    if binning == "mass":
        assert [row["rows"] for row in table] == pytest.approx([72, 72, 72, 72, 71, 71])


def test_wilson_intervals_use_the_effective_rows():
    from scipy.stats import binomtest

    # Half of the weights are 0.5, half 1.5: worth 1 / 1.25 of the rows.
    sample = sample_from_confidences(np.full(100, 0.7), np.arange(100) < 60, np.where(np.arange(100) % 2, 0.5, 1.5))
    (row,) = bin_table(sample, 1)
    low, high = binomtest(48, 80).proportion_ci(0.95, method="wilson")
    assert (row["accuracy_low"], row["accuracy_high"]) == pytest.approx((low, high), abs=1e-9)
    assert bin_table(sample_from_confidences([0.9, 0.95], [1, 1]), 1)[0]["accuracy_high"] == 1.0
    for rows in (16, 40, 46):  # rounding would make it 1 + 2e-16
        assert bin_table(sample_from_confidences(np.full(rows, 0.9), np.ones(rows)), 1)[0]["accuracy_high"] == 1.0
    assert len(bin_table(sample_from_confidences(*drawn(40)))) == 15


def test_calibrated_outcomes_are_correct_with_the_probability_of_their_confidence():
    x = np.repeat([-1.0, 2.0], 4)
    rng = np.random.default_rng(0)
    untied = sample_from_log_odds(x + np.arange(8) * 1e-6, np.ones(8))
    tied = sample_from_log_odds(x, np.ones(8))
    weights = np.array([1.0, 2.0, 3.0, 2.0] * 2)
    weighted = sample_from_log_odds(x, np.ones(8), weights)
    for sample, rows in ((untied, np.ones(8)), (tied, np.full(2, 4.0)), (weighted, np.ones(2))):
        draws = np.array([calibrated_hits(sample, rng) for _ in range(4000)]) / sample.mass
        np.testing.assert_allclose(draws.mean(axis=0), sample.confidences, atol=0.035)
        variance = sample.confidences * sample.complements / rows
        np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.12)


def test_a_weighted_cell_of_a_summary_is_worth_its_effective_rows():
    x = np.repeat([-1.0, 2.0], 40)
    weights = np.where(np.arange(80) % 2, 1.0, 3.0)  # worth 64 rows: 32 in each cell
    sample = sample_from_log_odds(x, np.ones(80), weights)._replace(summarised=True)
    assert sample.effective_n == pytest.approx(64)
    rng = np.random.default_rng(0)
    draws = np.array([calibrated_hits(sample, rng) for _ in range(3000)]) / sample.mass
    np.testing.assert_allclose(draws * 32, np.rint(draws * 32), atol=1e-9)
    np.testing.assert_allclose(draws.mean(axis=0), sample.confidences, atol=0.01)
    np.testing.assert_allclose(draws.var(axis=0), sample.confidences * sample.complements / 32, rtol=0.12)
    # A cell worth less than one row is drawn as one row.
    light = sample_from_log_odds([-1.0, 2.0], [1, 1], [1.0, 1e-4])._replace(summarised=True)
    assert set(np.unique(calibrated_hits(light, rng) / light.mass)) <= {0.0, 1.0}


def test_noise_floor_is_a_summary_of_the_draws():
    s, h = drawn(100)
    sample = sample_from_confidences(s, h)
    floor = noise_floor(sample, ["ece", "tce-bpm"], MetricOptions(n_bins=4), runs=30, seed=3)["ece"]
    assert floor is not None
    rng = np.random.default_rng(3)
    draws = [found("ece", sample.with_hits(calibrated_hits(sample, rng)), n_bins=4).value for _ in range(30)]
    observed = found("ece", sample, n_bins=4).value
    assert floor.mean == pytest.approx(np.mean(draws))
    assert floor.high == pytest.approx(np.quantile(draws, 0.95))
    assert floor.p_value == pytest.approx((1 + np.sum(np.array(draws) >= observed)) / 31)
    assert (
        noise_floor(sample, ["ece"], MetricOptions(), runs=2)["ece"]
        == noise_floor(sample, ["ece"], MetricOptions(), runs=2, seed=0)["ece"]
    )


def test_a_draw_that_scores_as_high_counts():
    sure = sample_from_confidences(np.ones(50), np.ones(50))  # every draw is all correct, and every error is 0
    floor = noise_floor(sure, ["ece"], MetricOptions(), runs=5)["ece"]
    assert floor is not None
    assert floor.high == pytest.approx(0.0, abs=1e-12)
    assert floor.p_value == 1.0


def test_where_higher_is_better_a_draw_that_scores_as_low_counts():
    sure = sample_from_confidences(np.ones(50), np.ones(50))  # every draw is all correct
    floor = noise_floor(sure, ["accuracy"], MetricOptions(), runs=5)["accuracy"]
    assert floor is not None
    assert floor.p_value == 1.0
    s, h = drawn(100)
    sample = sample_from_confidences(s, h)
    floor = noise_floor(sample, ["auroc"], MetricOptions(), runs=30, seed=3)["auroc"]
    rng = np.random.default_rng(3)
    draws = [found("auroc", sample.with_hits(calibrated_hits(sample, rng))).value for _ in range(30)]
    assert floor is not None
    assert floor.p_value == pytest.approx((1 + np.sum(np.array(draws) <= found("auroc", sample).value)) / 31)


def test_noise_floor_of_a_metric_that_cannot_be_computed():
    few = sample_from_confidences(*drawn(20))
    assert noise_floor(few, ["tce-bpm"], MetricOptions(), runs=2) == {"tce-bpm": None}
    # All rows are correct, so there is no auroc; most draws have one.
    sample = sample_from_confidences(np.linspace(0.5, 0.9, 40), np.ones(40))
    floor = noise_floor(sample, ["auroc"], MetricOptions(), runs=4)["auroc"]
    assert floor is not None
    assert 0.0 < floor.mean < 1.0
    assert floor.p_value is None


def test_noise_floor_of_whole_distributions_draws_their_labels(monkeypatch):
    rng = np.random.default_rng(5)
    logits, labels = rng.normal(0, 2, (60, 3)), rng.integers(0, 3, 60)
    top = reduce_logits(logits)
    scores = ClassScores([logits], from_probs=False)
    rows = Rows(top.log_odds, top.predictions == labels, None, top.predictions, labels, scores=scores)
    names, options = ["brier-all", "canonical-p", "ks"], MetricOptions()
    floors = noise_floor(rows.sample, names, options, runs=6, seed=2, rows=rows)
    rng = np.random.default_rng(2)
    for _ in range(6):
        calibrated_hits(rows.sample, rng)  # those of the predicted class are drawn first
    draws = [measure(r.sample, ["brier-all"], options, r)["brier-all"].value for r in calibrated_rows(rows, 6, rng)]
    observed = measure(rows.sample, ["brier-all"], options, rows)["brier-all"].value
    assert floors["brier-all"] is not None
    assert floors["brier-all"].mean == pytest.approx(np.mean(draws))
    assert floors["brier-all"].p_value == (1 + sum(draw >= observed for draw in draws)) / 7
    assert floors["canonical-p"] is None  # a P-value has no noise floor
    assert floors["ks"] is not None
    # Rows without the scores of all classes have no such floor.
    assert noise_floor(rows.sample, names, options, 2, rows=rows._replace(scores=None))["brier-all"] is None
    nothing = METRICS["brier-all"]._replace(compute=lambda *_: Measured(None, why_missing="-"))
    monkeypatch.setitem(METRICS, "brier-all", nothing)
    assert noise_floor(rows.sample, names, options, 2, rows=rows)["brier-all"] is None


def test_noise_floor_has_200_runs():
    sample = sample_from_confidences(np.full(1000, 0.99), np.arange(1000) % 2)
    floor = noise_floor(sample, ["ks"], MetricOptions())["ks"]
    assert floor is not None
    assert floor.p_value == 1 / 201
