"""What keeping the predicted class costs, and other ways to do it.

    python benchmarks/class_kept.py FOLDER [--part tuning|reporting|all]

FOLDER as for benchmarks/arena.py. The calibrator is fitted to the calibration rows with the class free. Where it puts
another class on top of a test row, the distribution is changed in one of these ways:

    closest       classes above the predicted one come down to a common level (what `apply` does)
    swap          the predicted class and the largest one change places
    temperature   the row is scaled by the temperature of the first step, which keeps the order of the classes
    mixed         as little of `temperature` as puts the predicted class level with the largest
    mixed, logs   the same, mixing logarithms

Printed: log loss and Brier score of all rows, ratio of the log loss to that with the class free (median and worst), and
the share of experiments in which the log loss is below that of `closest`, ties counting half.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from arena import Experiment, experiments, part_of
from arena_methods import rows_of

from bpmcli.core.calibrators import fit_calibrator
from bpmcli.core.calibrators.averaged_matrix import AveragedMatrix
from bpmcli.core.calibrators.base import LEAST
from bpmcli.core.calibrators.distributions import keep_class
from bpmcli.core.calibrators.linear.floor import Start
from bpmcli.core.calibrators.linear.table import log_probabilities


def mixed(free: np.ndarray, other: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """(1 − w) free + w other, with the smallest w of each row for which no class is above the predicted one."""
    at = np.arange(free.shape[0]), predictions
    above, room = free - free[at][:, None], other[at][:, None] - other
    w = np.where(above > 0, above / np.maximum(above + room, 1e-300), 0.0).max(axis=1)[:, None]
    result: np.ndarray = (1.0 - w) * free + w * other
    return result


def ways(found: Experiment) -> dict[str, np.ndarray]:
    """Calibrated distributions of the test rows: with the class free, and by every way of keeping it."""
    calibrator = fit_calibrator("averaged-matrix", rows_of(found.cal, found.cal_labels)).calibrator
    assert isinstance(calibrator, AveragedMatrix)
    rows = rows_of(found.test, found.test_labels)
    free = np.maximum(np.exp(calibrator.distributions(rows.logits)), LEAST)
    free /= free.sum(axis=1, keepdims=True)
    start = Start(calibrator.floor, -math.log(calibrator.temperature), calibrator.uniform)
    scaled = start.scores(log_probabilities(rows.logits))[0].T
    changed = free.argmax(axis=1) != rows.predictions
    below, own, first = free[changed], rows.predictions[changed], scaled[changed]
    at, top = np.arange(own.size), below.argmax(axis=1)
    swapped = below.copy()
    swapped[at, own], swapped[at, top] = below[at, top], below[at, own]
    logs = np.exp(mixed(np.log(below), np.log(first), own))
    made = {
        "class free": below, "closest": keep_class(below, own), "swap": swapped, "temperature": first,
        "mixed": mixed(below, first, own), "mixed, logs": logs / logs.sum(axis=1, keepdims=True),
    }  # fmt: skip
    out = {}
    for name, part in made.items():
        out[name] = free.copy()
        out[name][changed] = part
    return out


def losses(probs: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Log loss and Brier score."""
    own = probs[np.arange(labels.size), labels]
    return float(-np.log(own).mean()), float(((probs**2).sum(axis=1) - 2.0 * own + 1.0).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("place", type=Path, metavar="FOLDER")
    parser.add_argument("--part", choices=["all", "tuning", "reporting"], default="tuning")
    options = parser.parse_args()
    found: dict[bool, list[dict[str, tuple[float, float]]]] = {False: [], True: []}
    for experiment in experiments(options.place):
        if options.part in ("all", part_of(experiment.dataset)):
            scored = {name: losses(probs, experiment.test_labels) for name, probs in ways(experiment).items()}
            found[experiment.classes == 2].append(scored)
    for two, scores in found.items():
        if not scores:
            continue
        print(f"\n{'two' if two else 'several'} classes, {len(scores)} experiments, part: {options.part}\n")
        print("| way | log loss | Brier | ratio to class free: median | worst | log loss below closest's |")
        print("|---|--:|--:|--:|--:|--:|")
        table = {name: np.array([s[name] for s in scores]) for name in scores[0]}
        free, base = table["class free"][:, 0], table["closest"][:, 0]
        for name, values in table.items():
            loss = values[:, 0]
            share = ((loss < base) + 0.5 * (loss == base)).mean()
            print(
                f"| {name} | {loss.mean():.4f} | {values[:, 1].mean():.4f} | {np.median(loss / free):.4f} "
                f"| {(loss / free).max():.3f} | {share:.3f} |"
            )


if __name__ == "__main__":
    main()
