"""bpmcli compare samples: how many rows each method needs for a given error."""

from __future__ import annotations

from typing import Annotated

from bpmcli.cli.compare.curves import JOBS, METHOD, TIDY
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
from bpmcli.cli.options.calibrating import Accuracy, Calibrators
from bpmcli.cli.options.command import command, without
from bpmcli.cli.options.measuring import Details
from bpmcli.cli.options.reading import Reading, Work
from bpmcli.cli.options.showing import Other, Output
from bpmcli.cli.options.truths import Truths

SIZES = "125:32000:x2"
HISTOGRAMS = ("hb-10", "hb-15", "hb-25", "hb-50")
"""Bin counts for which the paper's 3/B is checked."""
SHOWN = ("truth", "method", "n_mean", "n_sure", "bpm_share", "claim", "bound", "held", "best_error")


@command
def compare_samples(
    *,
    truths: Truths,
    goal: Accuracy,
    calibrators: Annotated[Calibrators, METHOD],
    output: Annotated[Output, TIDY],
    work: Annotated[Work, JOBS],
    read: Reading,
    details: Annotated[Details, without("binning")],
    other: Other,
) -> int:
    """Estimate how many rows each method needs for a given error.

    The paper claims that bpm needs 3/B as many rows as histogram binning with B bins; this command checks the claim.

    \b
      bpmcli compare samples --truth D1,D5 --error 0.02 -j 0
      bpmcli compare samples --truth params.json -n 500:64000:x2 --plot samples.png
    """
    from bpmcli.cli.render import Table, show
    from bpmcli.core.compare.curves_on_truth import FitDraw, curve_methods
    from bpmcli.core.compare.metrics_on_truth import draws
    from bpmcli.core.compare.sample_size import PARAMETERS, needs, sufficient_rows

    format_, seed, options = output.resolve(), other.resolve(), fit_options(details)
    (error, delta), sizes = goal.resolve(), truths.resolve(SIZES)
    work.resolve()
    check_targets(output, truth_files(truths))
    methods = tuple(curve_methods(calibrators.method or [*curve_methods(), *HISTOGRAMS]))
    source = source_of_truths(truths, read.resolve(), seed)
    bound = sufficient_rows(PARAMETERS, error, delta)
    # The number of rows that should suffice according to the paper is tried too.
    tried = sorted({*sizes, bound}) if bound <= max(sizes) else sizes
    task = FitDraw(source, methods, options)
    setting = {"of": "curves", "methods": methods, "options": repr(options), "seed": seed}
    done = run_draws(task, draws(source.truths, tried, truths.runs), work.jobs, truths.resume, setting)
    found = needs(done, error, delta)
    range_ = f"sizes {tried[0]} … {tried[-1]}"
    title = f"rows for an error of {error:g}, on average and in {1 - delta:.4g} of {truths.runs} runs; {range_}"
    document = {
        "schema": "bpmcli/truth-samples", "version": 1, "runs": truths.runs, "seed": seed, "error": error,
        "delta": delta, "sizes": tried, "truths": facts(source, options.metrics.p), "needs": records(found),
    }  # fmt: skip
    show(format_, Table(SHOWN, [[getattr(f, k) for k in SHOWN] for f in found], title), document)
    write_tidy(output.output, records(found))
    if output.plot:
        from bpmcli.plots.samples import draw_samples

        draw_samples(output.plot, done, error)
    return 0
