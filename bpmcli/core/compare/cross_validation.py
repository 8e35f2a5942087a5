"""Calibrators fitted to some rows and scored on others: cross-validation, two files, learning curves.

No row is scored by a calibrator that was fitted to it, unless the caller hands over the same rows twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators import METHODS, Calibrator, FitOptions, fit_calibrator, method_named
from bpmcli.core.compare.scores import Judge, Scores, score_names
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Ints
from bpmcli.errors import BpmError, DataError

HELD_OUT, CROSS_VALIDATED, IN_SAMPLE = "held-out", "cross-validated", "in-sample"

WHOLE, LEFT_OUT, FOLD, DRAW = "whole", "left-out", "fold", "draw"
"""All evaluation rows; all but one fold of them; a fold that was not fitted; a small calibration set."""


@dataclass(frozen=True)
class Contest:
    """Who competes, on which scores, and how rows are split."""

    methods: tuple[str, ...] = tuple(METHODS)
    names: tuple[str, ...] = field(default_factory=lambda: tuple(score_names()))
    fit: FitOptions = field(default_factory=FitOptions)
    folds: int = 5
    repeats: int = 4
    seed: int = 0
    sizes: tuple[int, ...] = ()
    """Calibration rows of a learning curve."""


class Outcome(NamedTuple):
    """The scores of one split."""

    role: str
    fitted: int
    """Calibration rows."""
    scored: int
    """Evaluation rows."""
    scores: dict[str, Scores]
    """By method; those that could not be fitted are missing."""
    failures: dict[str, str]
    """Why not, by method."""


def applicable(methods: Sequence[str], rows: Rows) -> tuple[list[str], list[str]]:
    """Methods that these rows can feed, and those that need the scores of all classes."""
    left_out = [name for name in methods if method_named(name).needs_distribution and rows.logits is None]
    return [name for name in methods if name not in left_out], left_out


def fold_numbers(hits: np.ndarray, folds: int, rng: np.random.Generator) -> Ints:
    """A fold for each row: shuffled (files may be sorted), with hits and misses spread evenly."""
    if hits.size < 2 * folds:
        raise DataError(f"{hits.size} rows are too few for {folds} folds", "fewer --folds, or more rows")
    order = rng.permutation(hits.size)
    order = order[np.argsort(hits[order], kind="stable")]
    numbers = np.empty(hits.size, dtype=np.int64)
    numbers[order] = np.arange(hits.size) % folds
    return numbers


def splits(rows: Rows, contest: Contest, repeat: int) -> Iterator[tuple[Ints, Ints]]:
    """(rows to fit, rows to score) of each fold."""
    numbers = fold_numbers(rows.hits, contest.folds, np.random.default_rng([contest.seed, repeat]))
    for fold in range(contest.folds):
        yield np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)


def cross_validate(rows: Rows, contest: Contest, repeat: int) -> list[Outcome]:
    """One repeat: every fold is scored by calibrators of the other folds, or of samples of them."""
    found = []
    for fold, (fit, score) in enumerate(splits(rows, contest, repeat)):
        judge = Judge.of(rows.take(score))
        if contest.sizes:
            order = np.random.default_rng([contest.seed, repeat, fold]).permutation(fit)
            found += [_fit_and_score(rows.take(order[:n]), judge, contest, DRAW) for n in _sizes(contest, fit.size)]
        else:
            found.append(_fit_and_score(rows.take(fit), judge, contest, FOLD))
    return found


def compare_once(calibration: Rows, evaluation: Rows, contest: Contest) -> list[Outcome]:
    """Fitted once, scored on all evaluation rows and, for a standard error, without each fold of them."""
    methods, _ = applicable(contest.methods, calibration)
    fits, failures = _fit(calibration, methods, contest.fit)
    judge = Judge.of(evaluation)
    calibrated = {name: judge.confidences(fit) for name, fit in fits.items()}
    whole = {name: c.scores(contest.names, contest.fit.metrics) for name, c in calibrated.items()}
    found = [Outcome(WHOLE, calibration.n, evaluation.n, whole, failures)]
    # Not stratified: with the same hits in every fold, the chance in their number would be missing.
    alike = np.zeros(evaluation.n, dtype=bool)
    numbers = fold_numbers(alike, contest.folds, np.random.default_rng([contest.seed, 0]))
    for fold in range(contest.folds):
        keep = np.flatnonzero(numbers != fold)
        part = {name: c.take(keep).scores(contest.names, contest.fit.metrics) for name, c in calibrated.items()}
        found.append(Outcome(LEFT_OUT, calibration.n, keep.size, part, failures))
    return found


def learn(calibration: Rows, evaluation: Rows, contest: Contest, repeat: int) -> list[Outcome]:
    """A learning curve's draws: samples of the calibration rows, each scored on all evaluation rows."""
    judge, found = Judge.of(evaluation), []
    for draw in range(contest.folds):
        order = np.random.default_rng([contest.seed, repeat, draw]).permutation(calibration.n)
        sizes = _sizes(contest, calibration.n)
        found += [_fit_and_score(calibration.take(order[:n]), judge, contest, DRAW) for n in sizes]
    return found


def _sizes(contest: Contest, rows: int) -> list[int]:
    return [n for n in contest.sizes if n <= rows]


def _fit(rows: Rows, methods: Sequence[str], options: FitOptions) -> tuple[dict[str, Calibrator], dict[str, str]]:
    fits, failures = {}, {}
    for name in methods:
        try:
            fits[name] = fit_calibrator(name, rows, options).calibrator
        except BpmError as error:
            failures[name] = error.message
    return fits, failures


def _fit_and_score(calibration: Rows, judge: Judge, contest: Contest, role: str) -> Outcome:
    methods, _ = applicable(contest.methods, calibration)
    fits, failures = _fit(calibration, methods, contest.fit)
    scores = {n: judge.confidences(f).scores(contest.names, contest.fit.metrics) for n, f in fits.items()}
    return Outcome(role, calibration.n, judge.rows.n, scores, failures)


def shared_rows(calibration: Rows, evaluation: Rows) -> int:
    """Evaluation rows that are calibration rows, to the last bit of every class.

    0 where that proves nothing: single confidences, or calibration rows that repeat among themselves.
    """
    a, b = calibration.logits, evaluation.logits
    if a is None or b is None or a.shape[1] != b.shape[1]:
        return 0
    known = {row.tobytes() for row in a}
    if len(known) < 0.99 * a.shape[0]:
        return 0
    return sum(row.tobytes() in known for row in b)
