"""How often gates pass, fail and are inconclusive, on simulated models whose true error is known.

    python benchmarks/gates.py [--runs 500] [--at-limit 2500] [--sizes 200,1000,5000] [--pairs 100] [--seed 3]
                               [--errors 0,0.03,0.045,0.06] [--start 0]

Confidences are those of D1–D5. The accuracy is s + λ (g(s) − s), kept in [0, 1], with the curve g of that truth and the
λ that gives the wanted true TCE. The gate is `tce` with a limit of 0.03 and a confidence of 0.95; true errors are 0
(calibrated), 0.03 (exactly at the limit: any decision there is the worst case of a wrong pass or a wrong fail, so there
are --at-limit models of it), 0.045 and 0.06.

- `--pass-below`: pass, fail, inconclusive.
- `--fail-above`, with and without `--gate-confidence`: the share that fails.
- The smallest detectable error: its mean, and the share of models with that true error that fail.
- `--max-increase tce=0 --gate-confidence 0.95` with --pairs pairs of models: the share that fails if nothing changed,
  and if the error rose from 0.02 to 0.06; row by row and from summaries.

With --start I the simulated models are those from the I-th on, so that a long study can be run in parts.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, sample_from_log_odds, sigmoid
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.metrics.decision import FAIL, INCONCLUSIVE, PASS, decide
from bpmcli.core.metrics.increase import unpaired_increases
from bpmcli.core.metrics.intervals import metric_intervals
from bpmcli.core.metrics.paired import paired_differences
from bpmcli.engines.local import work

LIMIT, CONFIDENCE = 0.03, 0.95
OPTIONS = MetricOptions()


class Run(NamedTuple):
    """One simulated model."""

    truth: str
    n: int
    error: float
    seed: tuple[int, ...]


class Found(NamedTuple):
    """What the gates say about it."""

    outcome: str
    above: bool
    surely_above: bool
    detectable: float


@lru_cache
def factor(name: str, error: float) -> float:
    """The λ whose true error is the one wanted, by bisection over 200,000 confidences of the truth."""
    drawn = simulate(TRUTHS[name], 200_000, np.random.default_rng(0))
    s, low, high = sigmoid(drawn.log_odds), 0.0, 64.0
    for _ in range(24):
        middle = (low + high) / 2
        found = float(np.mean(np.abs(np.clip(s + middle * (drawn.true_g - s), 0.0, 1.0) - s)))
        low, high = (middle, high) if found < error else (low, middle)
    return low


def rows_of(run: Run) -> tuple[Floats, Floats, np.random.Generator]:
    """Log-odds, true accuracies and the generator that draws outcomes."""
    truth = TRUTHS[run.truth]
    rng = np.random.default_rng(list(run.seed))
    drawn = simulate(truth, run.n, rng)
    s = sigmoid(drawn.log_odds)
    return drawn.log_odds, np.clip(s + factor(run.truth, run.error) * (drawn.true_g - s), 0.0, 1.0), rng


def gated(run: Run) -> Found:
    """Every gate on one model."""
    x, g, rng = rows_of(run)
    sample = sample_from_log_odds(x, rng.random(run.n) < g)
    value = measure(sample, ["tce"], OPTIONS)["tce"].value
    interval = metric_intervals(sample, {"tce": value}, OPTIONS, 2 * CONFIDENCE - 1)["tce"]
    assert value is not None
    assert interval is not None
    found = decide(value, interval.low, interval.high, LIMIT, run.n, CONFIDENCE, sample.mean_confidence)
    return Found(found.outcome, value > LIMIT, interval.low > LIMIT, found.detectable or 0.0)


class PairRun(NamedTuple):
    """Two models on the same rows: the second has the same error as the first, or a larger one."""

    run: Run
    later: float


def compared(pair: PairRun) -> tuple[bool, bool]:
    """Whether `--max-increase tce=0 --gate-confidence` fails: row by row, and from summaries of independent rows."""
    x, g, rng = rows_of(pair.run)
    _, later, _ = rows_of(pair.run._replace(error=pair.later))
    luck = rng.random(pair.run.n)
    # Four of five outcomes depend on the item rather than on the model.
    other = np.where(rng.random(pair.run.n) < 0.8, luck, rng.random(pair.run.n))
    first, second = Rows(x, luck < g), Rows(x, other < later)
    level = 2 * CONFIDENCE - 1
    by_row = paired_differences(first, second, ["tce"], OPTIONS, level)[0]
    fresh_x, fresh_g, fresh = rows_of(pair.run._replace(error=pair.later, seed=(*pair.run.seed, 1)))
    third = sample_from_log_odds(fresh_x, fresh.random(fresh_x.size) < fresh_g)
    values = {"tce": (by_row.first, measure(third, ["tce"], OPTIONS)["tce"].value)}
    summaries = unpaired_increases(first.sample, third, values, OPTIONS, level)["tce"]
    return (by_row.low or 0.0) > 0, (summaries.low or 0.0) > 0


def spread(n: int, error: float, runs: int, seed: int, start: int = 0) -> list[Run]:
    """Runs shared out evenly among the truths."""
    names = list(TRUTHS)
    return [Run(names[i % 5], n, error, (seed, n, int(1e6 * error), i)) for i in range(start, start + runs)]


def show_limits(sizes: list[int], asked: argparse.Namespace) -> None:
    """The outcomes of gates with a fixed limit."""
    print("    N  true error   pass   fail  inconclusive   fail-above: value  surely   detectable", flush=True)
    for n in sizes:
        for error in map(float, asked.errors.split(",")):
            runs = asked.at_limit if error == LIMIT else asked.runs
            if not runs:
                continue
            found = list(work(gated, spread(n, error, runs, asked.seed, asked.start), asked.jobs))
            shares = [np.mean([one.outcome == outcome for one in found]) for outcome in (PASS, FAIL, INCONCLUSIVE)]
            value, surely = (np.mean([getattr(one, name) for one in found]) for name in ("above", "surely_above"))
            shown = "  ".join(f"{share:5.3f}" for share in shares)
            print(f"{n:5}  {error:10.3f}  {shown}         {value:17.3f}  {surely:6.3f}", end="   ")
            detectable = float(np.mean([one.detectable for one in found]))
            print(f"{detectable:10.3f}", flush=True)
            if error == LIMIT and asked.runs:
                there = list(work(gated, spread(n, detectable, asked.runs, asked.seed, asked.start), asked.jobs))
                share = np.mean([one.outcome == FAIL for one in there])
                print(f"       with a true error of {detectable:.3f}, a share of {share:.3f} fails", flush=True)


def show_increases(sizes: list[int], asked: argparse.Namespace) -> None:
    """The share of gates on an increase that fail."""
    print("\n    N  0.02 to   fails row by row   from summaries", flush=True)
    for n in sizes:
        for later in (0.02, 0.06):
            runs = spread(n, 0.02, asked.pairs, asked.seed + 1, asked.start)
            shares = np.mean(list(work(compared, [PairRun(run, later) for run in runs], asked.jobs)), axis=0)
            print(f"{n:5}  {later:7.2f}  {shares[0]:16.3f}  {shares[1]:15.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--at-limit", type=int, default=2500)
    parser.add_argument("--errors", default="0,0.03,0.045,0.06")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--sizes", default="200,1000,5000")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--start", type=int, default=0)
    asked = parser.parse_args()
    sizes = [int(size) for size in asked.sizes.split(",")]
    if asked.runs or asked.at_limit:
        show_limits(sizes, asked)
    if asked.pairs:
        show_increases(sizes, asked)


if __name__ == "__main__":
    main()
