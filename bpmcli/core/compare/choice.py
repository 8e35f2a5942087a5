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

NAME_ONE = "--method bpm-averaged works with any number of rows"

PREFERRED = ("averaged-matrix", "bpm-averaged")
"""The first of these that could be fitted is chosen, unless another method is clearly better."""

CLEARLY = 2.0
"""Another method is taken if its loss is this many standard errors, over the folds, below the preferred method's."""


class Choice(NamedTuple):
    """The method, the log loss that decided, and its value for every method that could be fitted."""

    method: str
    judged_by: str
    losses: dict[str, float]
    errors: dict[str, float]
    """Standard errors, over the folds, of the difference between each loss and the loss of the chosen method."""
    rows: int

    def clearly_higher(self, name: str) -> bool:
        """Whether the loss of a method is above the loss of the chosen method by more than CLEARLY standard errors."""
        return self.losses[name] - self.losses[self.method] > CLEARLY * self.errors[name]

    @property
    def notice(self) -> Notice:
        """Why this method, in a sentence.

        It names the method with the lowest loss among the others. If the preferred method was not chosen, it names
        that one. If the uncalibrated loss is not clearly higher, there is nothing to repair.
        """
        others = {name: loss for name, loss in self.losses.items() if name not in (self.method, UNCALIBRATED)}
        second = min(others, key=lambda name: others[name], default=None)
        judged = {"what": self.judged_by, "folds": FOLDS, "n": self.rows, "raw": f"{self.losses[UNCALIBRATED]:.4f}"}
        if self.method == UNCALIBRATED and second:
            return notice("identity-chosen", loss=f"{others[second]:.4f}", method=second, **judged)
        judged |= {"method": self.method, "loss": f"{self.losses[self.method]:.4f}"}
        if not self.clearly_higher(UNCALIBRATED):
            return notice("nothing-to-repair", difference=self._difference(UNCALIBRATED), **judged)
        return notice("method-chosen", beside=self._beside(second), **judged)

    def _beside(self, second: str | None) -> str:
        """The loss of the method that would have been chosen otherwise."""
        usual = next((name for name in PREFERRED if name in self.losses), None)
        if usual is not None and usual != self.method:
            why = f"the usual choice, which is clearly higher ({self._difference(usual)})"
            return f" and {self.losses[usual]:.4f} for {usual}, {why}"
        if second is None:
            return ""
        lower = self.losses[second] < self.losses[self.method]
        return f" and {self.losses[second]:.4f} for {second}{', which is not clearly lower' if lower else ''}"

    def _difference(self, name: str) -> str:
        found, error = abs(self.losses[name] - self.losses[self.method]), self.errors[name]
        digits = 4 if error >= 0.001 or not error else min(1 - math.floor(math.log10(error)), 12)
        return f"difference {found:.{digits}f}, standard error {error:.{digits}f}"

    def document(self) -> dict[str, object]:
        """As the parameter file stores it."""
        return {"judged_by": self.judged_by, "folds": FOLDS, "losses": self.losses, "standard_errors": self.errors}


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
        few = "1 row is" if rows.n == 1 else f"{rows.n} rows are"
        raise FitError(f"{few} too few to compare methods in {FOLDS}-fold cross-validation", NAME_ONE)
    whole = rows.logits is not None and rows.labels is not None and rows.target != EVENT
    score = ALL_CLASSES[0] if whole else "nll"
    names, _ = applicable(list(methods or METHODS), rows)
    names = list(dict.fromkeys([*names, UNCALIBRATED]))
    contest = Contest(tuple(names), (score,), options or FitOptions(), FOLDS, 1, seed)
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
    errors = {name: _error(values - by_fold[best]) for name, values in by_fold.items()}
    what = "of all classes" if whole else "of y = 1" if rows.target == EVENT else "of the predicted class"
    return Choice(best, what, losses, errors, rows.n)


def _chosen(by_fold: Mapping[str, Floats], losses: Mapping[str, float]) -> str:
    """The preferred method, unless the lowest loss (of the first method that has it) is clearly lower."""
    best = min(losses, key=lambda name: losses[name])
    preferred = next((name for name in PREFERRED if name in losses), best)
    error = _error(by_fold[preferred] - by_fold[best])
    return best if losses[preferred] - losses[best] > CLEARLY * error else preferred


def _error(differences: Floats) -> float:
    """Standard error of the mean difference over the folds."""
    return float(differences.std(ddof=1)) / math.sqrt(differences.size) if differences.size > 1 else 0.0
