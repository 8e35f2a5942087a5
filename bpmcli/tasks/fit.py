"""Fits a calibrator to one file, or to the rows of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bpmcli import __version__
from bpmcli.core.calibrators import METHODS, FitOptions, fit_calibrator
from bpmcli.core.calibrators.document import describe
from bpmcli.core.calibrators.grouped import MARGINAL, Grouping, fit_groups
from bpmcli.core.calibrators.spread import Spread, fit_spread, floor_of
from bpmcli.core.compare.before_after import before_after
from bpmcli.core.compare.choice import AUTO, choose_method
from bpmcli.core.data.notices import Notice
from bpmcli.core.data.rows import Rows
from bpmcli.errors import DataError
from bpmcli.io.document_kinds import CALIBRATOR
from bpmcli.io.layout import InputOptions
from bpmcli.io.params import origin_of_rows
from bpmcli.io.paths import Input
from bpmcli.io.readers import Loaded, read_rows


@dataclass(frozen=True)
class FitFile:
    """Fits a calibrator to one file. Returns the document of the parameter file, and notices."""

    options: InputOptions
    method: str
    fit: FitOptions
    distributions: bool = False
    mode: str = "exact"
    grouping: Grouping | None = None
    interval: float = 0.0
    """Level of a band around the curve; 0 for none."""
    seed: int = 0

    def __call__(self, item: Input) -> tuple[dict[str, Any], tuple[Notice, ...]]:
        mode = "exact" if self.distributions and self.mode == "auto" else self.mode
        read = read_rows(item.place, self.options, distributions=self.distributions, mode=mode, missed=True)
        return self.describe(origin_of_rows([item], self.options, read.summarised is not None), read.rows, read.notices)

    def finish(self, item: Input, loaded: Loaded) -> tuple[dict[str, Any], tuple[Notice, ...]]:
        """The same for a file that is already read."""
        return self.describe(
            origin_of_rows([item], self.options, loaded.summarised is not None), loaded.rows, loaded.notices
        )

    def describe(
        self, origin: Mapping[str, Any], rows: Rows, notices: tuple[Notice, ...]
    ) -> tuple[dict[str, Any], tuple[Notice, ...]]:
        """The same for rows that are already read; `origin` names their files (`origin_of_rows`)."""
        if rows.has_unknown:
            rows = self._without_classes(rows)
        if self.method == AUTO:
            return self._chosen(origin, rows, notices)
        groups = fit_groups(self.method, rows, self.fit, self.grouping) if self.grouping else None
        fitted = groups.pooled if groups else fit_calibrator(self.method, rows, self.fit)
        marginal = self.grouping is not None and self.grouping.kind == MARGINAL
        spread = None
        if fitted.calibrator.spreads:  # with one curve for each class, only the floor is used
            spread = Spread(1.0, floor_of(rows)) if marginal else fit_spread(rows)
        found = {
            "schema": CALIBRATOR.schema,
            "version": CALIBRATOR.version if groups else 1,
            "tool": f"bpmcli {__version__}",
            **describe(self.method, fitted, rows, groups, spread),
            **origin,
        }
        judged = before_after(self.method, rows, self.fit, self.grouping, self.seed)
        found["validation"] = judged.document(rows.sample.n, rows.target)
        if self.interval:
            from bpmcli.core.calibrators.band import curve_band

            band = curve_band(self.method, fitted.calibrator, rows, self.fit, self.interval, seed=self.seed)
            found["band"] = band._asdict()
        return found, notices + (groups.notices if groups else fitted.notices)

    def _without_classes(self, rows: Rows) -> Rows:
        """The rows without the scores of all classes: on unknown rows only the confidence can be calibrated."""
        if self.method != AUTO and METHODS[self.method].needs_distribution:
            raise DataError(
                f"{self.method} calibrates whole distributions, but unknown rows (--unknown) have no true class",
                "choose a --method that works on confidences, such as bpm-averaged",
            )
        marginal = self.grouping is not None and self.grouping.kind == MARGINAL
        return rows if marginal else rows._replace(logits=None)

    def _chosen(
        self, origin: Mapping[str, Any], rows: Rows, notices: tuple[Notice, ...]
    ) -> tuple[dict[str, Any], tuple[Notice, ...]]:
        """Fits the method that `choose_method` chooses; the document says why."""
        marginal = self.grouping is not None and self.grouping.kind == MARGINAL
        single = [name for name, entry in METHODS.items() if not entry.needs_distribution]
        choice = choose_method(rows, self.fit, single if marginal or self.interval else None, self.seed)
        found, more = replace(self, method=choice.method).describe(origin, rows, notices)
        found["fit"]["choice"] = choice.document()
        return found, (*more, choice.notice)
