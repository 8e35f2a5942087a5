"""Weights of the components by their likelihood on rows that they were not fitted to.

The weights are the maximum of Σ log Σ_m w_m p_m(label) plus a Dirichlet prior. The prior's counts favour leaving the
probabilities alone when rows are scarce: from 50 rows up, recalibrating should hardly ever do harm.
"""

from __future__ import annotations

import numpy as np

from bpmcli.core.calibrators.linear.components import LinearComponent
from bpmcli.core.calibrators.linear.event_curve import CURVES, fit_curves
from bpmcli.core.calibrators.linear.floor import Start
from bpmcli.core.calibrators.linear.forms import Chunks
from bpmcli.core.calibrators.linear.table import TrainingRows
from bpmcli.core.data.sample import Floats, Ints

FOLDS = 5
FLEXIBLE_COUNT = 1.0
UNCHANGED_COUNT, UNCHANGED_SCARCE = 0.02, 7500.0
TEMPERATURE_COUNT, TEMPERATURE_SCARCE = 0.1, 2500.0
"""The prior count of a component is its first number plus its second divided by the square of the number of rows."""

LEAST_WEIGHT = 0.005
"""Components with less weight than this are left out."""


def prior_counts(n: float, flexible: int) -> Floats:
    """Dirichlet counts of `unchanged`, `temperature` and the given number of more flexible components."""
    counts = [UNCHANGED_COUNT + UNCHANGED_SCARCE / n**2, TEMPERATURE_COUNT + TEMPERATURE_SCARCE / n**2]
    return np.array(counts + [FLEXIBLE_COUNT] * flexible)


def folds_of(labels: Ints) -> Ints:
    """The fold of every row. The rows of each class are distributed evenly over the folds, in the given order."""
    fold = np.empty(labels.size, dtype=np.int64)
    fold[np.argsort(labels, kind="stable")] = np.arange(labels.size) % FOLDS
    return fold


def held_out_likelihoods(table: TrainingRows, components: list[LinearComponent]) -> Floats:
    """Components × rows: the probability of the label, by a fit without the row's fold."""
    found = np.empty((len(components), table.rows))
    fold = folds_of(table.labels)
    for i in range(FOLDS):
        inside, outside = np.flatnonzero(fold != i), np.flatnonzero(fold == i)
        training = Chunks(table.take(inside), with_shapes=True, kept=True)
        held_out = Chunks(table.take(outside), with_shapes=True, kept=True)
        for row, component in enumerate(components):
            refitted = component.refitted(training, inside.size / table.rows)
            found[row, outside] = refitted.label_likelihoods(held_out)
    return found


def held_out_curves(table: TrainingRows, start: Start) -> Floats:
    """The same for the curves of two classes, from log-probabilities before floor and temperature."""
    found = np.empty((len(CURVES), table.rows))
    fold = folds_of(table.labels)
    for i in range(FOLDS):
        inside, outside = np.flatnonzero(fold != i), np.flatnonzero(fold == i)
        held_out = table.take(outside)
        for row, curve in enumerate(fit_curves(table.take(inside), start)):
            found[row, outside] = curve.label_likelihoods(held_out)
    return found


def stack_weights(likelihoods: Floats, weights: Floats | None, counts: Floats) -> Floats:
    """The weights with the highest posterior, by expectation-maximisation; those below LEAST_WEIGHT become 0."""
    w: Floats = counts / counts.sum()
    mass = np.ones(likelihoods.shape[1]) if weights is None else weights
    for _ in range(500):
        shares = w[:, None] * likelihoods
        shares *= mass / shares.sum(axis=0)
        new = shares.sum(axis=1) + counts
        new /= new.sum()
        moved = float(np.abs(new - w).max())
        w = new
        if moved < 1e-6:
            break
    w[w < LEAST_WEIGHT] = 0.0
    w /= w.sum()
    return w
