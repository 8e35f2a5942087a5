"""An order of the rows that depends only on their values, not on their positions in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpmcli.core.data.sample import Floats, Ints

if TYPE_CHECKING:
    from bpmcli.core.data.rows import Rows

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio, odd: multiplying by it spreads every bit over the higher ones."""


def canonical_order(rows: Rows) -> Ints:
    """Positions that sort the rows by confidence, then by all their other values.

    Rows that tie in every value are equal, so it does not matter which comes first. Random splits drawn in this
    order, and sums taken in it, are the same to the last bit, whatever the order of the rows in the file.
    """
    parts = [rows.weights, rows.labels, rows.predictions, rows.hits, rows.log_odds]
    keys = [part for part in parts if part is not None]
    if rows.logits is not None:
        keys.insert(0, row_hashes(rows.logits))
    return np.lexsort(keys)


def row_hashes(values: Floats) -> np.ndarray:
    """A 64-bit hash of each row's values, column by column."""
    found = np.zeros(values.shape[0], dtype=np.uint64)
    for column in values.T:
        # Adding 0.0 turns -0.0 into 0.0, which is equal and must hash alike.
        found = (found ^ (column + 0.0).view(np.uint64)) * MULTIPLIER
        found ^= found >> np.uint64(29)
    return found
