"""A reliability diagram in characters: the curve in braille dots, its band shaded, bins as circles, rows as bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bpmcli.cli.console import colourful
from bpmcli.core.data.sample import Floats
from bpmcli.core.metrics.axis import FARTHEST, LOG_ODDS, Axis, tick_label
from bpmcli.core.metrics.reliability import Reliability

JOINED = "\N{NO-BREAK SPACE}"
"""Stands between a mark of the legend and its meaning, so that no line breaks there; printed as a plain space."""

MARGIN = 9
"""Characters left of the plot: labels of the vertical axis and the axis itself."""

BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the eight dots of a braille character, by line and column (Unicode, block U+2800)."""

BARS = " ▁▂▃▄▅▆▇█"

OVER, UNDER, FINE = "red", "blue", "green"
"""The whole band lies below the diagonal (over-confident), above it (under-confident), or reaches it."""


class Marks(NamedTuple):
    """Characters that a terminal can show."""

    band: str
    bin: str
    light_bin: str
    vertical: str
    corner: str
    horizontal: str
    braille: bool


UNICODE = Marks("░", "●", "○", "│", "└", "─", True)
ASCII = Marks(":", "O", "o", "|", "+", "-", False)


class Glyph(NamedTuple):
    """One character with the name of its colour, if it has one."""

    text: str
    colour: str = ""


def draw(found: Reliability, width: int, unicode: bool = True, event: bool = False) -> list[list[Glyph]]:
    """The diagram as lines of coloured characters, `width` columns wide."""
    marks = UNICODE if unicode else ASCII
    columns = max(20, min(width, 120) - MARGIN)
    lines = max(10, min(24, round(columns * 0.25)))
    grid = _Grid(found.axis, columns, lines)
    plot = [[Glyph(" ")] * columns for _ in range(lines)]
    _shade(plot, found, grid, marks)
    _lines(plot, found, grid, marks)
    _bins(plot, found, grid, marks)
    return [*_framed(plot, grid, marks), *_below(found, grid, marks, event)]


class _Grid(NamedTuple):
    """Where a probability lies among the characters of the plot."""

    axis: Axis
    columns: int
    lines: int

    def column(self, p: float) -> int:
        return int(np.clip(float(self.axis.share(p)) * self.columns, 0, self.columns - 1))

    def line(self, p: float) -> int:
        """The line of a probability, counted from the top."""
        return self.lines - 1 - int(np.clip(float(self.axis.share(p)) * self.lines, 0, self.lines - 1))

    def values(self, per_character: int) -> Floats:
        """Probabilities at evenly spaced places of the axis."""
        points = self.columns * per_character
        return self.axis.probabilities((np.arange(points) + 0.5) / points)


def _shade(plot: list[list[Glyph]], found: Reliability, grid: _Grid, marks: Marks) -> None:
    s = grid.values(1)
    there = (s >= found.confidence[0] - 1e-12) & (s <= found.confidence[-1] + 1e-12)
    low, high = (np.interp(s, found.confidence, limit) for limit in (found.low, found.high))
    for column in np.flatnonzero(there).tolist():
        colour = OVER if high[column] < s[column] else UNDER if low[column] > s[column] else FINE
        for line in range(grid.line(float(high[column])), grid.line(float(low[column])) + 1):
            plot[line][column] = Glyph(marks.band, colour)


