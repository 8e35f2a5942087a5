"""How often intervals cover the truth, on simulated data.

    python benchmarks/coverage.py [--sets 300] [--jobs 2] [--resamples 300]

For D1–D5 at N = 1000 and 5000: the share of nominal 95 % intervals that hold the exact TCE, and of
curve bands that hold g(s) at s = 0.5, 0.9, 0.99, with the binomial standard error of that share.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from bpmcli.core import band
from bpmcli.core.calibrators import FitOptions
from bpmcli.core.intervals import metric_intervals
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.rows import SummarisedRows
from bpmcli.core.simulate import TRUTHS, simulate
from bpmcli.engines.local import work

METRICS = ("tce", "ece-debiased")
POINTS = (0.5, 0.9, 0.99)
SIZES = (1000, 5000)


@dataclass(frozen=True)
class Covers:
    """One data set: which intervals hold the truth."""

    resamples: int
    metrics: tuple[str, ...]
    method: str

    def __call__(self, job: tuple[str, int, int]) -> dict[str, bool]:
        name, n, run = job
        truth = TRUTHS[name]
        sample = simulate(truth, n, np.random.default_rng([7, int(name[1]), n, run])).sample()
        options = MetricOptions()
        values = {k: m.value for k, m in measure(sample, self.metrics, options).items()}
        tce = truth.tce()
        found = metric_intervals(sample, values, options, 0.95, self.resamples, run)
        out = {k: bool(i is not None and i.low <= tce <= i.high) for k, i in found.items()}
        if self.method:
            rows = SummarisedRows(sample, "top-label")
            limits = band.curve_band(self.method, rows, FitOptions(), 0.95, self.resamples, run)
            true = truth.curve.at(np.array(POINTS))
            for s, g in zip(POINTS, true, strict=True):
                i = int(np.argmin(np.abs(np.array(limits.confidence) - s)))
                out[f"g({s})"] = bool(limits.low[i] <= g <= limits.high[i])
        return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--resamples", type=int, default=300)
    parser.add_argument("--metrics", default=",".join(METRICS))
    parser.add_argument("--method", default="bpm-averaged", help="curve whose band is judged; empty for none")
    options = parser.parse_args()
    jobs = [(name, n, run) for name in TRUTHS for n in SIZES for run in range(options.sets)]
    task = Covers(options.resamples, tuple(options.metrics.split(",")), options.method)
    cells: dict[tuple[str, int], list[dict[str, bool]]] = {}
    for job, found in zip(jobs, work(task, jobs, options.jobs), strict=True):
        assert isinstance(found, dict), found
        cells.setdefault(job[:2], []).append(found)
    names = list(next(iter(cells.values()))[0])
    print(f"{'':9s}" + "".join(f"{name:>14s}" for name in names) + f"   (± {0.218 / options.sets**0.5:.3f} at 0.95)")
    for (name, n), sets in cells.items():
        shares = [np.mean([s[k] for s in sets]) for k in names]
        print(f"{name} {n:5d} " + "".join(f"{share:14.3f}" for share in shares))


if __name__ == "__main__":
    main()
