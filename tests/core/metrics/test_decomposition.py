"""The Brier score in three parts: by hand, by the min-max formula, by scikit-learn, and laws."""

from __future__ import annotations

import numpy as np
import pytest

from bpmcli import MetricOptions, Rows, measure, metric_intervals, sample_from_confidences
from bpmcli.core.data.sample import Floats, sample_from_log_odds
from bpmcli.core.metrics.decomposition import brier_parts, recalibrated, row_parts
from bpmcli.core.metrics.intervals import limits_of
from bpmcli.core.metrics.noise_floor import noise_floor
from bpmcli.core.metrics.registry import METRICS


def isotonic_by_definition(rates: Floats, mass: Floats) -> Floats:
    """max over a ≤ i of min over b ≥ i of the mean rate from a to b (Robertson, Wright & Dykstra 1988)."""
    n = rates.size

    def mean(a: int, b: int) -> float:
        return float(np.average(rates[a : b + 1], weights=mass[a : b + 1]))

    return np.array([max(min(mean(a, b) for b in range(i, n)) for a in range(i + 1)) for i in range(n)])


def test_four_rows_by_hand() -> None:
    """Sorted outcomes 0, 1, 0, 1: isotonic regression pools the middle two."""
    s, h = np.array([0.6, 0.7, 0.8, 0.9]), np.array([0, 1, 0, 1])
    found = brier_parts(sample_from_confidences(s, h))
    best = (0 + 0.25 + 0.25 + 0) / 4
    assert found.mcb == pytest.approx((0.36 + 0.09 + 0.64 + 0.01) / 4 - best)
    assert found.dsc == pytest.approx(0.25 - best)
    assert found.unc == pytest.approx(0.25)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_parts_follow_from_the_definition(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    s = np.round(rng.uniform(0.4, 1.0, 60), 1)  # with ties
    h = (rng.random(60) < s**2).astype(float)
    w = rng.uniform(0.5, 2.0, 60) if weighted else np.ones(60)
    sample = sample_from_confidences(s, h, w if weighted else None)
    values = np.unique(s)
    mass = np.array([w[s == v].sum() for v in values])
    rates = np.array([np.average(h[s == v], weights=w[s == v]) for v in values])
    g = isotonic_by_definition(rates, mass)[np.searchsorted(values, s)]
    r = np.average(h, weights=w)
    own, best, constant = (float(np.average((p - h) ** 2, weights=w)) for p in (s, g, r))
    found = {name: m.value for name, m in measure(sample, ["brier", "mcb", "dsc", "unc"]).items()}
    assert found == pytest.approx(
        {"brier": own, "mcb": own - best, "dsc": constant - best, "unc": r * (1 - r)}, abs=1e-12
    )
    assert found["mcb"] - found["dsc"] + found["unc"] == pytest.approx(found["brier"], abs=1e-12)  # type: ignore[operator]
    if not weighted:
        rows = row_parts(sample, sample.log_odds[np.searchsorted(values, s)], h)
        assert [part.mean() for part in rows] == pytest.approx([found["mcb"], found["dsc"], found["unc"]], abs=1e-12)


def test_scikit_learn_agrees() -> None:
    isotonic = pytest.importorskip("sklearn.isotonic")
    rng = np.random.default_rng(1)
    s = rng.uniform(0.0, 1.0, 3000)
    h = (rng.random(3000) < 0.8 * s).astype(float)
    sample = sample_from_confidences(s, h)
    g = isotonic.IsotonicRegression().fit(s, h).predict(s)
    assert recalibrated(sample) == pytest.approx(np.sort(g), abs=1e-12)
    found = brier_parts(sample)
    assert found.mcb == pytest.approx(np.mean((s - h) ** 2) - np.mean((g - h) ** 2), abs=1e-12)
    assert found.dsc == pytest.approx(h.var() - np.mean((g - h) ** 2), abs=1e-12)


def test_miscalibration_and_discrimination_are_apart() -> None:
    """A monotone change of the confidence moves mcb only; confidences without information have no dsc."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=4000)
    h = rng.random(4000) < 1 / (1 + np.exp(-x))
    honest, sharp = (brier_parts(sample_from_log_odds(k * x, h)) for k in (1.0, 3.0))
    assert sharp.dsc == pytest.approx(honest.dsc, abs=1e-12)
    assert sharp.mcb > honest.mcb + 0.02
    blind = brier_parts(sample_from_log_odds(rng.permutation(x), h))
    assert blind.dsc < 0.1 * honest.dsc
    assert blind.unc == honest.unc


def test_the_interval_of_mcb_begins_at_zero_where_that_of_tce_does() -> None:
    rng = np.random.default_rng(3)
    s = rng.uniform(0.5, 1.0, 1000)
    for shift, calibrated in ((0.0, True), (0.2, False)):
        sample = sample_from_confidences(s, rng.random(1000) < s - shift)
        values = {name: m.value for name, m in measure(sample, ["mcb", "dsc", "tce"]).items()}
        found = metric_intervals(sample, values, MetricOptions(), runs=200)
        mcb, tce = found["mcb"], found["tce"]
        assert mcb is not None
        assert tce is not None
        assert mcb.low <= tce.low**2
        assert (mcb.low == 0.0) == calibrated
        assert calibrated or mcb.low < shift**2 < mcb.high
        floor = noise_floor(sample, ["mcb"], MetricOptions(), runs=50)["mcb"]
        assert floor is not None
        assert floor.p_value is not None
        assert (floor.p_value > 0.05) == calibrated


def test_intervals_of_unc_contain_the_truth_and_end_at_a_quarter() -> None:
    """r (1 − r) is flat around r = 1/2 and noise lowers it, so percentiles must not be moved or reflected."""
    rng, covered = np.random.default_rng(0), 0
    for _ in range(200):
        hits = rng.binomial(1000, 0.52) / 1000
        drawn = rng.binomial(1000, hits, 300) / 1000
        low, high = limits_of(METRICS["unc"], drawn * (1 - drawn), hits * (1 - hits), 0.95)
        covered += low <= 0.52 * 0.48 <= high
    assert covered > 180  # with reflected percentiles 64 % of 1000 intervals contained it, with corrected ones 84 %
    sample = sample_from_confidences(np.linspace(0.3, 0.99, 60), np.arange(60) % 2)
    found = metric_intervals(sample, {"unc": 0.25, "dsc": 0.01}, MetricOptions(), runs=100)["unc"]
    assert found is not None
    assert found.low < 0.24
    assert found.high == 0.25


def test_pairs_of_models_have_a_standard_error() -> None:
    from bpmcli import paired_differences

    rng = np.random.default_rng(4)
    x = rng.normal(1.0, 1.0, 2000)
    h = rng.random(2000) < 1 / (1 + np.exp(-x))
    records = paired_differences(Rows(x, h), Rows(3 * x, h), ["mcb", "dsc", "unc"], MetricOptions(), runs=60)
    by = {one.metric: one for one in records}
    assert by["mcb"].p_value is not None
    assert by["mcb"].p_value < 0.001
    assert by["dsc"].difference == pytest.approx(0.0, abs=1e-12)
    assert by["unc"].difference == 0.0
