"""Two models on the same rows: the difference of every metric, with an interval and a P-value.

Rows are resampled jointly, so what both models share cancels. The P-value inverts the percentile
interval: the smallest level at which it leaves zero out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, Sample, make_room_for_hit
from bpmcli.core.metrics.intervals import BIN_CAP, bias_corrected, joined, runs_of_cells, tried
from bpmcli.core.metrics.registry import METRICS, MetricOptions, measure
from bpmcli.errors import DataError


class Difference(NamedTuple):
    """Second model less first: negative means that the second is better calibrated."""

    metric: str
    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None


class _Resampler:
    """The (merged) cells of a model's rows, refilled with the rows that were drawn."""

    def __init__(self, rows: Rows) -> None:
        x = rows.log_odds.copy()
        make_room_for_hit(x)
        starts = runs_of_cells(rows.sample)
        self.sample = rows.sample if starts.size == rows.sample.mass.size else joined(rows.sample, starts)
        # A row of weight zero is in no cell; wherever it lands it counts nothing.
        self.cell = np.maximum(np.searchsorted(rows.sample.log_odds[starts], x, side="right") - 1, 0)
        self.hits = rows.hits.astype(np.float64)
        self.weights = np.ones(rows.n) if rows.weights is None else rows.weights

    def draw(self, counts: Floats) -> Sample:
        size = self.sample.mass.size
        worth = counts * self.weights
        mass = np.bincount(self.cell, worth, size)
        hits = np.bincount(self.cell, worth * self.hits, size)
        keep = mass > 0
        s = self.sample
        scale = s.n / mass.sum()
        return Sample(
            s.log_odds[keep], s.confidences[keep], s.complements[keep], mass[keep] * scale, hits[keep] * scale,
            s.n, s.effective_n, weighted=True,
        )  # fmt: skip


def same_rows(first: Rows, second: Rows) -> None:
    """Refuse two files that cannot be of the same rows."""
    if first.n != second.n:
        raise DataError(f"one file has {first.n} rows, the other {second.n}", "a paired comparison needs the same rows")
    if first.labels is not None and second.labels is not None:
        different = np.flatnonzero(first.labels != second.labels)
        if different.size:
            raise DataError(
                f"the labels differ in {different.size} rows (first in row {int(different[0]) + 1})",
                "a paired comparison needs the same rows in the same order",
            )
    if first.target != second.target:
        raise DataError("one file is about P(y = 1), the other about the predicted class")


def paired_differences(
    first: Rows, second: Rows, names: Sequence[str], options: MetricOptions, level: float = 0.95,
    runs: int = 1000, seed: int = 0,
) -> list[Difference]:  # fmt: skip
    """Every metric of both models and their difference, from `runs` joint resamples of the rows."""
    same_rows(first, second)
    exact = [measure(rows.sample, names, options) for rows in (first, second)]
    if options.bins is None and first.n > 20 * BIN_CAP[1]:
        options = replace(options, bins=BIN_CAP)
    models = [_Resampler(first), _Resampler(second)]
    known = [name for name in names if all(found[name].value is not None for found in exact)]
    again = [{name: METRICS[name].on_resamples(m.sample, options) for name in known} for m in models]
    centre = {name: [tried(again[i][name], m.sample) for i, m in enumerate(models)] for name in known}
    rng = np.random.default_rng(seed)
    drawn: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(runs):
        counts = np.bincount(rng.integers(0, first.n, first.n), minlength=first.n).astype(np.float64)
        before, after = (model.draw(counts) for model in models)
        for name in known:
            a, b = tried(again[0][name], before), tried(again[1][name], after)
            if a is not None and b is not None:
                drawn[name].append(b - a)
    out = []
    for name in names:
        a, b = exact[0][name].value, exact[1][name].value
        if a is None or b is None or len(drawn[name]) < 2:
            out.append(Difference(name, a, b, None if a is None or b is None else b - a, None, None, None))
            continue
        # What merging cells and coarser grids moved is put back.
        base = [v for v in centre[name] if v is not None]
        d = np.array(drawn[name]) + ((b - a) - (base[1] - base[0]) if len(base) == 2 else 0.0)
        low, high = bias_corrected(d, b - a, level)
        side = min(np.sum(d <= 0), np.sum(d >= 0))
        out.append(Difference(name, a, b, b - a, low, high, float(min(1.0, 2 * (side + 1) / (d.size + 1)))))
    return out
