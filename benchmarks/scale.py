"""Speed against other packages, growth with the number of rows, accuracy of summaries, many files, all in one run.

    python benchmarks/scale.py [PART…] [--quick] [--data FOLDER] [--folder WORK] [--repeat R] [--authors CHECKOUT]

Parts: peers, parquet, logits, growth, accuracy, files. The best of R runs counts; packages that are not installed
are skipped with a message:
    pip install scikit-learn relplot uncertainty-calibration netcal torchmetrics betacal torch distributed
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scale_peers import SEVEN, fit_peers, metric_peers, reduce_peers

PARTS = ("peers", "parquet", "logits", "growth", "accuracy", "files")


def best(function: Callable[[], Any], repeat: int) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A markdown table."""
    widths = [max(len(str(r[i])) for r in [head, *rows]) for i in range(len(head))]
    print(f"\n## {title}\n")
    for row in [head, ["-" * w for w in widths], *rows]:
        print("| " + " | ".join(str(c).ljust(w) for c, w in zip(row, widths, strict=True)) + " |", flush=True)


def versions() -> str:
    names = "bpmcli numpy scipy pandas pyarrow scikit-learn relplot uncertainty-calibration netcal torchmetrics betacal"
    names += " torch distributed"
    found = []
    for name in names.split():
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} -")
    return f"Python {platform.python_version()}, {os.cpu_count()} cores; " + ", ".join(found)


