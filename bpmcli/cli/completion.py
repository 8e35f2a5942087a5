"""Shell completion. Commands, options and names are written into the script, so a key press does not start Python.

Only the columns of a file are looked up on demand, by `bpmcli.column_names`, which imports next to nothing.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

COLUMNS, FILES = "columns", "files"


class Option(NamedTuple):
    """An option as a shell offers it, or the arguments of a command if these are not files."""

    names: tuple[str, ...]
    """Empty for the arguments of a command."""
    help: str
    takes: tuple[str, ...] | str | None
    """The values to choose from, none for a number without a default; COLUMNS or FILES; None for a flag."""


def commands() -> dict[str, list[Option]]:
    """The options of every command; a group of commands has none."""
    import typer

    from bpmcli.cli.program import COMMANDS, app

    root = typer.main.get_command(app)
    values = _values()
    found: dict[str, list[Option]] = {}
    for name in COMMANDS:
        command: Any = root.get_command(None, name)  # type: ignore[attr-defined]
        found[name] = _options(name, command, values)
        for inner, each in getattr(command, "commands", {}).items():
            found[f"{name} {inner}"] = _options(f"{name} {inner}", each, values)
    return found


def _values() -> Mapping[str, tuple[str, ...]]:
    """What options can be set to, by their long names."""
    from bpmcli.cli.options.showing import AXES, FORMATS, FORMATS_PER_INPUT, THEMES
    from bpmcli.core.calibrators import METHODS
    from bpmcli.core.compare.scores import score_names
    from bpmcli.core.compare.truths import TRUTHS
    from bpmcli.core.curves.families import FAMILIES
    from bpmcli.core.metrics import METRICS, calibration_errors
    from bpmcli.io.formats import readers
    from bpmcli.io.logs import LOGS

    limits = tuple(f"{name}=" for name in METRICS)
    return {
        "--metric": (*METRICS, "all"),
        "--method": (*METHODS, "list"),
        "--method of fit": (*METHODS, "auto", "list"),
        "--prior": (*FAMILIES, "list"),
        "--truth": tuple(TRUTHS),
        **dict.fromkeys(("--fail-above", "--fail-below", "--pass-below", "--max-increase"), limits),
        "--rank-by": tuple(score_names(calibration_errors())),
        "--format": FORMATS,
        "--format of metrics": FORMATS_PER_INPUT,
        "--binning": ("mass", "width"),
        "--density": ("beta", "empirical"),
        "--variant": ("paper", "authors"),
        "--optimizer": ("newton", "nelder-mead"),
        "--engine": ("local", "dask"),
        "--inconclusive": ("pass", "fail"),
        "--lm-score": ("acc", "acc_norm"),
        "--scale": ("percent",),
        "--sort": tuple(METRICS),
        "--axis": AXES,
        "--theme": THEMES,
        "--as": ("probs",),
        "--input-format": (*dict.fromkeys(reader.label for reader in readers().values() if not reader.refused), *LOGS),
        "simulate": tuple(TRUTHS),
        "completion": ("bash", "zsh", "fish"),
        "config": (),
    }


def _options(path: str, command: Any, values: Mapping[str, tuple[str, ...]]) -> list[Option]:
    found = []
    for parameter in command.params:
        if parameter.param_type_name == "argument" or getattr(parameter, "hidden", False):
            continue
        names = tuple(parameter.opts)
        long = next((name for name in names if name.startswith("--")), names[0])
        takes: tuple[str, ...] | str | None = None
        if not parameter.is_flag:
            takes = values.get(f"{long} of {path}") or values.get(long) or _by_metavar(parameter)
        found.append(Option(names, parameter.help or "", takes))
    inputs = [Option((), "", values[path])] if path in values else []
    return [*inputs, *found, Option(("-h", "--help"), "Show the help and exit.", None)]


def _by_metavar(parameter: Any) -> tuple[str, ...] | str:
    """Columns or files, as the help says; otherwise a number or free text, for which only the default is offered."""
    from bpmcli.cli.config_names import PATHS

    if parameter.metavar in ("KEY", "COLUMN"):
        return COLUMNS
    if parameter.metavar in PATHS:
        return FILES
    return (
        ()
        if parameter.default is None
        else (f"{parameter.default:g}" if isinstance(parameter.default, float) else str(parameter.default),)
    )


def script(shell: str) -> str:
    """The completion script for bash, zsh or fish."""
    found = commands()
    return _fish(found) if shell == "fish" else _bash_or_zsh(found, shell)


def _bash_or_zsh(found: Mapping[str, list[Option]], shell: str) -> str:
    cases = "\n".join(_cases(found))
    names = "|".join(f'" {name}"' if " " not in name else f'"{name}"' for name in found)
    first = " ".join(name for name in found if " " not in name)
    python = shlex.quote(sys.executable)
    mark = "#compdef bpmcli\n" if shell == "zsh" else ""
    shared = f"""{mark}# bpmcli completion for {shell}, written by `bpmcli completion {shell}`
