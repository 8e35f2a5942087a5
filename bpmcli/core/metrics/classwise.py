"""Class-wise calibration: each class is treated as an event, "the label is this class".

Every class gives a sample of its own, of N probabilities p_k and outcomes [y = k], on which all other metrics work.
For a row whose label is none of the classes, every [y = k] is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.data.binning import make_bins
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Sample, sample_from_log_odds
from bpmcli.core.metrics.registry import METRICS, MetricOptions, measure

LEVEL = 0.95
"""Level of the intervals of the table if none is asked for."""

MOST_INTERVALS = 100
"""With more classes the table has no intervals unless they are asked for: each takes about a tenth of a second."""


def class_samples(rows: Rows) -> Iterator[tuple[int, Sample]]:
    """One sample per class (or label of many): its log-odds, and whether it is the true class."""
    if rows.label_names:
        width = len(rows.label_names)
        for k in range(width):
            weights = None if rows.weights is None else rows.weights[k::width]
            yield k, sample_from_log_odds(rows.log_odds[k::width], rows.hits[k::width], weights)
        return
    assert rows.scores is not None
    assert rows.labels is not None
    for k, x in rows.scores.log_odds():
        yield k, sample_from_log_odds(x, rows.labels == k, rows.weights)


def ece_classwise(rows: Rows, options: MetricOptions) -> tuple[float, int]:
    """(1/K Σ_k ECE_k^p)^(1/p) with ECE_k of class k against the rest, and the number K of classes."""
    errors = [measure(sample, ["ece"], options)["ece"].value for _, sample in class_samples(rows)]
    powers = [float(error or 0.0) ** options.p for error in errors]
    return (math.fsum(powers) / len(powers)) ** (1 / options.p), len(powers)


def ece_marginal(rows: Rows, options: MetricOptions) -> tuple[float, int]:
    """√max(0, 1/K Σ_k Σ_b |b|/N (gap_kb² − acc_kb (1 − acc_kb)/(|b| − 1))), and the number K of classes."""
    squares = [_debiased_square(sample, options) for _, sample in class_samples(rows)]
    return math.sqrt(max(math.fsum(squares) / len(squares), 0.0)), len(squares)


def _debiased_square(sample: Sample, options: MetricOptions) -> float:
    """Unbiased estimate of the mean squared gap over the bins (Kumar et al. 2019); bins of one row count as 0."""
    bins = make_bins(sample, options.n_bins, options.binning, whole_ties=True)
    rows = bins.mass * (sample.effective_n / sample.n)
    many = rows > 1
    variance = np.maximum(bins.accuracies * (1.0 - bins.accuracies), 0.0)
    square = np.where(many, bins.gaps**2 - variance / np.where(many, rows - 1, 1.0), 0.0)
    return float(bins.mass @ square) / float(bins.mass.sum())


class Asked(NamedTuple):
    """What the table of classes shows, and how its intervals are made."""

    names: Sequence[str]
    options: MetricOptions
    level: float | None = LEVEL
    """None for a table without intervals."""
    resamples: int = 1000
    seed: int = 0


def class_table(rows: Rows, asked: Asked) -> list[dict[str, Any]]:
    """A record per class: how often it is true, its mean probability, and its metrics with intervals.

    Metrics of whole distributions are left out, because a single class has no distribution.
    """
    names = [name for name in asked.names if METRICS[name].of_event and not METRICS[name].needs_classes]
    out = []
    for k, sample in class_samples(rows):
        record: dict[str, Any] = {
            "class": rows.label_names[k] if rows.scores is None else rows.scores.name(k),
            "rows": float(np.sum(sample.hits)) if sample.weighted else int(np.sum(sample.hits)),
            "rate": sample.accuracy,
            "mean_probability": sample.mean_confidence,
            "gap": -sample.mean_gap,
            "metrics": _class_metrics(sample, names, asked),
        }
        out.append(record)
    return out


def _class_metrics(sample: Sample, names: Sequence[str], asked: Asked) -> dict[str, Mapping[str, Any]]:
    from bpmcli.core.metrics.intervals import Interval, metric_intervals

    measured = measure(sample, names, asked.options)
    values = {name: found.value for name, found in measured.items()}
    limits: Mapping[str, Interval | None] = dict.fromkeys(values)
    if asked.level is not None:
        limits = metric_intervals(sample, values, asked.options, asked.level, asked.resamples, asked.seed)
    found: dict[str, Mapping[str, Any]] = {}
    for name, one in measured.items():
        if one.value is None:
            found[name] = {"value": None, "why_missing": one.why_missing}
            continue
        interval = limits[name]
        found[name] = {"value": one.value} | (
            {"low": None, "high": None} if interval is None else {"low": interval.low, "high": interval.high}
        )
    return found
