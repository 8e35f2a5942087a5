"""bpmcli summarize: files of any size as a small table of cells."""

from __future__ import annotations

from typing import Annotated

import typer

from bpmcli.cli.options import InputArgs, Inputs, OutputArgs, command
from bpmcli.errors import BpmError, UsageError

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@command
def summarize(
    inputs: Inputs,
    out: Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help="All inputs as one summary (parquet).")] = None,
    output_dir: Annotated[str | None, typer.Option("--output-dir", metavar="DIR", help="One summary per input, in the same tree.")] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="KEY", help="Keep the values of this column apart.")] = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="Work this many files or parts at a time; 0 = one per core.")] = 1,
    engine: Annotated[str, typer.Option(help="Where -j works: local processes, or dask.")] = "local",
    scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Of a dask cluster; a local one if not given.")] = None,
    *,
    read: InputArgs,
    output: OutputArgs,
) -> int:  # fmt: skip
    """Reduce rows to a summary: one pass, fixed memory, a file of about a megabyte.

    \b
      bpmcli summarize day-01/*.parquet -o day-01.cells.parquet
      bpmcli metrics day-*.cells.parquet --pool
      bpmcli summarize s3://bucket/scores/ -o cells.parquet --engine dask --scheduler tcp://host:8786
    """
    from bpmcli.cli import console
    from bpmcli.cli.options import ScaleArgs
    from bpmcli.engines.scale import summarise_inputs
    from bpmcli.io.outputs import output_paths, spare_inputs
    from bpmcli.io.paths import expand
    from bpmcli.io.summary_files import write_summary
    from bpmcli.tasks.summarise import Piece, Summarise

    output.resolve()
    scale = ScaleArgs(summary=True, engine=engine, scheduler=scheduler).resolve(jobs)
    items, options = expand(inputs), read.resolve(by)
    if (out is None) == (output_dir is None):
        raise UsageError("name the summary with -o FILE, or --output-dir DIR for one per input")
    for target in [out] if out else []:
        if not target.endswith((".parquet", ".pq")):
            raise UsageError(f"{target}: a summary is a parquet file", "give it the suffix .parquet")
    spare_inputs(items, out)
    if out:
        found = summarise_inputs(items, options, scale, console.reading)
        write_summary(out, found)
        console.note(_described(out, found))
        return 0
    assert output_dir is not None
    targets = output_paths(items, output_dir, [".cells.parquet"] * len(items))
    code, results = 0, scale.run(Summarise(options), [Piece(item) for item in items])
    for target, result in zip(targets, console.progress(results, len(items), "reading"), strict=True):
        if isinstance(result, BpmError):
            console.show_error(result)
            code = 3
            continue
        write_summary(target, result)
        console.note(_described(target, result))
    return code


def _described(target: str, found: object) -> str:
    tables = found.tables.values()  # type: ignore[attr-defined]
    groups = f" in {len(tables)} groups" if len(tables) > 1 else ""
    return f"{target}: {sum(t.n for t in tables)} rows in {sum(t.cells.size for t in tables)} cells{groups}"
