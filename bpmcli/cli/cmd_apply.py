"""bpmcli apply: calibrate files with fitted parameters."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from bpmcli.cli import console
from bpmcli.cli.options.calibrating import Applying
from bpmcli.cli.options.command import command_app, only
from bpmcli.cli.options.reading import Input, Inputs, Work
from bpmcli.cli.options.showing import Other, Output
from bpmcli.cli.outcomes import Outcomes
from bpmcli.errors import UsageError

Parameters = Annotated[str, typer.Argument(help="A parameter file that `bpmcli fit` wrote.", metavar="PARAMS")]


def apply(
    params: Parameters,
    inputs: Inputs,
    *,
    output: Annotated[Output, only("output", "output_dir", "force")],
    applying: Applying,
    read: Input,
    work: Annotated[Work, only("jobs")],
    other: Annotated[Other, only("quiet")],
) -> int:
    """Write calibrated confidences, or whole distributions that keep the predicted class.

    \b
      bpmcli apply params.json test.npz -o calibrated.npz
      bpmcli apply params.json runs/ --output-dir calibrated/ -j 0
      cat scores.csv | bpmcli apply params.json - > calibrated.csv
    """
    from bpmcli.engines.local import work as each
    from bpmcli.io.outputs import Record, origin_of
    from bpmcli.io.params import checksum, load_params
    from bpmcli.tasks.apply import ApplyFile

    output.resolve(), other.resolve(), work.resolve()
    task = ApplyFile(load_params(params), read.resolve(), applying.allow_argmax_change)
    planned = _plan(inputs, output)
    made_with = {
        "params": checksum(params),
        "options": asdict(task.options),
        "allow_argmax_change": task.allow_argmax_change,
    }
    origins = {target: origin_of(path, **made_with) for path, target, _ in planned}
    record = Record(output.output_dir) if output.output_dir else None
    stale = [job for job in planned if output.force or not (record and record.is_current(job[1], origins[job[1]]))]
    outcomes = Outcomes(len(planned))
    made = _calibrate(stale, each(task, stale, work.jobs), outcomes)
    if record:
        record.save({target: origins[target] for target in made})
    if len(stale) < len(planned):
        console.note(f"{len(planned) - len(stale)} of {len(planned)} outputs are up to date (--force redoes them)")
    return outcomes.finish()


app = command_app(apply)


def _plan(inputs: Sequence[str], output: Output) -> list[tuple[str, str, str]]:
    """Input, output and suffix of the output's format, for every input."""
    from bpmcli.io.outputs import output_paths, spare_inputs
    from bpmcli.io.paths import expand
    from bpmcli.tasks.apply import output_suffix

    items = expand(inputs)
    if output.output_dir:
        # Outputs of an earlier run are not inputs of this one.
        items = [item for item in items if not _is_below(item.path, output.output_dir)]
    elif len(items) > 1:
        raise UsageError(f"{len(items)} inputs need {len(items)} outputs", "--output-dir DIR")
    suffixes = [output_suffix(item.path, output.output) for item in items]
    targets = [output.output or "-"] * len(items)
    if output.output_dir:
        targets = output_paths(items, output.output_dir, suffixes)
    spare_inputs(items, *targets)
    return [(item.path, target, suffix) for item, target, suffix in zip(items, targets, suffixes, strict=True)]


def _is_below(path: str, folder: str) -> bool:
    return os.path.abspath(path).startswith(os.path.abspath(folder) + os.sep)


def _calibrate(jobs: Sequence[tuple[str, str, str]], results: Any, outcomes: Outcomes) -> list[str]:
    """The outputs that were written. A notice is shown for the first file that has it and counted for the others."""
    made: list[str] = []
    counts: Counter[str] = Counter()
    for position, done in outcomes.good([path for path, _, _ in jobs], results, "calibrating"):
        path, target, _ = jobs[position]
        made.append(target)
        new = [notice for notice in done.notices if not counts[notice.code]]
        counts.update(notice.code for notice in done.notices)
        if new:
            console.show_notices(new, outcomes.where(path))
        if target != "-":
            change = f"mean confidence {done.mean_before:.5f} -> {done.mean_after:.5f}"
            console.note(f"{path} -> {done.output}: {done.rows} rows, {change}")
    for code, count in counts.items():
        if count > 1:
            others = "1 more file has" if count == 2 else f"{count - 1} more files have"
            console.note(f"note: {others} the notice '{code}'")
    return made
