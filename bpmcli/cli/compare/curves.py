"""bpmcli compare curves: every calibrator's curve against a known true one."""

from __future__ import annotations

from typing import Annotated

import typer

from bpmcli.cli.compare.truths import TruthArgs, facts, parse_sizes, records, write_tidy
from bpmcli.cli.options import CurveArgs, InputArgs, OutputArgs, Seed, command

SIZES = "10000"
"""The paper's EAD table is N = 10,000."""


@command
def compare_curves(
    method: Annotated[list[str] | None, typer.Option("--method", "-m", help="Only this method (bpm is always there); hb-15 is histogram binning with 15 bins; repeatable.")] = None,
    n_bins: Annotated[int, typer.Option("--n-bins", help="Bins of the method histogram.")] = 15,
    seed: Seed = 0,
    *,
    truths: TruthArgs,
    read: InputArgs,
    curve: CurveArgs,
    output: OutputArgs,
) -> int:  # fmt: skip
    """How far fitted curves are from the true one: EAD, and a paired test against bpm.

    \b
      bpmcli compare curves --truth D1,D2,D3,D4,D5 -n 10000 --runs 100 -j 0
      bpmcli compare curves --truth logit-logit:-0.88,0.49@1.12,0.11 --plot curves.png
      bpmcli compare curves --truth params.json --density-from test.npz -n 500:4000:x2
    """
    from bpmcli.cli import console
    from bpmcli.cli.render import Table, show
    from bpmcli.core.calibrators import METHODS, FitOptions
    from bpmcli.core.compare.curves_on_truth import FitDraw, curve_methods, score_curves
    from bpmcli.core.compare.metrics_on_truth import draws

    format_ = output.resolve()
    options = FitOptions(curve.resolve(n_bins), n_bins=n_bins)
    methods = tuple(curve_methods(method))
    source = truths.source(read, seed)
    sizes = parse_sizes(truths.rows or SIZES)
    left_out = [name for name, entry in METHODS.items() if entry.needs_distribution]
    if left_out and method is None:
        console.note(f"left out, as they need the scores of all classes: {', '.join(left_out)}")
    task = FitDraw(source, methods, options)
    setting = {"of": "curves", "methods": methods, "options": repr(options), "seed": seed}
    scores = score_curves(truths.work(task, draws(source.truths, sizes, truths.runs), "simulating", setting))
    shown = ["truth", "n", "method", "ead", "ead_sd", "error", "error_sd", "better", "p_value"]
    rows = [[f"{s.p_value:.2g}" if k == "p_value" and s.p_value is not None else getattr(s, k) for k in shown] for s in scores]  # fmt: skip
    full = [[getattr(s, k) for k in shown] for s in scores]
    title = f"{truths.runs} data sets each; P-value: Wilcoxon signed-rank test of the EAD against bpm's"
    show(
        format_,
        Table(shown, rows if format_ in ("table", "markdown") else full, title),
        {
            "schema": "bpmcli/truth-curves", "version": 1, "runs": truths.runs, "seed": seed,
            "truths": facts(source, options.metrics.p), "scores": records(scores),
        },
    )  # fmt: skip
    if truths.out:
        write_tidy(truths.out, records(scores))
    if truths.plot:
        from bpmcli.plots.curves import draw_truth_curves

        draw_truth_curves(truths.plot, task, sizes[-1], truths.runs)
    return 0
