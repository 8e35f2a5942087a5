"""Vector and matrix scaling (Guo et al. 2017), without a penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.linear.affine import FINITE, Affine, fit_affine, nested
from bpmcli.core.calibrators.linear.forms import Form
from bpmcli.core.calibrators.linear.table import TrainingRows
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.data.rows import Rows


@dataclass(frozen=True)
class VectorScaling(Affine):
    """softmax(slopes ∘ x + shifts) of log-probabilities x."""

    slopes: tuple[float, ...]
    shifts: tuple[float, ...]


@dataclass(frozen=True)
class MatrixScaling(Affine):
    """softmax(A x + shifts) of log-probabilities x."""

    matrix: tuple[tuple[float, ...], ...]
    shifts: tuple[float, ...]


@method("vector", "a slope and a shift for each class", "Guo et al. 2017, ICML", VectorScaling)
def fit_vector(rows: Rows, options: FitOptions) -> Fitted:
    """min over slopes and shifts of the mean log loss. Needs hundreds of rows for each class."""
    table = TrainingRows.of(rows, "vector")
    form = Form(table.classes, matrix=False)
    slopes, shifts, report = fit_affine(table, form, np.full(form.size, FINITE * table.n))
    return Fitted(VectorScaling(tuple(slopes.tolist()), tuple(shifts.tolist())), report)


@method("matrix", "a full matrix and shifts, without a penalty", "Guo et al. 2017, ICML", MatrixScaling)
def fit_matrix(rows: Rows, options: FitOptions) -> Fitted:
    """min over A and shifts of the mean log loss. With K² + K parameters it overfits unless there are many rows."""
    table = TrainingRows.of(rows, "matrix")
    form = Form(table.classes, matrix=True)
    matrix, shifts, report = fit_affine(table, form, np.full(form.size, FINITE * table.n))
    return Fitted(MatrixScaling(nested(matrix), tuple(shifts.tolist())), report)
