"""Which file each input is written to, and which inputs are outputs of an earlier run or are up to date already."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from bpmcli.errors import UsageError
from bpmcli.io.formats import STDIN, file_and_group, suffix_of
from bpmcli.io.paths import Input, expand
from bpmcli.io.remote import is_remote, local_path

STDIN_NUMBER = 0
"""The file descriptor of standard input, which may be a file."""


def output_paths(items: Sequence[Input], folder: str, suffixes: Sequence[str], also: str | None = None) -> list[str]:
    """One path per input below the folder, in the same tree, with its own suffix.

    Where two inputs differ only in their suffix, the outputs keep it: a.npz and a.csv become
    a.npz.json and a.csv.json. Two inputs for one output are refused, never overwritten, and so are outputs that are an
    input or the file `also`.
    """
    stems = [os.path.splitext(item.relative)[0] if item.relative.endswith(".gz") else item.relative for item in items]
    plain = [os.path.splitext(stem)[0] + suffix for stem, suffix in zip(stems, suffixes, strict=True)]
    often = Counter(plain)
    targets = [
        path if often[path] == 1 else item.relative + suffix
        for path, item, suffix in zip(plain, items, suffixes, strict=True)
    ]
    twice = [path for path, count in Counter(targets).items() if count > 1]
    if twice:
        both = [item.path for item, target in zip(items, targets, strict=True) if target == twice[0]]
        raise UsageError(
            f"{both[0]} and {both[1]} would both be written to {os.path.join(folder, twice[0])}",
            "give the directory that holds them: outputs then keep its tree",
        )
    paths = [os.path.join(folder, target) for target in targets]
    spare_inputs(items, *paths, also=also)
    return paths


def spare_inputs(items: Sequence[Input], *targets: str | None, also: str | None = None) -> None:
    """Raise UsageError if a target is an input, even through links or under another spelling of its path.

    `also`: another file that is read, such as the labels.
    """
    paths = [item.path for item in items] + ([also] if also else [])
    remote = {path for path in paths if is_remote(path)}
    places = [file_and_group(path)[0] for path in paths]
    local = {_identity(path) for path in places if os.path.exists(path)}
    if STDIN in paths:
        with suppress(OSError):
            local.add(_identity(STDIN_NUMBER))
    for target in targets:
        if target is None or target == "-":
            continue
        place = local_path(target)
        if target in remote or (os.path.exists(place) and _identity(place) in local):
            raise UsageError(f"{target} is the input itself", "write to another file or directory")


def _identity(path: str | int) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def without_outputs(items: Sequence[Input], arguments: Sequence[str], folder: str) -> list[Input]:
    """The inputs without the outputs of an earlier run.

    If `folder` lies inside a directory that was searched for inputs, the files below `folder` are taken for outputs. A
    file that was named on the command line is always an input.
    """
    named = {local_path(argument) for argument in arguments}
    searched = [base for argument in named if (base := _searched(argument))]
    outputs = [base for base in searched if _is_below(folder, base)]
    kept = [
        item
        for item in items
        if item.path in named
        or not _is_below(item.path, folder)
        or not any(_is_below(item.path, base) for base in outputs)
    ]
    if items and not kept:
        raise UsageError(f"all {len(items)} inputs are below {folder}, where outputs go", "name another --output-dir")
    same = [base for base in searched if os.path.abspath(base) == os.path.abspath(folder)]
    if same:
        raise UsageError(
            f"--output-dir {folder} is also where the inputs are: they would be replaced",
            f"--output-dir {os.path.join(folder, 'calibrated')}",
        )
    return kept


def _searched(argument: str) -> str | None:
    """The directory that an argument searches; None for a single file."""
    if os.path.isdir(argument):
        return argument
    if is_remote(argument) or os.path.exists(argument) or not glob.has_magic(argument):
        return None
    plain = argument
    while glob.has_magic(plain):
        plain = os.path.dirname(plain)
    return plain or os.curdir


def _is_below(path: str, folder: str) -> bool:
    folder = os.path.abspath(folder)
    return os.path.abspath(path).startswith(folder if folder.endswith(os.sep) else folder + os.sep)


OTHER_SUFFIX = {".npy": ".npz", ".eval": ".jsonl", ".json": ".jsonl", ".txt": ".csv"}
"""Formats that cannot hold the result, and what is written instead."""


class Job(NamedTuple):
    """One file to calibrate."""

    path: str
    output: str
    suffix: str
    """Suffix of the output's format; "" if it is known only after the input is read."""
    folder: str | None = None
    """Where the output is recorded, if it is one of many."""
    origin: str = ""
    """What the output is made from, see `io.output_record`."""


def plan_jobs(
    arguments: Sequence[str], output: str | None, folder: str | None, made_with: Sequence[Any], force: bool = False,
    parameters: str | None = None,
) -> tuple[list[Job], int]:  # fmt: skip
    """The files to calibrate for the inputs on the command line, and how many outputs are up to date already.

    `made_with`: everything except the input that an output depends on. `parameters`: the file it was read from.
    """
    items = expand(arguments)
    if folder is None:
        if len(items) > 1:
            raise UsageError(f"{len(items)} inputs need {len(items)} outputs", "--output-dir DIR")
        spare_inputs(items, output, also=parameters)
        return [Job(item.path, output or "-", _suffix(item.path, output)) for item in items], 0
    from bpmcli.io.output_record import OutputRecord, origin_of
    from bpmcli.io.remote import local_path

    folder = local_path(folder)
    items = without_outputs(items, arguments, folder)
    suffixes = [_suffix(item.path, None) for item in items]
    targets = output_paths(items, folder, suffixes, also=parameters)
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
    # The format of standard input is known only after it is read.
    suffix = "" if path == "-" else suffix_of(path)
    return OTHER_SUFFIX.get(suffix, suffix)
