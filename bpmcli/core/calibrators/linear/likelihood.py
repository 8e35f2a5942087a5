"""Penalised multinomial likelihood: −Σ w log softmax(z)_label + ½ Σ τ θ², with z of the given form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators.linear.forms import Chunk, Form, softmax
from bpmcli.core.data.sample import Floats

HESSIAN_VALUES = 1 << 19
"""Products of probability and feature per chunk while the Hessian is summed."""

BLOCK_PRODUCTS = 1 << 27
"""If they take more products than this, the Hessian's blocks are estimated from evenly spaced rows. They need not be
exact: they set the scale of the solver's steps, and enter the precisions of `averaged-matrix`."""


@dataclass(frozen=True)
class Likelihood:
    """Rows and the form of the map; the penalty τ comes with every call."""

    chunks: Iterable[Chunk]
    form: Form

    def loss(self, theta: Floats, tau: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        form = self.form
        table = form.effective(theta)
        value, gradient = 0.0, np.zeros((form.classes, form.columns))
        for chunk in self.chunks:
            rows = np.arange(chunk.labels.size)
            z = form.map(table, chunk)
            label = z[chunk.labels, rows]
            p, log_total = softmax(z)
            lost = log_total - label
            p[chunk.labels, rows] -= 1.0
            if chunk.weights is not None:
                lost = lost * chunk.weights
                p *= chunk.weights
            value += float(lost.sum())
            gradient += form.sums(p, chunk)
        return value + 0.5 * float(tau @ (theta * theta)), form.gradient(gradient) + tau * theta

    def blocks(self, theta: Floats, products: int = BLOCK_PRODUCTS) -> tuple[Floats, Floats]:
        """The Hessian's diagonal blocks, without the penalty: one for each class, and one for c.

        If that would take more than `products` products, they are estimated from evenly spaced rows.
        """
        form = self.form
        table = form.effective(theta)
        own = np.zeros((form.classes, form.columns, form.columns))
        shared = np.zeros((form.functions, form.functions))
        rows = sum(chunk.labels.size for chunk in self.chunks)
        step = max(1, -(-rows * form.classes * form.columns**2 // products))
        seen = 0
        for chunk in self._narrow(form.classes * form.columns, step):
            seen += chunk.labels.size
            p, _ = softmax(form.map(table, chunk))
            weighted = p if chunk.weights is None else p * chunk.weights
            features = self._features(chunk)
            own += np.matmul(features * (weighted * (1.0 - p))[:, None, :], features.transpose(0, 2, 1))
            if form.functions:
                bent = features[:, form.slopes + 1 :]
                scaled = bent * weighted[:, None, :]
                shared += np.matmul(scaled, bent.transpose(0, 2, 1)).sum(axis=0)
                shared -= scaled.sum(axis=0) @ (bent * p[:, None, :]).sum(axis=0).T
        return own * (rows / seen), shared * (rows / seen)

    def hessian(self, theta: Floats) -> Floats:
        """Σ w (diag(p) − p pᵀ) ⊗ f fᵀ over the rows, without the penalty; for maps without functions ψ."""
        form, k, columns = self.form, self.form.classes, self.form.columns
        table = form.effective(theta)
        full = np.zeros((k * columns, k * columns))
        for chunk in self._narrow(k * columns):
            p, _ = softmax(form.map(table, chunk))
            root = p if chunk.weights is None else p * np.sqrt(chunk.weights)
            features = self._features(chunk)
            products = (features * root[:, None, :]).reshape(k * columns, -1)
            full -= products @ products.T
            plain = p if chunk.weights is None else p * chunk.weights
            for c in range(k):
                at = slice(c * columns, (c + 1) * columns)
                full[at, at] += (features[c] * plain[c]) @ features[c].T
        return full

    def _narrow(self, width: int, every: int = 1) -> Iterator[Chunk]:
        """Evenly spaced rows, in chunks short enough for the products of probability and feature."""
        step = max(16, HESSIAN_VALUES // width) * every
        for chunk in self.chunks:
            for start in range(0, chunk.labels.size, step):
                yield chunk.take(np.arange(start, min(start + step, chunk.labels.size), every))

    def _features(self, chunk: Chunk) -> Floats:
        """Classes × columns × rows: what every effective parameter is multiplied by."""
        form = self.form
        out = np.empty((form.classes, form.columns, chunk.labels.size))
        out[:, : form.slopes] = chunk.x if form.matrix else chunk.x[:, None]
        out[:, form.slopes] = 1.0
        out[:, form.slopes + 1 :] = chunk.shapes[: form.functions].transpose(1, 0, 2)
        return out
