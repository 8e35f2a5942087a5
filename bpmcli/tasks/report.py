"""Computes everything that a report says about one input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from bpmcli.core.compare.score_table import CalibratorScore
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.metrics.disagreement import disagreements
from bpmcli.core.metrics.reliability import Reliability
from bpmcli.core.metrics.verdict import verdict
from bpmcli.errors import DataError
from bpmcli.io.paths import Input
from bpmcli.io.readers import read_rows
from bpmcli.tasks.compare import CompareCalibrators, FilePair, Repeat
from bpmcli.tasks.measure import MeasureFile, effective_sample

IDENTITY = "identity"
"""The calibrator that changes nothing."""


class Examined(NamedTuple):
    """One input: its metrics, diagram and groups, and how well each calibrator would repair it."""

    record: dict[str, Any]
    reliability: Reliability
    groups: list[dict[str, Any]]
    repairs: list[Any]
    """Scores of each calibrator fitted to the calibration file, as `compare calibrators` reports them."""
    notices: tuple[Notice, ...]
    errors: tuple[float, float] | None = None
    """The tce of the rows before and after the calibrator with the lowest log loss."""


def log_losses(scores: Sequence[CalibratorScore]) -> dict[str, float | None]:
    """The log loss of each method, the lowest first. It is the log loss over all classes if their scores are known."""
    whole = any(s.score == "nll-all" and s.value is not None for s in scores)
    own = [s for s in scores if s.score == ("nll-all" if whole else "nll")]
    return {s.method: s.value for s in sorted(own, key=lambda s: (s.value is None, s.value or 0.0))}


@dataclass(frozen=True)
class ExamineFile:
    """Measures one input for the report."""

    measure: MeasureFile
    by_group: MeasureFile | None = None
    """The same results for each value of the grouping column."""
    compare: CompareCalibrators | None = None
    calibration: str | None = None

    def __call__(self, item: Input) -> Examined:
        task = self.by_group or self.measure
        loaded = read_rows(item.path, task.options, mode=task.mode)
        (whole,) = self.measure.finish(item, loaded)
        groups: Sequence[Any] = ()
        if self.by_group:
            groups = self.by_group.measure(item.path, loaded.rows, (), {})
        sample = effective_sample(loaded.rows)[0]
        found = verdict(sample, loaded.rows.target)
        values = {name: one["value"] for name, one in whole.record["metrics"].items()}
        whole.record["verdict"] = found._asdict()
        if self.measure.metrics.p == 1.0:
            whole.record["disagreements"] = disagreements(
                sample, values, found.low, found.high, self.measure.metrics, loaded.rows.target
            )
        repairs, notices = self._repairs(item)
        errors = self._errors(item, next(iter(log_losses(repairs)))) if repairs else None
        notices = whole.notices + notices
        return Examined(whole.record, whole.diagram, [g.record for g in groups], repairs, notices, errors)

    def _repairs(self, item: Input) -> tuple[list[Any], tuple[Notice, ...]]:
        """The scores of each calibrator; a notice if the calibration file does not suit this input."""
        if self.compare is None or self.calibration is None:
            return [], ()
        try:
            return self.compare.table([self.compare(Repeat(FilePair(self.calibration, item.path), 0))]), ()
        except DataError as error:
            return [], (notice("no-repair", why=error.message),)

    def _errors(self, item: Input, best: str) -> tuple[float, float] | None:
        """The tce before and after the best calibrator; for all of them it would take too long."""
        if self.compare is None or self.calibration is None or best == IDENTITY:
            return None
        contest = replace(self.compare.contest, methods=(IDENTITY, best), names=("tce",), folds=0)
        (whole,) = replace(self.compare, contest=contest)(Repeat(FilePair(self.calibration, item.path), 0)).outcomes
        before, after = (whole.scores[method]["tce"] for method in (IDENTITY, best))
        return None if before is None or after is None else (before, after)
