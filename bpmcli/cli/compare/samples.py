"""bpmcli compare samples: how many rows each method needs for a given error."""

from __future__ import annotations

from typing import Annotated

import typer

from bpmcli.cli.compare.truths import TruthArgs, facts, parse_sizes, records, write_tidy
from bpmcli.cli.options import CurveArgs, InputArgs, OutputArgs, Seed, command
from bpmcli.errors import UsageError

SIZES = "125:32000:x2"
HISTOGRAMS = ("hb-10", "hb-15", "hb-25", "hb-50")
"""Bin counts in which the paper's 3/B is looked at."""


@command
def compare_samples(
    error: Annotated[float, typer.Option("--error", help="The error to reach: mean |estimated - true| over the confidences.")] = 0.02,
    delta: Annotated[float, typer.Option("--delta", help="Share of runs that may miss it.")] = 0.05,
    method: Annotated[list[str] | None, typer.Option("--method", "-m", help="Only this method (bpm is always there); hb-15 is histogram binning with 15 bins; repeatable.")] = None,
    n_bins: Annotated[int, typer.Option("--n-bins", help="Bins of the method histogram.")] = 15,
    seed: Seed = 0,
    *,
    truths: TruthArgs,
    read: InputArgs,
    curve: CurveArgs,
    output: OutputArgs,
) -> int:  # fmt: skip
    """The rows each method needs for a given error; tests the paper's claim that bpm needs 3/B of histogram binning's.

    \b
      bpmcli compare samples --truth D1,D5 --error 0.02 -j 0
      bpmcli compare samples --truth params.json --error 0.01 -n 500:64000:x2 --plot samples.png
    """
    from bpmcli.cli.render import Table, show
    from bpmcli.core.calibrators import FitOptions
    from bpmcli.core.compare.curves_on_truth import FitDraw, curve_methods
    from bpmcli.core.compare.metrics_on_truth import draws
    from bpmcli.core.compare.sample_size import PARAMETERS, needs, sufficient_rows

    format_ = output.resolve()
    if not 0 < error < 1:
        raise UsageError(f"--error must be between 0 and 1, not {error:g}")
    if not 0 < delta < 1:
        raise UsageError(f"--delta must be between 0 and 1, not {delta:g}")
    options = FitOptions(curve.resolve(n_bins), n_bins=n_bins)
    methods = tuple(curve_methods([*curve_methods(), *HISTOGRAMS] if method is None else method))
    source = truths.source(read, seed)
    sizes = parse_sizes(truths.rows or SIZES)
    bound = sufficient_rows(PARAMETERS, error, delta)
    # One size more: there the paper promises the error, and the promise is looked at.
    tried = sorted({*sizes, bound}) if bound <= max(sizes) else sizes
    task = FitDraw(source, methods, options)
    setting = {"of": "curves", "methods": methods, "options": repr(options), "seed": seed}
    done = truths.work(task, draws(source.truths, tried, truths.runs), "simulating", setting)
    found = needs(done, error, delta)
    shown = ["truth", "method", "n_mean", "n_sure", "bpm_share", "claim", "bound", "held", "best_error"]
    title = f"rows for an error of {error:g}, on average and in {1 - delta:.4g} of {truths.runs} runs; sizes {tried[0]} … {tried[-1]}"
    show(
        format_,
        Table(shown, [[getattr(f, k) for k in shown] for f in found], title),
        {
            "schema": "bpmcli/truth-samples", "version": 1, "runs": truths.runs, "seed": seed, "error": error,
            "delta": delta, "sizes": tried, "truths": facts(source, options.metrics.p), "needs": records(found),
        },
    )  # fmt: skip
    if truths.out:
        write_tidy(truths.out, records(found))
    if truths.plot:
        from bpmcli.plots.samples import draw_samples

        draw_samples(truths.plot, done, error)
    return 0
