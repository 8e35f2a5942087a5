"""bpmcli fit: fit a calibrator and write its parameters."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from bpmcli.cli import console
from bpmcli.cli.options.calibrating import Calibrators
from bpmcli.cli.options.command import command_app, only, without
from bpmcli.cli.options.measuring import Details, Uncertainty
from bpmcli.cli.options.reading import Correct, Groups, OptionalInputs, Reading, Work
from bpmcli.cli.options.showing import Other, Output
from bpmcli.cli.outcomes import Outcomes
from bpmcli.errors import UsageError

if TYPE_CHECKING:
    from bpmcli.cli.render import Table

Document = Mapping[str, Any]
"""What a parameter file holds."""

OUTPUT = without(
    "force",
    help={
        "output": "Parameter file; standard output if not given.",
        "output_dir": "One parameter file per input, in the same folder structure.",
        "plot": "Draw the calibration curve (methods on all classes: before and after) as png, svg or pdf.",
    },
)
METHOD = only(help={"method": "The calibrator to fit; 'list' explains them, 'auto' chooses one. Default: bpm."})
BY = only(help={"by": "A calibrator for each value of this column."})
BAND = only("interval", help={"interval": "Add a confidence band around the curve, e.g. 0.95."})


def fit(
    inputs: OptionalInputs = None,
    *,
    output: Annotated[Output, OUTPUT],
    calibrators: Annotated[Calibrators, METHOD],
    groups: Annotated[Groups, BY],
    uncertainty: Annotated[Uncertainty, BAND],
    read: Reading,
    correct: Annotated[Correct, only("unknown", "multi_label")],
    work: Work,
    details: Annotated[Details, without("n_bins", "binning")],
    other: Other,
) -> int:
    """Fit a calibrator and write its parameters. The default is the paper's curve (Algorithm 1).

    \b
      bpmcli fit val.npz --method auto -o params.json
      bpmcli fit val.npz --method temperature -o params.json
      bpmcli fit runs/*.npz --output-dir params/ -j 0
      bpmcli fit a.parquet b.parquet --pool -o params.json
      bpmcli fit val.parquet --by device -o params.json
      bpmcli fit val.npz --prior log-log -o params.json
    """
    from bpmcli.core.calibrators import FitOptions
    from bpmcli.io.outputs import spare_inputs
    from bpmcli.io.paths import expand
    from bpmcli.tasks.fit import FitFile

    format_, seed = output.resolve(), other.resolve()
    if "list" in (calibrators.prior, *(calibrators.method or ())):
        return _list(calibrators, format_)
    options, columns = details.resolve(), correct.resolve(read.resolve(groups.by))
    each_label = groups.each_label(columns.event, correct.multi_label)
    columns = columns._replace(each_label=each_label)
    scale = _scale(work, groups.classwise or groups.marginal or each_label)
    grouping, level, outcomes = groups.resolve(each_label), uncertainty.resolve(), Outcomes()
    _check_format(output, format_)
    method, whole = calibrators.resolve(options.variant)
    items = expand(inputs or [])
    spare_inputs(items, output.output, output.plot, also=columns.label)
    _check_inputs(items, output, work.pool, method)
    whole = whole or groups.classwise or groups.marginal
    fit_options = FitOptions(options, calibrators.optimizer, prior=calibrators.prior)
    task = FitFile(columns, method, fit_options, whole, scale.mode, grouping, level, seed)

    fits = _fitted(items, task, scale, work.pool)
    documents = list(_written(fits, items[:1] if work.pool else items, output, columns.label, outcomes))
    if documents and output.plot:
        from bpmcli.cli.pictures import fitted

        fitted(output.plot, [document for _, document in documents], task)
        console.note(f"wrote {output.plot}")
    to_files = output.output not in (None, "-") or output.output_dir is not None
    if documents or (to_files and format_ == "json"):
        _show(format_, documents, to_files)
    if documents and not calibrators.method and calibrators.prior == "beta":
        console.note("fitted bpm, the paper's method; --method auto chooses by cross-validated log loss")
    return outcomes.finish()


app = command_app(fit)


def _list(calibrators: Calibrators, format_: str) -> int:
    from bpmcli.cli.registry_lists import show_families, show_methods

    return show_families(format_) if calibrators.prior == "list" else show_methods(format_)


def _check_format(output: Output, format_: str) -> None:
    if format_ not in ("table", "json") and output.output in (None, "-") and not output.output_dir:
        raise UsageError(
            "without -o the parameters go to standard output, always as JSON",
            f"-o params.json with --format {format_}, or leave --format out",
        )


def _check_inputs(items: Sequence[Any], output: Output, pool: bool, method: str) -> None:
    """Check, before anything is fitted, that the results can be written and drawn."""
    if not items:
        raise UsageError("no input", "bpmcli fit FILE -o params.json")
    if len(items) > 1 and not (pool or output.output_dir):
        raise UsageError(
            f"{len(items)} inputs need {len(items)} parameter files", "--output-dir DIR, or --pool for one"
        )
    if output.plot is not None:
        from bpmcli.cli.pictures import check_fits

        check_fits(output.plot, items, pool, method)


def _scale(work: Work, by_class: bool) -> Any:
    """How the inputs are read. Groups by class or label need every row, because a summary does not store classes."""
    scale = work.resolve()
    if not by_class:
        return scale
    if scale.mode == "summary":
        raise UsageError("a summary does not store classes", "leave --summary out, or use --by COLUMN")
    return scale._replace(mode="exact")


def _fitted(items: Sequence[Any], task: Any, scale: Any, pool: bool) -> Any:
    """A parameter document and notices for every input, or for all of them as one."""
    if not pool or len(items) == 1:
        return scale.each(task, items)
    from bpmcli.engines.scale import pool_inputs
    from bpmcli.io.params import origin_of_rows

    rows, notices = pool_inputs(items, task.options, scale, console.reading, task.distributions, missed=True)
    return [task.describe(origin_of_rows(items, task.options, rows.sample.from_summary), rows, notices)]


def _written(
    results: Any, items: Sequence[Any], output: Output, label: str | None, outcomes: Outcomes
) -> Iterator[tuple[str, Any]]:
    """File and contents of every fit, once it is written."""
    from bpmcli.io.documents import dumps
    from bpmcli.io.outputs import output_paths
    from bpmcli.io.writers import write_text

    targets = [output.output or "-"] * len(items)
    if output.output_dir:
        targets = output_paths(items, output.output_dir, [".json"] * len(items), also=label)
    names = [item.path for item in items]
    for position, (document, notices) in outcomes.good(names, results, "fitting"):
        if notices:
            console.show_notices(notices, outcomes.where(names[position]))
        write_text(targets[position], dumps(document))
        yield targets[position], document


def _show(format_: str, documents: Sequence[tuple[str, Any]], to_files: bool) -> None:
    """Print what was fitted; on standard error if standard output holds the parameters."""
    from bpmcli.cli.render import render, show

    if to_files:
        show(
            format_,
            _table(documents, wide=format_ == "csv"),
            {"schema": "bpmcli/fits", "version": 1, "fits": [d for _, d in documents]},
        )
    elif sys.stderr.isatty():
        console.note_table(render("table", _table(documents), None))
    else:
        for line in documents[0][1]["validation"]["sentences"]:
            console.note(line)


IN_WORDS = ("verdict before", "verdict after", "after is judged by")
"""Values that the sentences above the table already state."""


def _table(documents: Sequence[tuple[str, Document]], wide: bool = False) -> Table:
    """A line per value of one fit; for several, or `wide`, a line per fit or group. `documents`: (file, contents)."""
    from bpmcli.cli.render import Table

    if len(documents) == 1 and not wide:
        target, document = documents[0]
        rows = [[name, value] for name, value in _values(document).items() if name not in IN_WORDS]
        return Table(["", "value"], rows, [f"{document['method']} -> {target}", *document["validation"]["sentences"]])
    lines = [
        {"parameters": target, **line}
        for target, document in documents
        for line in (_group_lines(document) if wide and document.get("grouping") else [_values(document)])
    ]
    names = list(dict.fromkeys(name for line in lines for name in line))
    return Table(names, [[line.get(name) for name in names] for line in lines])


def _values(document: Document) -> dict[str, Any]:
    fit, sample, judged = document["fit"], document["sample"], document["validation"]
    tce_bpm = fit.get("tce", {}).get("value") if document["method"] != "bpm-averaged" else None
    after = judged["after"] or {}
    rate = "event rate" if document["target"] == "event" else "accuracy"
    mean = "mean P(y = 1)" if document["target"] == "event" else "mean confidence"
    return {
        "method": document["method"],
        **_groups(document),
        **_scalars(document["parameters"]),
        **({"tce-bpm before": tce_bpm} if tce_bpm is not None else {}),
        **{k: fit[k] for k in ("objective", "evaluations", "optimizer", "explanation") if k in fit},
        "rows": sample["n"],
        rate: sample["accuracy"],
        f"{mean} before": sample["mean_confidence"],
        f"{mean} after": after.get("says"),
        "tce before": judged["before"]["tce"],
        "tce after": after.get("tce"),
        "verdict before": judged["before"]["name"],
        "verdict after": after.get("name"),
        "after is judged by": judged["how"] if after else None,
    }


def _scalars(parameters: Document) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if isinstance(value, (int, float, str))}


def _groups(document: Document) -> dict[str, Any]:
    found = document.get("grouping")
    if found is None:
        return {}
    return {
        "by": f"column {found['column']}" if found["column"] else found["kind"],
        "groups with a calibrator": len(found["groups"]),
        "groups that use the pooled calibrator": len(found["pooled"]),
    }


def _group_lines(document: Document) -> Iterator[dict[str, Any]]:
    """A line per group with the parameters of its calibrator, which may be the pooled calibrator."""
    found, method = document["grouping"], document["method"]
    by = found["column"] or found["kind"]
    for name, group in found["groups"].items():
        own = {"by": by, "group": name, "method": method, "rows": group["n"], "calibrator": "own"}
        yield {**own, **_scalars(group["parameters"])}
    for name, group in found["pooled"].items():
        pooled = {"by": by, "group": name, "method": method, "rows": group["n"], "calibrator": "pooled"}
        yield {**pooled, **_scalars(document["parameters"]), "why pooled": group["why"]}
