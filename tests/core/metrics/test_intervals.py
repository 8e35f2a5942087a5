"""Intervals: exact pieces exactly, coverage on simulated truth by a binomial test."""

from __future__ import annotations

import numpy as np
import pytest

from bpmcli.core.calibrators import FitOptions, fit_calibrator
from bpmcli.core.calibrators.band import curve_band
from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import sample_from_confidences, sigmoid
from bpmcli.core.metrics import METRICS, MetricOptions, calibration_errors, measure
from bpmcli.core.metrics.intervals import bias_corrected, metric_intervals
from bpmcli.core.metrics.resamples import draw_resamples, merged

OF_CONFIDENCE = [name for name, entry in METRICS.items() if not entry.needs_classes]


def drawn(name: str, n: int, seed: int = 0):
    return simulate(TRUTHS[name], n, np.random.default_rng(seed)).sample()


def test_merging_keeps_every_sum():
    sample = drawn("D4", 9000)
    cells = merged(sample, 500)
    assert cells.mass.size <= 500
    for name in ("accuracy", "mean_confidence", "mean_gap"):
        assert getattr(cells, name) == pytest.approx(getattr(sample, name), rel=1e-12)
    assert merged(cells, 500) is cells
    exact, coarse = measure(sample, OF_CONFIDENCE), measure(cells, OF_CONFIDENCE)
    for name in OF_CONFIDENCE:
        assert coarse[name].value == pytest.approx(exact[name].value, abs=2e-3), name


def test_resamples_have_the_right_mean_and_variance():
    rng = np.random.default_rng(0)
    sample = drawn("D5", 400)
    found = np.array([r.accuracy for r in draw_resamples(sample, 2000, rng).samples()])
    rate = sample.accuracy
    assert found.mean() == pytest.approx(rate, abs=4 * found.std() / np.sqrt(2000))
    assert found.var() == pytest.approx(rate * (1 - rate) / 400, rel=0.15)


def test_weighted_rows_are_resampled_as_often_as_they_are_worth():
    rng = np.random.default_rng(0)
    s = rng.random(1000)
    weights = np.where(np.arange(1000) < 100, 9.0, 1.0)
    sample = sample_from_confidences(s, rng.random(1000) < s, weights)
    found = np.array([r.accuracy for r in draw_resamples(sample, 1000, rng).samples()])
    rate = sample.accuracy
    assert found.var() == pytest.approx(rate * (1 - rate) / sample.effective_n, rel=0.2)


def test_bias_correction_on_known_distributions():
    values = np.random.default_rng(0).normal(0, 1, 200_000)
    assert bias_corrected(values, 0.0, 0.95) == pytest.approx((-1.96, 1.96), abs=0.02)
    # Resamples half a deviation too high: the interval moves down by twice that.
    assert bias_corrected(values + 0.5, 0.0, 0.95) == pytest.approx((-2.46, 1.46), abs=0.06)


def test_coverage_on_known_truth():
    # 60 data sets: a 95 % interval covers at least 49 of them with probability 0.9999. On D5 the gap has
    # one sign nearly everywhere, so that ks estimates the error as well.
    options = MetricOptions()
    many = measure(drawn("D5", 200_000, 99), ["ks"], options)["ks"].value
    targets, covered = {"ece-debiased": TRUTHS["D5"].tce(), "ks": many}, {"ece-debiased": 0, "ks": 0}
    for seed in range(60):
        sample = drawn("D5", 800, seed)
        values = {name: found.value for name, found in measure(sample, list(targets), options).items()}
        for name, found in metric_intervals(sample, values, options, 0.95, 150, seed).items():
            assert found is not None
            covered[name] += found.low <= targets[name] <= found.high
    assert all(49 <= count <= 60 for count in covered.values()), covered


def test_intervals_surround_the_value_repeat_and_skip_what_is_missing():
    sample = drawn("D4", 3000)
    values = {name: m.value for name, m in measure(sample, OF_CONFIDENCE).items()} | {"absent": None}
    first, again = (metric_intervals(sample, values, MetricOptions(), 0.9, 40, 3) for _ in range(2))
    assert first == again
    assert first["absent"] is None
    for name in OF_CONFIDENCE:
        found = first[name]
        assert found is not None
        assert found.low < found.high


def test_noise_is_not_taken_for_error():
    # Calibrated rows: the ece of 300 of them is about 0.06, all noise. At least 35 of 40 lower ends stay below 0.02
    # with probability 0.9999 if each does so with probability 0.975.
    sure = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        s = rng.beta(3, 0.6, 300)
        sample = sample_from_confidences(s, rng.random(300) < s)
        value = measure(sample, ["ece"])["ece"].value
        found = metric_intervals(sample, {"ece": value}, MetricOptions(), 0.95, 20, seed)["ece"]
        assert found is not None
        sure += found.low > 0.02
    assert sure <= 5


def test_rows_that_all_hit_leave_room_for_a_miss():
    # No miss in 400 rows: up to 3/400 of all rows may be misses (the rule of three).
    sample = sample_from_confidences(np.full(400, 1.0), np.ones(400, dtype=bool))
    values = {name: m.value for name, m in measure(sample, calibration_errors()).items()}
    found = metric_intervals(sample, values, MetricOptions(), 0.95, 20)
    for name, value in values.items():
        interval = found[name]
        assert (interval is None) == (value is None), name
        assert interval is None or (interval.low <= 0.0 and 0.003 < interval.high < 0.02), (name, interval)
    (accuracy,) = metric_intervals(sample, {"accuracy": 1.0}, MetricOptions(), 0.95, 20).values()
    assert accuracy is not None
    assert 0.98 < accuracy.low < 0.997
    assert accuracy.high == 1.0


@pytest.mark.parametrize("method", ["bpm-averaged", "bpm", "histogram"])
def test_a_band_rises_and_holds_the_curve(method):
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.normal(0, 0.3, 150), np.full(150, 700.0)])
    rows = Rows(x, rng.random(300) < sigmoid(0.5 * x))
    fitted = fit_calibrator(method, rows, FitOptions()).calibrator
    found = curve_band(method, fitted, rows, FitOptions(), runs=40)
    assert np.all(np.diff(found.low) >= 0)
    assert np.all(np.diff(found.high) >= 0)
    assert np.all(np.array(found.low) <= np.array(found.high))
