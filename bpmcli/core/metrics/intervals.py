"""Intervals for any metric: the bootstrap on cells, so that N only matters once.

Resampling N rows is drawing the numbers of hits and misses of every cell from one multinomial
distribution. Neighbouring cells are first merged into at most CELLS, which moves no metric by more
than the resampling error; what it does move is added back, so the interval stands around the exact
value. Percentiles, bias-corrected (Efron 1987; by the mean if the metric is debiased). A metric that
knows its own posterior is not resampled.

Rows drawn again cannot tell noise from error: the ECE of a calibrated model is all noise, and on its
resamples there is more of it. A curve can, so no interval begins above that of `tce`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from bpmcli.core.curves.averaged.tce import DRAWS, tce_interval
from bpmcli.core.data.sample import Floats, Ints, Sample
from bpmcli.core.metrics.registry import METRICS, Metric, MetricOptions, ResampleMetric
from bpmcli.errors import FitError

CELLS = 2000
"""Cells that are resampled; a sample of fewer rows is resampled row by row."""

BIN_CAP = (100, 500)
"""Bin counts of the paper's fit on resamples of large samples: moves tce-bpm by 2 % of its resampling error."""

RESAMPLES = 1000


class Interval(NamedTuple):
    """An interval and how it was made."""

    low: float
    high: float
    level: float
    resamples: int
    """Or draws from the posterior."""


def merged(sample: Sample, cells: int = CELLS) -> Sample:
    """Neighbouring cells joined into at most `cells` of about equal mass."""
    return sample if sample.mass.size <= cells else joined(sample, runs_of_cells(sample, cells))


def runs_of_cells(sample: Sample, cells: int = CELLS) -> Ints:
    """Where the cells of each run begin: at most `cells` runs of about equal mass."""
    if sample.mass.size <= cells:
        return np.arange(sample.mass.size)
    run = np.minimum((sample.mass_before[:-1] * (cells / sample.n)).astype(np.int64), cells - 1)
    return np.concatenate([[0], np.flatnonzero(np.diff(run)) + 1])


def joined(sample: Sample, starts: Ints) -> Sample:
    """Each run of cells as one cell."""
    mass = np.add.reduceat(sample.mass, starts)
    confidences = np.add.reduceat(sample.mass * sample.confidences, starts) / mass
    complements = np.add.reduceat(sample.mass * sample.complements, starts) / mass
    hits = np.add.reduceat(sample.hits, starts)
    x = np.log(confidences) - np.log(complements)
    return Sample(x, confidences, complements, mass, hits, sample.n, sample.effective_n, sample.weighted)


def resamples(sample: Sample, runs: int, rng: np.random.Generator) -> Iterator[Sample]:
    """Bootstrap samples of the cells. Weighted rows are drawn as often as they are worth."""
    rows = round(sample.effective_n)
    misses = np.maximum(sample.mass - sample.hits, 0.0)
    shares = np.concatenate([sample.hits, misses])
    shares /= shares.sum()
    scale = sample.n / rows
    size = sample.mass.size
    for _ in range(runs):
        drawn: Floats = rng.multinomial(rows, shares) * np.float64(scale)
        hits = drawn[:size]
        mass = hits + drawn[size:]
        keep = mass > 0
        yield Sample(
            sample.log_odds[keep], sample.confidences[keep], sample.complements[keep], mass[keep], hits[keep],
            sample.n, sample.effective_n, sample.weighted or scale != 1.0,
        )  # fmt: skip


def metric_intervals(
    sample: Sample,
    values: Mapping[str, float | None],
    options: MetricOptions,
    level: float = 0.95,
    runs: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Interval | None]:
    """An interval for every metric in `values`; None where the metric itself is missing."""
    out: dict[str, Interval | None] = dict.fromkeys(values)
    curve = Interval(*tce_interval(sample, options.p, level, seed), level, DRAWS)
    known = {name: value for name, value in values.items() if value is not None}
    cells = merged(sample)
    if options.bins is None and sample.n > 20 * BIN_CAP[1]:
        options = replace(options, bins=BIN_CAP)
    again = {name: METRICS[name].on_resamples(cells, options) for name in known if not METRICS[name].posterior}
    centre = {name: tried(f, cells) for name, f in again.items()}
    drawn: dict[str, list[float]] = {name: [] for name in again}
    for other in resamples(cells, runs if again else 0, np.random.default_rng(seed)):
        for name, f in again.items():
            found = tried(f, other)
            if found is not None:
                drawn[name].append(found)
    for name, value in known.items():
        base = centre.get(name)
        if METRICS[name].posterior:
            out[name] = curve._replace(low=min(curve.low, value), high=max(curve.high, value))
        elif base is not None and len(drawn[name]) > 1:
            low, high = _limits(METRICS[name], np.array(drawn[name]), base, level)
            # Rows that all hit are all hits when drawn again; a curve knows that a miss may come.
            room = curve.high if sample.one_outcome else value
            high = max(min(high + value - base, 1.0), room, value)
            out[name] = Interval(min(low + value - base, curve.low, value), high, level, len(drawn[name]))
    return out


def tried(f: ResampleMetric, sample: Sample) -> float | None:
    """The metric on a resample; None where it has no value."""
    try:
        return f(sample)
    except FitError:
        return None


def _limits(entry: Metric, drawn: Floats, value: float, level: float) -> tuple[float, float]:
    """Percentiles corrected for bias; the value always lies within.

    A metric that takes off the noise of N rows leaves the one of drawing them again, so that resamples score too
    high. Both ends move down by half of that: all of it would do for a metric without bias, but on thin bins
    `ece-debiased` takes off too much (coverage on D3, N = 1000: 99 % as drawn, 92 % with all of it).
    """
    if entry.debiased:
        excess = max(float(drawn.mean()) - value, 0.0)
        low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2]) - excess / 2
    else:
        low, high = bias_corrected(drawn, value, level)
    return min(float(low), value), max(float(high), value)


def bias_corrected(drawn: Floats, value: float, level: float) -> tuple[float, float]:
    """Efron's bias-corrected percentiles: Φ(2 z₀ ± z), with z₀ the normal score of the value's rank.

    Metrics that noise pushes up (every plug-in one) score higher on resamples than on the sample;
    the correction moves the interval back by twice that.
    """
    normal = NormalDist()
    rank = (float(np.sum(drawn < value)) + 0.5 * float(np.sum(drawn == value)) + 0.5) / (drawn.size + 1)
    shift = 2 * normal.inv_cdf(min(max(rank, 0.5 / drawn.size), 1 - 0.5 / drawn.size))
    z = normal.inv_cdf(0.5 + level / 2)
    low, high = np.quantile(drawn, [normal.cdf(shift - z), normal.cdf(shift + z)])
    return float(low), float(high)
