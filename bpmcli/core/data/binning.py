"""Equal-mass and equal-width bins, and the paper's sets of bin counts, from cumulative sums."""

from __future__ import annotations

import numpy as np

from bpmcli.core.data import adding
from bpmcli.core.data.sample import Floats, Ints, Sample, Sums
from bpmcli.errors import FitError
from bpmcli.record import Record

ROWS_PER_BIN = (20, 100)
"""Paper, appendix: bin counts in [N/100, N/20], so every bin has 20 to 100 rows."""

SUMMARY_BINS = (600, 3000)
"""Limits on the range of bin counts for a summary: finer bins would cut through its cells. They move the curve by
less than 5e-4."""

N_SCHEMES = 11
"""The authors' code takes eleven bin counts evenly spaced over that range."""


EDGE_SLACK = 2.0**-23
"""The relative rounding error of float32. A confidence that is below an edge by no more than this is on the edge."""


class Bins(Record):
    """One entry per non-empty bin."""

    mass: Floats
    confidences: Floats
    complements: Floats
    accuracies: Floats

    @property
    def gaps(self) -> Floats:
        """Accuracy minus mean confidence, computed from complements above one half so that no digits cancel."""
        low = self.accuracies - self.confidences
        high = self.complements - (1.0 - self.accuracies)
        return np.where(self.confidences > 0.5, high, low)


def array_split_edges(n: int, n_bins: int) -> Ints:
    """The edges that numpy.array_split uses: bin sizes differ by at most one, and the larger bins come first."""
    size, extra = divmod(n, n_bins)
    i = np.arange(n_bins + 1)
    return i * size + np.minimum(i, extra)


def bins_between(first: Floats | Ints, last: Floats | Ints, sample: Sample) -> Bins:
    """The bins that lie between these positions of the sorted sample."""
    lo, hi = sample.sums_before(first), sample.sums_before(last)
    return _bins((last - first).astype(np.float64), lo, hi)


def _bins(mass: Floats, lo: Sums, hi: Sums) -> Bins:
    return Bins(
        mass,
        (hi.confidences - lo.confidences) / mass,
        (lo.complements - hi.complements) / mass,
        (hi.hits - lo.hits) / mass,
    )


def equal_mass_bins(sample: Sample, n_bins: int) -> Bins:
    """The sorted sample divided into `n_bins` bins of equal mass (into fewer when there are fewer rows)."""
    return make_bins(sample, n_bins, "mass")


def make_bins(sample: Sample, n_bins: int, binning: str, whole_ties: bool = False) -> Bins:
    """Bins of equal `mass`, or of equal `width`: [k/B, (k+1)/B) of confidence, where the last bin includes 1.

    Empty bins are left out. A bin of equal mass may hold a part of the rows that share a confidence, with the same part
    of their correct rows; `whole_ties` moves its edges to the nearest boundary between distinct confidences.
    """
    if binning == "width" and n_bins <= sample.n and not sample.weighted:
        return _width_bins(sample, n_bins)
    edges: Floats | Ints = (
        mass_edges(sample, n_bins, whole_ties) if binning == "mass" else width_edges(sample, n_bins)[0]
    )
    return bins_between(edges[:-1], edges[1:], sample)


def _width_bins(sample: Sample, n_bins: int) -> Bins:
    """Bins of equal width, as `width_edges` divides them, from sums that need no order."""
    terms = sample.in_any_order
    s = terms.confidences
    next_starts = np.append(np.arange(1, n_bins) / n_bins * (1.0 - EDGE_SLACK), 2.0)
    number = np.minimum((s * n_bins).astype(np.int64), n_bins - 1)
    number += s >= next_starts[number]
    mass = np.bincount(number, terms.mass, n_bins).astype(np.float64)
    # Below one half confidences are added up, above it complements: in the outer bins these may be tiny.
    bins, upper = np.arange(n_bins), np.arange(n_bins) >= (n_bins + 1) // 2
    values = np.where(upper[number], terms.complements, s)
    largest = np.where(upper, n_bins - bins, bins + 1) / n_bins
    for end in {0, n_bins - 1}:
        largest[end] = values[number == end].max(initial=0.0)
    filled = mass > 0
    sums, hits = adding.totals(values, terms.mass, number, largest), np.bincount(number, terms.hits, n_bins)
    mass, mean, upper = mass[filled], sums[filled] / mass[filled], upper[filled]
    return Bins(mass, np.where(upper, 1.0 - mean, mean), np.where(upper, mean, 1.0 - mean), hits[filled] / mass)


