"""bpmcli config: which options are set outside of the command line, and where."""

from __future__ import annotations

from typing import Annotated

from bpmcli import __version__
from bpmcli.cli import console
from bpmcli.cli.options.command import command_app, only
from bpmcli.cli.options.showing import Other, Output


def config(*, output: Annotated[Output, only("format")], other: Annotated[Other, only("quiet")]) -> int:
    """Show the options that a configuration file or the environment sets, and where each is set.

    \b
      bpmcli config
      bpmcli config --format json
    """
    from bpmcli.cli.config import config_file, in_force
    from bpmcli.cli.render import Table, show

    format_ = output.resolve()
    other.resolve()
    path, found = config_file(), in_force()
    if path is None and not found:
        console.note("note: nothing is set: no bpmcli.toml, no [tool.bpmcli] in pyproject.toml, no BPMCLI_… variable")
    rows = [(" ".join(s.scope) or "all", s.option, _shown(s.value), s.source) for s in found]
    document = {
        "schema": "bpmcli/config",
        "version": 1,
        "tool": f"bpmcli {__version__}",
        "file": path,
        "settings": [
            {"command": " ".join(s.scope) or None, "option": s.option, "value": s.value, "from": s.source}
            for s in found
        ],
    }
    show(format_, Table(["command", "option", "value", "from"], rows), document)
    return 0


app = command_app(config)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
