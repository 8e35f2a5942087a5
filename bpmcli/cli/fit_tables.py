"""Fitted calibrators as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpmcli.cli.render import Table

Document = Mapping[str, Any]


def fits(documents: Sequence[tuple[str, Document]], wide: bool = False) -> Table:
    """One fit: a line per value. Several, or `wide`: a line per fit. `documents` are (file, contents) pairs."""
    if len(documents) == 1 and not wide:
        target, document = documents[0]
        rows = [[name, value] for name, value in _values(document).items()]
        return Table(["", "value"], rows, f"{document['method']} -> {target}")
    lines = [{"parameters": target, **_values(document)} for target, document in documents]
    names = list(dict.fromkeys(name for line in lines for name in line))
    return Table(names, [[line.get(name) for name in names] for line in lines])


def _values(document: Document) -> dict[str, Any]:
    fit, sample = document["fit"], document["sample"]
    tce = fit.get("tce", {}).get("value")
    return {
        "method": document["method"],
        **_groups(document),
        **{k: v for k, v in document["parameters"].items() if isinstance(v, (int, float, str))},
        **({"tce" if document["method"] == "bpm-averaged" else "tce-bpm": tce} if tce is not None else {}),
        **{k: fit[k] for k in ("objective", "evaluations", "optimizer", "explanation") if k in fit},
        "rows": sample["n"],
        "accuracy": sample["accuracy"],
        "mean confidence": sample["mean_confidence"],
    }


def _groups(document: Document) -> dict[str, Any]:
    found = document.get("grouping")
    if found is None:
        return {}
    return {
        "by": f"column {found['column']}" if found["column"] else found["kind"],
        "groups with a calibrator": len(found["groups"]),
        "groups that use the pooled calibrator": len(found["pooled"]),
    }
