"""bpmcli metrics: how far off is the confidence?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from bpmcli import __version__
from bpmcli.cli.options import (
    BatchArgs,
    CurveArgs,
    InputArgs,
    OptionalInputs,
    OutputArgs,
    ScaleArgs,
    Seed,
    check_resamples,
    command,
)
from bpmcli.errors import BpmError, UsageError

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@command
def metrics(
    inputs: OptionalInputs = None,
    metric: Annotated[list[str] | None, typer.Option("--metric", "-m", help="Only this metric, or all; repeatable [the paper's seven].")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Explain every metric and stop.")] = False,
    explain_input: Annotated[bool, typer.Option("--explain-input", help="Say how the inputs are understood, and stop.")] = False,
    n_bins: Annotated[int, typer.Option("--n-bins", help="Bins of ece and ece-debiased.")] = 15,
    binning: Annotated[str, typer.Option("--binning", help="mass or width.")] = "mass",
    interval: Annotated[float | None, typer.Option("--interval", metavar="LEVEL", help="Bootstrap intervals, e.g. 0.95.")] = None,
    resamples: Annotated[int, typer.Option("--resamples", help="Resamples behind the intervals.")] = 1000,
    gate_confidence: Annotated[float | None, typer.Option("--gate-confidence", metavar="LEVEL", help="--fail-above only when sure: the lower bound must exceed X. Best with tce.")] = None,
    noise_floor: Annotated[bool, typer.Option("--noise-floor", help="Also what a perfectly calibrated model would score.")] = False,
    noise_runs: Annotated[int, typer.Option("--noise-runs", help="Simulated outcomes behind the noise floor.")] = 200,
    bins_table: Annotated[bool, typer.Option("--bins-table", help="The bins themselves, for any plotter.")] = False,
    plot: Annotated[str | None, typer.Option("--plot", metavar="FILE", help="A reliability diagram: png, svg or pdf.")] = None,
    fail_above: Annotated[list[str] | None, typer.Option("--fail-above", metavar="METRIC=X", help="Exit 1 if the metric exceeds X.")] = None,
    baseline: Annotated[str | None, typer.Option("--baseline", help="A saved run (--format json) to compare with.")] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="COLUMN", help="A result for each value of this column.")] = None,
    max_increase: Annotated[list[str] | None, typer.Option("--max-increase", metavar="METRIC=X", help="Exit 1 if it rose by more than X.")] = None,
    seed: Seed = 0,
    *,
    read: InputArgs,
    curve: CurveArgs,
    batch: BatchArgs,
    scale: ScaleArgs,
    output: OutputArgs,
) -> int:  # fmt: skip
    """Measure calibration error.

    \b
      bpmcli metrics test.npz
      bpmcli metrics runs/ -j 0 --format csv > all.csv
      bpmcli metrics preds.parquet --fail-above tce-bpm=0.03
      bpmcli metrics preds.parquet --fail-above tce=0.03 --gate-confidence 0.95    only when surely above
    """
    from bpmcli.cli import console, gates, views
    from bpmcli.cli.render import show
    from bpmcli.core.metrics import check_metric_names
    from bpmcli.io.paths import expand
    from bpmcli.tasks.measure import Extras

    format_ = output.resolve()
    if (list_ or explain_input) and (fail_above or max_increase):
        raise UsageError("--list and --explain-input measure nothing, so no gate can pass", "leave them out")
    if list_:
        show(format_, views.metric_list(), views.metric_list_document())
        return 0
    items = expand(inputs or [])
    if not items:
        raise UsageError("no input", "bpmcli metrics FILE, or --list to see what can be measured")
    if explain_input:
        return views.explain_inputs(items, read.resolve(by), format_)
    options = curve.resolve(n_bins, binning)
    if plot:
        from bpmcli.cli import pictures

        if by is not None:
            raise UsageError("--plot draws whole inputs, and --by divides them", "leave one of them out")
        pictures.check_picture(plot, items, batch.pool)
    limits = gates.parse_limits("--fail-above", fail_above or [])
    rises = gates.parse_limits("--max-increase", max_increase or [])
    if bool(rises) != (baseline is not None):
        raise UsageError("--baseline and --max-increase go together", "--baseline old.json --max-increase ece=0.005")
    if min(noise_runs, resamples) < 1:
        raise UsageError("--noise-runs and --resamples must be positive")
    # A one-sided bound at level c is the end of a two-sided interval at level 2c - 1.
    level = gates.interval_level(interval, gate_confidence, bool(limits))
    if level is not None:
        check_resamples(resamples)
    names = check_metric_names(metric or None)
    # A gate measures its metric even if it was not asked for: it must never pass by omission.
    names += [g.metric for g in [*limits, *rises] if g.metric not in names]
    before = gates.load_baseline(baseline, asdict_json(options)) if baseline else None

    extras = Extras(noise_runs * noise_floor, bins_table, level, resamples, seed)
    records, failures = _measure(items, tuple(dict.fromkeys(names)), options, extras, read.resolve(by), batch, scale)
    verdicts = gates.judge(records, limits, rises, before, gate_confidence)
    document = {
        "schema": gates.SCHEMA,
        "version": gates.VERSION,
        "tool": f"bpmcli {__version__}",
        "options": asdict_json(options),
        "results": records,
        "failures": [{"input": item, "error": error.message} for item, error in failures],
        "gates": [v._asdict() for v in verdicts],
    }
    if records:
        read_by_eye = format_ in ("table", "markdown")
        tables = [views.bins(records)] if bins_table else []
        if not bins_table or (read_by_eye and (noise_floor or level)):
            tables.insert(0, views.metrics(records, wide=format_ == "csv"))
        for number, table in enumerate(tables):
            if number:
                print()
            show(format_, views.within(table) if read_by_eye else table, document)
        _explain_least_p_value(records, noise_runs)
    if plot and records:
        failed = {name for name, _ in failures}
        pictures.reliability(plot, [i.path for i in items if i.path not in failed], read.resolve(), n_bins, batch.pool)
    for verdict in verdicts:
        if verdict.passed:
            console.note(f"gate passed: {verdict}")
        else:
            console.fail(f"gate failed: {verdict}")
    if failures:
        return failures[0][1].exit_code if len(items) == len(failures) else 3
    return 0 if all(v.passed for v in verdicts) else 1


def _explain_least_p_value(records: Sequence[Mapping[str, Any]], runs: int) -> None:
    """Said where a P-value is as small as the number of runs allows."""
    from bpmcli.cli import console

    least = 1 / (runs + 1)
    found = [floor for record in records for floor in record.get("noise_floor", {}).values() if floor]
    if any(floor["p_value"] is not None and floor["p_value"] <= least * (1 + 1e-9) for floor in found):
        console.note(f"note: a P-value of {least:.5f} is the least that {runs} runs can give: it may be far smaller")


def asdict_json(options: Any) -> dict[str, Any]:
    """Options as a JSON reader sees them: tuples are lists."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(options).items()}


