"""Scores summarised over folds: means, standard errors, the best method, and the methods not significantly worse.

Training sets of cross-validation overlap, so folds are not independent. The variance of a mean of J folds
is taken as (1/J + n_scored/n_fitted)·s², for standard errors and for paired t-tests alike (Nadeau & Bengio
2003, doi:10.1023/A:1024068626366; for repeats Bouckaert & Frank 2004). With separate evaluation rows the
calibrators are fitted once, and the variance is the jackknife's over K disjoint folds of those rows,
(K−1)²/K·s². This variance describes these fitted calibrators, not fits to another calibration set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bpmcli.core.compare.cross_validation import DRAW, WHOLE, Outcome
from bpmcli.core.compare.scores import loss
from bpmcli.core.data.sample import Floats

SIGNIFICANCE = 0.05
"""Level of the one-sided tests, with Holm's correction for the number of other methods."""

BEST, CLOSE = "best", "not significantly worse"


@dataclass(frozen=True)
class CalibratorScore:
    """One method's score; its value is None if the method failed, and `reason` says why."""

    method: str
    score: str
    calibration_rows: int
    evaluation_rows: int
    value: float | None
    standard_error: float | None
    p_value: float | None
    """P-value of the hypothesis that the method is as good as the best, corrected for the number of methods."""
    mark: str
    draws: int
    """Splits on which the method was scored."""
    failed: int
    """Splits on which the method could not be fitted. After one failure the method has
    no value, because the remaining splits may be easier."""
    reason: str | None


@dataclass(frozen=True)
class _Series:
    estimate: float
    values: Floats
    factor: float
    """Standard error = factor · standard deviation of the values."""

    @property
    def standard_error(self) -> float | None:
        return self.factor * float(np.std(self.values, ddof=1)) if self.values.size > 1 else None


def table(outcomes: Sequence[Outcome], methods: Sequence[str], names: Sequence[str]) -> list[CalibratorScore]:
    """All outcomes of one input: a record for each calibration size, method and score."""
    sizes = dict.fromkeys(o.fitted if o.role == DRAW else 0 for o in outcomes)
    groups = [[o for o in outcomes if not size or o.fitted == size] for size in sizes]
    return [record for group in groups for name in names for record in _column(group, methods, name)]


def _column(outcomes: Sequence[Outcome], methods: Sequence[str], name: str) -> list[CalibratorScore]:
    series = {m: s for m in methods if (s := _series(outcomes, m, name)) is not None}
    losses = {m: float(loss(name, np.array([s.estimate]))[0]) for m, s in series.items()}
    best = min(losses, key=lambda m: losses[m], default=None)
    tests = outcomes[0].role != DRAW and best is not None
    p_values = _worse_than(name, series, best) if tests and best is not None else {}
    fitted, scored = (round(np.mean([getattr(o, k) for o in outcomes])) for k in ("fitted", "scored"))
    draws = [o for o in outcomes if o.role != WHOLE] or outcomes
    records = []
    for m in methods:
        reasons = [o.failures[m] for o in draws if m in o.failures]
        # All methods with the best value are marked, not only the first: temperature and ets are often the same curve.
        first = best is not None and m in losses and losses[m] == losses[best]
        mark = BEST if first else CLOSE if p_values.get(m, 0.0) > SIGNIFICANCE else ""
        found = series.get(m)
        records.append(CalibratorScore(
            m, name, fitted, scored,
            found.estimate if found else None, found.standard_error if found else None,
            None if first else p_values.get(m), mark, len(draws), len(reasons), reasons[0] if reasons else None,
        ))  # fmt: skip
    return records


def _series(outcomes: Sequence[Outcome], method: str, name: str) -> _Series | None:
    found = [o.scores.get(method, {}).get(name) for o in outcomes]
    values = np.array([v for v in found if v is not None])
    if values.size < len(found):
        return None
    if outcomes[0].role == WHOLE:
        folds = values.size - 1
        return _Series(float(values[0]), values[1:], (folds - 1) / math.sqrt(max(folds, 1)))
    overlap = 0.0 if outcomes[0].role == DRAW else float(np.mean([o.scored / o.fitted for o in outcomes]))
    return _Series(float(values.mean()), values, math.sqrt(1 / values.size + overlap))


def _worse_than(name: str, series: Mapping[str, _Series], best: str) -> dict[str, float]:
    """P-values of the paired one-sided t-tests against the best, after Holm."""
    from scipy.stats import t

    leader, found = series[best], {}
    for m, s in series.items():
        if m == best or s.values.size < 2:
            continue
        difference = loss(name, s.values) - loss(name, leader.values)
        gap = float(loss(name, np.array([s.estimate]))[0] - loss(name, np.array([leader.estimate]))[0])
        error = s.factor * float(np.std(difference, ddof=1))
        found[m] = float(t.sf(gap / error, s.values.size - 1)) if error > 0 else float(gap <= 0)
    order = sorted(found, key=lambda m: found[m])
    steps = np.array([found[m] for m in order]) * np.arange(len(order), 0, -1)
    return dict(zip(order, np.minimum(np.maximum.accumulate(steps), 1.0).tolist(), strict=True))


@dataclass(frozen=True)
class Rank:
    """A method's place on one score, over several inputs."""

    method: str
    score: str
    calibration_rows: int | None
    """Calibration rows, in a learning curve; None where every input has its own number of them."""
    mean_rank: float
    """1 is best; ties share their ranks, a failed fit is last."""
    inputs: int
    """The number of inputs on which the method could be used."""
    best: int
    """Inputs on which it was best."""
    close: int
    """Inputs on which it was not significantly worse."""
    failed: int


def ranks(tables: Sequence[Sequence[CalibratorScore]], by_size: bool = False) -> list[Rank]:
    """Mean ranks over inputs, method by method and score by score, best first."""
    from scipy.stats import rankdata

    places: dict[tuple[str, int | None, str], list[tuple[float, CalibratorScore]]] = {}
    for records in tables:
        columns: dict[tuple[str, int | None], list[CalibratorScore]] = {}
        for r in records:
            columns.setdefault((r.score, r.calibration_rows if by_size else None), []).append(r)
        for (name, size), column in columns.items():
            if all(r.value is None for r in column):
                continue
            values = np.array([np.inf if r.value is None else r.value for r in column])
            losses = np.where(np.isinf(values), np.inf, loss(name, values))
            for r, place in zip(column, rankdata(losses).tolist(), strict=True):
                places.setdefault((name, size, r.method), []).append((place, r))
    found = []
    for (name, size, method), held in places.items():
        best, close = (sum(r.mark == mark for _, r in held) for mark in (BEST, CLOSE))
        mean = float(np.mean([place for place, _ in held]))
        failed = sum(r.value is None for _, r in held)
        found.append(Rank(method, name, size, mean, len(held), best, close, failed))
    return sorted(found, key=lambda r: (r.calibration_rows or 0, r.score, r.mean_rank))
