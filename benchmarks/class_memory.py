"""Most memory of `bpmcli fit` and `bpmcli apply` with 1000 classes, method by method, each in a process of its own.

    OMP_NUM_THREADS=1 python benchmarks/class_memory.py [METHOD ...]

Fits to 2000 simulated rows (seed 0), then applies the calibrator to 2000 and to 8000 rows. Prints the peak of the
resident memory in MB and processor seconds; `-` after five minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CLASSES, ROWS, LIMIT = 1000, (2000, 8000), 300
METHODS = ("temperature", "ets", "structured-vector", "vector", "averaged-matrix")
CODE = """
import sys
from bpmcli.cli import main
code = main(sys.argv[1:])
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
sys.stderr.write(f"peak {peak}\\n")
sys.exit(code)
"""


def simulated(path: Path, n: int) -> None:
    """Logits whose classes need different slopes."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(n, CLASSES))
    z[np.arange(n), rng.integers(CLASSES, size=n)] += 7
    labels = (z * np.linspace(0.5, 0.7, CLASSES) + rng.gumbel(size=z.shape)).argmax(axis=1)
    np.savez(path, logits=z, labels=labels)


def peak(*argv: object) -> str:
    """Peak memory and processor time of a command."""
    before = os.times()
    try:
        ran = subprocess.run(
            [sys.executable, "-c", CODE, *map(str, argv)], capture_output=True, text=True, timeout=LIMIT, check=True
        )
    except subprocess.TimeoutExpired:
        return "-"
    found = next(line for line in reversed(ran.stderr.splitlines()) if line.startswith("peak"))
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return f"{int(found.split()[1]) / 1024:.0f} MB, {seconds:.1f} s"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n in ROWS:
            simulated(folder / f"{n}.npz", n)
        print("| method | fit to 2000 rows | apply to 2000 rows | apply to 8000 rows |\n|---|--:|--:|--:|")
        for method in sys.argv[1:] or METHODS:
            params = folder / f"{method}.json"
            found = [peak("fit", folder / f"{ROWS[0]}.npz", "--method", method, "-o", params, "-q")]
            if params.exists():
                found += [peak("apply", params, folder / f"{n}.npz", "-o", folder / "o.npz", "-q") for n in ROWS]
            print(f"| {method} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
