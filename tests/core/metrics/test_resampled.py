"""The metrics on all resamples at once equal the metrics, resample by resample."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.data.sample import Sample, sample_from_confidences, sample_from_log_odds
from bpmcli.core.metrics import METRICS, MetricOptions
from bpmcli.core.metrics.resamples import draw_resamples, itself, merged

EXACT = ["ece", "ece-debiased", "ece-sweep", "ks"]
CLOSE = ["smece", "ls-ece", "tce-bpm"]


def samples() -> dict[str, Sample]:
    rng = np.random.default_rng(0)
    s = rng.choice([0.5, 0.6, 0.8, 0.9, 0.99], 700)
    x = rng.normal(1, 2, 400)
    return {
        "D1": simulate(TRUTHS["D1"], 3000, rng).sample(),
        "D4": simulate(TRUTHS["D4"], 500, rng).sample(),
        "ties": sample_from_confidences(s, rng.random(700) < s - 0.1),
        "weights": sample_from_log_odds(x, rng.random(400) < 0.7, rng.exponential(size=400)),
    }


def rounded(n: int) -> Sample:
    """Few distinct confidences, some of them rare, whose accuracies rise in most resamples."""
    rng = np.random.default_rng(5)
    s = rng.choice([0.5, 0.51, 0.6, 0.7, 0.8, 0.85, 0.95], n, p=[0.002, 0.001, 0.247, 0.2, 0.2, 0.2, 0.15])
    return sample_from_confidences(s, rng.random(n) < s)


def both(name: str, sample: Sample, options: MetricOptions, runs: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Shifts from the sample itself: of the vectorised metric, and of the metric on each resample."""
    cells = merged(sample)
    drawn = draw_resamples(cells, runs, np.random.default_rng(1))
    entry = METRICS[name]
    slow = entry._replace(resampled=None)
    return tuple(e.on_resamples(drawn, options) - e.on_resamples(itself(cells), options) for e in (entry, slow))


@pytest.mark.parametrize("kind", samples())
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("options", [MetricOptions(), MetricOptions(binning="width", n_bins=10), MetricOptions(p=2)])
def test_binned_metrics_are_the_same(name, kind, options):
    fast, slow = both(name, samples()[kind], options)
    if name == "ece-debiased" and kind == "weights" and options.binning == "mass":
        # Half-way between two boundaries rounding decides where an edge goes.
        assert np.median(np.abs(fast - slow)) < 1e-9
    else:
        assert fast == pytest.approx(slow, abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_sweep_is_the_same_where_only_rare_confidences_end_it(weighted):
    sample = rounded(3000)
    if weighted:
        sample = sample._replace(mass=sample.mass * 0.7, hits=sample.hits * 0.7, n=2100, weighted=True)
    fast, slow = both("ece-sweep", sample, MetricOptions(), 30)
    assert fast == pytest.approx(slow, abs=1e-9)
    assert np.unique(fast).size > 20


def test_a_sweep_to_the_last_bin_count_takes_little_memory():
    """With few distinct confidences all bins may be monotone: 1000 resamples × 64 bin counts × 2000 bins were held."""
    drawn = draw_resamples(rounded(20_000), 1000, np.random.default_rng(0))
    tracemalloc.start()
    METRICS["ece-sweep"].on_resamples(drawn, MetricOptions())
    assert tracemalloc.get_traced_memory()[1] < 150e6
    tracemalloc.stop()


@pytest.mark.parametrize("kind", samples())
@pytest.mark.parametrize("name", ["mcb", "dsc", "unc"])
def test_parts_of_the_brier_score_are_the_same(name, kind):
    fast, slow = both(name, samples()[kind], MetricOptions())
    assert fast == pytest.approx(slow, abs=1e-12)


@pytest.mark.parametrize("kind", samples())
@pytest.mark.parametrize("name", CLOSE)
def test_the_others_differ_by_little_of_their_noise(name, kind):
    fast, slow = both(name, samples()[kind], MetricOptions(), 40)
    assert fast.std() == pytest.approx(slow.std(), rel=0.1)
    assert np.sqrt(np.mean((fast - slow) ** 2)) < 0.3 * slow.std()


@pytest.mark.parametrize("name", ["tce-bpm"])
@pytest.mark.parametrize(
    "options", [MetricOptions(density="empirical"), MetricOptions(variant="authors"), MetricOptions(p=2)]
)
def test_tce_bpm_follows_its_options(name, options):
    fast, slow = both(name, simulate(TRUTHS["D4"], 1000, np.random.default_rng(3)).sample(), options, 15)
    assert np.sqrt(np.mean((fast - slow) ** 2)) < 0.3 * slow.std()


def test_resamples_of_one_outcome_have_values():
    sample = sample_from_confidences(np.linspace(0.6, 0.99, 200), np.ones(200))
    drawn = draw_resamples(merged(sample), 5, np.random.default_rng(0))
    for name, entry in METRICS.items():
        if not entry.posterior and not entry.needs_classes and name != "auroc":  # auroc needs both outcomes
            found = entry.on_resamples(drawn, MetricOptions())
            slow = entry._replace(resampled=None).on_resamples(drawn, MetricOptions())
            assert found == pytest.approx(slow, abs=2e-3), name


def test_too_few_rows_for_the_fit_are_missing_values():
    sample = sample_from_confidences(np.linspace(0.6, 0.99, 30), np.arange(30) % 2)
    drawn = draw_resamples(merged(sample), 5, np.random.default_rng(0))
    assert np.isnan(METRICS["tce-bpm"].on_resamples(drawn, MetricOptions())).all()


def test_a_singular_matrix_among_many_is_solved_by_the_shortest_step():
    from bpmcli.core.metrics.resampled_bpm import _solved

    matrices = np.stack([np.eye(3), np.diag([2.0, 4.0, 0.0])])
    right = np.ones((2, 3, 1))
    assert _solved(matrices, right)[:, :, 0].tolist() == [[1.0, 1.0, 1.0], [0.5, 0.25, 0.0]]
