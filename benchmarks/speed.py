"""Ratios of times, measured side by side in one run.

    python benchmarks/speed.py [--authors CHECKOUT]

`--authors` names a checkout of the published code (NeuroDong/TCEbpm), which is then timed on the
same 10,000 rows; it needs mpmath and matplotlib.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.curves.bpm import fit_bpm
from bpmcli.core.data.binning import bins_between, width_edges
from bpmcli.core.data.sample import sample_from_log_odds, sigmoid
from bpmcli.core.metrics import METRICS, MetricOptions, measure
from bpmcli.core.metrics.definitions import tce_of_fit

ROOT = Path(__file__).resolve().parent.parent


def best_of(runs: int, f: Callable[[], object]) -> float:
    """Seconds of the fastest run."""
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        f()
        found.append(time.perf_counter() - start)
    return min(found)


def fit_against_authors(checkout: str | None) -> None:
    drawn = simulate(TRUTHS["D4"], 10_000, np.random.default_rng(0))

    def ours() -> None:
        sample = drawn.sample()
        tce_of_fit(sample, fit_bpm(sample), MetricOptions())

    mine = best_of(20, ours)
    print(f"fit + TCE at N = 10,000: {1e3 * mine:.1f} ms", end="")
    if checkout:
        sys.path.insert(0, checkout)
        from metrics.TCE_BPM import TCE_BPM  # type: ignore[import-not-found]

        order = np.argsort(drawn.log_odds)
        s, h = 1 / (1 + np.exp(-drawn.log_odds[order])), drawn.hits[order]
        theirs = best_of(1, lambda: TCE_BPM(s, h))
        print(f"; the published code {theirs:.1f} s: {theirs / mine:.0f} times as long", end="")
    print()


def metrics_at_a_million() -> None:
    sample = simulate(TRUTHS["D4"], 1_000_000, np.random.default_rng(0)).sample()
    total = 0.0
    for name in METRICS:
        seconds = best_of(3, lambda name=name: measure(sample.with_hits(sample.hits), [name]))
        total += seconds
        print(f"  {name:14s}{1e3 * seconds:8.1f} ms")
    print(f"all metrics at N = 1,000,000: {total:.2f} s")


def equal_width_without_sorting() -> None:
    """CPU time of equal-width ECE at N = 10^6: as it is, on sorted rows, and by numpy.bincount alone."""
    rng = np.random.default_rng(0)
    x = rng.normal(1.5, 2.0, 1_000_000)
    hits = rng.random(x.size) < sigmoid(x)
    options = MetricOptions(binning="width")

    def unsorted() -> float | None:
        return measure(sample_from_log_odds(x, hits), ["ece"], options)["ece"].value

    def sorted_first() -> float | None:
        sample = sample_from_log_odds(x, hits)
        edges, _ = width_edges(sample, options.n_bins)  # sorts
        bins = bins_between(edges[:-1], edges[1:], sample)
        return float(bins.mass @ np.abs(bins.gaps)) / sample.n

    def plain() -> float:
        s = sigmoid(x)
        number = np.minimum((s * options.n_bins).astype(np.int64), options.n_bins - 1)
        return float(np.abs(np.bincount(number, s) - np.bincount(number, hits)).sum()) / x.size

    seconds: dict[str, list[float]] = {}
    for _ in range(15):
        for f in (unsorted, sorted_first, plain):
            start = time.process_time()
            f()
            seconds.setdefault(f.__name__, []).append(time.process_time() - start)
    difference = abs((unsorted() or 0.0) - (sorted_first() or 0.0))
    one, two, three = (float(np.median(found)) for found in seconds.values())
    print(
        f"equal-width ECE at N = 1,000,000: {1e3 * one:.0f} ms of CPU; on sorted rows {two / one:.2f} times as long "
        f"(difference {difference:.0e}); numpy.bincount alone, whose sums depend on the order, {three / one:.2f} times"
    )


def peak_memory() -> None:
    """Peak memory of `metrics` over the size of its input, N = 10^6 and K = 100, each in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "big.npz")
        rng = np.random.default_rng(0)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            from numpy.lib import format as npy

            with archive.open("logits.npy", "w", force_zip64=True) as out:
                header = {"descr": "<f4", "fortran_order": False, "shape": (1_000_000, 100)}
                npy.write_array_header_2_0(out, header)
                for _ in range(100):
                    out.write(rng.normal(0, 3, (10_000, 100)).astype(np.float32).tobytes())
            with archive.open("labels.npy", "w") as out:
                npy.write_array(out, rng.integers(0, 100, 1_000_000))
        # Not getrusage: a child inherits its parent's peak.
        report = "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')][0])"

        def peak(what: str) -> int:
            code = f"from bpmcli.cli import main; {what}; {report}"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
            return int(done.stdout.split()[-1])

        idle, busy = peak("import numpy"), peak(f"main(['metrics', {path!r}, '-q'])")
        size = os.path.getsize(path) // 1024
        print(f"metrics on {size // 1024} MB of logits: peak {busy // 1024} MB, {(busy - idle) // 1024} MB above idle")


def start_up() -> None:
    """CPU time of the everyday command beside that of importing numpy and typer."""

    def cpu(*argv: str) -> float:
        found = []
        for _ in range(21):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, cwd=ROOT)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(found)

    tool = str(Path(sys.executable).with_name("bpmcli"))
    base = cpu(sys.executable, "-c", "import numpy, typer")
    full = cpu(tool, "metrics", "sample_data/digits_test.npz")
    print(
        f"import numpy, typer: {1e3 * base:.0f} ms; metrics digits_test.npz: {1e3 * full:.0f} ms, {full / base:.2f} ×"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--authors", help="a checkout of NeuroDong/TCEbpm")
    options = parser.parse_args()
    print(f"numpy {np.__version__}, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    start_up()
    metrics_at_a_million()
    equal_width_without_sorting()
    peak_memory()
    fit_against_authors(options.authors)


if __name__ == "__main__":
    main()
