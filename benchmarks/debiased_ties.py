"""`ece-debiased` on ten distinct confidences: bias and RMSE against the true error, and with the former bins.

    python benchmarks/debiased_ties.py [--sets 300] [--rows 5000]

"straddling" cuts the sorted rows into 15 bins of equal mass wherever they fall, as the first release did.
"""

from __future__ import annotations

import argparse

import numpy as np

from bpmcli.core.data.sample import sample_from_confidences
from bpmcli.core.metrics import MetricOptions, measure

VALUES = np.arange(10) * 0.05 + 0.525


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    truth = 0.04
    rates = VALUES + np.where(np.arange(10) % 2, truth, -truth)
    found: dict[str, list[float]] = {"whole ties": [], "straddling": []}
    for run in range(options.sets):
        rng = np.random.default_rng([options.seed, run])
        at = rng.integers(0, 10, options.rows)
        hits = rng.random(options.rows) < rates[at]
        # A shift far below the gaps between the values unties the rows in random order.
        apart = VALUES[at] + 1e-9 * rng.random(options.rows)
        for name, confidences in (("whole ties", VALUES[at]), ("straddling", apart)):
            measured = measure(sample_from_confidences(confidences, hits), ["ece-debiased"], MetricOptions())
            found[name].append(float(measured["ece-debiased"].value or 0.0))
    for name, values in found.items():
        error = np.array(values) - truth
        print(f"{name:12s} bias {error.mean():+.4f}, RMSE {np.sqrt(np.mean(error**2)):.4f}")


if __name__ == "__main__":
    main()
