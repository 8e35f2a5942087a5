"""bpmcli: is a classifier's confidence to be trusted, and if not, how to repair it.

from bpmcli import sample_from_confidences, measure, fit_bpm
sample = sample_from_confidences(confidences, hits)
print({name: m.value for name, m in measure(sample).items()})
curve = fit_bpm(sample).curve
print(curve.at([0.5, 0.9, 0.99]))
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_API = {
    "BpmError": "bpmcli.errors",
    "METRICS": "bpmcli.core.metrics",
    "METHODS": "bpmcli.core.calibrators",
    "MetricOptions": "bpmcli.core.metrics",
    "Rows": "bpmcli.core.data.rows",
    "Sample": "bpmcli.core.data.sample",
    "TRUTHS": "bpmcli.core.compare.truths",
    "fit_bpm": "bpmcli.core.curves.bpm",
    "fit_calibrator": "bpmcli.core.calibrators",
    "measure": "bpmcli.core.metrics",
    "read_rows": "bpmcli.io",
    "sample_from_confidences": "bpmcli.core.data.sample",
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
