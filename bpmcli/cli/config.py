"""Options from a file and from the environment. The command line overrides BPMCLI_… variables, and these the file.

The file is bpmcli.toml, or the table [tool.bpmcli] of pyproject.toml, in the working directory or above it up to the
root of the repository. Keys are long option names. Keys at the top are for every command that has the option. Keys in a
table named after a command are for that command, and only there can `inputs` be given. Keys in [paths."PATTERN"] set
columns and limits of the inputs whose path matches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bpmcli.errors import UsageError
from bpmcli.record import Record

PREFIX = "BPMCLI_"
NAMED = "BPMCLI_CONFIG"
"""The environment variable that names the file to read; an empty value means none."""
_COPIES = "BPMCLI_STREAM_COPIES"
"""A variable that bpmcli itself sets for worker processes (see io/opening.py)."""
NOT_OPTIONS = {NAMED, "BPMCLI_DEBUG", "BPMCLI_MEMORY", _COPIES}
LARGEST = 1 << 20
"""The largest configuration file that is read, in bytes."""
PATHS = "paths"
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class Setting(Record):
    """An option that was set outside of the command line."""

    scope: tuple[str, ...]
    """The command it is for; empty for every command that has the option."""
    option: str
    value: Any
    source: str


def config_file() -> str | None:
    """The path of the file in force."""
    named = os.environ.get(NAMED)
    if named is not None:
        return named or None
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # the working directory was deleted, and nothing is above it
        return None
    while True:
        own, project = os.path.join(folder, "bpmcli.toml"), os.path.join(folder, "pyproject.toml")
        if os.path.isfile(own):
            return own
        if os.path.isfile(project) and _mentions_bpmcli(project):
            return project
        above = os.path.dirname(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            return None
        folder = above


def _mentions_bpmcli(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"tool.bpmcli" in file.read(LARGEST)
    except OSError:
        return False


def settings() -> list[Setting]:
    """Everything that is set, the weakest setting first. Raises UsageError for unknown options and commands."""
    names = [name for name in os.environ if name.startswith(PREFIX) and name not in NOT_OPTIONS]
    path = config_file()
    if path is None and not names:
        return []
    from bpmcli.cli.config_names import known_options

    options = known_options()
    found = list(_from_file(path, options)) if path is not None else []
    found += [_from_variable(name, options) for name in sorted(names)]
    # The table of a command overrides keys at the top, whatever their order in the file.
    return sorted(found, key=lambda setting: (setting.source.startswith(PREFIX), len(setting.scope)))


def in_force() -> list[Setting]:
    """The settings that no stronger one replaces."""
    found = settings()
    return [
        setting
        for position, setting in enumerate(found)
        if not any(
            later.option == setting.option and setting.scope[: len(later.scope)] == later.scope
            for later in found[position + 1 :]
        )
    ]


def _from_file(path: str, options: Mapping[tuple[str, ...], Any]) -> Iterator[Setting]:
    from bpmcli.cli.config_names import check_name, check_path_option, text_values

    folder = os.path.dirname(os.path.abspath(path))
    for scope, name, value in _tables(_load(path), path, options):
        inside = ("metrics",) if scope[:1] == (PATHS,) else scope  # which has every option that a path may have
        table = f'paths."{scope[1]}"' if scope[:1] == (PATHS,) else None
        option = check_name(path, inside, name, options, table, value)
        if scope[:1] == (PATHS,):
            check_path_option(path, scope[1], option)
        yield Setting(scope, option, text_values(path, inside, option, value, options, folder), os.path.relpath(path))


def _load(path: str) -> Mapping[str, Any]:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise UsageError(f"{path}: is larger than {LARGEST >> 20} MB", "is it a configuration file?")
        document = tomllib.loads(text.decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", f"{NAMED} names a configuration file; unset it") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: is not valid TOML ({error})") from None
    if os.path.basename(path) != "pyproject.toml":
        return dict(document)
    tool = document.get("tool", {})
    found = tool.get("bpmcli", {}) if isinstance(tool, dict) else None
    if not isinstance(found, dict):
        raise UsageError(f"{path}: tool.bpmcli must be a table", "[tool.bpmcli]")
    return found


def _tables(
    table: Mapping[str, Any], path: str, options: Mapping[tuple[str, ...], Any], scope: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """(command, key, value) of every key, including those in tables named after a command."""
    for name, value in table.items():
        inner = (*scope, name)
        if inner == (PATHS,):
            if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
                raise UsageError(f"{path}: paths must hold a table per pattern", '[paths."old/*.csv"]')
            yield from (
                (((PATHS, pattern), key, each)) for pattern, table in value.items() for key, each in table.items()
            )
        elif isinstance(value, dict) and any(command[: len(inner)] == inner for command in options):
            yield from _tables(value, path, options, inner)
        else:
            yield scope, name, value


def _from_variable(variable: str, options: Mapping[tuple[str, ...], Any]) -> Setting:
    """BPMCLI_FAIL_ABOVE is for every command that has the option, BPMCLI_METRICS_FAIL_ABOVE for one."""
    from bpmcli.cli.config_names import check_name, find, text_values

    name = variable.removeprefix(PREFIX).lower().replace("_", "-")
    scope: tuple[str, ...] = ()
    for command in options:
        rest = name.removeprefix("-".join(command) + "-")
        if rest != name and find(command, rest, options) is not None:
            scope, name = command, rest
    option = check_name(variable, scope, name, options)
    parameter = find(scope, option, options)
    value: Any = os.environ[variable]
    if parameter.is_flag:
        if value.lower() not in YES + NO:
            raise UsageError(f"{variable}: must be 1 or 0, got '{value}'")
        value = value.lower() in YES
    elif parameter.multiple:
        value = value.split()
    return Setting(scope, option, text_values(variable, scope, option, value, options, None), variable)


def unchecked(command: str, option: str, path: bool = False) -> Any:
    """What an option of a command is set to, or None, even if other parts of the configuration are wrong.

    With `path`, a relative path in a file is taken relative to that file.
    """
    own = option.replace("-", "_")
    for variable in (f"{PREFIX}{command}_{own}", f"{PREFIX}{own}"):
        if variable.upper() in os.environ:
            return os.environ[variable.upper()]
    file = config_file()
    try:
        document = {} if file is None else _load(file)
    except UsageError:
        return None
    inner = document.get(command)
    tables = [inner if isinstance(inner, dict) else {}, document]
    found = next((table[name] for table in tables for name in (option, own) if name in table), None)
    if path and file and isinstance(found, str):
        return os.path.join(os.path.dirname(file), found)
    return found


class PathOptions(Record):
    """Options for the inputs whose path matches a pattern."""

    pattern: str
    """An absolute path; `*` also matches a separator."""
    options: Mapping[str, Any]
    """By parameter name."""
    weaker: Mapping[str, Sequence[Any]]
    """Values from weaker settings, which these options replace, by parameter name. Any other value is from the command
    line and is kept."""

    def changes(self, group: Any) -> dict[str, Any]:
        """The options of a group that this pattern replaces: all that the command line did not set."""
        own = group._field_defaults
        return {
            name: value
            for name, value in self.options.items()
            if name in own and getattr(group, name) in (own[name], *self.weaker.get(name, ()))
        }


def path_options() -> list[PathOptions]:
    """The tables [paths."PATTERN"] of the file in force, in their order: the last that matches wins."""
    path = config_file()
    if path is None or PATHS not in _load(path):
        return []
    found, folder = settings(), os.path.dirname(os.path.abspath(path))
    by_variable = {setting.option for setting in found if setting.source.startswith(PREFIX)}
    weaker: dict[str, list[Any]] = {}
    patterns: dict[str, dict[str, Any]] = {}
    for setting in found:
        name = setting.option.replace("-", "_")
        if setting.scope[:1] != (PATHS,):
            weaker.setdefault(name, []).append(setting.value)
        elif setting.option not in by_variable:
            patterns.setdefault(setting.scope[1], {})[name] = setting.value
    return [PathOptions(os.path.join(folder, pattern), options, weaker) for pattern, options in patterns.items()]


def defaults(path: tuple[str, ...], command: Any) -> dict[str, Any]:
    """Values for the parameters of a command, by parameter name."""
    found = settings()
    if not found:
        return {}
    from bpmcli.cli.config_names import options_of

    options = options_of(command)
    return {
        options[setting.option].name: setting.value
        for setting in found
        if setting.scope == path[: len(setting.scope)] and setting.option in options
    }
