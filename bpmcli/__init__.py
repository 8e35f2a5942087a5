"""bpmcli: measure and fix a classifier's calibration.

>>> from bpmcli import fit_bpm, measure, sample_from_confidences, verdict
>>> sample = sample_from_confidences([0.9] * 200 + [0.7] * 200, [1, 1, 1, 0] * 50 + [1, 0] * 100)
>>> verdict(sample).title
'over-confident'
>>> round(measure(sample)["ece"].value, 3)
0.175
>>> curve = fit_bpm(sample).curve
>>> bool(curve.at([0.9])[0] < 0.9)
True

See docs/PYTHON.md.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` takes a while, during which a signal would end in a traceback
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_API = {
    "BpmError": "bpmcli.errors",
    "METRICS": "bpmcli.core.metrics",
    "bin_table": "bpmcli.core.metrics.bin_table",
    "METHODS": "bpmcli.core.calibrators",
    "MetricOptions": "bpmcli.core.metrics",
    "Rows": "bpmcli.core.data.rows",
    "Sample": "bpmcli.core.data.sample",
    "ScoreCalibrator": "bpmcli.tasks.estimator",
    "TRUTHS": "bpmcli.core.compare.truths",
    "fit_bpm": "bpmcli.core.curves.bpm",
    "fit_calibrator": "bpmcli.core.calibrators",
    "measure": "bpmcli.core.metrics",
    "metric_intervals": "bpmcli.core.metrics.intervals",
    "paired_differences": "bpmcli.core.metrics.paired",
    "read_rows": "bpmcli.io",
    "sample_from_confidences": "bpmcli.core.data.sample",
    "sample_from_frame": "bpmcli.core.data.frames",
    "sample_from_log_odds": "bpmcli.core.data.sample",
    "simulate": "bpmcli.core.compare.truths",
    "verdict": "bpmcli.core.metrics.verdict",
}

__all__ = ["__version__", *_API]


def __getattr__(name: str) -> Any:
    if name not in _API:
        raise AttributeError(f"module 'bpmcli' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_API[name]), name)


def __dir__() -> list[str]:
    return __all__
