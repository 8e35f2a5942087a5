"""Shapes a calibration curve may have, all of them fitted at once by maximum a posteriori.

Each shape is a few numbers θ with a Gaussian prior whose mean is (nearly) the identity. With L = log s
and Q = −log(1 − s), slopes a = e^(u+d/2), b = e^(u−d/2):

| shape       | h(s)                     | free    |                                               |
|-------------|--------------------------|---------|-----------------------------------------------|
| identity    | s                        |         |                                               |
| slope       | σ(a (L + Q))             | u       | temperature scaling, seen from the top class  |
| slope+shift | σ(a (L + Q) + c)         | u, c    | Platt scaling of the log-odds                 |
| beta        | σ(a L + b Q + c)         | u, d, c | Kull et al. 2017; the paper's prior           |
| odds        | σ(b Q + c)               | u, c    | beta with a = 0 (Roelofs' logit-logflip)      |
| power       | s^a                      | u       | with a ceiling: Roelofs' log-log              |
| flip        | 1 − (1 − s)^b            | u       | with a floor: Roelofs' logflip-logflip        |

and each comes free, with a ceiling g = C h (label noise) and with a floor g = F + (1 − F) h (a guess
among K classes is right one time in K). `bends` is the shape without a formula: log-odds that are
piecewise linear between quantiles of the sample, slopes a Gaussian random walk around 1, which may go
below 0 (`rising` sees to that); free or with a ceiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bpmcli.core.curves.averaged import bends
from bpmcli.core.curves.families import Pair, log_complement, log_confidence
from bpmcli.core.data.sample import BARE_LIMIT, Floats, Ints, Sample

if TYPE_CHECKING:
    from typing_extensions import Self

SHAPES = ("identity", "slope", "slope+shift", "beta", "odds", "power", "flip")
ENDS = ("", "ceiling", "floor")
_FREE = {"identity": "", "slope": "u", "slope+shift": "uc", "beta": "udc", "odds": "uc", "power": "u", "flip": "u"}
PARAMETERS = {**{shape: len(free) for shape, free in _FREE.items()}, "bends": 2}
"""Of each shape but for its end; bends count for slope and shift."""
_SLOTS = "udck"
"""θ of every shape: log slope, asymmetry, shift, log-odds of the ceiling (or of 1 − floor)."""

ETA_LIMIT = 600.0
"""e^-600 is far above the smallest float64, so that no mass over it overflows."""

CELL = 1 / 8
KNEE = 4.0
"""Cells are ⅛ wide up to ±4 in log-odds, then widen with |x|: with means kept, g moves by less than 1e-4."""
MASS_CELLS = 128
"""… and no wider than 1/128 of the rows, where the rows are."""


@dataclass(frozen=True)
class Cells:
    """The sample in at most a few hundred cells of log-odds: all that a fit looks at, whatever N."""

    log_odds: Floats
    mass: Floats
    hits: Floats


def cells_of(sample: Sample) -> Cells:
    """Neighbouring cells of the sample merged, their mean log-odds kept; masses add up to the effective N.

    Log-odds stop at ±37.4: 1 − 1e-16 and 1 are the same claim, and no curve should bend for the difference.
    """
    x = np.clip(sample.log_odds, -BARE_LIMIT, BARE_LIMIT)
    size = np.abs(x)
    scale = np.where(size <= KNEE, size, KNEE * (1.0 + np.log(np.maximum(size, KNEE) / KNEE)))
    key = np.floor(np.copysign(scale, x) / CELL)
    part = np.floor(sample.mass_before[:-1] * (MASS_CELLS / sample.n))
    new = (key[1:] != key[:-1]) | (part[1:] != part[:-1])
    starts = np.concatenate([[0], np.flatnonzero(new) + 1])
    mass = np.add.reduceat(sample.mass, starts)
    worth = sample.effective_n / sample.n
    return Cells(
        np.add.reduceat(sample.mass * x, starts) / mass, mass * worth, np.add.reduceat(sample.hits, starts) * worth
    )


@dataclass(frozen=True)
class Prior:
    """Scales (standard deviations) of the Gaussian priors, in log-odds or logarithms of a slope."""

    slope: float = 0.5
    asymmetry: float = 0.25
    shift: float = 0.5
    odds_shift: float = -0.3
    """`odds` lies closest to the identity on ½ … 1 with this shift."""
    ceiling: tuple[float, float] = (5.0, 1.5)
    floor: tuple[float, float] = (3.0, 1.5)
    """Mean and sd of the log-odds of the ceiling, and of 1 − floor."""
    bends: tuple[float, ...] = (0.1, 0.5, 2.5, 12.5)
    """Steps of the slope from one knot to the next: one `bends` member for each."""

    def widened(self, factor: float) -> Prior:
        """The same centres, vaguer."""
        k = factor
        ends = ((self.ceiling[0], self.ceiling[1] * k), (self.floor[0], self.floor[1] * k))
        return Prior(self.slope * k, self.asymmetry * k, self.shift * k, self.odds_shift, *ends, self.bends)


def _sigmoid_pair(eta: Floats) -> Pair:
    e = np.exp(-np.abs(np.clip(eta, -ETA_LIMIT, ETA_LIMIT)))
    near = 1.0 / (1.0 + e)
    far = e * near
    up = eta >= 0
    return np.where(up, near, far), np.where(up, far, near)


def _base(shape: str, theta: Floats, log_s: Floats, log_q: Floats) -> tuple[Floats, Floats, Floats]:
    """h, 1 − h and ∂h/∂(u, d, c), for θ of shape (…, 4) and log s, −log(1 − s) that broadcast against it."""
    u, d, c = (theta[..., i, None] for i in range(3))
    if shape in ("power", "flip"):
        exponent = np.maximum(np.exp(u) * (log_s if shape == "power" else -log_q), -ETA_LIMIT)
        near, far = np.exp(exponent), np.maximum(-np.expm1(exponent), 1e-260)
        change = near * exponent
        zero = np.zeros_like(change)
        if shape == "power":
            return near, far, np.stack([change, zero, zero], axis=-2)
        return far, near, np.stack([-change, zero, zero], axis=-2)
    low = np.exp(u + d / 2) * log_s if shape != "odds" else 0.0
    high = np.exp(u - d / 2) * log_q
    eta = low + high
    g, miss = _sigmoid_pair(eta + c)
    slope = g * miss
    return g, miss, np.stack([slope * eta, slope * (low - high) / 2, slope], axis=-2)


def _with_end(end: str, h: Floats, miss: Floats, k: Floats) -> Pair:
    """g and 1 − g with a ceiling σ(k) or a floor σ(−k)."""
    if not end:
        return h, miss
    keep, drop = _sigmoid_pair(k)
    return (keep * h, drop + keep * miss) if end == "ceiling" else (drop + keep * h, keep * miss)


def evaluate_shape(shape: str, end: str, theta: Floats, knots: Floats, log_odds: Floats) -> Pair:
    """(g, 1 − g) for θ of shape (…, d), at every log-odds."""
    if shape == "bends":
        h, miss = _sigmoid_pair(bends.bent(theta[..., : knots.size + 2], knots, log_odds))
    elif shape == "identity":
        h, miss = _sigmoid_pair(np.broadcast_to(log_odds, (*theta.shape[:-1], log_odds.size)))
    else:
        h, miss, _ = _base(shape, theta, log_confidence(log_odds), -log_complement(log_odds))
    return _with_end(end, h, miss, theta[..., -1:])


@dataclass(frozen=True)
class Member:
    """One shape with its parameters: a curve."""

    shape: str
    end: str
    theta: tuple[float, ...]
    """u, d, c, k; bends: shift, the slopes, and k if they have an end."""
    knots: tuple[float, ...] = ()

    def __call__(self, log_odds: Floats) -> Pair:
        """(g, 1 − g)."""
        return evaluate_shape(self.shape, self.end, np.array(self.theta), np.array(self.knots), log_odds)

    @property
    def falls(self) -> bool:
        """Whether g falls anywhere: only bends do, between their knots."""
        return self.shape == "bends" and bool(np.any(self.slopes < 0))

    @property
    def slopes(self) -> Floats:
        """Of bends, from below the first knot to above the last."""
        return bends.outside_up(np.array(self.theta[1 : len(self.knots) + 2]))


Evaluated = tuple[Floats, Floats, Floats]
"""g and 1 − g of every member at every cell, and ∂g/∂θ: (M, n), (M, n), (M, d, n)."""


class Batch:
    """Members that are fitted together: their priors, and g with its derivatives on the cells."""

    kinds: Sequence[tuple[str, str]]
    """Shape and end of every member."""
    mean: Floats
    precision: Floats
    """(M, d, d); a slot that a member does not use has mean 0, precision 1 and derivative 0."""
    box: Floats
    """θ stays within ± this."""
    ends: Ends

    def take(self, rows: Ints) -> Self:
        """Some of the members, in the same order."""
        part = copy(self)
        part.kinds = [self.kinds[i] for i in rows.tolist()]
        part.mean, part.precision, part.ends = self.mean[rows], self.precision[rows], self.ends.take(rows)
        return part

    def place(self, log_odds: Floats) -> None:
        """Evaluate there from now on."""
        raise NotImplementedError

    def evaluate(self, theta: Floats) -> Evaluated:
        raise NotImplementedError

    def bend(self, theta: Floats) -> Floats:
        """∂²g/∂θ² over ∂g/∂θ where only one parameter bends g: 1 for a log slope, 1 − 2σ(k) for an end."""
        raise NotImplementedError

    def members(self, theta: Floats) -> list[Member]:
        raise NotImplementedError


class Ends:
    """Ceilings and floors of the members of a batch."""

    def __init__(self, ends: Sequence[str], prior: Prior) -> None:
        settings = {"": (0.0, 1.0), "ceiling": prior.ceiling, "floor": prior.floor}
        self.mean, self.sd = np.array([settings[end] for end in ends]).T
        self.ceiling, self.floor = (np.array([[float(end == kind)] for end in ends]) for kind in ("ceiling", "floor"))

    def take(self, rows: Ints) -> Ends:
        """Those of some members."""
        part = copy(self)
        part.mean, part.sd = self.mean[rows], self.sd[rows]
        part.ceiling, part.floor = self.ceiling[rows], self.floor[rows]
        return part

    def apply(self, h: Floats, miss: Floats, slopes: Floats, k: Floats) -> Evaluated:
        """g of h, with ∂/∂k behind the derivatives that h has."""
        keep, drop = _sigmoid_pair(k[:, None])
        ended = self.ceiling + self.floor
        keep, drop = np.where(ended, keep, 1.0), drop * ended
        by_end = keep * drop * (self.ceiling * h - self.floor * miss)
        jacobian = np.concatenate([slopes * keep[:, :, None], by_end[:, None]], axis=1)
        return keep * h + drop * self.floor, keep * miss + drop * self.ceiling, jacobian


class FormulaBatch(Batch):
    """The seven shapes, each free, with a ceiling and with a floor."""

    def __init__(self, cells: Cells, prior: Prior) -> None:
        self.place(cells.log_odds)
        self.kinds = [(shape, end) for shape in SHAPES for end in ENDS]
        free = [[slot in _FREE[shape] for slot in _SLOTS[:3]] + [bool(end)] for shape, end in self.kinds]
        self.free = np.array(free)
        self.box = np.full(4, BOX)
        self.ends = Ends([end for _, end in self.kinds], prior)
        scales = [[prior.slope, prior.asymmetry, prior.shift, sd] for sd in self.ends.sd]
        self.precision = np.where(self.free, 1.0 / np.square(scales), 1.0)[:, :, None] * np.eye(4)
        shift = {"odds": prior.odds_shift}
        self.mean = np.array(
            [[0.0, 0.0, shift.get(shape, 0.0), k] for (shape, _), k in zip(self.kinds, self.ends.mean, strict=True)]
        )

    def take(self, rows: Ints) -> Self:
        part = super().take(rows)
        part.free = self.free[rows]
        return part

    def place(self, log_odds: Floats) -> None:
        self.log_s, self.log_q = log_confidence(log_odds), -log_complement(log_odds)

    def evaluate(self, theta: Floats) -> Evaluated:
        # The first four shapes are beta with slots held at zero.
        bases = SHAPES[3:]
        own = [max(SHAPES.index(shape) - 3, 0) for shape, _ in self.kinds]
        cuts = np.searchsorted(own, np.arange(1, len(bases)))
        parts = [
            _base(shape, rows, self.log_s, self.log_q) for shape, rows in zip(bases, np.split(theta, cuts), strict=True)
        ]
        h, miss, slopes = (np.concatenate(values) for values in zip(*parts, strict=True))
        g, below, jacobian = self.ends.apply(h, miss, slopes, theta[:, 3])
        return g, below, jacobian * self.free[:, :, None]

    def bend(self, theta: Floats) -> Floats:
        out = np.zeros_like(theta)
        out[:, 0] = 1.0
        out[:, 3] = -np.tanh(theta[:, 3] / 2)
        return out

    def members(self, theta: Floats) -> list[Member]:
        rows = np.where(self.free, theta, 0.0)
        return [Member(*kind, tuple(row)) for kind, row in zip(self.kinds, rows.tolist(), strict=True)]


BOX = 12.0
"""A slope of e^12 is a step already, a ceiling of σ(12) is none."""

BEND_ENDS = ("", "ceiling")


class BendBatch(Batch):
    """Random walks of the slope, one member for each step size and end."""

    def __init__(self, cells: Cells, prior: Prior) -> None:
        self.knots = bends.knots_of(cells.log_odds, cells.mass)
        self.place(cells.log_odds)
        self.kinds = [("bends", end) for end in BEND_ENDS] * len(prior.bends)
        self.ends = Ends([end for _, end in self.kinds], prior)
        k = self.knots.size + 1
        # Slopes between close knots may be large, and their prior is enough to hold them.
        self.box = np.concatenate([np.full(k + 1, np.inf), [BOX]])
        step = np.diff(np.eye(k), axis=0)
        self.precision = np.zeros((len(self.kinds), k + 2, k + 2))
        self.precision[:, 0, 0] = 1.0 / prior.shift**2
        self.precision[:, -1, -1] = 1.0 / self.ends.sd**2
        for i, sd in enumerate(np.repeat(prior.bends, len(BEND_ENDS))):
            self.precision[i, 1:-1, 1:-1] = step.T @ step / sd**2 + np.eye(k) / (prior.slope**2 * k)
        self.mean = np.zeros((len(self.kinds), k + 2))
        self.mean[:, 1:-1] = 1.0
        self.mean[:, -1] = self.ends.mean

    def start(self, formulas: FormulaBatch, theta: Floats) -> Floats:
        """No bends yet: the fitted slope and shift with the same end."""
        rows = [formulas.kinds.index(("slope+shift", end)) for _, end in self.kinds]
        u, _, c, k = theta[rows].T
        slope, anchor = np.exp(u), bends.anchor(self.knots)
        slopes = np.repeat(slope[:, None], self.knots.size + 1, axis=1)
        return np.column_stack([c + (slope - 1.0) * anchor, slopes, k])

    def place(self, log_odds: Floats) -> None:
        x, self.beyond = bends.near(log_odds, self.knots)
        self.ramps = bends.ramps(x, self.knots).T
        self.reach = self.ramps + bends.shares(self.knots)[:, None] * self.beyond

    def evaluate(self, theta: Floats) -> Evaluated:
        slopes = bends.outside_up(theta[:, 1:-1])
        bent = slopes @ self.ramps + theta[:, :1] + bends.anchor(self.knots)
        h, miss = _sigmoid_pair(bent + bends.slope_beyond(slopes, self.knots) * self.beyond)
        rate = (h * miss)[:, None]
        by_slope = rate * self.reach * (slopes == theta[:, 1:-1])[:, :, None]
        return self.ends.apply(h, miss, np.concatenate([rate, by_slope], axis=1), theta[:, -1])

    def bend(self, theta: Floats) -> Floats:
        out = np.zeros_like(theta)
        out[:, -1] = -np.tanh(theta[:, -1] / 2)
        return out

    def members(self, theta: Floats) -> list[Member]:
        knots = tuple(self.knots.tolist())
        return [
            Member("bends", end, tuple(row if end else row[:-1]), knots)
            for (_, end), row in zip(self.kinds, theta.tolist(), strict=True)
        ]
