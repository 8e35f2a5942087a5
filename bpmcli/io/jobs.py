"""Which input is calibrated into which file, and which outputs are up to date already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bpmcli.errors import UsageError
from bpmcli.io.formats import suffix_of
from bpmcli.io.outputs import output_paths, spare_inputs, without_outputs
from bpmcli.io.paths import expand

OTHER_SUFFIX = {".npy": ".npz", ".eval": ".jsonl", ".json": ".jsonl"}
"""Formats that cannot hold the result, and what is written instead."""


class Job(NamedTuple):
    """One file to calibrate."""

    path: str
    output: str
    suffix: str
    """Of the output's format; "" if only reading the input tells it."""
    folder: str | None = None
    """Where the output is recorded, if it is one of many."""
    origin: str = ""
    """What the output is made from, see `io.output_record`."""


def plan_jobs(
    arguments: Sequence[str], output: str | None, folder: str | None, made_with: Sequence[Any], force: bool = False
) -> tuple[list[Job], int]:
    """What is to be done for inputs as given on the command line, and how many outputs are up to date already.

    `made_with`: everything but the input that an output depends on.
    """
    items = expand(arguments)
    if folder is None:
        if len(items) > 1:
            raise UsageError(f"{len(items)} inputs need {len(items)} outputs", "--output-dir DIR")
        spare_inputs(items, output)
        return [Job(item.path, output or "-", _suffix(item.path, output)) for item in items], 0
    from bpmcli.io.output_record import OutputRecord, origin_of
    from bpmcli.io.remote import local_path

    folder = local_path(folder)
    items = without_outputs(items, arguments, folder)
    suffixes = [_suffix(item.path, None) for item in items]
    targets = output_paths(items, folder, suffixes)
    spare_inputs(items, *targets)
    record = OutputRecord(folder)
    jobs = [
        Job(item.path, target, suffix, folder, origin_of(item.path, list(made_with)))
        for item, target, suffix in zip(items, targets, suffixes, strict=True)
    ]
    todo = [job for job in jobs if force or not record.is_current(job.output, job.origin)]
    return todo, len(jobs) - len(todo)


def _suffix(path: str, output: str | None) -> str:
    """The format to write: the target's suffix, otherwise the input's."""
    if output and output != "-":
        return suffix_of(output)
    # What standard input holds is known once it is read.
    suffix = "" if path == "-" else suffix_of(path)
    return OTHER_SUFFIX.get(suffix, suffix)