def _measure(
    items: Sequence[Any], names: tuple[str, ...], options: Any, extras: Any,
    read: Any, batch: BatchArgs, where: ScaleArgs,
) -> tuple[list[dict[str, Any]], list[tuple[str, BpmError]]]:  # fmt: skip
    """A record per input (or for all of them) and group, and what could not be read."""
    from bpmcli.cli import console
    from bpmcli.tasks.measure import MeasureFile, title

    scale = where.resolve(batch.jobs)
    task = MeasureFile(read, names, options, extras, scale.mode)
    if batch.pool and len(items) > 1:
        from bpmcli.engines.scale import pool_inputs

        rows, notices = pool_inputs(items, task.options, scale, console.reading)
        done = task.measure(f"pooled ({len(items)} inputs)", rows, notices, {})
        _show_notices(done, "")
        return [one.record for one in done], []
    records: list[dict[str, Any]] = []
    failures: list[tuple[str, BpmError]] = []
    results = console.progress(scale.each(task, items), len(items), "measuring")
    for item, result in zip(items, results, strict=True):
        if isinstance(result, BpmError):
            console.show_error(result)
            failures.append((item.path, result))
            continue
        records += [one.record for one in result]
        _show_notices(result, item.path if len(items) > 1 else "")
        for one in result:
            for name, found in one.record["metrics"].items():
                if found["value"] is None:
                    console.note(f"note: {title(one.record)}: no {name}: {found['why_missing']}")
    return records, failures


def _show_notices(done: Sequence[Any], where: str) -> None:
    """What all groups of an input share is said once."""
    from bpmcli.cli import console
    from bpmcli.tasks.measure import title

    shared = [n for n in done[0].notices if all(n in one.notices for one in done)]
    console.show_notices(shared, where)
    for one in done:
        console.show_notices([n for n in one.notices if n not in shared], title(one.record))
