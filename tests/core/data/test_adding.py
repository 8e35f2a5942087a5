"""Sums that need no order: the same bits in any order, and no sort where none is needed."""

from __future__ import annotations

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bpmcli.core.data import adding
from bpmcli.core.data import sample as sample_module
from bpmcli.core.data.binning import bins_between, make_bins, width_edges
from bpmcli.core.data.rows import Rows, facts_of
from bpmcli.core.data.sample import Sample, sample_from_confidences, sample_from_log_odds
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.errors import DataError

WIDTH = MetricOptions(binning="width")


def rows(kind: str, n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = {
        "plain": rng.normal(1, 2, n),
        "tied": rng.integers(-8, 9, n) / 4,
        "saturated": rng.normal(0, 60, n),
        "constant": np.full(n, 0.3),
    }[kind]
    return x, rng.random(n) < 1 / (1 + np.exp(-x))


KINDS = ("plain", "tied", "saturated", "constant")


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_rows_changes_no_bit(kind):
    x, hits = rows(kind)
    found = []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(x.size)
        sample = sample_from_log_odds(x[order], hits[order])
        if seed == 4:
            assert sample.in_any_order.mass is None
            assert sample.log_odds.size  # sorted before it is measured
            assert "in_any_order" not in sample.__dict__, "what was computed before the sort would take memory twice"
        ece = measure(sample, ["ece"], WIDTH)["ece"].value
        found.append((ece, sample.mean_confidence, sample.accuracy, sample.saturated, sample.one_outcome))
    assert len(set(found)) == 1, found


@pytest.mark.parametrize("n_bins", [1, 2, 3, 10, 15, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_bins_are_those_of_the_sorted_sample(kind, n_bins):
    x, hits = rows(kind)
    found = make_bins(sample_from_log_odds(x, hits), n_bins, "width")
    sample = sample_from_log_odds(x, hits)
    positions, _ = width_edges(sample, n_bins)
    expected = bins_between(positions[:-1], positions[1:], sample)
    np.testing.assert_array_equal(found.mass, expected.mass)
    np.testing.assert_array_equal(found.accuracies, expected.accuracies)
    np.testing.assert_allclose(found.confidences, expected.confidences, rtol=1e-11)
    np.testing.assert_allclose(found.complements, expected.complements, rtol=1e-11)
    np.testing.assert_allclose(found.gaps, expected.gaps, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_confidence_on_an_edge_is_in_the_bin_above(kind):
    for n_bins in range(1, 60):
        on_edges = (np.arange(n_bins + 1) / n_bins).astype(kind)
        sample = sample_from_confidences(np.repeat(on_edges, n_bins), np.ones(n_bins * (n_bins + 1)))
        expected = np.full(n_bins, float(n_bins))
        expected[-1] += n_bins  # 1 is in the last bin
        np.testing.assert_array_equal(make_bins(sample, n_bins, "width").mass, expected)


def test_just_below_an_edge_is_in_the_bin_below():
    sample = sample_from_confidences(np.repeat([0.2999, 0.3, 0.3001], 10), np.ones(30))
    np.testing.assert_array_equal(make_bins(sample, 10, "width").mass, [10.0, 20.0])


@pytest.mark.parametrize("n_bins", [2, 15])
@pytest.mark.parametrize("x", [40.0, 100.0, 690.0])
def test_tiny_complements_keep_their_relative_precision(x, n_bins):
    options = WIDTH._replace(n_bins=n_bins)
    value = measure(sample_from_log_odds([x] * 50 + [x + 1] * 50, np.ones(100)), ["ece"], options)["ece"].value
    assert value == pytest.approx((math.exp(-x) + math.exp(-x - 1)) / 2, rel=1e-9, abs=0)
    for n in (1, n_bins):
        sample = sample_from_log_odds([-x] * 100, np.zeros(100))
        value = measure(sample, ["ece"], options._replace(n_bins=n))["ece"].value
        assert value == pytest.approx(math.exp(-x), rel=1e-9, abs=0)


def test_totals_are_those_of_exact_arithmetic():
    values = np.random.default_rng(0).random(10_000) ** 4
    assert adding.total(values, None) == pytest.approx(math.fsum(values), rel=1e-15, abs=0)
    mass = np.arange(10_000.0) % 7
    assert adding.total(values, mass) == pytest.approx(math.fsum(values * mass), rel=1e-14, abs=0)


def no_sort(*_: object) -> None:
    raise AssertionError("sorted")


def test_what_needs_no_order_is_not_sorted(monkeypatch):
    monkeypatch.setattr(sample_module, "sorted_cells", no_sort)
    read = Rows(*rows("plain"))
    assert measure(read.sample, ["ece", "ece-debiased"], WIDTH)["ece"].value > 0
    assert facts_of(read, read.sample)["n"] == 3000
    with pytest.raises(AssertionError, match="sorted"):
        measure(read.sample, ["ece"])


def test_many_rows_are_sorted_at_once(monkeypatch):
    monkeypatch.setattr(adding, "MOST_ROWS", 10)
    monkeypatch.setattr(sample_module, "sorted_cells", no_sort)
    with pytest.raises(AssertionError, match="sorted"):
        sample_from_log_odds(*rows("plain"))


@pytest.mark.parametrize("again", [copy.copy, lambda sample: pickle.loads(pickle.dumps(sample)), Sample._replace])
def test_copies_do_not_disturb_each_other(again):
    x, hits = rows("plain")
    first = sample_from_log_odds(x, hits)
    second = again(first)
    for sample in (first, second):
        order = np.argsort(x)
        np.testing.assert_allclose(sample.log_odds, x[order], rtol=1e-15)
        np.testing.assert_array_equal(sample.hits, hits[order])
    with pytest.raises(AttributeError):
        _ = first.unheard_of


def test_threads_may_sort_a_sample_at_the_same_time():
    rng = np.random.default_rng(3)
    x = rng.normal(size=200_000)
    expected = np.sort(x)[-1]
    for _ in range(5):
        sample = sample_from_log_odds(x, np.zeros(x.size))
        with ThreadPoolExecutor(4) as pool:
            sorted_by_each = list(pool.map(lambda shared: shared.log_odds, [sample] * 8))
        assert [x[-1] for x in sorted_by_each] == pytest.approx([expected] * 8)


def test_a_sample_that_is_not_sorted_yet_can_be_copied_and_replaced():
    sample = sample_from_log_odds([2.0, 1.0], [1, 0])
    assert copy.copy(sample)._replace(n=5).log_odds.tolist() == sample.log_odds.tolist() == [1.0, 2.0]
    with pytest.raises(AttributeError, match="nothing"):
        _ = sample.nothing


@pytest.mark.parametrize(
    ("x", "hits", "expected"),
    [
        ([2.0, -1.0, 0.5], [1, 0, 1], ([-1.0, 0.5, 2.0], [1, 1, 1], [0, 1, 1])),
        ([0.5, 2.0, 0.5, 0.5], [1, 0, 0, 1], ([0.5, 2.0], [3, 1], [2, 0])),
        ([1.0, 2.0, 2.0], [1, 1, 0], ([1.0, 2.0], [1, 2], [1, 1])),
        ([3.0, 3.0], [0, 0], ([3.0], [2], [0])),
    ],
)
def test_rows_with_one_log_odds_share_a_cell(x, hits, expected):
    found = adding.sorted_cells(np.array(x), np.array(hits, bool))
    assert tuple(part.tolist() for part in found) == expected


def test_weights_are_scaled_to_the_number_of_rows():
    x, hits = np.array([2.0, 1.0, 2.0, 3.0, 4.0]), np.array([1, 0, 0, 1, 1], bool)
    for scale in (1.0, 1e-200, 1e300):  # neither sums nor squares overflow
        weights = scale * np.array([1.0, 2.0, 3.0, 4.0, 0.0])
        cells, mass, right, n, effective = adding.weighted_cells(x, hits, weights)
        assert cells.tolist() == [1.0, 2.0, 3.0]
        assert n == 4  # a weight of zero is no row
        assert mass == pytest.approx(np.array([2.0, 4.0, 4.0]) * 4 / 10)
        assert right == pytest.approx(np.array([0.0, 1.0, 4.0]) * 4 / 10)
        assert effective == pytest.approx(10**2 / (1 + 4 + 9 + 16))


def test_tiny_weights_count_as_zero():
    """Their squares would be 0."""
    for weight, rows in ((1e-149, 2), (1e-151, 1)):
        assert adding.weighted_cells(np.array([1.0, 2.0]), np.ones(2, bool), np.array([1.0, weight]))[3] == rows


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, 2.0], "3 confidences but 2 weights"),
        ([1.0, np.nan, 1.0], r"weights must be finite and not negative, found nan \(row 2\)"),
        ([1.0, 1.0, np.inf], r"found inf \(row 3\)"),
        ([-0.5, 1.0, -1.0], r"found -0.5 \(row 1\)"),
        ([0.0, 0.0, 0.0], "all weights are zero"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights, words):
    with pytest.raises(DataError, match=words):
        adding.weighted_cells(np.arange(3.0), np.ones(3, bool), np.array(weights))


def test_weighted_sums_do_not_depend_on_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    x, hits, weights = rng.integers(0, 5, 300) / 4, rng.random(300) < 0.5, rng.random(300)
    first = adding.weighted_cells(x, hits, weights)
    order = rng.permutation(300)
    again = adding.weighted_cells(x[order], hits[order], weights[order])
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one, other), "not bit for bit"


def test_sums_of_terms_are_exact_to_60_bits_of_the_largest():
    bins, largest = np.array([0, 0, 1]), np.array([0.75, 2.0**-1009])
    values = np.array([0.5 + 2.0**-52, 2.0**-60, 2.0**-1010])
    found = adding.totals(values, np.array([1.0, 3.0, 2.0]), bins, largest)
    assert found.tolist() == [0.5 + 2.0**-52, 2.0**-1009]
    many = np.full(1000, 2.0**-55)
    assert adding.totals(many, None, np.zeros(1000, int), np.ones(1)).tolist() == [1000 * 2.0**-55]
    assert adding.total(many, None) == 1000 * 2.0**-55
