"""The reliability diagram as inline SVG. Its only text from a file is the label, which the caller must escape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bpmcli.core.data.sample import Floats
from bpmcli.core.metrics.axis import Axis, tick_label
from bpmcli.core.metrics.reliability import Reliability

SIDE, LEFT, TOP, BARS, GAP = 360.0, 56.0, 12.0, 72.0, 16.0
"""Sizes in user units: the square plot, its margins, and the histogram below it."""

WIDTH, HEIGHT = LEFT + SIDE + 16, TOP + SIDE + GAP + BARS + 44

BAR_COUNT = 60
STRIPS = 40
"""The number of parts of the horizontal axis that show the curve's values when the pointer rests on them."""

LARGEST_DOT = 11.0


class Places(NamedTuple):
    """Coordinates of probabilities; those outside the axis are moved to its ends."""

    axis: Axis

    def x(self, p: Floats | float) -> Floats:
        return LEFT + SIDE * np.clip(self.axis.share(p), 0.0, 1.0)

    def y(self, p: Floats | float) -> Floats:
        return TOP + SIDE * (1.0 - np.clip(self.axis.share(p), 0.0, 1.0))


def diagram(found: Reliability, label: str, event: bool = False) -> str:
    """The whole drawing. `label` is what a screen reader says of it; it must be escaped already."""
    places = Places(found.axis)
    parts = [
        f'<svg class="diagram" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{label}">',
        *_frame(places, event),
        *_curve(found, places),
        *_bins(found, places, event),
        *_histogram(found, places),
        "</svg>",
    ]
    return "\n".join(parts)


def _frame(places: Places, event: bool) -> Iterator[str]:
    bottom, right = TOP + SIDE, LEFT + SIDE
    for tick in places.axis.ticks:
        x, y = (float(place(tick)) for place in (places.x, places.y))
        yield f'<path class="grid" d="M{LEFT:g} {y:.1f}H{right:g}M{x:.1f} {TOP:g}V{bottom:g}"/>'
        yield f'<text class="tick" x="{LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end">{tick_label(tick)}</text>'
        yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 22:g}" text-anchor="middle">{tick_label(tick)}</text>'
    yield f'<path class="diagonal" d="M{LEFT:g} {bottom:g}L{right:g} {TOP:g}"/>'
    across, up = ("P(y = 1)", "event rate") if event else ("confidence", "accuracy")
    yield f'<text class="axis" x="{LEFT + SIDE / 2:g}" y="{HEIGHT - 4:g}" text-anchor="middle">{across}</text>'
    middle = TOP + SIDE / 2
    yield f'<text class="axis" transform="translate(13 {middle:g}) rotate(-90)" text-anchor="middle">{up}</text>'


def _curve(found: Reliability, places: Places) -> Iterator[str]:
    x = places.x(found.confidence)
    upper, lower = places.y(found.high), places.y(found.low)
    around = np.concatenate([np.stack([x, upper], 1), np.stack([x, lower], 1)[::-1]])
    yield f'<path class="band" d="{_path(around)}Z"/>'
    yield f'<path class="curve" d="{_path(np.stack([x, places.y(found.curve)], 1))}"/>'
    picks = np.unique(np.linspace(0, x.size - 1, STRIPS + 1).astype(int))
    for i, j in zip(picks[:-1].tolist(), picks[1:].tolist(), strict=True):
        k = (i + j) // 2
        text = f"at {_percent(found.confidence[k])} the curve is at {_percent(found.curve[k])}"
        limits = f"{_percent(found.low[k])} to {_percent(found.high[k])}"
        width = max(float(x[j] - x[i]), 0.5)
        yield (
            f'<rect class="strip" x="{x[i]:.1f}" y="{TOP:g}" width="{width:.1f}" height="{SIDE:g}">'
            f"<title>{text} (band {limits})</title></rect>"
        )


def _path(points: Floats) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points.tolist())


def _bins(found: Reliability, places: Places, event: bool) -> Iterator[str]:
    """Circles with an area by the number of rows, and the intervals of their accuracy."""
    most = max((b["rows"] for b in found.bins), default=1.0)
    across, up = ("mean P(y = 1)", "event rate") if event else ("mean confidence", "accuracy")
    for b in found.bins:
        x, y = float(places.x(b["confidence"])), float(places.y(b["accuracy"]))
        low, high = (float(places.y(b[key])) for key in ("accuracy_low", "accuracy_high"))
        radius = max(2.5, LARGEST_DOT * (b["rows"] / most) ** 0.5 / 1.6)
        text = (
            f"{b['rows']:.0f} rows: {across} {_percent(b['confidence'])}, {up} {_percent(b['accuracy'])} "
            f"({_percent(b['accuracy_low'])} to {_percent(b['accuracy_high'])})"
        )
        yield (
            f'<g class="bin"><title>{text}</title><path d="M{x:.1f} {low:.1f}V{high:.1f}"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/></g>'
        )


def _histogram(found: Reliability, places: Places) -> Iterator[str]:
    base, width = TOP + SIDE + GAP + BARS, SIDE / BAR_COUNT
    share = found.rows_by_place(BAR_COUNT)
    yield f'<path class="grid" d="M{LEFT:g} {base:g}H{LEFT + SIDE:g}"/>'
    yield f'<text class="tick" x="{LEFT - 6:g}" y="{base:g}" text-anchor="end">rows</text>'
    edges = places.axis.probabilities(np.arange(BAR_COUNT + 1) / BAR_COUNT)
    for i in np.flatnonzero(share > 0).tolist():
        height = max(1.0, BARS * float(share[i] / share.max()))
        text = f"{_percent(share[i])} of the rows between {_percent(edges[i])} and {_percent(edges[i + 1])}"
        yield (
            f'<rect class="bar" x="{LEFT + i * width:.1f}" y="{base - height:.1f}" width="{width - 0.6:.1f}" '
            f'height="{height:.1f}"><title>{text}</title></rect>'
        )


def _percent(p: float) -> str:
    """Three digits near the middle, more near 0 and 100 %."""
    distance = min(float(p), 1.0 - float(p))
    digits = 1 if distance >= 0.01 else 2 if distance >= 0.001 else 4
    return f"{100 * float(p):.{digits}f} %"
