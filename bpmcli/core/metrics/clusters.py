"""Rows that belong together: the same prompt several times, the sentences of a document, the images of a patient.

Rows of one cluster are not independent, so intervals resample whole clusters (Field & Welsh 2007). Metrics whose
interval comes from a posterior, the calibration test and the verdict count the rows as their effective number instead,
N / deff with the design effect (Kish 1965)

    deff = Σ_c (Σ_{i in c} ψ_i)² / Σ_i ψ_i²,

which is 1 for independent rows, and equals the size of the clusters if all rows of a cluster are copies.
"""

from __future__ import annotations

import numpy as np

from bpmcli.core.curves.averaged.tce import tce_averaged, unbiased_curve
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, Ints, Sample, make_room_for_hit, sigmoid
from bpmcli.core.metrics.resamples import Resamples, join_cells, runs_of_cells
from bpmcli.errors import DataError

AT_ONCE = 1 << 23
"""Numbers that are drawn at once: resamples times clusters."""

PARTS = 10
"""Parts of equal mass in which the rows of a cluster are also compared, because the curve is local."""

FEW = 20
"""With fewer clusters than this, their variance is poorly known and intervals tend to be too narrow."""


class ClusteredCells:
    """How many rows and correct rows every cluster has in every cell."""

    FEW = FEW

    def __init__(self, cells: Sample, cell: Ints, cluster: Ints, mass: Floats, hits: Floats) -> None:
        """Per row: its cell and cluster (0 … C − 1), its weight, and its weight if it is correct."""
        self.cells, self.size = cells, int(cluster.max()) + 1
        width = cells.mass.size
        # Rows of one cluster in one cell are always drawn together.
        key, place = np.unique(cluster * width + cell, return_inverse=True)
        self.cluster, self.cell = key // width, key % width
        self.mass, self.hits = np.bincount(place, mass), np.bincount(place, hits)

    def draw(self, runs: int, rng: np.random.Generator) -> Resamples:
        """Resamples of whole clusters, as many as there are, scaled to the number of rows."""
        width = self.cells.mass.size
        mass, hits = np.empty((runs, width)), np.empty((runs, width))
        block = max(1, AT_ONCE // self.size)
        for start in range(0, runs, block):
            times = rng.multinomial(self.size, np.full(self.size, 1.0 / self.size), min(block, runs - start))
            for i, drawn in enumerate(times, start):
                often = drawn[self.cluster]
                mass[i] = np.bincount(self.cell, often * self.mass, width)
                hits[i] = np.bincount(self.cell, often * self.hits, width)
        scale = self.cells.n / mass.sum(axis=1, keepdims=True)
        return Resamples(self.cells, mass * scale, hits * scale)

    def as_fewer_rows(self) -> Sample:
        """The effective number of rows in wide cells, for simulations that draw rows one by one."""
        wide = max(10, min(self.cells.mass.size, int(self.cells.effective_n / 4)))
        return join_cells(self.cells, runs_of_cells(self.cells, wide))._replace(weighted=True, summarised=True)


def clustered(rows: Rows) -> tuple[Sample, ClusteredCells]:
    """The sample with its effective number of rows, and the cells from which whole clusters are resampled."""
    assert rows.clusters is not None
    weights = np.ones(rows.n) if rows.weights is None else rows.weights / rows.weights.max()
    keep = np.flatnonzero(weights > 0)
    cluster = rows.clusters.take(keep).ranks()
    # The last digits of sums depend on the order of their terms, which the file must not decide.
    order = np.lexsort([weights[keep], 2 * cluster + rows.hits[keep], rows.log_odds[keep]])
    keep, cluster = keep[order], cluster[order]
    weights, hits = weights[keep], rows.hits[keep].astype(np.float64)
    if not cluster.any():
        raise DataError(
            "all rows are in one cluster, so differences between clusters are unknown", "leave --cluster out"
        )
    x = rows.log_odds[keep].copy()
    make_room_for_hit(x)
    sample = rows.sample
    starts = runs_of_cells(sample)
    cell = np.maximum(np.searchsorted(sample.log_odds[starts], x, side="right") - 1, 0)
    effect = design_effect(sample, x, hits, weights, cluster)
    sample = sample._replace(effective_n=max(sample.effective_n / effect, 2.0))
    cells = sample if starts.size == sample.mass.size else join_cells(sample, starts)
    return sample, ClusteredCells(cells, cell, cluster, weights, weights * hits)


def design_effect(sample: Sample, x: Floats, hits: Floats, weights: Floats, cluster: Ints) -> float:
    """The largest design effect, at least 1, of three sums that a calibration error is made of. `x` ascends.

    With g the averaged curve: ψ = h − g (the mean gap), ψ = sign(g − s)(h − s) − tce (the influence of a row on
    `tce`), and h − g in each of PARTS ranges of confidence (the curve itself).
    """
    s, gap = sigmoid(x), unbiased_curve(sample).distance(x)
    noise = weights * (hits - s - gap)
    influence = weights * (np.sign(gap) * (hits - s) - tce_averaged(sample).value)
    part = np.arange(x.size) * PARTS // x.size
    correction = (int(cluster.max()) + 1) / max(int(cluster.max()), 1)
    found = [_effect(noise, cluster), _effect(influence, cluster), _effect(noise, cluster * PARTS + part)]
    return max(1.0, correction * max(found))


def _effect(values: Floats, cluster: Ints) -> float:
    total = float(values @ values)
    return float(np.sum(np.square(np.bincount(cluster, values)))) / total if total > 0 else 1.0
