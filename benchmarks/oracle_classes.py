"""Metrics of whole distributions beside uncertainty-calibration and scikit-learn.

    python benchmarks/oracle_classes.py                  writes tests/oracles/classes.json
    python benchmarks/oracle_classes.py FOLDER           prints the largest differences on real data

Needs uncertainty-calibration and scikit-learn. FOLDER holds npz files with probas_test (N×K) and labels_test. Rows are
divided by their sum in float64 before both sides see them, because uncertainty-calibration takes them as they are.
Where probabilities of a class are tied, bins of equal mass differ by definition (we spread tied rows evenly over the
bins that they fall into), so those files are compared by bins of equal width only. A probability exactly on the edge of
two such bins belongs to the upper one here and to the lower one there; files that have any are compared by equal mass
only. scikit-learn raises probabilities below 2.2e-16; files with such a true class are left out of the log loss.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bpmcli.core.data.class_scores import ClassScores
from bpmcli.core.data.log_odds import reduce_probs
from bpmcli.core.data.rows import Rows
from bpmcli.core.metrics import MetricOptions, measure

TARGET = Path(__file__).resolve().parent.parent / "tests" / "oracles" / "classes.json"
SKLEARN_FLOOR = 2.3e-16
CASES = {"three": (400, 3, 0), "ten": (1000, 10, 1), "skewed": (700, 5, 2)}


def case(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels that disagree with them a little."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.geomspace(0.3, 2.0, k), n)
    true = probs**0.7
    edges = np.cumsum(true / true.sum(axis=1, keepdims=True), axis=1)
    return probs, np.minimum((rng.random((n, 1)) > edges).sum(axis=1), k - 1)


def theirs(probs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The same quantities by other packages."""
    import calibration.utils as package
    from sklearn.metrics import brier_score_loss, log_loss

    one_hot = np.eye(probs.shape[1])[labels]
    found = {
        "nll-all": float(log_loss(labels, probs, labels=np.arange(probs.shape[1]))),
        "brier-all": float(brier_score_loss(labels, probs, labels=np.arange(probs.shape[1]), scale_by_half=False)),
    }
    for binning, scheme in (("mass", package.get_equal_bins), ("width", package.get_equal_prob_bins)):
        for p in (1, 2):
            found[f"ece-classwise {binning} {p}"] = float(
                package.lower_bound_scaling_ce(probs, labels, p, False, 15, scheme, mode="marginal")
            )
        squares = []
        for k in range(probs.shape[1]):
            data = list(zip(probs[:, k], one_hot[:, k], strict=True))
            squares.append(package.unbiased_square_ce(package.bin(data, scheme(probs[:, k], 15))))
        found[f"ece-marginal {binning} 2"] = max(float(np.mean(squares)), 0.0) ** 0.5
    return found


def ours(probs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Our metrics, under the same names."""
    reduced = reduce_probs(probs)
    rows = Rows(
        reduced.log_odds, reduced.predictions == labels, None, reduced.predictions, labels,
        scores=ClassScores([probs], from_probs=True),
    )  # fmt: skip
    losses = measure(rows.sample, ["nll-all", "brier-all"], None, rows)
    found: dict[str, Any] = {name: one.value for name, one in losses.items()}
    for binning in ("mass", "width"):
        for p in (1, 2):
            options = MetricOptions(binning=binning, p=p)
            for name, one in measure(rows.sample, ["ece-classwise", "ece-marginal"], options, rows).items():
                found[f"{name} {binning} {p}"] = one.value
    return found


def experiments(folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as data:
            if "probas_test" in data and data["probas_test"].ndim == 2:
                probs = data["probas_test"].astype(np.float64)
                yield path.stem, probs / probs.sum(axis=1, keepdims=True), data["labels_test"].astype(np.int64)


def compare(folder: Path) -> None:
    worst: dict[str, tuple[float, str]] = {}
    counted: dict[str, int] = {}
    for name, probs, labels in experiments(folder):
        tied = any(np.unique(column).size < column.size for column in probs.T)
        tiny = bool((probs[np.arange(labels.size), labels] < SKLEARN_FLOOR).any())
        on_edge = bool((np.abs(probs * 15 - np.rint(probs * 15)) < 1e-5)[(probs > 0.01) & (probs < 0.99)].any())
        mine, other = ours(probs, labels), theirs(probs, labels)
        for key, value in other.items():
            if ("mass" in key and tied) or ("width" in key and on_edge) or (key == "nll-all" and tiny):
                continue
            counted[key] = counted.get(key, 0) + 1
            worst[key] = max(worst.get(key, (0.0, "")), (abs(mine[key] - value), name))
    for key, (difference, name) in worst.items():
        print(f"{key:24} {counted[key]:4} files, largest difference {difference:.1e} ({name})")


def main() -> None:
    if len(sys.argv) > 1:
        compare(Path(sys.argv[1]))
        return
    versions = {name: version(name) for name in ("uncertainty-calibration", "scikit-learn", "numpy")}
    cases = {name: {"case": args, **theirs(*case(*args))} for name, args in CASES.items()}
    document = {"made_by": "benchmarks/oracle_classes.py", "versions": versions, "cases": cases}
    TARGET.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
