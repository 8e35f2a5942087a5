"""The shape `bends`: log-odds of g that are piecewise linear in the log-odds of s.

θ holds the shift c, then the slopes from below the first knot to above the last.
"""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.sample import BARE_LIMIT, Floats

MOST_KNOTS = 64
KNOT_GROWTH = 4.3
"""The number of knots grows like 4.3 N^¼, because more rows can show finer bends."""
ROWS_PER_KNOT = 10
KNOT_GAP = 0.02
BEYOND = 4.0
"""Beyond the outermost rows the outer slope is kept for this many log-odds; after that the mean slope is used."""


def knots_of(log_odds: Floats, mass: Floats) -> Floats:
    """Knots at the outermost rows and at quantiles between them."""
    middle = np.cumsum(mass) - mass / 2
    total = float(np.sum(mass))
    n = int(min(KNOT_GROWTH * total**0.25, total / ROWS_PER_KNOT, MOST_KNOTS))
    inner = np.interp(np.arange(1, n + 1) / (n + 1) * total, middle, log_odds)
    low, high = log_odds[[0, -1]]
    inner = inner[np.concatenate([[True], np.diff(inner) > KNOT_GAP])[: inner.size]]
    inner = inner[(inner > low + KNOT_GAP) & (inner < high - KNOT_GAP)]
    return np.concatenate([[low], inner, [high] if high > low else []])


def bent(theta: Floats, knots: Floats, log_odds: Floats) -> Floats:
    """η at every log-odds, for θ of shape (…, d)."""
    x, beyond = near(log_odds, knots)
    slopes = outside_up(theta[..., 1:])
    heights = anchor(knots) + theta[..., :1] + slopes @ ramps(knots, knots).T
    segment = np.searchsorted(knots, x)
    left = np.maximum(segment - 1, 0)
    eta: Floats = heights[..., left] + slopes[..., segment] * (x - knots[left])
    return eta + slope_beyond(slopes, knots) * beyond


def near(log_odds: Floats, knots: Floats) -> tuple[Floats, Floats]:
    """Log-odds clipped to the range of the bends, and how far beyond that range they are."""
    bare = np.clip(log_odds, -BARE_LIMIT, BARE_LIMIT)
    x = np.clip(bare, knots[0] - BEYOND, knots[-1] + BEYOND)
    return x, bare - x


def shares(knots: Floats) -> Floats:
    """Width of each segment as a share of the range of all rows. With a single knot, both segments count ½."""
    if knots.size == 1:
        return np.full(2, 0.5)
    found: Floats = np.diff(knots, prepend=knots[0], append=knots[-1]) / (knots[-1] - knots[0])
    return found


def slope_beyond(slopes: Floats, knots: Floats) -> Floats:
    """The mean slope over the rows, or 0 if that is negative."""
    found: Floats = np.maximum(slopes @ shares(knots)[:, None], 0.0)
    return found


def outside_up(slopes: Floats) -> Floats:
    """Slopes with the outermost two, where there are no rows, set to at least 0."""
    out: Floats = slopes.copy()
    out[..., [0, -1]] = np.maximum(out[..., [0, -1]], 0.0)
    return out


def ramps(x: Floats, knots: Floats) -> Floats:
    """How much of each segment lies between the anchor a and x: η = a + c + ramps @ slopes."""
    edges = np.concatenate([[-np.inf], knots, [np.inf]])
    found: Floats = np.clip(x[:, None], edges[:-1], edges[1:]) - np.clip(anchor(knots), edges[:-1], edges[1:])
    return found


def anchor(knots: Floats) -> float:
    """0, or the knot closest to 0: slopes outside the range of the rows must not move the curve inside it."""
    return float(np.clip(0.0, knots[0], knots[-1]))
