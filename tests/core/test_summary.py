"""Summaries against the rows they came from: exact where they can be, bounded where not, the same in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import rows

from bpmcli.core.binning import scheme_counts
from bpmcli.core.bpm import fit_bpm
from bpmcli.core.density import beta_by_moments
from bpmcli.core.merging import FAN_IN, blocks, merge, merge_all
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.noise import calibrated_hits
from bpmcli.core.reduce import log_odds_of_confidences
from bpmcli.core.sample import LOG_ODDS_LIMIT, sample_from_log_odds, sigmoid
from bpmcli.core.simulate import TRUTHS, simulate
from bpmcli.core.summary import Accumulator, Summary, edge_bound, summary_of
from bpmcli.errors import DataError, FitError

CAP = (600, 3000)


def harder(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The curves of SPEC 9 on which ECE, KS and smECE are not just the mean gap; and float32 that saturates."""
    rng = np.random.default_rng(11)
    if name == "bent":
        x = log_odds_of_confidences(rng.beta(1.5, 0.5, n))
        return x, rng.random(n) < sigmoid(0.4 + 0.6 * x)
    if name == "calibrated":
        s = rng.beta(2, 0.4, n)
        return log_odds_of_confidences(s), rng.random(n) < s
    x = log_odds_of_confidences(rng.beta(5, 0.3, n).astype(np.float32))
    return x, rng.random(n) < sigmoid(0.8 * x - 0.3)


def same(a: Summary, b: Summary) -> bool:
    arrays = all(np.array_equal(getattr(a, f), getattr(b, f)) for f in ("cells", "count", "hits", "excess"))
    return arrays and (a.n, a.squares, a.weight_squares) == (b.n, b.squares, b.weight_squares)


@pytest.mark.parametrize("name", ["bent", "calibrated", "saturated", "D1"])
def test_a_million_rows_within_the_promised_error(name):
    n = 1_000_000
    if name in TRUTHS:
        drawn = simulate(TRUTHS[name], n, np.random.default_rng(3))
        x, hits = drawn.log_odds, drawn.hits
    else:
        x, hits = harder(name, n)
    exact, cells = sample_from_log_odds(x, hits), summary_of(x, np.asarray(hits, dtype=bool)).to_sample()
    assert cells.mass.size < 150_000
    assert cells.accuracy == exact.accuracy
    assert abs(cells.mean_gap - exact.mean_gap) < 1e-12
    there = measure(exact, options=MetricOptions(bins=CAP))
    here = measure(cells)
    for metric, found in here.items():
        assert abs(found.value - there[metric].value) < (1e-3 if metric == "ece-sweep" else 1e-5), metric
    assert here["ece-sweep"].details["approximate"] is True
    assert "approximate" not in there["ece-sweep"].details
    at = np.linspace(-8, 8, 400)
    assert np.abs(fit_bpm(exact, bins=CAP).curve(at)[0] - fit_bpm(cells).curve(at)[0]).max() < 1e-5


@given(rows(), st.integers(1, 5), st.randoms())
@settings(max_examples=25, deadline=None)
def test_merging_gives_the_same_bits_in_any_order_and_split(data, pieces, random):
    x, hits = log_odds_of_confidences(data[0]), data[1]
    cuts = sorted(random.randrange(x.size + 1) for _ in range(pieces - 1))
    parts = [
        summary_of(a, b)
        for a, b in zip(np.split(x, cuts), np.split(hits, cuts), strict=True)
    ]  # fmt: skip
    first = merge(parts)
    random.shuffle(parts)
    assert same(first, merge(parts))
    whole, order = summary_of(x, hits), np.array(random.sample(range(x.size), x.size))
    assert np.array_equal(first.excess, whole.excess)
    assert np.array_equal(first.count, whole.count)
    assert np.array_equal(summary_of(x[order], hits[order]).excess, whole.excess)


@given(rows())
@settings(max_examples=60, deadline=None)
def test_counts_means_and_moments_are_those_of_the_rows(data):
    x, hits = log_odds_of_confidences(data[0]), data[1]
    exact, cells = sample_from_log_odds(x, hits), summary_of(x, hits).to_sample()
    assert (cells.n, cells.effective_n, cells.accuracy) == (exact.n, exact.effective_n, exact.accuracy)
    assert cells.mean_confidence == pytest.approx(exact.mean_confidence, rel=3e-10)
    assert cells.mean_gap == pytest.approx(exact.mean_gap, rel=1e-9, abs=1e-10)
    assert (np.diff(cells.log_odds) > 0).all()
    a, b = beta_by_moments(exact), beta_by_moments(cells)
    assert (a is None) == (b is None)
    if a is not None and a.a1 < 1e6:
        assert b == pytest.approx(a, rel=1e-6)


@given(rows(min_size=20, max_size=400))
@settings(max_examples=60, deadline=None)
def test_ece_keeps_its_stated_bound(data):
    x, hits = log_odds_of_confidences(data[0]), data[1]
    exact, cells = sample_from_log_odds(x, hits), summary_of(x, hits).to_sample()
    difference = abs(measure(exact, ["ece"])["ece"].value - measure(cells, ["ece"])["ece"].value)
    assert difference <= edge_bound(cells) + 1e-9


def test_ks_is_exact_at_the_ends_of_cells():
    x, hits = harder("bent", 20_000)
    exact, cells = sample_from_log_odds(x, hits), summary_of(x, hits).to_sample()
    largest = float((cells.mass / cells.n).max())
    assert abs(measure(exact, ["ks"])["ks"].value - measure(cells, ["ks"])["ks"].value) <= largest


