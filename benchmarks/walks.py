"""Counts how many files a command walks through, and how often it changes rooms.

    python benchmarks/walks.py                  this checkout
    python benchmarks/walks.py --steps metrics  also every step of one walk
    PYTHONPATH=OTHER python benchmarks/walks.py --package OTHER/bpmcli

A room is a folder directly below the package, such as core or io. `sys.setprofile` reports every
call of a Python function and every time a generator is resumed. Of these, only functions defined in the package and
written with `def` are counted; lambdas, comprehensions and whatever runs while a module is being imported are not,
nor are the methods that every record has (bpmcli/record.py), just as those of dataclasses and named tuples are not.
"Files" is the number of distinct files that define a counted function. "Switches" is the number of times that a counted
call lies in another room than the counted call before it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SAMPLE_DATA = ROOT / "sample_data"
WALKS = {
    "metrics": ["metrics", str(SAMPLE_DATA / "digits_test.npz")],
    "fit": ["fit", str(SAMPLE_DATA / "digits_val.npz"), "-o", "params.json"],
    "apply": ["apply", "params.json", str(SAMPLE_DATA / "digits_test.npz"), "-o", "out.npz"],
}


def walk(arguments: list[str], package: Path) -> list[tuple[str, str]]:
    """Every counted call of a command as (file below the package, function)."""
    from bpmcli.cli import main

    calls: list[tuple[str, str]] = []
    importing = 0
    prefix = str(package) + os.sep
    records = prefix + "record.py"

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal importing
        name = frame.f_code.co_name
        if name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing and not name.startswith("<"):
            path = frame.f_code.co_filename
            if path.startswith(prefix) and path != records:
                calls.append((path[len(prefix) :], name))

    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        sys.setprofile(count)
        try:
            code = main(arguments)
        finally:
            sys.setprofile(None)
    if code:
        raise SystemExit(f"bpmcli {' '.join(arguments)} ended with exit code {code}:\n{quiet.getvalue()}")
    return calls


def room(path: str) -> str:
    return path.split(os.sep, maxsplit=1)[0]


def switches(calls: list[tuple[str, str]]) -> int:
    """How often a call lies in another room than the call before it."""
    return sum(room(a[0]) != room(b[0]) for a, b in itertools.pairwise(calls))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, default=ROOT / "bpmcli", help="the package that is counted")
    parser.add_argument("--steps", choices=list(WALKS), help="also print every step of this walk")
    chosen = parser.parse_args()
    sys.path.insert(0, str(chosen.package.parent))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, arguments in WALKS.items():
            calls = walk(arguments, chosen.package.resolve())
            steps = [call for call, before in zip(calls, [None, *calls], strict=False) if call != before]
            print(f"{name:8} {len({path for path, _ in calls}):3} files {switches(calls):3} switches")
            if name == chosen.steps:
                files = [path for path, _ in steps]
                for (path, function), before in zip(steps, [None, *files], strict=False):
                    if path != before:
                        print(f"    {path:40} {function}")
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
