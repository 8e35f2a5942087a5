"""Calibration metrics: one function each in `definitions` or `class_definitions`; all else reads the registry."""

from bpmcli.core.metrics import definitions  # noqa: F401, I001  (metrics register themselves, in this order)
from bpmcli.core.metrics import class_definitions  # noqa: F401
from bpmcli.core.metrics.registry import (
    METRICS,
    Measured,
    Measurements,
    Metric,
    MetricOptions,
    calibration_errors,
    check_metric_names,
    everyday_metrics,
    measure,
    metric,
)

__all__ = [
    "METRICS",
    "Measured",
    "Measurements",
    "Metric",
    "MetricOptions",
    "calibration_errors",
    "check_metric_names",
    "everyday_metrics",
    "measure",
    "metric",
]
