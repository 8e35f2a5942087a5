"""The sample that every computation starts from: confidences and whether each row is correct, sorted into cells.

A cell holds the rows that share one log-odds value: their mass, mean confidence, mean complement and the mass of the
correct rows (`hits`). Without ties every cell is one row. Sums over a run of rows are differences of cumulative sums,
interpolated linearly inside a cell: the correct rows among tied ones are spread evenly, and no result can depend
on the order of the rows. Weights only change the masses.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bpmcli.core.data import adding
from bpmcli.core.data.adding import sorted_cells, weighted_cells
from bpmcli.errors import DataError
from bpmcli.record import Record

if TYPE_CHECKING:
    import numpy.typing as npt

# Written out, because importing numpy.typing would take half a millisecond of every start.
Floats = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
Ints = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]

LOG_ODDS_LIMIT = 700.0
"""Log-odds are kept within ±700: exp(-700) is still a normal float64."""

BARE_LIMIT = 54 * math.log(2)
"""The largest log-odds that a float64 confidence can express: 1 - 2**-54 rounds to 1."""


ROUNDS_TO_ONE = 53 * math.log(2)
"""Beyond these log-odds 1 + e^-x is 1, so the confidence is exactly 1 (or its complement is)."""


SORTED = ("log_odds", "confidences", "complements", "mass", "hits")
"""The fields of a sample that need its rows sorted."""


class Sums(NamedTuple):
    """Cumulative sums at given positions of the sorted sample."""

    confidences: Floats
    complements: Floats
    """Summed from the top, so that tiny complements keep their relative precision."""
    hits: Floats


class Sample(Record):
    """Confidences and correct rows in sorted cells; a cell holds the rows with one confidence.

    >>> from bpmcli import sample_from_confidences
    >>> sample = sample_from_confidences([0.9, 0.6, 0.9], [1, 0, 0])
    >>> sample.mass.tolist(), sample.hits.tolist()
    ([1.0, 2.0], [0.0, 1.0])
    """

    log_odds: Floats
    confidences: Floats
    complements: Floats
    mass: Floats
    """Rows in each cell, or their weights, scaled to add up to `n`."""
    hits: Floats
    """The mass of the correct rows in each cell."""
    n: int
    """Rows with a positive weight."""
    effective_n: float
    """(Σw)² / Σw² (Kish): the effective number of rows when weights are unequal."""
    weighted: bool = False
    from_summary: bool = False
    """The rows came as a `Summary`, so the paper's fit uses at most 3000 bins."""
    summarised: bool = False
    """The cells of that summary are not distinct values: their rows are close, not equal."""
    inner_variance: float = 0.0
    """Variance of the confidences inside the cells of a summary."""

    @classmethod
    def of_rows(cls, log_odds: Floats, is_hit: npt.NDArray[np.bool_]) -> Sample:
        """A sample of single rows, which are sorted as soon as something needs their order."""
        fresh = cls.__new__(cls)
        n = log_odds.size
        fresh.__dict__.update(cls._field_defaults, n=n, effective_n=float(n), _unsorted=(log_odds, is_hit))
        return fresh

    def __getattr__(self, name: str) -> Any:
        # Only reached for what is not set yet: the fields of a sample that has not been sorted.
        if name not in SORTED:
            raise AttributeError(name)
        # Threads that sort at the same time find the same values, so the rows are given up last.
        rows = self.__dict__.get("_unsorted")
        if rows is not None:
            x, mass, hits = sorted_cells(*rows)
            self.__dict__.update(zip(SORTED, (x, *_ascending_pair(x), mass, hits), strict=True))
            self.__dict__.pop("in_any_order", None)
            self.__dict__.pop("_unsorted", None)
        elif name not in self.__dict__:
            raise AttributeError(name)
        return self.__dict__[name]

    @cached_property
    def in_any_order(self) -> adding.Terms:
        """The cells, or the rows as they came if they have not been sorted: for sums that need no order."""
        rows = self.__dict__.get("_unsorted")
        if rows is None:
            mass = None if self.untied else self.mass
            return adding.Terms(self.log_odds, self.confidences, self.complements, mass, self.hits)
        return adding.Terms(rows[0], *sigmoid_pair(rows[0]), None, rows[1])

    def __repr__(self) -> str:
        kind = ", weighted" if self.weighted else ""
        return (
            f"Sample({self.n} rows{kind}, {self.log_odds.size} distinct confidences, mean confidence "
            f"{self.mean_confidence:.4f}, accuracy {self.accuracy:.4f})"
        )

    @cached_property
    def untied(self) -> bool:
        """Every cell is one row of weight one, so positions are indices."""
        return not self.weighted and self.log_odds.size == self.n and not self.summarised

    @cached_property
    def accuracy(self) -> float:
        # Sums of weights may exceed the total by rounding.
        return 1.0 if self.one_outcome == "correct" else min(float(np.sum(self.in_any_order.hits)) / self.n, 1.0)

    @cached_property
    def one_outcome(self) -> str | None:
        """`correct` if all rows are, `wrong` if all are; otherwise None. Tested by cell, because sums are rounded."""
        terms = self.in_any_order
        if not terms.hits.any():
            return "wrong"
        least = 1.0 if terms.mass is None else terms.mass * (1.0 - 1e-14)
        return "correct" if bool((terms.hits >= least).all()) else None

    @cached_property
    def mean_confidence(self) -> float:
        return adding.total(self.in_any_order.confidences, self.in_any_order.mass) / self.n

    @cached_property
    def mean_gap(self) -> float:
        """Mean confidence minus accuracy, computed from complements and misses so that no digits cancel near 1."""
        misses = self.mass - self.hits
        return float(np.sum(misses) - np.dot(self.mass, self.complements)) / self.n

    @cached_property
    def residuals(self) -> Floats:
        """Σ (ŝ − h) of every cell, computed from complements and misses above one half so that no digits cancel."""
        low = self.mass * self.confidences - self.hits
        high = (self.mass - self.hits) - self.mass * self.complements
        return np.where(self.log_odds > 0, high, low)

    @cached_property
    def saturated(self) -> float:
        """Share of rows whose confidence rounds to 0 or 1 in float64."""
        terms = self.in_any_order
        rounded = np.abs(terms.log_odds) > ROUNDS_TO_ONE
        return float(np.count_nonzero(rounded) if terms.mass is None else np.sum(terms.mass[rounded])) / self.n

    @cached_property
    def mass_before(self) -> Floats:
        """The mass before each cell, and the total mass at the end."""
        return np.arange(self.n + 1.0) if self.untied else _cumulative(self.mass)

    @cached_property
    def _cumulative(self) -> Sums:
        s, q = self.confidences, self.complements
        if not self.untied:
            s, q = self.mass * s, self.mass * q
        return Sums(_cumulative(s), _cumulative(q[::-1])[::-1], _cumulative(self.hits))

    def sums_before(self, positions: Floats | Ints) -> Sums:
        """Sums of the confidences and hits before each position (0…n), and of the complements after it."""
        if self.untied:
            index = positions.astype(np.int64)
            return Sums(*(c[index] for c in self._cumulative))
        knots = self.mass_before
        cell = np.clip(np.searchsorted(knots, positions, side="right") - 1, 0, self.mass.size - 1)
        inside = np.clip((positions - knots[cell]) / self.mass[cell], 0.0, 1.0)
        return Sums(*(c[cell] + inside * (c[cell + 1] - c[cell]) for c in self._cumulative))

    def with_hits(self, hits: Floats) -> Sample:
        """The same confidences with other hits (hit mass per cell)."""
        fresh = self._replace(hits=hits)
        for shared in ("mass_before", "untied", "mean_confidence", "saturated"):
            if shared in self.__dict__:
                fresh.__dict__[shared] = self.__dict__[shared]
        return fresh


