"""Components that are fitted together: their priors, g with its derivatives on the cells, and the fit itself.

Every component of a batch is fitted by maximum a posteriori, with Laplace's approximation of its evidence. Written by
hand rather than with scipy: all components are fitted at once, and `metrics` must not import scipy.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bpmcli.core.curves.averaged.cells import Cells
from bpmcli.core.curves.averaged.shapes import (
    ENDS,
    FREE,
    SHAPES,
    SLOTS,
    Component,
    Prior,
    anchor_of,
    clipped_sigmoid_pair,
    knots_of,
    near_knots,
    outside_up,
    ramps,
    segment_shares,
    shape_with_derivatives,
    slope_beyond,
)
from bpmcli.core.curves.families import log_complement, log_confidence
from bpmcli.core.data.sample import Floats, Ints
from bpmcli.record import Record

if TYPE_CHECKING:
    from typing_extensions import Self

Evaluated = tuple[Floats, Floats, Floats]
"""g and 1 − g of every component at every cell, and ∂g/∂θ: (M, n), (M, n), (M, d, n)."""

BOX = 12.0
"""A slope of e^12 is already a step, and a ceiling of σ(12) cannot be told from 1."""

BEND_ENDS = ("", "ceiling")


class ComponentBatch:
    """Components with the same number of parameters, as arrays."""

    kinds: Sequence[tuple[str, str]]
    """Shape and end of every component."""
    mean: Floats
    precision: Floats
    """(M, d, d). A parameter that a component does not use has mean 0, precision 1 and derivative 0."""
    box: Floats
    """Every parameter of θ stays within ± its limit."""
    ends: Ends

    def take(self, rows: Ints) -> Self:
        """Some of the components, in the same order."""
        part = copy(self)
        part.kinds = [self.kinds[i] for i in rows.tolist()]
        part.mean, part.precision, part.ends = self.mean[rows], self.precision[rows], self.ends.take(rows)
        return part

    def place(self, log_odds: Floats) -> None:
        """Choose the log-odds at which `evaluate` works from now on."""
        raise NotImplementedError

    def evaluate(self, theta: Floats) -> Evaluated:
        """g, 1 − g and the derivatives of g for one θ per component."""
        raise NotImplementedError

    def bend(self, theta: Floats) -> Floats:
        """∂²g/∂θ² over ∂g/∂θ for parameters in which g is not linear: 1 for a log slope, 1 − 2σ(k) for an end."""
        raise NotImplementedError

    def components(self, theta: Floats) -> list[Component]:
        """Every component with its parameters, as a curve."""
        raise NotImplementedError


class Ends:
    """Ceilings and floors of the components of a batch."""

    def __init__(self, ends: Sequence[str], prior: Prior) -> None:
        settings = {"": (0.0, 1.0), "ceiling": prior.ceiling, "floor": prior.floor}
        self.mean, self.sd = np.array([settings[end] for end in ends]).T
        self.ceiling, self.floor = (np.array([[float(end == kind)] for end in ends]) for kind in ("ceiling", "floor"))

    def take(self, rows: Ints) -> Ends:
        """The ends of some of the components."""
        part = copy(self)
        part.mean, part.sd = self.mean[rows], self.sd[rows]
        part.ceiling, part.floor = self.ceiling[rows], self.floor[rows]
        return part

    def apply(self, h: Floats, miss: Floats, jacobian: Floats, k: Floats) -> Evaluated:
        """g from h. The derivatives in `jacobian` become those of g, in place; the last one is set to ∂g/∂k."""
        keep, drop = clipped_sigmoid_pair(k[:, None])
        ended = self.ceiling + self.floor
        keep, drop = np.where(ended, keep, 1.0), drop * ended
        jacobian[:, :-1] *= keep[:, :, None]
        jacobian[:, -1] = keep * drop * (self.ceiling * h - self.floor * miss)
        return keep * h + drop * self.floor, keep * miss + drop * self.ceiling, jacobian


class FormulaBatch(ComponentBatch):
    """The seven shapes, each free, with a ceiling and with a floor."""

    def __init__(self, cells: Cells, prior: Prior) -> None:
        self.place(cells.log_odds)
        self.kinds = [(shape, end) for shape in SHAPES for end in ENDS]
        free = [[slot in FREE[shape] for slot in SLOTS[:3]] + [bool(end)] for shape, end in self.kinds]
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
        # The first four shapes are `beta` with some parameters held at zero.
        bases = SHAPES[3:]
        own = [max(SHAPES.index(shape) - 3, 0) for shape, _ in self.kinds]
        cuts = [*np.searchsorted(own, np.arange(len(bases))).tolist(), len(own)]
        h, miss = np.empty((2, len(own), self.log_s.size))
        jacobian = np.empty((*theta.shape, self.log_s.size))
        for shape, first, last in zip(bases, cuts[:-1], cuts[1:], strict=True):
            rows = slice(first, last)
            slopes = jacobian[rows, :3].swapaxes(0, 1)
            h[rows], miss[rows] = shape_with_derivatives(shape, theta[rows], self.log_s, self.log_q, slopes)
        g, below, jacobian = self.ends.apply(h, miss, jacobian, theta[:, 3])
        jacobian *= self.free[:, :, None]
        return g, below, jacobian

    def bend(self, theta: Floats) -> Floats:
        out = np.zeros_like(theta)
        out[:, 0] = 1.0
        out[:, 3] = -np.tanh(theta[:, 3] / 2)
        return out

    def components(self, theta: Floats) -> list[Component]:
        rows = np.where(self.free, theta, 0.0)
        return [Component(*kind, tuple(row)) for kind, row in zip(self.kinds, rows.tolist(), strict=True)]


class BendBatch(ComponentBatch):
    """The `bends` components: random walks of the slope, one for each step size and end."""

    def __init__(self, cells: Cells, prior: Prior) -> None:
        self.knots = knots_of(cells.log_odds, cells.mass)
        self.anchor, self.shares = anchor_of(self.knots), segment_shares(self.knots)[:, None]
        self.place(cells.log_odds)
        self.kinds = [("bends", end) for end in BEND_ENDS] * len(prior.bends)
        self.ends = Ends([end for _, end in self.kinds], prior)
        k = self.knots.size + 1
        # Slopes between close knots may be large; their prior alone keeps them in bounds.
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
        """Where the fit begins: all slopes equal, taken from the fitted `slope+shift` with the same end."""
        rows = [formulas.kinds.index(("slope+shift", end)) for _, end in self.kinds]
        u, _, c, k = theta[rows].T
        slopes = np.repeat(np.exp(u)[:, None], self.knots.size + 1, axis=1)
        return np.column_stack([c + (slopes[:, 0] - 1.0) * self.anchor, slopes, k])

    def place(self, log_odds: Floats) -> None:
        x, self.beyond = near_knots(log_odds, self.knots)
        self.ramps = ramps(x, self.knots).T
        self.reach = self.ramps + self.shares * self.beyond

    def evaluate(self, theta: Floats) -> Evaluated:
        slopes = outside_up(theta[:, 1:-1])
        bent = slopes @ self.ramps + theta[:, :1] + self.anchor
        h, miss = clipped_sigmoid_pair(bent + slope_beyond(slopes, self.shares) * self.beyond)
        jacobian = np.empty((*theta.shape, h.shape[1]))
        rate = np.multiply(h, miss, out=jacobian[:, 0])
        by_slope = np.multiply(rate[:, None], self.reach, out=jacobian[:, 1:-1])
        if not (free := slopes == theta[:, 1:-1]).all():
            by_slope *= free[:, :, None]
        return self.ends.apply(h, miss, jacobian, theta[:, -1])

    def bend(self, theta: Floats) -> Floats:
        out = np.zeros_like(theta)
        out[:, -1] = -np.tanh(theta[:, -1] / 2)
        return out

    def components(self, theta: Floats) -> list[Component]:
        knots = tuple(self.knots.tolist())
        return [
            Component("bends", end, tuple(row if end else row[:-1]), knots)
            for (_, end), row in zip(self.kinds, theta.tolist(), strict=True)
        ]


STEPS = 60
TOLERANCE = 1e-3
"""The fit ends when a Newton step would gain fewer nats: θ is then within 5 % of its posterior standard deviation."""
HOPELESS = 25.0
"""A component that is this many nats behind the best of its batch will carry no weight, so its fit is not continued."""


class Posterior(Record):
    """The components of one batch at their optimum."""

    theta: Floats
    log_evidence: Floats
    log_likelihood: Floats
    information: Floats
    """Fisher information of the rows plus the precision of the prior: (M, d, d)."""
    evaluations: int


class _State(NamedTuple):
    """Everything a step needs, one entry per component."""

    value: Floats
    """Minus the log posterior, up to a constant."""
    gradient: Floats
    information: Floats
    bend: Floats
    """Diagonal of the Hessian minus the information: the second-order part that Fisher scoring leaves out."""
    likelihood: Floats

    def of(self, active: Floats) -> _State:
        return _State(*(values[active] for values in self))


def _evaluate(batch: ComponentBatch, cells: Cells, theta: Floats) -> _State:
    hits, misses = cells.hits, cells.mass - cells.hits
    g, miss, jacobian = batch.evaluate(theta)
    pull = np.einsum("mij,mj->mi", batch.precision, theta - batch.mean)
    likelihood = np.log(g) @ hits + np.log(miss) @ misses
    value = 0.5 * np.sum(pull * (theta - batch.mean), axis=1) - likelihood
    data = np.einsum("mdn,mn->md", jacobian, misses / miss - hits / g)
    scaled = np.multiply(jacobian, (np.sqrt(cells.mass) / np.sqrt(g) / np.sqrt(miss))[:, None], out=jacobian)
    information = scaled @ scaled.transpose(0, 2, 1) + batch.precision
    return _State(value, pull + data, information, batch.bend(theta) * data, likelihood)


def _newton_step(state: _State, batch: ComponentBatch, damping: Floats) -> tuple[Floats, Floats]:
    """The damped step of every component, and what its quadratic model promises to gain."""
    diagonal = np.einsum("mii->mi", state.information)
    # The Hessian's second-order part is added as far as it leaves the matrix positive.
    lift = np.maximum(state.bend, -0.5 * np.einsum("mii->mi", batch.precision)) + damping[:, None] * diagonal
    matrix = state.information + lift[:, :, None] * np.eye(diagonal.shape[1])
    step = -np.linalg.solve(matrix, state.gradient[:, :, None])[:, :, 0]
    return step, -0.5 * np.sum(step * state.gradient, axis=1) * (1.0 + damping)


def fit_batch(batch: ComponentBatch, cells: Cells, start: Floats | None = None) -> Posterior:
    """Fisher scoring on all components at once, each with its own damping; starts at the prior mean by default."""
    theta = (batch.mean if start is None else start).copy()
    state = _evaluate(batch, cells, theta)
    damping = np.zeros(theta.shape[0])
    active, part = np.arange(theta.shape[0]), batch
    evaluations = 1
    for _ in range(STEPS):
        now = state.of(active)
        step, gain = _newton_step(now, part, damping[active])
        value, moving = now.value, gain >= TOLERANCE
        if np.all(value[moving] - gain[moving] > state.value.min() + HOPELESS):
            break
        if not moving.all():
            active, step, value = active[moving], step[moving], value[moving]
            part = batch.take(active)
        trial = np.clip(theta[active] + step, -batch.box, batch.box)
        new = _evaluate(part, cells, trial)
        evaluations += 1
        better = new.value < value
        theta[active[better]] = trial[better]
        for old, fresh in zip(state, new, strict=True):
            old[active[better]] = fresh[better]
        before = damping[active]
        damping[active] = np.where(better, np.where(before < 1e-3, 0.0, before / 8), np.maximum(8 * before, 0.01))
    volume = np.linalg.slogdet(batch.precision)[1] - np.linalg.slogdet(state.information)[1]
    return Posterior(theta, 0.5 * volume - state.value, state.likelihood, state.information, evaluations)
