"""What `--list`, `--method list` and `--prior list` show: one line for every entry of a registry."""

from __future__ import annotations

from typing import Any

from bpmcli.cli.render import Cell, Table, show


def show_metrics(format_: str) -> int:
    """Every metric."""
    from bpmcli.core.metrics import METRICS

    entries = [{"name": m.name, "summary": m.summary, "reference": m.reference} for m in METRICS.values()]
    return _show(format_, "metrics", ["metric", "what it is", "reference"], entries)


def show_methods(format_: str) -> int:
    """Every calibrator."""
    from bpmcli.core.calibrators import METHODS

    entries = [
        {"name": m.name, "summary": m.summary, "needs_all_classes": m.needs_distribution, "reference": m.reference}
        for m in METHODS.values()
    ]
    return _show(format_, "methods", ["method", "what it is", "works on", "reference"], entries)


def show_families(format_: str) -> int:
    """Every curve family."""
    from bpmcli.core.curves.families import FAMILIES

    entries = [{"name": f.name, "parameters": f.parameters, "formula": f.formula} for f in FAMILIES.values()]
    return _show(format_, "families", ["family", "parameters", "g(s)"], entries)


def _show(format_: str, what: str, head: list[str], entries: list[dict[str, Any]]) -> int:
    rows = [[_cell(value) for value in entry.values()] for entry in entries]
    singular = head[0]
    document = {"schema": f"bpmcli/{singular}-list", "version": 1, what: entries}
    show(format_, Table(head, rows), document)
    return 0


def _cell(value: Any) -> Cell:
    if isinstance(value, bool):
        return "all classes" if value else "confidence"
    return value if isinstance(value, str) else ", ".join(value) or "none"
