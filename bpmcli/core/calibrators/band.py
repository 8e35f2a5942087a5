"""A confidence band around a fitted curve: from its posterior if the method has one, otherwise from resamples."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators.base import Calibrator
from bpmcli.core.calibrators.registry import FitOptions, Method, method_named
from bpmcli.core.curves.averaged.mixture import tails
from bpmcli.core.data.rows import Rows, SummarisedRows
from bpmcli.core.data.sample import Floats
from bpmcli.core.metrics.intervals import bias_corrected
from bpmcli.core.metrics.resamples import BIN_CAP, draw_resamples, merged
from bpmcli.errors import BpmError, DataError, FitError

NEAR_ZERO = (0.000001, 0.000005, 0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005)
NEAR_ONE = (0.995, 0.999, 0.9995, 0.9999, 0.99995, 0.99999, 0.999995, 0.999999)
GRID = np.concatenate([NEAR_ZERO, np.arange(1, 100) / 100, NEAR_ONE])
"""Confidences at which the band is given."""

RESAMPLES = 300
DRAWS = 4000
"""Draws from a posterior, which need no further fits."""


class Band(NamedTuple):
    """Limits of the calibration curve g, one pair for each confidence."""

    level: float
    source: str
    """`posterior` or `resamples`."""
    draws: int
    confidence: list[float]
    low: list[float]
    high: list[float]


def curve_band(
    method: str,
    fitted: Calibrator,
    rows: Rows,
    options: FitOptions,
    level: float = 0.95,
    runs: int = RESAMPLES,
    seed: int = 0,
) -> Band:
    """A band around the curve that was fitted to these rows: limits at every confidence of GRID.

    The limits are percentiles of curves drawn from the posterior, or, for a method without a posterior, of `runs`
    curves fitted to resamples, corrected for bias (Efron 1987). Raises FitError if fewer than half of the resamples
    can be fitted.
    """
    entry = method_named(method)
    if entry.needs_distribution:
        raise DataError(
            f"a confidence band needs a curve of the confidence, but {method} maps the scores of all classes",
            "leave --interval out",
        )
    x = np.log(GRID) - np.log1p(-GRID)
    g, rng = fitted(x)[0], np.random.default_rng(seed)
    if entry.draws:
        low, high = np.quantile(entry.draws(rows, x, DRAWS, rng), tails(level), axis=0)
        return Band(level, "posterior", DRAWS, GRID.tolist(), np.minimum(low, g).tolist(), np.maximum(high, g).tolist())
    centre, values = _refitted(entry, rows, options, x, runs, rng)
    limits = np.array([bias_corrected(values[:, i], float(centre[i]), level) for i in range(x.size)])
    low, high = np.clip(limits.T + (g - centre), 0.0, 1.0)
    return Band(level, "resamples", len(values), GRID.tolist(), *_rising(low, high))


def _refitted(
    entry: Method, rows: Rows, options: FitOptions, x: Floats, runs: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """The curve fitted to all rows, and the curves fitted to `runs` resamples, at the log-odds x."""
    cells = merged(rows.sample)
    if rows.sample.n > 20 * BIN_CAP[1] and options.metrics.bins is None:
        options = replace(options, metrics=options.metrics._replace(bins=BIN_CAP))
    centre = entry.fit(SummarisedRows(cells, rows.target), options).calibrator(x)[0]
    drawn: list[Floats] = []
    for sample in draw_resamples(cells, runs, rng).samples():
        try:
            drawn.append(entry.fit(SummarisedRows(sample, rows.target), options).calibrator(x)[0])
        except BpmError:
            continue
    if len(drawn) < max(2, runs // 2):
        raise FitError(f"{entry.name} could be fitted to only {len(drawn)} of {runs} resamples", "leave --interval out")
    return centre, np.array(drawn)


def _rising(low: Floats, high: Floats) -> tuple[list[float], list[float]]:
    """The narrowest band around these limits whose limits do not fall.

    Most curves do not fall. For those that may (histogram, spline, platt), this can only widen the band.
    """
    return np.minimum.accumulate(low[::-1])[::-1].tolist(), np.maximum.accumulate(high).tolist()
