"""Bins against numpy.array_split and direct means, and the bin counts of the paper and of its authors."""

from __future__ import annotations

import numpy as np
import pytest
from definitions import spread_ties

from bpmcli.core.data import adding
from bpmcli.core.data.binning import (
    Bins,
    array_split_edges,
    author_scheme_bins,
    bins_between,
    equal_mass_bins,
    make_bins,
    mass_edges,
    scheme_bins,
    scheme_counts,
    width_edges,
)
from bpmcli.core.data.sample import Sample, sample_from_confidences
from bpmcli.core.metrics.bin_table import bin_table
from bpmcli.errors import FitError


def tied(*sizes: int) -> Sample:
    """Runs of equal confidence with these many rows each."""
    s = np.repeat(0.5 + 0.4 * (np.arange(len(sizes)) + 1) / len(sizes), sizes)
    return sample_from_confidences(s, np.ones(s.size))


@pytest.mark.parametrize(("n", "n_bins"), [(1, 1), (7, 3), (12, 4), (100, 15), (15, 15), (29, 15)])
def test_edges_are_those_of_array_split(n, n_bins):
    parts = np.array_split(np.arange(n), n_bins)
    assert array_split_edges(n, n_bins).tolist() == [0, *np.cumsum([part.size for part in parts])]


@pytest.mark.parametrize("levels", [None, 9])
@pytest.mark.parametrize("n_bins", [1, 7, 200])
def test_equal_mass_bins_are_means_over_array_split(levels, n_bins):
    rng = np.random.default_rng(n_bins)
    s = rng.random(100) if levels is None else rng.integers(1, levels, 100) / levels
    h = rng.random(100) < s
    bins = equal_mass_bins(sample_from_confidences(s, h), n_bins)
    ss, hh = spread_ties(s, h)
    parts = np.array_split(np.arange(100), min(n_bins, 100))
    assert bins.mass.tolist() == [part.size for part in parts]
    np.testing.assert_allclose(bins.confidences, [ss[part].mean() for part in parts], atol=1e-13)
    np.testing.assert_allclose(bins.complements, [1 - ss[part].mean() for part in parts], atol=1e-13)
    np.testing.assert_allclose(bins.accuracies, [hh[part].mean() for part in parts], atol=1e-13)
    np.testing.assert_allclose(bins.gaps, [hh[part].mean() - ss[part].mean() for part in parts], atol=1e-13)


def test_gaps_come_from_complements_above_one_half():
    # The complements are wrong on purpose, to show where they are used.
    s = np.array([0.3, 0.5, 0.51, 0.7, 0.9])
    bins = Bins(np.ones(5), s, np.full(5, 0.25), np.full(5, 0.6))
    np.testing.assert_allclose(bins.gaps, [0.3, 0.1, -0.15, -0.15, -0.15], atol=1e-15)
    tiny = Bins(np.ones(1), np.ones(1), np.array([1e-25]), np.ones(1))
    assert tiny.gaps[0] == 1e-25


def test_edges_move_to_the_nearest_boundary_between_values():
    sample = tied(2, 4, 6)
    assert mass_edges(sample, 3, whole_ties=True).tolist() == [0, 6, 12]  # 4 is as near to 2 as to 6; 8 is nearer to 6
    assert mass_edges(sample, 4, whole_ties=True).tolist() == [0, 2, 6, 12]  # 3 is nearer to 2 than to 6
    assert mass_edges(sample, 3).tolist() == [0, 4, 8, 12]
    assert mass_edges(sample, 40).tolist() == list(range(13))
    assert mass_edges(tied(10, 2), 2, whole_ties=True).tolist() == [0, 10, 12]
    assert mass_edges(tied(2, 10), 2, whole_ties=True).tolist() == [0, 2, 12]
    assert mass_edges(tied(5, 1, 1, 5), 12, whole_ties=True).tolist() == [0, 5, 6, 7, 12]
    assert mass_edges(tied(12), 5, whole_ties=True).tolist() == [0, 12]


def test_edges_stay_without_ties_and_in_a_summary():
    untied = sample_from_confidences(np.linspace(0.1, 0.9, 12), np.ones(12))
    assert mass_edges(untied, 5, whole_ties=True).tolist() == mass_edges(untied, 5).tolist()
    summarised = tied(2, 4, 6)._replace(summarised=True)
    assert mass_edges(summarised, 3, whole_ties=True).tolist() == [0, 4, 8, 12]


