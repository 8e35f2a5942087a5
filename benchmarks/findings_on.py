"""Do the tests of the findings fail on another version? A table with one line per finding.

    git worktree add ../release 9024d0d && python benchmarks/findings_on.py ../release [TEST…]

9024d0d is the last commit of release 0.1.0, in which the findings A1 to A17 and B1 to B12 were made. A copy of the
checkout gets the tests of this version, and the tests in tests/fuzz/findings are run there and here. The name of a test
begins with the number of its finding. A finding is shown if at least one of its tests fails there and none fails here.
The last column is the reason of the first failure there. The exit code is 1 if a finding is not shown.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FINDINGS = [f"a{i:02d}" for i in range(1, 18)] + [f"b{i:02d}" for i in range(1, 13)]


class Outcome(NamedTuple):
    """How one test ended."""

    failed: bool
    reason: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("tests", nargs="*", default=["tests/fuzz/findings"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "checkout"
        shutil.copytree(options.checkout, folder, ignore=shutil.ignore_patterns(".git", ".venv", "tests"))
        shutil.copytree(ROOT / "tests", folder / "tests")
        there = outcomes(folder, options.tests)
    here = outcomes(ROOT, options.tests)
    shown = 0
    print("| finding | tests | fail there | fail here | shown | first failure there |\n|---|--:|--:|--:|---|---|")
    for number in FINDINGS:
        reasons = [one.reason for one in there[number] if one.failed]
        fail_here = sum(one.failed for one in here[number])
        is_shown = bool(reasons) and not fail_here
        shown += is_shown
        reason = reasons[0][:100].replace("|", "/") if reasons else ""
        print(
            f"| {number[0].upper()}{int(number[1:])} | {len(here[number])} | {len(reasons)} | {fail_here} "
            f"| {'yes' if is_shown else 'no'} | {reason} |"
        )
    print(f"\n{shown} of {len(FINDINGS)} findings are shown")
    return int(shown < len(FINDINGS))


def outcomes(checkout: Path, tests: list[str]) -> dict[str, list[Outcome]]:
    """The outcomes of the tests of each finding in one checkout."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-rA", "--tb=no"]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "COLUMNS": "300"}  # pytest cuts reasons at the width
    ran = subprocess.run(  # failing tests are expected
        [*command, *tests], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    found: dict[str, list[Outcome]] = defaultdict(list)
    line = r"^(PASSED|FAILED|ERROR) \S*::test_(\S+)(?: - (.*))?"
    for word, test, reason in re.findall(line, ran.stdout, flags=re.MULTILINE):
        for number in re.findall(r"(?:^|_)([ab]\d\d)(?=_)", test):
            found[number].append(Outcome(word != "PASSED", reason))
    if not found:
        sys.exit(f"no test ran in {checkout}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return found


if __name__ == "__main__":
    sys.exit(main())
