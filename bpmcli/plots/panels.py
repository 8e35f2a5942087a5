"""Panels in two parts: a square diagram, and below it a flat one that shows where the rows are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bpmcli.plots import PLAIN, PictureStyle, grid, headline, picture, shorten

ROWS = "#999999"
DIAGONAL = "#888888"
ROOM = 2.2
"""Height in inches from which a diagram has room for text."""


@contextmanager
def two_storeys(
    path: str, names: Sequence[str], title: str, style: PictureStyle = PLAIN, columns: int | None = None
) -> Iterator[list[tuple[Any, Any]]]:
    """Pairs of axes, a square one above a flat one of the same width; the legend is shared."""
    lines, columns = grid(len(names), columns)
    with picture(path, 4.5 * columns, 5.7 * lines + 1.0, style) as figure:
        axes = figure.subplots(2 * lines, columns, squeeze=False, height_ratios=[4, 1] * lines)
        pairs = list(zip(axes[::2].ravel(), axes[1::2].ravel(), strict=True))
        for unused in pairs[len(names) :]:
            for axis in unused:
                axis.set_axis_off()
        yield pairs[: len(names)]
        for (top, below), name in zip(pairs, names, strict=False):
            if not top.get_title():
                top.set_title(shorten(os.path.basename(name)))
            top.set_box_aspect(1)
            below.set_box_aspect(0.25)
        headline(figure, title, style)
        handles, labels = pairs[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=1 if columns == 1 else 2)
        if style.size:
            _clear_small(figure, [top for top, _ in pairs])


def _clear_small(figure: Any, axes: Sequence[Any]) -> None:
    """Remove the texts inside diagrams that are too small to hold them beside the curve."""
    if layout := figure.get_layout_engine():
        layout.execute(figure)
    for top in axes:
        if top.get_window_extent().height < ROOM * figure.dpi:
            for text in list(top.texts):
                text.remove()


def square(axis: Any) -> None:
    """Confidence against accuracy, both from 0 to 1, with the diagonal of perfect calibration."""
    axis.plot([0, 1], [0, 1], color=DIAGONAL, linewidth=1, linestyle=":", zorder=1, label="perfect calibration")
    axis.set_xlim(-0.01, 1.01)
    axis.set_ylim(-0.01, 1.01)
    axis.set_box_aspect(1)
    axis.set_ylabel("accuracy")
