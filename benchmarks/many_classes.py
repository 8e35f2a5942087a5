"""What a full matrix gains over a diagonal with many classes: held-out log loss and fit times of averaged-matrix.

    OMP_NUM_THREADS=1 python benchmarks/many_classes.py [FILE.npz ...] [-k CLASSES ...] [-n ROWS]

averaged-matrix uses a diagonal above FULL_CLASSES (128) classes. This fits it both ways: to half of the rows of every
file (logits or probs, labels), and to simulated models of K classes whose true correction is a diagonal, or a diagonal
plus a matrix of rank 5. A low-rank form could gain at most about what the full matrix gains here. Seconds are processor
time; seed 0.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from bpmcli.core.calibrators import fit_calibrator
from bpmcli.core.calibrators.linear import components
from bpmcli.core.data.log_odds import log_softmax, reduce_logits
from bpmcli.core.data.rows import Rows


def rows_of(z: np.ndarray, labels: np.ndarray) -> Rows:
    reduced = reduce_logits(z)
    return Rows(reduced.log_odds, reduced.predictions == labels, None, reduced.predictions, labels, None, z)


def simulated(n: int, k: int, rank: int, seed: int) -> Rows:
    """Over-confident, with `rank` wrong directions of class similarity. The truth depends on k and rank alone."""
    truth, rng = np.random.default_rng(k), np.random.default_rng(seed)
    left, right = truth.normal(size=(k, max(rank, 1))), truth.normal(size=(k, max(rank, 1)))
    z = 2.0 * rng.normal(size=(n, k))
    z[np.arange(n), rng.integers(k, size=n)] += 7.0
    eta = z * truth.uniform(0.5, 0.7, size=k)
    if rank:
        eta += 0.3 * (z @ right) @ left.T / k
    return rows_of(z, (eta + rng.gumbel(size=z.shape)).argmax(axis=1))


def from_file(path: str) -> tuple[Rows, Rows]:
    with np.load(path) as file:
        z = file["logits"].astype(float) if "logits" in file else np.log(np.maximum(file["probs"].astype(float), 1e-30))
        labels = file["labels"].ravel().astype(int)
    order = np.random.default_rng(0).permutation(labels.size)
    half = labels.size // 2
    return rows_of(z[order[:half]], labels[order[:half]]), rows_of(z[order[half:]], labels[order[half:]])


def compare(name: str, fit: Rows, score: Rows) -> None:
    at = np.arange(score.n), score.labels
    losses = [f"{-log_softmax(score.logits)[at].mean():.4f}"]
    for full in (0, 10**6):
        components.FULL_CLASSES = full
        start = time.process_time()
        calibrator = fit_calibrator("averaged-matrix", fit).calibrator
        seconds = time.process_time() - start
        losses.append(f"{-calibrator.log_probabilities(score.logits)[at].mean():.4f} ({seconds:.1f} s)")
    print(f"| {name} | {fit.n} | {fit.logits.shape[1]} | " + " | ".join(losses) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("-k", type=int, nargs="*", default=[200])
    parser.add_argument("-n", type=int, default=5000)
    options = parser.parse_args()
    print("| rows from | fitted | classes | uncalibrated | diagonal | full matrix |")
    print("|---|--:|--:|--:|--:|--:|")
    for path in options.files:
        compare(path.rsplit("/", 1)[-1], *from_file(path))
    for k in options.k:
        for rank in (0, 5):
            compare(f"simulated, rank {rank}", simulated(options.n, k, rank, 0), simulated(options.n, k, rank, 1))


if __name__ == "__main__":
    main()
