"""Manual pages made from the help: `python -m bpmcli.cli.man_pages DIR` writes one for every command."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bpmcli import __version__


def pages() -> Iterator[tuple[str, str]]:
    """(file name, text) of every page."""
    import typer

    from bpmcli.cli.program import COMMANDS, app

    root: Any = typer.main.get_command(app)
    listed = [(name, about) for name, about in COMMANDS.items()]
    yield "bpmcli.1", _page("bpmcli", root, _commands("bpmcli", listed))
    for name in COMMANDS:
        command = root.get_command(None, name)
        inner = getattr(command, "commands", {})
        listed = [(each, found.short_help or "") for each, found in inner.items()]
        path = f"bpmcli-{name}"
        yield f"{path}.1", _page(path, command, _commands(path, listed) if inner else "")
        for each, found in inner.items():
            yield f"{path}-{each}.1", _page(f"{path}-{each}", found)


def _page(name: str, command: Any, commands: str = "") -> str:
    about, _, examples = inspect.cleandoc(command.help or "").partition("\b\n")
    about = " ".join(about.split())
    short = about.partition(". ")[0].rstrip(".")
    context = command.make_context(name.replace("-", " "), [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH {_roff(name.upper())} 1 "" "bpmcli {__version__}" "bpmcli"',
        ".SH NAME",
        f"{_roff(name)} \\- {_roff(short[:1].lower() + short[1:])}",
        ".SH SYNOPSIS",
        f".B {_roff(name.replace('-', ' '))}",
        _roff(usage),
        ".SH DESCRIPTION",
        _roff(about),
    ]
    if examples.strip():
        lines += [
            ".SH EXAMPLES",
            ".nf",
            *(_roff(line.strip()) for line in examples.splitlines() if line.strip()),
            ".fi",
        ]
    return "\n".join([*lines, *_options(command, context)]) + "\n" + commands


def _options(command: Any, context: Any) -> Iterator[str]:
    """The options under the headings that --help gives them."""
    headed = getattr(command, "headed", None)
    if headed is None:
        return
    for heading, records in headed(context).items():
        yield f'.SH "{_roff(heading.upper())}"'
        for names, text in records:
            yield from (".TP", f".B {_roff(names)}", _roff(text) or "\\&")


def _commands(path: str, listed: list[tuple[str, str]]) -> str:
    lines = [".SH COMMANDS"]
    for name, about in listed:
        lines += [".TP", f".BR {_roff(f'{path}-{name}')} (1)", _roff(about)]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    """Text in which nothing is taken for a request: backslashes, hyphens, and dots or quotes that begin a line."""
    text = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def main(folder: str) -> None:
    """Write every page into a folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (Path(folder) / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
