"""All calibrators. Each file in this folder that uses `@method` is found automatically."""

import importlib
import pkgutil

from bpmcli.core.calibrators.base import Calibrator, DistributionCalibrator
from bpmcli.core.calibrators.registry import (
    METHODS,
    FitOptions,
    Fitted,
    Method,
    fit_calibrator,
    method,
    method_named,
)

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

# Lists show calibrators of confidences first, then whole-distribution calibrators.
_ordered = sorted(METHODS.items(), key=lambda item: item[1].needs_distribution)
METHODS.clear()
METHODS.update(_ordered)

__all__ = [
    "METHODS",
    "Calibrator",
    "DistributionCalibrator",
    "FitOptions",
    "Fitted",
    "Method",
    "fit_calibrator",
    "method",
    "method_named",
]
