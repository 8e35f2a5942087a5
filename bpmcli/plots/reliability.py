"""The reliability diagram: the averaged curve with its band, the bins with their intervals, and the rows below."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.data.sample import Floats
from bpmcli.core.metrics.axis import Axis, common_axis, tick_label
from bpmcli.core.metrics.reliability import Reliability
from bpmcli.plots import COLOURS, PLAIN, PictureStyle, headline, looks, picture, shorten
from bpmcli.plots.panels import DIAGONAL, ROWS, two_storeys

CURVE, POINT = COLOURS[1], COLOURS[0]
BARS = 40
MOST_DIGITS = 22
"""How many characters of labels fit side by side under the narrowest panel. More get a smaller font, and are turned."""
LARGEST = 90.0
"""Area of the largest bin's circle, in square points."""


class Diagram(NamedTuple):
    """One model: its name, what is drawn, and its figures in a few words for the title."""

    name: str
    found: Reliability
    figures: str = ""
    event: bool = False


def draw_reliability(
    path: str, diagrams: Sequence[Diagram], style: PictureStyle = PLAIN, columns: int | None = None
) -> None:
    """A panel per model, all with the same axes."""
    axis = common_axis([d.found.axis for d in diagrams])
    edge = ", ".join(dict.fromkeys(note for d in diagrams for note in d.found.at_the_edge(axis)))
    title = "Reliability diagram" if len(diagrams) == 1 else "Reliability diagrams"
    with two_storeys(path, [d.name for d in diagrams], title, style, columns) as panels:
        for (top, below), diagram in zip(panels, diagrams, strict=True):
            found = diagram.found
            _curve(top, found, axis, CURVE, f"calibration curve, {100 * found.level:g} % band")
            _bins(top, found, axis, edge)
            frame(top, axis, diagram.event)
            _parts(top, found, axis)
            top.tick_params(labelbottom=False)
            rows_below(below, found.rows_by_place(BARS, axis), found.n, axis, diagram.event)
            name = shorten(os.path.basename(diagram.name))
            top.set_title(f"{name}\n{diagram.figures}" if diagram.figures else name)


def draw_overlay(path: str, diagrams: Sequence[Diagram], style: PictureStyle = PLAIN) -> None:
    """The curves and bands of several models in one panel, on the axis that suits most of them."""
    axis = common_axis([d.found.axis for d in diagrams])
    look = looks([d.name for d in diagrams])
    with picture(path, 6.4, 6.5 + 0.36 * len(diagrams), style) as figure:
        top = figure.subplots()
        for diagram in diagrams:
            figures = diagram.figures.replace("\n", ", ")
            label = shorten(os.path.basename(diagram.name)) + (f"\n{figures}" if figures else "")
            _curve(top, diagram.found, axis, look[diagram.name].color, label, look[diagram.name].linestyle)
        frame(top, axis, diagrams[0].event)
        top.set_xlabel("P(y = 1)" if diagrams[0].event else "confidence")
        top.set_box_aspect(1)
        headline(figure, "Calibration curves", style)
        handles, labels = top.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=1, borderaxespad=1.2, handlelength=3.2)


def _curve(top: Any, found: Reliability, axis: Axis, colour: str, label: str, linestyle: Any = "-") -> None:
    x = axis.share(found.confidence)
    top.fill_between(x, axis.share(found.low), axis.share(found.high), color=colour, alpha=0.2, linewidth=0)
    top.plot(x, axis.share(found.curve), color=colour, linewidth=2.2, linestyle=linestyle, label=label)


def _bins(top: Any, found: Reliability, axis: Axis, edge: str) -> None:
    keys = ("confidence", "accuracy", "accuracy_low", "accuracy_high", "rows")
    s, rate, low, high, rows = (np.array([b[key] for b in found.bins]) for key in keys)
    x, y = np.clip(axis.share(s), 0.0, 1.0), np.clip(axis.share(rate), 0.0, 1.0)
    top.vlines(x, np.clip(axis.share(low), 0, 1), np.clip(axis.share(high), 0, 1), color=POINT, linewidth=1.1)
    label = f"{len(found.bins)} bins with 95 % intervals, area by rows" + (f"\n({edge})" if edge else "")
    area = np.maximum(LARGEST * rows / rows.max(), 6.0)
    top.scatter(x, y, s=area, color=POINT, alpha=0.85, zorder=3, label=label, clip_on=False)


def _parts(top: Any, found: Reliability, axis: Axis) -> None:
    """The parts of the Brier score, in the corner off the diagonal in which less is drawn."""
    if found.parts is None:
        return
    mcb, dsc, unc = found.parts
    text = (
        f"Brier score {mcb - dsc + unc:.4f}\n= miscalibration {mcb:.4f}\n"
        f"− discrimination {dsc:.4f}\n+ uncertainty {unc:.4f}"
    )
    x = axis.share(np.concatenate([found.confidence, found.confidence, [b["confidence"] for b in found.bins]]))
    y = axis.share(np.concatenate([found.low, found.high, [b["accuracy"] for b in found.bins]]))
    above, below = (np.count_nonzero((x < 0.45) & (y > 0.65)), np.count_nonzero((x > 0.55) & (y < 0.35)))
    at, side, end = ((0.97, 0.03), "right", "bottom") if below <= above else ((0.03, 0.97), "left", "top")
    box = {"facecolor": top.get_facecolor(), "edgecolor": "none", "alpha": 0.7, "pad": 2}
    top.text(*at, text, transform=top.transAxes, ha=side, va=end, fontsize=8, bbox=box, zorder=4)


def frame(top: Any, axis: Axis, event: bool) -> None:
    """The diagonal, the ticks and the names of the axes."""
    top.plot([0, 1], [0, 1], color=DIAGONAL, linewidth=1, linestyle=":", zorder=1, label="perfect calibration")
    places, labels = axis.share(np.array(axis.ticks)).tolist(), [tick_label(t) for t in axis.ticks]
    _label_confidences(top, axis)
    top.set_yticks(places, labels)
    top.set_xlim(-0.02, 1.02)
    top.set_ylim(-0.02, 1.02)
    top.set_ylabel("event rate" if event else "accuracy")


def _label_confidences(panel: Any, axis: Axis) -> None:
    """Ticks of the horizontal axis; many long labels are smaller or turned, so that they do not touch."""
    labels = [tick_label(t) for t in axis.ticks]
    digits = sum(map(len, labels))
    font: dict[str, Any] = {} if digits <= MOST_DIGITS else {"fontsize": 7.5}
    turned = {"rotation": 30, "ha": "right"} if digits > 1.5 * MOST_DIGITS else {}
    panel.set_xticks(axis.share(np.array(axis.ticks)).tolist(), labels, **font, **turned)


def rows_below(below: Any, share: Floats, n: float, axis: Axis, event: bool) -> None:
    """Where the rows are: their share in equal parts of the axis."""
    below.bar(np.arange(share.size) / share.size, 100 * share, width=0.95 / share.size, align="edge", color=ROWS, lw=0)
    _label_confidences(below, axis)
    below.set_xlim(-0.02, 1.02)
    below.set_xlabel(f"{'P(y = 1)' if event else 'confidence'} ({n:,} rows)")
    below.set_ylabel("% of rows")
