"""Comparing calibrators on one file or a pair of files: one repeat at a time, in any process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bpmcli.core.compare.cross_validation import (
    CROSS_VALIDATED,
    Contest,
    Outcome,
    applicable,
    compare_once,
    cross_validate,
    learn,
    shared_rows,
)
from bpmcli.core.compare.score_table import CalibratorScore, table
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import Rows
from bpmcli.errors import BpmError, DataError
from bpmcli.io.layout import InputOptions
from bpmcli.io.readers import read_rows

SHARED = 0.01
"""A notice is given if more than this share of the evaluation rows are also calibration rows."""

NO_SCORES = "whole distributions need the scores of all classes, but there are only confidences"
"""Why whole-distribution methods are left out."""
UNKNOWN = "whole distributions need a true class in every row, but unknown rows (--unknown) have none"
"""Another reason why they are left out."""


class FilePair(NamedTuple):
    """The file to fit calibrators to and the file to score them on: one file for cross-validation and `--in-sample`."""

    calibration: str
    evaluation: str

    @property
    def name(self) -> str:
        return self.evaluation


class Repeat(NamedTuple):
    """One repeat of the comparison on a pair of files."""

    pair: FilePair
    number: int

    @property
    def path(self) -> str:
        """The file that messages name."""
        return self.pair.name


class RepeatResult(NamedTuple):
    """The outcomes of one repeat, or of the whole comparison if nothing is repeated."""

    outcomes: list[Outcome]
    rows: tuple[int, int]
    left_out: list[str]
    """Methods that cannot be used, because they need the scores of all classes and a true class in every row."""
    notices: tuple[Notice, ...]
    why: str = ""
    """Why these methods were left out."""


class Compared(NamedTuple):
    """The results of all repeats on one pair of files."""

    pair: FilePair
    part: RepeatResult
    """The first repeat; the outcomes of all repeats are in the scores."""
    scores: list[CalibratorScore]


@dataclass(frozen=True)
class CompareCalibrators:
    """Compares calibrators on one pair of files, one repeat at a time."""

    options: InputOptions
    contest: Contest
    kind: str
    held: dict[str, tuple[Rows, tuple[Notice, ...]]] = field(default_factory=dict, compare=False, repr=False)
    """The rows of the last pair of files, which its next repeat needs again."""

    def __call__(self, item: Repeat) -> RepeatResult:
        pair, repeat = item
        try:
            return self._compare(pair, repeat)
        except BpmError as error:
            raise error if pair.name in error.message else error.at(pair.name) from None

    def _compare(self, pair: FilePair, repeat: int) -> RepeatResult:
        for path in [p for p in self.held if p not in pair]:
            del self.held[path]
        (calibration, notices), (evaluation, more) = self._read(pair.calibration), self._read(pair.evaluation)
        if pair.calibration != pair.evaluation:
            notices += more + _overlap(calibration, evaluation)
        methods, left_out = applicable(self.contest.methods, calibration, evaluation)
        if self.contest.sizes and min(self.contest.sizes) > calibration.n:
            raise DataError(f"{calibration.n} rows are fewer than the smallest calibration size")
        why = NO_SCORES
        if calibration.has_unknown or evaluation.has_unknown:
            # Only confidences can be calibrated, as in `fit`.
            why, calibration, evaluation = UNKNOWN, calibration._replace(logits=None), evaluation._replace(logits=None)
        if not methods:
            raise DataError(f"{', '.join(left_out)}: {why}", "add --method bpm-averaged, which works on confidences")
        if self.kind == CROSS_VALIDATED:
            outcomes = cross_validate(calibration, self.contest, repeat)
        elif self.contest.sizes:
            outcomes = learn(calibration, evaluation, self.contest, repeat)
        else:
            outcomes = compare_once(calibration, evaluation, self.contest)
        return RepeatResult(outcomes, (calibration.n, evaluation.n), left_out, notices, why)

    def _read(self, path: str) -> tuple[Rows, tuple[Notice, ...]]:
        if path not in self.held:
            loaded = read_rows(path, self.options, distributions=True)
            self.held[path] = loaded.rows, loaded.notices
        return self.held[path]

    def items(self, pairs: Sequence[FilePair]) -> list[Repeat]:
        """Every repeat on every pair of files."""
        repeats = self.contest.repeats if self.kind == CROSS_VALIDATED or self.contest.sizes else 1
        return [Repeat(pair, number) for pair in pairs for number in range(repeats)]

    def table(self, parts: Sequence[RepeatResult]) -> list[CalibratorScore]:
        """The scores on one pair of files, from all its repeats."""
        methods = [m for m in self.contest.methods if m not in parts[0].left_out]
        return table([o for part in parts for o in part.outcomes], methods, self.contest.names)


def _overlap(calibration: Rows, evaluation: Rows) -> tuple[Notice, ...]:
    shared = shared_rows(calibration, evaluation)
    if shared <= SHARED * evaluation.n:
        return ()
    return (notice("rows-shared", count=shared, total=evaluation.n),)
