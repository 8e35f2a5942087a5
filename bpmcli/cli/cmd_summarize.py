"""bpmcli summarize: reduces files of any size to a small summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from bpmcli.cli import console
from bpmcli.cli.options.command import command_app, only
from bpmcli.cli.options.reading import Groups, Inputs, Reading, Work
from bpmcli.cli.options.showing import Other, Output
from bpmcli.cli.outcomes import Outcomes
from bpmcli.errors import UsageError

OUTPUT = only(
    "output",
    "output_dir",
    "format",
    help={
        "output": "All inputs as one summary (parquet).",
        "output_dir": "One summary per input, in the same folder structure.",
    },
)
JOBS = only("jobs", "engine", "scheduler", help={"jobs": "Process this many files or parts in parallel; 0 means one per core."})  # fmt: skip


def summarize(
    inputs: Inputs,
    *,
    output: Annotated[Output, OUTPUT],
    groups: Annotated[Groups, only("by", help={"by": "Keep a summary for each value of this column."})],
    read: Reading,
    work: Annotated[Work, JOBS],
    other: Annotated[Other, only("quiet")],
) -> int:
    """Reduce rows to a summary: one pass, fixed memory, a small file.

    \b
      bpmcli summarize day-01/*.parquet -o day-01.cells.parquet
      bpmcli metrics day-*.cells.parquet --pool
      bpmcli summarize s3://bucket/scores/ -o cells.parquet --engine dask
    """
    from bpmcli.engines.scale import summarise_inputs
    from bpmcli.io.outputs import spare_inputs
    from bpmcli.io.paths import expand
    from bpmcli.io.summary_files import write_summary

    format_ = output.resolve()
    other.resolve(), groups.resolve()
    scale = work.resolve()._replace(mode="summary")
    if (output.output is None) == (output.output_dir is None):
        raise UsageError("name the summary with -o FILE, or --output-dir DIR for one per input", "-o cells.parquet")
    if output.output and not output.output.endswith((".parquet", ".pq")):
        raise UsageError(f"{output.output}: a summary is a parquet file", "give it the suffix .parquet")
    items, options = expand(inputs), read.resolve(groups.by)
    spare_inputs(items, output.output, also=options.label)
    if output.output_dir:
        return _each(items, options, scale, output.output_dir, format_)
    found = summarise_inputs(items, options, scale, console.reading)
    target = str(output.output)
    write_summary(target, found)
    _show(format_, {target: found})
    return 0


app = command_app(summarize)


def _each(items: Sequence[Any], options: Any, scale: Any, folder: str, format_: str) -> int:
    """A summary for every input."""
    from bpmcli.io.outputs import output_paths
    from bpmcli.io.summary_files import write_summary
    from bpmcli.tasks.summarise import Piece, Summarise

    targets = output_paths(items, folder, [".cells.parquet"] * len(items), also=options.label)
    outcomes, written = Outcomes(len(items)), {}
    results = scale.run(Summarise(options), [Piece(item) for item in items])
    for position, found in outcomes.good([item.path for item in items], results, "reading"):
        write_summary(targets[position], found)
        written[targets[position]] = found
    if written:
        _show(format_, written)
    return outcomes.finish()


def _show(format_: str, written: Mapping[str, Any]) -> None:
    """Print what was written: notes for people, or a line per summary for programs."""
    lines = []
    for target, found in written.items():
        tables = found.tables.values()
        rows, cells = sum(t.n for t in tables), sum(t.cells.size for t in tables)
        lines.append({"output": target, "rows": rows, "cells": cells, "groups": len(tables) if found.by else None})
        groups = f" in {len(tables)} groups" if len(tables) > 1 else ""
        if format_ == "table":
            console.note(f"{target}: {rows:,} rows in {cells:,} cells{groups}")
    if format_ != "table":
        from bpmcli.cli.render import Table, show

        table = Table(list(lines[0]), [list(line.values()) for line in lines])
        show(format_, table, {"schema": "bpmcli/summaries", "version": 1, "summaries": lines})
