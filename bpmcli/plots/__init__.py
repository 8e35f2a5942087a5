"""Pictures, drawn by matplotlib: an optional extra, imported only when a picture is asked for.

The first six colours are from Okabe and Ito; colour-blind readers can distinguish them. Markers and dashes
distinguish the lines in print. The same data gives the same bytes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import cycle
from typing import Any, NamedTuple

from bpmcli.errors import UsageError
from bpmcli.escape import spelled_out

SUFFIXES = ("png", "svg", "pdf")

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#8B5A2B", "#4B0092", "#44AA99")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
DASHES = ("-", (0, (6, 1.5)), (0, (4, 1.5, 1, 1.5)), (0, (2, 1)))
TRUE = "black"

LETTERS = 9.5
"""Letters of a title that fit one inch."""

NO_DATES: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}

STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "legend.fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.hashsalt": "bpmcli",
    # Keep text as text rather than outlines, so that it can be searched.
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


DARK: Any = {
    "figure.facecolor": "#17181c",
    "axes.facecolor": "#17181c",
    "savefig.facecolor": "#17181c",
    "text.color": "#ececf1",
    "axes.labelcolor": "#ececf1",
    "axes.edgecolor": "#a3a3b2",
    "xtick.color": "#a3a3b2",
    "ytick.color": "#a3a3b2",
    "grid.color": "#3a3b44",
}
THEMES: dict[str, Any] = {"light": {}, "dark": DARK}


class PictureStyle(NamedTuple):
    """What a user may choose about a picture."""

    theme: str = "light"
    title: str | None = None
    size: tuple[float, float] | None = None
    """Width and height in inches."""


PLAIN = PictureStyle()


def check_plot(path: str) -> str:
    """The picture's format; raises an error if it is unknown or matplotlib is missing."""
    format_ = path.rpartition(".")[2].lower()
    if format_ not in SUFFIXES:
        raise UsageError(f"{path}: a picture is .png, .svg or .pdf", "give --plot a name that ends in one of these")
    if find_spec("matplotlib") is None:
        raise UsageError("pictures need matplotlib, which is not installed", "pip install matplotlib")
    return format_


class Look(NamedTuple):
    """How one line is drawn."""

    color: str
    marker: str
    linestyle: Any
    markerfacecolor: str


def looks(names: Sequence[str], first: str | None = None) -> dict[str, Look]:
    """A look for every name; `first` gets the strongest look, so that it is the same in all pictures."""
    order = sorted(names, key=lambda name: name != first)
    # Once all colours are used, they are repeated with hollow markers, except for the first.
    colours = [(c, c) for c in COLOURS] + [(c, "white") for c in COLOURS[1:]]
    styles = zip(cycle(colours), cycle(MARKERS), cycle(DASHES), strict=False)
    return {name: Look(c, m, dash, face) for name, ((c, face), m, dash) in zip(order, styles, strict=False)}


@contextmanager
def picture(path: str, width: float, height: float, style: PictureStyle = PLAIN) -> Iterator[Any]:
    """A figure to draw on, with its size in inches; the file is written if the block ends without an error."""
    format_ = check_plot(path)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from bpmcli.io.writers import atomic_path

    with rc_context({**STYLE, **THEMES[style.theme]}):
        figure = Figure(figsize=style.size or (width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        # A single pass of the layout can leave the title of an axis under the legend; savefig makes the second pass.
        if layout := figure.get_layout_engine():
            layout.execute(figure)
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format=format_, metadata=NO_DATES[format_])


def headline(figure: Any, title: str, style: PictureStyle) -> None:
    """The title of the whole picture, broken into lines that fit its width."""
    text = title if style.title is None else style.title
    width = max(int(LETTERS * figure.get_figwidth()), 1)
    lines = [part for line in text.split("\n") for part in textwrap.wrap(spelled_out(line), width) or [""]]
    figure.suptitle(_plain("\n".join(lines)), fontsize=12)


def grid(panels: int, columns: int | None = None) -> tuple[int, int]:
    """The numbers of rows and columns of a grid for this many panels; the number of columns may be given."""
    columns = columns or (panels if panels < 4 else 2 if panels == 4 else 3)
    return -(-panels // columns), columns


def shorten(name: str, length: int = 40) -> str:
    """A long name shortened at its beginning, because names tend to differ at the end; every character can be drawn."""
    name = spelled_out(name)
    return _plain(name if len(name) <= length else "…" + name[1 - length :])


def _plain(text: str) -> str:
    """Text in which $ is a dollar sign; otherwise matplotlib would read what lies between two of them as a formula."""
    return text.replace("$", r"\$")
