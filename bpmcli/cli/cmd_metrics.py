"""bpmcli metrics: how far off is the confidence?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from bpmcli import __version__
from bpmcli.cli import console
from bpmcli.cli.options.ci import Ci
from bpmcli.cli.options.command import command_app, only
from bpmcli.cli.options.measuring import Details, Gate, Metrics, Uncertainty
from bpmcli.cli.options.reading import Correct, Groups, Input, InputCheck, OptionalInputs, Work
from bpmcli.cli.options.showing import FORMATS_PER_INPUT, Other, Output, Picture
from bpmcli.cli.outcomes import Outcomes
from bpmcli.errors import UsageError

Record = Mapping[str, Any]


CHOSEN = {
    "metric": "Only this metric, or 'all'; repeatable. Default: a verdict, tce and the paper's seven.",
    "classwise": "Also measure each class against the rest, with intervals.",
}
HELP = {
    "plot": "Draw reliability diagrams: png, svg, pdf, or DIR/ for a file each.",
    "output_dir": "Also write each input's result here, as json (as csv with -f csv).",
    "format": "table, json, csv, markdown, or jsonl: a line of JSON as soon as each input is done.",
}


def metrics(
    inputs: OptionalInputs = None,
    *,
    chosen: Annotated[Metrics, only(help=CHOSEN)],
    output: Annotated[Output, only("output_dir", "format", "plot", help=HELP)],
    uncertainty: Uncertainty,
    gate: Gate,
    ci: Ci,
    groups: Annotated[Groups, only("by")],
    read: Input,
    correct: Correct,
    check: InputCheck,
    work: Work,
    picture: Picture,
    details: Details,
    other: Other,
) -> int:  # fmt: skip
    """Measure calibration error.

    \b
      bpmcli metrics test.npz
      bpmcli metrics runs/ -j 0 --format csv > all.csv
      bpmcli metrics preds.parquet --fail-above tce-bpm=0.03
      bpmcli metrics preds.parquet --pass-below tce=0.03
      bpmcli metrics test.npz --classwise
    """
    from bpmcli.cli import ci_gate
    from bpmcli.io.paths import expand
    from bpmcli.tasks.measure import MeasureFile, Requested

    format_, seed = output.resolve(FORMATS_PER_INPUT), other.resolve()
    columns = read.resolve(groups.by, uncertainty.cluster, bool(gate.baseline or gate.save_baseline))
    columns = correct.resolve(columns)
    if chosen.list_ or check.explain_input:
        return _look(inputs or [], chosen, gate, columns, format_)
    groups.resolve()
    _check_each(format_, chosen, output.output_dir, work.pool)
    options, scale, limits = details.resolve(), work.resolve(), gate.resolve(uncertainty.resolve())
    style, in_terminal = picture.resolve(bool(output.plot)), picture.in_terminal(format_)
    before = ci_gate.before(limits, _as_json(options))
    sort, names = chosen.sort_by(), chosen.resolve(more=limits.names())
    items = expand(inputs or [])
    if not items:
        raise UsageError("no input", "bpmcli metrics FILE, or --list to see what can be measured")
    in_terminal &= len(items) == 1 or bool(picture.diagram)
    wanted = Requested(
        uncertainty.noise_runs if uncertainty.noise_floor else 0, chosen.bins_table, limits.interval,
        uncertainty.resamples, seed, bool(output.plot) or in_terminal or ci.summarises(), picture.axis,
        not chosen.metric, classwise=chosen.classwise,
    )  # fmt: skip
    single = len(items) == 1 or work.pool
    wanted = ci_gate.with_baselines(wanted, limits, before, single, len(items) if gate.save_baseline else 0)
    task = MeasureFile(columns, tuple(names), options, wanted, scale.mode)

    _check_targets(items, output.plot, ci.junit, gate.save_baseline)
    outcomes, each = Outcomes(), _each_result(items, output.output_dir, format_, options)
    run = _pooled if work.pool and len(items) > 1 else _each
    measured = run(items, task, scale, outcomes, each)
    records = [one.record for one in measured]
    results, code = _judged(records, limits, before, outcomes, single)
    if records and format_ != "jsonl":
        records = _ranked(records, sort, format_) if sort else records
        _show(format_, records, _document(options, records, outcomes.failures, results), wanted)
    if in_terminal:
        _show_diagrams(measured)
    if output.plot and measured:
        _draw(output.plot, measured, picture.overlay, style)
    _show_gates(results)
    ci.publish(records, outcomes.failures, results, measured)
    code = outcomes.finish() or code
    if gate.save_baseline:
        ci_gate.save_baseline(gate.save_baseline, _document(options), measured, code)
    return code


app = command_app(metrics)


def _judged(
    records: Sequence[Record], limits: Any, before: Any, outcomes: Outcomes, single: bool
) -> tuple[list[Any], int]:
    """Every gate on every input, and the exit code that follows."""
    if not limits.names():
        return [], 0
    from bpmcli.cli.gate_results import exit_code, judge

    results = judge(records, limits, before, outcomes.failed(), single)
    return results, exit_code(results)


def _show_gates(results: Sequence[Any]) -> None:
    if results:
        from bpmcli.cli.gate_results import show_results

        show_results(results)


def _look(inputs: Sequence[str], chosen: Metrics, gate: Gate, options: Any, format_: str) -> int:
    """--list and --explain-input: show something and measure nothing."""
    from bpmcli.cli.config import settings

    configured = [setting.value for setting in settings()]
    if any(limit and limit not in configured for limit in (gate.fail_above, gate.pass_below, gate.max_increase)):
        raise UsageError("--list and --explain-input measure nothing, so no gate can pass", "leave them out")
    if chosen.list_:
        from bpmcli.cli.registry_lists import show_metrics

        return show_metrics(format_)
    from bpmcli.cli.explain import explain_inputs
    from bpmcli.io.paths import expand

    items = expand(inputs)
    if not items:
        raise UsageError("no input", "bpmcli metrics FILE --explain-input")
    return explain_inputs(items, options, format_)


def _check_each(format_: str, chosen: Metrics, folder: str | None, pooled: bool) -> None:
    """Refuses combinations in which there is no result per input, or more than one table."""
    if format_ == "jsonl" and chosen.bins_table:
        raise UsageError("--bins-table is a table, and jsonl has one result per line", "use --format csv or json")
    if format_ == "csv" and chosen.bins_table and chosen.classwise:
        raise UsageError("--bins-table and --classwise are two tables, and csv holds one", "leave one of them out")
    if folder is not None and pooled:
        raise UsageError("--pool gives one result, and --output-dir writes one per input", "leave one of them out")


def _each_result(items: Sequence[Any], folder: str | None, format_: str, options: Any) -> Any:
    """What takes the result of each input as soon as it is there; None if all are shown together at the end."""
    if folder is None and format_ != "jsonl":
        return None
    from bpmcli.cli.each_result import EachResult

    return EachResult(items, folder, format_, _document(options))


def _check_targets(items: Sequence[Any], plot: str | None, junit: str | None, baseline: str | None) -> None:
    """Refuse before the work what could not be drawn after it, and what would overwrite an input."""
    if plot is not None:
        from bpmcli.cli.pictures import check_diagrams

        check_diagrams(plot)
    if plot or junit or baseline:
        from bpmcli.io.outputs import spare_inputs

        spare_inputs(items, plot, junit, baseline)


def _show_diagrams(measured: Sequence[Any]) -> None:
    from bpmcli.cli import diagram
    from bpmcli.cli.measurement_tables import title
    from bpmcli.cli.render import short, writing
    from bpmcli.core.data.rows import EVENT

    with writing():
        for one in measured:
            print(f"\n{short(title(one.record))}" if len(measured) > 1 else "")
            diagram.show(one.diagram, one.record["target"] == EVENT)


def _draw(path: str, measured: Sequence[Any], overlay: bool, style: Any) -> None:
    from bpmcli.cli.pictures import reliability

    written = reliability(path, measured, overlay, style)
    more = f" and {len(written) - 1} more" if len(written) > 1 else ""
    console.note(f"wrote {written[0]}{more}")


def _pooled(items: Sequence[Any], task: Any, scale: Any, outcomes: Outcomes, each: Any) -> list[Any]:
    """The records of all inputs as one sample; one input that cannot be read stops everything."""
    from bpmcli.engines.scale import pool_inputs

    rows, notices = pool_inputs(items, task.options, scale, console.reading, keep_scores=task.keep_scores)
    done = task.measure(f"pooled ({len(items)} inputs)", rows, notices, {})
    _show_notices(done, "")
    if each:
        each.take(0, [one.record for one in done])
    return list(done)


def _each(items: Sequence[Any], task: Any, scale: Any, outcomes: Outcomes, each: Any) -> list[Any]:
    """The measurements of every input, or of every group in it."""
    measured: list[Any] = []
    names = [item.path for item in items]
    for position, done in outcomes.good(names, scale.each(task, items), "measuring"):
        measured += done
        if each:
            each.take(position, [one.record for one in done])
        _show_notices(done, outcomes.where(names[position]))
    return measured


def _ranked(records: Sequence[Record], metric: str, format_: str) -> list[Record]:
    """The records in the order of a metric, the best first."""
    from bpmcli.cli.measurement_tables import rank

    ranked: list[Record] = list(rank(records, metric))
    if format_ in ("table", "markdown") and len(ranked) > 1:
        known = any(record["tied"] is not None for record in ranked)
        ties = "tied: its confidence interval overlaps that of the best" if known else "add --interval 0.95 to see ties"
        console.note(f"ranked by {metric}, the best first; {ties}")
    return ranked


def _show_notices(done: Sequence[Any], where: str) -> None:
    """Notices that all groups of an input share are shown once."""
    from bpmcli.cli.measurement_tables import title

    shared = [n for n in done[0].notices if all(n in one.notices for one in done)]
    if shared:
        console.show_notices(shared, where)
    for one in done:
        if own := [n for n in one.notices if n not in shared]:
            console.show_notices(own, title(one.record))
        missing: dict[str, list[str]] = {}
        for name, found in one.record["metrics"].items():
            if found["value"] is None:
                missing.setdefault(found["why_missing"], []).append(name)
        for why, names in missing.items():
            console.note(f"note: {title(one.record)}: no {', '.join(names)}: {why}")


def _document(
    options: Any, records: Sequence[Record] = (), failures: Sequence[Any] = (), results: Sequence[Any] = ()
) -> dict[str, Any]:
    from bpmcli.cli.ci_gate import SCHEMA, VERSION

    return {
        "schema": SCHEMA,
        "version": VERSION,
        "tool": f"bpmcli {__version__}",
        "options": _as_json(options),
        "results": records,
        "failures": [{"input": name, "error": error.message} for name, error in failures],
        "gates": [result._asdict() for result in results],
    }


def _as_json(options: Any) -> dict[str, Any]:
    """Options as a reader of JSON sees them: tuples are lists."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in options._asdict().items()}


