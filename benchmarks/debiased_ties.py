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
    for gap in (0.04, 0.05, 0.06):
        found = errors(gap, options.sets, options.rows, options.seed)
        for name, error in found.items():
            bias, rmse = error.mean(), np.sqrt(np.mean(error**2))
            print(f"true error {gap:.2f}, {name:12s} bias {bias:+.4f}, RMSE {rmse:.4f}")


def errors(gap: float, sets: int, rows: int, seed: int) -> dict[str, np.ndarray]:
    """Estimate minus truth, for accuracies that lie above and below the ten confidences in turn."""
    rates = VALUES + np.where(np.arange(10) % 2, -gap, gap)
    found: dict[str, list[float]] = {"whole ties": [], "straddling": []}
    for run in range(sets):
        rng = np.random.default_rng([seed, run])
        at = rng.integers(0, 10, rows)
        hits = rng.random(rows) < rates[at]
        # A shift far below the gaps between the values unties the rows in random order.
        apart = VALUES[at] + 1e-9 * rng.random(rows)
        for name, confidences in (("whole ties", VALUES[at]), ("straddling", apart)):
            measured = measure(sample_from_confidences(confidences, hits), ["ece-debiased"], MetricOptions())
            found[name].append(float(measured["ece-debiased"].value or 0.0))
    return {name: np.array(values) - gap for name, values in found.items()}


if __name__ == "__main__":
    main()