def mass_edges(sample: Sample, n_bins: int, whole_ties: bool = False) -> Floats | Ints:
    """Positions in the sorted sample between which the bins of equal mass lie."""
    edges = array_split_edges(sample.n, min(n_bins, sample.n))
    if not whole_ties or sample.untied or sample.summarised:
        return edges  # the rows in a cell of a summary are close to each other, not tied
    boundaries = sample.mass_before
    after = np.clip(np.searchsorted(boundaries, edges), 1, boundaries.size - 1)
    below = boundaries[after] - edges > edges - boundaries[after - 1]
    nearest = np.where(below, after - 1, after)
    nearest[[0, -1]] = 0, boundaries.size - 1
    snapped: Floats = boundaries[nearest]
    # Several edges may move to the same boundary, and weights too small to change a sum leave boundaries equal.
    distinct: Floats = snapped[np.concatenate([[True], np.diff(snapped) > 0])]
    return distinct


def width_edges(sample: Sample, n_bins: int) -> tuple[Floats, Ints]:
    """Positions between which the non-empty bins of equal width lie, and the number of each of these bins.

    A confidence exactly on an edge k/B belongs to the bin above it. Rounding, to float32 or in the
    conversion to log-odds, may have moved it just below, so bins begin EDGE_SLACK before their edge.
    """
    if n_bins <= sample.mass.size:
        edges = np.arange(1, n_bins) / n_bins
        cells = np.searchsorted(sample.confidences, edges * (1.0 - EDGE_SLACK))
        starts = np.concatenate([[0], cells])
        numbers = np.flatnonzero(np.diff(starts, append=sample.mass.size))
        starts = starts[numbers]
    else:
        # More bins than distinct confidences: number the confidences rather than the bins.
        number = np.minimum((sample.confidences * (1.0 + EDGE_SLACK) * n_bins).astype(np.int64), n_bins - 1)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(number)) + 1])
        numbers = number[starts]
    positions = sample.mass_before[np.append(starts, sample.mass.size)]
    filled = np.diff(positions) > 0  # weights too small to change a sum leave a bin empty
    return positions[np.append(True, filled)], numbers[filled]


def scheme_counts(
    n: int, schemes: int | None = N_SCHEMES, bins: tuple[int, int] | None = None, capped: bool = False
) -> Ints:
    """The paper's bin counts: `schemes` of them, evenly spaced over [N/100, N/20].

    `schemes=None` takes every count. `bins` replaces the range. `capped` keeps it within SUMMARY_BINS.
    """
    if bins is None:
        # At least three bins, because there are three parameters.
        bins = (max(3, n // ROWS_PER_BIN[1]), n // ROWS_PER_BIN[0])
        if bins[1] < 3:
            raise FitError(
                f"{n} {'row is' if n == 1 else 'rows are'} too few for the paper's fit: it needs three bins of 20 rows",
                f"--method {'auto' if n >= 10 else 'bpm-averaged'} works with so few rows; or give at least 60",
            )
        if capped:
            bins = (min(bins[0], SUMMARY_BINS[0]), min(bins[1], SUMMARY_BINS[1]))
    low, high = bins
    if high > n:
        raise FitError(f"{high} bins need at least {high} rows, found {n}", "choose fewer bins with --bins LO:HI")
    if schemes is None or schemes > high - low:
        return np.arange(low, high + 1)
    # The range has more bin counts than are taken, so those taken are all different.
    return np.linspace(low, high, schemes).astype(np.int64)


def scheme_bins(sample: Sample, counts: Ints) -> Bins:
    """The bins of all bin counts as one vector; `mass` is P(B)·|b|/N and adds up to one."""
    edges = [array_split_edges(sample.n, int(count)) for count in counts]
    first = np.concatenate([e[:-1] for e in edges])
    last = np.concatenate([e[1:] for e in edges])
    bins = bins_between(first, last, sample)
    return Bins(bins.mass / (sample.n * counts.size), bins.confidences, bins.complements, bins.accuracies)


def author_scheme_bins(sample: Sample) -> Bins:
    """The bins of the published code: it drops the remainder and the last bin, and gives every bin the same weight."""
    n = sample.n
    low, high = n // ROWS_PER_BIN[1], n // ROWS_PER_BIN[0]
    step = (high - low) // 10
    if step < 1:
        raise FitError(
            f"{n} rows are too few for the authors' binnings: their step between bin counts is zero below 240 rows",
            "use --variant paper",
        )
    first, last = [], []
    for count in range(low, high + 1, step):
        size = n // count
        starts = np.arange(count - 1) * size
        first.append(starts)
        last.append(starts + size)
    bins = bins_between(np.concatenate(first), np.concatenate(last), sample)
    return Bins(np.ones(bins.mass.size), bins.confidences, bins.complements, bins.accuracies)
