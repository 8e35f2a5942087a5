"""Projected Newton method for a few bounded parameters, with the exact Hessian.

Written by hand because importing scipy would double the start-up time of `metrics`. The tests check the results against
scipy's solvers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from bpmcli.core.data.sample import Floats
from bpmcli.record import Record

if TYPE_CHECKING:
    import numpy.typing as npt

Objective = Callable[[Floats], tuple[float, Floats, Floats]]
"""θ → value, gradient, Hessian."""

NEGLIGIBLE = 1e-13
"""A Newton step that gains less than this share of the value cannot be told from rounding."""

NOTHING = 1e-18
"""Gains below this are ignored: the paper's objective is about 1, and adding so little does not change it."""


FLATTEST = 1e-12
"""A direction counts as flat below this curvature, relative to the diagonal."""


class Minimum(Record):
    """Where the solver stopped. `converged` means that no further Newton step would gain anything."""

    x: Floats
    value: float
    evaluations: int
    converged: bool


def minimise(f: Objective, start: Floats, lower: Floats, upper: Floats, max_steps: int = 300) -> Minimum:
    """Minimise f by Newton steps on the free parameters, damped until they lower f and clipped to the bounds.

    Eigenvalues of the Hessian enter with their absolute values, so that negative curvature is followed downhill.
    """
    x = np.clip(start, lower, upper)
    value, gradient, hessian = f(x)
    evaluations, damping = 1, 0.0
    for _ in range(max_steps):
        free = ~(((x <= lower) & (gradient >= 0)) | ((x >= upper) & (gradient <= 0)))
        if not free.any():
            return Minimum(x, value, evaluations, True)
        newton = _NewtonStep(gradient, hessian, free)
        enough = NEGLIGIBLE * abs(value) + NOTHING
        if newton.gain(0.0) <= enough:
            return Minimum(x, value, evaluations, True)
        while True:
            trial = np.clip(x + newton.step(damping), lower, upper)
            new = f(trial)
            evaluations += 1
            if new[0] < value:
                break
            if newton.gain(damping) <= enough or damping > 1e12:
                # No step that is large enough to be seen lowers f: rounding has been reached.
                return Minimum(x, value, evaluations, newton.gain(0.0) <= 1e4 * enough)
            damping = max(8 * damping, 1e-3)
        damping = damping / 8 if value - new[0] > 0.25 * newton.gain(damping) else max(2 * damping, 1e-3)
        if damping < 1e-6:
            damping = 0.0
        x, (value, gradient, hessian) = trial, new
    return Minimum(x, value, evaluations, False)


class _NewtonStep:
    """The damped step on the free parameters, scaled so that the Hessian has a diagonal of ones."""

    def __init__(self, gradient: Floats, hessian: Floats, free: npt.NDArray[np.bool_]) -> None:
        self.free = free
        h = hessian[np.ix_(free, free)]
        self.unit = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(h)), 1e-200))
        values, self.vectors = np.linalg.eigh(h * self.unit * self.unit[:, None])
        self.curvature = np.maximum(np.abs(values), FLATTEST)
        self.slope = self.vectors.T @ (gradient[free] * self.unit)

    def step(self, damping: float) -> Floats:
        out = np.zeros(self.free.size)
        out[self.free] = -(self.vectors @ (self.slope / (self.curvature + damping))) * self.unit
        return out

    def gain(self, damping: float) -> float:
        """The decrease of f that the quadratic model predicts."""
        return float(np.sum(self.slope**2 / (self.curvature + damping))) / 2
