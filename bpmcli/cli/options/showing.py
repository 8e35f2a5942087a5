"""Where results go and how they look."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from bpmcli.cli.options.checks import one_of, whole
from bpmcli.cli.options.command import OTHER, under
from bpmcli.errors import UsageError

FORMATS = ("table", "json", "csv", "markdown")


@under("Output")
class Output(NamedTuple):
    """Files to write, and the format on standard output."""

    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Output file; its suffix sets the format.")
    ] = None
    output_dir: Annotated[
        str | None,
        typer.Option("--output-dir", metavar="DIR", help="One output per input, in the same folder structure."),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Also redo outputs that are up to date.")] = False
    plot: Annotated[str | None, typer.Option("--plot", metavar="FILE", help="Draw a picture: png, svg or pdf.")] = None
    format: Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help="table, json, csv or markdown.")] = (
        "table"
    )

    def resolve(self) -> str:
        """The format on standard output."""
        if self.output and self.output_dir:
            raise UsageError("-o and --output-dir exclude each other", "keep one of them")
        return one_of("--format", self.format, FORMATS)


@under(OTHER)
class Other(NamedTuple):
    """What concerns every command."""

    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of all random numbers.")] = 0
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress.")] = False

    def resolve(self) -> int:
        """The seed; --quiet takes effect."""
        from bpmcli.cli import console

        console.quiet = console.quiet or self.quiet
        return whole("--seed", self.seed, 0)
