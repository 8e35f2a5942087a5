"""bpmcli compare metrics: files side by side, or metrics against known truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from bpmcli.cli.options import CurveArgs, InputArgs, OutputArgs, Seed, command
from bpmcli.errors import BpmError, UsageError


@command
def compare_metrics(
    inputs: Annotated[list[str] | None, typer.Argument(help="Files, globs, directories, or -.", metavar="INPUT...")] = None,
    truth: Annotated[str | None, typer.Option("--truth", metavar="D1,D2,…", help="Known distributions instead of files.")] = None,
    n: Annotated[str, typer.Option("-n", "--rows", metavar="N|N,N|LO:HI:STEP", help="Sample sizes under --truth.")] = "2000",
    runs: Annotated[int, typer.Option("--runs", help="Data sets per truth and size.")] = 100,
    metric: Annotated[list[str] | None, typer.Option("--metric", "-m", help="Only this metric; repeatable.")] = None,
    n_bins: Annotated[int, typer.Option("--n-bins", help="Bins of ece and ece-debiased.")] = 15,
    binning: Annotated[str, typer.Option("--binning", help="mass or width.")] = "mass",
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="Processes; 0 = one per core.")] = 1,
    out: Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help="Also as a tidy csv, parquet or json file.")] = None,
    seed: Seed = 0,
    *,
    read: InputArgs,
    curve: CurveArgs,
    output: OutputArgs,
) -> int:  # fmt: skip
    """Files side by side, or every metric against the exact error of simulated data.

    \b
      bpmcli compare metrics before.npz after.npz
      bpmcli compare metrics --truth D1,D5 -n 500:5000:500 --runs 100 -j 0
    """
    from bpmcli.core.metrics import METRICS, check_metric_names

    format_ = output.resolve()
    options = curve.resolve(n_bins, binning)
    names = tuple(check_metric_names(metric or METRICS))
    if (truth is None) == (not inputs):
        raise UsageError(
            "give files, or --truth", "bpmcli compare metrics a.npz b.npz, or --truth D1 -n 2000 --runs 100"
        )
    if truth is None:
        return _files(inputs or [], names, options, read, jobs, format_, out)
    return _truths(truth, n, runs, names, options, seed, jobs, format_, out)


def _files(inputs: Sequence[str], names: tuple[str, ...], options: Any, read: InputArgs, jobs: int, format_: str, out: str | None) -> int:  # fmt: skip
    from bpmcli.cli import console
    from bpmcli.cli.render import Table, show
    from bpmcli.engines.local import work
    from bpmcli.engines.tasks import MeasureFile
    from bpmcli.io.paths import expand

    items = expand(inputs)
    records, code = [], 0
    for item, result in zip(items, work(MeasureFile(read.resolve(), names, options), items, jobs), strict=True):
        if isinstance(result, BpmError):
            console.show_error(result)
            code = 3
            continue
        console.show_notices(result.notices, item.path)
        records.append(result.record)
    if not records:
        return code
    facts = ("n", "accuracy", "mean_confidence", "saturated")
    rows: list[list[Any]] = [[fact.replace("_", " "), *(r[fact] for r in records)] for fact in facts]
    rows += [[name, *(r["metrics"][name]["value"] for r in records)] for name in names]
    show(
        format_,
        Table(["", *(r["input"] for r in records)], rows),
        {"schema": "bpmcli/comparison", "version": 1, "results": records},
    )
    if out:
        tidy = [
            {"input": r["input"], "metric": name, "value": r["metrics"][name]["value"]}
            for r in records
            for name in names
        ]
        write_tidy(out, tidy)
    return code


def _truths(truth: str, n: str, runs: int, names: tuple[str, ...], options: Any, seed: int, jobs: int, format_: str, out: str | None) -> int:  # fmt: skip
    from bpmcli.cli import console
    from bpmcli.cli.render import Table, show
    from bpmcli.core.simulate import truth_by_name
    from bpmcli.core.truth_benchmark import MeasureDraw, draws, score
    from bpmcli.engines.local import work

    if runs < 1:
        raise UsageError(f"--runs must be positive, not {runs}")
    todo = draws([truth_by_name(name.strip()) for name in truth.split(",")], parse_sizes(n), runs)
    values: list[Any] = []
    for result in console.progress(work(MeasureDraw(names, options, seed), todo, jobs), len(todo), "simulating"):
        if isinstance(result, BpmError):
            raise result
        values.append(result)
    scores = [asdict(s) for s in score(list(zip(todo, values, strict=True)), options.p)]
    shown = ["truth", "n", "metric", "tce", "mean", "bias", "sd", "rmse", "closest"]
    table = Table(shown, [[s[k] for k in shown] for s in scores], f"{runs} data sets each, against the exact TCE")
    show(format_, table, {"schema": "bpmcli/truth-metrics", "version": 1, "runs": runs, "seed": seed, "scores": scores})
    if out:
        write_tidy(out, scores)
    return 0


def parse_sizes(text: str) -> list[int]:
    """`2000`, `500,1000` or `500:5000:500` (both ends included)."""
    try:
        if ":" in text:
            parts = [int(v) for v in text.split(":")]
            low, high, step = parts if len(parts) == 3 else (*parts, parts[0])
            sizes = list(range(low, high + 1, step)) if step > 0 else []
        else:
            sizes = [int(v) for v in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise UsageError(f"-n {text}: expected sizes like 2000, 500,1000 or 500:5000:500")
    return sizes


def write_tidy(path: str, records: Sequence[dict[str, Any]]) -> None:
    """A tidy table by suffix: json, csv, parquet, …"""
    from bpmcli.io.params import dumps
    from bpmcli.io.sources import suffix_of
    from bpmcli.io.writers import open_writer, write_text

    if suffix_of(path) == ".json":
        write_text(path, dumps(list(records)))
        return
    import pyarrow as pa

    with open_writer(path) as writer:
        writer.write({k: pa.array([r[k] for r in records]) for k in records[0]})
