"""An average of maps of whole distributions, from the identity to a full matrix with bent log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bpmcli.core.calibrators.base import DistributionCalibrator
from bpmcli.core.calibrators.linear.components import LinearComponent, fit_components
from bpmcli.core.calibrators.linear.event_curve import CURVES, EventCurve, fit_curves, mixed
from bpmcli.core.calibrators.linear.floor import Start, fit_start
from bpmcli.core.calibrators.linear.forms import FUNCTIONS, SMALLEST_REST, Chunks
from bpmcli.core.calibrators.linear.stack import (
    FOLDS,
    held_out_curves,
    held_out_likelihoods,
    prior_counts,
    stack_weights,
)
from bpmcli.core.calibrators.linear.table import TrainingRows, mapped
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats
from bpmcli.errors import DataError

TRACE = 1e-6
"""Uniform part of the unchanged distribution, so that no log loss is infinite."""

STACK_VALUES = 1 << 21
"""With more scores than this, everything except the final linear maps is fitted to evenly spaced rows."""


@dataclass(frozen=True)
class AveragedMatrix(DistributionCalibrator):
    """A weighted mean of three distributions: unchanged, after floor and temperature, and after a linear map of that.

    For two classes it also contains a curve, the mean of the curves in `linear.event_curve`. The weights are
    `unchanged`, `scaled`, `linear` and `curve`.

    The table has one row for each class: its row of W (or its entry of a diagonal), its shift, and the coefficients of
    the functions ψ of `linear.forms`. All of them are zero at the identity map.
    """

    floor: float
    temperature: float
    uniform: float
    unchanged: float
    scaled: float
    linear: float
    table: tuple[tuple[float, ...], ...]
    curve: float = 0.0
    curve_log_odds: tuple[float, ...] = ()
    curve_eta: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        weights = (self.unchanged, self.scaled, self.linear, self.curve)
        if min(weights) < 0 or abs(sum(weights) - 1.0) > 1e-6:
            raise DataError("the weights of averaged-matrix do not add up to 1", "fit again")
        if not (self.temperature > 0 and 0 <= self.floor < 1 and 0 <= self.uniform < 1):
            raise DataError("floor, temperature or uniform of averaged-matrix is out of range", "fit again")
        widths = {len(row) for row in self.table}
        if len(self.table) < 2 or widths not in ({2 + FUNCTIONS}, {len(self.table) + 1 + FUNCTIONS}):
            raise DataError("the table of averaged-matrix has the wrong shape", "fit again")
        points = len(self.curve_log_odds)
        if points != len(self.curve_eta) or np.any(np.diff(self.curve_log_odds) <= 0):
            raise DataError("curve_log_odds and curve_eta of averaged-matrix do not fit together", "fit again")
        if self.curve and not (points and len(self.table) == 2):
            raise DataError("averaged-matrix has a curve only for two classes, and then with points", "fit again")

    @property
    def n_classes(self) -> int:
        return len(self.table)

    @cached_property
    def _map(self) -> tuple[Floats, Floats, Floats]:
        """I + W (or its diagonal, as a column), the shifts as a column, and the coefficients of ψ, each as a column."""
        table = np.array(self.table)
        slopes = table.shape[1] - 1 - FUNCTIONS
        w = table[:, :slopes] + (np.eye(slopes) if slopes > 1 else 1.0)
        return w, table[:, slopes : slopes + 1], table[:, slopes + 1 :].T[:, :, None]

    def log_probabilities(self, logits: Floats) -> Floats:
        return mapped(logits, self.probabilities, not (self.floor or self.unchanged or self.curve))

    def probabilities(self, x: Floats) -> Floats:
        """The averaged probabilities, from log-probabilities x (both arrays are classes × rows)."""
        scaled, z = Start(self.floor, -math.log(self.temperature), self.uniform).scores(x)
        total = self._linear(z, scaled) if self.linear else np.zeros_like(x)
        if self.scaled:
            scaled *= self.scaled
            total += scaled
        if self.curve:
            total += self.curve * EventCurve(self.curve_log_odds, self.curve_eta).probabilities(x)
        if self.unchanged:
            unchanged = np.exp(x)
            unchanged += TRACE / x.shape[0]
            unchanged *= self.unchanged / (1.0 + TRACE)
            total += unchanged
        return total

    def _linear(self, z: Floats, p: Floats) -> Floats:
        """The linear map's share of the average, from z = log p (both arrays are classes × rows).

        The same as `Form.map` and `softmax`, with fewer passes over the chunk.
        """
        w, shifts, (product, complement, square) = self._map
        eta: Floats = w @ z if w.shape[1] > 1 else w * z
        eta += shifts
        # ψ = p log p and (log p)²/10 have the factor z in common.
        bent = p * product
        bent += z * (square / 10.0)
        bent *= z
        eta += bent
        np.subtract(1.0, p, out=bent)
        np.log(np.maximum(bent, SMALLEST_REST, out=bent), out=bent)
        bent *= complement
        eta -= bent
        eta -= eta.max(axis=0)
        np.exp(eta, out=eta)
        eta *= self.linear / eta.sum(axis=0)
        return eta


@method(
    "averaged-matrix",
    "average of maps of all classes, from the identity to a full matrix",
    "bpmcli; Berta et al. 2025 (arXiv 2511.03685); MacKay 1992",
    AveragedMatrix,
    counts_rows=True,
)
def fit(rows: Rows, options: FitOptions) -> Fitted:
    """Fits floor and temperature, then the components, then their weights, by five-fold cross-validated likelihood.

    The priors of the components are centred on the identity. See `linear.floor`, `linear.components`,
    `linear.event_curve` and `linear.stack` for the steps. The folds depend only on the content of the rows, so the same
    rows in another order give the same fit.
    """
    table = TrainingRows.of(rows, "averaged-matrix")
    step = max(1, -(-table.x.size // STACK_VALUES))
    few = table if step == 1 else table.take(np.arange(0, table.rows, step))
    start = fit_start(few, table.n)
    scored = start.applied(few)
    chunks = Chunks(scored, with_shapes=True, kept=True)
    linear = fit_components(scored, chunks)
    two = few.classes == 2
    if two:
        linear = linear[-1:]  # the curves replace the stiffer maps
    curves = fit_curves(few, start) if two else ()
    weights = _weights(few, start, scored, linear, table.n)
    if step > 1:
        everything, more = Chunks(start.applied(table), with_shapes=True), table.n / few.n
        linear = [c.refitted(everything, more) if w else c for c, w in zip(linear, weights[2:], strict=False)]
    calibrator = _calibrator(start, linear, weights, curves)
    names = ["unchanged", "temperature", *(component.name for component in linear), *(CURVES if two else ())]
    return Fitted(calibrator, _report(table, calibrator, dict(zip(names, weights.tolist(), strict=True))))


def _weights(
    table: TrainingRows, start: Start, scored: TrainingRows, linear: list[LinearComponent], n: float
) -> Floats:
    """Weights of `unchanged`, `temperature`, the linear components and, for two classes, the curves."""
    two = table.classes == 2
    counts = prior_counts(n, len(linear) + (len(CURVES) if two else 0))
    if table.rows < 2 * FOLDS:
        return stack_weights(np.empty((counts.size, 0)), None, counts)
    at = table.labels, np.arange(table.rows)
    found = [np.exp(table.x[at]) + TRACE / table.classes, np.exp(scored.x[at]), *held_out_likelihoods(scored, linear)]
    if two:
        found += [*held_out_curves(table, start)]
    return stack_weights(np.stack(found), table.weights, counts)


def _calibrator(
    start: Start, linear: list[LinearComponent], weights: Floats, curves: Sequence[EventCurve]
) -> AveragedMatrix:
    """The linear components are joined to one map with their averaged parameters, so that `apply` needs one product."""
    own, others = weights[2 : 2 + len(linear)], weights[2 + len(linear) :]
    share, curved = float(own.sum()), float(others.sum())
    table = np.zeros((linear[-1].form.classes, linear[-1].form.columns))
    for component, weight in zip(linear, own / (share or 1.0), strict=True):
        table[:, : component.form.columns] += weight * component.form.effective(component.theta)
    return AveragedMatrix(
        start.floor, math.exp(-start.log_sharpness), start.uniform, float(weights[0]), float(weights[1]), share,
        tuple(map(tuple, table.tolist())), curved, *(mixed(curves, others) if curved else EventCurve()),
    )  # fmt: skip


def _report(table: TrainingRows, calibrator: AveragedMatrix, components: dict[str, float]) -> dict[str, Any]:
    """Weights, floor and temperature, and the log loss before and after on the rows of the fit."""
    before = after = total = 0.0
    for x, labels, weights in table.chunks():
        at, w = (labels, np.arange(labels.size)), np.ones(labels.size) if weights is None else weights
        before -= float(w @ x[at])
        after -= float(w @ np.log(calibrator.probabilities(x)[at]))
        total += float(w.sum())
    return {
        "n": table.rows,
        "components": components,
        "floor": calibrator.floor,
        "temperature": calibrator.temperature,
        "log_loss_before": before / total,
        "log_loss_after": after / total,
    }
