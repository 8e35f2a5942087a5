"""Which rows are correct, by columns that `apply` carries to its output, so that no input is read twice.

Labels that are missing or odd are not an error here: the rows are then not judged.
"""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.rows import Rows, pool
from bpmcli.core.data.sample import Floats
from bpmcli.errors import BpmError, DataError
from bpmcli.io.columns import Array
from bpmcli.io.formats.reader import ColumnBatch, Reader
from bpmcli.io.label_files import LabelledReader
from bpmcli.io.layout import InputOptions, Layout, understand
from bpmcli.io.opening import with_label_file
from bpmcli.io.outcomes import hits_of, weights_of


class CarriedOutcomes:
    """Collects log-odds, outcomes and calibrated confidences of the rows of one input, as long as they are few."""

    def __init__(self, source: Reader, options: InputOptions, most: int) -> None:
        """`most`: with more scores than this nothing is kept; 0 if nobody will ask."""
        self.reader = source
        """The reader of the rows: the source, or the source with labels from another file."""
        self.room = most
        self.layout: Layout | None = None
        self.parts: list[Rows] = []
        self.confidences: list[Floats] = []
        if most:
            try:
                reader, options = with_label_file(source, options)
                self.layout = understand(reader, options)
                self.reader = reader
            except BpmError:
                pass

    def add(self, batch: ColumnBatch, rows: Rows, confidences: Floats) -> None:
        """Add a batch, its rows as they were read, and their calibrated confidences."""
        self.room -= rows.log_odds.size
        if self.layout is None or self.room < 0:
            self._forget()
            return
        try:
            hits, weights = _outcomes(self._with_columns(batch, self.layout), self.layout, rows)
        except BpmError:
            self._forget()
            return
        self.parts.append(Rows(rows.log_odds, hits, weights, target=rows.target))
        self.confidences.append(confidences)

    def all(self) -> tuple[Rows, Floats] | None:
        """The rows with their outcomes and calibrated confidences; None if outcomes are missing or rows too many."""
        if not self.parts or (isinstance(self.reader, LabelledReader) and not self.reader.complete):
            return None
        rows = pool(self.parts)
        if rows.weights is not None and not rows.weights.any():
            return None
        return rows, np.concatenate(self.confidences)

    def _forget(self) -> None:
        self.layout = None
        self.parts.clear()
        self.confidences.clear()

    def _with_columns(self, batch: ColumnBatch, layout: Layout) -> ColumnBatch:
        """The batch with the columns that tell which rows are correct, as a command that needs them would read them."""
        names = (layout.label, layout.hit, layout.prediction, layout.weight, *layout.labels)
        found = {}
        for name in filter(None, names):
            if name in batch.columns:
                continue
            if name not in batch.passed:
                raise DataError(f"'{name}' does not have a value for every row")
            with self.reader.reporting():
                values, nulls = self.reader.as_read(name, batch.passed[name])
            if nulls is not None or _has_empty_text(values):
                raise DataError(f"a value is missing in '{name}'")
            found[name] = values
        return batch._replace(columns={**batch.columns, **found})


def _has_empty_text(values: object) -> bool:
    """Whether a value is empty text, which csv cannot tell from a missing one."""
    return isinstance(values, Categorical) and any(values.categories[code] == "" for code in values.used().tolist())


def _outcomes(batch: ColumnBatch, layout: Layout, rows: Rows) -> tuple[Array, Floats | None]:
    """Whether each row is correct, and its weight; in a multi-label file every pair of row and label is a row."""
    weights = weights_of(batch, layout.weight) if layout.weight else None
    if not layout.multi_label:
        return hits_of(batch, layout, rows.predictions), weights
    from bpmcli.io.multi_label import labels_of

    k = rows.log_odds.size // batch.n
    return labels_of(batch, layout, (batch.n, k)).ravel(), None if weights is None else np.repeat(weights, k)