def test_bins_keep_tied_rows_together_only_if_asked():
    sample = tied(2, 4, 6)
    assert make_bins(sample, 3, "mass").mass.tolist() == [4, 4, 4]
    assert make_bins(sample, 3, "mass", whole_ties=True).mass.tolist() == [6, 6]
    assert make_bins(sample, 2, "width").mass.tolist() == [12]


def test_a_weight_too_small_to_add_up_makes_no_bin():
    s, h = np.array([0.15, 0.35, 0.55, 0.75]), np.array([0, 1, 0, 1])
    sample = sample_from_confidences(s, h, np.array([1.0, 1e-120, 1.0, 1.0]))
    for n_bins in (4, 10):  # fewer bins than confidences, and more
        positions, numbers = width_edges(sample, n_bins)
        assert numbers.tolist() == [int(v * n_bins) for v in (0.15, 0.55, 0.75)]
        assert positions.size == numbers.size + 1
        assert np.all(np.diff(positions) > 0)
    edges = mass_edges(sample, 4, whole_ties=True)
    assert np.all(np.diff(edges) > 0)
    assert bins_between(edges[:-1], edges[1:], sample).mass.sum() == pytest.approx(4)


@pytest.mark.parametrize("n_bins", [2, 3, 7, 10, 15, 20, 100])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_confidence_on_an_edge_belongs_to_the_bin_above(n_bins, kind):
    on_edges = (np.arange(n_bins + 1) / n_bins).astype(kind)
    between = (np.arange(n_bins) + 0.5) / n_bins
    sample = sample_from_confidences(np.concatenate([on_edges, between]), np.zeros(2 * n_bins + 1))
    positions, numbers = width_edges(sample, n_bins)
    assert numbers.tolist() == list(range(n_bins))
    assert np.diff(positions).tolist() == [2] * (n_bins - 1) + [3]  # the edge and the middle; the last also has 1
    table = bin_table(sample, n_bins, "width")
    assert [row["lower"] for row in table] == pytest.approx(np.arange(n_bins) / n_bins, abs=1e-15)
    assert [row["upper"] for row in table] == pytest.approx((np.arange(n_bins) + 1) / n_bins, abs=1e-15)
    # Alone, each edge opens its own bin, however many bins there are.
    alone = sample_from_confidences(on_edges, np.zeros(n_bins + 1))
    for bins in (n_bins, 10 * n_bins, 1000 * n_bins):
        _, numbers = width_edges(alone, bins)
        assert numbers.tolist() == [*(np.arange(n_bins) * (bins // n_bins)), bins - 1][: numbers.size]
    assert width_edges(alone, 10**9)[1][-1] == 10**9 - 1


@pytest.mark.parametrize("n_bins", [5, 6])
def test_empty_bins_of_equal_width_are_left_out(n_bins):
    sample = sample_from_confidences([0.05, 0.11, 0.45, 0.97, 0.99], np.zeros(5))
    positions, numbers = width_edges(sample, n_bins)
    assert numbers.tolist() == [0, 2, n_bins - 1]
    assert positions.tolist() == [0, 2, 3, 5]


@pytest.mark.parametrize(
    ("n", "options", "expected"),
    [
        (60, {}, [3]),
        (99, {}, [3, 4]),
        (400, {}, list(np.linspace(4, 20, 11).astype(int))),
        (250, {}, list(range(3, 13))),
        (1000, {"bins": (10, 21)}, [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21]),
        (1000, {"bins": (10, 20)}, list(range(10, 21))),
        (1000, {"schemes": 3}, [10, 30, 50]),
        (300, {"schemes": None}, list(range(3, 16))),
        (300, {"bins": (300, 300)}, [300]),
        (10**6, {"capped": True, "schemes": 3}, [600, 1800, 3000]),
        (20_000, {"capped": True, "schemes": 3}, [200, 600, 1000]),
        (61_000, {"capped": True, "schemes": 2}, [600, 3000]),
        (10**6, {"schemes": 2}, [10_000, 50_000]),
    ],
)
def test_bin_counts_of_the_paper(n, options, expected):
    assert scheme_counts(n, **options).tolist() == expected


def test_too_few_rows_for_the_bin_counts():
    with pytest.raises(FitError, match="59 rows are too few"):
        scheme_counts(59)
    with pytest.raises(FitError, match="301 bins need at least 301 rows, found 300"):
        scheme_counts(300, bins=(10, 301))


def test_bins_of_several_counts_share_the_mass():
    rng = np.random.default_rng(0)
    s = rng.random(50)
    sample = sample_from_confidences(s, rng.random(50) < s)
    found = scheme_bins(sample, np.array([3, 4]))
    three, four = equal_mass_bins(sample, 3), equal_mass_bins(sample, 4)
    np.testing.assert_allclose(found.mass, np.concatenate([three.mass, four.mass]) / 100, rtol=1e-15)
    assert found.mass.sum() == pytest.approx(1)
    for field in ("confidences", "complements", "accuracies"):
        np.testing.assert_array_equal(getattr(found, field), [*getattr(three, field), *getattr(four, field)])


def test_bins_of_the_authors_drop_the_remainder_and_the_last_bin():
    rng = np.random.default_rng(0)
    s = np.sort(rng.random(500))
    h = rng.random(500) < s
    found = author_scheme_bins(sample_from_confidences(s, h))
    expected = []
    for count in range(5, 26, 2):
        size = 500 // count
        expected += [
            (s[i * size : (i + 1) * size].mean(), h[i * size : (i + 1) * size].mean()) for i in range(count - 1)
        ]
    np.testing.assert_allclose(np.transpose([found.confidences, found.accuracies]), expected, atol=1e-13)
    np.testing.assert_allclose(found.complements, 1 - found.confidences, atol=1e-13)
    assert found.mass.tolist() == [1.0] * len(expected)


def test_the_authors_need_240_rows():
    s = np.linspace(0.01, 0.99, 240)
    assert author_scheme_bins(sample_from_confidences(s, s > 0.5)).mass.size == sum(range(1, 12))
    with pytest.raises(FitError, match="239 rows are too few"):
        author_scheme_bins(sample_from_confidences(s[1:], s[1:] > 0.5))


def test_bins_of_equal_width_with_weights_are_weighted_means():
    rng = np.random.default_rng(5)
    s, hits, weights = rng.random(50), rng.integers(0, 2, 50), rng.integers(1, 5, 50)
    found = make_bins(sample_from_confidences(s, hits, weights.astype(float)), 4, "width")
    number = (s * 4).astype(int)
    for k in range(4):
        inside = weights * (number == k)
        assert found.mass[k] == pytest.approx(inside.sum() * 50 / weights.sum())
        assert found.confidences[k] == pytest.approx(inside @ s / inside.sum())
        assert found.accuracies[k] == pytest.approx(inside @ hits / inside.sum())


@pytest.mark.parametrize("n_bins", [2, 3])
def test_a_confidence_below_an_edge_by_the_rounding_of_float32_is_on_it(n_bins):
    """Both ways to make bins of equal width agree where the rounding that they allow for ends."""
    on = 1 / n_bins * (1 - 2.0**-23)
    below = on - 2.0**-40
    sample = sample_from_confidences([0.1, below, on, 0.9], np.zeros(4))
    assert sample.confidences[1:3].tolist() == [below, on]  # the log-odds of these give the same digits again
    # The first bin holds 0.1 and the confidence just below.
    assert width_edges(sample, n_bins)[0][1] == 2
    assert make_bins(sample, n_bins, "width").mass[0] == 2


@pytest.mark.parametrize("n_bins", [5, 10])
def test_sums_of_bins_know_the_largest_value_of_every_bin(monkeypatch, n_bins):
    """Their terms are cut into whole numbers by it. Below one half confidences are added up, above it complements."""
    found = []
    monkeypatch.setattr(adding, "totals", lambda *args: found.append(args) or np.ones(n_bins))
    s = np.linspace(0.001, 0.999, 500)
    make_bins(sample_from_confidences(s, s > 0.5), n_bins, "width")
    ((values, _, number, largest),) = found
    assert np.all(values <= largest[number])
    k = np.arange(1, n_bins - 1)
    np.testing.assert_allclose(largest[1:-1], np.minimum(k + 1, n_bins - k) / n_bins)
    assert largest[[0, -1]].tolist() == [values[number == 0].max(), values[number == n_bins - 1].max()]
