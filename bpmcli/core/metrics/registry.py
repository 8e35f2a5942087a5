"""The registry of metrics: what an entry holds, and how chosen entries are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bpmcli.core.data.binning import N_SCHEMES
from bpmcli.core.data.names import known_name
from bpmcli.core.data.notices import Notice
from bpmcli.core.data.sample import Floats, Sample
from bpmcli.errors import FitError
from bpmcli.record import Record

if TYPE_CHECKING:
    import pandas as pd

    from bpmcli.core.data.rows import Rows
    from bpmcli.core.metrics.resamples import Resamples


class MetricOptions(Record):
    """Settings of the metrics; the defaults are the paper's.

    >>> from bpmcli import MetricOptions, measure, sample_from_confidences
    >>> sample = sample_from_confidences([0.6, 0.7, 0.8, 0.9], [1, 0, 0, 1])
    >>> round(measure(sample, ["ece"], MetricOptions(n_bins=2, binning="width"))["ece"].value, 3)
    0.25
    """

    n_bins: int = 15
    """Bins of the binned metrics."""
    binning: str = "mass"
    """Bins of equal `mass` or equal `width`."""
    p: float = 1.0
    """The exponent of the error, (mean |gap|^p)^(1/p)."""
    variant: str = "paper"
    """tce-bpm: `paper`, or `authors` for the rules of their published code."""
    schemes: int | None = N_SCHEMES
    """tce-bpm: how many bin counts the curve is fitted over; None for all."""
    bins: tuple[int, int] | None = None
    """tce-bpm: the range of these bin counts; None for [N/100, N/20]."""
    density: str = "beta"
    """tce-bpm: the distribution of the confidences, `beta` or `empirical`."""


class Measured(NamedTuple):
    """A metric's value, or None with the reason why it could not be computed."""

    value: float | None
    details: Mapping[str, float | int | str] = {}
    notices: tuple[Notice, ...] = ()
    why_missing: str | None = None


NO_CLASSES = Measured(None, why_missing="the scores of all classes and labels are needed")

Compute = Callable[[Any, MetricOptions], Measured]
"""From a sample, or from rows for a metric that needs the scores of all classes."""
OnResamples = Callable[["Resamples", MetricOptions], Floats]
"""A metric on all resamples of a sample at once: one value per resample, NaN where there is none."""


class Metric(Record):
    """A registry entry: the function, what `--list` says about it, and how its interval is made."""

    name: str
    summary: str
    reference: str
    compute: Compute
    everyday: bool = False
    """One of the paper's seven, which are measured when no metric is named."""
    debiased: bool = False
    """The metric already subtracts the noise of its rows. On a resample, the noise of resampling remains."""
    resampled: str | None = None
    """Module and function in `core.metrics` that compute the metric on many resamples at once, imported when needed.
    Without it, the metric is computed resample by resample."""
    posterior: bool = False
    """Its interval comes from the posterior of the averaged curve, without resamples."""
    needs_classes: bool = False
    """Measured on the scores of all classes: `compute` gets `Rows` with `scores` and `labels` instead of a sample."""
    calibration_error: bool = True
    """Estimates the calibration error of the confidence, whose true value is known for simulated data."""
    limits: str = "bias-corrected"
    """How resamples become limits: by `percentiles`, by `bias-corrected` percentiles, or `reflected`: 2 · value −
    percentile (the basic bootstrap), if noise raises the metric on the sample and again, by as much, on every
    resample."""
    squared_error: bool = False
    """Estimates the mean square of the calibration error. No interval begins above the square of the lower limit of
    `tce`."""
    higher_is_better: bool = False
    most: float = 1.0
    """The largest value that the metric can have."""
    is_test: bool = False
    """The value is a P-value: it has neither an interval nor a noise floor."""
    of_event: bool = True
    """Also defined for the probability of an event (--event)."""
    of_labels: bool = False
    """Needs all classes, and is also defined for labels that do not exclude each other (--multi-label)."""

    def on_resamples(self, drawn: Resamples, options: MetricOptions) -> Floats:
        """The metric of every resample; NaN where it has no value."""
        if self.resampled is not None:
            from importlib import import_module

            module, _, function = self.resampled.partition(":")
            at_once: OnResamples = getattr(import_module(f"bpmcli.core.metrics.{module}"), function)
            try:
                return at_once(drawn, options)
            except FitError:
                return np.full(drawn.size, np.nan)
        values = []
        for sample in drawn.samples():
            try:
                values.append(self.compute(sample, options).value)
            except FitError:
                values.append(None)
        return np.array([np.nan if value is None else value for value in values])


