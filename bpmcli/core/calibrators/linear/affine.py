"""softmax(A x + b) of log-probabilities x: what vector, matrix, structured and Dirichlet calibration have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bpmcli.core.calibrators.base import LEAST, DistributionCalibrator
from bpmcli.core.calibrators.linear.forms import Chunks, Form, softmax
from bpmcli.core.calibrators.linear.likelihood import Likelihood
from bpmcli.core.calibrators.linear.minimum import PenalisedMinimum, minimise_penalised
from bpmcli.core.calibrators.linear.table import TrainingRows, mapped
from bpmcli.core.data.sample import Floats

FINITE = 1e-8
"""Half of this times θ² is added to the mean log loss where a method has no penalty: a prior with a standard deviation
of 10,000/√n, without which separable classes would have no finite best parameters."""


@dataclass(frozen=True)
class Affine(DistributionCalibrator):
    """The map with a diagonal `slopes` or a full `matrix` (subclasses have one of them), and `shifts`."""

    any_constant: ClassVar[bool] = False
    """Whether `prepared` is the same if a constant is added to all classes of a row."""

    @cached_property
    def _map(self) -> tuple[Floats, Floats]:
        parameters = self.__dict__
        linear = np.array(parameters["matrix"] if "matrix" in parameters else parameters["slopes"])
        shifts = np.array(parameters["shifts"])
        if linear.shape not in ((shifts.size,), (shifts.size, shifts.size)) or shifts.size < 2:
            raise ValueError(f"{linear.shape} slopes for {shifts.size} shifts")
        return linear, shifts

    @property
    def n_classes(self) -> int:
        return int(self._map[1].size)

    def prepared(self, x: Floats) -> Floats:
        """What the map is applied to, from log-probabilities (both arrays are classes × rows)."""
        return x

    def log_probabilities(self, logits: Floats) -> Floats:
        linear, shifts = self._map

        def probabilities(x: Floats) -> Floats:
            z = self.prepared(x)
            z = linear[:, None] * z if linear.ndim == 1 else linear @ z
            z += shifts[:, None]
            return np.maximum(softmax(z)[0], LEAST)

        return mapped(logits, probabilities, self.any_constant)


def fit_affine(table: TrainingRows, form: Form, tau: Floats) -> tuple[Floats, Floats, dict[str, Any]]:
    """Slopes (diagonal or matrix) and shifts that minimise the log loss + ½ Σ τ θ², and a report of the fit."""
    likelihood = Likelihood(Chunks(table, kept=True), form)
    lost = -table.x[table.labels, np.arange(table.rows)]
    raw = float(lost.sum() if table.weights is None else lost @ table.weights)
    found: PenalisedMinimum = minimise_penalised(likelihood, tau, table.rows)
    after = found.value - 0.5 * float(tau @ found.theta**2)
    parameters = form.effective(found.theta)
    linear = parameters[:, : form.slopes] + np.eye(form.classes) if form.matrix else 1.0 + parameters[:, 0]
    report = {
        "n": table.rows,
        "log_loss_before": raw / table.n,
        "log_loss_after": after / table.n,
        "objective": found.value / table.n,
        "largest_gradient": found.gradient / table.n,
        "passes": found.passes,
    }
    return linear, parameters[:, form.slopes], report


def nested(matrix: Floats) -> tuple[tuple[float, ...], ...]:
    """A matrix as the nested tuples that a calibrator holds."""
    return tuple(map(tuple, matrix.tolist()))
