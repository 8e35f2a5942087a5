"""bpmcli metrics: how far off is the confidence?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from bpmcli.cli import console, metrics_output
from bpmcli.cli.options.command import command_app, only
from bpmcli.cli.options.measuring import Ci, Details, Gate, Metrics, Uncertainty
from bpmcli.cli.options.reading import Correct, Groups, InputCheck, OptionalInputs, Reading, Work
from bpmcli.cli.options.showing import FORMATS_PER_INPUT, Other, Output, Picture
from bpmcli.cli.outcomes import Outcomes
from bpmcli.errors import UsageError

CHOSEN = {
    "metric": "Only this metric, or 'all'; repeatable. Default: a verdict, tce and the paper's seven metrics.",
    "classwise": "Also measure each class against the rest, with intervals.",
}
HELP = {
    "plot": "Draw reliability diagrams: png, svg, pdf, or DIR/ for one file per input.",
    "output_dir": "Also write each input's result to this folder, as json (or csv with -f csv).",
    "format": "table, json, csv, markdown, or jsonl (a line of JSON as soon as each input is done).",
}
ID = only(help={"id": "Column that identifies a row: joins --label FILE, pairs rows with a --baseline."})


def metrics(
    inputs: OptionalInputs = None,
    *,
    chosen: Annotated[Metrics, only(help=CHOSEN)],
    output: Annotated[Output, only("output_dir", "format", "plot", help=HELP)],
    uncertainty: Uncertainty,
    gate: Gate,
    ci: Ci,
    groups: Annotated[Groups, only("by")],
    read: Annotated[Reading, ID],
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
      bpmcli metrics preds.parquet --fail-above tce=0.03
      bpmcli metrics preds.parquet --pass-below tce=0.03
      bpmcli metrics test.npz --classwise
    """
    from bpmcli.cli.ci_gate import save_baseline, with_baselines
    from bpmcli.io.paths import expand
    from bpmcli.tasks.measure import MeasureFile, Requested

    format_, seed = output.resolve(FORMATS_PER_INPUT), other.resolve()
    columns = correct.resolve(read.resolve(groups.by, uncertainty.cluster, bool(gate.baseline or gate.save_baseline)))
    if chosen.list_ or check.explain_input:
        return _look(inputs or [], chosen, gate, columns, format_)
    groups.resolve()
    _check_each(format_, chosen, output.output_dir, work.pool)
    options, scale, limits = details.resolve(), work.resolve(), gate.resolve(uncertainty.resolve())
    style, in_terminal = picture.resolve(bool(output.plot)), picture.in_terminal(format_)
    before = _baseline(limits.baseline, options)
    sort, names = chosen.sort_by(), chosen.resolve(more=limits.names)
    items = expand(inputs or [], workers=work.jobs != 1 or work.engine != "local")
    if not items:
        raise UsageError("no input", "bpmcli metrics FILE, or --list to see what can be measured")
    in_terminal &= len(items) == 1 or bool(picture.diagram)
    wanted = Requested(
        uncertainty.noise_runs if uncertainty.noise_floor else 0, chosen.bins_table, limits.interval,
        uncertainty.resamples, seed, bool(output.plot) or in_terminal or ci.summarises(), picture.axis,
        not chosen.metric, classwise=chosen.classwise, ranked=sort, parts=bool(output.plot),
    )  # fmt: skip
    single = len(items) == 1 or work.pool
    if before is not None or gate.save_baseline:
        wanted = with_baselines(wanted, limits, before, single, len(items) if gate.save_baseline else 0)
    task = MeasureFile(columns, tuple(names), options, wanted, scale.mode)
    _check_targets(items, output.plot, ci.junit, gate.save_baseline, columns.label)
    measured, outcomes = _measured(items, task, scale, work.pool, (output.output_dir, format_))
    results, code = _judged(measured, limits, before, outcomes, single)
    records = metrics_output.show_results(format_, measured, sort, options, wanted, outcomes.failures, results)
    _show_pictures(measured, in_terminal, output.plot, picture.overlay, style)
    if in_terminal:
        metrics_output.suggest_repair(measured, read, correct)
    _show_gates(results)
    ci.publish(records, outcomes.failures, results, measured)
    code = outcomes.finish() or code
    if gate.save_baseline:
        save_baseline(gate.save_baseline, metrics_output.document_of(options), measured, code)
    return code


