"""When ece-debiased lies above the interval of `tce`: how often, which reason the sentence gives, and who is right.

    python benchmarks/disagreement.py [--runs 200] [--seed 0]

Each truth is drawn `runs` times. `above`: share of the data sets in which ece-debiased lies above the interval of tce.
Of these: `curve` is the share in which the sentence blames the curve of tce rather than noise, and `truth above` the
share in which the true error lies above the interval too, so that tce is indeed too low.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from bpmcli import MetricOptions, measure, sample_from_confidences, verdict
from bpmcli.core.data.sample import Floats
from bpmcli.core.metrics.disagreement import disagreements

TRUTHS: dict[str, Callable[[Floats], Floats]] = {
    "calibrated": lambda s: s,
    "logits 1.5 times too large": lambda s: 1 / (1 + ((1 - s) / s) ** (1 / 1.5)),
    "15 points lower above 0.9": lambda s: np.where(s > 0.9, s - 0.15, s),
    "10 points up and down, every 0.1": lambda s: np.clip(s + 0.1 * np.sign(np.sin(20 * np.pi * s)), 0, 1),
    "20 points up and down, every 0.1": lambda s: np.clip(s + 0.2 * np.sign(np.sin(20 * np.pi * s)), 0, 1),
    "20 points up and down, every 0.05": lambda s: np.clip(s + 0.2 * np.sign(np.sin(40 * np.pi * s)), 0, 1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"{'truth':36}{'rows':>6}{'above':>8}{'curve':>8}{'truth above':>13}")
    for name, truth in TRUTHS.items():
        for n in (100, 300, 1000, 3000):
            rng = np.random.default_rng([args.seed, n])
            blamed, right = [], []
            for _ in range(args.runs):
                s = rng.uniform(0.5, 1.0, n)
                g = truth(s)
                sample = sample_from_confidences(s, rng.random(n) < g)
                found = verdict(sample)
                value = measure(sample, ["ece-debiased"])["ece-debiased"].value
                said = disagreements(sample, {"ece-debiased": value}, found.low, found.high, MetricOptions())
                if said:
                    blamed.append("smooth curve" in said[0])
                    right.append(float(np.abs(g - s).mean()) > found.high)
            shares = f"{np.mean(blamed):8.2f}{np.mean(right):13.2f}" if blamed else f"{'-':>8}{'-':>13}"
            print(f"{name:36}{n:6}{len(blamed) / args.runs:8.2f}{shares}", flush=True)


if __name__ == "__main__":
    main()
