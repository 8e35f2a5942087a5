"""What `metrics` computes from the scores of all classes, and why a metric is missing where it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.metrics import METRICS, Measured, Measurements, MetricOptions
from bpmcli.core.metrics.classwise import LEVEL, MOST_INTERVALS, Asked, class_table
from bpmcli.core.metrics.registry import NO_CLASSES
from bpmcli.errors import DataError, FitError

NO_PREDICTION = Measured(None, why_missing="with --event there are no predicted classes")
NO_EXCLUSION = Measured(None, why_missing="with --multi-label a row has no single true class")
SUMMARISED = Measured(None, why_missing="the scores of all classes are needed, and a summary does not store them")
CLUSTERED = Measured(None, why_missing="the test needs independent rows, but these are in clusters")


def with_reasons(measured: Measurements, rows: Rows) -> Measurements:
    """The metrics, with None and a reason for each that is not defined for these rows."""
    for name, found in measured.items():
        entry = METRICS[name]
        if rows.target == EVENT and not entry.of_event and not (rows.label_names and entry.of_labels):
            measured[name] = NO_EXCLUSION if rows.label_names else NO_PREDICTION
        elif found is NO_CLASSES and rows.sample.from_summary:
            measured[name] = SUMMARISED
        elif entry.is_test and rows.clusters is not None:
            measured[name] = CLUSTERED
    return measured


def single_classes(rows: Rows) -> dict[str, Any]:
    """The record's field about the calibration of single classes; none if the rows are not independent."""
    if rows.scores is None or rows.clusters is not None:
        return {}
    from bpmcli.core.metrics.class_check import class_check

    try:
        return {"class_check": class_check(rows.known())._asdict()}
    except FitError:  # too many classes; the check was not asked for, so this is not an error
        return {}


def classwise(rows: Rows, names: Sequence[str], options: MetricOptions, wanted: Any) -> list[dict[str, Any]]:
    """The table of all classes; `wanted` is a `Requested`."""
    if rows.scores is None and not rows.label_names:
        raise DataError("--classwise needs the scores of all classes, and labels", "leave --classwise out")
    level = wanted.interval or (None if too_many_intervals(rows) else LEVEL)
    return class_table(rows, Asked(names, options, level, wanted.resamples, wanted.seed))


def too_many_intervals(rows: Rows) -> int:
    """The number of classes if they are too many for intervals that nobody asked for; otherwise 0."""
    count = len(rows.label_names) if rows.scores is None else rows.scores.n_classes
    return count if count > MOST_INTERVALS else 0


def intervals(rows: Rows, values: Mapping[str, float | None], options: MetricOptions, wanted: Any) -> dict[str, Any]:
    """Intervals of the metrics of whole distributions among `values`; `wanted` is a `Requested`."""
    whole = {name: value for name, value in values.items() if METRICS[name].needs_classes}
    if rows.scores is None:
        return dict.fromkeys(whole)
    from bpmcli.core.metrics.whole_intervals import whole_intervals

    return dict(whole_intervals(rows, whole, options, wanted.interval, wanted.resamples, wanted.seed))
