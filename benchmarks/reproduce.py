"""Makes the paper's simulated tables and figures again, in one folder.

    python benchmarks/reproduce.py OUTDIR [--jobs N] [--runs N]

Every table is one bpmcli command, which is listed in commands.txt; the same seed gives the same bytes. An
interrupted run continues where it stopped. paper.md shows the paper's figures beside ours, and docs/PAPER.md
explains the differences.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import shutil
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from bpmcli.cli import main as bpmcli
from bpmcli.io.writers import write_text

ROOT = Path(__file__).resolve().parent.parent
PAPERS = "D1,D2,D3,D4,D5"
NOTEBOOK = "logit-logit:-0.88,0.49@1.1233,0.1147"
"""The D1 curve under the distribution that the authors' published code draws from."""

PAPER_EAD = {
    # Paper, appendix, table of the EAD: histogram binning's mean and bpm, mean (sd) of 100 runs at N = 10,000.
    "D1": (0.0233, 0.0047, 0.0099, 0.0062),
    "D2": (0.1710, 0.0200, 0.0368, 0.0196),
    "D3": (0.0299, 0.0037, 0.0161, 0.0063),
    "D4": (0.0168, 0.0042, 0.0105, 0.0048),
    "D5": (0.0181, 0.0030, 0.0067, 0.0029),
}

SIZES = "-n 500:5000:500"
HISTOGRAMS = " ".join(f"--method hb-{bins}" for bins in ("mean", 10, 15, 25, 50))
STUDIES = {
    # name: what is compared, and whether it is drawn
    "ead": (f"curves --truth {PAPERS} --truth {NOTEBOOK} -n 10000", True),
    "ead_authors": (f"curves --truth {PAPERS} --truth {NOTEBOOK} -n 10000 --variant authors --method hb-mean", False),
    "metrics": (f"metrics --truth {PAPERS} {SIZES}", True),
    "metrics_notebook": (f"metrics --truth {NOTEBOOK} {SIZES}", True),
    "metrics_empirical": (f"metrics --truth {PAPERS} {SIZES} -m tce-bpm --density empirical", False),
    "samples": (f"samples --truth {PAPERS} --error 0.02 -n 125:32000:x2 {HISTOGRAMS}", True),
}
REAL = {
    # Figure 1 (a), and a reliability diagram, of a real file.
    "real_curve": "fit DATA --method bpm -q -f markdown -o {folder}real_curve.json --plot {folder}real_curve.png",
    "real_reliability": "metrics DATA -q -f markdown --plot {folder}real_reliability.png",
}


def run(argv: list[str], target: Path) -> None:
    """One command; what it prints goes into the file."""
    text = StringIO()
    with redirect_stdout(text):
        code = bpmcli(argv)
    if code:
        sys.exit(code)
    write_text(str(target), text.getvalue())


def beside_the_paper(folder: Path) -> str:
    """The EAD of the paper, of our fit, and of the published code's rules, as one table."""

    def column(name: str) -> dict[tuple[str, str], str]:
        with open(folder / f"{name}.csv", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        return {(r["truth"], r["method"]): f"{float(r['ead']):.4f} ({float(r['ead_sd']):.4f})" for r in rows}

    ours, authors = column("ead"), column("ead_authors")
    lines = [
        "| truth | method | paper | bpmcli | bpmcli --variant authors |",
        "|---|---|--:|--:|--:|",
    ]
    for truth in [*PAPER_EAD, NOTEBOOK]:
        printed = PAPER_EAD["D1" if truth == NOTEBOOK else truth]
        for method, (mean, sd) in {"hb-mean": printed[:2], "bpm": printed[2:]}.items():
            paper = f"{mean:.4f} ({sd:.4f})"
            lines.append(f"| {truth} | {method} | {paper} | {ours[truth, method]} | {authors[truth, method]} |")
    return "EAD at N = 10,000: mean (standard deviation) over the runs\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    """All studies, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0 = one per core")
    parser.add_argument("--runs", type=int, default=100, help="data sets per truth and size")
    parser.add_argument("--data", type=Path, default=ROOT / "sample_data" / "digits_test.npz", help="a real file")
    args = parser.parse_args()
    folder: Path = args.folder
    commands = []
    for name, (study, drawn) in STUDIES.items():
        started = time.monotonic()
        line = f"compare {study} --runs {args.runs} -f markdown -o {{folder}}{name}.csv"
        line += f" --plot {{folder}}{name}.png" if drawn else ""
        commands.append(f"bpmcli {line.format(folder='')} > {name}.md")
        # Jobs and resume files change nothing in what is written.
        extra = ["-j", str(args.jobs), "--resume", f"{folder}/.draws/{name}.jsonl"]
        run([*shlex.split(line.format(folder=f"{folder}/")), *extra], folder / f"{name}.md")
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    for name, line in REAL.items():
        line = line.replace("DATA", shlex.quote(str(args.data)))
        commands.append(f"bpmcli {line.format(folder='')} > {name}.md")
        run(shlex.split(line.format(folder=f"{folder}/")), folder / f"{name}.md")
    write_text(str(folder / "commands.txt"), "\n".join(commands) + "\n")
    write_text(str(folder / "paper.md"), beside_the_paper(folder))
    # Complete: the next run starts afresh.
    shutil.rmtree(folder / ".draws")
    print(f"written to {folder}", file=sys.stderr)


if __name__ == "__main__":
    main()
