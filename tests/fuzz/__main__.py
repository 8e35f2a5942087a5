"""Fuzzes every command with hostile input: seeded and replayable, as many cases as time allows.

python -m fuzz                          1000 cases
python -m fuzz --cases 100000 --jobs 2  the long run
python -m fuzz --only applied           one scenario
python -m fuzz --replay 0:123           one case once more, with everything it prints
python -m fuzz --replay 0:123 --keep some-name    and as a file in tests/fuzz/cases, for ever
python -m fuzz --kept                   all cases that were kept
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from fuzz.case import Case, load_case
from fuzz.oracles import Finding
from fuzz.pool import Report, run_case, run_pool
from fuzz.scenarios import SCENARIOS, make_case
from fuzz.shrinking import shrunk

CASES = Path(__file__).parent / "cases"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", choices=list(SCENARIOS))
    parser.add_argument("--replay", metavar="SEED:CASE|FILE")
    parser.add_argument("--keep", metavar="NAME", help="with --replay: shrink the case and save it under this name")
    parser.add_argument("--why", default="", help="with --keep: what was wrong")
    parser.add_argument("--kept", action="store_true", help="run the cases in tests/fuzz/cases")
    parser.add_argument("--log", type=Path, help="findings, one JSON object per line")
    given = parser.parse_args()
    if given.replay:
        return replay(given.replay, given.only, given.keep, given.why)
    if given.kept:
        return run_kept(given.jobs)
    start = time.monotonic()
    reports = []
    indices = list(range(given.first, given.first + given.cases))
    log = given.log.open("w") if given.log else None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for report in run_pool(lambda i: make_case(given.seed, i, given.only), indices, given.jobs):
            reports.append(report)
            for finding in report.findings:
                line = {"case": f"{given.seed}:{report.index}", "scenario": report.category, **finding._asdict()}
                if log:
                    log.write(json.dumps(line) + "\n")
                    log.flush()
            if sys.stderr.isatty() and len(reports) % 50 == 0:
                print(f"\r{len(reports)} of {given.cases}", end="", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted")
    return show(reports, given.seed, time.monotonic() - start)


def show(reports: list[Report], seed: int, seconds: float) -> int:
    """Figures per scenario, then every distinct finding with the first case that shows it."""
    by = defaultdict(list)
    for report in reports:
        by[report.category].append(report)
    print(f"{'scenario':22}{'cases':>8}{'commands':>10}{'findings':>10}{'slowest s':>11}{'peak MB':>9}")
    for name, group in sorted(by.items()):
        found = sum(bool(r.findings) for r in group)
        slowest, peak = max(r.seconds for r in group), max(r.megabytes for r in group)
        print(f"{name:22}{len(group):8}{sum(r.commands for r in group):10}{found:10}{slowest:11.1f}{peak:9.0f}")
    first: dict[str, tuple[int, Finding]] = {}
    often: Counter[str] = Counter()
    for report in sorted(reports):
        for finding in report.findings:
            often[finding.signature] += 1
            first.setdefault(finding.signature, (report.index, finding))
    for signature, count in often.most_common():
        index, finding = first[signature]
        print(f"{count:5} x  {seed}:{index}  {finding.kind}: {' '.join(finding.text.split())[:300]}")
    bad = sum(bool(r.findings) for r in reports)
    print(
        f"{len(reports)} cases, {bad} with findings, {seconds:.0f} s, {len(reports) / max(seconds, 1e-9):.0f} cases/s"
    )
    return 1 if bad else 0


def run_kept(jobs: int) -> int:
    """Every kept case once: those that are open must show a finding, all others none."""
    paths = sorted(CASES.glob("*.json"))
    code = 0
    for report in run_pool(lambda i: load_case(paths[i]), list(range(len(paths))), jobs):
        case = load_case(paths[report.index])
        if report.findings and not case.open:
            code = 1
            for finding in report.findings:
                print(f"{case.name} ({case.why}): {finding.kind}: {finding.text}")
        elif case.open and not report.findings:
            code = 1
            print(f'{case.name} ({case.why}) is mended: write "open": false into tests/fuzz/cases/{case.name}.json')
    print(f"{len(paths)} cases were kept")
    return code


def found_case(text: str, only: str | None = None) -> Case:
    """By seed and number, or from a file."""
    if text.endswith(".json"):
        return load_case(Path(text))
    seed, _, index = text.partition(":")
    return make_case(int(seed), int(index), only)


def replay(text: str, only: str | None, keep: str | None, why: str) -> int:
    """Everything about one case."""
    case = found_case(text, only)
    if keep:
        case = shrunk(case)
        case.why, case.open = why, True
        case.save(CASES / f"{keep}.json")
    os.environ["BPMCLI_DEBUG"] = "1"
    folder = Path(tempfile.mkdtemp(prefix="fuzz-replay-"))
    bad = False
    for ran, findings in run_case(case, folder):
        print("$ bpmcli", " ".join(map(repr, ran.argv)))
        print(ran.out.decode("utf-8", "backslashreplace")[:2000])
        print(ran.err[-3000:], f"exit {ran.code}, {ran.seconds:.2f} s, {ran.megabytes:.0f} MB", sep="\n")
        for finding in findings:
            bad = True
            print(f"FINDING {finding.kind}: {finding.text}")
    print(f"files are in {folder}")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
