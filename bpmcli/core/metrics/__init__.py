"""Calibration metrics. `definitions` holds one function per metric; everything else reads the registry."""

from bpmcli.core.metrics import definitions  # noqa: F401  (metrics register themselves)
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
