"""How often `--max-increase METRIC=0 --gate-confidence 0.95` fails if nothing changed except the number of rows.

    python benchmarks/gates_sizes.py [--pairs 200] [--sizes 10000:1000,1000:10000,1000:1000] [--resamples 300]

The baseline and the later run are independent samples of one model, compared from summaries. Models are calibrated, or
have the curves of D1–D5; both kinds have the confidences of D1–D5. At most about 0.05 should fail; the sampling error
of 200 pairs is 0.015.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.data.sample import Sample, sample_from_log_odds, sigmoid
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.metrics.increase import unpaired_increases
from bpmcli.engines.local import work

NAMES = ("ece", "ece-debiased", "ece-sweep", "ks", "smece", "ls-ece", "brier", "nll")
OPTIONS = MetricOptions()


class Pair(NamedTuple):
    """Two runs of one model."""

    sizes: tuple[int, int]
    calibrated: bool
    resamples: int
    number: int


def draw(pair: Pair, n: int, rng: np.random.Generator) -> Sample:
    drawn = simulate(TRUTHS[list(TRUTHS)[pair.number % 5]], n, rng)
    accuracy = sigmoid(drawn.log_odds) if pair.calibrated else drawn.true_g
    return sample_from_log_odds(drawn.log_odds, rng.random(n) < accuracy)


def fails(pair: Pair) -> list[bool]:
    """Whether the gate on each metric fails."""
    rng = np.random.default_rng([5, pair.number, *pair.sizes])
    first, second = (draw(pair, n, rng) for n in pair.sizes)
    before, after = (measure(sample, NAMES, OPTIONS) for sample in (first, second))
    values = {name: (before[name].value, after[name].value) for name in NAMES}
    found = unpaired_increases(first, second, values, OPTIONS, 0.9, pair.resamples)
    return [(found[name].low or 0.0) > 0 for name in NAMES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--sizes", default="10000:1000,1000:10000,1000:1000")
    parser.add_argument("--resamples", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    print("baseline  later  models      " + "  ".join(f"{name:>12}" for name in NAMES), flush=True)
    for text in asked.sizes.split(","):
        first, _, second = text.partition(":")
        for calibrated in (True, False):
            sizes = int(first), int(second)
            jobs = [Pair(sizes, calibrated, asked.resamples, i) for i in range(asked.pairs)]
            shares = np.mean(list(work(fails, jobs, asked.jobs)), axis=0)
            shown = "  ".join(f"{share:12.3f}" for share in shares)
            print(f"{first:>8}  {second:>5}  {'calibrated' if calibrated else 'D1–D5':10}  {shown}", flush=True)


if __name__ == "__main__":
    main()
