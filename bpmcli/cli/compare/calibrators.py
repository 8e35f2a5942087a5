"""bpmcli compare calibrators: which one to ship, judged on rows it was not fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any

import typer

from bpmcli.cli.compare.truths import check_targets, parse_sizes, write_tidy
from bpmcli.cli.options import CurveArgs, InputArgs, OutputArgs, Seed, command
from bpmcli.errors import UsageError

FOLDS, REPEATS, JACKKNIFE = 5, 4, 10
"""Cross-validation; and the folds of separate evaluation rows that standard errors come from."""


@command
def compare_calibrators(
    inputs: Annotated[list[str] | None, typer.Argument(help="Files, globs, directories, or -: cross-validated.", metavar="[INPUT...]")] = None,
    calibration: Annotated[list[str] | None, typer.Option("--calibration", metavar="FILE", help="Fit here; repeatable, with one --evaluation each.")] = None,
    evaluation: Annotated[list[str] | None, typer.Option("--evaluation", metavar="FILE", help="Score here.")] = None,
    method: Annotated[list[str] | None, typer.Option("--method", help="Only this calibrator; repeatable.")] = None,
    metric: Annotated[list[str] | None, typer.Option("--metric", "-m", help="Only this metric, beside brier, nll and kept; repeatable.")] = None,
    rank_by: Annotated[str, typer.Option("--rank-by", metavar="SCORE", help="The score that decides, and that a learning curve shows.")] = "nll",
    folds: Annotated[int | None, typer.Option("--folds", help=f"Folds, shuffled and stratified by hit [{FOLDS}]; of separate evaluation rows, for standard errors [{JACKKNIFE}].")] = None,
    repeats: Annotated[int | None, typer.Option("--repeats", help=f"Cross-validations, each shuffled anew [{REPEATS}].")] = None,
    in_sample: Annotated[bool, typer.Option("--in-sample", help="Score on the very rows that were fitted, and say so in the table.")] = False,
    learning_curve: Annotated[str | None, typer.Option("--learning-curve", metavar="N,N,…", help="Calibration sets of these sizes.")] = None,
    out: Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help="Also as a tidy csv, parquet or json file.")] = None,
    n_bins: Annotated[int, typer.Option("--n-bins", help="Bins of ece, ece-debiased and histogram.")] = 15,
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="Processes; 0 = one per core.")] = 1,
    seed: Seed = 0,
    *,
    read: InputArgs,
    curve: CurveArgs,
    output: OutputArgs,
) -> int:  # fmt: skip
    """Every calibrator on rows it was not fitted to: all metrics, Brier, NLL, predicted classes kept.

    \b
      bpmcli compare calibrators --calibration val.npz --evaluation test.npz
      bpmcli compare calibrators model.npz --folds 5 --repeats 4 -j 0
      bpmcli compare calibrators runs/*.npz -o scores.csv           ranks over many models
      bpmcli compare calibrators model.npz --learning-curve 100,200,500,1000 --rank-by ece
    """
    from bpmcli.cli import console
    from bpmcli.core.calibrators import METHODS, FitOptions, method_named
    from bpmcli.core.compare.cross_validation import CROSS_VALIDATED, HELD_OUT, IN_SAMPLE, Contest
    from bpmcli.core.compare.scores import check_score_name, score_names
    from bpmcli.core.metrics import check_metric_names
    from bpmcli.engines.local import first_error, work
    from bpmcli.tasks.compare import Compared, ComparePair

    format_ = output.resolve()
    check_targets(out, None)
    names = score_names(check_metric_names(dict.fromkeys(metric)) if metric else None)
    if check_score_name(rank_by) not in names:
        names.insert(0, rank_by)
    kind = IN_SAMPLE if in_sample else HELD_OUT if calibration or evaluation else CROSS_VALIDATED
    pairs = _pairs(inputs, calibration, evaluation, in_sample)
    if in_sample and learning_curve:
        raise UsageError("--in-sample and --learning-curve exclude each other", "a learning curve is always held out")
    if kind != CROSS_VALIDATED and repeats is not None and not learning_curve:
        raise UsageError("--repeats goes with cross-validation or --learning-curve", "leave it out")
    sizes = tuple(parse_sizes(learning_curve)) if learning_curve else ()
    once = kind != CROSS_VALIDATED and not sizes
    contest = Contest(
        tuple(method_named(m).name for m in dict.fromkeys(method or METHODS)), tuple(names),
        FitOptions(curve.resolve(n_bins), n_bins=n_bins), _at_least("--folds", folds, JACKKNIFE if once else FOLDS, 2),
        _at_least("--repeats", repeats, REPEATS, 1), _at_least("--seed", seed, 0, 0), sizes,
    )  # fmt: skip
    task = ComparePair(read.resolve(), contest, kind)
    todo = task.items(pairs)
    results = console.progress(work(task, todo, 1 if "-" in (inputs or ()) else jobs), len(todo), "comparing")
    found: list[Compared] = []
    code = 0
    for pair, group in groupby(zip(todo, results, strict=True), key=lambda done: done[0][0]):
        parts: list[Any] = [part for _, part in group]
        error = first_error(parts)
        if error is not None:
            console.show_error(error)
            code = error.exit_code if len(pairs) == 1 else 3
            continue
        where = pair.name if len(pairs) > 1 else ""
        console.show_notices([n for p in parts for n in p.notices], where)
        scores = task.table(parts)
        _explain(where, parts[0].left_out, scores, sizes, parts[0].rows[0])
        found.append(Compared(pair, parts[0], scores))
    if found:
        _show(format_, found, contest, kind, rank_by)
        if out:
            write_tidy(out, _tidy(found, kind))
    return code


def _pairs(
    inputs: list[str] | None, calibration: list[str] | None, evaluation: list[str] | None, in_sample: bool
) -> Any:
    from bpmcli.io.params import checksum
    from bpmcli.io.paths import expand
    from bpmcli.tasks.compare import Pair

    fit, score = calibration or [], evaluation or []
    if bool(inputs) == bool(fit or score):
        raise UsageError("give --calibration and --evaluation, or files to cross-validate", "bpmcli compare calibrators --calibration val.npz --evaluation test.npz")  # fmt: skip
    if inputs:
        return [Pair(item.path, item.path) for item in expand(inputs)]
    if len(fit) != len(score):
        raise UsageError(f"{len(fit)} --calibration but {len(score)} --evaluation", "give one of each, in the same order")  # fmt: skip
    if in_sample:
        raise UsageError("--in-sample takes one file", f"bpmcli compare calibrators {score[0]} --in-sample")
    for a, b in zip(fit, score, strict=True):
        known = [checksum(e.path) for x in (a, b) for e in expand([x])] if "-" not in (a, b) else [a, b]
        if a == b or (known[0] is not None and known[0] == known[-1]):
            raise UsageError(f"{b} would be scored by calibrators fitted to the same rows", f"leave rows out: bpmcli compare calibrators {b}, or ask for it: --in-sample")  # fmt: skip
    return [Pair(a, b) for a, b in zip(fit, score, strict=True)]


def _at_least(option: str, value: int | None, default: int, least: int) -> int:
    if value is not None and value < least:
        raise UsageError(f"{option} must be at least {least}, not {value}")
    return default if value is None else value


def _explain(where: str, left_out: Sequence[str], scores: Sequence[Any], sizes: Sequence[int], rows: int) -> None:
    """What is missing from the table, and why."""
    from bpmcli.cli import console

    at = f"{where}: " if where else ""
    if left_out:
        console.note(f"{at}left out, as they need the scores of all classes and the input has only confidences: {', '.join(left_out)}")  # fmt: skip
    shown = {s.calibration_rows for s in scores}
    if sizes and (beyond := [str(n) for n in sizes if n not in shown]):
        console.note(f"{at}too few of {rows} rows for calibration sets of {', '.join(beyond)}")
    told = dict.fromkeys((s.method, s.failed, s.draws, s.calibration_rows, s.reason) for s in scores if s.failed)
    for method, failed, draws, size, reason in told:
        often = f"in {failed} of {draws} fits" + (f" to {size} rows" if sizes else "") if draws > 1 and sizes else ""
        console.note(f"{at}{method} failed {often}".rstrip() + f": {reason}")


def _show(format_: str, found: Sequence[Any], contest: Any, kind: str, rank_by: str) -> None:
    from bpmcli.cli.compare.calibrator_tables import STATED, one_input, ranking
    from bpmcli.cli.render import Table, show
    from bpmcli.core.compare.cross_validation import IN_SAMPLE
    from bpmcli.core.compare.score_table import BEST, CLOSE, ranks

    places = ranks([scores for _, _, scores in found], bool(contest.sizes)) if len(found) > 1 else []
    if format_ == "csv":
        tidy = _tidy(found, kind)
        view = Table(list(tidy[0]), [list(row.values()) for row in tidy])
    elif places:
        view = ranking(places, contest, kind, rank_by, len(found))
    else:
        view = one_input(found[0], contest, kind, rank_by)
    documents = []
    for pair, part, scores in found:
        decided = [s for s in scores if s.score == rank_by]
        choice = {mark: [s.method for s in decided if s.mark == mark] for mark in (BEST, CLOSE)}
        documents.append({
            "input": pair.evaluation, "calibration": pair.calibration, "rows": list(part.rows), "left_out": part.left_out,
            "choice": None if contest.sizes or kind == IN_SAMPLE else {"by": rank_by, "best": choice[BEST], "not_significantly_worse": choice[CLOSE]},
            "scores": [asdict(s) for s in scores],
        })  # fmt: skip
    show(format_, view, {
        "schema": "bpmcli/calibrator-comparison", "version": 1, "evaluation": kind, "test": STATED[kind],
        "folds": contest.folds, "repeats": contest.repeats, "seed": contest.seed,
        "inputs": documents, "ranks": [asdict(p) for p in places],
    })  # fmt: skip


def _tidy(found: Sequence[Any], kind: str) -> list[dict[str, Any]]:
    return [
        {"input": pair.evaluation, "calibration": pair.calibration, "evaluation": kind, **asdict(s)}
        for pair, _, scores in found
        for s in scores
    ]
