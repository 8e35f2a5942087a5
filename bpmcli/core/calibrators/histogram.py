"""Histogram binning: one accuracy per equal-mass bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.base import Calibrator
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.curves.families import Pair
from bpmcli.core.data.binning import array_split_edges
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.data.sample import Floats, Ints, Sample
from bpmcli.errors import DataError


@dataclass(frozen=True)
class Histogram(Calibrator):
    """g(s) = accuracy of the bin that contains s. It need not rise with s."""

    edges: tuple[float, ...]
    """Log-odds that separate the bins; an edge belongs to the bin on its left."""
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        check_steps("edges", self.edges, self.rates, len(self.edges) + 1)

    def __call__(self, log_odds: Floats) -> Pair:
        g = np.array(self.rates)[np.searchsorted(np.array(self.edges), log_odds, side="left")]
        return g, 1.0 - g


def check_steps(name: str, places: Sequence[float], rates: Sequence[float], expected: int) -> None:
    """Raise DataError if places do not ascend, the number of rates is wrong, or a rate lies outside [0, 1]."""
    if len(rates) != expected:
        raise DataError(f"rates: {len(rates)} of them, but {len(places)} {name}", "fit again")
    if np.any(np.diff(places) <= 0):
        raise DataError(f"{name}: must ascend", "fit again")
    if any(not 0.0 <= rate <= 1.0 for rate in rates):
        raise DataError("rates: must lie between 0 and 1", "fit again")


@method("histogram", "accuracy of each equal-mass bin", "Zadrozny & Elkan 2001, ICML", Histogram)
def fit(rows: Rows, options: FitOptions) -> Fitted:
    """Accuracies of `n_bins` bins of equal mass, with edges midway between neighbouring confidences.

    Equal confidences share one bin, the left one, so many ties make fewer bins. Weighted rows are split into
    equal shares of weight.
    """
    sample = rows.sample
    starts = _bin_starts(sample, options.n_bins)
    mass, hits = np.add.reduceat(sample.mass, starts), np.add.reduceat(sample.hits, starts)
    rates, notices = shrunk_accuracies(hits, mass, "bins")
    last, first = starts[1:] - 1, starts[1:]
    s, q = sample.confidences, sample.complements
    edges = np.log(s[last] + s[first]) - np.log(q[last] + q[first])
    return Fitted(
        Histogram(tuple(edges.tolist()), tuple(rates.tolist())), {"bins": rates.size}, notices + one_point(sample)
    )


def _bin_starts(sample: Sample, n_bins: int) -> Ints:
    """The first cell of each bin. A cell that starts before an edge belongs to the bin before it."""
    edges = array_split_edges(sample.n, min(n_bins, sample.n))[:-1]
    slack = 1e-9 * sample.n  # weights leave rounding in the masses
    starts = np.unique(np.searchsorted(sample.mass_before[:-1], edges - slack, side="left"))
    return starts[starts < sample.mass.size]


def shrunk_accuracies(hits: Floats, mass: Floats, what: str) -> tuple[Floats, tuple[Notice, ...]]:
    """Accuracies of m rows each; 0 and 1 become 1/(m+2) and 1 − 1/(m+2), because m rows cannot exclude the other.

    Weights are scaled to a mean of one.
    """
    rates = hits / mass
    never, always = hits <= 0.0, hits >= mass
    floor = 1.0 / (mass + 2.0)
    rates = np.where(never, floor, np.where(always, 1.0 - floor, rates))
    pure = never | always
    if not pure.any():
        return rates, ()
    moved = notice(
        "rates-moved", count=int(pure.sum()), total=pure.size, what=what, rows=round(float(mass[pure].sum()))
    )
    return rates, (moved,)


def one_outcome(rows: Rows) -> tuple[Notice, ...]:
    """A notice if all rows are correct or all wrong (with `--event`: all of one label)."""
    outcome = rows.sample.one_outcome
    if outcome is None:
        return ()
    what = f"have y = {int(outcome == 'correct')}" if rows.target == EVENT else f"are {outcome}"
    return (notice("one-outcome", what=what),)


def one_point(sample: Sample) -> tuple[Notice, ...]:
    """A notice if all confidences are equal."""
    return (notice("constant-confidence"),) if sample.log_odds.size == 1 else ()
