"""The components of the averaged curve: shapes with a few parameters θ and Gaussian priors near the identity.

With L = log s and Q = −log(1 − s), slopes a = e^(u+d/2), b = e^(u−d/2):

| shape       | h(s)                     | free    |                                               |
|-------------|--------------------------|---------|-----------------------------------------------|
| identity    | s                        |         |                                               |
| slope       | σ(a (L + Q))             | u       | temperature scaling, seen from the top class  |
| slope+shift | σ(a (L + Q) + c)         | u, c    | Platt scaling of the log-odds                 |
| beta        | σ(a L + b Q + c)         | u, d, c | Kull et al. 2017; the paper's prior           |
| odds        | σ(b Q + c)               | u, c    | beta with a = 0 (Roelofs' logit-logflip)      |
| power       | s^a                      | u       | with a ceiling: Roelofs' log-log              |
| flip        | 1 − (1 − s)^b            | u       | with a floor: Roelofs' logflip-logflip        |

Each shape exists in three versions: free, with a ceiling g = C h (label noise), and with a floor
g = F + (1 − F) h (a guess among K classes is correct one time in K). `bends` is the shape without a
formula: log-odds that are piecewise linear between quantiles of the sample. Its slopes are a Gaussian
random walk around 1 and may become negative, which `curve` corrects; it is free or has a ceiling.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bpmcli.core.curves.families import Pair, log_complement, log_confidence
from bpmcli.core.data.sample import BARE_LIMIT, Floats, sigmoid_pair
from bpmcli.record import Record

SHAPES = ("identity", "slope", "slope+shift", "beta", "odds", "power", "flip")
ENDS = ("", "ceiling", "floor")
FREE = {"identity": "", "slope": "u", "slope+shift": "uc", "beta": "udc", "odds": "uc", "power": "u", "flip": "u"}
"""The parameters that each shape fits."""
PARAMETERS = {**{shape: len(free) for shape, free in FREE.items()}, "bends": 2}
"""How many parameters each shape has, without its ceiling or floor; `bends` counts as slope and shift."""
SLOTS = "udck"
"""θ of every shape: log slope, asymmetry, shift, log-odds of the ceiling (or of 1 − floor)."""

ETA_LIMIT = 600.0
"""Log-odds are clipped here: e^-600 is far above the smallest float64, so dividing by it does not overflow."""


class Prior(Record):
    """Standard deviations of the Gaussian priors, in log-odds or logarithms of a slope."""

    slope: float = 0.5
    asymmetry: float = 0.25
    shift: float = 0.5
    odds_shift: float = -0.3
    """With this shift, `odds` lies closest to the identity on ½ … 1."""
    ceiling: tuple[float, float] = (5.0, 1.5)
    floor: tuple[float, float] = (3.0, 1.5)
    """Mean and standard deviation of the log-odds of the ceiling, and of 1 − floor."""
    bends: tuple[float, ...] = (0.1, 0.5, 2.5, 12.5)
    """Step sizes of the slope from one knot to the next: one `bends` component for each."""

    def widened(self, factor: float) -> Prior:
        """The same centres with standard deviations `factor` times as large."""
        k = factor
        ends = ((self.ceiling[0], self.ceiling[1] * k), (self.floor[0], self.floor[1] * k))
        return Prior(self.slope * k, self.asymmetry * k, self.shift * k, self.odds_shift, *ends, self.bends)


def clipped_sigmoid_pair(eta: Floats) -> Pair:
    """(σ(η), 1 − σ(η)) with η clipped to ±ETA_LIMIT, so that both can be divided by."""
    return sigmoid_pair(np.minimum(np.maximum(eta, -ETA_LIMIT), ETA_LIMIT))


def shape_values(shape: str, theta: Floats, log_s: Floats, log_q: Floats) -> Pair:
    """h and 1 − h, for θ of shape (…, 4) and log s, −log(1 − s) that broadcast against it."""
    if shape in ("power", "flip"):
        near, far, _ = _one_sided(shape, theta, log_s, log_q)
        return (near, far) if shape == "power" else (far, near)
    low, high = _two_sides(shape, theta, log_s, log_q)
    return clipped_sigmoid_pair(low + high + theta[..., 2, None])


def shape_with_derivatives(shape: str, theta: Floats, log_s: Floats, log_q: Floats, slopes: Floats) -> Pair:
    """The same; ∂h/∂(u, d, c) are written to the three arrays in `slopes`."""
    if shape in ("power", "flip"):
        near, far, exponent = _one_sided(shape, theta, log_s, log_q)
        np.multiply(near, exponent, out=slopes[0])
        slopes[1:] = 0.0
        if shape == "power":
            return near, far
        np.negative(slopes[0], out=slopes[0])
        return far, near
    low, high = _two_sides(shape, theta, log_s, log_q)
    eta = low + high
    g, miss = clipped_sigmoid_pair(eta + theta[..., 2, None])
    slope = np.multiply(g, miss, out=slopes[2])
    np.multiply(slope, eta, out=slopes[0])
    slopes[1] = slope * (low - high) / 2
    return g, miss


def _one_sided(shape: str, theta: Floats, log_s: Floats, log_q: Floats) -> tuple[Floats, Floats, Floats]:
    """s^e^u (`power`) or (1 − s)^e^u (`flip`), its complement, and its logarithm."""
    exponent = np.maximum(np.exp(theta[..., 0, None]) * (log_s if shape == "power" else -log_q), -ETA_LIMIT)
    return np.exp(exponent), np.maximum(-np.expm1(exponent), 1e-260), exponent


def _two_sides(shape: str, theta: Floats, log_s: Floats, log_q: Floats) -> tuple[Floats | float, Floats]:
    """The terms of η that grow with s and with 1 − s; `odds` has only the second."""
    u, d = theta[..., 0, None], theta[..., 1, None]
    return np.exp(u + d / 2) * log_s if shape != "odds" else 0.0, np.exp(u - d / 2) * log_q


def _with_end(end: str, h: Floats, miss: Floats, k: Floats) -> Pair:
    """g and 1 − g with a ceiling σ(k) or a floor σ(−k)."""
    if not end:
        return h, miss
    keep, drop = clipped_sigmoid_pair(k)
    return (keep * h, drop + keep * miss) if end == "ceiling" else (drop + keep * h, keep * miss)


def logarithms(log_odds: Floats) -> Pair:
    """log s and −log(1 − s)."""
    return log_confidence(log_odds), -log_complement(log_odds)


def evaluate_shape(shape: str, theta: Floats, knots: Floats, log_odds: Floats, logs: Pair) -> Pair:
    """(h, 1 − h) for θ of shape (…, d), at every log-odds; `logs` are their `logarithms`."""
    if shape == "bends":
        return clipped_sigmoid_pair(bent(theta[..., : knots.size + 2], knots, log_odds))
    if shape == "identity":
        return clipped_sigmoid_pair(np.broadcast_to(log_odds, (*theta.shape[:-1], log_odds.size)))
    return shape_values(shape, theta, *logs)


class Component(Record):
    """One shape with its parameters: a curve."""

    shape: str
    end: str
    theta: tuple[float, ...]
    """u, d, c, k; for `bends`: shift, slopes, and k if there is a ceiling."""
    knots: tuple[float, ...] = ()

    def __call__(self, log_odds: Floats) -> Pair:
        """(g, 1 − g)."""
        return evaluate_components((self,), log_odds)[0]

    @property
    def falls(self) -> bool:
        """Whether g decreases anywhere. Only `bends` can, between its knots."""
        return self.shape == "bends" and bool(np.any(self.slopes < 0))

    @property
    def slopes(self) -> Floats:
        """The slopes of `bends`, from below the first knot to above the last."""
        return outside_up(np.array(self.theta[1 : len(self.knots) + 2]))


def evaluate_components(components: Sequence[Component], log_odds: Floats) -> list[Pair]:
    """(g, 1 − g) of every component. Components with the same shape and the same knots are evaluated together."""
    alike: dict[tuple[str, tuple[float, ...]], list[int]] = {}
    for i, component in enumerate(components):
        alike.setdefault((component.shape, component.knots), []).append(i)
    found, logs = {}, logarithms(log_odds)
    for (shape, knots), numbers in alike.items():
        size = len(knots) + 2 if shape == "bends" else 4  # without the ceiling, which not all `bends` have
        theta = np.array([components[i].theta[:size] for i in numbers])
        for i, h, miss in zip(numbers, *evaluate_shape(shape, theta, np.array(knots), log_odds, logs), strict=True):
            found[i] = _with_end(components[i].end, h, miss, np.array(components[i].theta[-1:]))
    return [found[i] for i in range(len(components))]


# The shape `bends`: θ holds the shift c, then the slopes from below the first knot to above the last.

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
    x, beyond = near_knots(log_odds, knots)
    slopes = outside_up(theta[..., 1:])
    # Row by row, so that a component has the same bits alone and among others.
    rises = (slopes[..., None, :] @ ramps(knots, knots).T)[..., 0, :]
    heights = anchor_of(knots) + theta[..., :1] + rises
    segment = np.searchsorted(knots, x)
    left = np.maximum(segment - 1, 0)
    eta: Floats = heights[..., left] + slopes[..., segment] * (x - knots[left])
    return eta + slope_beyond(slopes[..., None, :], segment_shares(knots)[:, None])[..., 0] * beyond


def near_knots(log_odds: Floats, knots: Floats) -> tuple[Floats, Floats]:
    """Log-odds clipped to the range of the bends, and how far beyond that range they are."""
    bare = np.clip(log_odds, -BARE_LIMIT, BARE_LIMIT)
    x = np.clip(bare, knots[0] - BEYOND, knots[-1] + BEYOND)
    return x, bare - x


def segment_shares(knots: Floats) -> Floats:
    """Width of each segment as a share of the range of all rows. With a single knot, both segments count ½."""
    if knots.size == 1:
        return np.full(2, 0.5)
    found: Floats = np.diff(knots, prepend=knots[0], append=knots[-1]) / (knots[-1] - knots[0])
    return found


def slope_beyond(slopes: Floats, shares: Floats) -> Floats:
    """The mean slope over the rows, or 0 if that is negative; `shares` are those of the segments, in one column."""
    found: Floats = np.maximum(slopes @ shares, 0.0)
    return found


def outside_up(slopes: Floats) -> Floats:
    """Slopes with the outermost two, where there are no rows, set to at least 0."""
    out: Floats = slopes.copy()
    out[..., [0, -1]] = np.maximum(out[..., [0, -1]], 0.0)
    return out


def ramps(x: Floats, knots: Floats) -> Floats:
    """How much of each segment lies between the anchor a and x: η = a + c + ramps @ slopes."""
    edges = np.concatenate([[-np.inf], knots, [np.inf]])
    found: Floats = np.clip(x[:, None], edges[:-1], edges[1:]) - np.clip(anchor_of(knots), edges[:-1], edges[1:])
    return found


def anchor_of(knots: Floats) -> float:
    """0, or the knot closest to 0: slopes outside the range of the rows must not move the curve inside it."""
    return float(np.clip(0.0, knots[0], knots[-1]))
