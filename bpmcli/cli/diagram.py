"""A reliability diagram in characters: the curve in braille dots, its band shaded, bins as circles, rows as bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bpmcli.cli.console import colourful
from bpmcli.core.data.sample import Floats, sigmoid
from bpmcli.core.metrics.reliability import LOG_ODDS, Reliability

MARGIN = 9
"""Characters left of the plot: labels of the vertical axis and the axis itself."""

BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the eight dots of a braille character, by line and column (Unicode, block U+2800)."""

BARS = " ▁▂▃▄▅▆▇█"

TICKS = (0.00001, 0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)

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
    scale = _Scale(found, columns, lines)
    plot = [[Glyph(" ")] * columns for _ in range(lines)]
    _shade(plot, found, scale, marks)
    _lines(plot, found, scale, marks)
    _bins(plot, found, scale, marks)
    return [*_framed(plot, scale, marks), *_below(found, scale, marks, event)]


class _Scale:
    """Where a probability lies on the plot. Both axes have the same range, so the diagonal joins two corners."""

    def __init__(self, found: Reliability, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.log_odds = found.axis == LOG_ODDS
        heavy = [b for b in found.bins if b["rows"] > 0]
        seen = [found.confidence[0], found.confidence[-1], *(b["confidence"] for b in heavy)]
        seen += [min(max(b["accuracy"], b["accuracy_low"]), b["accuracy_high"]) for b in heavy]
        if self.log_odds:
            inside = np.clip(seen, sigmoid(np.array(-13.8)), sigmoid(np.array(13.8)))
            first, last = float(min(inside)), float(max(inside))
            self.ticks = [t for t in TICKS if first * 0.5 <= t <= 1 - (1 - last) * 0.5]
            ends = self._place(np.array([first, last]))
        else:
            first = np.floor(10 * min(seen) + 1e-9) / 10
            self.ticks = [t for t in np.round(np.arange(0.0, 1.01, 0.1), 1).tolist() if t >= first - 1e-9]
            ends = np.array([first, 1.0])
        self.first, self.last = float(ends[0]), float(max(ends[1], ends[0] + 0.1))

    def _place(self, p: Floats) -> Floats:
        if not self.log_odds:
            return p
        p = np.clip(p, 1e-12, 1 - 1e-12)
        placed: Floats = np.log(p) - np.log1p(-p)
        return placed

    def share(self, p: Floats) -> Floats:
        """0 at the left or lower end of the axis, 1 at the other."""
        return (self._place(np.asarray(p, dtype=np.float64)) - self.first) / (self.last - self.first)

    def column(self, p: float) -> int:
        return int(np.clip(float(self.share(np.array(p))) * self.columns, 0, self.columns - 1))

    def line(self, p: float) -> int:
        """Counted from the top."""
        return self.lines - 1 - int(np.clip(float(self.share(np.array(p))) * self.lines, 0, self.lines - 1))

    def values(self, per_character: int) -> Floats:
        """Probabilities at evenly spaced places of the axis."""
        points = self.columns * per_character
        at = self.first + (np.arange(points) + 0.5) / points * (self.last - self.first)
        return sigmoid(at) if self.log_odds else at


def _shade(plot: list[list[Glyph]], found: Reliability, scale: _Scale, marks: Marks) -> None:
    s = scale.values(1)
    there = (s >= found.confidence[0] - 1e-12) & (s <= found.confidence[-1] + 1e-12)
    low, high = (np.interp(s, found.confidence, limit) for limit in (found.low, found.high))
    for column in np.flatnonzero(there).tolist():
        colour = OVER if high[column] < s[column] else UNDER if low[column] > s[column] else FINE
        for line in range(scale.line(float(high[column])), scale.line(float(low[column])) + 1):
            plot[line][column] = Glyph(marks.band, colour)


def _lines(plot: list[list[Glyph]], found: Reliability, scale: _Scale, marks: Marks) -> None:
    """The diagonal and the curve, in dots of two by four to a character."""
    across, down = (2, 4) if marks.braille else (1, 1)
    s = scale.values(across)
    height = scale.lines * down
    there = (s >= found.confidence[0] - 1e-12) & (s <= found.confidence[-1] + 1e-12)
    curve = np.interp(s, found.confidence, found.curve)
    for name, values, shown in (("", s, np.arange(s.size) % 3 == 0), ("curve", curve, there)):
        places = scale.share(values) * height
        dots: dict[tuple[int, int], int] = {}
        for i in np.flatnonzero(shown & (places >= 0) & (places <= height)).tolist():
            y = height - 1 - min(int(places[i]), height - 1)
            key = (y // down, i // across)
            dots[key] = dots.get(key, 0) | BRAILLE[y % 4][i % 2]
        for (line, column), bits in dots.items():
            text = chr(0x2800 + bits) if marks.braille else "*" if name else "."
            colour = plot[line][column].colour if name else "dim"
            plot[line][column] = Glyph(text, f"bold {colour or FINE}" if name else colour)


def _bins(plot: list[list[Glyph]], found: Reliability, scale: _Scale, marks: Marks) -> None:
    usual = found.n / max(len(found.bins), 1)
    for b in found.bins:
        mark = marks.bin if b["rows"] > usual / 2 else marks.light_bin
        plot[scale.line(b["accuracy"])][scale.column(b["confidence"])] = Glyph(mark, "bold")


def _framed(plot: list[list[Glyph]], scale: _Scale, marks: Marks) -> Iterator[list[Glyph]]:
    labels: dict[int, str] = {}
    for tick in scale.ticks:
        labels.setdefault(scale.line(tick), f"{tick:g}")
    for number, line in enumerate(plot):
        yield [Glyph(f"{labels.get(number, ''):>{MARGIN - 2}} "), Glyph(marks.vertical), *line]


def _below(found: Reliability, scale: _Scale, marks: Marks, event: bool) -> Iterator[list[Glyph]]:
    """The horizontal axis, its labels, and how many of the rows lie where."""
    yield [Glyph(" " * (MARGIN - 1)), Glyph(marks.corner + marks.horizontal * scale.columns)]
    text = [" "] * scale.columns
    for tick in scale.ticks:
        label = f"{tick:g}"
        start = min(max(scale.column(tick) - len(label) // 2, 0), scale.columns - len(label))
        if all(c == " " for c in text[max(start - 1, 0) : start + len(label) + 1]):
            text[start : start + len(label)] = label
    yield [Glyph(" " * MARGIN + "".join(text))]
    middles = sigmoid((found.edges[1:] + found.edges[:-1]) / 2)
    places = np.clip(scale.share(middles) * scale.columns, 0, scale.columns - 1).astype(int)
    share = np.bincount(places, weights=found.mass, minlength=scale.columns)
    bars = BARS if marks.braille else " .:|#"
    heights = np.ceil(np.clip(share / max(float(share.max()), 1e-12), 0, 1) * (len(bars) - 1)).astype(int)
    yield [Glyph(f"{'rows':>{MARGIN - 2}}  "), Glyph("".join(bars[h] for h in heights), "dim")]
    across, up = ("P(y = 1)", "event rate") if event else ("confidence", "accuracy")
    curve = "⠒" if marks.braille else "*"
    legend = f"{up} against {across}: {marks.bin} bin, {curve} curve, {marks.band} {100 * found.level:g} % band"
    yield [Glyph(" " * MARGIN + legend, "dim")]


def plain(lines: list[list[Glyph]]) -> str:
    """Without colours."""
    return "".join("".join(glyph.text for glyph in line).rstrip() + "\n" for line in lines)


def show(found: Reliability, event: bool = False) -> None:
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
    for line in lines:
        console.print(Text.assemble(*((g.text, g.colour) for g in line)), no_wrap=True, crop=False, overflow="ignore")
