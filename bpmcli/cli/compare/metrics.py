"""bpmcli compare metrics: files side by side, or metrics against known truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from bpmcli.cli.compare.truths import TruthArgs, check_targets, facts, parse_sizes, records, write_tidy
from bpmcli.cli.options import CurveArgs, InputArgs, OutputArgs, Seed, check_level, check_resamples, command
from bpmcli.errors import BpmError, UsageError

SIZES = "2000"


@command
def compare_metrics(
    inputs: Annotated[list[str] | None, typer.Argument(help="Files, globs, directories, or -.", metavar="INPUT...")] = None,
    metric: Annotated[list[str] | None, typer.Option("--metric", "-m", help="Only this metric; repeatable.")] = None,
    n_bins: Annotated[int, typer.Option("--n-bins", help="Bins of ece and ece-debiased.")] = 15,
    binning: Annotated[str, typer.Option("--binning", help="mass or width.")] = "mass",
    paired: Annotated[bool, typer.Option("--paired", help="Two files of the same rows: differences with intervals.")] = False,
    level: Annotated[float, typer.Option("--interval", metavar="LEVEL", help="Level of those intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option("--resamples", help="Joint resamples of the rows behind them.")] = 1000,
    seed: Seed = 0,
    *,
    truths: TruthArgs,
    read: InputArgs,
    curve: CurveArgs,
    output: OutputArgs,
) -> int:  # fmt: skip
    """Files side by side, or every metric against the exact error of simulated data.

    \b
      bpmcli compare metrics before.npz after.npz
      bpmcli compare metrics --truth D1,D5 -n 500:5000:500 --runs 100 -j 0 --plot metrics.png
      bpmcli compare metrics --truth params.json -n 800     which metric to trust on data like mine
    """
    from bpmcli.core.metrics import check_metric_names

    format_ = output.resolve()
    options = curve.resolve(n_bins, binning)
    names = tuple(check_metric_names(metric or (["all"] if truths.truth else None)))
    if bool(truths.truth) == bool(inputs):
        raise UsageError(
            "give files, or --truth", "bpmcli compare metrics a.npz b.npz, or --truth D1 -n 2000 --runs 100"
        )
    if paired:
        return _paired(inputs or [], names, options, read, truths, level, resamples, seed, format_)
    if inputs:
        return _files(inputs, names, options, read, truths, format_)
    return _truths(truths, names, options, read, seed, format_)


def _refuse_truth_options(args: TruthArgs) -> None:
    """What only --truth knows what to do with."""
    for option in ("density_from", "rows", "resume", "plot"):
        if getattr(args, option) is not None:
            raise UsageError(f"--{option.replace('_', '-')} goes with --truth", "bpmcli compare metrics --truth D1")


def _files(inputs: Sequence[str], names: tuple[str, ...], options: Any, read: InputArgs, args: TruthArgs, format_: str) -> int:  # fmt: skip
    from bpmcli.cli import console
    from bpmcli.cli.render import Table, show
    from bpmcli.engines.local import work
    from bpmcli.io.paths import expand
    from bpmcli.tasks.measure import MeasureFile

    _refuse_truth_options(args)
    check_targets(args.out, None)
    items = expand(inputs)
    found, code = [], 0
    for item, result in zip(items, work(MeasureFile(read.resolve(), names, options), items, args.jobs), strict=True):
        if isinstance(result, BpmError):
            console.show_error(result)
            code = 3
            continue
        for one in result:
            console.show_notices(one.notices, item.path)
            found.append(one.record)
    if not found:
        return code
    shown = ("n", "accuracy", "mean_confidence", "saturated")
    rows: list[list[Any]] = [[fact.replace("_", " "), *(r[fact] for r in found)] for fact in shown]
    rows += [[name, *(r["metrics"][name]["value"] for r in found)] for name in names]
    show(
        format_,
        Table(["", *(r["input"] for r in found)], rows),
        {"schema": "bpmcli/comparison", "version": 1, "results": found},
    )
    if args.out:
        tidy = [{"input": r["input"], "metric": m, "value": r["metrics"][m]["value"]} for r in found for m in names]
        write_tidy(args.out, tidy)
    return code


def _paired(inputs: Sequence[str], names: tuple[str, ...], options: Any, read: InputArgs, args: TruthArgs, level: float, resamples: int, seed: int, format_: str) -> int:  # fmt: skip
    from bpmcli.cli import console
    from bpmcli.cli.render import Table, show
    from bpmcli.core.metrics.paired import paired_differences, same_rows
    from bpmcli.io.paths import expand
    from bpmcli.io.readers import read_rows

    items = expand(inputs)
    if len(items) != 2:
        hint = "bpmcli compare metrics old.npz new.npz --paired"
        raise UsageError(f"--paired takes two files of the same rows, not {len(items)}", hint)
    check_level("--interval", level)
    check_resamples(resamples)
    _refuse_truth_options(args)
    check_targets(args.out, None)
    first, second = (read_rows(item.path, read.resolve()) for item in items)
    for item, loaded in zip(items, (first, second), strict=True):
        console.show_notices(loaded.notices, item.path)
    try:
        same_rows(first.rows, second.rows)
    except BpmError as error:
        raise error.at(f"{items[0].path} and {items[1].path}") from None
    found = [d._asdict() for d in paired_differences(first.rows, second.rows, names, options, level, resamples, seed)]
    head = ["metric", "first", "second", "difference", f"{100 * level:g} % low", "high", "P-value"]
    title = f"{items[1].path} less {items[0].path}, on the same {first.rows.n} rows (negative: the second is better)"
    about = {"inputs": [item.path for item in items], "n": first.rows.n, "level": level, "resamples": resamples}
    show(
        format_,
        Table(head, [list(d.values()) for d in found], title),
        {"schema": "bpmcli/paired", "version": 1, **about, "differences": found},
    )
    if args.out:
        write_tidy(args.out, found)
    return 0


def _truths(args: TruthArgs, names: tuple[str, ...], options: Any, read: InputArgs, seed: int, format_: str) -> int:
    from bpmcli.cli.render import Table, show
    from bpmcli.core.compare.metrics_on_truth import MeasureDraw, draws, score_metrics

    source = args.source(read, seed)
    sizes = parse_sizes(args.rows or SIZES)
    task = MeasureDraw(source, names, options)
    setting = {"of": "metrics", "names": names, "options": repr(options), "seed": seed}
    done = args.work(task, draws(source.truths, sizes, args.runs), "simulating", setting)
    about = facts(source, options.p)
    scores = score_metrics(done, {f["truth"]: f["tce"] for f in about})
    shown = ["truth", "n", "metric", "tce", "mean", "bias", "sd", "rmse", "closest"]
    title = f"{args.runs} data sets each, against the exact TCE"
    show(
        format_,
        Table(shown, [[getattr(s, k) for k in shown] for s in scores], title),
        {
            "schema": "bpmcli/truth-metrics", "version": 2, "runs": args.runs, "seed": seed,
            "truths": about, "scores": records(scores),
        },
    )  # fmt: skip
    if args.out:
        write_tidy(args.out, records(scores))
    if args.plot:
        from bpmcli.plots.metrics import draw_metrics

        draw_metrics(args.plot, scores)
    return 0