_bpmcli_values() {{ # COMMAND PREVIOUS: what may come next, a line each; @files and @columns stand for these
  case "$1:$2" in
{cases}
    :*) printf '%s\\n' {first} --version --help ;;
  esac
}}
_bpmcli_path() {{ # the command named by these words
  local found="" word
  for word in "$@"; do
    case "$found $word" in {names}) found="${{found:+$found }}$word" ;; esac
  done
  printf '%s' "$found"
}}
_bpmcli_columns() {{ {python} -B -m bpmcli.column_names "$@" 2>/dev/null; }}
"""
    return shared + (ZSH if shell == "zsh" else BASH)


def _cases(found: Mapping[str, list[Option]]) -> Iterator[str]:
    for name, options in found.items():
        for option in options:
            if option.takes is None or not option.names:
                continue
            pattern = "|".join(f'"{name}:{each}"' for each in option.names)
            words = f"@{option.takes}" if isinstance(option.takes, str) else " ".join(option.takes)
            yield f"    {pattern}) printf '%s\\n' {words} ;;"
        inner = [other.split()[1] for other in found if other.startswith(f"{name} ")]
        words = " ".join([*inner, *(each for option in options for each in option.names if each.startswith("--"))])
        arguments = next((" ".join(option.takes or ()) for option in options if not option.names), "@files")
        arguments = "" if inner else arguments
        yield f"    \"{name}:\"*) printf '%s\\n' {arguments} {words} ;;"


BASH = """_bpmcli() {
  local current="${COMP_WORDS[COMP_CWORD]}" values kind word quoted
  values="$(_bpmcli_values "$(_bpmcli_path "${COMP_WORDS[@]:1:COMP_CWORD-1}")" "${COMP_WORDS[COMP_CWORD-1]}")"
  COMPREPLY=()
  case "$values" in @*) kind="${values%%$'\\n'*}"; values="${values#"$kind"}" ;; esac
  case "$kind" in
    @columns) values="$(_bpmcli_columns "${COMP_WORDS[@]:2}")" ;;
    @files) [ "${current:0:1}" = - ] || while IFS= read -r word; do
      COMPREPLY+=("$word")
    done < <(compgen -f -- "$current") ;;
  esac
  [ ${#COMPREPLY[@]} = 0 ] || compopt -o filenames 2>/dev/null
  while IFS= read -r word; do # not compgen -W, which runs $(commands) that the name of a column may hold
    printf -v quoted %q "$word"
    [ -n "$word" ] && [[ "$word" == "$current"* || "$quoted" == "$current"* ]] && COMPREPLY+=("$quoted")
  done <<< "$values"
  case "${COMPREPLY[0]:-}" in *=) compopt -o nospace 2>/dev/null ;; esac
}
complete -F _bpmcli bpmcli
"""

ZSH = """_bpmcli() {
  local values=("${(@f)$(_bpmcli_values "$(_bpmcli_path "${(@)words[2,CURRENT-1]}")" "${words[CURRENT-1]}")}")
  case "${values[1]}" in
    @columns) compadd -- "${(@f)$(_bpmcli_columns "${(@)words[3,-1]}")}" ;;
    @files) [[ "${words[CURRENT]}" == -* ]] || _files; shift values; (( $#values )) && compadd -- "${values[@]}" ;;
    "") ;;
    *=) compadd -S '' -- "${values[@]}" ;;
    *) compadd -- "${values[@]}" ;;
  esac
}
# In a directory of fpath, zsh runs this file as the function _bpmcli; otherwise it is sourced.
if [[ "${funcstack[1]}" == _bpmcli ]]; then _bpmcli "$@"; else compdef _bpmcli bpmcli; fi
"""


def _fish(found: Mapping[str, list[Option]]) -> str:
    lines = [
        "# bpmcli completion for fish, written by `bpmcli completion fish`",
        "function __bpmcli_columns",
        f"    {shlex.quote(sys.executable)} -B -m bpmcli.column_names (commandline -opc)[3..-1] 2>/dev/null",
        "end",
    ]
    first = " ".join(name for name in found if " " not in name)
    lines.append(f'complete -c bpmcli -n "not __fish_seen_subcommand_from {first}" -f -a "{first}"')
    for name, options in found.items():
        outer, _, inner = name.partition(" ")
        seen = f"__fish_seen_subcommand_from {outer}" + (f"; and __fish_seen_subcommand_from {inner}" if inner else "")
        if names := [other.split()[1] for other in found if other.startswith(f"{name} ")]:
            lines.append(f'complete -c bpmcli -n "{seen}" -f -a "{" ".join(names)}"')
        lines += [f'complete -c bpmcli -n "{seen}" {_fish_option(option)}' for option in options]
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    if not option.names:
        return f"-f -a '{' '.join(option.takes or ())}'"
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    said = f"-d {shlex.quote(option.help)}"
    if option.takes is None:
        return f"{names} {said}"
    if option.takes == FILES:
        return f"{names} -r {said}"
    words = "(__bpmcli_columns)" if option.takes == COLUMNS else " ".join(option.takes)
    return f"{names} -x -a '{words}' {said}"
