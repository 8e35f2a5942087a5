"""The linear components of `averaged-matrix`: `firm`, `loose` and `shaped`.

Priors are centred on the identity map. `firm` and `loose` have fixed precisions 2λK (shifts and diagonal) and 2λK(K−1)
(the rest of the matrix), λ = 1 and 0.1; λ = 1 is structured matrix scaling. `shaped` adds the functions ψ; the
precision of each block of its parameters is fitted by MacKay's update (1992), pulled towards λ = 0.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bpmcli.core.calibrators.linear.forms import FUNCTIONS, Chunks, Form, softmax
from bpmcli.core.calibrators.linear.likelihood import Likelihood
from bpmcli.core.calibrators.linear.minimum import Preconditioner, lbfgs
from bpmcli.core.calibrators.linear.table import TrainingRows
from bpmcli.core.data.sample import Floats

FULL_CLASSES = 128
"""With more classes W is a diagonal: the prior would make nearly all of the K² entries vanish, and they take time."""

FIRM, LOOSE, SHAPED = 1.0, 0.1, 0.3
SHARED_PRECISION = 100.0
"""Prior precision of the coefficients c, common to all classes."""

ROUNDS = 2
PSEUDO_PARAMETERS = 1.0
"""Weight of a block's prior precision in MacKay's update, counted in parameters."""

TOLERANCE = 0.05
"""The solver stops at a gradient of this size, in coordinates in which the Hessian is near the identity. That costs a
few tenths of a nat in all."""


def precisions(form: Form, strength: float) -> Floats:
    """The prior precisions: 2λK for shifts, diagonal and C, 2λK(K−1) off the diagonal, and the precision of c."""
    k = form.classes
    tau = np.full(form.size, 2.0 * strength * k)
    if "off" in form.blocks:
        tau[form.blocks["off"]] *= k - 1
    tau[k * form.columns :] = SHARED_PRECISION
    return tau


@dataclass(frozen=True)
class LinearComponent:
    """A fitted map, the precisions τ of its prior, and blocks of the Hessian, which speed up fits to similar rows."""

    name: str
    form: Form
    tau: Floats
    theta: Floats
    blocks: tuple[Floats, Floats]

    def refitted(self, chunks: Chunks, share: float) -> LinearComponent:
        """A fit to other rows with the same prior. They have `share` times the total weight of the first rows."""
        scale = Preconditioner.of((self.blocks[0] * share, self.blocks[1] * share), self.form, self.tau)
        found = lbfgs(Likelihood(chunks, self.form), self.tau, self.theta, TOLERANCE, scale)
        return replace(self, theta=found.theta)

    def label_likelihoods(self, chunks: Chunks) -> Floats:
        """The probability of every row's label."""
        table, found = self.form.effective(self.theta), []
        for chunk in chunks:
            p, _ = softmax(self.form.map(table, chunk))
            found.append(p[chunk.labels, np.arange(chunk.labels.size)])
        return np.concatenate(found)


def fit_components(table: TrainingRows, chunks: Chunks) -> list[LinearComponent]:
    """Every linear component on the same rows."""
    form = Form(table.classes, table.classes <= FULL_CLASSES)
    likelihood = Likelihood(chunks, form)
    theta = np.zeros(form.size)
    blocks = likelihood.blocks(theta)
    found = []
    for name, strength in (("firm", FIRM), ("loose", LOOSE)):
        tau = precisions(form, strength)
        theta = lbfgs(likelihood, tau, theta, TOLERANCE, Preconditioner.of(blocks, form, tau)).theta
        found.append(LinearComponent(name, form, tau, theta, blocks))
    return [*found, _shaped(found[-1], chunks)]


def _shaped(linear: LinearComponent, chunks: Chunks) -> LinearComponent:
    """The `shaped` component: begins at a fitted component without ψ, and makes two rounds of MacKay's update."""
    form = Form(linear.form.classes, linear.form.matrix, FUNCTIONS)
    theta = np.zeros(form.size)
    own = theta[: form.classes * form.columns].reshape(form.classes, form.columns)
    own[:, : linear.form.columns] = linear.theta.reshape(form.classes, linear.form.columns)
    likelihood = Likelihood(chunks, form)
    blocks, prior = likelihood.blocks(theta), precisions(form, SHAPED)
    tau = prior
    for _ in range(ROUNDS):
        scale = Preconditioner.of(blocks, form, tau)
        theta = lbfgs(likelihood, tau, theta, TOLERANCE, scale).theta
        settled = 1.0 - tau * scale.variances()
        tau = tau.copy()
        for at in form.blocks.values():
            # The number γ of parameters that the rows determine, divided by the parameters' sum of squares.
            determined = float(np.clip(settled[at], 0.0, 1.0).sum())
            squares = float((theta[at] ** 2).sum())
            tau[at] = (determined + PSEUDO_PARAMETERS) / (squares + PSEUDO_PARAMETERS / prior[at])
    theta = lbfgs(likelihood, tau, theta, TOLERANCE, Preconditioner.of(blocks, form, tau)).theta
    return LinearComponent("shaped", form, tau, theta, blocks)
