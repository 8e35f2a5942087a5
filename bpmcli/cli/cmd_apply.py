"""bpmcli apply: calibrate files with fitted parameters."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from bpmcli.cli.options import InputArgs, Inputs, Jobs, QuietArgs, command
from bpmcli.errors import BpmError, UsageError

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@command
def apply(
    params: Annotated[str, typer.Argument(help="A parameter file that `bpmcli fit` wrote.", metavar="PARAMS")],
    inputs: Inputs,
    out: Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help="Output; its suffix is the format.")] = None,
    output_dir: Annotated[str | None, typer.Option("--output-dir", metavar="DIR", help="One output per input, in the same tree.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also redo outputs that are up to date.")] = False,
    allow_argmax_change: Annotated[bool, typer.Option("--allow-argmax-change", help="Let the predicted class change.")] = False,
    *,
    jobs_: Jobs = 1,
    read: InputArgs,
    said: QuietArgs,
) -> int:  # fmt: skip
    """Write calibrated confidences, or whole distributions that keep the predicted class.

    \b
      bpmcli apply params.json test.npz -o calibrated.npz
      bpmcli apply params.json runs/ --output-dir calibrated/ -j 0
      cat scores.csv | bpmcli apply params.json - > calibrated.csv
    """
    from bpmcli.cli import console
    from bpmcli.engines.local import work
    from bpmcli.io.outputs import Record, origin_of, output_paths, spare_inputs
    from bpmcli.io.params import checksum, load_params
    from bpmcli.io.paths import expand
    from bpmcli.tasks.apply import ApplyFile, output_suffix

    said.resolve()
    loaded = load_params(params)
    items = expand(inputs)
    if out and output_dir:
        raise UsageError("-o and --output-dir exclude each other")
    if output_dir:
        # Outputs of an earlier run are no inputs of this one.
        items = [item for item in items if not _is_below(item.path, output_dir)]
    elif len(items) > 1:
        raise UsageError(f"{len(items)} inputs need {len(items)} outputs", "--output-dir DIR")
    suffixes = [output_suffix(item.path, out) for item in items]
    targets = output_paths(items, output_dir, suffixes) if output_dir else [out or "-"] * len(items)
    options = read.resolve()
    made_with = {"params": checksum(params), "options": asdict(options), "allow_argmax_change": allow_argmax_change}
    record = Record(output_dir) if output_dir else None
    spare_inputs(items, *targets)
    jobs, origins = [], {}
    for item, target, suffix in zip(items, targets, suffixes, strict=True):
        origins[target] = origin_of(item.path, **made_with)
        if record and not force and record.is_current(target, origins[target]):
            continue
        jobs.append((item.path, target, suffix))
    task, code, made, counts = ApplyFile(loaded, options, allow_argmax_change), 0, {}, Counter[str]()
    for job, result in zip(jobs, console.progress(work(task, jobs, jobs_), len(jobs), "calibrating"), strict=True):
        if isinstance(result, BpmError):
            console.show_error(result)
            code = result.exit_code if len(items) == 1 else 3
            continue
        made[job[1]] = origins[job[1]]
        for found in result.notices:
            counts[found.code] += 1
            if counts[found.code] == 1:
                console.show_notices([found], job[0] if len(items) > 1 else "")
        if job[1] != "-":
            change = f"mean confidence {result.mean_before:.5f} -> {result.mean_after:.5f}"
            console.note(f"{job[0]} -> {result.output}: {result.rows} rows, {change}")
    for name, count in counts.items():
        if count > 1:
            console.note(f"note: {count - 1} more files have the notice '{name}'")
    if record:
        record.save(made)
    if len(jobs) < len(items):
        console.note(f"{len(items) - len(jobs)} of {len(items)} outputs are up to date (--force redoes them)")
    return code


def _is_below(path: str, folder: str) -> bool:
    return os.path.abspath(path).startswith(os.path.abspath(folder) + os.sep)
