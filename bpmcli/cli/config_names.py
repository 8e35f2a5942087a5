"""The names and values that a configuration may hold, taken from the options of every command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from bpmcli.errors import UsageError

Scope = tuple[str, ...]
PATHS = ("FILE", "DIR")


class Known(NamedTuple):
    """What can be set about an option."""

    name: str
    """The parameter's name."""
    is_flag: bool
    multiple: bool
    is_path: bool


def options_of(command: Any) -> dict[str, Known]:
    """The options of a command by their long names, and its inputs."""
    found = {}
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            if parameter.name == "inputs":
                found["inputs"] = Known("inputs", False, True, True)
            continue
        for option in parameter.opts:
            if option.startswith("--") and option not in ("--help", "--version"):
                known = Known(parameter.name, parameter.is_flag, parameter.multiple, parameter.metavar in PATHS)
                found[option[2:]] = known
    return found


def known_options() -> dict[Scope, dict[str, Known]]:
    """The options of every command."""
    import typer

    from bpmcli.cli.program import COMMANDS, UNCONFIGURED, app

    root = typer.main.get_command(app)
    found: dict[Scope, dict[str, Known]] = {}
    for name in COMMANDS:
        command: Any = root.get_command(None, name)  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            found |= {(name, inner): options_of(each) for inner, each in command.commands.items()}
        elif name not in UNCONFIGURED:
            found[name,] = options_of(command)
    return found


def find(scope: Scope, name: str, options: Mapping[Scope, Mapping[str, Known]]) -> Any:
    """The option of this name within the commands of a scope, or None."""
    for command, known in options.items():
        if command[: len(scope)] == scope and name in known:
            return known[name]
    return None


def check_name(
    where: str,
    scope: Scope,
    name: str,
    options: Mapping[Scope, Mapping[str, Known]],
    table: str | None = None,
    value: Any = None,
) -> str:
    """The option's own name. Raises UsageError if no command of this scope has it.

    `table` is the table that holds the name in the file, if it is not the table of the scope. `value` tells a table, which
    is named after a command, from an option.
    """
    option = name.replace("_", "-")
    if option == "inputs" and not scope:
        raise UsageError(f"{where}: inputs must be in the table of a command", f"[metrics] {name} = …")
    if find(scope, option, options) is not None:
        return option
    table = table or ".".join(scope)
    inside = f" in the table {table}" if table else ""
    what = "table" if isinstance(value, Mapping) else "option"
    raise UsageError(f"{where}: unknown {what} '{name}'{inside}", _similar(option, scope, options, value))


def _similar(name: str, scope: Scope, options: Mapping[Scope, Mapping[str, Known]], value: Any) -> str:
    """The hint for a name that is not known: the table or the option that it resembles, or where options are listed."""
    from difflib import get_close_matches

    inside = [command for command in options if command[: len(scope)] == scope]
    tables = {command[len(scope)] for command in inside if len(command) > len(scope)} | ({"paths"} - {*scope[:1]})
    if isinstance(value, Mapping) and (close := get_close_matches(name, sorted(tables), 1)):
        return f"did you mean [{'.'.join((*scope, close[0]))}]?"
    close = get_close_matches(name, sorted({each for command in inside for each in options[command]}), 1)
    if close:
        return f"did you mean {close[0]}?"
    return f"bpmcli {' '.join(inside[0] if scope else ('metrics',))} --help lists the options"


def check_path_option(where: str, pattern: str, option: str) -> None:
    """Raise UsageError for an option that cannot differ from input to input."""
    from bpmcli.cli.options.reading import Reading

    allowed = [name.replace("_", "-") for name in Reading._fields] + [
        "fail-above",
        "fail-below",
        "pass-below",
        "max-increase",
    ]
    if option not in allowed:
        raise UsageError(
            f'{where}: {option} cannot differ by path (in paths."{pattern}")', f"can: {', '.join(allowed)}"
        )


def text_values(
    where: str, scope: Scope, option: str, value: Any, options: Mapping[Scope, Mapping[str, Known]], folder: str | None
) -> Any:
    """The value as a command line would give it. Relative paths in a file are relative to the folder of that file."""
    known = find(scope, option, options)
    if known.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{where}: {option} must be true or false, got {value!r}")
        return value
    if known.multiple:
        if isinstance(value, Mapping):
            value = [f"{key}={each}" for key, each in value.items()]
        return [_one(where, option, each, known, folder) for each in (value if isinstance(value, list) else [value])]
    return _one(where, option, value, known, folder)


def _one(where: str, option: str, value: Any, known: Known, folder: str | None) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{where}: {option} must be text or a number, got {value!r}")
    text = str(value)
    if known.is_path and folder and "://" not in text and text != "-" and not os.path.isabs(text):
        return os.path.relpath(os.path.join(folder, text))
    return text