def _cumulative(values: Floats) -> Floats:
    out = np.empty(values.size + 1)
    out[0] = 0.0
    np.cumsum(values, out=out[1:])
    return out


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + e^-x) without overflow, to full relative precision on both sides."""
    e = np.exp(-np.abs(x))
    return np.maximum(e, x >= 0) / (1.0 + e)  # the numerator is 1 for x ≥ 0; a choice by np.where takes twice as long


def sigmoid_pair(x: Floats) -> tuple[Floats, Floats]:
    """(sigmoid(x), sigmoid(-x)) from one exponential: a probability and its complement, both to full precision."""
    e = np.exp(-np.abs(x))
    whole = 1.0 + e
    return np.maximum(e, x >= 0) / whole, np.maximum(e, x < 0) / whole


def gap(log_odds: Floats, g: Floats, miss: Floats) -> Floats:
    """g − s, computed above one half as (1 − s) − (1 − g) so that no digits cancel; `miss` is 1 − g."""
    s, q = sigmoid_pair(log_odds)
    return np.where(log_odds > 0, q - miss, g - s)


def sample_from_log_odds(log_odds: npt.ArrayLike, hits: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Sample:
    """A sample from log-odds log(ŝ / (1 − ŝ)) and whether each row is correct (0 or 1), with optional weights.

    Log-odds keep what a confidence rounds away: with log-odds of 40 a confidence is exactly 1. Raises DataError for
    NaN, lengths that differ, values other than 0 and 1, and negative weights. Unweighted rows are sorted with the
    outcome packed into the lowest bit of the log-odds: one sort of one array that costs one unit in the last place.

    >>> from bpmcli import sample_from_log_odds
    >>> sample = sample_from_log_odds([40.0, 45.0, 0.0], [1, 1, 0])
    >>> sample.n, round(sample.accuracy, 3), round(sample.mean_confidence, 3)
    (3, 0.667, 0.833)
    """
    x = np.array(log_odds, dtype=np.float64).ravel()
    h = np.asarray(hits).ravel()
    if x.size == 0:
        raise DataError("no rows")
    if h.size != x.size:
        raise DataError(f"{x.size} confidences but {h.size} hits")
    if math.isnan(x.max()):
        row = int(np.flatnonzero(np.isnan(x))[0])
        raise DataError(f"confidence is not a number (row {row + 1})")
    is_hit = h if h.dtype == bool else h != 0
    if is_hit is not h and not np.array_equal(is_hit, h):
        row = int(np.flatnonzero(is_hit != h)[0])
        raise DataError(f"hits must be 0 or 1, found {h[row]} (row {row + 1})")
    make_room_for_hit(x)
    if weights is not None:
        return sample_at(*weighted_cells(x, is_hit, np.asarray(weights, dtype=np.float64).ravel()), weighted=True)
    if x.size > adding.MOST_ROWS:
        return sample_at(*sorted_cells(x, is_hit), x.size, float(x.size))
    return Sample.of_rows(x, is_hit.copy())


def make_room_for_hit(x: Floats) -> Ints:
    """Clip log-odds and clear their lowest bit, in place. Returns a view of their bits."""
    np.clip(x, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT, out=x)
    x += 0.0  # -0.0 becomes 0.0
    bits = x.view(np.int64)
    np.bitwise_and(bits, ~np.int64(1), out=bits)
    return bits


def sample_from_confidences(
    confidences: npt.ArrayLike, hits: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> Sample:
    """A sample from confidences in [0, 1] and whether each row is correct (0 or 1), with optional weights.

    >>> from bpmcli import sample_from_confidences
    >>> sample = sample_from_confidences([0.9, 0.8, 0.6], [1, 0, 1])
    >>> round(sample.accuracy, 3)
    0.667
    """
    from bpmcli.core.data.log_odds import log_odds_of_confidences

    return sample_from_log_odds(log_odds_of_confidences(np.asarray(confidences)), hits, weights)


def sample_at(
    x: Floats,
    mass: Floats,
    hits: Floats,
    n: int,
    effective_n: float,
    weighted: bool = False,
    from_summary: bool = False,
) -> Sample:
    """A sample of cells at these log-odds, in ascending order."""
    return Sample(x, *_ascending_pair(x), mass, hits, n, effective_n, weighted, from_summary)


def _ascending_pair(x: Floats) -> tuple[Floats, Floats]:
    """`sigmoid_pair` of ascending log-odds, in place, because allocating an array costs more than filling it."""
    below = int(np.searchsorted(x, 0.0))
    complements = np.abs(x)
    np.exp(np.negative(complements, out=complements), out=complements)
    confidences = 1.0 + complements
    np.divide(complements, confidences, out=complements)
    np.reciprocal(confidences, out=confidences)
    larger = confidences[:below].copy()
    confidences[:below], complements[:below] = complements[:below], larger
    return confidences, complements
