"""Coverage of intervals if rows come in clusters, with and without --cluster.

    python benchmarks/cluster_coverage.py [--sets 200] [--clusters 50,200] [--rows 10] [--jobs 1] [--seed 11]

Outcomes follow the curve of D1, D3 or D5 exactly, row by row, and are correlated within clusters (a Gaussian copula:
h = [Φ(√ρ z + √(1 − ρ) e) < g(s)] with ρ = 0.5 and one z per cluster). Confidences are drawn row by row ("own"), or once
per cluster as with repeated prompts ("shared"). Printed: the share of nominal 95 % intervals that contain the exact
TCE, and the mean design effect.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.rows import Rows
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.metrics.clusters import clustered
from bpmcli.core.metrics.intervals import metric_intervals
from bpmcli.engines.local import work

METRICS = ("tce", "ece-debiased")
CORRELATION = 0.5
OPTIONS = MetricOptions()


class Setting(NamedTuple):
    """What is simulated."""

    truth: str
    clusters: int
    rows: int
    shared: bool


def draw(setting: Setting, seed: tuple[int, ...]) -> Rows:
    """Rows in clusters of equal size."""
    rng = np.random.default_rng(list(seed))
    n, times = setting.clusters * setting.rows, setting.rows if setting.shared else 1
    drawn = simulate(TRUTHS[setting.truth], n // times, rng)
    x, g = np.repeat(drawn.log_odds, times), np.repeat(drawn.true_g, times)
    code = np.repeat(np.arange(setting.clusters), setting.rows)
    z = rng.standard_normal(setting.clusters)[code]
    u = ndtr(np.sqrt(CORRELATION) * z + np.sqrt(1 - CORRELATION) * rng.standard_normal(n))
    return Rows(x, u < g, clusters=Categorical([str(i) for i in range(setting.clusters)], code))


def covers(setting: Setting, seed: int, i: int) -> tuple[list[bool], float]:
    """For every metric, whether the interval contains the truth, without and with clusters; and the design effect."""
    rows = draw(setting, (seed, i, setting.clusters))
    truth = TRUTHS[setting.truth].tce()
    held = []
    sample, cells = clustered(rows)
    for one, clusters in ((rows.sample, None), (sample, cells)):
        values = {name: found.value for name, found in measure(one, METRICS, OPTIONS).items()}
        intervals = metric_intervals(one, values, OPTIONS, clusters=clusters)
        for name in METRICS:
            found = intervals[name]
            held.append(found is not None and found.low <= truth <= found.high)
    return held, rows.n / sample.effective_n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--clusters", default="50,200")
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=11)
    asked = parser.parse_args()
    print("truth  clusters  confidences  " + "  ".join(f"{m:>12}  clustered" for m in METRICS) + "   deff", flush=True)
    for clusters in map(int, asked.clusters.split(",")):
        for truth in ("D1", "D3", "D5"):
            for shared in (False, True):
                setting = Setting(truth, clusters, asked.rows, shared)
                found = list(work(partial(covers, setting, asked.seed), range(asked.sets), asked.jobs))
                shares = np.mean([held for held, _ in found], axis=0)
                effect = float(np.mean([effect for _, effect in found]))
                figures = "  ".join(f"{shares[k]:12.3f}  {shares[k + 2]:9.3f}" for k in range(2))
                print(
                    f"{truth:5}  {clusters:8}  {'shared' if shared else 'own':11}  {figures}  {effect:5.2f}", flush=True
                )


if __name__ == "__main__":
    main()
