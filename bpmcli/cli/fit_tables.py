"""Fitted calibrators as tables, and what they change in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bpmcli.cli.render import Table

Document = Mapping[str, Any]


IN_WORDS = ("verdict before", "verdict after", "after is judged by")
"""Values that the sentences above the table already state."""


def fits(documents: Sequence[tuple[str, Document]], wide: bool = False) -> Table:
    """A line per value of one fit; for several, or `wide`, a line per fit or group. `documents`: (file, contents)."""
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
