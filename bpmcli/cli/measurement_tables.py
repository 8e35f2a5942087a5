"""Measurements as tables: one input in detail, several side by side, and their bins."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bpmcli.cli.render import Cell, Table

Record = Mapping[str, Any]

FACTS = {
    "n": "rows",
    "effective_n": "effective rows",
    "accuracy": "accuracy",
    "mean_confidence": "mean confidence",
    "saturated": "saturated share",
    "summary_cells": "cells of the summary",
    "true_tce": "true TCE",
}
"""Fields of a record that are not metrics, and their labels."""
EVENT_LABELS = {"accuracy": "event rate", "mean confidence": "mean P(y = 1)"}


def title(record: Record) -> str:
    """The input of a record, and its group."""
    group = f", {record['by']} = {record['group']}" if "group" in record else ""
    return f"{record['input']}{group}"


def measurements(records: Sequence[Record], wide: bool = False) -> Table:
    """One input: a line per value. Several inputs, or `wide`: a line per input."""
    if len(records) == 1 and not wide:
        return _one(records[0])
    first = records[0]
    facts = ["n", "accuracy", "mean_confidence", "saturated"]
    facts += ["true_tce"] if any("true_tce" in r for r in records) else []
    by = ["group"] if any("group" in r for r in records) else []
    names = list(first["metrics"])
    ends = ("low", "high") if any("level" in m for m in first["metrics"].values()) else ()
    floors = {"floor": "mean", "P-value": "p_value"} if "noise_floor" in first else {}
    head = ["input", *by, *(fact.replace("_", " ") for fact in facts), *names]
    head += [f"{name} {end}" for name in names for end in ends]
    head += [f"{name} {label}" for name in names for label in floors]
    rows: list[list[Cell]] = []
    for record in records:
        row: list[Cell] = [record["input"], *(record.get(fact) for fact in [*by, *facts])]
        row += [record["metrics"][name]["value"] for name in names]
        row += [record["metrics"][name].get(end) for name in names for end in ends]
        row += [(record["noise_floor"][n] or {}).get(field) for n in names for field in floors.values()]
        rows.append(row)
    return Table(head, rows, f"calibration of {_target(first)}")


def shorten_inputs(table: Table) -> Table:
    """The same table with the folder that all inputs share moved into the title."""
    names = [str(row[0]) for row in table.rows]
    # Prefixes, not paths: some names are addresses or "pooled (2 inputs)".
    folder = os.path.commonprefix([os.path.dirname(name) + "/" for name in names])  # noqa: RUF071
    folder = folder[: folder.rfind("/") + 1]
    if not folder.strip("/") or table.columns[0] != "input":
        return table
    rows = [[str(row[0])[len(folder) :], *row[1:]] for row in table.rows]
    return Table(table.columns, rows, f"{folder}: {' '.join(table.heading)}")


def _target(record: Record) -> str:
    return "P(y = 1)" if record["target"] == "event" else "the predicted class"


def _one(record: Record) -> Table:
    level = next((m["level"] for m in record["metrics"].values() if "level" in m), None)
    head = ["", "value"]
    head += [f"{100 * level:g} % low", "high"] if level else []
    head += ["noise floor", "95th percentile", "P-value"] if "noise_floor" in record else []
    rows = [[*row, *[None] * (len(head) - len(row))] for row in [*_facts(record), *_values(record, bool(level))]]
    return Table(head, rows, f"{title(record)}: calibration of {_target(record)}")


def _facts(record: Record) -> Iterator[list[Cell]]:
    for field, label in FACTS.items():
        if field in record:
            renamed = EVENT_LABELS.get(label, label) if record["target"] == "event" else label
            yield [renamed, record[field]]


def _values(record: Record, bounded: bool) -> Iterator[list[Cell]]:
    floors = record.get("noise_floor")
    for name, measured in record["metrics"].items():
        row: list[Cell] = [name, measured["value"]]
        if bounded:
            row += [measured.get("low"), measured.get("high")]
        if floors:
            floor = floors[name] or {}
            row += [floor.get("mean"), floor.get("high"), floor.get("p_value")]
        yield row


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
