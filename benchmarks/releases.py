"""Reading and applying, this version beside another one: seconds of processor time, in alternating runs.

    python benchmarks/releases.py CHECKOUT_OF_THE_OTHER [--rows 1000000] [--repeat 7] [--formats npz,csv] [--tasks read]

Every run is a process of its own that has done the same with a few rows before, so start-up does not count. The table
has the fastest of all runs of each version and the ratio of the two. Processor time depends less on what else the
machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

WORKER = """
import json, os, sys, time
reply = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
import numpy, pyarrow, pyarrow.csv, pyarrow.json, pyarrow.parquet, pyarrow.feather, pyarrow.compute, scipy.optimize
from bpmcli.cli import main
from bpmcli.io.readers import read_rows
try:
    from bpmcli.cli import guard
    from bpmcli.io import memory  # as in a process of its own
    memory.own_process = True
    guard.answer_is_ready = lambda: None  # which waits the second time, because a process gives one answer
except ImportError:
    pass
for line in sys.stdin:
    if not (child := os.fork()):
        for task, *arguments in json.loads(line):
            start = time.process_time()
            code = read_rows(*arguments) and 0 if task == "read" else main([task, *arguments])
            assert code == 0
        print(json.dumps(time.process_time() - start), file=reply, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
"""Every run is a child of its own: memory that an earlier run has left to the allocator would make it look faster."""


QUIET: dict[str, list[str]] = {"read": [], "apply": ["-q"]}


class Version:
    """A process that runs the code of one checkout."""

    def __init__(self, checkout: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], cwd=checkout, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *requests: list[str]) -> float:
        """Seconds of processor time that the last of the requests took."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(requests) + "\n")
        self.process.stdin.flush()
        return float(json.loads(self.process.stdout.readline()))


def columns(n: int) -> dict[str, Any]:
    """Confidences and hits, a number, a whole number and a text."""
    rng = np.random.default_rng(0)
    s = rng.beta(1.5, 0.5, n)
    site = np.array(["north", "south", "east", "west"])[rng.integers(0, 4, n)]
    hits = (rng.random(n) < s).astype(np.int64)
    return {"confidence": s, "hit": hits, "x": rng.normal(size=n), "row": np.arange(n), "site": site}


def write_inputs(folder: Path, n: int) -> dict[str, str]:
    """The same rows in every format, and logits of ten classes as npz."""
    import pandas as pd
    import pyarrow.feather

    table = columns(n)
    frame = pd.DataFrame(table)
    paths = {name: str(folder / f"a.{name}") for name in ("npz", "parquet", "arrow", "csv", "jsonl")}
    np.savez(paths["npz"], **table)
    frame.to_parquet(paths["parquet"], index=False)
    pyarrow.feather.write_feather(frame, paths["arrow"], compression="uncompressed")
    frame.to_csv(paths["csv"], index=False)
    frame.to_json(paths["jsonl"], orient="records", lines=True)
    rng = np.random.default_rng(1)
    paths["logits"] = str(folder / "logits.npz")
    np.savez(paths["logits"], logits=rng.normal(size=(n // 4, 10)) * 2, label=rng.integers(0, 10, n // 4))
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--formats", default="npz,parquet,arrow,csv,jsonl,logits")
    parser.add_argument("--tasks", default="read,apply")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "few").mkdir()
        few, paths = write_inputs(folder / "few", 200), write_inputs(folder, options.rows)
        versions = [Version(options.other.resolve()), Version(Path(__file__).resolve().parent.parent)]
        parameters = [str(folder / f"p{i}.json") for i in range(2)]
        for version, path in zip(versions, parameters, strict=True):
            version.run(["fit", few["npz"], "--method", "platt", "-q", "-o", path])
        print("| task | format | before, ms | now, ms | ratio |\n|---|---|---|---|---|")
        for task in options.tasks.split(","):
            for format_ in options.formats.split(","):
                out = str(folder / ("o" + os.path.splitext(paths[format_])[1]))
                best = [np.inf, np.inf]
                for _ in range(options.repeat):
                    for i, version in enumerate(versions):
                        first, last = (["read"], []) if task == "read" else (["apply", parameters[i]], ["-o", out])
                        requests = ([*first, each[format_], *last, *QUIET[task]] for each in (few, paths))
                        best[i] = min(best[i], version.run(*requests))
                        Path(out).unlink(missing_ok=True)
                before, now = (seconds * 1e3 for seconds in best)
                print(f"| {task} | {format_} | {before:.0f} | {now:.0f} | {now / before:.2f} |", flush=True)
        for version in versions:
            version.process.kill()


if __name__ == "__main__":
    main()
