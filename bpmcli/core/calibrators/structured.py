"""Structured vector and matrix scaling (Berta et al. 2025): a temperature first, then a penalised linear map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bpmcli.core.calibrators.linear.affine import Affine, fit_affine, nested
from bpmcli.core.calibrators.linear.floor import Start, fit_inverse_temperature
from bpmcli.core.calibrators.linear.forms import Form
from bpmcli.core.calibrators.linear.table import TrainingRows
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats

WIDE = 100.0
"""Prior standard deviation of log T: so wide that it only keeps T finite if every label has the largest score."""

REFERENCE = "Berta et al. 2025, arXiv 2511.03685"


@dataclass(frozen=True)
class Structured(Affine):
    """The first step of both methods: X = log((1 − m)·softmax(x/T) + m/K), with m = `uniform`."""

    any_constant: ClassVar[bool] = True

    temperature: float
    uniform: float

    def prepared(self, x: Floats) -> Floats:
        return Start(0.0, -float(np.log(self.temperature)), self.uniform).scores(x)[1]

    def is_sound(self) -> bool:
        return self.temperature > 0 and 0 <= self.uniform < 1 and super().is_sound()


@dataclass(frozen=True)
class StructuredVector(Structured):
    """softmax(slopes ∘ X + shifts)."""

    slopes: tuple[float, ...]
    shifts: tuple[float, ...]


@dataclass(frozen=True)
class StructuredMatrix(Structured):
    """softmax(A X + shifts)."""

    matrix: tuple[tuple[float, ...], ...]
    shifts: tuple[float, ...]


def _fit(rows: Rows, name: str, matrix: bool) -> tuple[Start, Floats, Floats, dict[str, Any]]:
    table = TrainingRows.of(rows, name)
    k = table.classes
    log_sharpness, _ = fit_inverse_temperature(table, 0.0, 0.0, WIDE, 1e-9)
    start = Start(0.0, log_sharpness, 1.0 / (table.n + 1.0))
    form = Form(k, matrix)
    # Penalties of the mean log loss: K/n on shifts and diagonal, K(K − 1)/n on the rest. Half of τ is n times these.
    tau = np.full(form.size, 2.0 * k)
    if matrix:
        tau[form.blocks["off"]] *= k - 1
    return start, *fit_affine(start.applied(table), form, tau)


@method("structured-vector", "temperature, then a slope and a shift for each class", REFERENCE, StructuredVector,
        counts_rows=True)  # fmt: skip
def fit_structured_vector(rows: Rows, options: FitOptions) -> Fitted:
    """Mean log loss + K/n (Σ d² + Σ b²), slopes 1 + d, after temperature scaling with a uniform part of 1/(n + 1)."""
    start, slopes, shifts, report = _fit(rows, "structured-vector", matrix=False)
    first = float(np.exp(-start.log_sharpness)), start.uniform
    return Fitted(StructuredVector(*first, tuple(slopes.tolist()), tuple(shifts.tolist())), report)


@method("structured-matrix", "temperature, then a penalised matrix and shifts", REFERENCE, StructuredMatrix,
        counts_rows=True)  # fmt: skip
def fit_structured_matrix(rows: Rows, options: FitOptions) -> Fitted:
    """Mean log loss + K/n (Σ W_kk² + Σ b²) + K(K−1)/n Σ_{i≠j} W_ij², A = I + W, after temperature scaling."""
    start, matrix, shifts, report = _fit(rows, "structured-matrix", matrix=True)
    first = float(np.exp(-start.log_sharpness)), start.uniform
    return Fitted(StructuredMatrix(*first, nested(matrix), tuple(shifts.tolist())), report)
