"""Metrics against known truth: many simulated data sets, each metric beside the exact TCE."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.simulate import Truth, simulate


def draw_rng(seed: int, truth: Truth, n: int, run: int) -> np.random.Generator:
    """A stream of its own for every data set, so that neither order nor workers matter."""
    return np.random.default_rng([seed, zlib.crc32(truth.name.encode()), n, run])


@dataclass(frozen=True)
class Draw:
    """One simulated data set to be measured."""

    truth: Truth
    n: int
    run: int


@dataclass(frozen=True)
class MeasureDraw:
    """Draws a data set and measures it."""

    names: tuple[str, ...]
    options: MetricOptions
    seed: int = 0

    def __call__(self, draw: Draw) -> dict[str, float | None]:
        sample = simulate(draw.truth, draw.n, draw_rng(self.seed, draw.truth, draw.n, draw.run)).sample()
        return {name: m.value for name, m in measure(sample, self.names, self.options).items()}


def draws(truths: Iterable[Truth], sizes: Sequence[int], runs: int) -> list[Draw]:
    """Every data set of a benchmark."""
    return [Draw(truth, n, run) for truth in truths for n in sizes for run in range(runs)]


@dataclass(frozen=True)
class Score:
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
    """Share of runs in which no other metric came closer; ties are shared."""


def score(done: Sequence[tuple[Draw, Mapping[str, float | None]]], p: float = 1.0) -> list[Score]:
    """Bias, spread and RMSE of every metric against the exact TCE."""
    cells: dict[tuple[str, int], list[Mapping[str, float | None]]] = {}
    exact: dict[str, float] = {}
    for draw, values in done:
        cells.setdefault((draw.truth.name, draw.n), []).append(values)
        if draw.truth.name not in exact:
            exact[draw.truth.name] = draw.truth.tce(p)
    scores = []
    for (truth, n), runs in cells.items():
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
                Score(
                    truth, n, name, int(e.size), exact[truth],
                    float(exact[truth] + e.mean()) if known else None,
                    float(e.mean()) if known else None,
                    float(e.std(ddof=1)) if e.size > 1 else None,
                    float(np.sqrt(np.mean(e**2))) if known else None,
                    float(share[j]),
                )
            )  # fmt: skip
    return scores