app = command_app(metrics)


def _baseline(path: str | None, options: Any) -> Any:
    """The saved run to compare with, if there is one; it must have been measured with the same options."""
    if path is None:
        return None
    from bpmcli.tasks.baseline import load_baseline

    return load_baseline(path, metrics_output.as_json(options))


def _judged(
    measured: Sequence[Any], limits: Any, before: Any, outcomes: Outcomes, single: bool
) -> tuple[list[Any], int]:
    """Every gate on every input, and the exit code that follows."""
    if not limits.names:
        return [], 0
    from bpmcli.cli.gate_results import exit_code, judge

    records = [one.record for one in measured]
    results = judge(records, limits, before, outcomes.failed(), single)
    if before is not None:
        from bpmcli.tasks.baseline import not_compared

        if missing := not_compared(records, outcomes.failed(), before, single):
            console.note(f"note: {missing}")
    return results, exit_code(results)


def _show_pictures(measured: Sequence[Any], in_terminal: bool, path: str | None, overlay: bool, style: Any) -> None:
    if in_terminal:
        metrics_output.show_diagrams(measured)
    if path and measured:
        metrics_output.draw_pictures(path, measured, overlay, style)


def _show_gates(results: Sequence[Any]) -> None:
    if results:
        from bpmcli.cli.gate_results import show_gates

        show_gates(results)


def _look(inputs: Sequence[str], chosen: Metrics, gate: Gate, options: Any, format_: str) -> int:
    """--list and --explain-input: show something and measure nothing."""
    from bpmcli.cli.config import settings

    configured = [setting.value for setting in settings()]
    gates = (gate.fail_above, gate.fail_below, gate.pass_below, gate.max_increase)
    if any(limit and limit not in configured for limit in gates):
        raise UsageError("--list and --explain-input measure nothing, so no gate can pass", "leave the gates out")
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
    """Raise UsageError for combinations without one result per input, or with more than one table."""
    if format_ == "jsonl" and chosen.bins_table:
        raise UsageError("--bins-table is a table, but jsonl has one result per line", "use --format csv or json")
    if format_ == "csv" and chosen.bins_table and chosen.classwise:
        raise UsageError("--bins-table and --classwise are two tables, but csv holds one", "leave one of them out")
    if folder is not None and pooled:
        raise UsageError("--pool gives one result, but --output-dir writes one per input", "leave one of them out")


def _check_targets(
    items: Sequence[Any], plot: str | None, junit: str | None, baseline: str | None, label: str | None
) -> None:
    """Check, before anything is measured, that pictures can be drawn and no input would be overwritten."""
    if plot is not None:
        from bpmcli.cli.pictures import check_diagrams

        check_diagrams(plot)
    if plot or junit or baseline:
        from bpmcli.io.outputs import spare_inputs

        spare_inputs(items, plot, junit, baseline, also=label)


def _measured(
    items: Sequence[Any], task: Any, scale: Any, pool: bool, each_to: tuple[str | None, str]
) -> tuple[list[Any], Outcomes]:
    """The measurements of every input, of every group in it, or of all inputs as one sample.

    `each_to` is the folder for a result of each input, and the format, which may show each result at once.
    """
    outcomes, each = Outcomes(), None
    if each_to[0] is not None or each_to[1] == "jsonl":
        from bpmcli.cli.each_result import EachResult

        each = EachResult(items, *each_to, metrics_output.document_of(task.metrics), task.options.label)
    measured: list[Any] = []
    pooled = pool and len(items) > 1
    names = [item.path for item in items]
    results = [_pooled(items, task, scale)] if pooled else scale.each(task, items)
    for position, done in outcomes.good(names[:1] if pooled else names, results, "measuring"):
        measured += done
        if each:
            each.take(position, [one.record for one in done])
        metrics_output.show_notices_of_input(done, outcomes.where(names[position]))
    return measured, outcomes


def _pooled(items: Sequence[Any], task: Any, scale: Any) -> Any:
    """The measurements of all inputs as one sample; an input that cannot be read ends the run."""
    from bpmcli.engines.scale import pool_inputs

    rows, notices = pool_inputs(items, task.options, scale, console.reading, keep_scores=task.keep_scores)
    return task.measure(f"pooled ({len(items)} inputs)", rows, notices, {})
