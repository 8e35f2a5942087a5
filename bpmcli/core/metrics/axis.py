"""The axis of a reliability diagram: linear in confidence, or in log-odds where most confidences are near 0 or 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bpmcli.core.data.sample import Floats, Sample, sigmoid

CONFIDENCE, LOG_ODDS = "confidence", "log-odds"

EXTREME = 0.01
"""Confidences this close to 0 or 1 cannot be told apart on a linear axis."""

RARE = 0.05
"""If most probabilities are below this, their event is rare, and a linear axis shows them in one corner."""

FARTHEST = 13.8
"""The log-odds axis ends where 1 − s is one in a million; rows beyond count as rows at its end."""

SHORTEST = 7.0
"""The log-odds axis is at least this long, so that it has ticks."""

LOG_ODDS_TICKS = (0.00001, 0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)


class Axis(NamedTuple):
    """Where probabilities lie. Both directions of a diagram share it, so the diagonal joins two corners."""

    kind: str
    first: float
    """The lower end: a probability, or log-odds if the axis is in log-odds."""
    last: float
    ticks: tuple[float, ...]
    """Probabilities to be labelled, in ascending order."""
    seen: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest probability that it must show."""

    def share(self, probabilities: Floats | float) -> Floats:
        """Positions along the axis: 0 at its lower end, 1 at its upper end, below 0 or above 1 outside it."""
        placed = np.asarray(probabilities, dtype=np.float64)
        if self.kind == LOG_ODDS:
            placed = logit(placed)
        found: Floats = (placed - self.first) / (self.last - self.first)
        return found

    def probabilities(self, shares: Floats) -> Floats:
        """The inverse of `share`."""
        placed = self.first + shares * (self.last - self.first)
        return sigmoid(placed) if self.kind == LOG_ODDS else placed


def axis_for(sample: Sample) -> str:
    """`log-odds` if more than half of the rows have a confidence below 0.05 or above 0.99, else `confidence`."""
    extreme = (sample.confidences < RARE) | (sample.complements < EXTREME)
    return LOG_ODDS if float(sample.mass[extreme].sum()) > 0.5 * sample.n else CONFIDENCE


def axis_over(kind: str, seen: Floats) -> Axis:
    """The axis of this kind that shows all these probabilities."""
    if kind == LOG_ODDS:
        placed = np.clip(logit(seen), -FARTHEST, FARTHEST)
        first, last = float(placed.min()), float(placed.max())
        if last - first < SHORTEST:  # show more of the side towards 0.5
            first, last = (last - SHORTEST, last) if first + last > 0 else (first, first + SHORTEST)
        at, ends = logit(np.array(LOG_ODDS_TICKS)), (float(seen.min()), float(seen.max()))
        inside = (at >= first - 0.2) & (at <= last + 0.2)
        return Axis(kind, first, last, tuple(t for t, shown in zip(LOG_ODDS_TICKS, inside, strict=True) if shown), ends)
    first = min(float(np.floor(10 * seen.min() + 1e-9)) / 10, 0.9)
    step = 1 if first > 0.35 else 2
    ticks = tuple(t / 10 for t in range(0, 11, step) if t / 10 >= first - 1e-9)
    return Axis(kind, first, 1.0, ticks, (float(seen.min()), float(seen.max())))


def common_axis(axes: Sequence[Axis]) -> Axis:
    """An axis of the most frequent kind that is as long as all of these together."""
    if len(axes) == 1:
        return axes[0]
    kinds = [axis.kind for axis in axes]
    return axis_over(max(kinds, key=kinds.count), np.array([axis.seen for axis in axes]))


def tick_label(tick: float) -> str:
    """A tick as text, without an exponent."""
    return f"{tick:.5f}".rstrip("0").rstrip(".")


def logit(probabilities: Floats) -> Floats:
    """log p − log(1 − p); 0 and 1 are moved inside by 1e-12."""
    p = np.clip(probabilities, 1e-12, 1.0 - 1e-12)
    found: Floats = np.log(p) - np.log1p(-p)
    return found
