"""Bootstrap resamples of the same cells, all at once: two arrays with one row per resample.

Resampling N rows means drawing the numbers of correct and wrong rows of every cell from one multinomial distribution.
Neighbouring cells are first merged into at most CELLS, so the cost of a resample does not grow with N.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bpmcli.core.curves.pooling import pooled_blocks
from bpmcli.core.data.binning import array_split_edges, width_edges
from bpmcli.core.data.sample import Floats, Ints, Sample

CELLS = 500
"""The number of cells that are resampled; a sample with fewer distinct confidences keeps its own cells."""

BIN_CAP = (100, 500)
"""Limits on the bin counts of the paper's fit on resamples. They move g by 2 % of its resampling error."""


def merged(sample: Sample, cells: int = CELLS) -> Sample:
    """Neighbouring cells joined into at most `cells` of about equal mass."""
    return sample if sample.mass.size <= cells else join_cells(sample, runs_of_cells(sample, cells))


def runs_of_cells(sample: Sample, cells: int = CELLS) -> Ints:
    """Where the cells of each run begin: at most `cells` runs of about equal mass."""
    if sample.mass.size <= cells:
        return np.arange(sample.mass.size)
    run = np.minimum((sample.mass_before[:-1] * (cells / sample.n)).astype(np.int64), cells - 1)
    return np.concatenate([[0], np.flatnonzero(np.diff(run)) + 1])


def join_cells(sample: Sample, starts: Ints) -> Sample:
    """Each run of cells as one cell."""
    mass = np.add.reduceat(sample.mass, starts)
    confidences = np.add.reduceat(sample.mass * sample.confidences, starts) / mass
    complements = np.add.reduceat(sample.mass * sample.complements, starts) / mass
    hits = np.add.reduceat(sample.hits, starts)
    x = np.log(confidences) - np.log(complements)
    return Sample(x, confidences, complements, mass, hits, sample.n, sample.effective_n, sample.weighted)


class Resamples:
    """R resamples of C cells: `mass` and `hits` of shape (R, C). A cell may be empty in a resample."""

    def __init__(self, cells: Sample, mass: Floats, hits: Floats) -> None:
        self.cells, self.mass, self.hits = cells, mass, hits

    @property
    def size(self) -> int:
        """The number of resamples."""
        return int(self.mass.shape[0])

    @property
    def n(self) -> int:
        """Rows of every resample."""
        return self.cells.n

    def take(self, rows: Ints | npt.NDArray[np.bool_]) -> Resamples:
        """Some of the resamples."""
        part = Resamples(self.cells, self.mass[rows], self.hits[rows])
        for name in ("mass_before", "hits_before", "residuals_before"):
            if name in self.__dict__:
                part.__dict__[name] = self.__dict__[name][rows]
        return part

    def samples(self) -> Iterator[Sample]:
        """Each resample as a sample, without its empty cells."""
        c = self.cells
        for mass, hits in zip(self.mass, self.hits, strict=True):
            keep = mass > 0
            yield Sample(
                c.log_odds[keep], c.confidences[keep], c.complements[keep], mass[keep], hits[keep], c.n, c.effective_n,
                weighted=True,
            )  # fmt: skip

    @cached_property
    def residuals(self) -> Floats:
        """Σ (h − ŝ) by resample and cell."""
        return self.hits - self.mass * self.cells.confidences

    @cached_property
    def mass_before(self) -> Floats:
        """Mass before each cell, and the total at the end: (R, C + 1)."""
        return _cumulative(self.mass)

    @cached_property
    def hits_before(self) -> Floats:
        return _cumulative(self.hits)

    @cached_property
    def residuals_before(self) -> Floats:
        return _cumulative(self.residuals)

    @cached_property
    def isotonic_loss(self) -> Floats:
        """The Brier score of isotonic regression on each resample: Σ m g (1 − g) / N over its blocks."""
        owner, cell = np.nonzero(self.mass)
        blocks = pooled_blocks(self.hits[owner, cell], self.mass[owner, cell], owner)
        g = np.clip(blocks.hits / blocks.mass, 0.0, 1.0)
        loss: Floats = np.bincount(blocks.owner, blocks.mass * g * (1.0 - g), self.size) / self.n
        return loss

    def locate(self, positions: Floats | Ints) -> tuple[Ints, Floats]:
        """The cell of each inner position in every resample, (R, P), and how far inside the cell it lies (0 … 1)."""
        rows, size = np.arange(self.size)[:, None], self.mass.shape[1]
        # One search for all resamples: each gets a range of numbers of its own.
        apart = float(self.n + 1)
        ends = (self.mass_before[:, 1:] + rows * apart).ravel()
        found = np.searchsorted(ends, (positions + rows * apart).ravel(), side="right")
        cell = np.clip(found.reshape(self.size, -1) - rows * size, 0, size - 1)
        mass = np.maximum(self.mass[rows, cell], 1e-300)
        return cell, np.clip((positions - self.mass_before[rows, cell]) / mass, 0.0, 1.0)

    def sums_at(self, before: Floats, cell: Ints, inside: Floats) -> Floats:
        """Cumulative sums at located positions, preceded by 0 and followed by the total."""
        rows = np.arange(self.size)[:, None]
        low = before[rows, cell]
        inner = low + inside * (before[rows, cell + 1] - low)
        return np.concatenate([np.zeros((self.size, 1)), inner, before[:, -1:]], axis=1)

    def bins(self, n_bins: int, binning: str, whole_ties: bool = False) -> tuple[Floats, Floats, Floats]:
        """Mass, accuracy − confidence and accuracy of every bin: three arrays (R, B). Empty bins have mass 0."""
        sums = self.mass_before, self.hits_before, self.residuals_before
        if binning == "width":
            positions, _ = width_edges(self.cells, n_bins)
            at = np.searchsorted(self.cells.mass_before, positions - 0.5 * self.cells.mass.min())
            mass, hits, residuals = (np.diff(before[:, at], axis=1) for before in sums)
        else:
            cell, inside = self.locate(array_split_edges(self.n, min(n_bins, self.n))[1:-1])
            if whole_ties:
                inside = np.where(inside >= 0.5, 1.0, 0.0)
            mass, hits, residuals = (np.diff(self.sums_at(before, cell, inside), axis=1) for before in sums)
        full = mass > 1e-9
        size = np.where(full, mass, 1.0)
        return np.where(full, mass, 0.0), np.where(full, residuals / size, 0.0), np.where(full, hits / size, 0.0)


def draw_resamples(sample: Sample, runs: int, rng: np.random.Generator) -> Resamples:
    """Bootstrap samples of the cells. Weighted rows are drawn as often as their effective number."""
    rows = round(sample.effective_n)
    misses = np.maximum(sample.mass - sample.hits, 0.0)
    shares = np.concatenate([sample.hits, misses])
    filled = np.flatnonzero(shares)  # an outcome that never occurred in a cell is never drawn
    drawn = np.zeros((runs, shares.size))
    drawn[:, filled] = rng.multinomial(rows, shares[filled] / shares.sum(), runs)
    drawn *= sample.n / rows
    size = sample.mass.size
    hits = drawn[:, :size]
    return Resamples(sample, hits + drawn[:, size:], hits)


def itself(sample: Sample) -> Resamples:
    """The sample as its own single resample."""
    return Resamples(sample, sample.mass[None, :], sample.hits[None, :])


def _cumulative(values: Floats) -> Floats:
    out = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, out=out[:, 1:])
    return out
