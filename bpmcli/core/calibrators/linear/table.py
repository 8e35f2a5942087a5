"""Rows in the form that linear calibrators need: log-probabilities (classes first), labels and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bpmcli.core.data.rows import Rows, canonical_order
from bpmcli.core.data.sample import Floats, Ints
from bpmcli.errors import DataError

LOWEST = float(np.log(np.finfo(np.float32).tiny))
"""Log-probabilities are at least the logarithm of the smallest normal float32 number (−87.3), as in probmetrics."""

CHUNK_VALUES = 1 << 16
"""Scores per chunk: the few buffers of 0.5 MB that a pass needs stay in the cache."""


def log_probabilities(logits: Floats) -> Floats:
    """log softmax of N×K scores as a K×N array; values below LOWEST are raised to it."""
    x: Floats = np.ascontiguousarray(logits.T)
    with np.errstate(over="ignore"):
        x = x - x.max(axis=0)
    x -= np.log(np.exp(x).sum(axis=0))
    np.maximum(x, LOWEST, out=x)
    return x


def centred(logits: Floats) -> Floats:
    """Log-probabilities (K×N) up to a constant in each row, for maps that divide by the sum of the classes anyway.

    This saves a pass with exponentials. If a log-probability might be below LOWEST, it calls `log_probabilities`.
    """
    x: Floats = np.ascontiguousarray(logits.T)
    with np.errstate(over="ignore"):
        x = x - x.max(axis=0)
    return x if x.min() >= LOWEST + np.log(x.shape[0]) else log_probabilities(logits)


def chunk_slices(n: int, classes: int) -> Iterator[slice]:
    """Slices of consecutive rows whose scores fit into the cache."""
    step = max(1, CHUNK_VALUES // classes)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def mapped(logits: Floats, probabilities: Callable[[Floats], Floats], any_constant: bool = False) -> Floats:
    """The logarithm of `probabilities(x)` for N×K scores, chunk by chunk.

    `probabilities` maps log-probabilities x to probabilities, both with classes first. `any_constant`: a constant that
    is added to all classes of a row does not change the result.
    """
    out, scores = np.empty(logits.shape), centred if any_constant else log_probabilities
    with np.errstate(divide="ignore"):
        for rows in chunk_slices(*logits.shape):
            np.log(probabilities(scores(logits[rows])).T, out=out[rows])
    return out


@dataclass(frozen=True)
class TrainingRows:
    """Rows with positive weight, in an order that depends on their content alone."""

    x: Floats
    """Log-probabilities, classes × rows."""
    labels: Ints
    weights: Floats | None
    """Weights that add up to `n`; None if all are equal."""
    n: float
    """The number of rows, or the effective number (Kish) if weights are unequal."""

    @classmethod
    def of(cls, rows: Rows, name: str) -> TrainingRows:
        """From rows with the scores of all classes. Raises DataError for bad weights and labels."""
        if rows.logits is None or rows.labels is None:
            raise DataError(f"{name} needs the scores of all classes, and labels", "give logits or probabilities")
        n = float(rows.n)
        if rows.weights is not None:
            n = rows.sample.effective_n  # refuses bad weights
            if rows.weights.min() == 0.0:
                return cls.of(rows.take(rows.weights > 0), name)
        classes = rows.logits.shape[1]
        if rows.labels.min() < 0 or rows.labels.max() >= classes:
            raise DataError(f"labels must be class numbers 0 … {classes - 1}", "check the label column")
        rows = rows.take(canonical_order(rows))
        weights = rows.weights
        if weights is not None:
            weights = None if np.all(weights == weights[0]) else weights * (n / float(weights.sum()))
        x = np.empty((classes, rows.n))
        assert rows.logits is not None
        assert rows.labels is not None
        for at in chunk_slices(rows.n, classes):
            x[:, at] = log_probabilities(rows.logits[at])
        return cls(x, rows.labels, weights, n)

    @property
    def classes(self) -> int:
        return int(self.x.shape[0])

    @property
    def rows(self) -> int:
        return int(self.labels.size)

    def take(self, index: Ints) -> TrainingRows:
        """Some of the rows; `n` is scaled by their share of the total weight."""
        weights = None if self.weights is None else self.weights[index]
        share = index.size / self.rows if weights is None else float(weights.sum()) / self.n
        return TrainingRows(np.ascontiguousarray(self.x[:, index]), self.labels[index], weights, self.n * share)

    def with_scores(self, x: Floats) -> TrainingRows:
        """The same rows with other log-probabilities."""
        return replace(self, x=x)

    def chunks(self) -> Iterator[tuple[Floats, Ints, Floats | None]]:
        """(log-probabilities, labels, weights) of a few rows at a time."""
        for at in chunk_slices(self.rows, self.classes):
            yield self.x[:, at], self.labels[at], None if self.weights is None else self.weights[at]
