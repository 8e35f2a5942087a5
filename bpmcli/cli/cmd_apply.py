"""bpmcli apply: calibrate files with fitted parameters."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from bpmcli.cli.options import BatchArgs, InputArgs, Inputs, OutputArgs, command
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
    read: InputArgs,
    batch: BatchArgs,
    output: OutputArgs,
) -> int:  # fmt: skip
    """Write calibrated confidences, or whole distributions that keep the predicted class.

    \b
      bpmcli apply params.json test.npz -o calibrated.npz
      bpmcli apply params.json runs/ --output-dir calibrated/ -j 0
      cat scores.csv | bpmcli apply params.json - > calibrated.csv
    """
    from bpmcli.cli import console
    from bpmcli.engines.applying import ApplyFile, output_suffix
    from bpmcli.engines.local import work
    from bpmcli.io.params import load_params
    from bpmcli.io.paths import expand

    output.resolve()
    loaded = load_params(params)
    items = expand(inputs)
    if out and output_dir:
        raise UsageError("-o and --output-dir exclude each other")
    if len(items) > 1 and not output_dir:
        raise UsageError(f"{len(items)} inputs need {len(items)} outputs", "--output-dir DIR")
    jobs, fresh = [], 0
    for item in items:
        suffix = output_suffix(item.path, out)
        target = os.path.join(output_dir, item.relative) if output_dir else out or "-"
        if output_dir and suffix == ".npz":
            target = os.path.splitext(target)[0] + ".npz"
        if (
            target != "-"
            and os.path.exists(target)
            and os.path.exists(item.path)
            and os.path.samefile(target, item.path)
        ):
            raise UsageError(f"{target} is the input itself", "write to another file")
        if output_dir and not force and _up_to_date(target, item.path, params):
            fresh += 1
            continue
        jobs.append((item.path, target, suffix))
    task, code = ApplyFile(loaded, read.resolve(), allow_argmax_change), 0
    for job, result in zip(jobs, console.progress(work(task, jobs, batch.jobs), len(jobs), "calibrating"), strict=True):
        if isinstance(result, BpmError):
            console.show_error(result)
            code = result.exit_code if len(items) == 1 else 3
            continue
        console.show_notices(result.notices, job[0] if len(items) > 1 else "")
        if job[1] != "-":
            change = f"mean confidence {result.mean_before:.5f} -> {result.mean_after:.5f}"
            console.note(f"{job[0]} -> {result.output}: {result.rows} rows, {change}")
    if fresh:
        console.note(f"{fresh} of {len(items)} outputs are up to date (--force redoes them)")
    return code


def _up_to_date(target: str, *sources: str) -> bool:
    try:
        return os.path.getmtime(target) >= max(os.path.getmtime(s) for s in sources)
    except OSError:
        return False
