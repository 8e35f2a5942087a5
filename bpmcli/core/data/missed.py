"""The scores of wrongly predicted rows: all that is needed to learn how the other classes share their probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bpmcli.core.data.rows import row_hashes
from bpmcli.core.data.sample import Floats, Ints

MOST_VALUES = 4_000_000
"""At most this many scores are kept (32 MB): enough wrong rows to determine one temperature."""


class Missed(NamedTuple):
    """Wrong rows with the scores of all classes."""

    logits: Floats
    predictions: Ints
    labels: Ints
    weights: Floats | None

    def few(self) -> Missed:
        """At most MOST_VALUES scores. Which rows are kept depends on their values, not on their order."""
        most = max(1, MOST_VALUES // self.logits.shape[1])
        if self.labels.size <= most:
            return self
        return self.take(np.argpartition(row_hashes(self.logits), most)[:most])

    def take(self, index: np.ndarray) -> Missed:
        """The chosen rows."""
        weights = None if self.weights is None else self.weights[index]
        return Missed(self.logits[index], self.predictions[index], self.labels[index], weights)


def joined_missed(parts: Sequence[Missed | None]) -> Missed | None:
    """The wrong rows of several parts as one; None if a part lacks them or has another number of classes."""
    there = [part for part in parts if part is not None]
    if len(there) < len(parts) or len({part.logits.shape[1] for part in there}) != 1:
        return None
    weights = [part.weights for part in there]
    return Missed(
        np.concatenate([part.logits for part in there]),
        np.concatenate([part.predictions for part in there]),
        np.concatenate([part.labels for part in there]),
        None if any(w is None for w in weights) else np.concatenate([w for w in weights if w is not None]),
    ).few()
