"""Do the tests of the findings fail on another version? One line per finding.

    python benchmarks/findings_on.py CHECKOUT [TEST…]

A copy of the checkout gets the tests of this version, and those in tests/fuzz/findings are run there and here. The name
of a test begins with the number of its finding. A finding is shown if at least one of its tests fails there and none
here. The exit code is 1 if a finding is not shown.
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

ROOT = Path(__file__).resolve().parent.parent
FINDINGS = [f"a{i:02d}" for i in range(1, 18)] + [f"b{i:02d}" for i in range(1, 13)]


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
    for number in FINDINGS:
        failed = [sum(outcome != "PASSED" for outcome in each[number]) for each in (there, here)]
        shown += bool(failed[0] and not failed[1])
        count = len(here[number])
        print(f"{number.upper()}: {failed[0]} of {count} tests fail there, {failed[1]} here")
    print(f"{shown} of {len(FINDINGS)} findings are shown")
    return int(shown < len(FINDINGS))


def outcomes(checkout: Path, tests: list[str]) -> dict[str, list[str]]:
    """The outcomes of the tests of each finding in one checkout."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-rA", "--tb=no"]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    ran = subprocess.run(  # tests that fail are what it is for
        [*command, *tests], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    found: dict[str, list[str]] = defaultdict(list)
    for outcome, test in re.findall(r"^(PASSED|FAILED|ERROR) \S*::test_(\S+)", ran.stdout, flags=re.MULTILINE):
        for number in re.findall(r"(?:^|_)([ab]\d\d)(?=_)", test):
            found[number].append(outcome)
    if not found:
        sys.exit(f"no test ran in {checkout}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return found


if __name__ == "__main__":
    sys.exit(main())
