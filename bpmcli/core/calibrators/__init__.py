"""Every calibrator, in the order `--list` shows them. A new one is a file here and a line below."""

from bpmcli.core.calibrators import averaged, bpm, histogram, isotonic, logistic, spline, temperature  # noqa: F401
from bpmcli.core.calibrators.base import (
    METHODS,
    Calibrator,
    FitOptions,
    Fitted,
    Method,
    fit_calibrator,
    method_named,
)

__all__ = ["METHODS", "Calibrator", "FitOptions", "Fitted", "Method", "fit_calibrator", "method_named"]
