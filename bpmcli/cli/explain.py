"""What `metrics --explain-input` shows: which column of each input is used for what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bpmcli.cli import console
from bpmcli.cli.render import Cell, Table, show
from bpmcli.core.data.rows import EVENT
from bpmcli.errors import BpmError
from bpmcli.io.layout import InputOptions, understand
from bpmcli.io.opening import open_input
from bpmcli.io.paths import Input
from bpmcli.io.readers import SUMMARY_KEY


def explain_inputs(items: Sequence[Input], options: InputOptions, format_: str) -> int:
    """Show how each input is understood; nothing is computed. Returns the exit code."""
    rows: list[list[Cell]] = []
    found: list[dict[str, Any]] = []
    code = 0
    for item in items:
        try:
            roles = _roles(item.path, options)
        except BpmError as error:
            console.show_error(error.at(item.path))
            code = error.exit_code
            continue
        rows += [[item.path, role, what] for role, what in roles]
        found.append({"input": item.path, "understood": dict(roles)})
    if rows:
        document = {"schema": "bpmcli/explain", "version": 1, "inputs": found}
        show(format_, Table(["input", "role", "taken from"], rows), document)
    return code


def _roles(path: str, options: InputOptions) -> list[tuple[str, str]]:
    source, options = open_input(path, options)
    if SUMMARY_KEY in source.metadata:
        return _roles_of_summary(path, options)
    layout = understand(source, options)
    unused = [name for name in source.columns if name not in layout.names]
    return [*layout.explain(), ("unused columns", ", ".join(unused) or "none")]


def _roles_of_summary(path: str, options: InputOptions) -> list[tuple[str, str]]:
    from bpmcli.io.summary_files import read_stored

    stored = read_stored(path, options)
    groups = [] if stored.by is None else [("group", f"{stored.by} ({len(stored.tables)} values)")]
    calibrates = "P(y = 1) itself" if stored.target == EVENT else "the predicted class"
    return [("summary", "written by bpmcli summarize"), *groups, ("calibrates", calibrates)]
