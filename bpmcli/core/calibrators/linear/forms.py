"""Maps of log-probabilities that are linear in their parameters, evaluated on chunks of rows.

    z_k = x_k + Σ_j W_kj x_j + b_k + Σ_m (C_km + c_m) ψ_m(x_k)

x are log-probabilities. W is a full matrix or a diagonal; the functions ψ are optional. All parameters are zero at the
identity map. Classes run along the first axis of every array, so that sums over classes are sums of whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators.linear.table import TrainingRows
from bpmcli.core.data.sample import Floats, Ints

SMALLEST_REST = 1e-12
"""−log(1 − p) is at most 27.6."""


def no_shapes(x: Floats) -> Floats:
    """For maps without functions ψ."""
    return np.empty((0, *x.shape))


FUNCTIONS = 3


def shapes_of(x: Floats, p: Floats | None = None) -> Floats:
    """ψ = p log p, −log(1 − p), (log p)²/10 of x = log p (and of p if known): functions × classes × rows."""
    p = np.exp(x) if p is None else p
    out = np.empty((FUNCTIONS, *x.shape))
    np.multiply(p, x, out=out[0])
    rest = np.subtract(1.0, p, out=out[1])
    np.negative(np.log(np.maximum(rest, SMALLEST_REST, out=rest), out=rest), out=rest)
    np.multiply(x, x / 10.0, out=out[2])
    return out


class Chunk(NamedTuple):
    """Some rows: log-probabilities (classes × rows), ψ of them (functions × classes × rows), labels, weights."""

    x: Floats
    shapes: Floats
    labels: Ints
    weights: Floats | None

    def take(self, index: Ints) -> Chunk:
        weights = None if self.weights is None else self.weights[index]
        return Chunk(self.x[:, index], self.shapes[:, :, index], self.labels[index], weights)


@dataclass(frozen=True)
class Form:
    """Which parameters there are, and how they lie in one vector: rows (W_k, b_k, C_k) by class, then c."""

    classes: int
    matrix: bool
    functions: int = 0

    @property
    def slopes(self) -> int:
        """Columns of W: all classes, or the diagonal alone."""
        return self.classes if self.matrix else 1

    @property
    def columns(self) -> int:
        return self.slopes + 1 + self.functions

    @property
    def size(self) -> int:
        return self.classes * self.columns + self.functions

    @cached_property
    def blocks(self) -> dict[str, Ints]:
        """Positions of bias, diagonal, off (the diagonal), and of C and c of each function."""
        grid = np.arange(self.classes * self.columns).reshape(self.classes, self.columns)
        diagonal = np.diag(grid) if self.matrix else grid[:, 0]
        found = {"bias": grid[:, self.slopes], "diagonal": diagonal}
        if self.matrix:
            found["off"] = np.setdiff1d(grid[:, : self.slopes], diagonal)
        for m in range(self.functions):
            found[f"own{m}"] = grid[:, self.slopes + 1 + m]
            found[f"shared{m}"] = np.array([grid.size + m])
        return found

    def effective(self, theta: Floats) -> Floats:
        """Classes × columns, with c added to C."""
        table = theta[: self.classes * self.columns].reshape(self.classes, self.columns)
        if self.functions:
            table = table.copy()
            table[:, self.slopes + 1 :] += theta[self.classes * self.columns :]
        return table

    def gradient(self, table: Floats) -> Floats:
        """The gradient with respect to θ, from the gradient with respect to the effective parameters."""
        return np.concatenate([table.ravel(), table[:, self.slopes + 1 :].sum(axis=0)])

    def map(self, table: Floats, chunk: Chunk) -> Floats:
        """z of the chunk's rows (classes × rows)."""
        if self.matrix:
            z: Floats = table[:, : self.slopes] @ chunk.x
            z += chunk.x
        else:
            z = chunk.x * (1.0 + table[:, :1])
        z += table[:, self.slopes, None]
        for m in range(self.functions):
            z += chunk.shapes[m] * table[:, self.slopes + 1 + m, None]
        return z

    def sums(self, g: Floats, chunk: Chunk) -> Floats:
        """Σ over rows of g times each feature: classes × columns."""
        out = np.empty((self.classes, self.columns))
        if self.matrix:
            np.matmul(g, chunk.x.T, out=out[:, : self.slopes])
        else:
            out[:, 0] = np.einsum("kn,kn->k", g, chunk.x)
        out[:, self.slopes] = g.sum(axis=1)
        for m in range(self.functions):
            out[:, self.slopes + 1 + m] = np.einsum("kn,kn->k", g, chunk.shapes[m])
        return out


def softmax(z: Floats) -> tuple[Floats, Floats]:
    """Softmax over the first axis, in place, and the logarithm of its denominator (relative to the given z)."""
    top = z.max(axis=0)
    z -= top
    np.exp(z, out=z)
    total = z.sum(axis=0)
    z /= total
    return z, np.log(total) + top


@dataclass(frozen=True)
class Chunks:
    """The chunks of a table, any number of times; ψ is computed again each time unless it is `kept`."""

    table: TrainingRows
    with_shapes: bool = False
    kept: bool = False

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self._all) if self.kept else self._made()

    @cached_property
    def _all(self) -> list[Chunk]:
        return [Chunk(np.ascontiguousarray(c.x), *c[1:]) for c in self._made()]

    def _made(self) -> Iterator[Chunk]:
        for x, labels, weights in self.table.chunks():
            yield Chunk(x, (shapes_of if self.with_shapes else no_shapes)(x), labels, weights)
