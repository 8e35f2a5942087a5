"""Calibrators fitted to some rows and scored on others: cross-validation, two files, learning curves.

No row is scored by a calibrator that was fitted to it, unless the caller passes the same rows twice.
Rows are first put into an order that depends on their content alone, so the order of the file does not
matter: neither for the folds nor for the last bit of a sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators import METHODS, FitOptions, method_named
from bpmcli.core.calibrators.grouped import Grouping, fit_with_groups
from bpmcli.core.calibrators.spread import fit_spread
from bpmcli.core.compare.folds import row_folds
from bpmcli.core.compare.scores import CalibratedConfidences, Judge, Scores, score_names
from bpmcli.core.data.rows import EVENT, Rows, canonical_order
from bpmcli.core.data.sample import Ints
from bpmcli.errors import BpmError

HELD_OUT, CROSS_VALIDATED, IN_SAMPLE = "held-out", "cross-validated", "in-sample"

WHOLE, LEFT_OUT, FOLD, DRAW = "whole", "left-out", "fold", "draw"
"""What is scored: all evaluation rows; all but one fold of them; a held-out fold; a point of a learning curve."""


@dataclass(frozen=True)
class Contest:
    """The methods to compare, the scores to compare them by, and how rows are split."""

    methods: tuple[str, ...] = tuple(METHODS)
    names: tuple[str, ...] = field(default_factory=lambda: tuple(score_names()))
    fit: FitOptions = field(default_factory=FitOptions)
    folds: int = 5
    repeats: int = 4
    seed: int = 0
    sizes: tuple[int, ...] = ()
    """Calibration rows of a learning curve."""
    grouping: Grouping | None = None
    """Groups that get calibrators of their own, as in `fit`; None if all rows share one."""


class Outcome(NamedTuple):
    """The scores of every method on one split of the rows."""

    role: str
    fitted: int
    """Calibration rows."""
    scored: int
    """Evaluation rows."""
    scores: dict[str, Scores]
    """Scores by method, without the methods that could not be fitted."""
    failures: dict[str, str]
    """By method, the reason why it could not be fitted."""


def applicable(methods: Sequence[str], *files: Rows) -> tuple[list[str], list[str]]:
    """The methods that suit the rows of all these files, and the others: they need scores and labels of all classes."""
    bare = any((rows.logits is None and rows.target != EVENT) or rows.has_unknown for rows in files)
    left_out = [name for name in methods if bare and method_named(name).needs_distribution]
    return [name for name in methods if name not in left_out], left_out


def splits(rows: Rows, contest: Contest, repeat: int) -> Iterator[tuple[Ints, Ints]]:
    """(rows to fit, rows to score) of each fold."""
    numbers = row_folds(rows, contest.folds, np.random.default_rng([contest.seed, repeat]))
    for fold in range(contest.folds):
        yield np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)


def cross_validate(rows: Rows, contest: Contest, repeat: int) -> list[Outcome]:
    """One repeat: every fold is scored with calibrators fitted to the other folds, or to random subsets of them."""
    found, rows = [], rows.take(canonical_order(rows))
    for fold, (fit, score) in enumerate(splits(rows, contest, repeat)):
        judge = Judge(rows.take(score))
        if contest.sizes:
            order = np.random.default_rng([contest.seed, repeat, fold]).permutation(fit)
            found += [_fit_and_score(rows.take(order[:n]), judge, contest, DRAW) for n in _sizes(contest, fit.size)]
        else:
            found.append(_fit_and_score(rows.take(fit), judge, contest, FOLD))
    return found


def compare_once(calibration: Rows, evaluation: Rows, contest: Contest) -> list[Outcome]:
    """Fits once and scores all evaluation rows. If there are folds, it also scores all rows without each fold.

    The variation between these scores gives a standard error.
    """
    calibration, evaluation = (
        calibration.take(canonical_order(calibration)),
        evaluation.take(canonical_order(evaluation)),
    )
    methods, _ = applicable(contest.methods, calibration, evaluation)
    calibrated, failures = _calibrated(calibration, Judge(evaluation), methods, contest)
    whole = {name: c.scores(contest.names, contest.fit.metrics) for name, c in calibrated.items()}
    found = [Outcome(WHOLE, calibration.n, evaluation.n, whole, failures)]
    if not contest.folds:
        return found
    # Not stratified: equal numbers of correct rows in every fold would hide how much that number varies.
    numbers = row_folds(evaluation, contest.folds, np.random.default_rng([contest.seed, 0]), stratified=False)
    for fold in range(contest.folds):
        keep = np.flatnonzero(numbers != fold)
        part = {name: c.take(keep).scores(contest.names, contest.fit.metrics) for name, c in calibrated.items()}
        found.append(Outcome(LEFT_OUT, calibration.n, keep.size, part, failures))
    return found


def learn(calibration: Rows, evaluation: Rows, contest: Contest, repeat: int) -> list[Outcome]:
    """Random subsets of the calibration rows for a learning curve, each scored on all evaluation rows."""
    calibration = calibration.take(canonical_order(calibration))
    judge, found = Judge(evaluation.take(canonical_order(evaluation))), []
    for draw in range(contest.folds):
        order = np.random.default_rng([contest.seed, repeat, draw]).permutation(calibration.n)
        sizes = _sizes(contest, calibration.n)
        found += [_fit_and_score(calibration.take(order[:n]), judge, contest, DRAW) for n in sizes]
    return found


def _sizes(contest: Contest, rows: int) -> list[int]:
    return [n for n in contest.sizes if n <= rows]


def _calibrated(
    calibration: Rows, judge: Judge, methods: Sequence[str], contest: Contest
) -> tuple[dict[str, CalibratedConfidences], dict[str, str]]:
    """The rows to score, calibrated by a fit of each method to other rows, and why methods could not be fitted."""
    done, failures, spread = {}, dict[str, str](), fit_spread(calibration)
    for name in methods:
        try:
            fit, groups = fit_with_groups(name, calibration, contest.fit, contest.grouping)
        except BpmError as error:
            failures[name] = error.message
            continue
        done[name] = judge.confidences(fit, spread if fit.spreads else None, groups)
    return done, failures


def _fit_and_score(calibration: Rows, judge: Judge, contest: Contest, role: str) -> Outcome:
    methods, _ = applicable(contest.methods, calibration, judge.rows)
    calibrated, failures = _calibrated(calibration, judge, methods, contest)
    scores = {name: c.scores(contest.names, contest.fit.metrics) for name, c in calibrated.items()}
    return Outcome(role, calibration.n, judge.rows.n, scores, failures)


def shared_rows(calibration: Rows, evaluation: Rows) -> int:
    """The number of evaluation rows that also are calibration rows, equal to the last bit in every class.

    0 if equality proves nothing: for bare confidences, and if calibration rows repeat among themselves.
    """
    a, b = calibration.logits, evaluation.logits
    if a is None or b is None or a.shape[1] != b.shape[1]:
        return 0
    known = {row.tobytes() for row in a}
    if len(known) < 0.99 * a.shape[0]:
        return 0
    return sum(row.tobytes() in known for row in b)
