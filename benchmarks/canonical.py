"""Level and power of the test of canonical calibration, on simulated distributions.

    python benchmarks/canonical.py [--sets 200] [--rows 1000] [--classes 10] [--seed 0]

Log-probabilities are those of logits ~ N(0, 2²). `calibrated` draws labels from them: the share of P ≤ 0.05 is the
level of the test. The other truths change the distribution that labels are drawn from:

    temperature  multiplies log-probabilities by 0.8
    shift        adds 0.35 to one class and takes it from another
    slopes       multiplies the log-probabilities of half of the classes by 1.2 and of the other half by 0.8
    rest         spreads 40 % of the probability of the other classes evenly over them: the confidence stays calibrated
    corner       adds 1 to class 3 where class 2 has a probability above 0.37

Two more columns show the class-wise part of the test alone, and the test of the confidence alone.
"""

from __future__ import annotations

import argparse

import numpy as np

from bpmcli.core.data.class_scores import ClassScores
from bpmcli.core.data.log_odds import log_softmax, reduce_logits
from bpmcli.core.data.rows import Rows
from bpmcli.core.metrics.calibration_test import calibration_p_value
from bpmcli.core.metrics.canonical import distribution_test

TRUTHS = ("calibrated", "temperature", "shift", "slopes", "rest", "corner")


def true_log_probs(truth: str, logs: np.ndarray) -> np.ndarray:
    """The distributions that labels are drawn from, as unnormalised logarithms."""
    found, half = logs.copy(), logs.shape[1] // 2
    if truth == "temperature":
        found *= 0.8
    elif truth == "shift":
        found[:, 0] += 0.35
        found[:, 1] -= 0.35
    elif truth == "slopes":
        found[:, :half] *= 1.2
        found[:, half:] *= 0.8
    elif truth == "rest":
        rest, rows, top = np.exp(logs), np.arange(len(logs)), logs.argmax(axis=1)
        rest[rows, top] = 0.0
        even = np.broadcast_to(rest.sum(axis=1, keepdims=True) / (logs.shape[1] - 1), rest.shape)
        found = np.log(0.6 * rest + 0.4 * even)
        found[rows, top] = logs[rows, top]
    elif truth == "corner":
        found[logs[:, 2] > -1, 3] += 1.0
    return found


def draw(truth: str, n: int, k: int, rng: np.random.Generator) -> Rows:
    """A data set."""
    logs = log_softmax(rng.normal(0, 2, (n, k)))
    edges = np.cumsum(np.exp(log_softmax(true_log_probs(truth, logs))), axis=1)
    labels = np.minimum((rng.random((n, 1)) * edges[:, -1:] > edges).sum(axis=1), k - 1)
    top = reduce_logits(logs)
    scores = ClassScores([logs], from_probs=False)
    return Rows(top.log_odds, top.predictions == labels, None, top.predictions, labels, scores=scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("sets", 200), ("rows", 1000), ("classes", 10), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    print(f"{args.sets} sets of {args.rows} rows, {args.classes} classes: share with P <= 0.05 (and <= 0.01)")
    for truth in TRUTHS:
        found = []
        for number in range(args.sets):
            rows = draw(truth, args.rows, args.classes, np.random.default_rng([args.seed, number]))
            test = distribution_test(rows, seed=number)
            found.append((test.canonical, test.classwise, calibration_p_value(rows.sample, seed=number)))
        shares = [(np.mean(p <= 0.05), np.mean(p <= 0.01)) for p in np.array(found).T]
        names = ("canonical", "class-wise", "confidence")
        line = ", ".join(f"{name} {a:.3f} ({b:.3f})" for name, (a, b) in zip(names, shares, strict=True))
        print(f"{truth:12} {line}", flush=True)


if __name__ == "__main__":
    main()
