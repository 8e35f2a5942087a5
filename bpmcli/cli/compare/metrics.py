"""bpmcli compare metrics: files side by side, or metrics against known truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from bpmcli.cli import console
from bpmcli.cli.compare.curves import JOBS, TIDY
from bpmcli.cli.compare.simulated import (
    check_targets,
    facts,
    records,
    run_draws,
    source_of_truths,
    truth_files,
    write_tidy,
)
from bpmcli.cli.measurement_tables import labelled, measurements, outward
from bpmcli.cli.options.command import command, only
from bpmcli.cli.options.measuring import Details, Metrics, Pairs, Uncertainty
from bpmcli.cli.options.reading import Correct, OptionalInputs, Reading, Work
from bpmcli.cli.options.showing import Other, Output
from bpmcli.cli.options.truths import Truths
from bpmcli.cli.outcomes import Outcomes
from bpmcli.cli.render import Table, show
from bpmcli.errors import BpmError, UsageError

SIZES = "2000"
SHOWN = ("truth", "n", "metric", "tce", "mean", "bias", "sd", "rmse", "closest")
METRIC = only("metric", help={"metric": "Only this metric, or 'all'; repeatable. Default: tce and the paper's seven."})
LEVEL = only(
    "interval",
    "resamples",
    "cluster",
    help={
        "interval": "Level of the intervals of --paired.",
        "resamples": "Joint resamples of the rows for these intervals.",
    },
    default={"interval": 0.95},
)


class Wanted(NamedTuple):
    """The options that all three kinds of comparison need."""

    names: tuple[str, ...]
    options: Any
    read: Any
    format: str
    target: str | None


@command
def compare_metrics(
    inputs: OptionalInputs = None,
    *,
    chosen: Annotated[Metrics, METRIC],
    pairs: Pairs,
    uncertainty: Annotated[Uncertainty, LEVEL],
    truths: Truths,
    output: Annotated[Output, TIDY],
    work: Annotated[Work, JOBS],
    read: Reading,
    correct: Correct,
    details: Details,
    other: Other,
) -> int:
    """Show files side by side, or every metric against the exact error of simulated data.

    \b
      bpmcli compare metrics before.npz after.npz
      bpmcli compare metrics before.npz after.npz --paired
      bpmcli compare metrics --truth D1,D5 -n 500:5000:500 -j 0 --plot metrics.png
      bpmcli compare metrics --truth params.json -n 800
    """
    format_, seed, level = output.resolve(), other.resolve(), uncertainty.resolve()
    from bpmcli.core.metrics import METRICS, calibration_errors
    from bpmcli.io.paths import expand

    # Only estimates of the calibration error have a true value, and the difference of two P-values means nothing.
    comparable = [name for name, entry in METRICS.items() if not entry.is_test]
    known = calibration_errors() if truths.truth else comparable if pairs.paired else None
    names = tuple(dict.fromkeys(chosen.resolve(["all"] if truths.truth else None, known=known)))
    columns = correct.resolve(read.resolve(cluster=uncertainty.cluster))
    wanted = Wanted(names, details.resolve(), columns, format_, output.output)
    work.resolve()
    files = [item.path for item in expand(inputs or [])]
    check_targets(output, [*files, *truth_files(truths)], columns.label)
    if bool(truths.truth) == bool(inputs):
        raise UsageError(
            "give files, or --truth", "bpmcli compare metrics a.npz b.npz, or --truth D1 -n 2000 --runs 100"
        )
    if not inputs:
        return _truths(truths, wanted, work.jobs, seed, output.plot)
    truths.refuse()
    if output.plot is not None:
        import shlex

        raise UsageError("--plot needs --truth", f"bpmcli metrics {shlex.join(inputs)} --plot {output.plot}")
    if pairs.paired:
        return _paired(inputs, wanted, level, uncertainty.resamples, seed)
    return _files(inputs, wanted, work.jobs, verdict=not chosen.metric)


def _files(inputs: Sequence[str], wanted: Wanted, jobs: int, verdict: bool) -> int:
    from bpmcli.engines.local import work
    from bpmcli.io.paths import expand
    from bpmcli.tasks.measure import MeasureFile, Requested

    items = expand(inputs)
    outcomes, found = Outcomes(len(items)), []
    results = work(MeasureFile(wanted.read, wanted.names, wanted.options, Requested(verdict=verdict)), items, jobs)
    for position, done in outcomes.good([item.path for item in items], results, "measuring"):
        for one in done:
            console.show_notices(one.notices, items[position].path)
            found.append(one.record)
    if not found:
        return outcomes.finish()
    table = measurements(found, wide=True) if wanted.format == "csv" else _side_by_side(found, wanted.names)
    show(wanted.format, table, {"schema": "bpmcli/comparison", "version": 1, "results": [outward(r) for r in found]})
    tidy = [{"input": r["input"], "metric": m, "value": r["metrics"][m]["value"]} for r in found for m in wanted.names]
    write_tidy(wanted.target, tidy)
    return outcomes.finish()


def _side_by_side(found: Sequence[Any], names: Sequence[str]) -> Table:
    """A line per value, a column per input. The header leaves folders out if the names differ without them."""
    inputs = [str(r["input"]) for r in found]
    ends = [name.rstrip("/").rpartition("/")[2] for name in inputs]
    heads = ends if len(set(ends)) == len(ends) else inputs
    facts_ = {"n": "rows", "accuracy": "accuracy", "mean_confidence": "mean confidence", "saturated": "saturated"}
    rows: list[list[Any]] = [[labelled(found[0], label), *(r[fact] for r in found)] for fact, label in facts_.items()]
    rows += [[name, *(r["metrics"][name]["value"] for r in found)] for name in names]
    return Table(["", *heads], rows, [f"{r['input']}: {r['verdict']['sentence']}" for r in found if "verdict" in r])


def _paired(inputs: Sequence[str], wanted: Wanted, level: float, resamples: int, seed: int) -> int:
    from bpmcli.core.metrics import METRICS
    from bpmcli.core.metrics.paired import paired_differences, same_rows
    from bpmcli.io.paths import expand
    from bpmcli.io.readers import read_rows
    from bpmcli.tasks.measure import EVERY_SCORE

    paths = [item.path for item in expand(inputs)]
    if len(paths) != 2:
        hint = f"bpmcli compare metrics {paths[0] if len(paths) == 1 else 'old.npz'} new.npz --paired"
        raise UsageError(f"--paired needs two files of the same rows, got {len(paths)}", hint)
    keep = EVERY_SCORE if any(METRICS[name].needs_classes for name in wanted.names) else 0
    loaded = [read_rows(path, wanted.read, keep_scores=keep) for path in paths]
    for path, one in zip(paths, loaded, strict=True):
        console.show_notices(one.notices, path)
    first, second = (one.rows for one in loaded)
    try:
        same_rows(first, second)
    except BpmError as error:
        raise error.at(f"{paths[0]} and {paths[1]}") from None
    differences = paired_differences(first, second, wanted.names, wanted.options, level, resamples, seed)
    found = [d._asdict() for d in differences]
    head = ["metric", "first", "second", "difference", f"{100 * level:g} % low", "high", "P-value"]
    title = f"{paths[1]} minus {paths[0]}, on the same {first.n:,} rows (negative: the second is better{_exceptions(wanted.names)})"
    about = {"inputs": paths, "n": first.n, "level": level, "resamples": resamples}
    document = {"schema": "bpmcli/paired", "version": 1, **about, "differences": found}
    show(wanted.format, Table(head, [list(d.values()) for d in found], title), document)
    write_tidy(wanted.target, found)
    return 0


def _exceptions(names: Sequence[str]) -> str:
    from bpmcli.core.metrics import METRICS

    higher = [name for name in names if METRICS[name].higher_is_better]
    return f"; {', '.join(higher)}: positive" if higher else ""


def _truths(truths: Truths, wanted: Wanted, jobs: int, seed: int, plot: str | None) -> int:
    from bpmcli.core.compare.metrics_on_truth import MeasureDraw, draws, score_metrics

    sizes = truths.resolve(SIZES)
    source = source_of_truths(truths, wanted.read, seed)
    task = MeasureDraw(source, wanted.names, wanted.options)
    setting = {"of": "metrics", "names": wanted.names, "options": repr(wanted.options), "seed": seed}
    done = run_draws(task, draws(source.truths, sizes, truths.runs), jobs, truths.resume, setting)
    about = facts(source, wanted.options.p)
    scores = score_metrics(done, {f["truth"]: f["tce"] for f in about})
    title = f"{truths.runs} data sets each, against the exact TCE"
    document = {"schema": "bpmcli/truth-metrics", "version": 2, "runs": truths.runs, "seed": seed, "truths": about}
    table = Table(SHOWN, [[getattr(s, k) for k in SHOWN] for s in scores], title)
    show(wanted.format, table, {**document, "scores": records(scores)})
    write_tidy(wanted.target, records(scores))
    if plot:
        from bpmcli.plots.metrics import draw_metrics

        draw_metrics(plot, scores)
    return 0
