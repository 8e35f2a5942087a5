"""What `fit --method auto` chooses, and what the choice costs on new rows.

    python benchmarks/auto_choice.py FOLDER

FOLDER holds the experiments of benchmarks/arena.py. Of every second experiment of the tuning part that has two classes
(as P(y = 1)), and of the first ten of those with three to six classes, each method is cross-validated on the
calibration rows and scored on the test rows. The lines show the choice by the lowest loss, and by the rule of
`core/compare/choice.py` with several numbers of standard errors.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
from arena import Experiment, experiments, part_of
from arena_methods import rows_of

from bpmcli.core.calibrators import METHODS, FitOptions
from bpmcli.core.compare.choice import PREFERRED
from bpmcli.core.compare.cross_validation import Contest, applicable, compare_once, cross_validate
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.data.sample import BARE_LIMIT, Floats

MOST_CLASSES, MOST_SEVERAL = 6, 10
Scored = tuple[dict[str, Floats], dict[str, float], Floats]
"""Losses of every method by fold and on the test rows, and the rows of the folds."""


def _event_rows(probs: Floats, labels: np.ndarray) -> Rows:
    with np.errstate(divide="ignore"):
        x = np.clip(np.log(probs[:, 1]) - np.log(probs[:, 0]), -BARE_LIMIT, BARE_LIMIT)
    return Rows(x, labels == 1, target=EVENT)


def scored(found: Experiment) -> Scored:
    """Every method that could be fitted to all folds."""
    make, score = (_event_rows, "nll") if found.classes == 2 else (rows_of, "nll-all")
    calibration, test = make(found.cal, found.cal_labels), make(found.test, found.test_labels)
    names, _ = applicable(list(METHODS), calibration)
    contest = Contest(tuple(names), (score,), FitOptions(), 5, 1, 0)
    folds, ends = cross_validate(calibration, contest, 0), compare_once(calibration, test, contest)
    by_fold = {name: np.array([one.scores[name][score] for one in folds], dtype=np.float64) for name in names}
    sizes = [one.scored for one in ends]
    on_test = {name: float(np.average([one.scores[name][score] for one in ends], weights=sizes)) for name in names}
    return by_fold, on_test, np.array([one.scored for one in folds], dtype=np.float64)


def chosen(by_fold: dict[str, Floats], rows: Floats, errors: float | None) -> str:
    """The method with the lowest loss, or the preferred one if it is within so many standard errors of that."""
    losses = {name: float(np.average(values, weights=rows)) for name, values in by_fold.items()}
    best = min(losses, key=lambda name: losses[name])
    if errors is None:
        return best
    excess = by_fold[PREFERRED[0]] - by_fold[best]
    limit = errors * float(excess.std(ddof=1)) / np.sqrt(excess.size)
    return best if losses[PREFERRED[0]] - losses[best] > limit else PREFERRED[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("place", type=Path, metavar="FOLDER")
    place = parser.parse_args().place
    results: dict[str, list[Scored]] = {"two classes": [], "several classes": []}
    for number, found in enumerate(experiments(place)):
        kind = "two classes" if found.classes == 2 else "several classes"
        full = kind == "several classes" and len(results[kind]) == MOST_SEVERAL
        if number % 2 or part_of(found.dataset) != "tuning" or found.classes > MOST_CLASSES or full:
            continue
        results[kind].append(scored(found))
    for kind, parts in results.items():
        print(f"\n{kind}: {len(parts)} experiments; log loss on the test rows minus that of {PREFERRED[0]}")
        for errors in (None, 1.0, 2.0):
            picks = [chosen(by_fold, rows, errors) for by_fold, _, rows in parts]
            excess = np.array([t[name] - t[PREFERRED[0]] for (_, t, _), name in zip(parts, picks, strict=True)])
            rule = "lowest loss" if errors is None else f"{errors:g} standard errors"
            counts = ", ".join(f"{name} {count}" for name, count in Counter(picks).most_common())
            signs = f"lower in {(excess < 0).sum()}, higher in {(excess > 0).sum()}"
            print(f"  {rule:18} mean {excess.mean():+.4f}, {signs}: {counts}")


if __name__ == "__main__":
    main()
