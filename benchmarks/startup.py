"""Times a whole small command beside `import numpy, typer`, which it cannot do without.

    python benchmarks/startup.py                       this checkout, 15 runs of each
    python benchmarks/startup.py --runs 41 --base OTHER   also the release in the folder OTHER

Every run is a process of its own, started by the same interpreter with compiled bytecode. The commands take turns, so
that a busy moment of the machine falls on all of them. Ratios are those of medians, and of minima in brackets. Wall
time is meaningful only on an idle machine. CPU time is meaningful on any, but counts the threads that `import numpy`
starts for BLAS and that bpmcli does not start: `--one-thread` switches them off everywhere.

Limits: `-m ece` 1.2 times, with the verdict 1.8 times, the completion of column names 150 ms (wall, idle).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
DATA = str(ROOT / "sample_data" / "digits_test.npz")
BPMCLI = ["-m", "bpmcli"]
COMMANDS = {
    "import numpy, typer": ["-c", "import numpy, typer"],
    "metrics -m ece": [*BPMCLI, "metrics", DATA, "-m", "ece"],
    "metrics (verdict)": [*BPMCLI, "metrics", DATA],
    "columns of a file": ["-m", "bpmcli.column_names", DATA],
    "--version": [*BPMCLI, "--version"],
}


def run(arguments: list[str], package: Path, cache: str, one_thread: bool) -> tuple[float, float]:
    """Wall and CPU time of a command in milliseconds."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(package), "PYTHONPYCACHEPREFIX": cache}
    if one_thread:
        environment["OPENBLAS_NUM_THREADS"] = "1"
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environment, cwd=package, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"python {' '.join(arguments)} ended with exit code {process.returncode}")
    return 1000 * wall, 1000 * (used.ru_utime + used.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--base", type=Path, help="folder of another release, measured as well")
    parser.add_argument("--one-thread", action="store_true", help="no BLAS threads in `import numpy` either")
    chosen = parser.parse_args()
    todo = {name: (arguments, ROOT) for name, arguments in COMMANDS.items()}
    if chosen.base:
        todo |= {f"base: {name}": (COMMANDS[name], chosen.base) for name in ("metrics -m ece", "metrics (verdict)")}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in todo}
    with tempfile.TemporaryDirectory() as cache:
        for turn in range(chosen.runs + 1):
            for name, (arguments, package) in todo.items():
                taken = run(arguments, package, cache, chosen.one_thread)
                if turn:  # the first run compiles
                    times[name].append(taken)
    print(f"{chosen.runs} runs, median [minimum]; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'':26}{'wall ms':>16}{'ratio':>16}{'CPU ms':>18}{'ratio':>16}")
    first = next(iter(times.values()))
    for name, taken in times.items():
        line = f"{name:26}"
        for kind in (0, 1):
            own, reference = [one[kind] for one in taken], [one[kind] for one in first]
            line += f"{median(own):9.1f} [{min(own):5.1f}]"
            line += f"{median(own) / median(reference):8.2f} [{min(own) / min(reference):4.2f}]  "
        print(line.rstrip())


if __name__ == "__main__":
    main()
