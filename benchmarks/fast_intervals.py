"""The vectorised metrics of the bootstrap against the metrics themselves, resample by resample.

    python benchmarks/fast_intervals.py [--resamples 60]

For every metric: the largest and the typical difference after the shift at the sample itself is removed, in units of
the standard deviation over resamples; the ratio of the standard deviations; and the CPU time of both.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.metrics import METRICS, MetricOptions
from bpmcli.core.metrics.resamples import draw_resamples, itself, merged

CASES = [("D1", 1000), ("D1", 10_000), ("D3", 10_000), ("D4", 1000), ("D4", 10_000), ("D5", 100_000)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resamples", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    runs, seed = (parser.parse_args().resamples, parser.parse_args().seed)
    options = MetricOptions()
    for truth, n in CASES:
        cells = merged(simulate(TRUTHS[truth], n, np.random.default_rng(seed)).sample())
        drawn = draw_resamples(cells, runs, np.random.default_rng(seed))
        for name, entry in METRICS.items():
            if entry.posterior:
                continue
            start = time.process_time()
            fast = entry.on_resamples(drawn, options) - entry.on_resamples(itself(cells), options)
            middle = time.process_time()
            slow = entry._replace(resampled=None).on_resamples(drawn, options) - float(
                entry.compute(cells, options).value or np.nan
            )
            end = time.process_time()
            off = (fast - slow) / slow.std()
            print(
                f"{truth} {n:6d} {name:13s} largest {np.abs(off).max():.3f}, "
                f"typical {np.sqrt(np.mean(off**2)):.3f} sd; "
                f"sd ratio {fast.std() / slow.std():.3f}; {1e3 * (middle - start):5.0f} ms against "
                f"{1e3 * (end - middle):6.0f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
