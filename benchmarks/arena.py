"""Our calibrators beside public ones on many real classifiers: win rates, losses, failures and times.

    python benchmarks/arena.py FOLDER --cache DIR [--methods NAME ...] [--part reporting] [--rows 50]

FOLDER holds `{dataset}__{model}.npz` files with probas_cal, labels_cal, probas_test, labels_test, or CalArena's
HDF5 files, whose groups are `{dataset}/{model}` with the same four arrays (needs h5py). Every method is fitted on the
calibration rows and scored on the test rows. Each result is one JSON file in DIR, so an interrupted run continues where
it stopped. `--again NAME` deletes the stored results of a method.

Tuning and reporting never share a data set: crc32 of its name is even for the tuning part, odd for the reporting part.

Win rate: the share of pairs (experiment, public method) in which a method has the lower loss, ties counting half; its
interval is a bootstrap over data sets. ECE: 15 equal-mass bins, debiased (Kumar et al. 2019), of the predicted class;
class-wise: the mean of the same over the classes, each against the rest. Times are processor seconds, and
their table shows medians, in which imports do not count; set OMP_NUM_THREADS=1 so that they are those of one core.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from arena_methods import ENTRANTS, LEADERS, POOL, Apply
from arena_report import print_report

ARRAYS = ("probas_cal", "labels_cal", "probas_test", "labels_test")


class Experiment(NamedTuple):
    """One classifier on one data set: probabilities of K classes and labels, for fitting and for scoring."""

    dataset: str
    model: str
    cal: np.ndarray
    cal_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    @property
    def name(self) -> str:
        return f"{self.dataset}__{self.model}"

    @property
    def classes(self) -> int:
        return int(self.cal.shape[1])


def part_of(dataset: str) -> str:
    """The part that a data set belongs to, from its name alone."""
    return "reporting" if zlib.crc32(dataset.encode()) % 2 else "tuning"


def _table(probs: np.ndarray) -> np.ndarray:
    """N×K float64 rows that sum to 1; a single column holds the probability of class 1."""
    probs = np.asarray(probs, dtype=np.float64)
    if probs.ndim == 1 or probs.shape[1] == 1:
        one = probs.reshape(-1)
        probs = np.stack([1.0 - one, one], axis=1)
    return probs / probs.sum(axis=1, keepdims=True)


def _experiment(dataset: str, model: str, arrays: Any) -> Experiment:
    cal, cal_labels, test, test_labels = (np.asarray(arrays[name]) for name in ARRAYS)
    return Experiment(
        dataset, model, _table(cal), cal_labels.ravel().astype(int), _table(test), test_labels.ravel().astype(int)
    )


def experiments(place: Path) -> Iterator[Experiment]:
    """Every experiment of a folder, or of one HDF5 file, in the order of the names."""
    files = [place] if place.is_file() else sorted(p for p in place.iterdir() if p.suffix in (".npz", ".h5", ".hdf5"))
    for path in files:
        if path.suffix == ".npz":
            dataset, _, model = path.stem.partition("__")
            with np.load(path) as arrays:
                yield _experiment(dataset, model, arrays)
            continue
        import h5py

        with h5py.File(path) as file:
            for dataset in sorted(file):
                for model in sorted(file[dataset]):
                    yield _experiment(dataset, model, file[dataset][model])


def with_rows(found: Experiment, rows: int | None) -> Experiment:
    """The experiment with only so many calibration rows, drawn by a generator seeded with its name."""
    if rows is None or rows >= found.cal_labels.size:
        return found
    rng = np.random.default_rng(zlib.crc32(found.name.encode()))
    chosen = np.sort(rng.permutation(found.cal_labels.size)[:rows])
    return found._replace(cal=found.cal[chosen], cal_labels=found.cal_labels[chosen])


def _debiased_ece(confidences: np.ndarray, hits: np.ndarray) -> float:
    from bpmcli.core.data.log_odds import log_odds_of_confidences
    from bpmcli.core.data.sample import sample_from_log_odds
    from bpmcli.core.metrics import measure

    sample = sample_from_log_odds(log_odds_of_confidences(np.clip(confidences, 0.0, 1.0)), hits)
    return float(measure(sample, ["ece-debiased"])["ece-debiased"].value or 0.0)


def scores(probs: np.ndarray, found: Experiment) -> dict[str, float]:
    """The scores of calibrated distributions of the test rows."""
    labels, rows = found.test_labels, np.arange(found.test_labels.size)
    probs = np.asarray(probs, dtype=np.float64)
    if not (np.isfinite(probs).all() and probs.min() >= 0):
        raise ValueError("probabilities that are not finite or negative")
    probs = probs / probs.sum(axis=1, keepdims=True)
    top = probs.argmax(axis=1)
    truth = np.zeros_like(probs)
    truth[rows, labels] = 1.0
    with np.errstate(divide="ignore"):
        log_loss = float(-np.log(probs[rows, labels]).mean())
    return {
        "log_loss": log_loss,
        "brier": float(((probs - truth) ** 2).sum(axis=1).mean()),
        "ece": _debiased_ece(probs[rows, top], top == labels),
        "class_ece": float(np.mean([_debiased_ece(probs[:, k], labels == k) for k in range(found.classes)])),
        "accuracy": float((top == labels).mean()),
        "kept": float((top == found.test.argmax(axis=1)).mean()),
    }


def run(name: str, found: Experiment) -> dict[str, Any]:
    """Scores and times of one method on one experiment; a failure is a result too."""
    result: dict[str, Any] = {"n": int(found.cal_labels.size), "k": found.classes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            start = time.process_time()
            apply: Apply = ENTRANTS[name].fit(found.cal, found.cal_labels)
            fitted = time.process_time()
            probs = apply(found.test)
            done = time.process_time()
            result |= {"fit_s": fitted - start, "apply_s": done - fitted} | scores(probs, found)
        except Exception as error:  # whatever a method raises is its failure, not the benchmark's
            result["error"] = f"{type(error).__name__}: {error}"[:200]
    return result


def stored_results(place: Path, cache: Path, names: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    """The results of every experiment, computed where they are not in the cache yet."""
    found = []
    for experiment in experiments(place):
        part = part_of(experiment.dataset)
        if options.part not in ("all", part) or options.only not in experiment.name:
            continue
        if options.classes not in ("all", "two" if experiment.classes == 2 else "several"):
            continue
        experiment = with_rows(experiment, options.rows)
        entry: dict[str, Any] = {"dataset": experiment.dataset, "model": experiment.model, "part": part}
        entry |= {"classes": experiment.classes, "methods": {}}
        for name in names:
            if not ENTRANTS[name].meant_for(experiment.classes):
                continue
            path = cache / name / f"{experiment.name}.json"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(run(name, experiment)))
            entry["methods"][name] = json.loads(path.read_text())
        found.append(entry)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("place", type=Path, metavar="FOLDER")
    parser.add_argument("--cache", type=Path, required=True, help="where results are kept, one file each")
    parser.add_argument("--methods", nargs="+", choices=list(ENTRANTS), help="all that are installed if not given")
    parser.add_argument("--part", choices=["all", "tuning", "reporting"], default="all")
    parser.add_argument("--classes", choices=["all", "two", "several"], default="all")
    parser.add_argument("--rows", type=int, help="use only this many calibration rows")
    parser.add_argument("--again", nargs="+", default=[], help="methods whose stored results are thrown away")
    parser.add_argument("--only", default="", help="experiments whose name contains this")
    options = parser.parse_args()
    names = options.methods or list(ENTRANTS)
    cache = options.cache / (f"rows{options.rows}" if options.rows else "all")
    for name in options.again:
        for path in (cache / name).glob("*.json"):
            path.unlink()
    results = stored_results(options.place, cache, names, options)
    print_report(results, names, POOL, LEADERS)


if __name__ == "__main__":
    main()
