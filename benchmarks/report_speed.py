"""How long `bpmcli report` takes for many models, and how large its page is.

    python benchmarks/report_speed.py [--models 50] [--rows 10000] [--jobs 2] [--keep report.html]

Models are logits of ten classes at temperatures from 0.5 to 3: some are over-confident, some under-confident.
Prints wall-clock time, CPU time of all processes and the size of the page. On a busy machine, CPU time divided by
the number of cores says more than wall-clock time.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def write_models(folder: Path, models: int, rows: int) -> None:
    """One npz file of logits and labels for each model."""
    for i, temperature in enumerate(np.geomspace(0.5, 3.0, models)):
        rng = np.random.default_rng([7, i])
        z = rng.gumbel(size=(rows, 10)) * 2.0
        labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)  # classes are drawn from softmax(z)
        np.savez(folder / f"model-{i:02d}.npz", logits=(z * temperature).astype(np.float32), labels=labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="copy the page to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_models(folder, options.models, options.rows)
        page = folder / "report.html"
        command = [
            sys.executable,
            "-m",
            "bpmcli",
            "report",
            str(folder),
            "-o",
            str(page),
            "-j",
            str(options.jobs),
            "-q",
        ]
        start = time.perf_counter()
        subprocess.run([*command, "-q"], check=True, env=dict(os.environ))
        wall = time.perf_counter() - start
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"{options.models} models of {options.rows} rows, {options.jobs} processes: {wall:.1f} s, "
            f"CPU {used.ru_utime + used.ru_stime:.1f} s, page {page.stat().st_size / 1e6:.2f} MB"
        )
        if options.keep:
            shutil.copy(page, options.keep)


if __name__ == "__main__":
    main()
