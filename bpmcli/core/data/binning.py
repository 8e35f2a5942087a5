"""Equal-mass and equal-width bins, and the paper's schemes, from cumulative sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpmcli.core.data.sample import Floats, Ints, Sample, Sums
from bpmcli.errors import FitError

ROWS_PER_BIN = (20, 100)
"""Paper, appendix: bin counts in [N/100, N/20], so every bin has 20 to 100 rows."""

SUMMARY_BINS = (600, 3000)
"""From a summary a scheme has at most this many bins: finer ones would cut through cells. Moves the curve by < 5e-4."""

N_SCHEMES = 11
"""The authors' code takes eleven bin counts evenly spaced over that range."""


class Bins(NamedTuple):
    """One entry per non-empty bin."""

    mass: Floats
    confidences: Floats
    complements: Floats
    accuracies: Floats

    @property
    def gaps(self) -> Floats:
        """Hit rate minus mean confidence, taken on the side where it does not cancel."""
        low = self.accuracies - self.confidences
        high = self.complements - (1.0 - self.accuracies)
        return np.where(self.confidences > 0.5, high, low)


def array_split_edges(n: int, n_bins: int) -> Ints:
    """Edges of numpy.array_split: sizes differ by at most one, the larger ones first."""
    size, extra = divmod(n, n_bins)
    i = np.arange(n_bins + 1)
    return i * size + np.minimum(i, extra)


def _bins_between(first: Floats | Ints, last: Floats | Ints, sample: Sample) -> Bins:
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
    """The sorted sample in `n_bins` runs of equal mass (fewer when there are fewer rows)."""
    return _bins_between(*bin_edges(sample, n_bins, "mass"), sample)


def make_bins(sample: Sample, n_bins: int, binning: str) -> Bins:
    """Bins by name: `mass`, or `width`: [k/B, (k+1)/B) of confidence, the last with 1, empty ones left out."""
    return _bins_between(*bin_edges(sample, n_bins, binning), sample)


def bin_edges(sample: Sample, n_bins: int, binning: str) -> tuple[Floats | Ints, Floats | Ints]:
    """Where each bin starts and ends in the sorted sample."""
    if binning == "mass":
        edges: Floats | Ints = array_split_edges(sample.n, min(n_bins, sample.n))
        return edges[:-1], edges[1:]
    cells = np.searchsorted(sample.confidences, np.arange(1, n_bins) / n_bins, side="left")
    edges = sample.mass_before[np.concatenate([[0], cells, [sample.mass.size]])]
    keep = np.diff(edges) > 0
    return edges[:-1][keep], edges[1:][keep]


def independent_rows(sample: Sample, first: Floats | Ints, last: Floats | Ints) -> Floats:
    """How many independent rows a bin's hit rate is worth.

    A bin takes f of the m rows of a tied run with f/m of their hits, whose variance is f²/m and not f
    times that of one row: |b|² / Σ f²/m rows. Rows in a cell of a summary are close, not tied.
    """
    size: Floats = (last - first).astype(np.float64)
    worth = sample.effective_n / sample.n
    if sample.untied or sample.summarised:
        return size * worth
    start, end = sample.mass_before[:-1], sample.mass_before[1:]

    def cut(at: Floats | Ints) -> Ints:
        return np.clip(np.searchsorted(sample.mass_before, at, side="right") - 1, 0, sample.mass.size - 1)

    low, high = cut(first), cut(last)
    # One run around the whole bin, or the rest of one, whole runs, and a piece of another.
    alone = size**2 / sample.mass[low]
    head, tail = end[low] - first, last - start[high]
    parts = head**2 / sample.mass[low] + (start[high] - end[low]) + tail**2 / sample.mass[high]
    return size**2 / np.where(low == high, alone, parts) * worth


def scheme_counts(
    n: int, schemes: int | None = N_SCHEMES, bins: tuple[int, int] | None = None, capped: bool = False
) -> Ints:
    """Bin counts of the paper's schemes: `schemes` of them evenly spaced over [N/100, N/20].

    `schemes=None` takes every count. `bins` replaces the range. `capped` keeps it within SUMMARY_BINS.
    """
    if bins is None:
        # At least three bins, for three parameters; then few rows still give several schemes.
        bins = (max(3, n // ROWS_PER_BIN[1]), n // ROWS_PER_BIN[0])
        if bins[1] < 3:
            raise FitError(
                f"{n} rows are too few for the paper's fit: it needs three bins of 20 rows",
                "give at least 60 rows, or choose the bin counts with --bins LO:HI",
            )
        if capped:
            bins = (min(bins[0], SUMMARY_BINS[0]), min(bins[1], SUMMARY_BINS[1]))
    low, high = bins
    if high > n:
        raise FitError(f"{high} bins need at least {high} rows, found {n}", "choose fewer bins with --bins LO:HI")
    if schemes is None or schemes > high - low:
        return np.arange(low, high + 1)
    # More counts than schemes, so no two fall together.
    return np.linspace(low, high, schemes).astype(np.int64)


def scheme_bins(sample: Sample, counts: Ints) -> Bins:
    """All bins of all schemes as one vector; `mass` is P(B)·|b|/N and adds up to one."""
    edges = [array_split_edges(sample.n, int(count)) for count in counts]
    first = np.concatenate([e[:-1] for e in edges])
    last = np.concatenate([e[1:] for e in edges])
    bins = _bins_between(first, last, sample)
    return Bins(bins.mass / (sample.n * counts.size), bins.confidences, bins.complements, bins.accuracies)


def author_scheme_bins(sample: Sample) -> Bins:
    """The published code's bins: remainder and last bin dropped, every bin of the same weight."""
    n = sample.n
    low, high = n // ROWS_PER_BIN[1], n // ROWS_PER_BIN[0]
    step = (high - low) // 10
    if low < 2 or step < 1:
        raise FitError(
            f"{n} rows are too few for the authors' schemes: their step between bin counts is zero below 240 rows",
            "use --variant paper",
        )
    first, last = [], []
    for count in range(low, high + 1, step):
        size = n // count
        starts = np.arange(count - 1) * size
        first.append(starts)
        last.append(starts + size)
    bins = _bins_between(np.concatenate(first), np.concatenate(last), sample)
    return Bins(np.ones(bins.mass.size), bins.confidences, bins.complements, bins.accuracies)
