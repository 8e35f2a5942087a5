"""Measurements as tables: one input in detail, several side by side, and their bins."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bpmcli.cli.render import Cell, Table

Record = Mapping[str, Any]

FACTS = {
    "n": "rows",
    "clusters": "clusters",
    "effective_n": "effective rows",
    "accuracy": "accuracy",
    "mean_confidence": "mean confidence",
    "saturated": "saturated",
    "items": "items",
    "labels": "labels per item",
    "unknown_rows": "unknown rows",
    "unknown_confidence": "mean confidence of unknown rows",
    "known_accuracy": "accuracy of known rows",
    "known_confidence": "mean confidence of known rows",
    "summary_cells": "cells of the summary",
    "true_tce": "true TCE",
}
"""Fields of a record that are not metrics, and their labels."""
EVENT_LABELS = {"accuracy": "event rate", "mean confidence": "mean P(y = 1)"}
SCORES = {"logits": "logits", "probs": "probabilities", "confidence": "confidences", "log_odds": "log-odds"}


def title(record: Record) -> str:
    """The input of a record, and its group."""
    group = f", {record['by']} = {record['group']}" if "group" in record else ""
    return f"{record['input']}{group}"


def outward(record: Record) -> Record:
    """A record as JSON and csv show it: the accuracy of an event is its `event_rate`, also in the bins."""
    if record.get("target") != "event":
        return record
    found = {key: value for key, value in record.items() if key != "accuracy"}
    if "bins" in found:
        found["bins"] = [{k.replace("accuracy", "event_rate"): v for k, v in b.items()} for b in found["bins"]]
    return found


def measurements(records: Sequence[Record], wide: bool = False, brief: bool = False, lead: str | None = None) -> Table:
    """One input: a line per value. Several inputs, or `wide` for csv: a line per input.

    `brief` leaves the sentence of the verdict out; `lead`, by default `tce`, stands beside the verdict.
    """
    if len(records) == 1 and not wide:
        return _one(records[0], brief)
    lead = None if wide else lead or ("tce" if any("verdict" in r for r in records) else None)
    fields = _wide_fields(records, "name" if wide else "title", lead)
    rows = [[value(record) for value in fields.values()] for record in records]
    level = _level(records[0])
    other = f"; {100 * level:g} % intervals" if level not in (None, USUAL_LEVEL) else ""
    return Table(list(fields), rows, f"calibration of {_target(records[0])}{other}")


def _wide_fields(records: Sequence[Record], verdict: str, lead: str | None) -> dict[str, Callable[[Record], Cell]]:
    """The columns of a table with a line per input, and how to get their values; `verdict` is its field to show."""
    first = records[0]
    fields: dict[str, Callable[[Record], Cell]] = {"input": lambda r: r["input"]}
    for key in ("task", "model", "group", "rank", "tied"):
        if any(key in r for r in records) and (key != "tied" or any(r["tied"] is not None for r in records)):
            fields[key] = _getter(key)
    if any("verdict" in r for r in records):
        fields["verdict"] = lambda r: r["verdict"][verdict] if "verdict" in r else None
    if lead:
        fields |= {lead: _metric(lead, "value"), **_limits(records, lead)}
    facts = ["n", "accuracy", "mean_confidence", "saturated"]
    apart = ("unknown_rows", "unknown_confidence", "known_accuracy", "known_confidence", "true_tce")
    facts += [fact for fact in apart if any(fact in r for r in records)]
    for fact in facts:
        fields[labelled(first, FACTS[fact])] = _getter(fact)
    names = list(first["metrics"])
    # A column that is there already keeps its place.
    for name in names:
        fields[name] = _metric(name, "value")
    for name in names:
        fields |= _limits(records, name)
    for name in names if "noise_floor" in first else ():
        fields |= {f"{name} floor": _floor(name, "mean"), f"{name} P-value": _floor(name, "p_value")}
    return fields


def _limits(records: Sequence[Record], name: str) -> dict[str, Callable[[Record], Cell]]:
    """The columns of the confidence interval of a metric, if it has one."""
    if not any("level" in r["metrics"][name] for r in records):
        return {}
    return {f"{name} {end}": _metric(name, end) for end in ("low", "high")}


def _getter(key: str) -> Callable[[Record], Cell]:
    return lambda record: record.get(key)


def _metric(name: str, field: str) -> Callable[[Record], Cell]:
    return lambda record: record["metrics"][name].get(field)


def _floor(name: str, field: str) -> Callable[[Record], Cell]:
    return lambda record: (record["noise_floor"][name] or {}).get(field)


def labelled(record: Record, label: str) -> str:
    """The label of a fact, in the words of an event where the record is about one."""
    return EVENT_LABELS.get(label, label) if record["target"] == "event" else label


def rank(records: Sequence[Record], metric: str) -> list[dict[str, Any]]:
    """The records with the best value of a metric first, each with its rank and whether it ties with the best.

    A record ties if its confidence interval overlaps the interval of the best, and the best ties if any other record
    does; None if there is no interval. Records without a value come last.
    """
    from bpmcli.core.metrics import METRICS

    sign = -1.0 if METRICS[metric].higher_is_better else 1.0
    near, far = ("high", "low") if sign < 0 else ("low", "high")

    def value(record: Record) -> float:
        found = record["metrics"][metric]["value"]
        return float("inf") if found is None else sign * found

    ordered = sorted(records, key=value)
    best = ordered[0]["metrics"][metric].get(far) if ordered else None
    ends = [record["metrics"][metric].get(near) for record in ordered]
    tied = [None if best is None or end is None else sign * end <= sign * best for end in ends]
    if tied and tied[0] is not None:
        tied[0] = any(tied[1:])
    pairs = zip(ordered, tied, strict=True)
    return [{**record, "rank": place, "tied": ties} for place, (record, ties) in enumerate(pairs, 1)]


def shorten_inputs(table: Table) -> Table:
    """The same table with the folder that all inputs share moved into the title."""
    names = [str(row[0]) for row in table.rows]
    # Prefixes, not paths: some names are addresses or "pooled (2 inputs)".
    folder = os.path.commonprefix([os.path.dirname(name) + "/" for name in names])  # noqa: RUF071
    folder = folder[: folder.rfind("/") + 1]
    if not folder.strip("/") or table.columns[0] != "input":
        return table
    rows = [[str(row[0])[len(folder) :], *row[1:]] for row in table.rows]
    return table._replace(rows=rows, title=f"{folder}: {' '.join(table.heading)}")


def _target(record: Record) -> str:
    names = {"event": "P(y = 1)", "top-label": "the predicted class"}
    return names.get(record["target"]) or f"the {record['target'].removeprefix('top-')} most probable classes"


USUAL_LEVEL = 0.95


def _level(record: Record) -> float | None:
    """The level of the intervals in the table; None if there are none."""
    return next((m["level"] for m in record["metrics"].values() if m.get("level")), None)


def two_levels(record: Record) -> str:
    """A sentence if the intervals in the table and in the verdict have different levels; otherwise empty."""
    level = _level(record)
    if level is None or "verdict" not in record or abs(level - record["verdict"]["level"]) < 1e-9:
        return ""
    one_limit, verdict = 50 + 50 * level, 100 * record["verdict"]["level"]
    return (
        f"The table has {100 * level:g} % intervals: each limit alone has a confidence of {one_limit:g} %, and gates "
        f"use one limit. The verdict has a {verdict:g} % interval."
    )


def _one(record: Record, brief: bool) -> Table:
    level = _level(record)
    head = ["", "value"]
    head += [f"{100 * level:g} % low", "high"] if level else []
    head += ["noise floor", "95th percentile", "P-value"] if "noise_floor" in record else []
    rows = [[*row, *[None] * (len(head) - len(row))] for row in [*_facts(record), *_values(record, bool(level))]]
    heading, accent = [f"{title(record)}: {_data(record)}; calibration of {_target(record)}"], ("", "")
    if "verdict" in record and not brief:
        heading += [record["verdict"]["sentence"], *record.get("disagreements", ())]
        heading += [record["class_check"]["sentence"]] if "class_check" in record else []
        heading += [sentence] if (sentence := two_levels(record)) else []
        accent = accent_of(record["verdict"])
    return Table(head, rows, heading, accent)


VERDICT_STYLES = {"calibrated": "bold green", "over": "bold red", "under": "bold blue"}
"""By how the name of a verdict begins, as in the diagram; yellow for the others."""


def accent_of(verdict: Mapping[str, Any]) -> tuple[str, str]:
    """The first words of a verdict's sentence, and the style that a terminal shows them in."""
    opening = re.split(r"[:.] [iI]t ", verdict["sentence"])[0]
    return opening, VERDICT_STYLES.get(verdict["name"].partition("-")[0], "bold yellow")


