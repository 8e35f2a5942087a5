"""Equally calibrated pairs of models: how often the paired comparison calls them different.

    python benchmarks/paired.py [--pairs 500] [--rows 1000] [--resamples 1000] [--jobs 1] [--keep FILE] [--whole]

The two models' log-odds are correlated normals, and a row's outcome under both depends on the same random number; both
have the same curve, so their true errors are equal. "calibrated" pairs have the identity, "over-confident" ones
σ(0.7 x). Printed: the share of 95 % intervals that exclude 0, the share of P ≤ 0.05, and how often
the two disagree (they should never), and the root mean square of difference / standard error, which is below 1 if the
standard errors are too wide. Sampling error of 500 pairs: ± 1 point.

--whole compares models with probabilities of four classes, by `ece-classwise` and `ece-marginal`. A row's true
probabilities come from a Dirichlet distribution; each model sees its own SEEN draws from them and gives the posterior
mean, which is calibrated. "over-confident" ones divide its logarithm by 0.7.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bpmcli.core.data.class_scores import ClassScores
from bpmcli.core.data.log_odds import reduce_probs
from bpmcli.core.data.normal import normal_quantile
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import sigmoid
from bpmcli.core.metrics import MetricOptions
from bpmcli.core.metrics.paired import paired_differences
from bpmcli.engines.local import work

NAMES = ("ece", "ece-debiased", "ks", "tce")
WHOLE_NAMES = ("ece-classwise", "ece-marginal")
SLOPES = {"calibrated": 1.0, "over-confident": 0.7}
CLASSES, SEEN = 4, 20


def pair(kind: str, n: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Two models with the same true error on the same rows."""
    common, luck = rng.normal(0, 1.5, n), rng.random(n)
    models = []
    for _ in range(2):
        x = np.abs(common + rng.normal(0, 1.0, n))
        models.append(Rows(x, luck < sigmoid(SLOPES[kind] * x)))
    return models[0], models[1]


def whole_pair(kind: str, n: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Two models with probabilities of all classes and the same true class-wise errors on the same rows."""
    prior = rng.uniform(0.3, 1.0, (n, 1))
    true = rng.gamma(prior, size=(n, CLASSES))
    true /= true.sum(axis=1, keepdims=True)
    labels = (true.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    models = []
    for _ in range(2):
        probs = ((prior + rng.multinomial(SEEN, true)) / (CLASSES * prior + SEEN)) ** (1 / SLOPES[kind])
        probs /= probs.sum(axis=1, keepdims=True)
        top = reduce_probs(probs)
        scores = ClassScores([probs], from_probs=True)
        models.append(Rows(top.log_odds, top.predictions == labels, None, top.predictions, labels, scores=scores))
    return models[0], models[1]


@dataclass(frozen=True)
class Compare:
    """One pair: for every metric, whether the interval excludes 0, and the P-value."""

    rows: int
    resamples: int
    names: tuple[str, ...]
    whole: bool

    def __call__(self, job: tuple[str, int]) -> dict[str, tuple[bool, float]]:
        kind, run = job
        draw = whole_pair if self.whole else pair
        first, second = draw(kind, self.rows, np.random.default_rng([11, list(SLOPES).index(kind), run]))
        found = paired_differences(first, second, self.names, MetricOptions(), runs=self.resamples, seed=run)
        return {d.metric: (not (d.low or 0.0) <= 0.0 <= (d.high or 0.0), float(d.p_value or 0.0)) for d in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--whole", action="store_true", help="models with probabilities of all classes")
    parser.add_argument("--metrics")
    parser.add_argument("--kinds", default=",".join(SLOPES))
    parser.add_argument("--keep", type=Path, help="results, one JSON object per line; an interrupted run continues")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    names = tuple(options.metrics.split(",")) if options.metrics else WHOLE_NAMES if options.whole else NAMES
    task = Compare(options.rows, options.resamples, names, options.whole)
    jobs = [(kind, run) for run in range(options.pairs) for kind in options.kinds.split(",")]
    found = {job: result for job, result in kept(options.keep) if job in jobs}
    left = [job for job in jobs if job not in found]
    for job, result in zip(left, work(task, left, options.jobs), strict=True):
        assert isinstance(result, dict), result
        found[job] = result
        if options.keep:
            with options.keep.open("a") as file:
                file.write(json.dumps([job, result]) + "\n")
    print(f"{options.pairs} pairs of {options.rows} rows, {options.resamples} resamples")
    for kind in options.kinds.split(","):
        for name in task.names:
            show(kind, name, [found[kind, run][name] for run in range(options.pairs)])


def kept(path: Path | None) -> Iterator[tuple[tuple[str, int], dict[str, tuple[bool, float]]]]:
    """Results of a run that was stopped. The file must be of the same options."""
    if path and path.exists():
        for line in path.read_text().splitlines():
            job, result = json.loads(line)
            yield tuple(job), result


def show(kind: str, name: str, values: list[tuple[bool, float]]) -> None:
    """Prints one line of figures."""
    excludes, p = np.array([v[0] for v in values]), np.array([v[1] for v in values])
    z = np.array([normal_quantile(max(one, 1e-15) / 2) for one in p])
    print(
        f"{kind:15s} {name:13s} interval excludes 0: {100 * excludes.mean():5.1f} %, P <= .05: "
        f"{100 * np.mean(p <= 0.05):5.1f} %, contradictions: {int(np.sum(excludes != (p <= 0.05)))}, "
        f"rms of difference / standard error: {np.sqrt(np.mean(z**2)):.2f}"
    )


if __name__ == "__main__":
    main()
