"""What a calibrator changes: the verdict on the raw rows, and on the same rows calibrated by fits to other rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.calibrators.grouped import Grouping, fit_with_groups
from bpmcli.core.calibrators.recalibration import Recalibration
from bpmcli.core.calibrators.registry import METHODS, FitOptions
from bpmcli.core.calibrators.spread import IN_PROPORTION, fit_spread
from bpmcli.core.compare.folds import row_folds
from bpmcli.core.data.rows import Rows, SummarisedRows, canonical_order
from bpmcli.core.data.sample import BARE_LIMIT, LOG_ODDS_LIMIT, Floats, Ints, Sample, sample_from_log_odds
from bpmcli.core.metrics.verdict import Verdict, verdict
from bpmcli.core.metrics.verdict_words import in_brief, points
from bpmcli.errors import BpmError

FOLDS = 5
CROSS_VALIDATED = f"{FOLDS}-fold cross-validation"
ONE_SPLIT = f"fitted to {FOLDS - 1} fifths of the rows, judged on the last fifth"

FEW_VALUES = 100_000
"""Up to this many scores (rows, times classes where a method uses them all) every fold is held out in turn. With
more scores, one fold has enough rows, and five more fits would take too long."""
MOST_VALUES = 20_000_000
"""Beyond this many scores, even one more fit takes too long."""

WORTH_REPAIR = 0.01
"""A smaller calibration error after calibration gets no advice."""
ALTERNATIVES = ("bpm-averaged", "isotonic")
"""Methods to try if an error is left: one that follows any smooth curve, and one that follows any rising curve."""


class BeforeAfter(NamedTuple):
    """Two verdicts, and how the rows of the second were held out of the fit."""

    before: Verdict
    after: Verdict | None
    how: str
    """How `after` was judged; where it is None, why it was not."""
    rows: int = 0
    """Rows that `after` was judged on."""
    advice: str = ""
    """What to try if an error is left; empty otherwise."""

    def document(self, n: float, target: str) -> dict[str, Any]:
        """As the parameter file stores it."""
        return {
            "before": self.before._asdict(),
            "after": None if self.after is None else self.after._asdict(),
            "how": self.how,
            "rows": self.rows,
            "sentences": self.sentences(n, target),
        }

    def sentences(self, n: float, target: str) -> list[str]:
        """The verdicts before and after calibration, in words."""
        before = f"Before: {in_brief(self.before, n, target)}."
        if self.after is None:
            return [before, f"After: not judged ({self.how}); bpmcli apply judges it on other labelled rows."]
        after = f"After ({self.how}): {in_brief(self.after, self.rows, target)}."
        return [before, after, *([self.advice] if self.advice else [])]


class Judged(NamedTuple):
    """The verdicts on labelled rows before and after calibration, in words."""

    before: str
    after: str
    worse: bool
    """Whether the calibration error is clearly larger after: its interval lies above the interval before."""
    left: bool
    """Whether an error is left after calibration."""


def before_after(
    method: str, rows: Rows, options: FitOptions, grouping: Grouping | None = None, seed: int = 0
) -> BeforeAfter:
    """The verdict on the rows, and on the rows calibrated by fits to other rows (K-fold cross-validation).

    The folds depend on the content of the rows, not on their order. Calibrated values are those that `apply` writes.
    """
    before = verdict(rows.sample, rows.target)
    after, how = held_out(method, rows, options, grouping, seed)
    if after is None:
        return BeforeAfter(before, None, how)
    found = verdict(after, rows.target)
    advice = _advice(found, method, rows, options, grouping, seed) if error_left(found) else ""
    return BeforeAfter(before, found, how, after.n, advice)


def error_left(after: Verdict) -> bool:
    """Whether calibrated rows are clearly miscalibrated: the verdict names an error, of at least one point."""
    return after.where is not None and after.tce >= WORTH_REPAIR


def _advice(left: Verdict, method: str, rows: Rows, options: FitOptions, grouping: Grouping | None, seed: int) -> str:
    """A sentence that names a method with at most half of the error, judged in the same way, or advises more rows."""
    found = []
    for other in ALTERNATIVES:
        after = held_out(other, rows, options, grouping, seed)[0] if other != method else None
        if after is not None:
            found.append((verdict(after, rows.target), other))
    best = min(found, key=lambda pair: pair[0].tce, default=None)
    if best is None or best[0].tce > left.tce / 2:
        return (
            "An error is left: fit on more rows if you have them, or see with `bpmcli compare calibrators` whether "
            "another method leaves less."
        )
    others = "; the other classes may be less well calibrated" if METHODS[method].needs_distribution else ""
    return f"An error is left: try --method {best[1]}, which leaves {points(best[0])}, judged in the same way{others}."


def held_out(
    method: str, rows: Rows, options: FitOptions, grouping: Grouping | None = None, seed: int = 0
) -> tuple[Sample | None, str]:
    """The rows calibrated by fits to other rows, and how they were held out; or None, and why that is impossible."""
    if isinstance(rows, SummarisedRows):
        return None, "a summary has no rows that could be held out"
    size = rows.n * (1 if rows.logits is None else rows.logits.shape[1])
    if size > MOST_VALUES:
        return None, f"more than {MOST_VALUES:,} scores"
    folds = FOLDS if size <= FEW_VALUES else 1
    try:
        after = _held_out(method, rows, options, grouping, folds, seed)
    except BpmError as error:
        return None, error.message
    return after, CROSS_VALIDATED if folds == FOLDS else ONE_SPLIT


def judge_calibrated(rows: Rows, confidences: Floats) -> Judged:
    """What calibrated confidences of labelled rows change."""
    with np.errstate(divide="ignore"):
        x = np.clip(np.log(confidences) - np.log1p(-confidences), -BARE_LIMIT, BARE_LIMIT)
    calibrated = sample_from_log_odds(x, rows.hits, rows.weights)
    before, after = (verdict(sample, rows.target) for sample in (rows.sample, calibrated))
    first, second = (in_brief(found, rows.n, rows.target) for found in (before, after))
    return Judged(first, second, worse=after.low > before.high, left=error_left(after))


def _held_out(method: str, rows: Rows, options: FitOptions, grouping: Grouping | None, folds: int, seed: int) -> Sample:
    """The rows of the first folds, each calibrated by a fit to the other folds."""
    rows = rows.take(canonical_order(rows))
    numbers = row_folds(rows, FOLDS, np.random.default_rng(seed))
    parts = [(index, _recalibrated(method, rows, numbers != fold, index, options, grouping))
             for fold, index in _folds(numbers, folds)]  # fmt: skip
    index = np.concatenate([index for index, _ in parts])
    log_odds = np.concatenate([x for _, x in parts])
    return sample_from_log_odds(log_odds, rows.hits[index], None if rows.weights is None else rows.weights[index])


def _folds(numbers: Ints, folds: int) -> Iterator[tuple[int, Ints]]:
    for fold in range(folds):
        yield fold, np.flatnonzero(numbers == fold)


def _recalibrated(
    method: str, rows: Rows, fit: np.ndarray, judge: Ints, options: FitOptions, grouping: Grouping | None
) -> Floats:
    """Calibrated log-odds of the rows to judge, by a fit to the others."""
    train = rows.take(fit)
    calibrator, groups = fit_with_groups(method, train, options, grouping)
    spread = fit_spread(train) if calibrator.spreads else None
    done = Recalibration(method, calibrator, groups, spread or IN_PROPORTION, exact=True)(rows.take(judge), False)
    with np.errstate(divide="ignore"):
        x = np.log(done.score) - np.log(done.complement)
    limited: Floats = np.clip(x, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
    return limited
