"""A band around a fitted curve: the same fit on resamples of the cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators.base import FitOptions, method_named
from bpmcli.core.intervals import BIN_CAP, bias_corrected, merged, resamples
from bpmcli.core.metrics import MetricOptions
from bpmcli.core.rows import Rows, SummarisedRows
from bpmcli.core.sample import Floats
from bpmcli.errors import BpmError, DataError, FitError

GRID = np.concatenate([[0.001, 0.005], np.arange(1, 100) / 100, [0.995, 0.999]])
"""Confidences at which the band is given."""

RESAMPLES = 300


class Band(NamedTuple):
    """Pointwise limits of g at the grid's confidences."""

    level: float
    resamples: int
    confidence: list[float]
    low: list[float]
    high: list[float]


def curve_band(
    method: str, rows: Rows, options: FitOptions, level: float = 0.95, runs: int = RESAMPLES, seed: int = 0
) -> Band:
    """Refit a method `runs` times; bias-corrected percentiles of the curve at every point of the grid."""
    entry = method_named(method)
    if entry.needs_distribution:
        raise DataError(
            f"a band is drawn over the confidence, and {method} works on all classes", "leave --interval out"
        )
    cells = merged(rows.sample)
    if rows.sample.n > 20 * BIN_CAP[1] and options.metrics.bins is None:
        capped = MetricOptions(**{**options.metrics.__dict__, "bins": BIN_CAP})
        options = FitOptions(**{**options.__dict__, "metrics": capped})
    x = np.log(GRID) - np.log1p(-GRID)
    centre = entry.fit(SummarisedRows(cells, rows.target), options).calibrator(x)[0]
    drawn: list[Floats] = []
    for sample in resamples(cells, runs, np.random.default_rng(seed)):
        try:
            drawn.append(entry.fit(SummarisedRows(sample, rows.target), options).calibrator(x)[0])
        except BpmError:
            continue
    if len(drawn) < max(2, runs // 2):
        raise FitError(f"{method} could be fitted to {len(drawn)} of {runs} resamples only", "leave --interval out")
    values = np.array(drawn)
    limits = [bias_corrected(values[:, i], float(centre[i]), level) for i in range(x.size)]
    exact = entry.fit(rows, options).calibrator(x)[0]
    moved = exact - centre
    low = np.clip([a + m for (a, _), m in zip(limits, moved, strict=True)], 0.0, 1.0)
    high = np.clip([b + m for (_, b), m in zip(limits, moved, strict=True)], 0.0, 1.0)
    return Band(level, len(drawn), GRID.tolist(), low.tolist(), high.tolist())