METRICS: dict[str, Metric] = {}


def metric(name: str, summary: str, reference: str, **more: Any) -> Callable[[Compute], Compute]:
    """Register a metric under its command-line name; `more` are further fields of `Metric`."""

    def register(compute: Compute) -> Compute:
        METRICS[name] = Metric(name, summary, reference, compute, **more)
        return compute

    return register


class Measurements(dict[str, Measured]):
    """Metrics by name, in the order in which they were asked for."""

    def to_frame(self, intervals: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """A DataFrame with one row per metric: its value, the reason if it is missing, and its details.

        `intervals` (from `metric_intervals`) adds the columns `low` and `high`.
        """
        import pandas as pd

        rows = []
        for name, found in self.items():
            row = {"metric": name, "value": np.nan if found.value is None else found.value}
            if intervals is not None:
                limits = intervals.get(name)
                row |= {"low": np.nan, "high": np.nan} if limits is None else {"low": limits.low, "high": limits.high}
            rows.append({**row, "why_missing": found.why_missing, "details": dict(found.details)})
        return pd.DataFrame(rows).set_index("metric")

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        html: str = self.to_frame()[["value"]].to_html()
        return html


def measure(
    sample: Sample,
    names: Iterable[str] | None = None,
    options: MetricOptions | None = None,
    rows: Rows | None = None,
) -> Measurements:
    """Calibration metrics of a sample by name: the paper's seven by default, `["all"]` for every one.

    Metrics of whole distributions need the `rows` of the sample, with the scores of all classes and labels. A metric
    that cannot be computed has the value None and says why. The formula and the reference of each metric are
    in `METRICS[name].compute.__doc__` and `METRICS[name].reference`.

    >>> from bpmcli import measure, sample_from_confidences
    >>> sample = sample_from_confidences([0.9] * 10 + [0.6] * 10, [1] * 8 + [0] * 2 + [1] * 6 + [0] * 4)
    >>> found = measure(sample, ["ece", "ks"])
    >>> round(found["ece"].value, 4), round(found["ks"].value, 4)
    (0.05, 0.05)
    >>> found.to_frame().value.round(4).to_dict()
    {'ece': 0.05, 'ks': 0.05}
    """
    options = options or MetricOptions()
    results = Measurements()
    for name in check_metric_names(names):
        entry = METRICS[name]
        data: Rows | Sample | None = sample
        if entry.needs_classes:
            there = rows is not None and (rows.scores is not None or (bool(rows.label_names) and entry.of_labels))
            data = rows if there else None
        try:
            results[name] = NO_CLASSES if data is None else entry.compute(data, options)
        except FitError as error:
            results[name] = Measured(None, why_missing=error.message)
    return results


def calibration_errors() -> list[str]:
    """The names of the metrics that estimate the calibration error of the confidence."""
    return [name for name, entry in METRICS.items() if entry.calibration_error]


def everyday_metrics() -> list[str]:
    """The names of the metrics that are measured by default: the paper's seven."""
    return [name for name, entry in METRICS.items() if entry.everyday]


def check_metric_names(names: Iterable[str] | None, known: Iterable[str] | None = None) -> list[str]:
    """The chosen names (`all` means every metric), or a usage error that lists the known ones.

    `known` are the metrics to choose from where not every metric makes sense.
    """
    if names is None:
        return everyday_metrics()
    every = list(METRICS if known is None else known)
    wanted = [part for name in names for part in name.split(",")]
    if "all" in wanted:
        return every
    return [name if name in every else known_name(name, every, "metric") for name in wanted]
