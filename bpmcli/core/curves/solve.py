"""Projected Newton for a handful of bounded parameters, with the exact Hessian.

Start-up time is why this is not scipy: the everyday path must not import it. The result is checked
against scipy's solvers in the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bpmcli.core.data.sample import Floats

Objective = Callable[[Floats], tuple[float, Floats, Floats]]
"""θ → value, gradient, Hessian."""

NEGLIGIBLE = 1e-13
"""A Newton step that gains less than this share of the value is lost in rounding."""

NOTHING = 1e-18
"""Nor is a gain worth having that the objective's own size of one would swallow."""


FLATTEST = 1e-12
"""Curvature, in units of the diagonal, below which a direction is flat."""


class Minimum(NamedTuple):
    """Where the solver stopped; `converged` means no Newton step gains anything there."""

    x: Floats
    value: float
    evaluations: int
    converged: bool


def minimise(f: Objective, start: Floats, lower: Floats, upper: Floats, max_steps: int = 300) -> Minimum:
    """Newton steps on the free parameters, damped until they lower f, clipped to the bounds.

    Negative curvature is walked down, not up (the eigenvalues' absolute values are used).
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
                # Only a step too small to be seen would go down: rounding has been reached.
                return Minimum(x, value, evaluations, newton.gain(0.0) <= 1e4 * enough)
            damping = max(8 * damping, 1e-3)
        damping = damping / 8 if value - new[0] > 0.25 * newton.gain(damping) else max(2 * damping, 1e-3)
        if damping < 1e-6:
            damping = 0.0
        x, (value, gradient, hessian) = trial, new
    return Minimum(x, value, evaluations, False)


class _NewtonStep:
    """The damped step on the free parameters, in units where the Hessian's diagonal is one."""

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
        """What the quadratic model promises."""
        return float(np.sum(self.slope**2 / (self.curvature + damping))) / 2
