"""Which methods fail on real outputs of classifiers: fit, save, load and apply on every experiment of a folder.

    python benchmarks/robust.py FOLDER [METHOD ...]

FOLDER holds npz files with `probas_cal`, `labels_cal`, `probas_test`, `labels_test` (N values of P(y = 1), or
N×K). Every method is fitted to the calibration rows as JSON would carry it, and applied to the test rows: for
the predicted class, for every class against the rest (`marginal`), and for two classes for y = 1 (`event`).
A failure is an error, a value outside [0, 1], or an infinite log loss of the distributions (marked `inf`), also where
P(y = 0) is computed from the written P(y = 1).
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bpmcli.core.calibrators import METHODS, Calibrator, FitOptions, fit_calibrator
from bpmcli.core.calibrators.distributions import calibrate_distributions
from bpmcli.core.calibrators.grouped import MARGINAL, GroupCalibrators, Grouping, fit_groups, load_groups
from bpmcli.core.calibrators.marginal import calibrate_marginals
from bpmcli.core.calibrators.spread import IN_PROPORTION, fit_spread
from bpmcli.core.data.log_odds import log_odds_of_confidences, reduce_probs
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.errors import BpmError


def distributions(probas: np.ndarray, labels: np.ndarray) -> Rows:
    """Rows of whole distributions; two classes are given by P(y = 1)."""
    p = np.asarray(probas, dtype=float)
    if p.ndim == 1:
        p = np.stack([1.0 - p, p], axis=1)
    reduced = reduce_probs(p)
    with np.errstate(divide="ignore"):
        logits = np.log(p)
    labels = labels.astype(np.int64)
    hits = reduced.predictions == labels
    return Rows(reduced.log_odds, hits, None, reduced.predictions, labels, None, logits, True)


def events(probas: np.ndarray, labels: np.ndarray) -> Rows:
    """Rows of P(y = 1)."""
    return Rows(log_odds_of_confidences(probas), labels == 1, labels=labels.astype(np.int64), target=EVENT)


def loaded(method: str, calibrator: Calibrator) -> Calibrator:
    """The calibrator as its JSON gives it back."""
    text = json.dumps(calibrator.parameters(), allow_nan=False)
    return METHODS[method].calibrator.from_parameters(json.loads(text))


def predicted_class(method: str, cal: Rows, test: Rows) -> np.ndarray:
    fitted = fit_calibrator(method, cal)
    assert test.logits is not None
    assert test.predictions is not None
    spread = (fit_spread(cal) if fitted.calibrator.spreads else None) or IN_PROPORTION
    return calibrate_distributions(
        loaded(method, fitted.calibrator), test.logits, test.log_odds, test.predictions, spread=spread
    ).probs


def every_class(method: str, cal: Rows, test: Rows) -> np.ndarray:
    found = fit_groups(method, cal, FitOptions(), Grouping(MARGINAL, None, 20))
    groups: GroupCalibrators = load_groups(json.loads(json.dumps(found.document())), method)
    pooled = loaded(method, found.pooled.calibrator)
    spread = fit_spread(cal) or IN_PROPORTION
    return calibrate_marginals(lambda k: groups.members.get(k, pooled), test, floor=spread.floor).probs


def event(method: str, cal: Rows, test: Rows) -> np.ndarray:
    g, miss = loaded(method, fit_calibrator(method, cal).calibrator).probabilities_within(test.log_odds)
    return np.stack([miss, g], axis=1)


Task = Callable[[str, Rows, Rows], np.ndarray]


def tasks(path: Path) -> Iterator[tuple[str, Task, Rows, Rows]]:
    """What is done to one experiment."""
    with np.load(path) as file:
        parts = [(file[f"probas_{part}"], file[f"labels_{part}"]) for part in ("cal", "test")]
    cal, test = (distributions(*part) for part in parts)
    yield "predicted class", predicted_class, cal, test
    if parts[0][0].ndim == 1:
        cal, test = (events(*part) for part in parts)
        yield "event", event, cal, test
    else:
        yield "marginal", every_class, cal, test


def judged(task: Task, method: str, cal: Rows, test: Rows) -> str | None:
    """What went wrong, if anything did."""
    try:
        probs = task(method, cal, test)
    except BpmError as error:
        return f"{type(error).__name__}: {error.message}"
    assert test.labels is not None
    if not (np.all((probs >= 0) & (probs <= 1)) and np.all(np.abs(probs.sum(axis=1) - 1) < 1e-9)):
        return "not probabilities"
    given = probs[np.arange(test.n), test.labels]
    if probs.shape[1] == 2:  # a file holds P(y = 1) alone
        given = np.where(test.labels == 1, probs[:, 1], 1.0 - probs[:, 1])
    return "inf" if np.any(given == 0.0) else None


def main(folder: str, methods: list[str]) -> None:
    paths = sorted(Path(folder).glob("*.npz"))
    failures: dict[tuple[str, str], list[tuple[str, str]]] = {}
    done: Counter[tuple[str, str]] = Counter()
    seconds: Counter[str] = Counter()
    for path in paths:
        for kind, task, cal, test in tasks(path):
            for method in methods:
                if kind == "marginal" and METHODS[method].needs_distribution:
                    continue
                start = time.perf_counter()
                wrong = judged(task, method, cal, test)
                seconds[method] += time.perf_counter() - start
                done[method, kind] += 1
                if wrong:
                    failures.setdefault((method, kind), []).append((path.stem, wrong))
    print(f"{len(paths)} experiments")
    print(f"{'method':<14} {'of':<16} {'runs':>5} {'failed':>6} {'inf':>4} {'seconds':>8}")
    for (method, kind), runs in done.items():
        found = failures.get((method, kind), [])
        infinite = sum(wrong == "inf" for _, wrong in found)
        print(f"{method:<14} {kind:<16} {runs:>5} {len(found) - infinite:>6} {infinite:>4} {seconds[method]:>8.1f}")
    for (method, kind), found in failures.items():
        for name, wrong in [f for f in found if f[1] != "inf"][:50]:
            print(f"{method}, {kind}, {name}: {wrong[:110]}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(METHODS))
