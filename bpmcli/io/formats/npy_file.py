"""npy files: a structured array, or scores with their labels in a file beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, ClassVar

from bpmcli.errors import DataError
from bpmcli.io.formats import reads
from bpmcli.io.formats.npy_array import NpyArray, array_info, as_column
from bpmcli.io.formats.reader import ColumnBatch, Reader, rows_per_batch

COMPANIONS = ("labels", "label", "hits", "hit", "pred", "weights")
"""Files beside scores: x_logits.npy finds x_labels.npy."""


@reads("npy", ".npy")
class NpyReader(Reader):
    """A structured array, or scores with their labels in a file beside it (`x_logits.npy`, `x_labels.npy`)."""

    ROLES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("logits", "logits"), ("prob", "probs"), ("conf", "confidence"),
    )  # fmt: skip

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start.startswith(b"\x93NUMPY")

    def inspect(self) -> None:
        self.files: dict[str, str] = {}
        stem = Path(self.path).stem
        with ExitStack() as stack:
            array = _opened_array(self.path, stem, stack)
        if array.dtype.names:
            self.n_rows = array.shape[0] if array.shape else None
            for name in array.dtype.names:
                sub = array.dtype[name]
                self.columns[name] = array_info(name, (self.n_rows or 0, *sub.shape), sub.base)
            return
        if not array.shape:
            raise DataError("holds a single number")
        self.n_rows = array.shape[0]
        role = next((role for word, role in self.ROLES if word in stem.lower()), "array")
        self.files[role] = self.path
        for word in COMPANIONS:
            beside = re.sub("logits|probs|confidences|confidence|conf", word, stem, flags=re.IGNORECASE)
            path = Path(self.path).with_name(beside + ".npy")
            if beside != stem and path.exists():
                self.files[word] = str(path)
        for name, path_ in self.files.items():
            with ExitStack() as stack:
                self.columns[name] = _opened_array(path_, name, stack).info()

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[ColumnBatch]:
        with ExitStack() as stack:
            if self.files:
                yield from self._side_by_side(names, rest, stack)
                return
            array = _opened_array(self.path, "array", stack)
            n, step = array.shape[0], rows_per_batch(len(self.columns), array.row_bytes)
            for start in range(0, n, step):
                rows = array.take(min(step, n - start))
                passed = {k: rows[k] for k in self.columns if rest and k not in names}
                yield ColumnBatch(start, len(rows), {k: as_column(rows[k]) for k in names}, passed)

    def _side_by_side(self, names: Sequence[str], rest: bool, stack: ExitStack) -> Iterator[ColumnBatch]:
        """The rows of several files."""
        n = self.columns[names[0]].rows
        assert n is not None
        passed = [k for k, c in self.columns.items() if rest and c.rows == n and k not in names]
        arrays = {k: _opened_array(self.files[k], k, stack) for k in [*names, *passed]}
        step = rows_per_batch(sum(a.row_values for a in arrays.values()), sum(a.row_bytes for a in arrays.values()))
        for start in range(0, n, step):
            count = min(step, n - start)
            data = {k: array.take(count) for k, array in arrays.items()}
            yield ColumnBatch(start, count, {k: as_column(data[k]) for k in names}, {k: data[k] for k in passed})


def _opened_array(path: str, name: str, stack: ExitStack) -> NpyArray:
    from bpmcli.io.opening import open_bytes

    file: IO[bytes] = stack.enter_context(open_bytes(path))
    array = NpyArray(file, name)
    if "://" not in path:
        array.check_size(os.path.getsize(path) - array.start)
    return array
