"""Records what a fixed set of commands prints and writes, so that two versions can be compared byte for byte.

    python benchmarks/golden.py record before.json            in the old checkout
    python benchmarks/golden.py record after.json             in the new one
    python benchmarks/golden.py compare before.json after.json

Each command runs as its own process in a fresh directory that holds a copy of sample_data. Standard output, standard
error, the exit code and a checksum of every file that the command wrote are recorded.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

OVER, UNDER, GOOD = "digits_overconfident.npz", "digits_underconfident.npz", "digits_good.npz"
VAL, TEST, EVEN = "digits_val.npz", "digits_test.npz", "digits_even.csv"

COMMANDS = f"""
bpmcli
bpmcli --version
bpmcli --help
bpmcli metrics --help
bpmcli fit --help
bpmcli apply --help
bpmcli summarize --help
bpmcli simulate --help
bpmcli compare metrics --help
bpmcli compare calibrators --help
bpmcli compare curves --help
bpmcli compare samples --help
bpmcli metrics --list
bpmcli metrics --list -f json
bpmcli metrics {TEST}
bpmcli metrics {TEST} -f json
bpmcli metrics {TEST} -f csv
bpmcli metrics {TEST} -f markdown
bpmcli metrics {OVER} {UNDER} {GOOD}
bpmcli metrics {OVER} {UNDER} {GOOD} -f csv -j 2
bpmcli metrics {OVER} {GOOD} --pool
bpmcli metrics digits_overconfident.csv digits_overconfident.parquet digits_overconfident.jsonl -m ece,ks
bpmcli metrics {TEST} -m tce --interval 0.95 --resamples 100
bpmcli metrics {TEST} -m all --interval 0.9 --resamples 50 -f json
bpmcli metrics {TEST} --noise-floor --noise-runs 50
bpmcli metrics {TEST} --bins-table
bpmcli metrics {TEST} --bins-table --binning width --n-bins 10 -f csv
bpmcli metrics {TEST} -m ece --binning width --p 2
bpmcli metrics {TEST} --variant authors -m tce-bpm
bpmcli metrics {TEST} --summary
bpmcli metrics {TEST} --explain-input
bpmcli metrics {EVEN} --event
bpmcli metrics {EVEN} --event -f json
bpmcli metrics {TEST} --fail-above ece=0.01
bpmcli metrics {TEST} --fail-above tce=0.5 --gate-confidence 0.95
bpmcli metrics {TEST} --fail-above nope=1
bpmcli metrics {TEST} --max-increase ece=0.01
bpmcli metrics nothing.npz
bpmcli metrics {TEST} nothing.npz
bpmcli metrics {TEST} --logits nope
bpmcli metrics {TEST} -m nope
bpmcli metrics {TEST} --n-bins 0
bpmcli metrics {TEST} --interval 2
bpmcli metrics {TEST} --binning x
bpmcli metrics {TEST} -j -1
bpmcli metrics --nope
cat digits_overconfident.csv | bpmcli metrics - -m ece
bpmcli metrics {TEST} -f json > base.json && bpmcli metrics {VAL} --baseline base.json --max-increase ece=0.001
bpmcli fit {VAL}
bpmcli fit {VAL} -o params.json
bpmcli fit {VAL} -o params.json -f json
bpmcli fit {VAL} -o params.json --method bpm-averaged
bpmcli fit {VAL} -o params.json --method bpm-averaged --interval 0.9
bpmcli fit {VAL} -o params.json --method temperature
bpmcli fit {VAL} -o params.json --method ets
bpmcli fit {VAL} -o params.json --method isotonic
bpmcli fit {VAL} -o params.json --method beta
bpmcli fit {VAL} -o params.json --method platt
bpmcli fit {VAL} -o params.json --method spline
bpmcli fit {VAL} -o params.json --method histogram
bpmcli fit {VAL} -o params.json --prior log-log
bpmcli fit {VAL} -o params.json --optimizer nelder-mead
bpmcli fit {VAL} -o params.json --classwise --min-group 20
bpmcli fit {VAL} -o params.json --marginal --method platt
bpmcli fit {EVEN} --event -o params.json --method bpm-averaged
bpmcli fit {OVER} {UNDER} --output-dir params
bpmcli fit {OVER} {UNDER} --pool -o params.json
bpmcli fit {OVER} {UNDER} -o params.json
bpmcli fit --method list
bpmcli fit --prior list
bpmcli fit {VAL} --method nope
bpmcli fit
bpmcli fit {VAL} -o params.json && bpmcli apply params.json {TEST} -o out.npz
bpmcli fit {VAL} -o params.json && bpmcli apply params.json digits_overconfident.csv | head -n 20
bpmcli fit {VAL} -o params.json && bpmcli apply params.json digits_overconfident.jsonl -o out.parquet
bpmcli fit {VAL} -o params.json --method temperature && bpmcli apply params.json {TEST} -o out.csv
bpmcli fit {VAL} -o params.json && bpmcli apply params.json {OVER} {UNDER} --output-dir out -j 2
bpmcli fit {VAL} -o params.json && bpmcli apply params.json {OVER} {UNDER}
bpmcli fit {EVEN} --event -o params.json && bpmcli apply params.json {EVEN} -o out.csv
bpmcli apply {TEST} {TEST}
bpmcli apply params.json {TEST}
bpmcli simulate D1 -n 2000 -o d1.parquet
bpmcli simulate D3 -n 50
bpmcli simulate D5 -n 100 -o d5.csv -f json
bpmcli simulate --curve beta:0.5,0.6,0.2 --beta 2,0.3 -n 20
bpmcli simulate D9
bpmcli summarize {OVER} {UNDER} -o cells.parquet && bpmcli metrics cells.parquet
bpmcli summarize {OVER} --output-dir cells
bpmcli summarize {OVER}
bpmcli compare metrics {OVER} {GOOD}
bpmcli compare metrics {OVER} {GOOD} -f csv -o tidy.csv
bpmcli compare metrics {OVER} {GOOD} --paired --resamples 50 -m ece,ks
bpmcli compare metrics --truth D1,D3 -n 500 --runs 5 -m ece,tce-bpm
bpmcli compare curves --truth D1 -n 1000 --runs 3
bpmcli compare samples --truth D5 -n 250,500 --runs 4 --method bpm --method hb-15
bpmcli compare calibrators --calibration {VAL} --evaluation {TEST}
bpmcli compare calibrators {TEST} --folds 3 --repeats 1 --method bpm --method temperature -f json
bpmcli compare calibrators {TEST} {VAL} --folds 3 --repeats 1 --method bpm --method platt
bpmcli compare calibrators {TEST} --in-sample --method isotonic --method platt
bpmcli compare calibrators {TEST} --learning-curve 100,200 --method platt --method bpm --repeats 1
bpmcli compare
"""


def run_one(command: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        for path in (ROOT / "sample_data").glob("digits_*"):
            shutil.copy(path, folder)
        given = set(os.listdir(folder))
        shell = f'bpmcli() {{ "{sys.executable}" -m bpmcli "$@"; }}; {command}'
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
        done = subprocess.run(
            ["bash", "-c", shell], check=False, cwd=folder, capture_output=True, text=True, env=environment
        )
        written = {
            str(path.relative_to(folder)): _contents(path)
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file() and str(path.relative_to(folder)) not in given
        }
        return {
            "command": command,
            "code": done.returncode,
            "out": _timeless(done.stdout),
            "err": _timeless(done.stderr),
            "written": written,
        }


def _timeless(text: str) -> str:
    """The text without times and the name of the temporary directory, which differ from run to run."""
    return re.sub(r'"(created|modified|input)": ("/tmp/[^"]*/|"[0-9T:+-]*"|[0-9]+)', r'"\1": "', text)


def _contents(path: Path) -> str:
    if path.suffix in (".json", ".csv"):
        return _timeless(path.read_text())
    return hashlib.sha256(path.read_bytes()).hexdigest()


def record(target: str) -> None:
    commands = [line for line in COMMANDS.splitlines() if line]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(run_one, commands))
    Path(target).write_text(json.dumps(done, indent=1, ensure_ascii=False))
    print(f"{len(done)} commands recorded in {target}")


def compare(before: str, after: str) -> int:
    old, new = ({r["command"]: r for r in json.loads(Path(p).read_text())} for p in (before, after))
    differ = 0
    for command, a in old.items():
        b = new.get(command)
        if a == b:
            continue
        differ += 1
        print(f"=== {command}")
        lines = [json.dumps(r, indent=1, ensure_ascii=False).replace("\\n", "\n").splitlines() for r in (a, b)]
        print("\n".join(list(difflib.unified_diff(*lines, "before", "after", lineterm="", n=1))[:60]))
    print(f"{len(old)} commands, {differ} differ")
    return int(differ > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    if arguments.action == "record":
        record(*arguments.files)
        return 0
    return compare(*arguments.files)


if __name__ == "__main__":
    sys.exit(main())
