"""Records of results as tables for reading."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from bpmcli.cli import console
from bpmcli.cli.render import Cell, Table, show
from bpmcli.core.data.rows import EVENT
from bpmcli.core.metrics import METRICS
from bpmcli.errors import BpmError
from bpmcli.io.layout import InputOptions, understand
from bpmcli.io.opening import open_reader
from bpmcli.io.paths import Input
from bpmcli.io.readers import SUMMARY_KEY
from bpmcli.tasks.measure import title

Record = Mapping[str, Any]


def metrics(records: Sequence[Record], wide: bool = False) -> Table:
    """One input: a line per figure. Several, or `wide`: a line per input."""
    if len(records) == 1 and not wide:
        return _one(records[0])
    shown = ["n", "accuracy", "mean_confidence", "saturated"]
    names = list(records[0]["metrics"])
    if any("true_tce" in r for r in records):
        shown.append("true_tce")
    by = ["group"] if any("group" in r for r in records) else []
    head = ["input", *by, *(s.replace("_", " ") for s in shown), *names]
    floor = "noise_floor" in records[0]
    bounded = any("level" in m for m in records[0]["metrics"].values())
    head += [f"{name} {end}" for name in names for end in ("low", "high") if bounded]
    head += [f"{name} {what}" for name in names for what in ("floor", "P-value") if floor]
    rows: list[list[Cell]] = []
    for record in records:
        row: list[Cell] = [record["input"], *(record.get(s) for s in [*by, *shown])]
        row += [record["metrics"][name]["value"] for name in names]
        row += [record["metrics"][name].get(end) for name in names for end in ("low", "high") if bounded]
        row += [(record["noise_floor"][n] or {}).get(w) for n in names for w in ("mean", "p_value") if floor]
        rows.append(row)
    return Table(head, rows, f"calibration of {_target(records[0])}")


def within(table: Table) -> Table:
    """The same table for reading: what all inputs have in common of their path goes into the title."""
    names = [str(row[0]) for row in table.rows]
    # Prefixes, not paths: some names are addresses or "pooled (2 inputs)".
    folder = os.path.commonprefix([os.path.dirname(name) + "/" for name in names])  # noqa: RUF071
    folder = folder[: folder.rfind("/") + 1]
    if not folder.strip("/") or table.columns[0] != "input":
        return table
    rows = [[str(row[0])[len(folder) :], *row[1:]] for row in table.rows]
    return Table(table.columns, rows, f"{folder}: {table.title}")


def _target(record: Record) -> str:
    return "P(y = 1)" if record["target"] == "event" else "the predicted class"


def _one(record: Record) -> Table:
    floors = record.get("noise_floor")
    bounds = next((m["level"] for m in record["metrics"].values() if "level" in m), None)
    width = 1 + 2 * bool(bounds) + 3 * bool(floors)
    rows: list[list[Cell]] = []
    for name, label in (("n", "rows"), ("effective_n", "effective rows"), ("accuracy", "accuracy"),
                        ("mean_confidence", "mean confidence"), ("saturated", "saturated share"),
                        ("summary_cells", "cells of the summary"),
                        ("true_tce", "true TCE")):  # fmt: skip
        if name in record:
            row: list[Cell] = [label, record[name]]
            rows.append(row + [None] * (width - 1))
    for name, measured in record["metrics"].items():
        row = [name, measured["value"]]
        if bounds:
            row += [measured.get("low"), measured.get("high")]
        if floors:
            floor = floors[name] or {}
            row += [floor.get("mean"), floor.get("high"), floor.get("p_value")]
        rows.append(row)
    head = ["", "value"]
    head += [f"{100 * bounds:g} % low", "high"] if bounds else []
    head += ["noise floor", "95th percentile", "P-value"] if floors else []
    about = f"{title(record)}: calibration of {_target(record)}"
    if record["target"] == "event":
        rows = [
            ["event rate" if r[0] == "accuracy" else "mean P(y = 1)" if r[0] == "mean confidence" else r[0], *r[1:]]
            for r in rows
        ]
    return Table(head, rows, about)


def bins(records: Sequence[Record]) -> Table:
    """The bins of every input, one line each."""
    names = list(records[0]["bins"][0])
    identity = [key for key in ("input", "group") if key in records[0]] if len(records) > 1 else []
    rows: list[list[Cell]] = []
    for record in records:
        for item in record["bins"]:
            values = [int(v) if k == "rows" and float(v).is_integer() else v for k, v in item.items()]
            rows.append([*(record[key] for key in identity), *values])
    return Table([*identity, *names], rows)


def metric_list() -> Table:
    """Every metric in a line."""
    return Table(["metric", "what it is", "reference"], [[m.name, m.summary, m.reference] for m in METRICS.values()])


def metric_list_document() -> dict[str, Any]:
    """The same for --format json."""
    return {
        "schema": "bpmcli/metric-list",
        "version": 1,
        "metrics": [{"name": m.name, "summary": m.summary, "reference": m.reference} for m in METRICS.values()],
    }


def method_list() -> Table:
    """Every calibrator in a line."""
    from bpmcli.core.calibrators import METHODS

    rows: list[list[Cell]] = [
        [m.name, m.summary, "all classes" if m.needs_distribution else "confidence", m.reference]
        for m in METHODS.values()
    ]
    return Table(["method", "what it is", "works on", "reference"], rows)


def method_list_document() -> dict[str, Any]:
    """The same for --format json."""
    from bpmcli.core.calibrators import METHODS

    methods = [
        {"name": m.name, "summary": m.summary, "needs_all_classes": m.needs_distribution, "reference": m.reference}
        for m in METHODS.values()
    ]
    return {"schema": "bpmcli/method-list", "version": 1, "methods": methods}


def family_list() -> Table:
    """Every curve family in a line."""
    from bpmcli.core.curves.families import FAMILIES

    rows: list[list[Cell]] = [[f.name, ", ".join(f.parameters) or "none", f.formula] for f in FAMILIES.values()]
    return Table(["family", "parameters", "g(s)"], rows)


def family_list_document() -> dict[str, Any]:
    """The same for --format json."""
    from bpmcli.core.curves.families import FAMILIES

    families = [{"name": f.name, "parameters": f.parameters, "formula": f.formula} for f in FAMILIES.values()]
    return {"schema": "bpmcli/family-list", "version": 1, "families": families}


def explain_inputs(items: Sequence[Input], options: InputOptions, format_: str) -> int:
    """How each input is understood; nothing is computed."""
    rows: list[list[Cell]] = []
    found: list[dict[str, Any]] = []
    code = 0
    for item in items:
        try:
            source = open_reader(item.path, options.input_format)
            if SUMMARY_KEY in source.metadata:
                pairs = _explain_summary(item.path, options)
                rows += [[item.path, role, what] for role, what in pairs]
                found.append({"input": item.path, "understood": dict(pairs)})
                continue
            layout = understand(source, options)
        except BpmError as error:
            console.show_error(error.at(item.path))
            code = error.exit_code
            continue
        unused = [name for name in source.columns if name not in layout.names]
        pairs = [*layout.explain(), ("unused columns", ", ".join(unused) or "none")]
        rows += [[item.path, role, what] for role, what in pairs]
        found.append({"input": item.path, "understood": dict(pairs)})
    if rows:
        show(
            format_,
            Table(["input", "role", "taken from"], rows),
            {"schema": "bpmcli/explain", "version": 1, "inputs": found},
        )
    return code


def _explain_summary(path: str, options: InputOptions) -> list[tuple[str, str]]:
    from bpmcli.io.summary_files import read_stored

    stored = read_stored(path, options)
    groups = [] if stored.by is None else [("group", f"{stored.by} ({len(stored.tables)} values)")]
    calibrates = "P(y = 1) itself" if stored.target == EVENT else "the predicted class"
    return [("summary", "written by bpmcli summarize"), *groups, ("calibrates", calibrates)]
