"""Metrics against known truth: many simulated data sets, each metric beside the exact TCE."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bpmcli.core.compare.truths import AnyTruth, simulate
from bpmcli.core.data.sample import Sample
from bpmcli.core.metrics import MetricOptions, measure


@dataclass(frozen=True)
class Draw:
    """One simulated data set: the truth's name, its size, and which of the runs it is."""

    truth: str
    n: int
    run: int


@dataclass(frozen=True)
class Simulations:
    """The source of the data sets. Each has its own random stream, so neither their order nor the workers matter."""

    truths: Mapping[str, AnyTruth]
    seed: int = 0

    def identity(self, draw: Draw) -> str:
        """The random stream of a data set. It does not depend on the name of a truth's file."""
        truth = self.truths[draw.truth]
        return f"{truth.identity or truth.name} {draw.n} {draw.run}"

    def rng(self, draw: Draw) -> np.random.Generator:
        truth = self.truths[draw.truth]
        stream = zlib.crc32((truth.identity or truth.name).encode())
        return np.random.default_rng([self.seed, stream, draw.n, draw.run])

    def sample(self, draw: Draw) -> Sample:
        return simulate(self.truths[draw.truth], draw.n, self.rng(draw)).sample()


def draws(truths: Iterable[str], sizes: Sequence[int], runs: int) -> list[Draw]:
    """Every data set of a benchmark."""
    return [Draw(truth, n, run) for truth in truths for n in sizes for run in range(runs)]


Values = Mapping[str, float | None]
"""The values of one data set, by metric or method; None where there is none."""


@dataclass(frozen=True)
class MeasureDraw:
    """Draws a data set and measures it."""

    source: Simulations
    names: tuple[str, ...]
    options: MetricOptions

    def __call__(self, draw: Draw) -> dict[str, float | None]:
        measured = measure(self.source.sample(draw), self.names, self.options)
        return {name: m.value for name, m in measured.items()}


@dataclass(frozen=True)
class MetricScore:
    """How a metric did over the runs of one truth and size."""

    truth: str
    n: int
    metric: str
    runs: int
    """Runs in which it could be computed."""
    tce: float
    mean: float | None
    bias: float | None
    sd: float | None
    rmse: float | None
    closest: float
    """Share of runs in which the metric came closest to the truth; ties are shared."""


def by_cell(done: Iterable[tuple[Draw, Values]]) -> dict[tuple[str, int], list[Values]]:
    """The runs of every truth and size."""
    cells: dict[tuple[str, int], list[Values]] = {}
    for draw, values in done:
        cells.setdefault((draw.truth, draw.n), []).append(values)
    return cells


def score_metrics(done: Sequence[tuple[Draw, Values]], exact: Mapping[str, float]) -> list[MetricScore]:
    """Bias, spread and RMSE of every metric against the exact TCE of each truth."""
    scores = []
    for (truth, n), runs in by_cell(done).items():
        names = list(runs[0])
        table = np.array([[np.nan if run[name] is None else run[name] for name in names] for run in runs], dtype=float)
        errors = table - exact[truth]
        distance = np.where(np.isnan(errors), np.inf, np.abs(errors))
        nearest = (distance == distance.min(axis=1, keepdims=True)) & np.isfinite(distance)
        share = (nearest / np.maximum(nearest.sum(axis=1, keepdims=True), 1)).mean(axis=0)
        for j, name in enumerate(names):
            e = errors[:, j][~np.isnan(errors[:, j])]
            known = e.size > 0
            scores.append(
                MetricScore(
                    truth, n, name, int(e.size), exact[truth],
                    float(exact[truth] + e.mean()) if known else None,
                    float(e.mean()) if known else None,
                    float(e.std(ddof=1)) if e.size > 1 else None,
                    float(np.sqrt(np.mean(e**2))) if known else None,
                    float(share[j]),
                )
            )  # fmt: skip
    return scores