def _show(format_: str, records: Sequence[Record], document: Mapping[str, Any], wanted: Any) -> None:
    from bpmcli.cli.measurement_tables import CLASSES_SHOWN, bins, classes, measurements, shorten_inputs
    from bpmcli.cli.render import show

    by_eye = format_ in ("table", "markdown")
    tables = [bins(records)] if wanted.bins_table else []
    if wanted.classwise:
        tables += [classes(records, most=CLASSES_SHOWN if by_eye else None)]
    alone = wanted.bins_table and not (by_eye and (wanted.noise_runs or wanted.interval or wanted.classwise))
    if (by_eye and not alone) or not tables:
        tables.insert(0, measurements(records, wide=format_ == "csv", brief=console.quiet))
    for number, table in enumerate(tables):
        if number:
            print()
        show(format_, shorten_inputs(table) if by_eye and len(records) > 1 else table, document)
    if wanted.noise_runs:
        _explain_least_p_value(records, wanted.noise_runs)


def _explain_least_p_value(records: Sequence[Record], runs: int) -> None:
    """A note where a P-value is as small as the number of runs allows."""
    least = 1 / (runs + 1)
    found = [floor for record in records for floor in record["noise_floor"].values() if floor]
    if any(floor["p_value"] is not None and floor["p_value"] <= least * (1 + 1e-9) for floor in found):
        console.note(
            f"note: {least:.5f} is the smallest P-value that {runs} runs can give; the true one may be smaller"
        )