def _data(record: Record) -> str:
    """What the data is: rows, classes, kind of scores."""
    parts = [f"{record['n']:,} rows" if record["n"] != 1 else "1 row"]
    parts += [f"{key} {record[key]}" for key in ("task", "model") if record.get(key)]
    for key in ("labels", "classes"):
        if record.get(key):
            parts.append(f"{record[key]} {key}")
            break
    if record.get("scores"):
        parts.append(str(SCORES.get(record["scores"], record["scores"])))
    return ", ".join(parts)


def _facts(record: Record) -> Iterator[list[Cell]]:
    for field, label in FACTS.items():
        if field in record and field not in record["metrics"]:
            yield [labelled(record, label), record[field]]


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


BIN_LABELS = {
    "accuracy_low": "95 % low", "accuracy_high": "high",
    "event_rate": "event rate", "event_rate_low": "95 % low", "event_rate_high": "high",
}  # fmt: skip


def bins(records: Sequence[Record], by_eye: bool = True) -> Table:
    """The bins of every input, one line each. `by_eye` shortens the names; otherwise they are the names in JSON."""
    records = [outward(record) for record in records]
    names = list(records[0]["bins"][0])
    labels = BIN_LABELS | ({"confidence": EVENT_LABELS["mean confidence"]} if "event_rate" in names else {})
    shown = [labels.get(name, name) for name in names] if by_eye else names
    identity = [key for key in ("input", "group") if key in records[0]] if len(records) > 1 else []
    rows: list[list[Cell]] = []
    for record in records:
        for item in record["bins"]:
            values = [int(v) if k == "rows" and float(v).is_integer() else v for k, v in item.items()]
            rows.append([*(record[key] for key in identity), *values])
    return Table([*identity, *shown], rows, fine=("lower", "upper", labels.get("confidence", "confidence")))


CLASSES_SHOWN = 30
"""The most lines of the table of classes; csv and json have every class."""


def classes(records: Sequence[Record], most: int | None = None) -> Table:
    """One line per class of every input; if there are more than `most`, the classes with the largest gaps."""
    identity = [key for key in ("input", "group") if key in records[0]] if len(records) > 1 else []
    names = list(records[0]["classwise"][0]["metrics"])
    limits = [f"{name}{end}" for name in names for end in ("", " low", " high")]
    rows: list[list[Cell]] = []
    left_out = 0
    for record in records:
        every = record["classwise"]
        shown = every
        if most is not None and len(every) > most:
            shown = sorted(every, key=lambda one: -abs(one["gap"]))[:most]
        left_out += len(every) - len(shown)
        for one in shown:
            values = [one["metrics"][name].get(field) for name in names for field in ("value", "low", "high")]
            facts = [one[key] for key in ("class", "rows", "rate", "mean_probability", "gap")]
            rows.append([*(record[key] for key in identity), *facts, *values])
    title = "each label" if "labels" in records[0] else "each class against the rest"
    title += f"; the {len(rows)} with the largest gaps" if left_out else ""
    return Table([*identity, "class", "rows", "rate", "mean probability", "gap", *limits], rows, title)
