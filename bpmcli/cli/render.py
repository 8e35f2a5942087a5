"""Results as table, csv, markdown or json. A terminal changes how a result looks, never what it contains."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from bpmcli.cli import streams
from bpmcli.cli.console import colourful, printable
from bpmcli.escape import markdown
from bpmcli.io.stdout import data_stream
from bpmcli.record import Record

Cell = str | float | int | bool | None


class Table(Record):
    """Named columns and rows of plain values."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str | Sequence[str] = ""
    """One line, or several."""
    accent: tuple[str, str] = ("", "")
    """Words of the title that a terminal shows in a style, and the style."""
    fine: Collection[str] = ()
    """Columns of probabilities that get more digits near 0 and 1, so that they differ from these."""

    @property
    def heading(self) -> list[str]:
        """The lines of the title, safe to print."""
        lines = [self.title] if isinstance(self.title, str) else self.title
        return [printable(line) for line in lines if line]


def render(format_: str, table: Table, document: Any) -> str:
    """The result as text: json shows the whole document, the others the table."""
    if format_ == "json":
        from bpmcli.io.documents import dumps

        return dumps(document)
    if format_ == "csv":
        return _csv(table)
    if format_ == "markdown":
        return _markdown(table)
    return _plain(table)


@contextmanager
def writing() -> Iterator[None]:
    """For printing to standard output. If its reader has ended, printing stops, but a later gate still counts."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        streams.forget(sys.stdout)


def _drawn(stream: TextIO) -> bool:
    """Whether tables are fitted to the width of a terminal: NO_COLOR takes only the colours away."""
    return colourful(stream) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def show(format_: str, table: Table, document: Any) -> None:
    """Print to standard output; on a terminal a table is drawn with rich."""
    if isinstance(sys.stdout, streams.Closed):
        return
    with writing():
        if format_ == "table" and _drawn(sys.stdout):
            _rich(table)
        else:
            stream = data_stream() if format_ in ("csv", "json") else sys.stdout
            stream.write(render(format_, table, document))


LONGEST_RULE = 40


def short(value: Cell) -> str:
    """A value for reading: five decimals, a dash for what is missing, no control characters."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5f}" if abs(value) < 1e5 else f"{value:.6g}"
    return printable(str(value))


FINEST = 10
"""The most decimals of a probability near 0 or 1."""


def _fine(value: Cell) -> str:
    """A probability with at least five decimals, and enough to show two digits of its distance from 0 or 1."""
    if not isinstance(value, float) or not 0.0 < value < 1.0:
        return short(value)
    distance = min(value, 1.0 - value)
    if distance < 0.5 * 10.0**-FINEST:
        return short(value)
    return f"{value:.{min(max(5, 1 - math.floor(math.log10(distance))), FINEST)}f}"


def _texts(table: Table) -> list[list[str]]:
    """The cells as text for a reader."""
    shown = [_fine if name in table.fine else short for name in table.columns]
    return [[text(value) for text, value in zip(shown, row, strict=True)] for row in table.rows]


def _numeric(table: Table) -> list[bool]:
    """Whether each column holds numbers, which are aligned right."""
    return [all(not isinstance(row[i], str) for row in table.rows) for i in range(len(table.columns))]


def _plain(table: Table) -> str:
    cells = _texts(table)
    names = [printable(name) for name in table.columns]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(names)]
    right = _numeric(table)

    def line(values: Sequence[str]) -> str:
        padded = [v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right, strict=True)]
        return "  ".join(padded).rstrip() + "\n"

    head = "".join(f"{each}\n" for each in table.heading)
    # The line under the last column need not be as long as a sentence in it.
    rule = line(["-" * w for w in widths[:-1]] + ["-" * min(widths[-1], LONGEST_RULE)])
    return head + line(names) + rule + "".join(line(row) for row in cells)


def _markdown(table: Table) -> str:
    def line(values: Sequence[str]) -> str:
        return "| " + " | ".join(values) + " |\n"

    rule = line(["--:" if r else "---" for r in _numeric(table)])
    head = "".join(f"**{markdown(each)}**\n\n" for each in table.heading)
    body = "".join(line([markdown(text) for text in row]) for row in _texts(table))
    return head + line([markdown(name) for name in table.columns]) + rule + body


def _csv(table: Table) -> str:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([["" if v is None else repr(v) if isinstance(v, float) else v for v in row] for row in table.rows])
    return out.getvalue()


def _rich(table: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console() if colourful(sys.stdout) else Console(color_system=None)
    right, cells = _numeric(table), _texts(table)
    if table.heading:  # not the title of RichTable, which wraps at the table's width
        heading = Text("\n".join(table.heading))
        words, style = table.accent
        at = heading.plain.find(words) if words else -1
        if at >= 0:
            heading.stylize(style, at, at + len(words))
        console.print(heading)
    widths = _widths(table, cells, console.width)
    for chosen in _fitting(table, widths, console.width):
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for i in chosen:
            drawn.add_column(
                Text(printable(table.columns[i])), justify="right" if right[i] else "left", overflow="fold",
                max_width=widths[i],
            )  # fmt: skip
        for row, texts in zip(table.rows, cells, strict=True):
            drawn.add_row(*(Text(texts[i], style=_style(table.columns[i], row[i])) for i in chosen))
        console.print(drawn)


NARROWED = {"input": 32, "verdict": 18}
"""The widths of these columns in a table that is too wide for the terminal. Their text wraps; figures never do."""

TITLE_STYLES = {
    "calibrated": "green", "over-confident": "red", "too high": "red", "under-confident": "blue", "too low": "blue",
}  # fmt: skip
"""By how the title of a verdict begins; yellow for the others."""


def _style(column: str, value: Cell) -> str:
    """How a terminal shows a cell: verdicts in the colours of the diagram, missing values dimmed."""
    if value is None:
        return "dim"
    if column != "verdict":
        return ""
    return next((style for start, style in TITLE_STYLES.items() if str(value).startswith(start)), "yellow")


GAP = 3
"""Spaces between the columns of a table on a terminal."""


def _widths(table: Table, cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """The widths of the columns. If the table is too wide for the terminal, names and verdicts are narrowed."""
    from rich.cells import cell_len  # a wide character, such as 日, takes two cells of a terminal

    found = [max([cell_len(name), *(cell_len(row[i]) for row in cells)]) for i, name in enumerate(table.columns)]
    if sum(found) + GAP * len(found) <= width:
        return found
    return [min(wide, NARROWED.get(name, wide)) for wide, name in zip(found, table.columns, strict=True)]


def _fitting(table: Table, widths: Sequence[int], width: int) -> list[list[int]]:
    """Columns in groups that fit side by side; each repeats the columns that identify a row."""
    keys = [0, 1] if list(table.columns[:2]) == ["input", "group"] else [0]
    groups: list[list[int]] = [[*keys]]
    for i in range(len(keys), len(widths)):
        if len(groups[-1]) > len(keys) and sum(widths[k] + GAP for k in [*groups[-1], i]) > width:
            groups.append([*keys])
        groups[-1].append(i)
    return groups
