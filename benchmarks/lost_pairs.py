"""Against which methods averaged-matrix loses with two classes, and how many of these losses are beyond noise.

    python benchmarks/lost_pairs.py FOLDER [--part tuning]

FOLDER holds the experiments of benchmarks/arena.py. For every experiment with two classes and every public method, the
log losses of the test rows are compared row by row. A pair is "within noise" if the mean difference is less than 1.96
of its standard errors, so that other test rows from the same source could well reverse it.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from arena import Experiment, experiments, part_of
from arena_methods import ENTRANTS, POOL

OURS = "averaged-matrix"
SURE = 1.96


def losses(name: str, found: Experiment) -> np.ndarray:
    """The log loss of every test row."""
    probs = np.asarray(ENTRANTS[name].fit(found.cal, found.cal_labels)(found.test), dtype=np.float64)
    probs = probs / probs.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        loss: np.ndarray = -np.log(probs[np.arange(len(probs)), found.test_labels])
    return loss


def outcome(difference: np.ndarray) -> str:
    """Whether the mean of our losses minus theirs is a win, a loss, or within noise."""
    if not np.isfinite(difference).all():
        return "won, surely"  # theirs is infinite, ours never is
    mean, error = difference.mean(), difference.std(ddof=1) / np.sqrt(difference.size)
    return f"{'lost' if mean > 0 else 'won'}, {'surely' if abs(mean) > SURE * error else 'within noise'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("place", type=Path, metavar="FOLDER")
    parser.add_argument("--part", choices=["all", "tuning", "reporting"], default="tuning")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = ["won, surely", "won, within noise", "lost, within noise", "lost, surely"]
    peers = [name for name in POOL if ENTRANTS[name].two]
    counts = {name: dict.fromkeys(columns, 0) for name in peers}
    for found in experiments(options.place):
        if found.classes == 2 and options.part in ("all", part_of(found.dataset)):
            ours = losses(OURS, found)
            for name in peers:
                counts[name][outcome(ours - losses(name, found))] += 1
    print(f"| against | {' | '.join(columns)} |\n|---|--:|--:|--:|--:|")
    counts["all"] = {column: sum(counts[name][column] for name in peers) for column in columns}
    for name, line in counts.items():
        print(f"| {name} | {' | '.join(str(line[column]) for column in columns)} |")


if __name__ == "__main__":
    main()
