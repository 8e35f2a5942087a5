"""Comparisons of calibrators as tables and documents: marks, standard errors, and what the marks mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bpmcli.cli.render import Cell, Table, short, show
from bpmcli.core.compare.cross_validation import CROSS_VALIDATED, HELD_OUT, IN_SAMPLE, Contest
from bpmcli.core.compare.score_table import BEST, CLOSE, CalibratorScore, Rank, ranks
from bpmcli.core.compare.scores import ranking_caveat
from bpmcli.tasks.compare import Compared, FilePair, RepeatResult

MARKS = {BEST: "*", CLOSE: "~", "": ""}

STATED = {
    CROSS_VALIDATED: "paired t-test over folds, corrected for their overlap (Nadeau-Bengio) and for the number of "
    "methods (Holm), one-sided, 5 %",
    HELD_OUT: "paired t-test, jackknife over folds of the evaluation rows, corrected for the number of methods (Holm), "
    "one-sided, 5 %",
}
STATED[IN_SAMPLE] = STATED[HELD_OUT]


def show_comparison(format_: str, found: Sequence[Compared], contest: Contest, kind: str, rank_by: str) -> None:
    """One input: its scores. Several: mean ranks over all of them. csv: every score of every input."""
    places = ranks([one.scores for one in found], bool(contest.sizes)) if len(found) > 1 else []
    if format_ == "csv":
        lines = tidy(found, kind)
        table = Table(list(lines[0]), [list(line.values()) for line in lines])
    elif places:
        table = ranking(places, contest, kind, rank_by, len(found))
    else:
        table = one_input(found[0], contest, kind, rank_by)
    decides = not contest.sizes and kind != IN_SAMPLE
    document = {
        "schema": "bpmcli/calibrator-comparison", "version": 1, "evaluation": kind, "test": STATED[kind],
        "folds": contest.folds, "repeats": contest.repeats, "seed": contest.seed,
        "inputs": [_described(one, rank_by, decides) for one in found], "ranks": [asdict(p) for p in places],
    }  # fmt: skip
    show(format_, table, document)


def tidy(found: Sequence[Compared], kind: str) -> list[dict[str, Any]]:
    """One line per input, calibrator and score."""
    return [
        {"input": pair.evaluation, "calibration": pair.calibration, "evaluation": kind, **asdict(s)}
        for pair, _, scores in found
        for s in scores
    ]


def _described(one: Compared, rank_by: str, decides: bool) -> dict[str, Any]:
    """One input as JSON holds it; `decides` if its figures justify a choice."""
    decisive = [s for s in one.scores if s.score == rank_by]
    marked = {mark: [s.method for s in decisive if s.mark == mark] for mark in (BEST, CLOSE)}
    choice = {"by": rank_by, "best": marked[BEST], "not_significantly_worse": marked[CLOSE]}
    return {
        "input": one.pair.evaluation,
        "calibration": one.pair.calibration,
        "rows": list(one.part.rows),
        "left_out": one.part.left_out,
        "choice": choice if decides else None,
        "scores": [asdict(s) for s in one.scores],
    }


def one_input(found: Compared, contest: Contest, kind: str, rank_by: str) -> Table:
    """A line per calibrator, best first; under each value its standard error."""
    pair, part, scores = found
    if contest.sizes:
        return _learning(pair, scores, contest, rank_by)
    methods = _ordered(scores, rank_by)
    names = [n for n in contest.names if any(s.value is not None for s in scores if s.score == n)]
    at = {(s.method, s.score): s for s in scores}
    rows: list[list[Cell]] = []
    for m in methods:
        rows.append([m, *(_marked(at[m, n]) for n in names)])
        rows.append(["  ±", *(_short_error(at[m, n]) for n in names)])
    title = [
        _what(pair, part, contest, kind),
        _choice(scores, kind, rank_by),
        *_legend(kind, names),
        ranking_caveat(rank_by) or "",
    ]
    return Table(["calibrator", *names], rows, title)


def _learning(pair: FilePair, scores: Sequence[CalibratorScore], contest: Contest, rank_by: str) -> Table:
    sizes = sorted({s.calibration_rows for s in scores})
    at = {(s.method, s.calibration_rows): s for s in scores if s.score == rank_by}
    methods = _ordered([s for s in scores if s.calibration_rows == sizes[-1]], rank_by)
    rows: list[list[Cell]] = []
    for m in methods:
        rows.append([m, *(_marked(at[m, n]) for n in sizes)])
        rows.append(["  ±", *(_short_error(at[m, n]) for n in sizes)])
    draws = contest.folds * contest.repeats
    title = (
        f"{pair.evaluation}: held-out {rank_by} by number of calibration rows, mean of {draws} draws "
        "and its standard error; * best"
    )
    return Table(["calibrator", *(str(n) for n in sizes)], rows, [title, ranking_caveat(rank_by) or ""])


def ranking(places: Sequence[Rank], contest: Contest, kind: str, rank_by: str, inputs: int) -> Table:
    """Mean ranks over several inputs: a column for each score, or for each size of a learning curve."""
    stamp = "in-sample: fitted and scored on the same rows; " if kind == IN_SAMPLE else f"{kind}; "
    own = sorted((p for p in places if p.score == rank_by), key=lambda p: (-(p.calibration_rows or 0), p.mean_rank))
    methods = list(dict.fromkeys(p.method for p in own))
    if contest.sizes:
        sizes = sorted({p.calibration_rows or 0 for p in places})
        at = {(p.method, p.calibration_rows): p.mean_rank for p in places if p.score == rank_by}
        rows: list[list[Cell]] = [[m, *(_place(at.get((m, n))) for n in sizes)] for m in methods]
        title = f"{stamp}mean rank by {rank_by} over {inputs} inputs, by number of calibration rows; 1 is best"
        return Table(["calibrator", *(str(n) for n in sizes)], rows, [title, ranking_caveat(rank_by) or ""])
    at_score = {(p.method, p.score): p for p in places}
    names = [n for n in contest.names if any(p.score == n for p in places)]
    rows = []
    for m in methods:
        place = at_score[m, rank_by]
        ranked = [at_score.get((m, n)) for n in names]
        counts = [place.inputs, place.best, place.best + place.close]
        rows.append([m, *counts, *(_place(p.mean_rank if p else None) for p in ranked)])
    title = (
        f"{stamp}mean rank over {inputs} inputs, 1 is best; ordered by {rank_by}; 'best' and 'close' are counted by "
        f"{rank_by} (close: best or not significantly worse, {STATED[kind]})"
    )
    return Table(["calibrator", "inputs", "best", "close", *names], rows, [title, ranking_caveat(rank_by) or ""])


def _ordered(scores: Sequence[CalibratorScore], rank_by: str) -> list[str]:
    """Methods, the best first; methods without a value come last."""
    own = [s for s in scores if s.score == rank_by]
    sign = -1.0 if rank_by == "kept" else 1.0
    return [s.method for s in sorted(own, key=lambda s: (s.value is None, sign * (s.value or 0.0)))]


def _what(pair: FilePair, part: RepeatResult, contest: Contest, kind: str) -> str:
    n, m = part.rows
    if kind == IN_SAMPLE:
        return f"in-sample: fitted and scored on the same {n:,} rows of {pair.evaluation}. Not a fair comparison"
    if kind == HELD_OUT:
        return f"held-out: fitted to {n:,} rows of {pair.calibration}, scored on {m:,} rows of {pair.evaluation}"
    times = f", {contest.repeats} times" if contest.repeats > 1 else ""
    return f"held-out: {contest.folds}-fold cross-validation of {n:,} rows of {pair.evaluation}{times}, stratified by outcome"


def _choice(scores: Sequence[CalibratorScore], kind: str, rank_by: str) -> str:
    if kind == IN_SAMPLE:
        return "no choice: in-sample scores favour the most flexible method"
    own = [s for s in scores if s.score == rank_by]
    best, close = ([s.method for s in own if s.mark == mark] for mark in (BEST, CLOSE))
    return f"by {rank_by}: {' and '.join(best) or 'none'} best; not significantly worse: {', '.join(close) or 'none'}"


def _legend(kind: str, names: Sequence[str]) -> tuple[str, str]:
    whole = "nll-all" in names  # otherwise every score is of the confidence, or of P(y = 1)
    return (
        f"* best, ~ not significantly worse ({STATED[kind]})",
        "nll, brier: predicted class only; nll-all, brier-all: all classes; kept: share of rows whose predicted class is unchanged"
        if whole
        else "",
    )


def _marked(score: CalibratorScore) -> str:
    return "-" if score.value is None else short(score.value) + MARKS[score.mark]


def _short_error(score: CalibratorScore) -> str:
    return "" if score.standard_error is None else short(score.standard_error)


def _place(rank: float | None) -> str:
    return "-" if rank is None else f"{rank:.2f}"
