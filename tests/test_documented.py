"""A feature that no page mentions fails here: commands, options, metrics, methods, formats, exit codes, JSON schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import ROOT
from doc_blocks import PAGES

from bpmcli.cli import app
from bpmcli.cli.cmd_compare import KINDS

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
EVERYTHING = "\n".join(PAGE.values())


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """(full name, command) of every command that can be run."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if not names:
        yield path, command
    for name in names:
        yield from commands(command.get_command(None, name), f"{path} {name}")


COMMANDS = dict(commands(typer.main.get_command(app), "bpmcli"))


def options() -> Iterator[tuple[str, str]]:
    for path, command in COMMANDS.items():
        for parameter in command.params:
            if not getattr(parameter, "hidden", False):
                yield from ((path, name) for name in parameter.opts if name.startswith("--"))


def mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def test_every_command_is_in_the_readme_and_every_subcommand_somewhere():
    for path in COMMANDS:
        assert mentions(README, " ".join(path.split()[:2])), f"README.md does not mention {path}"
        known = mentions(EVERYTHING, path) or mentions(EVERYTHING, path.removeprefix("bpmcli "))
        assert known, f"neither README.md nor a page of docs/ mentions {path}"
    assert "`bpmcli compare " + "\\|".join(KINDS) + "`" in README, "the table of commands in README.md lacks a kind"


@pytest.mark.parametrize("name", sorted({name for _, name in options()}))
def test_every_option_is_documented(name):
    users = [path for path, option in options() if option == name]
    assert mentions(EVERYTHING, name), f"{name} of {', '.join(users)} is neither in README.md nor in a page of docs/"


def test_every_metric_is_explained():
    from bpmcli.core.metrics import METRICS

    for name in METRICS:
        assert f"| `{name}`" in PAGE["METRICS.md"], f"docs/METRICS.md has no row of a table that begins with | `{name}`"


def test_every_method_is_explained():
    from bpmcli.core.calibrators import METHODS

    for name in METHODS:
        row = f"| `{name}`"
        assert row in PAGE["CALIBRATORS.md"], f"docs/CALIBRATORS.md has no row of a table that begins with {row}"


def test_every_format_is_explained():
    from bpmcli.io.formats import readers, writers

    for suffix in {**readers(), **writers()}:
        assert f"`{suffix}`" in PAGE["INPUTS.md"], f"docs/INPUTS.md does not mention `{suffix}`"


def test_every_curve_family_is_explained():
    from bpmcli.core.curves.families import FAMILIES

    for name in FAMILIES:
        assert mentions(PAGE["SIMULATION.md"], name), f"docs/SIMULATION.md does not mention {name}"


def test_every_exit_code_is_in_the_readme():
    for code in (0, 1, 2, 3, 4, 5, 70, 130):
        assert f"| {code} |" in README
    assert "143 terminated" in README


def python_files() -> Iterator[Path]:
    return (ROOT / "bpmcli").rglob("*.py")


def test_every_json_schema_is_documented():
    found = {name for path in python_files() for name in re.findall(r"\"(bpmcli/[a-z-]+)\"", path.read_text())}
    assert len(found) > 5
    for name in sorted(found):
        assert mentions(PAGE["JSON.md"], name), f"docs/JSON.md does not mention {name}"


def test_every_environment_variable_is_documented():
    # Variables that private constants name are only passed between bpmcli's own processes.
    pattern = re.compile(r"^(?!_).*\"(BPMCLI_[A-Z_]+)\"", flags=re.MULTILINE)
    found = {name for path in python_files() for name in pattern.findall(path.read_text())}
    assert "BPMCLI_DEBUG" in found
    for name in sorted(found):
        assert mentions(EVERYTHING, name), name
