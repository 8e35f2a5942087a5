"""Faults of the machine: killed processes, files cut off while being read, two batches at once, a full disk, no descriptors.

`python -m fuzz.faults killed` runs one of them and prints what was found; it exits with 1 if that is anything. Commands
run in children that are forked from one process, which has imported the tool: fifty of them take a few seconds.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import forked
from fuzz.case import Step
from fuzz.documents import rows_file
from fuzz.format_arrow import arrow, parquet
from fuzz.format_numpy import npz
from fuzz.format_text import json_lines, separated
from fuzz.running import snapshot
from fuzz.tables import Table, numpy_rng

FAULTS: dict[str, Callable[[], Iterator[str]]] = {}


def fault(function: Callable[[], Iterator[str]]) -> Callable[[], Iterator[str]]:
    FAULTS[function.__name__.replace("_", "-")] = function
    return function


def start(argv: list[str], folder: Path, limits: dict[int, int] | None = None, out: str = "out.txt") -> int:
    """A command in a child process; its streams go to files. Returns the process id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        os.chdir(folder)
        tempfile.tempdir = str(folder)
        for i, name in ((0, "/dev/null"), (1, out), (2, "err.txt")):
            opened = os.open(name, os.O_RDONLY if i == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(opened, i)
            os.close(opened)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        for which, most in (limits or {}).items():
            resource.setrlimit(which, (most, resource.getrlimit(which)[1]))
        from bpmcli.cli import main

        code = main(argv)
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(code)
    finally:
        os._exit(99)


def finish(child: int, seconds: float = 60) -> int:
    """Its exit code, negative for a signal; a child that does not end is killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -999


def run(argv: list[str], folder: Path, limits: dict[int, int] | None = None, out: str = "out.txt") -> int:
    return finish(start(argv, folder, limits, out))


def leftovers(folder: Path) -> list[str]:
    return [
        name
        for name in snapshot(folder)
        if name.endswith(".part") or ("bpmcli-" in name and not name.endswith((".json", ".jsonl")))
    ]


def parameters(folder: Path) -> None:
    (folder / "fit.parquet").write_bytes(rows_file())
    (folder / "p.json").write_bytes(fitted())


@cache
def fitted() -> bytes:
    from fuzz.running import run_step

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fit.parquet").write_bytes(rows_file())
        assert run_step(Step(["fit", "fit.parquet", "--method", "platt", "-o", "p.json", "-q"]), folder).code == 0
        return (folder / "p.json").read_bytes()


def many_rows(n: int) -> Table:
    """Rows with confidences, text and numbers; nothing else."""
    import numpy as np

    draw = numpy_rng(Random(5))
    c = draw.beta(2, 0.5, n)
    note = np.array(["plain", "other"], dtype=object)[draw.integers(0, 2, n)]
    return Table(n, {"confidence": c}, {"hit": (draw.random(n) < c).astype(int), "row": np.arange(n), "note": note})


MOMENTS = int(os.environ.get("FUZZ_MOMENTS", "50"))


@fault
def killed_batches() -> Iterator[str]:
    """A batch killed at many moments continues where it stopped; outputs are complete, and nothing is left behind."""
    rng = Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters(folder)
        runs = folder / "runs"
        runs.mkdir()
        for i in range(6):
            (runs / f"{i}.parquet").write_bytes(rows_file(i))
        batch = ["apply", "p.json", "runs", "--output-dir", "out"]
        began = time.monotonic()
        if run(batch, folder) != 0:
            yield (folder / "err.txt").read_text()
            return
        whole, seconds = snapshot(folder / "out"), time.monotonic() - began
        outputs = {k: v for k, v in whole.items() if k.endswith(".parquet")}
        saved = 0
        for moment in range(10 * MOMENTS):
            if moment >= MOMENTS:  # the machine has become slower: all kills came too early
                if saved:
                    break
                seconds *= 1.5
            shutil.rmtree(folder / "out")
            child = start(batch, folder)
            time.sleep(seconds * rng.random())
            os.kill(child, rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
            finish(child)
            halfway = snapshot(folder / "out") if (folder / "out").exists() else {}
            for path, content in halfway.items():
                if path in outputs and content != outputs[path]:
                    yield f"moment {moment}: {path} is not whole"
            done = sum(path in outputs for path in halfway)
            if (code := run(batch, folder)) != 0:
                yield f"moment {moment}: exit {code} afterwards: {(folder / 'err.txt').read_text()}"
            now = snapshot(folder / "out")
            if {k: v for k, v in now.items() if k in outputs} != outputs:
                yield f"moment {moment}: outputs differ from those of a run that was not killed"
            if left := leftovers(folder):
                yield f"moment {moment}: left behind: {left}"
            text = (folder / "err.txt").read_text()
            redone = text.count(" -> out")
            saved += done
            if redone > len(outputs) - done + 1:  # the one that was being recorded may be made again
                yield f"moment {moment}: {done} outputs were there, {redone} of {len(outputs)} were made again"
        if not saved:
            yield "no kill came between two files: the test shows nothing"


@fault
def cut_while_read() -> Iterator[str]:
    """A file that loses its end while it is being read is an error or a result, never the death of the process."""
    rng = Random(1)
    formats = [
        lambda t: npz(rng, t, True),
        lambda t: parquet(Random(3), t, True),
        lambda t: arrow(Random(1), t, True),
        lambda t: separated(Random(2), t, True),
        lambda t: json_lines(Random(2), t, True),
    ]
    table = many_rows(4_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters(folder)
        for make in formats:
            suffix, content = make(table)
            path = folder / f"a{suffix}"
            for argv in (["metrics", path.name, "-m", "ece"], ["apply", "p.json", path.name, "-o", "o.csv"]):
                path.write_bytes(content)
                began = time.monotonic()
                if (code := run(argv, folder)) != 0:
                    yield f"{argv}: exit {code} on the whole file"
                seconds = time.monotonic() - began
                (folder / "o.csv").unlink(missing_ok=True)
                for _ in range(3):
                    path.write_bytes(content)
                    child = start(argv, folder)
                    time.sleep(seconds * rng.random() * 0.8)
                    os.truncate(path, rng.choice([0, 100, len(content) // 2, len(content) - 5]))
                    code = finish(child)
                    if code not in (0, 3):
                        yield f"{' '.join(argv)}: exit {code}: {(folder / 'err.txt').read_text()[-300:]}"
                    if code and (folder / "o.csv").exists():
                        yield f"{' '.join(argv)}: half an output"
                    (folder / "o.csv").unlink(missing_ok=True)
                    if left := leftovers(folder):
                        yield f"{' '.join(argv)}: left behind: {left}"


@fault
def two_writers() -> Iterator[str]:
    """Two batches into one folder at the same time: every output is recorded, and the next run has nothing to do."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters(folder)
        for group in "ab":
            (folder / group).mkdir()
            for i in range(6):
                (folder / group / f"{group}{i}.parquet").write_bytes(rows_file(i))
        for turn in range(5):
            shutil.rmtree(folder / "out", ignore_errors=True)
            targets = [["a"], ["b"]] if turn < 3 else [["a", "b"], ["a", "b"]]
            children = [start(["apply", "p.json", *t, "--output-dir", "out"], folder) for t in targets]
            if codes := [c for c in map(finish, children) if c != 0]:
                yield f"turn {turn}: exit codes {codes}: {(folder / 'err.txt').read_text()[-300:]}"
            found = [p for p in snapshot(folder / "out") if p.endswith(".parquet")]
            if len(found) != 12:
                yield f"turn {turn}: {len(found)} outputs of 12"
            run(["apply", "p.json", "a", "b", "--output-dir", "out"], folder)
            text = (folder / "err.txt").read_text()
            if " -> " in text or "up to date" not in text:
                yield f"turn {turn}: outputs are made again: {text[:300]}"
            if left := leftovers(folder):
                yield f"turn {turn}: left behind: {left}"


SUFFIXES = [".npz", ".parquet", ".arrow", ".csv", ".csv.gz", ".jsonl"]


@fault
def full_disk() -> Iterator[str]:
    """No room for the output: exit 3 with a sentence, what was there before stays, and no half file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters(folder)
        (folder / "a.parquet").write_bytes(parquet(Random(6), many_rows(4_000), True)[1])
        commands = [["apply", "p.json", "a.parquet", "-o", f"o{suffix}"] for suffix in SUFFIXES]
        commands += [
            ["apply", "p.json", "a.parquet", "-o", f"file://{folder}/u{suffix}"] for suffix in (".csv", ".npz")
        ]
        commands += [
            ["simulate", "D1", "-n", "6000", "-o", "s.csv"],
            ["simulate", "D1", "-n", "6000", "-o", "s.parquet"],
        ]
        commands += [
            ["summarize", "a.parquet", "-o", "cells.parquet"],
            ["apply", "p.json", "a.parquet", "--output-dir", "d"],
        ]
        for argv in commands:
            before = snapshot(folder)
            for room in (0, 20_000):
                code = run(argv, folder, {resource.RLIMIT_FSIZE: room})
                after = snapshot(folder)
                fresh = {k for k in after if k not in before} - {"out.txt", "err.txt"}
                if code != 3:
                    yield f"{' '.join(argv)} with room for {room}: exit {code}: {(folder / 'err.txt').read_text()[-200:]}"
                if fresh:
                    yield f"{' '.join(argv)} with room for {room}: left behind: {fresh}"
        for argv in (["metrics", "a.parquet"], ["simulate", "D1", "-n", "500"], ["metrics", "a.parquet", "-f", "json"]):
            if (code := run(argv, folder, out="/dev/full")) != 3:
                yield f"{' '.join(argv)} > /dev/full: exit {code}"
        for argv in (["apply", "p.json", "a.parquet", "-o", "/dev/full"], ["fit", "fit.parquet", "-o", "/dev/full"]):
            if (code := run(argv, folder)) not in (2, 3):
                yield f"{' '.join(argv)}: exit {code}"


@fault
def no_descriptors() -> Iterator[str]:
    """Few file descriptors: an answer or a sentence, also with hundreds of columns."""
    import numpy as np

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters(folder)
        table = many_rows(50)
        table.others |= {f"x{i}": np.arange(50) for i in range(300)}
        (folder / "wide.npz").write_bytes(npz(Random(0), table, True)[1])
        commands = [
            ["apply", "p.json", "wide.npz", "-o", "o.npz"],
            ["apply", "p.json", "wide.npz", "-o", "o.parquet"],
            ["metrics", "wide.npz", "-m", "ece"],
            ["apply", "p.json", "fit.parquet", "--output-dir", "d"],
        ]
        for argv in commands:
            for most in (*range(5, 16, 1 if MOMENTS >= 50 else 3), 20, 64):
                code = run(argv, folder, {resource.RLIMIT_NOFILE: most})
                text = (folder / "err.txt").read_text()
                if code not in (0, 3) or "Traceback" in text or ".py" in text:
                    yield f"{' '.join(argv)} with {most} descriptors: exit {code}: {text[-200:]}"
                if "many open files" in text and "ulimit" not in text:
                    yield f"{' '.join(argv)} with {most} descriptors: no hint helps: {text[-200:]}"
                if code != 0 and most == 64:
                    yield f"{' '.join(argv)}: 64 descriptors are not enough: {text[-200:]}"
                if left := leftovers(folder):
                    yield f"{' '.join(argv)} with {most} descriptors: left behind: {left}"


def main() -> int:
    """Runs the faults named on the command line, or all of them."""
    from fuzz.running import run_step

    from bpmcli.core.compare import before_after
    from bpmcli.tasks import apply

    before_after.MOST_VALUES = apply.JUDGED_ROWS = 0  # hundreds of verdicts would take most of the time

    with tempfile.TemporaryDirectory() as name:  # imports what the children need
        folder = Path(name)
        parameters(folder)
        run_step(Step(["apply", "p.json", "fit.parquet", "-q", "-o", "o.npz"]), folder)
        run_step(Step(["metrics", "fit.parquet", "-q", "-m", "ece"]), folder)
    forked.prepare()
    found = [(name, text) for name in sys.argv[1:] or FAULTS for text in FAULTS[name]()]
    for name, text in found:
        print(f"{name}: {text}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
