"""bpmcli fit: fit a calibration curve and write its parameters."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from bpmcli.cli.options import BatchArgs, CurveArgs, InputArgs, Inputs, OutputArgs, ScaleArgs, command
from bpmcli.errors import BpmError, UsageError

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@command
def fit(
    inputs: Inputs,
    out: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Parameter file; standard output if not given.")
    ] = None,
    output_dir: Annotated[
        str | None, typer.Option("--output-dir", metavar="DIR", help="One parameter file per input, in the same tree.")
    ] = None,
    method: Annotated[str, typer.Option("--method", help="Which calibrator.")] = "bpm",
    optimizer: Annotated[str, typer.Option("--optimizer", help="newton, or nelder-mead: the paper's.")] = "newton",
    *,
    read: InputArgs,
    curve: CurveArgs,
    batch: BatchArgs,
    scale: ScaleArgs,
    output: OutputArgs,
) -> int:
    """Fit a calibration curve (Algorithm 1) and its TCE_bpm (Algorithm 2).

    \b
      bpmcli fit val.npz -o params.json
      bpmcli fit runs/*.npz --output-dir params/ -j 0
      bpmcli fit a.parquet b.parquet --pool -o params.json
    """
    from bpmcli.cli import console
    from bpmcli.cli.render import show
    from bpmcli.core.calibrators import FitOptions, method_named
    from bpmcli.engines.fitting import FitFile
    from bpmcli.io.params import dumps
    from bpmcli.io.paths import expand
    from bpmcli.io.writers import write_text

    format_ = output.resolve()
    entry = method_named(method)
    if optimizer not in ("newton", "nelder-mead"):
        raise UsageError(f"--optimizer must be newton or nelder-mead, not '{optimizer}'")
    items = expand(inputs)
    if out and output_dir:
        raise UsageError("-o and --output-dir exclude each other")
    if len(items) > 1 and not (batch.pool or output_dir):
        raise UsageError(
            f"{len(items)} inputs need {len(items)} parameter files", "--output-dir DIR, or --pool for one"
        )
    where = scale.resolve(batch.jobs)
    task = FitFile(read.resolve(), method, FitOptions(curve.resolve(), optimizer), entry.needs_distribution, where.mode)

    if batch.pool and len(items) > 1:
        from bpmcli.engines.scale import pool_inputs

        pooled = pool_inputs(items, task.options, where, console.reading, task.distributions)
        results: Any = [task.describe(items, *pooled)]
        items = items[:1]
    else:
        results = console.progress(where.each(task, items), len(items), "fitting")

    documents, code = [], 0
    for item, result in zip(items, results, strict=True):
        if isinstance(result, BpmError):
            console.show_error(result if item.path in result.message else result.at(item.path))
            code = result.exit_code if len(items) == 1 else 3
            continue
        document, notices = result
        console.show_notices(notices, item.path if len(items) > 1 else "")
        target = out or "-"
        if output_dir:
            target = os.path.join(output_dir, os.path.splitext(item.relative)[0] + ".json")
        write_text(target, dumps(document))
        documents.append((target, document))
    if documents and (out not in (None, "-") or output_dir):
        show(format_, _table(documents), {"schema": "bpmcli/fits", "version": 1, "fits": [d for _, d in documents]})
    elif documents and sys.stderr.isatty():
        from bpmcli.cli.render import render

        console.note(render("table", _table(documents), None).rstrip())
    return code


def _table(documents: list[tuple[str, Mapping[str, Any]]]) -> Any:
    """One fit: a line per figure. Several: a line per fit."""
    from bpmcli.cli.render import Table

    def figures(document: Mapping[str, Any]) -> dict[str, Any]:
        scalars = {k: v for k, v in document["parameters"].items() if isinstance(v, (int, float))}
        fit_ = document["fit"]
        tce = fit_.get("tce", {}).get("value")
        facts = {k: fit_[k] for k in ("objective", "evaluations", "optimizer") if k in fit_}
        sample = document["sample"]
        return {
            "method": document["method"],
            **scalars,
            **({"TCE": tce} if tce is not None else {}),
            **facts,
            "rows": sample["n"],
            "accuracy": sample["accuracy"],
            "mean confidence": sample["mean_confidence"],
        }

    if len(documents) == 1:
        target, document = documents[0]
        return Table(["", "value"], [[k, v] for k, v in figures(document).items()], f"{document['method']} -> {target}")
    rows = [{"parameters": target, **figures(document)} for target, document in documents]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Table(names, [[row.get(name) for name in names] for row in rows])
