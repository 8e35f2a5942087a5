"""Every component of a batch fitted by maximum a posteriori, with Laplace's approximation of its evidence.

Written by hand rather than with scipy: all components are fitted at once, and `metrics` must not import scipy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bpmcli.core.curves.averaged.batches import ComponentBatch
from bpmcli.core.curves.averaged.cells import Cells
from bpmcli.core.data.sample import Floats

STEPS = 60
TOLERANCE = 1e-3
"""The fit ends when a Newton step would gain fewer nats: θ is then within 5 % of a posterior standard deviation."""
HOPELESS = 25.0
"""A component that is this many nats behind the best of its batch will carry no weight, so it is left where it is."""


@dataclass(frozen=True)
class Posterior:
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
    scaled = jacobian * (np.sqrt(cells.mass) / np.sqrt(g) / np.sqrt(miss))[:, None]
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
