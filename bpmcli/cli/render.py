"""Results as table, csv, markdown or json. A terminal changes looks, never content."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from bpmcli.cli import streams
from bpmcli.cli.console import colourful
from bpmcli.cli.escape import markdown, printable
from bpmcli.io.stdout import data_stream

Cell = str | float | int | bool | None


class Table(NamedTuple):
    """Named columns and rows of plain values."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str | Sequence[str] = ""
    """One line, or several."""

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
    """Printing to standard output. A reader that has gone stops the printing, not the gate that may follow."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        streams.forget(sys.stdout)


def show(format_: str, table: Table, document: Any) -> None:
    """Print to standard output; on a terminal a table is drawn with rich."""
    if isinstance(sys.stdout, streams.Closed):
        return
    with writing():
        if format_ == "table" and colourful(sys.stdout):
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


def _numeric(table: Table) -> list[bool]:
    """Columns to be set flush right."""
    return [all(not isinstance(row[i], str) for row in table.rows) for i in range(len(table.columns))]


def _plain(table: Table) -> str:
    cells = [[short(v) for v in row] for row in table.rows]
    names = [printable(name) for name in table.columns]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(names)]
    right = _numeric(table)

    def line(values: Sequence[str]) -> str:
        padded = [v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right, strict=True)]
        return "  ".join(padded).rstrip() + "\n"

    head = "".join(f"{each}\n" for each in table.heading)
    # A sentence in the last column needs no line under its whole length.
    rule = line(["-" * w for w in widths[:-1]] + ["-" * min(widths[-1], LONGEST_RULE)])
    return head + line(names) + rule + "".join(line(row) for row in cells)


def _markdown(table: Table) -> str:
    def line(values: Sequence[str]) -> str:
        return "| " + " | ".join(values) + " |\n"

    rule = line(["--:" if r else "---" for r in _numeric(table)])
    head = "".join(f"**{markdown(each)}**\n\n" for each in table.heading)
    body = "".join(line([markdown(short(v)) for v in row]) for row in table.rows)
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

    console = Console()
    right = _numeric(table)
    for number, chosen in enumerate(_fitting(table, console.width)):
        if table.heading and number == 0:
            console.print(
                Text("\n".join(table.heading), style="italic")
            )  # not RichTable's, which wraps at the table's width
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for i in chosen:
            drawn.add_column(
                Text(printable(table.columns[i])), justify="right" if right[i] else "left", overflow="fold"
            )
        for row in table.rows:
            drawn.add_row(*(Text(short(row[i]), style="dim" if row[i] is None else "") for i in chosen))
        console.print(drawn)


def _fitting(table: Table, width: int) -> list[list[int]]:
    """Columns in groups that fit side by side, what tells rows apart repeated in each: figures never fold."""
    widths = [max([len(name), *(len(short(row[i])) for row in table.rows)]) + 3 for i, name in enumerate(table.columns)]
    keys = [0, 1] if list(table.columns[:2]) == ["input", "group"] else [0]
    groups: list[list[int]] = [[*keys]]
    for i in range(len(keys), len(widths)):
        if len(groups[-1]) > len(keys) and sum(widths[k] for k in groups[-1]) + widths[i] > width:
            groups.append([*keys])
        groups[-1].append(i)
    return groups
