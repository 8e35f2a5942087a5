"""What a reliability diagram shows."""

from __future__ import annotations

import numpy as np
import pytest

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.curves.averaged.mixture import fit_averaged
from bpmcli.core.data.sample import Sample, sample_from_confidences, sample_from_log_odds
from bpmcli.core.metrics.axis import CONFIDENCE, LOG_ODDS, axis_for, axis_over, common_axis
from bpmcli.core.metrics.reliability import reliability


def drawn(name: str, n: int, seed: int = 0) -> Sample:
    rows = simulate(TRUTHS[name], n, np.random.default_rng(seed))
    return sample_from_log_odds(rows.log_odds, rows.hits)


def test_the_curve_is_the_averaged_one_inside_its_band():
    sample = drawn("D4", 2000)
    found = reliability(sample)
    assert np.array_equal(found.curve, fit_averaged(sample)(found.log_odds)[0])
    assert np.all(found.low <= found.curve)
    assert np.all(found.curve <= found.high)
    assert found.n == 2000
    assert len(found.bins) == 15


def test_the_band_holds_the_true_curve_mostly():
    truth = TRUTHS["D5"]
    shares = []
    for seed in range(10):
        found = reliability(drawn("D5", 2000, seed))
        g = truth.curve(found.log_odds)[0]
        shares.append(np.mean((found.low <= g) & (g <= found.high)))
    assert 0.8 < np.mean(shares) <= 1.0


def test_the_curve_stays_where_there_are_rows():
    found = reliability(sample_from_confidences([0.6, 0.7, 0.75, 0.9], [1, 0, 1, 1]))
    assert found.confidence[0] == pytest.approx(0.6)
    assert found.confidence[-1] == pytest.approx(0.9)


@pytest.mark.parametrize(("extreme", "axis"), [(49, CONFIDENCE), (50, CONFIDENCE), (51, LOG_ODDS)])
def test_the_axis_changes_when_most_confidences_are_extreme(extreme, axis):
    s = [0.995] * extreme + [0.8] * (100 - extreme)
    assert axis_for(sample_from_confidences(s, [1] * 100)) == axis
    low = [0.045] * extreme + [0.8] * (100 - extreme)
    assert axis_for(sample_from_confidences(low, [0] * 100)) == axis
    common = [0.055, 0.985] * 50
    assert axis_for(sample_from_confidences(common, [0] * 100)) == CONFIDENCE


def test_bins_without_an_event_do_not_stretch_the_axis():
    rng = np.random.default_rng(0)
    s = np.exp(rng.uniform(np.log(0.002), np.log(0.4), 1500))
    found = reliability(sample_from_confidences(s, (rng.random(1500) < s).astype(int)))
    assert found.axis.kind == LOG_ODDS
    assert min(b["accuracy"] for b in found.bins) == 0
    assert found.at_the_edge() == ["bottom edge: 0 %"]
    assert found.axis.probabilities(np.array([0.0])) > 0.0005
    assert np.all((found.axis.share(found.curve) >= -1e-9) & (found.axis.share(found.curve) <= 1 + 1e-9))


def test_a_common_axis_shows_only_what_its_models_show():
    rare = axis_over(LOG_ODDS, np.array([0.001, 0.8]))
    other = axis_over(CONFIDENCE, np.array([0.0005, 0.9]))
    axis = common_axis([rare, rare, other])
    assert axis.kind == LOG_ODDS
    assert axis.probabilities(np.array([0.0, 1.0])) == pytest.approx([0.0005, 0.9])
    assert common_axis([other, other, rare])[:3] == (CONFIDENCE, 0.0, 1.0)


@pytest.mark.parametrize("axis", [CONFIDENCE, LOG_ODDS])
@pytest.mark.parametrize("s", [[0.7], [1.0, 1.0], [0.0, 0.5, 1.0], [0.3] * 40])
def test_every_row_is_in_the_histogram(s, axis):
    found = reliability(sample_from_confidences(s, [1] * len(s)), axis=axis)
    assert found.mass.sum() == pytest.approx(1.0)
    assert np.all(np.isfinite(found.curve))


def test_the_histogram_counts_rows_where_they_are():
    s = np.array([0.105] * 3 + [0.905])
    found = reliability(sample_from_confidences(s, [1, 0, 1, 1]), axis=CONFIDENCE)
    cell = np.searchsorted(found.edges, np.log(s / (1 - s))) - 1
    assert found.mass[cell[0]] == 0.75
    assert found.mass[cell[-1]] == 0.25


def test_weights_count_in_the_histogram():
    found = reliability(sample_from_confidences([0.2, 0.8], [0, 1], weights=[3.0, 1.0]), axis=CONFIDENCE)
    assert sorted(found.mass[found.mass > 0].tolist()) == pytest.approx([0.25, 0.75])
