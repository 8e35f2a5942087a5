"""Histogram binning over many bin counts at once: the mean of its curves, and their range.

The paper's reference curve: equal-mass bins, bin counts 10 to 50, and in every bin its accuracy (Zadrozny & Elkan
2001). The curves of different bin counts differ most where there are few rows; the range shows that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bpmcli.core.curves.families import Pair
from bpmcli.core.data.binning import array_split_edges
from bpmcli.core.data.sample import Floats, Sample
from bpmcli.errors import FitError

COUNTS = range(10, 51)
"""Paper, appendix: equal-mass binnings with bin numbers from 10 to 50."""

AUTHORS_MOST = 50
"""The published code stops one below this bin count."""


@dataclass(frozen=True, eq=False)
class Histograms:
    """One step curve per bin count."""

    edges: tuple[Floats, ...]
    """Log-odds between the bins of each bin count; an edge belongs to the bin on its left."""
    rates: tuple[Floats, ...]

    def values(self, log_odds: Floats) -> Floats:
        """One row per bin count."""
        steps = zip(self.edges, self.rates, strict=True)
        return np.stack([rates[np.searchsorted(edges, log_odds, side="left")] for edges, rates in steps])

    def __call__(self, log_odds: Floats) -> Pair:
        """The mean over the bin counts, and its complement."""
        g: Floats = self.values(log_odds).mean(axis=0)
        return g, 1.0 - g

    def band(self, log_odds: Floats) -> tuple[Floats, Floats, Floats]:
        """Lowest, mean and highest value over the bin counts."""
        values = self.values(log_odds)
        return values.min(axis=0), values.mean(axis=0), values.max(axis=0)


def fit_histograms(sample: Sample, counts: Iterable[int] = COUNTS, variant: str = "paper") -> Histograms:
    """Histogram binning with each of the counts.

    Equal confidences share a bin; beyond the rows the first and the last bin continue. `variant="authors"` follows the
    published code: bin counts up to 49, the remainder and the last bin dropped (the last but one replaces it), and 0
    below the lowest confidence.
    """
    if variant == "authors":
        steps = [_authors_steps(sample, count) for count in counts if count < AUTHORS_MOST]
        if not steps:
            raise FitError(f"the published code has no histogram of {AUTHORS_MOST} bins or more", "use --variant paper")
    else:
        steps = [_steps(sample, count) for count in counts]
    if not steps:
        raise FitError("the authors' code fits histograms of fewer than 50 bins only")
    edges, rates = zip(*steps, strict=True)
    return Histograms(edges, rates)


def _steps(sample: Sample, count: int) -> tuple[Floats, Floats]:
    positions = array_split_edges(sample.n, min(count, sample.n))[:-1]
    slack = 1e-9 * sample.n  # weights leave rounding in the masses
    starts = np.unique(np.searchsorted(sample.mass_before[:-1], positions - slack, side="left"))
    starts = starts[starts < sample.mass.size]
    rates = np.add.reduceat(sample.hits, starts) / np.add.reduceat(sample.mass, starts)
    last, first, s, q = starts[1:] - 1, starts[1:], sample.confidences, sample.complements
    # Half-way in confidence, computed in log-odds so that saturated neighbours stay apart.
    return np.log(s[last] + s[first]) - np.log(q[last] + q[first]), rates


def _authors_steps(sample: Sample, count: int) -> tuple[Floats, Floats]:
    size = sample.n // count
    if size < 1:
        raise FitError(f"{count} bins need at least {count} rows, found {sample.n}")
    positions = np.arange(count) * size
    hits = sample.sums_before(positions).hits
    cells = np.searchsorted(sample.mass_before, positions[:-1], side="right") - 1
    return sample.log_odds[cells], np.concatenate([[0.0], np.diff(hits) / size])
