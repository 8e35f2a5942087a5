"""bpmcli apply: calibrate files with fitted parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from bpmcli.cli import console
from bpmcli.cli.options.calibrating import Applying
from bpmcli.cli.options.command import command_app, only
from bpmcli.cli.options.reading import Correct, Inputs, Reading, Work
from bpmcli.cli.options.showing import Other, Output
from bpmcli.cli.outcomes import Outcomes

Parameters = Annotated[str, typer.Argument(help="A parameter file that `bpmcli fit` wrote.", metavar="PARAMS")]


def apply(
    params: Parameters,
    inputs: Inputs,
    *,
    output: Annotated[Output, only("output", "output_dir", "force")],
    applying: Applying,
    read: Reading,
    correct: Annotated[Correct, only("multi_label")],
    work: Annotated[Work, only("jobs")],
    other: Annotated[Other, only("quiet")],
) -> int:
    """Calibrate files with fitted parameters. The predicted class stays the same unless you allow it to change.

    \b
      bpmcli apply params.json test.npz -o calibrated.npz
      bpmcli apply params.json runs/ --output-dir calibrated/ -j 0
      cat scores.csv | bpmcli apply params.json - > calibrated.csv
    """
    from bpmcli.engines.local import work as each
    from bpmcli.io.outputs import plan_jobs
    from bpmcli.io.params import load_params
    from bpmcli.tasks.apply import ApplyFile

    output.resolve(), other.resolve(), work.resolve()
    columns, outcomes = correct.resolve(read.resolve()), Outcomes()
    as_probs = applying.resolve()
    task = ApplyFile(load_params(params), columns, applying.allow_argmax_change, as_probs, judge=not console.quiet)
    made_with = [task.params.document, columns._asdict(), task.allow_argmax_change, as_probs]
    jobs, current = plan_jobs(inputs, output.output, output.output_dir, made_with, output.force, params)
    outcomes.inputs = len(jobs) + current
    mean = "mean P(y = 1)" if task.params.target == "event" else "mean confidence"
    _calibrate(jobs, each(task, jobs, work.jobs), outcomes, mean)
    if current:
        console.note(f"{current} of {outcomes.inputs} outputs are up to date (--force redoes them)")
    return outcomes.finish()


app = command_app(apply)


def _calibrate(jobs: Sequence[Any], results: Any, outcomes: Outcomes, mean: str) -> None:
    """Print what was written. A notice is shown for the first file that has it and counted for the others."""
    counts: Counter[str] = Counter()
    for position, done in outcomes.good([job.path for job in jobs], results, "calibrating"):
        path, target = jobs[position][:2]
        new = [notice for notice in done.notices if not counts[notice.code]]
        counts.update(notice.code for notice in done.notices)
        if new:
            console.show_notices(new, outcomes.where(path))
        if target != "-" or done.judged:
            change = f"{mean} {done.mean_before:.5f} -> {done.mean_after:.5f}"
            written = "standard output" if target == "-" else done.output
            console.note(f"{path} -> {written}: {done.rows:,} rows, {change}")
        if done.judged:
            console.note(f"  before: {done.judged.before}")
            console.note(f"  after: {done.judged.after}")
    for code, count in counts.items():
        if count > 1:
            others = "1 more file has" if count == 2 else f"{count - 1} more files have"
            console.note(f"note: {others} the notice '{code}'")