def _lines(plot: list[list[Glyph]], found: Reliability, grid: _Grid, marks: Marks) -> None:
    """The diagonal and the curve, in dots of two by four to a character."""
    across, down = (2, 4) if marks.braille else (1, 1)
    s = grid.values(across)
    height = grid.lines * down
    there = (s >= found.confidence[0] - 1e-12) & (s <= found.confidence[-1] + 1e-12)
    curve = np.interp(s, found.confidence, found.curve)
    for name, values, shown in (("", s, np.arange(s.size) % 3 == 0), ("curve", curve, there)):
        places = grid.axis.share(values) * height
        dots: dict[tuple[int, int], int] = {}
        for i in np.flatnonzero(shown & (places >= 0) & (places <= height)).tolist():
            y = height - 1 - min(int(places[i]), height - 1)
            key = (y // down, i // across)
            dots[key] = dots.get(key, 0) | BRAILLE[y % 4][i % 2]
        for (line, column), bits in dots.items():
            text = chr(0x2800 + bits) if marks.braille else "*" if name else "."
            colour = plot[line][column].colour if name else "dim"
            plot[line][column] = Glyph(text, f"bold {colour or FINE}" if name else colour)


def _bins(plot: list[list[Glyph]], found: Reliability, grid: _Grid, marks: Marks) -> None:
    for b in found.bins:
        mark = marks.light_bin if _is_light(b, found) else marks.bin
        plot[grid.line(b["accuracy"])][grid.column(b["confidence"])] = Glyph(mark, "bold")


def _is_light(one: dict[str, float], found: Reliability) -> bool:
    """Whether a bin has at most half of the mean number of rows."""
    return one["rows"] <= found.n / len(found.bins) / 2


def _framed(plot: list[list[Glyph]], grid: _Grid, marks: Marks) -> Iterator[list[Glyph]]:
    labels: dict[int, str] = {}
    for tick in grid.axis.ticks:
        labels.setdefault(grid.line(tick), tick_label(tick))
    for number, line in enumerate(plot):
        yield [Glyph(f"{labels.get(number, ''):>{MARGIN - 2}} "), Glyph(marks.vertical), *line]


def _below(found: Reliability, grid: _Grid, marks: Marks, event: bool) -> Iterator[list[Glyph]]:
    """The horizontal axis, its labels, and bars for the rows."""
    yield [Glyph(" " * (MARGIN - 1)), Glyph(marks.corner + marks.horizontal * grid.columns)]
    text = [" "] * grid.columns
    for tick in grid.axis.ticks:
        label = tick_label(tick)
        start = min(max(grid.column(tick) - len(label) // 2, 0), grid.columns - len(label))
        if all(c == " " for c in text[max(start - 1, 0) : start + len(label) + 1]):
            text[start : start + len(label)] = label
    yield [Glyph(" " * MARGIN + "".join(text))]
    yield from _rows(found, grid, marks)
    yield from _legend(found, grid, marks, event)


def _rows(found: Reliability, grid: _Grid, marks: Marks) -> Iterator[list[Glyph]]:
    """Where the rows are: bars on two lines, to scale, but even the smallest share is visible."""
    share = found.rows_by_place(grid.columns)
    bars = BARS if marks.braille else " .:|#"
    full = len(bars) - 1
    heights = np.ceil(np.clip(share / max(float(share.max()), 1e-12), 0, 1) * 2 * full).astype(int)
    for label, line in (("", heights - full), ("rows", heights)):
        text = "".join(bars[h] for h in np.clip(line, 0, full).tolist())
        yield [Glyph(f"{label:>{MARGIN - 2}}  "), Glyph(text, "dim")]


def _legend(found: Reliability, grid: _Grid, marks: Marks, event: bool) -> Iterator[list[Glyph]]:
    """What the marks mean."""
    import textwrap

    across, up = ("P(y = 1)", "event rate") if event else ("confidence", "accuracy")
    curve, diagonal = ("⠒", "⠐⠄") if marks.braille else ("*", ".")
    few = f"{marks.light_bin}{JOINED}few rows" if any(_is_light(b, found) for b in found.bins) else ""
    remarks = ", ".join(filter(None, [few, *found.at_the_edge()]))
    bins = f"{marks.bin}{JOINED}bin ({remarks})" if remarks else f"{marks.bin}{JOINED}bin"
    level = f"{100 * found.level:g} %"
    legend = (
        f"{up} against {across}: {bins}, {curve}{JOINED}curve, {marks.band}{JOINED}its {level} band, "
        f"{diagonal}{JOINED}perfect calibration; {_highest_bar(found, grid, event)}"
    )
    for line in textwrap.wrap(legend, grid.columns):
        yield [Glyph(" " * MARGIN + line.replace(JOINED, " "), "dim")]


def _highest_bar(found: Reliability, grid: _Grid, event: bool) -> str:
    """How many rows the highest bar stands for, and whether rows beyond an end of the axis are among them."""
    share = found.rows_by_place(grid.columns)
    percent, place, beyond = 100 * float(share.max()), int(share.argmax()), ""
    if grid.axis.kind == LOG_ODDS and place == grid.columns - 1 and grid.axis.last >= FARTHEST:
        beyond = "0.999999 and above"
    elif grid.axis.kind == LOG_ODDS and place == 0 and grid.axis.first <= -FARTHEST:
        beyond = "0.000001 and below"
    which = f", with {'probabilities' if event else 'confidences'} of {beyond}" if beyond else ""
    return f"highest bar: {percent:{'.0f' if percent >= 10 else '.2g'}} % of the rows{which}"


def colour_key(lines: list[list[Glyph]], event: bool) -> list[Glyph]:
    """What the colours of the diagram mean: one line, with the colours that are there."""
    high, low = ("too high", "too low") if event else ("over-confident", "under-confident")
    meanings = {OVER: f"{high} beyond the band", UNDER: f"{low} beyond the band", FINE: "calibrated within the band"}
    used = {glyph.colour.removeprefix("bold ") for line in lines for glyph in line}
    key = [Glyph(" " * MARGIN)]
    for colour, meaning in meanings.items():
        if colour in used:
            key += [Glyph(", " if len(key) > 1 else "", "dim"), Glyph(colour, colour), Glyph(f": {meaning}", "dim")]
    return key


def plain(lines: list[list[Glyph]]) -> str:
    """The diagram as text without colours."""
    return "".join("".join(glyph.text for glyph in line).rstrip() + "\n" for line in lines)


def show_diagram(found: Reliability, event: bool = False) -> None:
    """Print the diagram, as wide as the terminal; in colour where colour is wanted."""
    import shutil
    import sys

    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    lines = draw(found, shutil.get_terminal_size((80, 24)).columns, encoding.startswith("utf"), event)
    if not colourful(sys.stdout):
        sys.stdout.write(plain(lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(force_terminal=True, highlight=False)
    for line in [*lines, colour_key(lines, event)]:
        console.print(Text.assemble(*((g.text, g.colour) for g in line)), no_wrap=True, crop=False, overflow="ignore")
