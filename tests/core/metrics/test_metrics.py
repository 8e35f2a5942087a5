"""Every metric against its definition, and laws over the whole registry."""

from __future__ import annotations

import math

import numpy as np
import pytest
from definitions import debiased_by_sampling, ece, ece_sweep, ece_width, ks, ls_ece, smooth_ece_at
from hypothesis import given, settings
from strategies import rows

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.data.sample import sample_from_confidences, sample_from_log_odds, sigmoid
from bpmcli.core.metrics import METRICS, MetricOptions, definitions, measure
from bpmcli.core.metrics.smoothing import SM_BISECTIONS, smooth_ece
from bpmcli.errors import UsageError

OF_CONFIDENCE = [name for name, entry in METRICS.items() if not entry.needs_classes]
"""The others have laws of their own in test_whole.py."""


def value(name: str, s: np.ndarray, h: np.ndarray, options: MetricOptions | None = None) -> float:
    found = measure(sample_from_confidences(s, h), [name], options)[name].value
    assert found is not None
    return found


def overconfident(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    s = rng.beta(2, 0.5, n)
    return s, rng.random(n) < s**1.5


@settings(max_examples=60, deadline=None)
@given(rows())
def test_binned_metrics_equal_their_definitions(data):
    s, h = data
    assert value("ece", s, h) == pytest.approx(ece(s, h, 15), abs=1e-12)
    assert value("ece", s, h, MetricOptions(n_bins=7, p=2)) == pytest.approx(ece(s, h, 7, 2), abs=1e-9)
    assert value("ks", s, h) == pytest.approx(ks(s, h), abs=1e-12)
    sample = sample_from_confidences(s, h)
    sweep = measure(sample, ["ece-sweep"])["ece-sweep"]
    expected, n_bins = ece_sweep(s, h)
    assert sweep.value == pytest.approx(expected, abs=1e-12)
    assert sweep.details["bins"] == n_bins


@settings(max_examples=40, deadline=None)
@given(rows())
def test_equal_width_bins_put_one_into_the_last_bin(data):
    s, h = data
    s = np.where(np.isin(s, np.arange(16) / 15), s, np.round(s, 6))  # away from rounding at the edges
    assert value("ece", s, h, MetricOptions(binning="width")) == pytest.approx(ece_width(s, h, 15), abs=1e-9)


def test_confidence_of_one_is_in_the_last_bin():
    # torchmetrics 3510: 1.0 once had a hidden bin of its own.
    s, h = np.array([0.95, 1.0, 1.0, 0.2]), np.array([0, 1, 1, 0])
    expected = 0.75 * abs(2 / 3 - 2.95 / 3) + 0.25 * 0.2
    assert value("ece", s, h, MetricOptions(binning="width", n_bins=10)) == pytest.approx(expected)


def test_debiased_equals_the_monte_carlo_mean():
    s, h = overconfident(2000)
    mean, error = debiased_by_sampling(s, h, 15, np.random.default_rng(1))
    assert abs(value("ece-debiased", s, h) - mean) < 4 * error


def test_debiased_puts_tied_rows_into_one_bin():
    # 300 rows with one confidence are one bin, however many were asked for.
    s, h = np.full(300, 0.7), np.arange(300) < 190
    gap, sd = 0.7 - 190 / 300, math.sqrt(190 / 300 * 110 / 300 / 300)
    z = gap / sd
    expected = sd * math.sqrt(2 / math.pi) * math.exp(-z * z / 2) + gap * math.erf(z / math.sqrt(2))
    assert value("ece-debiased", s, h) == pytest.approx(2 * gap - expected, abs=1e-12)


def test_debiased_bins_never_straddle_tied_values():
    # Two tied values whose gaps cancel: 15 bins of equal mass would mix them, one bin per value does not.
    s, h = np.repeat([0.5, 0.9], [260, 250]), np.concatenate([np.arange(260) < 182, np.arange(250) < 175])
    gaps, sizes = np.array([182 / 260 - 0.5, 175 / 250 - 0.9]), np.array([260, 250])
    expected = 0.0
    for gap, n in zip(np.abs(gaps), sizes, strict=True):
        sd = math.sqrt(0.7 * 0.3 / n)
        z = gap / sd
        folded = sd * math.sqrt(2 / math.pi) * math.exp(-z * z / 2) + gap * math.erf(z / math.sqrt(2))
        expected += n / 510 * (2 * gap - folded)
    found = measure(sample_from_confidences(s, h), ["ece-debiased"], MetricOptions(n_bins=2))["ece-debiased"]
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert found.details["bins"] == 2


def test_debiased_is_nearly_unbiased_with_ten_distinct_confidences():
    values = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        s = rng.choice(np.arange(10) * 0.05 + 0.525, 5000)
        rate = s + np.where(np.arange(10) % 2, -0.04, 0.04)[np.rint((s - 0.525) / 0.05).astype(int)]
        values.append(value("ece-debiased", s, rng.random(5000) < rate))
    assert np.mean(values) == pytest.approx(0.04, abs=0.003)


def test_debiased_with_p_two_is_the_unbiased_square():
    s, h = overconfident(900)
    order = np.argsort(s)
    total = 0.0
    for b in np.array_split(order, 15):
        rate = h[b].mean()
        total += b.size / 900 * ((rate - s[b].mean()) ** 2 - rate * (1 - rate) / (b.size - 1))
    assert value("ece-debiased", s, h, MetricOptions(p=2)) == pytest.approx(math.sqrt(max(total, 0)), abs=1e-12)


def test_debiased_with_another_p_is_missing_not_wrong():
    s, h = overconfident(100)
    found = measure(sample_from_confidences(s, h), ["ece-debiased"], MetricOptions(p=3))["ece-debiased"]
    assert found.value is None
    assert "p = 1 and p = 2" in str(found.why_missing)


@pytest.mark.parametrize("seed", [0, 1])
def test_smece_equals_its_definition(seed):
    s, h = overconfident(150, seed)
    s[:40] = 1.0  # mass on the boundary: where both public implementations go wrong
    found, sigma = smooth_ece(sample_from_confidences(s, h))
    assert found == pytest.approx(smooth_ece_at(s, h, sigma), abs=1e-6)
    # σ is the fixed point to the resolution of the search.
    assert abs(smooth_ece_at(s, h, sigma) - sigma) < 2 * 0.5 ** (SM_BISECTIONS + 1)
    assert found >= abs(np.mean(s - h)) - 1e-12


def test_smece_counts_mass_at_one_in_full():
    # relplot 1.0.3 halves it: all of the mass sits at 1 and a tenth of it misses.
    s, h = np.ones(1000), np.arange(1000) >= 100
    assert value("smece", s, h) == pytest.approx(0.1, abs=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_ls_ece_equals_its_definition(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(2, 2, 120)
    h = rng.random(120) < sigmoid(0.5 * x)
    found = measure(sample_from_log_odds(x, h), ["ls-ece"])["ls-ece"].value
    assert found == pytest.approx(ls_ece(x, h), abs=1e-6)


def test_ls_ece_is_not_fooled_by_far_log_odds():
    # Beyond 40 only mass counts: the misses there.
    x, h = np.array([300.0, 500.0, 699.0, 45.0]), np.array([1, 0, 1, 0])
    assert measure(sample_from_log_odds(x, h), ["ls-ece"])["ls-ece"].value == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("name", OF_CONFIDENCE)
@settings(max_examples=25, deadline=None)
@given(data=rows(min_size=60, max_size=150))
def test_row_order_never_matters(name, data):
    s, h = data
    order = np.random.default_rng(0).permutation(s.size)
    there = measure(sample_from_confidences(s, h), [name])[name]
    back = measure(sample_from_confidences(s[order], h[order]), [name])[name]
    assert there.value == back.value, "not bit for bit"


@pytest.mark.parametrize("name", OF_CONFIDENCE)
@settings(max_examples=20, deadline=None)
@given(data=rows())
def test_values_are_in_range_or_missing_with_a_reason(name, data):
    found = measure(sample_from_confidences(*data), [name])[name]
    if found.value is None:
        assert found.why_missing
    else:
        low = -1.0 if name == "ece-debiased" else 0.0
        high = np.inf if name == "nll" else 1.0 + 1e-12
        assert low <= found.value <= high


@pytest.mark.parametrize("name", ["ece", "ks", "smece", "ls-ece"])
def test_duplicated_data_leaves_plug_in_metrics_unchanged(name):
    s, h = overconfident(300)  # 300 = 15 · 20: the same bins twice over
    assert value(name, np.tile(s, 2), np.tile(h, 2)) == pytest.approx(value(name, s, h), abs=1e-12)


@pytest.mark.parametrize("name", ["ece", "ece-sweep", "ks", "smece", "ls-ece"])
def test_integer_weights_are_repeated_rows(name):
    s, h = overconfident(150)
    weights = np.random.default_rng(3).integers(1, 3, 150)
    weights[-1] += 300 - weights.sum() if weights.sum() < 300 else 0
    weighted = measure(sample_from_confidences(s, h, weights), [name])[name].value
    repeated = value(name, np.repeat(s, weights), np.repeat(h, weights))
    if name == "ece-sweep":
        assert weighted == pytest.approx(repeated, abs=5e-3)  # bins are counted in rows
    else:
        assert weighted == pytest.approx(repeated, abs=1e-3 if name == "ece" else 1e-10)


@pytest.mark.parametrize("name", OF_CONFIDENCE)
def test_equal_weights_change_nothing_and_scale_does_not_matter(name):
    s, h = overconfident(200)
    plain = value(name, s, h)
    for weight in (1.0, 0.1, 7.0):
        found = measure(sample_from_confidences(s, h, np.full(200, weight)), [name])[name].value
        assert found == pytest.approx(plain, abs=1e-9)


@pytest.mark.parametrize("name", OF_CONFIDENCE)
def test_zero_weight_is_no_row(name):
    s, h = overconfident(200)
    weights = np.ones(200)
    weights[100:] = 0
    found = measure(sample_from_confidences(s, h, weights), [name])[name].value
    assert found == pytest.approx(value(name, s[:100], h[:100]), abs=1e-9)


def test_a_sweep_without_a_drop_tries_no_bin_counts(monkeypatch):
    """Bins are averages of cells, so their accuracies rise if those of the cells do; 2000 bin counts took 0.1 s."""
    rng = np.random.default_rng(0)
    s = rng.choice([0.6, 0.7, 0.8, 0.9], 5000)
    sample = sample_from_confidences(s, rng.random(5000) < s)
    monkeypatch.setattr(definitions, "scheme_bins", lambda *_: pytest.fail("bins were made"))
    assert measure(sample, ["ece-sweep"])["ece-sweep"].details["bins"] == definitions.SWEEP_CAP


def test_saturated_log_odds_keep_their_order():
    # ŝ rounds to 1 for all of these; the hits are sorted by log-odds, and the fit sees that.
    drawn = simulate(TRUTHS["D1"], 4000, np.random.default_rng(0))
    sample = drawn.sample()
    assert sample.saturated > 0.2
    assert sample.log_odds.size == 4000
    assert np.all(sample.complements > 0)


def test_sweep_on_perfect_data_stops_and_says_so():
    s = np.linspace(0.5, 0.99, 3000)
    found = measure(sample_from_confidences(s, np.ones(3000)), ["ece-sweep"])["ece-sweep"]
    assert found.details["bins"] == 2000
    assert [n.code for n in found.notices] == ["sweep-capped"]


def test_unknown_metric_is_a_usage_error():
    with pytest.raises(UsageError, match="unknown metric 'sharpness'"):
        measure(sample_from_confidences([0.5], [1]), ["sharpness"])
