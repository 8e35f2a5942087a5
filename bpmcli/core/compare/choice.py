"""Which method to fit: the one with the lowest cross-validated log loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators import METHODS, FitOptions
from bpmcli.core.compare.cross_validation import Contest, applicable, cross_validate
from bpmcli.core.compare.score_table import CalibratorScore
from bpmcli.core.compare.scores import ALL_CLASSES
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.errors import FitError

AUTO = "auto"
"""The method name that asks `fit` to choose."""

FOLDS = 5

UNCALIBRATED = "identity"


class Choice(NamedTuple):
    """The method, the log loss that decided, and its value for every method that could be fitted."""

    method: str
    judged_by: str
    losses: dict[str, float]
    rows: int

    @property
    def notice(self) -> Notice:
        """Why this method, in a sentence."""
        others = {name: loss for name, loss in self.losses.items() if name not in (self.method, UNCALIBRATED)}
        second = min(others, key=lambda name: others[name], default=None)
        beside = f" and {others[second]:.4f} for {second}" if second else ""
        return notice(
            "method-chosen", method=self.method, loss=f"{self.losses[self.method]:.4f}", beside=beside, folds=FOLDS,
            raw=f"{self.losses[UNCALIBRATED]:.4f}", what=self.judged_by, n=self.rows,
        )  # fmt: skip

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
    """The method with the lowest mean log loss over five held-out folds; the first of several equal ones.

    Log loss of the whole distribution if the scores of all classes are known. Otherwise log loss of the confidence: of
    y = 1 for an event, else of the predicted class. Methods that fail on a fold are left out.
    """
    whole = rows.logits is not None and rows.labels is not None and rows.target != EVENT
    score = ALL_CLASSES[0] if whole else "nll"
    names, _ = applicable(list(methods or METHODS), rows)
    names = list(dict.fromkeys([*names, UNCALIBRATED]))
    contest = Contest(tuple(names), (score,), options or FitOptions(), FOLDS, 1, seed)
    outcomes = cross_validate(rows, contest, 0)
    losses: dict[str, float] = {}
    for name in names:
        found = [outcome.scores.get(name, {}).get(score) for outcome in outcomes]
        values = [value for value in found if value is not None]
        if len(values) == len(outcomes):
            losses[name] = float(np.average(values, weights=[outcome.scored for outcome in outcomes]))
    if UNCALIBRATED not in losses:
        raise FitError("no method could be cross-validated on these rows", "name one with --method")
    best = min(losses, key=lambda name: losses[name])
    what = "of all classes" if whole else "of y = 1" if rows.target == EVENT else "of the predicted class"
    return Choice(best, what, losses, rows.n)
