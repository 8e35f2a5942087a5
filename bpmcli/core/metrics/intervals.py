"""Confidence intervals for any metric: the bootstrap on cells, all resamples at once.

The limits are percentiles of the resamples, corrected for bias (Efron 1987; by the mean if the metric is debiased).
Merged cells and coarser grids move a metric slightly; the shift is measured on the sample itself and removed. A metric
with a posterior of its own is not resampled.

The bootstrap cannot separate noise from miscalibration: the ECE of a calibrated model is all noise, and its resamples
have more of it. The posterior of `tce` can, so no interval begins above the interval of `tce`
(for a mean of squares, above the square of its lower limit).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from bpmcli.core.curves.averaged.tce import DRAWS, tce_interval
from bpmcli.core.data.normal import normal_cdf, normal_quantile
from bpmcli.core.data.sample import Floats, Sample
from bpmcli.core.metrics.registry import METRICS, Metric, MetricOptions
from bpmcli.core.metrics.resamples import Resamples, draw_resamples, itself, merged

if TYPE_CHECKING:
    from bpmcli.core.metrics.clusters import ClusteredCells

RESAMPLES = 1000
BLOCK = 2000
"""Resamples that are computed at once."""


class Draws(Protocol):
    """Draws resamples in its own way, such as whole clusters."""

    def draw(self, runs: int, rng: np.random.Generator) -> Resamples: ...


class Interval(NamedTuple):
    """An interval and how it was made."""

    low: float
    high: float
    level: float
    resamples: int
    """Number of resamples, or of draws from the posterior."""


def metric_intervals(
    sample: Sample,
    values: Mapping[str, float | None],
    options: MetricOptions,
    level: float = 0.95,
    runs: int = RESAMPLES,
    seed: int = 0,
    clusters: ClusteredCells | None = None,
) -> dict[str, Interval | None]:
    """A confidence interval for every metric in `values`, by name; None if the metric itself is missing.

    `tce` has the interval of its posterior. The others have percentiles of `runs` bootstrap resamples, mostly
    bias-corrected (Efron 1987), and no interval begins above the interval of `tce`. With `clusters`, whole clusters
    are resampled, and `sample` counts as its effective number of rows (`clustered`).

    >>> from bpmcli import MetricOptions, measure, metric_intervals, sample_from_confidences
    >>> sample = sample_from_confidences([0.9] * 200, [1] * 150 + [0] * 50)
    >>> found = metric_intervals(sample, {"ece": measure(sample, ["ece"])["ece"].value}, MetricOptions(), runs=100)
    >>> found["ece"].low < 0.15 < found["ece"].high
    True
    """
    out: dict[str, Interval | None] = dict.fromkeys(values)
    curve = Interval(*tce_interval(sample, options.p, level, seed), level, DRAWS)
    known = {name: value for name, value in values.items() if value is not None}
    cells = merged(sample)
    drawn_of = resampled_values(cells, [n for n in known if not METRICS[n].posterior], options, runs, seed, clusters)
    for name, value in known.items():
        if METRICS[name].posterior:
            out[name] = curve._replace(low=min(curve.low, value), high=max(curve.high, value))
            continue
        base = float(METRICS[name].on_resamples(itself(cells), options)[0])
        drawn = drawn_of[name][~np.isnan(drawn_of[name])]
        if np.isnan(base) or drawn.size < 2:
            continue
        low, high = limits_of(METRICS[name], drawn, base, level)
        # If all rows are correct, so are all resamples; the posterior allows for wrong rows.
        room = curve.high if sample.one_outcome else 0.0
        low, high = _within_range(METRICS[name], value, low + value - base, high + value - base, curve.low, room)
        out[name] = Interval(low, high, level, drawn.size)
    return out


def _within_range(
    entry: Metric, value: float, low: float, high: float, curve_low: float, room: float
) -> tuple[float, float]:
    """Limits that contain the value and stay within the range of the metric, widened by `room`."""
    if entry.calibration_error:
        # No error is below 0, though a debiased estimate of it may be.
        return min(max(min(low, curve_low), 0.0), value), max(min(high, 1.0), room, value)
    low = min(low, curve_low**2) if entry.squared_error else low
    low, high = max(min(low, value) - room, 0.0), max(high, value) + room
    return low, min(high, entry.most)


def resampled_values(
    cells: Sample, names: Sequence[str], options: MetricOptions, runs: int, seed: int,
    source: Draws | None = None,
) -> dict[str, Floats]:  # fmt: skip
    """Every metric on every resample, a block of resamples at a time: memory stays bounded, and signals are heard.

    The resamples are drawn from the cells, or by `source`.
    """
    rng = np.random.default_rng(seed)
    blocks: dict[str, list[Floats]] = {name: [] for name in names}
    for start in range(0, runs if names else 0, BLOCK):
        size = min(BLOCK, runs - start)
        resamples = draw_resamples(cells, size, rng) if source is None else source.draw(size, rng)
        for name in names:
            blocks[name].append(METRICS[name].on_resamples(resamples, options))
    return {name: np.concatenate(found) for name, found in blocks.items()}


def limits_of(entry: Metric, drawn: Floats, value: float, level: float) -> tuple[float, float]:
    """Percentiles, corrected for bias or reflected as the metric asks for; the value always lies between them.

    A debiased metric removes the noise of N rows, but on a resample the noise of resampling remains, so resamples score
    too high. Both limits move down by half of that excess. Removing all of it would be right for a metric without bias,
    but with few rows per bin `ece-debiased` itself removes too much (coverage on D3, N = 1000: 99 % without the
    correction, 92 % with the whole of it).
    """
    if entry.debiased:
        excess = max(float(drawn.mean()) - value, 0.0)
        low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2]) - excess / 2
    elif entry.limits == "reflected":
        high, low = 2 * value - np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
    elif entry.limits == "percentiles":
        low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
    else:
        low, high = bias_corrected(drawn, value, level)
    return min(float(low), value), max(float(high), value)


def bias_corrected(drawn: Floats, value: float, level: float) -> tuple[float, float]:
    """Efron's bias-corrected percentiles: Φ(2 z₀ ± z), with z₀ the normal score of the value's rank.

    Noise raises every plug-in metric, so resamples score higher than the sample; the correction moves the
    interval back by twice that.
    """
    rank = (float(np.sum(drawn < value)) + 0.5 * float(np.sum(drawn == value)) + 0.5) / (drawn.size + 1)
    shift = 2 * normal_quantile(min(max(rank, 0.5 / drawn.size), 1 - 0.5 / drawn.size))
    z = normal_quantile(0.5 + level / 2)
    low, high = np.quantile(drawn, [normal_cdf(shift - z), normal_cdf(shift + z)])
    return float(low), float(high)
