"""Two models on the same rows: the difference of every metric, with a confidence interval and a P-value.

Rows are resampled jointly, so what both models share cancels. Outcomes are drawn from the curve fitted to each model (a
parametric bootstrap): resampling the outcomes themselves would add noise to the noise they already have, and equal
models would be called different in 1–2 % of the cases instead of 5 %.

Interval and P-value come from one normal distribution around the observed difference, with the standard deviation of
the resampled differences. They never contradict each other: the interval at level 1 − P just touches zero. There is no
bias correction, because noise raises the metrics of both models equally. benchmarks/paired.py measures all this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bpmcli.core.curves.averaged.mixture import averaged_mixture, prior_share
from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.normal import normal_cdf, normal_quantile
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, Ints, make_room_for_hit, sigmoid
from bpmcli.core.metrics.paired_scores import is_score, score_errors
from bpmcli.core.metrics.registry import METRICS, MetricOptions, measure
from bpmcli.core.metrics.resamples import Resamples, join_cells, runs_of_cells
from bpmcli.errors import DataError, UsageError

AT_ONCE = 250
"""Resamples held in memory at a time."""

FEW = 100
"""Resamples for metrics that refit a curve: their standard deviation is then known to 7 %."""

ROUNDING = 1e-12
"""Relative differences up to this size are rounding errors, not differences between models."""


class Difference(NamedTuple):
    """Second model minus first: a negative difference means that the second is better.

    The exceptions are metrics whose higher values are better, such as accuracy and AUROC.
    """

    metric: str
    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None


class _Model:
    """A model's rows in merged cells, with the accuracy that its fitted curve gives every row."""

    def __init__(self, rows: Rows) -> None:
        x = rows.log_odds.copy()
        make_room_for_hit(x)
        starts = runs_of_cells(rows.sample)
        self.sample = rows.sample if starts.size == rows.sample.mass.size else join_cells(rows.sample, starts)
        # A row of weight zero belongs to no cell; it adds nothing wherever it is put.
        self.cell = np.maximum(np.searchsorted(rows.sample.log_odds[starts], x, side="right") - 1, 0)
        self.weights = None if rows.weights is None else rows.weights / rows.weights.max()
        self.accuracy = _accuracy(rows, x)
        self.hits = rows.hits

    def resample(self, rows: Ints, hits: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Mass and correct rows of every cell, for rows that were drawn and their new outcomes."""
        size, cell = self.sample.mass.size, self.cell[rows]
        weights = None if self.weights is None else self.weights[rows]
        mass = np.bincount(cell, weights, size).astype(np.float64)
        scale = self.sample.n / mass.sum()
        return mass * scale, np.bincount(cell, hits if weights is None else hits * weights, size) * scale


def _accuracy(rows: Rows, x: Floats) -> Floats:
    """The probability that each row is correct: by the fitted curve, or the confidence itself if the rows favour that.

    A curve fitted to a calibrated model follows its noise, and more so where its error came out large. Outcomes drawn
    from it make a standard error that grows with the difference, and `ks` would call 1 % of equal pairs different
    instead of 5 %. So the identity is used unless the rows make it less probable than it was a priori.
    """
    mixture = averaged_mixture(rows.sample)
    return sigmoid(x) if mixture.share("identity") >= prior_share("identity") else mixture.curve(x)[0]


def _joint_resamples(
    models: tuple[_Model, _Model], runs: int, rng: np.random.Generator, clusters: Categorical | None = None
) -> Iterator[tuple[Resamples, Resamples]]:
    """Resamples of both models, AT_ONCE at a time: the same rows, with outcomes drawn from each model's fitted curve.

    With `clusters`, whole clusters are drawn with their own outcomes, because a curve does not model their correlation.

    A share ρ of the rows uses one random number for both models, so that the models disagree as often as observed:
    #{h₁ ≠ h₂} = ρ Σ |g₁ − g₂| + (1 − ρ) Σ (g₁ (1 − g₂) + g₂ (1 − g₁)).
    """
    first, second = models
    n = first.cell.size
    if clusters is not None:
        yield from _cluster_resamples(models, clusters, runs, rng)
        return
    g1, g2 = first.accuracy, second.accuracy
    apart, together = float(np.sum(g1 + g2 - 2 * g1 * g2)), float(np.sum(np.abs(g1 - g2)))
    disagree = float(np.count_nonzero(first.hits != second.hits))
    shared = min(max((apart - disagree) / (apart - together), 0.0), 1.0) if apart > together else 1.0
    for done in range(0, runs, AT_ONCE):
        drawn: list[list[tuple[Floats, Floats]]] = [[], []]
        for _ in range(min(AT_ONCE, runs - done)):
            rows, luck = rng.integers(0, n, n), rng.random(n)
            other = np.where(rng.random(n) < shared, luck, rng.random(n))
            drawn[0].append(first.resample(rows, luck < g1[rows]))
            drawn[1].append(second.resample(rows, other < g2[rows]))
        masses, hits = ([np.array([pair[i] for pair in part]) for part in drawn] for i in (0, 1))
        yield Resamples(first.sample, masses[0], hits[0]), Resamples(second.sample, masses[1], hits[1])


def _cluster_resamples(
    models: tuple[_Model, _Model], clusters: Categorical, runs: int, rng: np.random.Generator
) -> Iterator[tuple[Resamples, Resamples]]:
    members = [rows for _, rows in clusters.positions()]
    for done in range(0, runs, AT_ONCE):
        drawn: list[list[tuple[Floats, Floats]]] = [[], []]
        for _ in range(min(AT_ONCE, runs - done)):
            rows = np.concatenate([members[i] for i in rng.integers(0, len(members), len(members))])
            for part, model in zip(drawn, models, strict=True):
                part.append(model.resample(rows, model.hits[rows]))
        first, second = (
            Resamples(model.sample, *(np.array([pair[i] for pair in part]) for i in (0, 1)))
            for model, part in zip(models, drawn, strict=True)
        )
        yield first, second


def same_rows(first: Rows, second: Rows) -> None:
    """Raise DataError if two files cannot hold the same rows."""
    if first.n != second.n:
        raise DataError(f"one file has {first.n} rows, the other {second.n}", "a paired comparison needs the same rows")
    if first.labels is not None and second.labels is not None:
        different = np.flatnonzero(first.labels != second.labels)
        if different.size:
            raise DataError(
                f"the labels differ in {different.size} rows (first in row {int(different[0]) + 1})",
                "a paired comparison needs the same rows in the same order",
            )
    if first.target != second.target:
        raise DataError("one file is about P(y = 1), the other about the predicted class")


def paired_differences(
    first: Rows, second: Rows, names: Sequence[str], options: MetricOptions, level: float = 0.95,
    runs: int = 1000, seed: int = 0,
) -> list[Difference]:  # fmt: skip
    """Every metric of both models and the difference d, with the interval d ± z · se and a P-value for d = 0.

    The standard error se comes from `runs` joint resamples of the rows, or of the clusters of `second` if it has any.
    Metrics that refit a curve use at most FEW resamples; scores need none (`paired_scores`). A metric of whole
    distributions that is not a score has no interval. Raises DataError if the rows are not the same, and UsageError
    for a P-value among the metrics. For an example see docs/PYTHON.md.
    """
    tests = [name for name in names if name in METRICS and METRICS[name].is_test]
    if tests:
        raise UsageError(f"{tests[0]} is a P-value, and a difference of P-values means nothing", "leave it out")
    same_rows(first, second)
    exact = [measure(rows.sample, names, options, rows) for rows in (first, second)]
    known = [name for name in names if all(found[name].value is not None for found in exact)]
    scores = {n: (exact[0][n].value, exact[1][n].value) for n in known if is_score(n)}
    errors = score_errors(first, second, scores, options) if scores else {}  # type: ignore[arg-type]
    known = [name for name in known if not (is_score(name) or METRICS[name].needs_classes)]
    parts: dict[str, list[Floats]] = {name: [] for name in names}
    rng = np.random.default_rng(seed)
    resamples = _joint_resamples((_Model(first), _Model(second)), runs, rng, second.clusters) if known else ()
    for before, after in resamples:
        for name in known:
            entry = METRICS[name]
            left = (FEW if entry.posterior else runs) - sum(part.size for part in parts[name])
            if left > 0:
                some = np.arange(min(left, before.size))
                found = (entry.on_resamples(drawn.take(some), options) for drawn in (before, after))
                parts[name].append(-np.subtract(*found))
    out = []
    for name in names:
        a, b = exact[0][name].value, exact[1][name].value
        drawn = np.concatenate(parts[name]) if parts[name] else np.empty(0)
        drawn = drawn[~np.isnan(drawn)]
        error = float(drawn.std(ddof=1)) if drawn.size > 1 else errors.get(name)
        out.append(_difference(name, a, b, error, level))
    return out


def _difference(name: str, a: float | None, b: float | None, error: float | None, level: float) -> Difference:
    """The interval d ± z · se, and the P-value of d = 0 by the same normal distribution."""
    if a is None or b is None or error is None:
        return Difference(name, a, b, None if a is None or b is None else b - a, None, None, None)
    difference = b - a
    rounding = ROUNDING * max(abs(a), abs(b))
    if error <= rounding:
        difference = 0.0 if abs(difference) <= rounding else difference
        return Difference(name, a, b, difference, difference, difference, 1.0 if difference == 0 else 0.0)
    half = normal_quantile(0.5 + level / 2) * error
    p_value = 2.0 * normal_cdf(-abs(difference) / error)
    return Difference(name, a, b, difference, difference - half, difference + half, p_value)
