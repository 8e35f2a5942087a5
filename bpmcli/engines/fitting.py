"""Fitting one file, or several as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bpmcli.core.calibrators import FitOptions, fit_calibrator
from bpmcli.core.notices import Notice
from bpmcli.core.rows import Rows
from bpmcli.io.layout import InputOptions
from bpmcli.io.params import checksum, describe
from bpmcli.io.paths import Input
from bpmcli.io.readers import read_rows


@dataclass(frozen=True)
class FitFile:
    """Fits one file and describes the result."""

    options: InputOptions
    method: str
    fit: FitOptions
    distributions: bool = False

    def __call__(self, item: Input) -> tuple[dict[str, Any], tuple[Notice, ...]]:
        loaded = read_rows(item.path, self.options, distributions=self.distributions)
        return self.describe([item], loaded.rows, loaded.notices)

    def describe(
        self, items: Sequence[Input], rows: Rows, notices: tuple[Notice, ...]
    ) -> tuple[dict[str, Any], tuple[Notice, ...]]:
        """Fit rows that are already read; the document of the parameter file."""
        fitted = fit_calibrator(self.method, rows, self.fit)
        inputs = [{"name": item.path, "sha256": checksum(item.path)} for item in items]
        return describe(self.method, fitted, rows, inputs), notices + fitted.notices
