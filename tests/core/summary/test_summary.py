"""Summaries against the rows they came from: exact while values are few, bounded beyond, the same in any order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import rows

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.curves.bpm import fit_bpm
from bpmcli.core.curves.tce import beta_by_moments
from bpmcli.core.data.binning import scheme_counts
from bpmcli.core.data.log_odds import log_odds_of_confidences
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, sample_from_log_odds, sigmoid
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.metrics.noise_floor import calibrated_hits
from bpmcli.core.summary import cell_table, distinct
from bpmcli.core.summary.merging import FAN_IN, blocks, merge, merge_all
from bpmcli.core.summary.summary import Accumulator, Summary, edge_bound, summary_of
from bpmcli.errors import DataError, FitError

CAP = (600, 3000)


def harder(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Curves on which ECE, KS and smECE are not just the mean gap, and float32 confidences that saturate."""
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
    kept = (a.values is None) == (b.values is None) and (a.values is None or np.array_equal(a.values, b.values))
    arrays = all(np.array_equal(getattr(a, f), getattr(b, f)) for f in ("cells", "count", "hits", "excess"))
    return kept and arrays and (a.n, a.weight_squares) == (b.n, b.weight_squares)


@contextmanager
def limit(values: int) -> Iterator[None]:
    """The number of distinct values that are kept; with more, rows are counted in cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distinct, "LIMIT", values)
        patch.setattr(distinct, "FIRST_LOOK", 8)  # few rows are counted at once, and looked up from then on
        yield


def in_cells(x: np.ndarray, hits: np.ndarray, weights: np.ndarray | None = None) -> Summary:
    with limit(0):
        return summary_of(x, hits, weights)


@pytest.mark.parametrize("name", ["bent", "calibrated", "saturated", "D1"])
def test_many_rows_within_the_promised_error(name):
    n = 300_000
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


@given(rows(), st.integers(1, 5), st.sampled_from([0, 3, 20, 10**6]), st.randoms())
@settings(max_examples=80, deadline=None)
def test_any_order_and_split_gives_the_same_bits(data, pieces, kept, random):
    # Rounded: what differs by 1e-16 at one half is one value.
    x, hits = log_odds_of_confidences(data[0]).round(9), data[1]
    order = np.array(random.sample(range(x.size), x.size))
    cuts = sorted(random.randrange(x.size + 1) for _ in range(pieces - 1))
    with limit(kept):
        whole = summary_of(x, hits)
        assert (whole.values is None) == (np.unique(x).size > kept)
        assert same(summary_of(x[order], hits[order]), whole)
        parts = [
            summary_of(a, b)
            for a, b in zip(np.split(x[order], cuts), np.split(hits[order], cuts), strict=True)
        ]  # fmt: skip
        assert same(merge(parts), whole)
        total = Accumulator()
        for a, b in zip(np.split(x[order], cuts), np.split(hits[order], cuts), strict=True):
            total.add(a, b)
        assert same(total.summary(), whole)
        random.shuffle(parts)
        assert same(merge_all(parts), whole)


@given(rows(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_few_values_are_the_sample_itself(data, bare):
    s, hits = data
    x = log_odds_of_confidences(s)
    total = Accumulator()
    if bare:
        assert total.add_confidences(s, hits)
    else:
        x = x.round(9)  # what differs by 1e-16 at one half is one value
        total.add(x, hits)
    exact, kept = sample_from_log_odds(x, hits), total.summary().to_sample()
    assert kept.from_summary
    assert not kept.summarised
    assert (kept.n, kept.untied) == (exact.n, exact.untied)
    assert np.array_equal(kept.mass, exact.mass)
    assert np.array_equal(kept.hits, exact.hits)
    assert kept.log_odds == pytest.approx(exact.log_odds, rel=1e-14, abs=1e-14)
    assert edge_bound(kept) == 0.0
    measured = measure(exact)
    for name, found in measure(kept).items():
        there = measured[name].value
        assert (found.value is None) == (there is None), name
        # A fit may lie flat; everything else is the same sums.
        assert there is None or found.value == pytest.approx(there, abs=1e-6 if name == "tce-bpm" else 1e-12), name


def test_repeated_rows_keep_their_values_however_many():
    rng = np.random.default_rng(7)
    x, hits = log_odds_of_confidences(rng.beta(2, 0.4, 30_000)), rng.random(30_000) < 0.8
    many = np.concatenate([rng.permutation(30_000) for _ in range(20)])
    exact, kept = sample_from_log_odds(x[many], hits[many]), summary_of(x[many], hits[many])
    assert kept.values is not None
    assert kept.values.size == 30_000
    there, here = (
        measure(exact, options=MetricOptions(bins=CAP)),
        measure(kept.to_sample(), options=MetricOptions(bins=CAP)),
    )
    for metric, found in here.items():
        assert found.value == pytest.approx(there[metric].value, abs=1e-10), metric


@pytest.mark.parametrize("n", [distinct.LIMIT, distinct.LIMIT + 1])
def test_the_limit_is_kept_to_the_row(n):
    x = np.random.default_rng(8).permutation(np.linspace(-5, 5, n))
    found = summary_of(np.tile(x, 3), np.ones(3 * n, dtype=bool))
    assert (found.values is not None) == (n <= distinct.LIMIT)
    assert found.n == 3 * n


def test_values_that_share_a_slot_are_told_apart(monkeypatch):
    """One slot for all: only one value is ever found there, the others are counted the long way."""
    monkeypatch.setattr(distinct, "_slots", lambda codes, bits: np.zeros(codes.size, dtype=np.int64))
    rng = np.random.default_rng(10)
    x, hits, weights = rng.integers(-9, 9, 3000) / 4, rng.random(3000) < 0.5, rng.random(3000)
    total, mixed = Accumulator(), Accumulator()
    with limit(100):
        for rows in np.array_split(np.arange(3000), 20):
            total.add(x[rows], hits[rows])
            mixed.add(x[rows], hits[rows], weights[rows] if rows[0] > 2000 else None)
        exact, found = sample_from_log_odds(x, hits), total.summary().to_sample()
    assert np.array_equal(found.mass, exact.mass)
    assert np.array_equal(found.hits, exact.hits)
    weights[:2100] = 1.0
    there, here = sample_from_log_odds(x, hits, weights), mixed.summary().to_sample()
    assert here.mass == pytest.approx(there.mass, rel=1e-12)
    assert here.hits == pytest.approx(there.hits, rel=1e-12)
    assert here.effective_n == pytest.approx(there.effective_n, rel=1e-12)


def test_a_full_place_is_emptied_in_time(monkeypatch):
    """Half of the rows in one cell, more of them than fit into one number at a time."""
    monkeypatch.setattr(cell_table, "ROWS_A_PLACE", 1 << 18)
    monkeypatch.setattr(cell_table, "_COUNT_AT", 62 - 17)
    monkeypatch.setattr(cell_table, "_LOW_SUM", (1 << 45) - 1)
    rng = np.random.default_rng(9)
    s = np.where(rng.random(2_000_000) < 0.5, 0.75, rng.random(2_000_000)).astype(np.float32)
    hits = rng.random(s.size) < s
    total = Accumulator()
    assert total.add_confidences(s, hits)
    found = total.summary()
    assert found.values is None
    assert (int(found.count.sum()), int(found.hits.sum())) == (s.size, int(hits.sum()))
    complements = 1.0 - s.astype(np.float64)
    sample = found.to_sample()
    assert float(np.dot(sample.mass, sample.complements)) == pytest.approx(float(complements.sum()), rel=1e-13)


@given(rows())
@settings(max_examples=60, deadline=None)
def test_counts_means_and_moments_are_those_of_the_rows(data):
    x, hits = log_odds_of_confidences(data[0]), data[1]
    exact, cells = sample_from_log_odds(x, hits), in_cells(x, hits).to_sample()
    assert (cells.n, cells.effective_n, cells.accuracy) == (exact.n, exact.effective_n, exact.accuracy)
    assert cells.mean_confidence == pytest.approx(exact.mean_confidence, rel=3e-10)
    assert cells.mean_gap == pytest.approx(exact.mean_gap, rel=1e-9, abs=1e-10)
    assert (np.diff(cells.log_odds) > 0).all()
    a, b = beta_by_moments(exact), beta_by_moments(cells)
    assert (a is None) <= (b is None) or b.a1 + b.a2 > 1e3 or min(b.a1, b.a2) < 2e-6
    # A variance of 1e-3 of the largest is a thousand times that inside the widest cell.
    if a is not None and a.a1 + a.a2 < 1e3:
        assert b == pytest.approx(a, rel=1e-6, abs=1e-9)


def test_only_zeros_and_ones_are_no_beta_whatever_rounding_says():
    for tail in ([], [1 / 3]):
        s = np.array([0.0, 0.0, 1.0, *tail])
        found = measure(sample_from_log_odds(log_odds_of_confidences(np.tile(s, 40)), np.arange(40 * s.size) % 2))
        assert 0 <= found["tce-bpm"].value <= 1


@given(rows(min_size=20, max_size=400))
@settings(max_examples=60, deadline=None)
def test_ece_keeps_its_stated_bound(data):
    x, hits = log_odds_of_confidences(data[0]), data[1]
    exact, cells = sample_from_log_odds(x, hits), in_cells(x, hits).to_sample()
    difference = abs(measure(exact, ["ece"])["ece"].value - measure(cells, ["ece"])["ece"].value)
    assert difference <= edge_bound(cells) + 1e-9


def test_ks_is_exact_at_the_ends_of_cells():
    x, hits = harder("bent", 20_000)
    exact, cells = sample_from_log_odds(x, hits), in_cells(x, hits).to_sample()
    largest = float((cells.mass / cells.n).max())
    assert abs(measure(exact, ["ks"])["ks"].value - measure(cells, ["ks"])["ks"].value) <= largest


def test_bare_confidences_go_the_fast_way_to_the_same_place():
    rng = np.random.default_rng(0)
    for kind in (np.float64, np.float32):
        s = np.concatenate([rng.beta(2, 0.4, 5000), [0.0, 1.0, 0.5, 0.25, 1e-30, 1 - 2**-53]]).astype(kind)
        hits = rng.random(s.size) < 0.7
        for kept in (0, 10**6):
            fast = Accumulator()
            with limit(kept):
                assert fast.add_confidences(s, hits)
                a, b = fast.summary().to_sample(), summary_of(log_odds_of_confidences(s), hits).to_sample()
            assert (a.n, a.summarised) == (b.n, kept == 0)
            assert a.mean_gap == pytest.approx(b.mean_gap, rel=1e-12)
            assert a.log_odds[[0, -1]] == pytest.approx(b.log_odds[[0, -1]], rel=1e-9)


def test_half_precision_goes_the_fast_way_too():
    s = np.random.default_rng(3).random(5000).astype(np.float16)
    hits = np.ones(s.size, dtype=bool)
    with limit(0):
        half, single = Accumulator(), Accumulator()
        assert half.add_confidences(s, hits)
        assert single.add_confidences(s.astype(np.float64), hits)
        assert same(half.summary(), single.summary())


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
    with limit(0):
        total.add_confidences(s, np.ones(s.size, dtype=bool))
        sample = total.summary().to_sample()
    from math import fsum

    misses = fsum(1.0 - s.astype(np.float64))
    assert float(np.dot(sample.mass, sample.complements)) == pytest.approx(misses, rel=1e-15)


def test_extreme_log_odds_have_cells_of_their_own():
    x = np.array([-LOG_ODDS_LIMIT, -100.0, -1e-12, 0.0, 1e-12, 100.0, LOG_ODDS_LIMIT])
    sample = in_cells(x, np.ones(x.size, dtype=bool)).to_sample()
    assert sample.log_odds[[0, -1]] == pytest.approx(x[[0, -1]], rel=1e-12)
    assert sample.log_odds[[1, -2]] == pytest.approx(x[[1, -2]], rel=1e-6)


@pytest.mark.parametrize("kept", [0, 10**6])
def test_weights_count_as_repeated_rows(kept):
    rng = np.random.default_rng(2)
    x, hits, weights = rng.normal(1, 2, 3000), rng.random(3000) < 0.7, rng.integers(0, 4, 3000)
    with limit(kept):
        weighted = summary_of(x, hits, weights.astype(float)).to_sample()
        repeated = summary_of(np.repeat(x, weights), np.repeat(hits, weights)).to_sample()
    assert weighted.summarised == (kept == 0)
    assert weighted.weighted
    assert weighted.n == int((weights > 0).sum())
    for name in ("ece", "ks", "smece", "ls-ece"):
        assert measure(weighted, [name])[name].value == pytest.approx(measure(repeated, [name])[name].value, rel=2e-3)
    exact = sample_from_log_odds(x, hits, weights.astype(float))
    assert weighted.effective_n == pytest.approx(exact.effective_n, rel=1e-12)
    assert beta_by_moments(weighted) == pytest.approx(beta_by_moments(exact), rel=1e-6 if kept == 0 else 1e-9)


@pytest.mark.parametrize("kept", [0, 250, 10**6])
def test_weighted_and_unweighted_parts_add_up(kept):
    """With 250, each part keeps its values and their union does not."""
    rng = np.random.default_rng(3)
    x, hits = rng.normal(size=400), rng.random(400) < 0.5
    with limit(kept):
        mixed = merge([summary_of(x[:200], hits[:200]), summary_of(x[200:], hits[200:], np.ones(200))])
        whole = summary_of(x, hits, np.ones(400))
        total = Accumulator()
        total.add(x[:200], hits[:200])
        total.add(x[200:], hits[200:], np.ones(200))
        assert same(total.summary(), whole)
        with pytest.raises(DataError, match="not negative"):
            total.add(x, hits, -np.ones(400))
    assert same(mixed, whole)
    assert whole.weight_squares == 400.0


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
    for kept in (0, 10**6):
        with limit(kept):
            total = Accumulator()
            for part in np.array_split(np.arange(x.size), 37):
                total.add(x[part], hits[part])
            assert same(total.summary(), summary_of(x, hits))


def test_a_summary_fits_at_most_three_thousand_bins():
    assert scheme_counts(10**6, capped=True).max() == CAP[1]
    assert scheme_counts(10**6, capped=True).min() == CAP[0]
    assert scheme_counts(1000, capped=True).tolist() == scheme_counts(1000).tolist()
    cells = in_cells(*harder("bent", 5000)).to_sample()
    with pytest.raises(FitError, match="not available from a summary"):
        fit_bpm(cells, variant="authors")


@pytest.mark.parametrize("distinct", [9, 20_000])  # cells of 2000 rows, and cells of one
def test_noise_of_a_weighted_summary_is_that_of_its_rows(distinct):
    rng = np.random.default_rng(6)
    x, weights = rng.choice(rng.normal(1, 2, distinct), 20_000), rng.random(20_000) + 0.5
    sample = in_cells(x, np.ones(x.size, dtype=bool), weights).to_sample()
    rates = [calibrated_hits(sample, rng).sum() / sample.n for _ in range(200)]
    s = sigmoid(x)
    expected = np.sqrt(np.sum(weights**2 * s * (1 - s))) / weights.sum()
    assert np.std(rates) == pytest.approx(expected, rel=0.2)


def test_an_empty_summary_has_no_sample():
    with pytest.raises(DataError, match="no rows"):
        Accumulator().summary().to_sample()


def test_schemes_of_kept_values_stop_at_3000_bins_too():
    rng = np.random.default_rng(3)
    x = np.round(rng.normal(2, 2, 80_000), 2)
    sample = summary_of(x, rng.random(80_000) < sigmoid(x)).to_sample()
    assert not sample.summarised  # few distinct values, all kept
    assert max(fit_bpm(sample).schemes) == CAP[1]
