"""Dirichlet calibration with off-diagonal and intercept regularisation (Kull et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.linear.affine import FINITE, Affine, fit_affine, nested
from bpmcli.core.calibrators.linear.forms import Form
from bpmcli.core.calibrators.linear.table import TrainingRows
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.data.rows import Rows

STRENGTH = 1e-3
"""λ and μ of the penalty."""


@dataclass(frozen=True)
class Dirichlet(Affine):
    """softmax(A log p + b): the probability of each class given p, if p has a Dirichlet distribution in every class."""

    matrix: tuple[tuple[float, ...], ...]
    shifts: tuple[float, ...]


@method("dirichlet", "a full matrix, penalised off its diagonal", "Kull et al. 2019, NeurIPS", Dirichlet)
def fit_dirichlet(rows: Rows, options: FitOptions) -> Fitted:
    """min over A and b of the mean log loss + λ Σ_{i≠j} A_ij² + μ Σ b_i² (ODIR), with λ = μ = 0.001."""
    table = TrainingRows.of(rows, "dirichlet")
    form = Form(table.classes, matrix=True)
    tau = np.full(form.size, 2.0 * STRENGTH * table.n)
    tau[form.blocks["diagonal"]] = FINITE * table.n
    matrix, shifts, report = fit_affine(table, form, tau)
    return Fitted(Dirichlet(nested(matrix), tuple(shifts.tolist())), report)
