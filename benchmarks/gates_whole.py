"""How often `--max-increase METRIC=0 --gate-confidence 0.95` fails, for metrics of all classes, on simulated models.

    python benchmarks/gates_whole.py [--pairs 500] [--sizes 200,1000,5000] [--classes 4] [--times 4] [--seed 5]

A row's true probabilities come from a Dirichlet distribution. Each model sees its own SEEN draws from them and gives
the posterior mean, which is calibrated, so two models make different mistakes on the same rows. "same" pairs are
equally calibrated: both are calibrated, or both have their log-probabilities divided by 0.7 (over-confident). In
"worse" pairs the first is calibrated and the second is over-confident.

Three comparisons: row by row, from summaries of other rows, and from summaries with a baseline of --times as many rows
(`metric larger`). Printed: the share of the gates that fail. If nothing changed, it should be at most about 0.05; the
sampling error of 500 pairs is 0.01.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.data.class_scores import ClassScores
from bpmcli.core.data.log_odds import reduce_probs
from bpmcli.core.data.rows import Rows
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.engines.local import work
from bpmcli.tasks.baseline import Against, kept

NAMES = ("nll-all", "brier-all", "ece-classwise", "ece-marginal")
SEEN = 20
SLOPES = {"same, calibrated": (1.0, 1.0), "same, over-confident": (0.7, 0.7), "worse": (1.0, 0.7)}
OPTIONS = MetricOptions()


class Pair(NamedTuple):
    """Two simulated models."""

    kind: str
    n: int
    classes: int
    times: int
    seed: tuple[int, ...]


def models(n: int, classes: int, slopes: tuple[float, ...], rng: np.random.Generator) -> list[Rows]:
    """Models on the same rows."""
    prior = rng.uniform(0.3, 1.0, (n, 1))
    true = rng.gamma(prior, size=(n, classes))
    true /= true.sum(axis=1, keepdims=True)
    labels = (true.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    out = []
    for slope in slopes:
        probs = ((prior + rng.multinomial(SEEN, true)) / (classes * prior + SEEN)) ** (1 / slope)
        probs /= probs.sum(axis=1, keepdims=True)
        top = reduce_probs(probs)
        scores = ClassScores([probs], from_probs=True)
        out.append(Rows(top.log_odds, top.predictions == labels, None, top.predictions, labels, scores=scores))
    return out


def record(rows: Rows, baseline: bool) -> dict[str, Any]:
    """A result as `metrics` has it, with what a baseline keeps."""
    values = {name: {"value": found.value} for name, found in measure(rows.sample, NAMES, OPTIONS, rows).items()}
    stored = kept(rows, rows.sample, rows.n, NAMES, OPTIONS) if baseline else None
    return {"input": "model", "target": rows.target, "weighted": False, "metrics": values, "kept": stored}


def fails(first: Rows, second: Rows) -> list[bool]:
    """Whether the gate on each metric fails."""
    against = Against({"results": [record(first, True)]}, True, NAMES, 0.9, 1000, 0)
    found = against.increases(record(second, False), second, second.sample, OPTIONS)
    return [found[name]["low"] > 0 for name in NAMES]


def compared(pair: Pair) -> list[list[bool]]:
    """Row by row, from summaries, and from summaries with a larger baseline."""
    rng = np.random.default_rng(list(pair.seed))
    slopes = SLOPES[pair.kind]
    first, second = models(pair.n, pair.classes, slopes, rng)
    other = models(pair.n, pair.classes, slopes[:1], rng)[0]
    larger = models(pair.n * pair.times, pair.classes, slopes[:1], rng)[0]
    return [fails(before, second) for before in (first, other, larger)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--sizes", default="200,1000,5000")
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=5)
    asked = parser.parse_args()
    print(f"    N  models                {'  '.join(f'{name:>20}' for name in NAMES)}")
    print(f"       {'':20}  {'  '.join(['  rows  summ. larger'] * len(NAMES))}", flush=True)
    for n in map(int, asked.sizes.split(",")):
        for number, kind in enumerate(SLOPES):
            jobs = [Pair(kind, n, asked.classes, asked.times, (asked.seed, n, number, i)) for i in range(asked.pairs)]
            shares = np.mean(list(work(compared, jobs, asked.jobs)), axis=0)
            shown = "  ".join(" ".join(f"{share:6.3f}" for share in column) for column in shares.T)
            print(f"{n:5}  {kind:20}  {shown}", flush=True)


if __name__ == "__main__":
    main()