def draw(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A harder curve: logit g = 0.4 + 0.6 logit s, s ~ Beta(1.5, 0.5)."""
    rng = np.random.default_rng(seed)
    s = rng.beta(1.5, 0.5, n)
    hits = rng.random(n) < 1 / (1 + np.exp(-0.4) * (1 / s - 1) ** 0.6)
    return s, hits


def ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3g}"


def peers(options: argparse.Namespace) -> None:
    """Every metric and fit from unsorted arrays, beside every package that has it."""
    warnings.simplefilter("ignore")
    for n in [10**4, 10**5, 10**6] + ([] if options.quick else [10**7]):
        s, hits = draw(n)
        repeat = max(2, min(options.repeat, 10**8 // n))
        for title, table in (("metrics", metric_peers(s, hits)), ("fits", fit_peers(s, hits, options.authors))):
            rows = []
            for name, (ours, others) in table.items():
                times = dict.fromkeys(["bpmcli", *others], 0.0)
                for again in range(repeat):  # alternating, so that a busy minute hits all alike
                    for package, function in {"bpmcli": ours, **others}.items():
                        # What would take more than ten seconds in all is not waited for again.
                        if not again or times[package] * repeat < 10:
                            took = best(function, 1)
                            times[package] = min(took, times[package] or took)
                mine = times.pop("bpmcli")
                fastest = min(times, key=lambda k: times[k]) if times else "none has it"
                ratio = f"{times[fastest] / mine:.2g}×" if times else "-"
                shown = ", ".join(f"{k} {ms(t)}" for k, t in sorted(times.items(), key=lambda kv: kv[1]))
                rows.append([name, ms(mine), ratio, fastest, shown])
            head = [f"{title}, N = {n:.0e}", "bpmcli ms", "faster than the best", "best other", "all, ms"]
            show(f"{title.capitalize()} of {n:.0e} rows", head, rows)


def write_parquet(path: Path, n: int, kind: type = np.float64, seed: int = 0) -> str:
    """Generated in row groups of a million, so that this script's memory stays flat too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.exists():
        return str(path)
    schema = pa.schema([("confidence", pa.from_numpy_dtype(kind)), ("hit", pa.bool_())])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as out:
        for start in range(0, n, 1 << 20):
            s, hits = draw(min(1 << 20, n - start), seed + start)
            out.write_table(pa.table({"confidence": s.astype(kind), "hit": hits}, schema=schema))
    return str(path)


def parquet(options: argparse.Namespace) -> None:
    """All seven metrics and the fit from 10⁷ rows on disk, beside pyarrow reading them."""
    import pyarrow.parquet as pq

    from bpmcli.core.metrics import measure
    from bpmcli.io.readers import read_rows

    n = 10**6 if options.quick else 10**7
    rows = []
    for kind in (np.float64, np.float32):
        path = write_parquet(options.folder / f"{n}-{kind.__name__}.parquet", n, kind)

        def everything(path: str = path) -> None:
            # tce-bpm is the fit: its details are alpha, beta, c.
            measure(read_rows(path, mode="summary").rows.sample, SEVEN)

        readers = {
            "read": lambda path=path: pq.ParquetFile(path).read(),
            "one thread": lambda path=path: pq.ParquetFile(path).read(use_threads=False),
            "batches": lambda path=path: [None for _ in pq.ParquetFile(path).iter_batches(batch_size=1 << 19)],
        }
        times: dict[str, list[float]] = {name: [] for name in [*readers, "ours"]}
        for _ in range(options.repeat):  # alternating, so that a busy minute hits all alike
            for name, function in readers.items():
                # Three in a row take about as long as ours: a quiet moment is as likely to be found.
                times[name].append(best(lambda f=function: [f() for _ in range(3)], 1) / 3)
            times["ours"].append(best(everything, 1))
        low = {name: min(values) for name, values in times.items()}
        reading = min(low[name] for name in readers)
        rows.append([kind.__name__, ms(low["read"]), ms(low["one thread"]), ms(low["batches"]), ms(low["ours"]),
                     f"{low['ours'] / reading:.2f}"])  # fmt: skip
    head = ["confidence", "pyarrow read ms", "one thread ms", "batches ms", "bpmcli ms", "ratio to the fastest"]
    show(f"Seven metrics and the fit from {n:.0e} rows of parquet", head, rows)


def logits(options: argparse.Namespace) -> None:
    """N×K float32 logits to log-odds."""
    rng = np.random.default_rng(0)
    rows = []
    for k in (10, 100, 1000):
        n = (1 << 22 if options.quick else 1 << 25) // k
        z = (3 * rng.standard_normal((n, k))).astype(np.float32)
        z[np.arange(n), rng.integers(k, size=n)] += 8
        functions = reduce_peers(z)
        low = dict.fromkeys(functions, 1000000000.0)
        for _ in range(options.repeat):
            for name, function in functions.items():
                low[name] = min(low[name], best(function, 1))
        fastest = min(t for name, t in low.items() if name != "bpmcli")
        rows.append([k, *(f"{n / t / 1e6:.3g}" for t in low.values()), f"{low['bpmcli'] / fastest:.2f}"])
    show("Logits (float32) to log-odds, million rows a second", ["K", *functions, "our time / fastest"], rows)


MEASURE = "import sys; from bpmcli.cli import main; sys.exit(main(sys.argv[1:]))"


def command(*arguments: str) -> tuple[float, float, str]:
    """Seconds, peak megabytes and output of a command in a process of its own."""
    code = MEASURE.replace("sys.exit(", "code = (") + (
        # Not ru_maxrss, which a child inherits from this process.
        "; peak = [l for l in open('/proc/self/status') if l.startswith('VmHWM')][0]"
        "; print(int(peak.split()[1]) / 1024, file=sys.stderr)"
    )
    start = time.perf_counter()
    ran = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    took = time.perf_counter() - start
    if ran.returncode:
        raise SystemExit(ran.stderr)
    return took, float(ran.stderr.splitlines()[-1]), ran.stdout


def growth(options: argparse.Namespace) -> None:
    """Time and memory of whole commands from 10⁶ to 10⁸ rows on disk."""
    sizes = [10**5, 10**6, 10**7] if options.quick else [10**6, 10**7, 10**8]
    rows, seconds, memory = [], {}, {}
    for n in sizes:
        path = write_parquet(options.folder / f"{n}-float64.parquet", n)
        fitted = str(options.folder / "params.json")
        for name, arguments in {
            "metrics --summary": ("metrics", path, "--summary", "-q"),
            "fit --summary": ("fit", path, "--summary", "-q", "-o", fitted),
            "apply": ("apply", fitted, path, "-o", str(options.folder / "out.parquet"), "-q"),
        }.items():
            runs = [command(*arguments) for _ in range(min(3, options.repeat))]
            seconds[name, n], memory[name, n] = min(r[0] for r in runs), min(r[1] for r in runs)
            rows.append([name, f"{n:.0e}", f"{seconds[name, n]:.2f}", f"{memory[name, n]:.0f}"])
    show("Growth: whole commands", ["command", "rows", "seconds", "peak MB"], rows)
    rows = []
    for name in dict.fromkeys(name for name, _ in seconds):
        t, m = [seconds[name, n] for n in sizes], [memory[name, n] for n in sizes]
        whole = np.log(t[-1] / t[0]) / np.log(sizes[-1] / sizes[0])
        tail = np.log(t[-1] / t[-2]) / np.log(sizes[-1] / sizes[-2])
        rows.append([name, f"{whole:.3f}", f"{tail:.3f}", f"{(max(m) / min(m) - 1) * 100:.0f} %"])
    show("Growth exponents", ["command", "first to last", "last decade", "memory spread"], rows)


def accuracy(options: argparse.Namespace) -> None:
    """Summary against exact, with the same bin cap."""
    from bpmcli.core.compare.truths import TRUTHS, simulate
    from bpmcli.core.curves.bpm import fit_bpm
    from bpmcli.core.data.log_odds import log_odds_of_confidences
    from bpmcli.core.data.sample import sample_from_log_odds, sigmoid
    from bpmcli.core.metrics import MetricOptions, measure
    from bpmcli.core.summary.summary import edge_bound, summary_of
    from bpmcli.io.readers import read_rows

    n = 10**5 if options.quick else 10**6
    sets: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, truth in TRUTHS.items():
        drawn = simulate(truth, n, np.random.default_rng(1))
        sets[name] = drawn.log_odds, np.asarray(drawn.hits, dtype=bool)
    s, hits = draw(n, 1)
    sets["bent, Beta(1.5, 0.5)"] = log_odds_of_confidences(s), hits
    rng = np.random.default_rng(2)
    s = rng.beta(2, 0.4, n)
    sets["calibrated, Beta(2, 0.4)"] = log_odds_of_confidences(s), rng.random(n) < s
    x = log_odds_of_confidences(rng.beta(5, 0.3, n).astype(np.float32))
    sets["float32, saturated"] = x, rng.random(n) < sigmoid(0.8 * x - 0.3)
    for path in sorted(Path(options.data).glob("*.npz")) if options.data else []:
        loaded = read_rows(str(path)).rows
        sets[path.stem] = loaded.log_odds, loaded.hits
        times = -(-n // loaded.n)
        sets[f"{path.stem} × {times}"] = np.tile(loaded.log_odds, times), np.tile(loaded.hits, times)
    rows = []
    at = np.linspace(-9, 9, 1000)
    for name, (x, h) in sets.items():
        exact, cells = sample_from_log_odds(x, h), summary_of(x, h).to_sample()
        cap = (600, 3000) if exact.n >= 60_000 else None
        there, here = (measure(sample, SEVEN, MetricOptions(bins=cap)) for sample in (exact, cells))
        curve = np.abs(fit_bpm(exact, bins=cap).curve(at)[0] - fit_bpm(cells, bins=cap).curve(at)[0]).max()
        errors = [abs(here[m].value - there[m].value) for m in here]  # type: ignore[operator]
        rows.append([name, exact.n, cells.mass.size, *(f"{e:.0e}" for e in errors), f"{curve:.0e}",
                     f"{edge_bound(cells):.0e}"])  # fmt: skip
    show("Summary against exact: absolute differences",
         ["data", "rows", "cells", *here, "curve", "ece bound"], rows)  # fmt: skip


def files(options: argparse.Namespace) -> None:
    """Many files: one row each, or pooled; one worker, two, and a local cluster."""
    count, n = (100, 10**4) if options.quick else (1000, 10**5)
    folder = options.folder / f"{count}x{n}"
    folder.mkdir(exist_ok=True)
    for i in range(count):
        write_parquet(folder / f"{i:04d}.parquet", n, np.float32, i)
    rows = []
    for name, arguments in {
        "metrics DIR --pool": ("metrics", str(folder), "--pool", "--summary", "-f", "json", "-q"),
        "metrics DIR": ("metrics", str(folder), "-f", "json", "-q"),
    }.items():
        wheres: dict[str, tuple[str, ...]] = {"1 worker": (), "2 workers": ("-j", "2")}
        try:
            importlib.metadata.version("distributed")
            wheres["dask, 2 workers"] = ("--engine", "dask", "-j", "2")
        except importlib.metadata.PackageNotFoundError:
            print("distributed is not installed: no cluster")
        outputs, single = set(), 0.0
        for where, more in wheres.items():
            took, _, out = min((command(*arguments, *more) for _ in range(min(2, options.repeat))), key=lambda r: r[0])
            outputs.add(out)
            single = single or took
            workers = 1 if where == "1 worker" else 2
            rows.append([name, where, f"{took:.1f}", f"{count * n / took / 1e6:.3g}", f"{single / took / workers:.0%}",
                         "yes" if len(outputs) == 1 else "NO"])  # fmt: skip
    show(f"{count} files of {n:.0e} rows",
         ["command", "where", "seconds", "million rows a second", "efficiency", "same bytes"], rows)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--data", help="folder of npz files for the accuracy table")
    parser.add_argument("--authors", help="checkout of the published code, for the fits of 10⁴ rows; needs mpmath")
    parser.add_argument("--folder", type=Path, help="where generated files are kept; a temporary one if not given")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    print(versions())
    with tempfile.TemporaryDirectory(prefix="bpmcli-bench-") as temporary:
        options.folder = options.folder or Path(temporary)
        options.folder.mkdir(parents=True, exist_ok=True)
        for part in options.parts or PARTS:
            globals()[part](options)


if __name__ == "__main__":
    main()
