"""bpmcli fit: fit a calibration curve and write its parameters."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from bpmcli.cli.options import (
    BatchArgs,
    CurveArgs,
    InputArgs,
    OptionalInputs,
    OutputArgs,
    ScaleArgs,
    Seed,
    check_level,
    command,
)
from bpmcli.errors import BpmError, UsageError

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@command
def fit(
    inputs: OptionalInputs = None,
    out: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Parameter file; standard output if not given.")
    ] = None,
    output_dir: Annotated[
        str | None, typer.Option("--output-dir", metavar="DIR", help="One parameter file per input, in the same tree.")
    ] = None,
    method: Annotated[str, typer.Option("--method", help="Which calibrator; --method list explains them.")] = "bpm",
    prior: Annotated[
        str, typer.Option("--prior", metavar="FAMILY", help="Curve family of bpm; --prior list explains them.")
    ] = "beta",
    optimizer: Annotated[str, typer.Option("--optimizer", help="newton, or nelder-mead: the paper's.")] = "newton",
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="Draw the curve over histogram binning: png, svg or pdf."),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option("--interval", metavar="LEVEL", help="Also a band around the curve, e.g. 0.95."),
    ] = None,
    seed: Seed = 0,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="A calibrator for each value of this column.")
    ] = None,
    classwise: Annotated[bool, typer.Option("--classwise", help="A calibrator for each predicted class.")] = False,
    marginal: Annotated[bool, typer.Option("--marginal", help="A calibrator for each class against the rest.")] = False,
    min_group: Annotated[
        int | None,
        typer.Option("--min-group", metavar="N", help="Smaller groups use the pooled calibrator [200]."),
    ] = None,
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
      bpmcli fit val.parquet --by device -o params.json          one file, a curve per device
      bpmcli fit val.npz --prior log-log -o params.json           another curve than the paper's
    """
    from bpmcli.cli import console, views
    from bpmcli.cli.render import show
    from bpmcli.core.calibrators import FitOptions, method_named
    from bpmcli.core.calibrators.base import PAPER
    from bpmcli.core.curves.bpm import check_family
    from bpmcli.core.curves.families import BETA, family_named
    from bpmcli.io.documents import dumps
    from bpmcli.io.outputs import output_paths, spare_inputs
    from bpmcli.io.paths import expand
    from bpmcli.io.writers import write_text
    from bpmcli.tasks.fit import FitFile

    format_ = output.resolve()
    if method == "list":
        show(format_, views.method_list(), views.method_list_document())
        return 0
    if prior == "list":
        show(format_, views.family_list(), views.family_list_document())
        return 0
    entry = method_named(method)
    if ":" in method:
        raise UsageError(f"--method {method} is how compare spells it", "--method " + method.replace(":", " --prior "))
    if family_named(prior) is not BETA and method != PAPER:
        raise UsageError(f"--prior is the curve family of {PAPER}, not of {method}", "leave one of them out")
    wanted = curve.resolve()
    check_family(family_named(prior), wanted.variant, optimizer)
    if optimizer not in ("newton", "nelder-mead"):
        raise UsageError(f"--optimizer must be newton or nelder-mead, not '{optimizer}'")
    items = expand(inputs or [])
    if not items:
        raise UsageError("no input", "bpmcli fit FILE -o params.json")
    spare_inputs(items, out, plot)
    if plot:
        from bpmcli.cli import pictures

        pictures.check_picture(plot, items, batch.pool, method)
    if out and output_dir:
        raise UsageError("-o and --output-dir exclude each other")
    if format_ not in ("table", "json") and out in (None, "-") and not output_dir:
        raise UsageError(
            "without -o the parameters go to standard output, always as JSON",
            f"-o params.json with --format {format_}, or leave --format out",
        )
    if len(items) > 1 and not (batch.pool or output_dir):
        raise UsageError(
            f"{len(items)} inputs need {len(items)} parameter files", "--output-dir DIR, or --pool for one"
        )
    if interval is not None:
        check_level("--interval", interval)
    where = scale.resolve(batch.jobs)
    grouping = _grouping(by, classwise, marginal, min_group)
    if classwise or marginal:
        if where.mode == "summary":
            raise UsageError("a summary forgets which class a row was of", "leave --summary out, or use --by COLUMN")
        where = where._replace(mode="exact")
    whole = entry.needs_distribution or classwise or marginal
    fit_options = FitOptions(wanted, optimizer, prior=prior)
    task = FitFile(read.resolve(by), method, fit_options, whole, where.mode, grouping, interval or 0.0, seed)

    if batch.pool and len(items) > 1:
        from bpmcli.engines.scale import pool_inputs

        pooled = pool_inputs(items, task.options, where, console.reading, task.distributions)
        results: Any = [task.describe(items, *pooled)]
        items = items[:1]
    else:
        results = console.progress(where.each(task, items), len(items), "fitting")

    documents, code = [], 0
    targets = output_paths(items, output_dir, [".json"] * len(items)) if output_dir else [out or "-"] * len(items)
    for item, target, result in zip(items, targets, results, strict=True):
        if isinstance(result, BpmError):
            console.show_error(result if item.path in result.message else result.at(item.path))
            code = result.exit_code if len(items) == 1 else 3
            continue
        document, notices = result
        console.show_notices(notices, item.path if len(items) > 1 else "")
        write_text(target, dumps(document))
        documents.append((target, document))
    if plot and documents:
        pictures.fitted(plot, [document for _, document in documents], read.resolve())
    if documents and (out not in (None, "-") or output_dir):
        show(format_, _table(documents), {"schema": "bpmcli/fits", "version": 1, "fits": [d for _, d in documents]})
    elif documents and sys.stderr.isatty():
        from bpmcli.cli.render import render

        console.note(render("table", _table(documents), None).rstrip())
    return code


def _grouping(by: str | None, classwise: bool, marginal: bool, minimum: int | None) -> Any:
    """What makes a group, if anything does."""
    if bool(by) + classwise + marginal > 1:
        raise UsageError("--by, --classwise and --marginal exclude each other")
    if not (by or classwise or marginal):
        if minimum is not None:
            raise UsageError("--min-group goes with --by, --classwise or --marginal")
        return None
    from bpmcli.core.calibrators.grouped import COLUMN, MARGINAL, MIN_GROUP, PREDICTED, Grouping

    if minimum is not None and minimum < 1:
        raise UsageError(f"--min-group must be positive, not {minimum}")
    return Grouping(COLUMN if by else PREDICTED if classwise else MARGINAL, by, minimum or MIN_GROUP)


def _table(documents: list[tuple[str, Mapping[str, Any]]]) -> Any:
    """One fit: a line per figure. Several: a line per fit."""
    from bpmcli.cli.render import Table

    def figures(document: Mapping[str, Any]) -> dict[str, Any]:
        scalars = {k: v for k, v in document["parameters"].items() if isinstance(v, (int, float, str))}
        fit_ = document["fit"]
        tce = fit_.get("tce", {}).get("value")
        facts = {k: fit_[k] for k in ("objective", "evaluations", "optimizer", "explanation") if k in fit_}
        sample = document["sample"]
        return {
            "method": document["method"],
            **_groups(document),
            **scalars,
            **({"tce" if document["method"] == "bpm-averaged" else "tce-bpm": tce} if tce is not None else {}),
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


def _groups(document: Mapping[str, Any]) -> dict[str, Any]:
    found = document.get("grouping")
    if found is None:
        return {}
    what = f"column {found['column']}" if found["column"] else found["kind"]
    return {
        "by": what,
        "groups with a curve": len(found["groups"]),
        "groups on the pooled curve below": len(found["pooled"]),
    }
