"""How often intervals cover the truth, on simulated data.

    python benchmarks/coverage.py [--sets 300] [--jobs 2] [--resamples 1000] [--harder]

For D1–D5 at N = 1000 and 5000: the share of nominal 95 % intervals that contain the exact TCE, and of
curve bands that contain g(s) at s = 0.5, 0.9, 0.99, with the binomial standard error of that share.
--harder uses other truths, most of which are calibrated in one range, where noise looks like error; without bands.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators import FitOptions, band, fit_calibrator
from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.data.rows import SummarisedRows
from bpmcli.core.data.sample import Floats, Sample, sample_from_confidences
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.metrics.intervals import RESAMPLES, metric_intervals
from bpmcli.engines.local import work

METRICS = ("tce", "ece-debiased")
POINTS = (0.5, 0.9, 0.99)
SIZES = (1000, 5000)


TOPS = 1 / 3
"""Confidences u^(1/3) of a uniform u: Beta(3, 1)."""

HARDER: dict[str, tuple[float, Callable[[Floats], Floats]]] = {
    "calibrated": (1.0, lambda s: s),
    "kink": (1.0, lambda s: np.maximum(s, 0.3)),
    "falls below 0.3": (1.0, lambda s: np.where(s < 0.3, 0.9 - 2 * s, s)),
    "falls at both ends": (1.0, lambda s: np.where(s < 0.1, 0.6 - 5 * s, np.where(s > 0.9, 6.3 - 6 * s, s))),
    "falls above 0.95": (TOPS, lambda s: np.where(s < 0.95, s, 8.55 - 8 * s)),
    "falls from 0.5 to 0.8": (TOPS, lambda s: np.interp(s, [0, 0.5, 0.8, 1], [0, 0.5, 0.2, 0.92])),
}
"""Power of a uniform u that gives the confidence, and the true accuracy at it."""


def draw(name: str, n: int, run: int, seed: int) -> tuple[Sample, float]:
    """A data set and its exact TCE."""
    if name in HARDER:
        power, rate = HARDER[name]
        rng = np.random.default_rng([seed, list(HARDER).index(name), n, run])
        s = rng.random(n) ** power
        even = ((np.arange(10**6) + 0.5) / 10**6) ** power
        return sample_from_confidences(s, rng.random(n) < rate(s)), float(np.mean(np.abs(rate(even) - even)))
    truth = TRUTHS[name]
    return simulate(truth, n, np.random.default_rng([seed, int(name[1]), n, run])).sample(), truth.tce()


@dataclass(frozen=True)
class Covers:
    """One data set: which intervals contain the truth."""

    resamples: int
    metrics: tuple[str, ...]
    method: str
    seed: int

    def __call__(self, job: tuple[str, int, int]) -> dict[str, bool]:
        name, n, run = job
        sample, tce = draw(name, n, run, self.seed)
        options = MetricOptions()
        values = {k: m.value for k, m in measure(sample, self.metrics, options).items()}
        found = metric_intervals(sample, values, options, 0.95, self.resamples, run)
        out = {k: bool(i is not None and i.low <= tce <= i.high) for k, i in found.items()}
        if self.method:
            rows = SummarisedRows(sample, "top-label")
            fitted = fit_calibrator(self.method, rows, FitOptions()).calibrator
            limits = band.curve_band(self.method, fitted, rows, FitOptions(), 0.95, self.resamples, run)
            true = TRUTHS[name].curve.at(np.array(POINTS))
            for s, g in zip(POINTS, true, strict=True):
                i = int(np.argmin(np.abs(np.array(limits.confidence) - s)))
                out[f"g({s})"] = bool(limits.low[i] <= g <= limits.high[i])
        return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--metrics", default=",".join(METRICS), help="empty for none")
    parser.add_argument("--method", default="bpm-averaged", help="curve whose band is judged; empty for none")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--harder", action="store_true", help="other truths than D1–D5, and no band")
    options = parser.parse_args()
    if options.harder:
        options.method = ""
    jobs = [
        (name, n, run) for name in (HARDER if options.harder else TRUTHS) for n in SIZES for run in range(options.sets)
    ]
    task = Covers(options.resamples, tuple(filter(None, options.metrics.split(","))), options.method, options.seed)
    cells: dict[tuple[str, int], list[dict[str, bool]]] = {}
    for job, found in zip(jobs, work(task, jobs, options.jobs), strict=True):
        assert isinstance(found, dict), found
        cells.setdefault(job[:2], []).append(found)
    names = list(next(iter(cells.values()))[0])
    print(f"{'':28s}" + "".join(f"{name:>14s}" for name in names) + f"   (± {0.218 / options.sets**0.5:.3f} at 0.95)")
    for (name, n), sets in cells.items():
        shares = [np.mean([s[k] for s in sets]) for k in names]
        print(f"{name:22s} {n:5d}" + "".join(f"{share:14.3f}" for share in shares))


if __name__ == "__main__":
    main()
