"""Log-odds that are piecewise linear in log-odds: where the knots lie, and what lies between and beyond them.

θ is the shift c and the slopes, from the one below the first knot to the one above the last.
"""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.sample import BARE_LIMIT, Floats

MOST_KNOTS = 64
KNOT_GROWTH = 4.3
"""Knots grow like 4.3 N^¼: more rows show finer bends."""
ROWS_PER_KNOT = 10
KNOT_GAP = 0.02
BEYOND = 4.0
"""Bends go on for this far in log-odds beyond the outermost rows, then with their mean slope."""


def knots_of(log_odds: Floats, mass: Floats) -> Floats:
    """The outermost rows and quantiles between them."""
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
    """The closest log-odds that the bends reach, and how far beyond they are."""
    bare = np.clip(log_odds, -BARE_LIMIT, BARE_LIMIT)
    x = np.clip(bare, knots[0] - BEYOND, knots[-1] + BEYOND)
    return x, bare - x


def shares(knots: Floats) -> Floats:
    """Widths of the segments over that of all rows; the two of a single knot count alike."""
    if knots.size == 1:
        return np.full(2, 0.5)
    found: Floats = np.diff(knots, prepend=knots[0], append=knots[-1]) / (knots[-1] - knots[0])
    return found


def slope_beyond(slopes: Floats, knots: Floats) -> Floats:
    """The mean slope over the rows, which does not fall."""
    found: Floats = np.maximum(slopes @ shares(knots)[:, None], 0.0)
    return found


def outside_up(slopes: Floats) -> Floats:
    """The outermost slopes, where no rows are, do not fall."""
    out: Floats = slopes.copy()
    out[..., [0, -1]] = np.maximum(out[..., [0, -1]], 0.0)
    return out


def ramps(x: Floats, knots: Floats) -> Floats:
    """∫ₐˣ of the indicator of each segment: η = a + c + ramps @ slopes, which is x + c if all slopes are 1."""
    edges = np.concatenate([[-np.inf], knots, [np.inf]])
    found: Floats = np.clip(x[:, None], edges[:-1], edges[1:]) - np.clip(anchor(knots), edges[:-1], edges[1:])
    return found


def anchor(knots: Floats) -> float:
    """0, or the row closest to it: the slopes outside the rows must not move what is inside."""
    return float(np.clip(0.0, knots[0], knots[-1]))
