"""bpmcli compare curves: the curve of every calibrator against a known true curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from bpmcli.cli import console
from bpmcli.cli.compare.simulated import (
    check_targets,
    facts,
    fit_options,
    records,
    run_draws,
    source_of_truths,
    truth_files,
    write_tidy,
)
from bpmcli.cli.options.calibrating import Calibrators
from bpmcli.cli.options.command import command, only, without
from bpmcli.cli.options.measuring import Details
from bpmcli.cli.options.reading import Reading, Work
from bpmcli.cli.options.showing import Other, Output
from bpmcli.cli.options.truths import Truths

SIZES = "10000"
"""The paper's EAD table has N = 10,000."""
SHOWN = ("truth", "n", "method", "ead", "ead_sd", "error", "error_sd", "better", "p_value")

METHOD = only("method", help={"method": "Only this method (bpm is always included); hb-15 is histogram binning with 15 bins; repeatable."})  # fmt: skip
TIDY = only("output", "plot", "format", help={"output": "Also write a tidy csv, parquet or json file."})
JOBS = only("jobs", help={"jobs": "Run this many processes; 0 means one per core."})


@command
def compare_curves(
    *,
    truths: Truths,
    calibrators: Annotated[Calibrators, METHOD],
    output: Annotated[Output, TIDY],
    work: Annotated[Work, JOBS],
    read: Reading,
    details: Annotated[Details, without("binning")],
    other: Other,
) -> int:
    """Measure how far fitted curves are from the true curve: EAD, and a paired test against bpm.

    \b
      bpmcli compare curves --truth D1,D2,D3,D4,D5 -n 10000 --runs 100 -j 0
      bpmcli compare curves --truth logit-logit:-0.88,0.49@1.12,0.11 --plot c.png
      bpmcli compare curves --truth params.json --density-from test.npz
    """
    from bpmcli.core.compare.curves_on_truth import FitDraw, curve_methods, score_curves
    from bpmcli.core.compare.metrics_on_truth import draws

    format_, seed, options = output.resolve(), other.resolve(), fit_options(details)
    sizes = truths.resolve(SIZES)
    work.resolve()
    check_targets(output, truth_files(truths))
    methods = tuple(curve_methods(calibrators.method))
    source = source_of_truths(truths, read.resolve(), seed)
    if calibrators.method is None:
        _note_left_out()
    task = FitDraw(source, methods, options)
    setting = {"of": "curves", "methods": methods, "options": repr(options), "seed": seed}
    scores = score_curves(run_draws(task, draws(source.truths, sizes, truths.runs), work.jobs, truths.resume, setting))
    _show(format_, scores, facts(source, options.metrics.p), truths.runs, seed)
    write_tidy(output.output, records(scores))
    if output.plot:
        from bpmcli.plots.curves import draw_truth_curves

        draw_truth_curves(output.plot, task, sizes[-1], truths.runs)
    return 0


def _note_left_out() -> None:
    from bpmcli.core.calibrators import METHODS

    left_out = [name for name, entry in METHODS.items() if entry.needs_distribution]
    if left_out:
        console.note(f"left out, because they need the scores of all classes: {', '.join(left_out)}")


def _show(format_: str, scores: Sequence[Any], truths: Sequence[Any], runs: int, seed: int) -> None:
    from bpmcli.cli.render import Table, show

    by_eye = format_ in ("table", "markdown")
    rows = [[getattr(s, k) for k in SHOWN] for s in scores]
    if by_eye:
        rows = [[*row[:-1], None if row[-1] is None else f"{row[-1]:.2g}"] for row in rows]
    title = f"{runs} data sets each; P-value: Wilcoxon signed-rank test of the EAD against bpm's"
    document = {"schema": "bpmcli/truth-curves", "version": 1, "runs": runs, "seed": seed, "truths": truths}
    show(format_, Table(SHOWN, rows, title), {**document, "scores": records(scores)})
