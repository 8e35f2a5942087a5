"""Do the tests of the findings fail on another version? One line per finding.

    python benchmarks/findings_on.py CHECKOUT [TEST…]

A copy of the checkout gets the tests of this version, and those in tests/fuzz/findings are run there. The name of
a test begins with the number of its finding. A finding is shown if at least one of its tests fails there and none here.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("tests", nargs="*", default=["tests/fuzz/findings"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "checkout"
        shutil.copytree(options.checkout, folder, ignore=shutil.ignore_patterns(".git", ".venv", "tests"))
        shutil.copytree(ROOT / "tests", folder / "tests")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-rA", "--tb=no"]
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        ran = subprocess.run(  # tests that fail are what it is for
            [*command, *options.tests], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    found: dict[str, list[str]] = defaultdict(list)
    for outcome, test in re.findall(r"^(PASSED|FAILED|ERROR) \S*::test_(\S+)", ran.stdout, flags=re.MULTILINE):
        for number in re.findall(r"(?:^|_)([ab]\d\d)(?=_)", test):
            found[number].append(outcome)
    for number, outcomes in sorted(found.items()):
        failed = sum(outcome != "PASSED" for outcome in outcomes)
        print(f"{number.upper():4} {failed:3} of {len(outcomes):3} tests fail there")


if __name__ == "__main__":
    main()
