"""bpmcli compare calibrators: which calibrator to use, judged on rows it was not fitted to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any

from bpmcli.cli import console
from bpmcli.cli.compare.curves import JOBS, TIDY
from bpmcli.cli.compare.simulated import check_targets, fit_options, write_tidy
from bpmcli.cli.options.calibrating import Calibrators, FairComparison, compared_methods
from bpmcli.cli.options.command import command, only
from bpmcli.cli.options.measuring import Details, Metrics
from bpmcli.cli.options.reading import Correct, OptionalInputs, Reading, Work
from bpmcli.cli.options.showing import Other, Output
from bpmcli.cli.outcomes import Outcomes
from bpmcli.errors import UsageError

EXAMPLE = "bpmcli compare calibrators --calibration val.npz --evaluation test.npz"
METRIC = only(
    "metric", help={"metric": "This metric beside the log losses, Brier scores and kept; repeatable, or 'all'."}
)


@command
def compare_calibrators(
    inputs: OptionalInputs = None,
    *,
    fair: FairComparison,
    calibrators: Annotated[Calibrators, only("method")],
    chosen: Annotated[Metrics, METRIC],
    output: Annotated[Output, only("output", "format", help=TIDY.help)],
    work: Annotated[Work, JOBS],
    read: Reading,
    correct: Annotated[Correct, only("unknown", "multi_label")],
    details: Details,
    other: Other,
) -> int:
    """Judge every calibrator on rows it was not fitted to: metrics, Brier score, log loss, share of classes kept.

    \b
      bpmcli compare calibrators --calibration val.npz --evaluation test.npz
      bpmcli compare calibrators model.npz --folds 5 --repeats 4 -j 0
      bpmcli compare calibrators runs/*.npz -o scores.csv
      bpmcli compare calibrators model.npz --learning-curve 100,200,500,1000
    """
    from bpmcli.cli.compare.calibrator_tables import show_comparison, tidy
    from bpmcli.core.calibrators import METHODS
    from bpmcli.core.calibrators.grouped import LABEL, Grouping
    from bpmcli.core.compare.choice import decisive_score
    from bpmcli.core.compare.cross_validation import CROSS_VALIDATED, HELD_OUT, IN_SAMPLE, Contest
    from bpmcli.core.compare.scores import check_score_name
    from bpmcli.engines.local import work as each
    from bpmcli.tasks.compare import CompareCalibrators

    format_, seed, scale = output.resolve(), other.resolve(), work.resolve()
    kind = IN_SAMPLE if fair.in_sample else HELD_OUT if fair.calibration or fair.evaluation else CROSS_VALIDATED
    folds, repeats, sizes = fair.resolve(kind == CROSS_VALIDATED)
    wanted = None if fair.rank_by is None else check_score_name(fair.rank_by)
    names = _score_names(chosen, wanted)
    methods = compared_methods(calibrators.method, METHODS)
    grouping = Grouping(LABEL) if correct.multi_label else None
    contest = Contest(methods, names, fit_options(details), folds, repeats, seed, sizes, grouping)
    columns = correct.resolve(read.resolve())._replace(each_label=correct.multi_label)
    task = CompareCalibrators(columns, contest, kind)
    pairs = _pairs(inputs, fair)
    check_targets(output, [file for pair in pairs for file in pair[:2]], columns.label)
    outcomes, todo = Outcomes(len(pairs)), task.items(pairs)
    # Standard input can be read by one process only.
    results = each(task, todo, 1 if "-" in (inputs or ()) else scale.jobs)
    found = list(_compared(task, todo, results, outcomes))
    if found:
        show_comparison(format_, found, contest, kind, wanted or decisive_score([one.scores for one in found]))
        write_tidy(output.output, tidy(found, kind))
    return outcomes.finish()


def _score_names(chosen: Metrics, rank_by: str | None) -> tuple[str, ...]:
    """The scores to compute, the one of --rank-by first."""
    from bpmcli.core.compare.scores import ALL_CLASSES, PROPER, score_names
    from bpmcli.core.metrics import calibration_errors

    known = [*calibration_errors(), *PROPER, *ALL_CLASSES]
    names = score_names(list(dict.fromkeys(chosen.resolve(known=known))) if chosen.metric else None)
    return tuple(dict.fromkeys([rank_by, *names] if rank_by else names))


def _compared(task: Any, todo: Sequence[Any], results: Any, outcomes: Outcomes) -> Iterator[Any]:
    """The comparison of every pair of files, once all of its repeats are done."""
    from bpmcli.engines.local import first_error
    from bpmcli.tasks.compare import Compared

    shown = console.progress(results, len(todo), "comparing")
    for pair, group in groupby(zip(todo, shown, strict=True), key=lambda done: done[0][0]):
        parts: list[Any] = [part for _, part in group]
        error = first_error(parts)
        if error is not None:
            outcomes.fail(pair.name, error)
            continue
        where = outcomes.where(pair.name)
        console.show_notices([n for p in parts for n in p.notices], where)
        scores = task.table(parts)
        _note_missing(where, parts[0], scores, task.contest.sizes)
        yield Compared(pair, parts[0], scores)


def _pairs(inputs: list[str] | None, fair: FairComparison) -> list[Any]:
    """Which file each calibrator is fitted to, and which file it is judged on."""
    from bpmcli.io.paths import expand
    from bpmcli.tasks.compare import FilePair

    fit, judge = fair.calibration or [], fair.evaluation or []
    if bool(inputs) == bool(fit or judge):
        raise UsageError("give --calibration and --evaluation, or files to cross-validate", EXAMPLE)
    if inputs:
        return [FilePair(item.path, item.path) for item in expand(inputs)]
    if len(fit) != len(judge):
        message = f"{len(fit)} --calibration but {len(judge)} --evaluation"
        raise UsageError(message, "give one of each, in the same order")
    if fair.in_sample:
        raise UsageError("--in-sample takes one file", f"bpmcli compare calibrators {judge[0]} --in-sample")
    for a, b in zip(fit, judge, strict=True):
        if _same_file(a, b):
            raise UsageError(
                f"{b} would be judged by calibrators fitted to the same rows",
                f"hold rows out with `bpmcli compare calibrators {b}`, or add --in-sample to that",
            )
    return [FilePair(a, b) for a, b in zip(fit, judge, strict=True)]


def _same_file(a: str, b: str) -> bool:
    """Whether two files have the same name or the same bytes. Standard input is not read to find out."""
    from bpmcli.io.params import checksum
    from bpmcli.io.paths import expand

    if a == b or "-" in (a, b):
        return a == b
    known = [checksum(item.path) for path in (a, b) for item in expand([path])]
    return known[0] is not None and known[0] == known[-1]


def _note_missing(where: str, part: Any, scores: Sequence[Any], sizes: Sequence[int]) -> None:
    """What is missing from the table, and why."""
    at = f"{where}: " if where else ""
    if part.left_out:
        console.note(f"{at}left out, because {part.why}: {', '.join(part.left_out)}")
    shown = {s.calibration_rows for s in scores}
    if sizes and (beyond := [str(n) for n in sizes if n not in shown]):
        console.note(f"{at}{part.rows[0]:,} rows are too few for calibration sets of {', '.join(beyond)}")
    failed = dict.fromkeys((s.method, s.failed, s.draws, s.calibration_rows, s.reason) for s in scores if s.failed)
    for method, count, draws, size, reason in failed:
        often = f" in {count} of {draws} fits to {size} rows" if draws > 1 and sizes else ""
        console.note(f"{at}{method} failed{often}: {reason}")
