"""Which method to fit: an averaged one, unless the cross-validated log loss of another is clearly lower.

The lowest of fifteen cross-validated losses is often the luckiest one. On 36 models of the tuning part of the arena
the method with the lowest loss was another one than `averaged-matrix` in 25 cases; on new rows it was worse in 17 of
these and better in 8. With CLEARLY standard errors, `averaged-matrix` was chosen in all 36 (benchmarks/auto_choice.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators import METHODS, FitOptions
from bpmcli.core.compare.cross_validation import Contest, applicable, cross_validate
from bpmcli.core.compare.score_table import CalibratorScore
from bpmcli.core.compare.scores import ALL_CLASSES
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.data.sample import Floats
from bpmcli.errors import FitError

AUTO = "auto"
"""The method name that asks `fit` to choose."""

FOLDS = 5

UNCALIBRATED = "identity"

NAME_ONE = "name one that needs few rows: --method bpm-averaged"

PREFERRED = ("averaged-matrix", "bpm-averaged")
"""The first of these that could be fitted is chosen, unless another method is clearly better."""

CLEARLY = 2.0
"""Standard errors, over the folds, by which the loss of another method must be lower than that of the preferred one."""


class Choice(NamedTuple):
    """The method, the log loss that decided, and its value for every method that could be fitted."""

    method: str
    judged_by: str
    losses: dict[str, float]
    rows: int

    @property
    def notice(self) -> Notice:
        """Why this method, in a sentence; of the others it names the one with the lowest loss."""
        others = {name: loss for name, loss in self.losses.items() if name not in (self.method, UNCALIBRATED)}
        second = min(others, key=lambda name: others[name], default=None)
        judged = {"what": self.judged_by, "folds": FOLDS, "n": self.rows, "raw": f"{self.losses[UNCALIBRATED]:.4f}"}
        if self.method == UNCALIBRATED and second:
            return notice("identity-chosen", loss=f"{others[second]:.4f}", method=second, **judged)
        beside = f" and {others[second]:.4f} for {second}" if second else ""
        if second and others[second] < self.losses[self.method]:
            beside += ", which is not clearly lower"
        loss = f"{self.losses[self.method]:.4f}"
        return notice("method-chosen", method=self.method, loss=loss, beside=beside, **judged)

    def document(self) -> dict[str, object]:
        """As the parameter file stores it."""
        return {"judged_by": self.judged_by, "folds": FOLDS, "losses": self.losses}


def decisive_score(tables: Sequence[Sequence[CalibratorScore]]) -> str:
    """The log loss by which calibrators are ranked unless told otherwise, as in `choose_method`.

    It is the log loss of all classes if every input has their scores, otherwise the log loss of the confidence.
    """
    known = (any(s.score == ALL_CLASSES[0] and s.value is not None for s in table) for table in tables)
    return ALL_CLASSES[0] if all(known) else "nll"


def choose_method(
    rows: Rows, options: FitOptions | None = None, methods: Sequence[str] | None = None, seed: int = 0
) -> Choice:
    """The first of PREFERRED, unless the mean log loss of another over five held-out folds is clearly lower.

    Log loss of the whole distribution if the scores of all classes are known. Otherwise log loss of the confidence: of
    y = 1 for an event, else of the predicted class. Methods that fail on a fold are left out.
    """
    if rows.n < 2 * FOLDS:
        message = f"{rows.n} rows are too few to compare methods in {FOLDS}-fold cross-validation"
        raise FitError(message, "--method bpm-averaged works with any number of rows")
    whole = rows.logits is not None and rows.labels is not None and rows.target != EVENT
    score = ALL_CLASSES[0] if whole else "nll"
    names, _ = applicable(list(methods or METHODS), rows)
    names = list(dict.fromkeys([*names, UNCALIBRATED]))
    contest = Contest(tuple(names), (score,), options or FitOptions(), FOLDS, 1, seed)
    if rows.n < 2 * FOLDS:
        raise FitError(f"{rows.n} rows are too few to choose a method by cross-validation", NAME_ONE)
    outcomes = cross_validate(rows, contest, 0)
    by_fold: dict[str, Floats] = {}
    for name in names:
        found = [outcome.scores.get(name, {}).get(score) for outcome in outcomes]
        values = [value for value in found if value is not None]
        if len(values) == len(outcomes):
            by_fold[name] = np.array(values)
    if UNCALIBRATED not in by_fold:
        raise FitError("no method could be cross-validated on these rows", NAME_ONE)
    rows_of_folds = np.array([outcome.scored for outcome in outcomes], dtype=np.float64)
    losses = {name: float(np.average(values, weights=rows_of_folds)) for name, values in by_fold.items()}
    best = _chosen(by_fold, losses)
    what = "of all classes" if whole else "of y = 1" if rows.target == EVENT else "of the predicted class"
    return Choice(best, what, losses, rows.n)


def _chosen(by_fold: Mapping[str, Floats], losses: Mapping[str, float]) -> str:
    """The preferred method, unless the one with the lowest loss (the first of equal ones) is clearly lower."""
    best = min(losses, key=lambda name: losses[name])
    preferred = next((name for name in PREFERRED if name in losses), best)
    excess = by_fold[preferred] - by_fold[best]
    error = float(excess.std(ddof=1)) / math.sqrt(excess.size) if excess.size > 1 else 0.0
    return best if losses[preferred] - losses[best] > CLEARLY * error else preferred