def test_bare_confidences_go_the_fast_way_to_the_same_place():
    rng = np.random.default_rng(0)
    for kind in (np.float64, np.float32):
        s = np.concatenate([rng.beta(2, 0.4, 5000), [0.0, 1.0, 0.5, 0.25, 1e-30, 1 - 2**-53]]).astype(kind)
        hits = rng.random(s.size) < 0.7
        fast = Accumulator()
        assert fast.add_confidences(s, hits)
        a, b = fast.summary().to_sample(), summary_of(log_odds_of_confidences(s), hits).to_sample()
        assert a.n == b.n
        assert a.mean_gap == pytest.approx(b.mean_gap, rel=1e-12)
        assert a.log_odds[[0, -1]] == pytest.approx(b.log_odds[[0, -1]], rel=1e-9)


@pytest.mark.parametrize("bad", [np.nan, -0.1, 1.2, np.inf])
@pytest.mark.parametrize("n", [10, 70_000])
def test_what_is_no_confidence_is_not_added(bad, n):
    s = np.full(n, 0.5)
    s[-1] = bad
    total = Accumulator()
    assert not total.add_confidences(s, np.ones(n, dtype=bool))
    assert total.n == 0


def test_float32_confidences_are_summed_exactly():
    s = np.random.default_rng(1).beta(2, 0.4, 10_000).astype(np.float32)
    total = Accumulator()
    total.add_confidences(s, np.ones(s.size, dtype=bool))
    sample = total.summary().to_sample()
    from math import fsum

    misses = fsum(1.0 - s.astype(np.float64))
    assert float(np.dot(sample.mass, sample.complements)) == pytest.approx(misses, rel=1e-15)


def test_extreme_log_odds_have_cells_of_their_own():
    x = np.array([-LOG_ODDS_LIMIT, -100.0, -1e-12, 0.0, 1e-12, 100.0, LOG_ODDS_LIMIT])
    sample = summary_of(x, np.ones(x.size, dtype=bool)).to_sample()
    assert sample.log_odds[[0, -1]] == pytest.approx(x[[0, -1]], rel=1e-12)
    assert sample.log_odds[[1, -2]] == pytest.approx(x[[1, -2]], rel=1e-6)


def test_weights_count_as_repeated_rows():
    rng = np.random.default_rng(2)
    x, hits, weights = rng.normal(1, 2, 3000), rng.random(3000) < 0.7, rng.integers(0, 4, 3000)
    weighted = summary_of(x, hits, weights.astype(float)).to_sample()
    repeated = summary_of(np.repeat(x, weights), np.repeat(hits, weights)).to_sample()
    assert weighted.weighted
    assert weighted.n == int((weights > 0).sum())
    for name in ("ece", "ks", "smece", "ls-ece"):
        assert measure(weighted, [name])[name].value == pytest.approx(measure(repeated, [name])[name].value, rel=2e-3)
    exact = sample_from_log_odds(x, hits, weights.astype(float))
    assert weighted.effective_n == pytest.approx(exact.effective_n, rel=1e-12)
    assert beta_by_moments(weighted) == pytest.approx(beta_by_moments(exact), rel=1e-9)


def test_weighted_and_unweighted_parts_add_up():
    rng = np.random.default_rng(3)
    x, hits = rng.normal(size=400), rng.random(400) < 0.5
    mixed = merge([summary_of(x[:200], hits[:200]), summary_of(x[200:], hits[200:], np.ones(200))])
    whole = summary_of(x, hits, np.ones(400))
    assert mixed.weight_squares == whole.weight_squares == 400.0
    assert np.array_equal(mixed.count, whole.count)
    total = Accumulator()
    total.add(x[:200], hits[:200])
    total.add(x[200:], hits[200:], np.ones(200))
    assert np.array_equal(total.summary().count, whole.count)
    with pytest.raises(DataError, match="not negative"):
        total.add(x, hits, -np.ones(400))


def test_the_tree_is_the_same_level_by_level():
    rng = np.random.default_rng(4)
    parts = [summary_of(rng.normal(size=50), rng.random(50) < 0.5, rng.random(50)) for _ in range(2 * FAN_IN + 5)]
    level = parts
    while len(level) > 1:
        level = [merge(block) for block in blocks(level)]
    assert same(merge_all(iter(parts)), level[0])


def test_many_small_batches_equal_one_large():
    rng = np.random.default_rng(5)
    x, hits = rng.normal(1, 3, 100_000), rng.random(100_000) < 0.8
    total = Accumulator()
    for part in np.array_split(np.arange(x.size), 37):
        total.add(x[part], hits[part])
    assert np.array_equal(total.summary().excess, summary_of(x, hits).excess)


def test_a_summary_fits_at_most_three_thousand_bins():
    assert scheme_counts(10**6, capped=True).max() == CAP[1]
    assert scheme_counts(10**6, capped=True).min() == CAP[0]
    assert scheme_counts(1000, capped=True).tolist() == scheme_counts(1000).tolist()
    cells = summary_of(*harder("bent", 5000)).to_sample()
    with pytest.raises(FitError, match="not available from a summary"):
        fit_bpm(cells, variant="authors")


def test_noise_of_a_weighted_summary_is_that_of_its_rows():
    rng = np.random.default_rng(6)
    x, weights = rng.normal(1, 2, 20_000), rng.random(20_000) + 0.5
    sample = summary_of(x, np.ones(x.size, dtype=bool), weights).to_sample()
    rates = [calibrated_hits(sample, rng).sum() / sample.n for _ in range(200)]
    s = sigmoid(x)
    expected = np.sqrt(np.sum(weights**2 * s * (1 - s))) / weights.sum()
    assert np.std(rates) == pytest.approx(expected, rel=0.2)


def test_an_empty_summary_has_no_sample():
    with pytest.raises(DataError, match="no rows"):
        Accumulator().summary().to_sample()
