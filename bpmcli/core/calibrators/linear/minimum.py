"""The minimum of a penalised likelihood: L-BFGS in well-scaled coordinates, finished by Newton's method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators.linear.forms import Form
from bpmcli.core.calibrators.linear.likelihood import Likelihood
from bpmcli.core.data.sample import Floats

NEWTON_MATRIX, NEWTON_DIAGONAL = 700, 100
"""Up to this many parameters, Newton's method finds the last digits sooner than L-BFGS."""

ENOUGH = 1e-3
"""For L-BFGS alone: the gradient in coordinates where a parameter's standard deviation is about 1. The result is
then within a thousandth of the parameters' own uncertainty."""

GUIDING_PRODUCTS = 1 << 26
"""How many products the Hessian's blocks may take where they only set the scale of the solver's steps."""

TRIANGULAR = 16
"""For matrices of at least this size, an inverse that makes use of the zeros is faster, although it must be called once
for each class."""

CAUTION = 1e-3
"""The smallest curvature per row that is assumed when the first steps are scaled."""


class PenalisedMinimum(NamedTuple):
    """The parameters, the value there, the largest entry of the gradient, and how many passes it took."""

    theta: Floats
    value: float
    gradient: float
    passes: int


def minimise_penalised(likelihood: Likelihood, tau: Floats, rows: int, tolerance: float = 1e-7) -> PenalisedMinimum:
    """Starts at the identity map; stops where no entry of the gradient exceeds `tolerance` (ENOUGH without Newton)."""
    start = np.zeros(likelihood.form.size)
    blocks = likelihood.blocks(start, GUIDING_PRODUCTS)
    # If the model is certain of every row, the Hessian vanishes at the start and the first step would be arbitrary.
    scale = Preconditioner.of(blocks, likelihood.form, np.maximum(tau, CAUTION * rows))
    if likelihood.form.size > (NEWTON_MATRIX if likelihood.form.matrix else NEWTON_DIAGONAL):
        return lbfgs(likelihood, tau, start, ENOUGH, scale)
    near = lbfgs(likelihood, tau, start, 0.01, scale)
    return _newton(likelihood, tau, near, tolerance)


def _newton(likelihood: Likelihood, tau: Floats, near: PenalisedMinimum, tolerance: float) -> PenalisedMinimum:
    from scipy.linalg import cho_factor, cho_solve

    theta, passes = near.theta, near.passes
    value, gradient = likelihood.loss(theta, tau)
    for _ in range(50):
        if np.abs(gradient).max() <= tolerance:
            break
        hessian = likelihood.hessian(theta)
        # Slightly more than the penalty is added, because rounding can make the matrix singular.
        hessian[np.diag_indices_from(hessian)] += tau + 1e-13 * np.trace(hessian)
        step, length = cho_solve(cho_factor(hessian, lower=True, overwrite_a=True), gradient), 1.0
        while True:
            new_value, new_gradient = likelihood.loss(theta - length * step, tau)
            passes += 1
            if new_value <= value or length < 1e-8:
                break
            length *= 0.5
        if new_value > value or (new_value == value and np.abs(new_gradient).max() >= np.abs(gradient).max()):
            break
        theta, value, gradient = theta - length * step, new_value, new_gradient
    return PenalisedMinimum(theta, value, float(np.abs(gradient).max()), passes)


def lbfgs(
    likelihood: Likelihood, tau: Floats, start: Floats, tolerance: float, scale: Preconditioner
) -> PenalisedMinimum:
    """From `start` to where no entry of the gradient exceeds `tolerance` in the coordinates of `scale`."""
    from scipy.optimize import minimize

    def scaled(u: Floats) -> tuple[float, Floats]:
        value, gradient = likelihood.loss(scale.forward(u), tau)
        return value, scale.backward(gradient)

    found = minimize(
        scaled, scale.inverse(start), jac=True, method="L-BFGS-B",
        options={"maxiter": 2000, "maxfun": 4000, "maxcor": 20, "ftol": 1e-15, "gtol": tolerance},
    )  # fmt: skip
    return PenalisedMinimum(scale.forward(found.x), float(found.fun), float(np.abs(found.jac).max()), int(found.nfev))


def _inverses(factors: Floats) -> Floats:
    """Inverses of lower triangular matrices: by LAPACK one by one if they are large, otherwise all at once."""
    from scipy.linalg.lapack import dtrtri

    if factors.shape[1] < TRIANGULAR:
        return np.asarray(np.linalg.inv(factors), dtype=np.float64)
    found: Floats = factors.copy()
    for one in found:
        # The transposed view has LAPACK's order, so nothing is copied.
        one.T[...] = dtrtri(one.T, lower=0, overwrite_c=1)[0]
    return found


class Preconditioner(NamedTuple):
    """The change of variables θ = B u that makes the Hessian's blocks (one for each class, one for c) the identity."""

    own: Floats
    """Inverse of the transposed Cholesky factor of every class: classes × columns × columns."""
    shared: Floats
    factors: Floats
    shared_factor: Floats

    @classmethod
    def of(cls, blocks: tuple[Floats, Floats], form: Form, tau: Floats) -> Preconditioner:
        """From the Hessian's blocks without the penalty, and the penalty."""
        own, shared = blocks[0].copy(), blocks[1].copy()
        at = np.arange(form.columns)
        own[:, at, at] += tau[: form.classes * form.columns].reshape(form.classes, form.columns)
        shared[np.diag_indices(form.functions)] += tau[form.classes * form.columns :]
        own[:, at, at] *= 1.0 + 1e-9
        factors, shared_factor = np.linalg.cholesky(own), np.linalg.cholesky(shared)
        inverse = _inverses(factors).transpose(0, 2, 1)
        return cls(inverse, np.linalg.inv(shared_factor).T, factors, shared_factor)

    def _apply(self, own: Floats, shared: Floats, theta: Floats) -> Floats:
        k, columns, _ = own.shape
        parts = np.matmul(own, theta[: k * columns].reshape(k, columns, 1))
        return np.concatenate([parts.ravel(), shared @ theta[k * columns :]])

    def forward(self, u: Floats) -> Floats:
        return self._apply(self.own, self.shared, u)

    def backward(self, gradient: Floats) -> Floats:
        return self._apply(self.own.transpose(0, 2, 1), self.shared.T, gradient)

    def inverse(self, theta: Floats) -> Floats:
        return self._apply(self.factors.transpose(0, 2, 1), self.shared_factor.T, theta)

    def variances(self) -> Floats:
        """The diagonal of the inverse of the blocks: the posterior variance of every parameter, by blocks."""
        return np.concatenate([(self.own**2).sum(axis=2).ravel(), (self.shared**2).sum(axis=1)])
