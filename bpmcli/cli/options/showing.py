"""Where results go and how they look."""

from typing import Annotated, Any

import typer

from bpmcli.cli.options.checks import one_of, whole
from bpmcli.cli.options.command import OTHER, under
from bpmcli.errors import UsageError
from bpmcli.record import Record

FORMATS = ("table", "json", "csv", "markdown")
FORMATS_PER_INPUT = (*FORMATS, "jsonl")
"""Formats of a command with one result per input."""


@under("Output")
class Output(Record):
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

    def resolve(self, formats: tuple[str, ...] = FORMATS) -> str:
        """The format on standard output."""
        if self.output and self.output_dir:
            raise UsageError("-o and --output-dir exclude each other", "keep one of them")
        return one_of("--format", self.format, formats)


AXES = ("confidence", "log-odds")
THEMES = ("light", "dark")
SMALLEST, LARGEST = 1.0, 100.0
"""Shortest and longest side of a picture, in inches."""


@under("Pictures")
class Picture(Record):
    """Reliability diagrams in the terminal and in files."""

    diagram: Annotated[
        bool | None,
        typer.Option(
            "--diagram/--no-diagram", show_default="on a terminal", help="Draw a reliability diagram in characters."
        ),
    ] = None
    axis: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS", show_default="log-odds where most rows are near 0 or 1", help="confidence or log-odds."
        ),
    ] = None
    overlay: Annotated[bool, typer.Option("--overlay", help="With --plot: all curves in one panel.")] = False
    theme: Annotated[str, typer.Option(metavar="THEME", help="Colours of the picture: light or dark.")] = "light"
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the picture.")] = None
    size: Annotated[str | None, typer.Option(metavar="WxH", help="Size of the picture in inches, e.g. 6x7.")] = None

    def in_terminal(self, format_: str) -> bool:
        """Whether a diagram is printed: if asked for; otherwise with a table that goes to a terminal."""
        import sys

        if self.diagram is not None:
            if self.diagram and format_ != "table":
                raise UsageError(f"--diagram belongs to a table, not to {format_}", "leave --format or --diagram out")
            return self.diagram
        return format_ == "table" and sys.stdout.isatty()

    def resolve(self, drawn: bool) -> Any:
        """The style of a picture. Raises UsageError for wrong options even if no picture is drawn."""
        if self.axis is not None:
            one_of("--axis", self.axis, AXES)
        theme, size = one_of("--theme", self.theme, THEMES), _size(self.size)
        if not drawn:
            return None
        from bpmcli.plots import PictureStyle

        return PictureStyle(theme, self.title, size)


def _size(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    width, _, height = text.lower().partition("x")
    try:
        sides = float(width), float(height)
    except ValueError:
        sides = 0.0, 0.0
    if not all(SMALLEST <= side <= LARGEST for side in sides):
        raise UsageError(f"--size {text}: expected two lengths of 1 to 100 inches", "--size 6x7")
    return sides


@under(OTHER)
class Other(Record):
    """What concerns every command."""

    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of all random numbers.")] = 0
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no verdict in words, no progress.")] = False

    def resolve(self) -> int:
        """The seed. Also makes --quiet take effect."""
        from bpmcli.cli import console

        console.quiet = console.quiet or self.quiet
        return whole("--seed", self.seed, 0)
