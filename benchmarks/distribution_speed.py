"""Fit and apply times of the calibrators of whole distributions, beside probmetrics and temperature scaling.

    OMP_NUM_THREADS=1 python benchmarks/distribution_speed.py [-n ROWS] [-k CLASSES ...] [--repeat R]

Seconds are processor time of the best of R runs, so that other work on the machine hardly matters. `apply` is the map
from logits to log-probabilities, as a multiple of the time that temperature scaling takes for the same rows. `extra MB`
is the most memory that applying took beyond its result, for the given rows and for four times as many: it stays flat
because rows are mapped in chunks. probmetrics is left out where it is not installed. `row temperature` is the map that
keeps the predicted class on top after a curve, with every row taking part; in practice only overtaken rows do.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

from bpmcli.core.calibrators import fit_calibrator
from bpmcli.core.calibrators.row_temperature import at_row_temperature
from bpmcli.core.data.log_odds import log_softmax, reduce_logits
from bpmcli.core.data.rows import Rows

# numba, which probmetrics needs, looks for the package `coverage` and would find benchmarks/coverage.py.
sys.modules.setdefault("coverage", None)  # type: ignore[arg-type]

OURS = {
    "averaged-matrix": None, "structured-matrix": "sms", "structured-vector": "svs", "dirichlet": None,
    "vector": "VectorScalingCalibrator", "matrix": "MatrixScalingCalibrator", "temperature": "temp-scaling",
}  # fmt: skip


def simulated(n: int, k: int) -> Rows:
    """Logits that need a temperature of 1.7 and a different slope for each class."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(n, k))
    z[np.arange(n), rng.integers(k, size=n)] += 5
    labels = (z * np.linspace(0.5, 0.7, k) + rng.gumbel(size=(n, k))).argmax(axis=1)
    reduced = reduce_logits(z)
    return Rows(reduced.log_odds, reduced.predictions == labels, None, reduced.predictions, labels, None, z)


def best(run: Callable[[], object], repeat: int) -> float:
    """Seconds of the quickest run; one that takes half a minute is not repeated."""
    found = np.inf
    for _ in range(repeat):
        start = time.process_time()
        run()
        found = min(found, time.process_time() - start)
        if found > 30:
            break
    return float(found)


def extra_memory(run: Callable[[], np.ndarray]) -> float:
    """The peak of the memory that a call allocates, less its result, in MB."""
    tracemalloc.start()
    result = run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - result.nbytes) / 1e6


def probmetrics_fit(name: str | None, rows: Rows, repeat: int) -> float | None:
    if name is None or importlib.util.find_spec("probmetrics") is None:
        return None
    from probmetrics import calibrators

    probs = np.exp(log_softmax(rows.logits))
    probs /= probs.sum(axis=1, keepdims=True)

    def run() -> None:
        make = getattr(calibrators, name, None)
        (make() if make else calibrators.get_calibrator(name)).fit(probs, rows.labels)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return best(run, repeat)


def side_by_side(ours: Callable[[], object], base: Callable[[], object], repeat: int) -> tuple[float, float]:
    """The best seconds of both, run in turn, so that a change of load meets both."""
    pairs = [(best(ours, 1), best(base, 1)) for _ in range(3 * repeat)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)


def row_temperature(rows: Rows, temperature: Callable[[], object], repeat: int) -> None:
    """The line of the row temperature, with the confidences of `bpm-averaged` for all rows."""
    g, miss = fit_calibrator("bpm-averaged", rows).calibrator(rows.log_odds)
    ours, base = side_by_side(partial(at_row_temperature, rows.logits, rows.predictions, g, miss), temperature, repeat)
    print(
        f"| {rows.n} | {rows.logits.shape[1]} | row temperature | | | {ours:.4f} | {ours / base:.1f} | | |", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=5000)
    parser.add_argument("-k", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=list(OURS))
    options = parser.parse_args()
    print("| rows | classes | method | fit, s | probmetrics, s | apply, s | / temperature | extra MB | at 4 x rows |")
    print("|--:|--:|---|--:|--:|--:|--:|--:|--:|")
    for k in options.k:
        rows, more = simulated(options.n, k), simulated(4 * options.n, k).logits
        temperature = fit_calibrator("temperature", rows).calibrator
        for name in options.methods:
            if k > 100 and name in ("matrix", "dirichlet", "structured-matrix"):
                continue  # K² parameters; the figure for K = 100 says enough
            seconds = best(partial(fit_calibrator, name, rows), options.repeat)
            theirs = probmetrics_fit(OURS.get(name), rows, options.repeat) if k <= 100 else None
            apply = fit_calibrator(name, rows).calibrator.log_probabilities
            ours, base = side_by_side(
                partial(apply, rows.logits), partial(temperature.log_probabilities, rows.logits), options.repeat
            )
            memory = [extra_memory(partial(apply, z)) for z in (rows.logits, more)]
            shown = "" if theirs is None else f"{theirs:.3f}"
            print(
                f"| {options.n} | {k} | {name} | {seconds:.3f} | {shown} | {ours:.4f} | {ours / base:.1f} "
                f"| {memory[0]:.1f} | {memory[1]:.1f} |",
                flush=True,
            )
        row_temperature(rows, partial(temperature.log_probabilities, rows.logits), options.repeat)


if __name__ == "__main__":
    main()
