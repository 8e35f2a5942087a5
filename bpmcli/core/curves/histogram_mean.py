"""Histogram binning over many bin counts at once: the mean of its curves, and their range.

The paper's yardstick: equal-mass bins, bin counts 10 to 50, every bin its hit rate (Zadrozny & Elkan
2001). Between the counts the curves differ most where rows are few, which the range shows.
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


@dataclass(frozen=True, eq=False)
class Histograms:
    """One step curve per bin count."""

    edges: tuple[Floats, ...]
    """Log-odds between the bins of each count; an edge belongs to the bin on its left."""
    rates: tuple[Floats, ...]

    def values(self, log_odds: Floats) -> Floats:
        """One row per bin count."""
        steps = zip(self.edges, self.rates, strict=True)
        return np.stack([rates[np.searchsorted(edges, log_odds, side="left")] for edges, rates in steps])

    def __call__(self, log_odds: Floats) -> Pair:
        """The mean over the counts, and what is left to one."""
        g: Floats = self.values(log_odds).mean(axis=0)
        return g, 1.0 - g

    def band(self, log_odds: Floats) -> tuple[Floats, Floats, Floats]:
        """Lowest, mean and highest value over the counts."""
        values = self.values(log_odds)
        return values.min(axis=0), values.mean(axis=0), values.max(axis=0)


def fit_histograms(sample: Sample, counts: Iterable[int] = COUNTS, variant: str = "paper") -> Histograms:
    """Histogram binning with each of the counts.

    Equal confidences share a bin; outside the rows the first and last bin go on. `variant="authors"`
    follows the published code: counts up to 49, remainder and last bin dropped (the last but one
    stands in for it), and 0 below the lowest confidence.
    """
    if variant == "authors":
        steps = [_authors_steps(sample, count) for count in counts if count < 50]
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
    # Midway in confidence, taken in log-odds so that saturated neighbours stay apart.
    return np.log(s[last] + s[first]) - np.log(q[last] + q[first]), rates


def _authors_steps(sample: Sample, count: int) -> tuple[Floats, Floats]:
    size = sample.n // count
    if size < 1:
        raise FitError(f"{count} bins need at least {count} rows, found {sample.n}")
    positions = np.arange(count) * size
    hits = sample.sums_before(positions).hits
    cells = np.searchsorted(sample.mass_before, positions[:-1], side="right") - 1
    return sample.log_odds[cells], np.concatenate([[0.0], np.diff(hits) / size])
