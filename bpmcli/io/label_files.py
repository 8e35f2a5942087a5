"""Labels in a file of their own: `--label y.npy`, row by row or joined by a key with `--id`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from bpmcli.core.data.categorical import Categorical, joined
from bpmcli.core.data.notices import Notice, notice
from bpmcli.errors import DataError
from bpmcli.io.column_choice import InputOptions, listed
from bpmcli.io.columns import Array, Lists
from bpmcli.io.formats import reader_for, suffix_of
from bpmcli.io.formats.free_name import without_header
from bpmcli.io.formats.reader import ColumnBatch, ColumnInfo, Reader
from bpmcli.io.known_names import NAMES, RARER
from bpmcli.io.opening import open_reader
from bpmcli.io.paths import similar_file

LABEL = "label"
"""The name of the joined column."""

TEXT_SUFFIXES = (".txt", ".txt.gz")
"""Files of bare labels, as numpy.savetxt writes them."""


def file_and_column(label: str) -> tuple[str, str | None]:
    """The file that `--label` names, and the column after `::`; the file is empty if there is none."""
    if os.path.isfile(label):
        return label, None
    path, mark, column = label.rpartition("::")
    return (path, column) if mark and column and os.path.isfile(path) else ("", None)


def refuse_missing_file(label: str, columns: Iterable[str]) -> None:
    """Refuse a name that is not a column but looks like a file: FILE::COLUMN, or a name with a known suffix."""
    path, mark, column = label.rpartition("::")
    path = path or label
    if "://" in label or not (mark or reader_for(suffix_of(label)) is not None):
        return
    near = similar_file(path)
    hint = f"name a file that exists, or a column of the input ({listed(columns)})"
    if near:
        hint = f"did you mean --label {near}{mark}{column if mark else ''}?"
    raise DataError(f"no file '{path}' for --label {label}, and no column of that name", hint)


def with_labels(reader: Reader, path: str, named: str | None, options: InputOptions) -> tuple[Reader, InputOptions]:
    """The reader with a column of labels from another file, and options that name this column."""
    try:
        labels = open_reader(path)
        column = _label_column(labels, path, named, options.id)
        values = _whole(labels, column)
        first = _first_label(values, labels, column, reader)
        if first is not None:
            values = np.concatenate([first, values])
        keys = _keys(labels, options.id) if options.id else None
    except DataError as error:
        raise error.at(path) from None
    if options.id and options.id not in reader.columns:
        raise DataError(f"no column '{options.id}' (found: {listed(reader.columns)})", "name another column with --id")
    name = LABEL if LABEL not in reader.columns else f"label in {os.path.basename(path)}"
    found = LabelledReader(reader, name, values, keys, options.id, path)
    if first is not None:
        found.own_notices = (notice("first-label", path=path, label=column),)
    return found, options._replace(label=name)


def _label_column(labels: Reader, path: str, named: str | None, key: str | None) -> str:
    """The column of labels: the one that was named, the only one, or the one whose name says so."""
    names = [name for name in labels.columns if name != key]
    if named in names:
        return str(named)
    if named is None and len(names) == 1:
        return names[0]
    if not names:
        raise DataError(f"has no column beside the key '{key}'", "add a column with the labels")
    found: list[str] = []
    for known in (NAMES, RARER):
        found = found or [name for name in names if name.lower() in known["label"]]
    if named is None and len(found) == 1:
        return found[0]
    what = f"no column '{named}'" if named else "no single column of labels"
    column = found[0] if found else "COLUMN"
    raise DataError(f"{what} (found: {listed(names)})", f"name it after the file: --label {path}::{column}")


def _whole(reader: Reader, name: str) -> Array | Categorical:
    """A column with all its rows."""
    parts: list[Any] = []
    for batch in reader.batches([name]):
        if batch.missing is not None and batch.missing.any():
            row = batch.start + int(np.flatnonzero(batch.missing)[0]) + 1
            raise DataError(f"a value is missing in '{name}' (row {row})", "fill it in")
        values = batch.columns[name]
        parts.append(values.matrix(0) if isinstance(values, Lists) and not values.ragged else values)
    if not parts:
        raise DataError("no rows")
    if any(isinstance(part, Lists) for part in parts):
        raise DataError(f"'{name}' holds lists of different lengths", "store one label per row")
    return joined(parts) if isinstance(parts[0], Categorical) else np.concatenate(parts)


def _first_label(values: Array | Categorical, labels: Reader, column: str, scores: Reader) -> Array | None:
    """The first line of the file, if it was read as a header but is a label.

    That is so if it is a whole number and there is one row of scores more than there are labels. In csv and tsv files
    the number 0 is refused, because it may be either: pandas writes a column without a name under the header 0.
    """
    is_number = column.removeprefix("-").isdigit() and len(labels.columns) == 1 and labels.label in ("csv", "tsv")
    if not is_number or not isinstance(values, np.ndarray):
        return None
    rows, is_text = scores.count_rows(), labels.path.lower().endswith(TEXT_SUFFIXES)
    if is_text and rows == values.size:
        raise DataError(
            f"has {values.size + 1} lines of numbers, but there are {values.size} rows of scores",
            f"if the first line ({column}) is a header, {without_header(labels.path)}; otherwise remove the label "
            "that has no row",
        )
    if rows != values.size + 1:
        return None
    if column == "0" and not is_text:
        raise DataError(
            f"has {values.size} labels below the header '0', but there are {values.size + 1} rows of scores",
            "if the first line is a label, rename the file to .txt; otherwise give labels for exactly these rows",
        )
    return np.array([int(column)], dtype=values.dtype)


def _keys(labels: Reader, key: str) -> list[str]:
    from bpmcli.io.group_keys import group_names

    if key not in labels.columns:
        raise DataError(f"no column '{key}' (found: {listed(labels.columns)})", "name another column with --id")
    found = group_names(_whole(labels, key)).tolist()
    if len(set(found)) < len(found):
        twice = next(k for i, k in enumerate(found) if k in found[:i])
        raise DataError(f"'{twice}' occurs twice in '{key}'", "give every row a key of its own")
    return found


class LabelledReader(Reader):
    """A reader with one more column, whose values come from another file."""

    own_notices: tuple[Notice, ...] = ()

    complete: bool = True
    """Whether all rows have a label, and all labels a row; known once the columns were passed on to an output."""

    def __init__(
        self, inner: Reader, name: str, values: Array | Categorical, keys: list[str] | None, key: str | None, path: str
    ) -> None:
        self.inner, self.name, self.values, self.key = inner, name, values, key
        self.places = {k: i for i, k in enumerate(keys)} if keys is not None else None
        self.label_path = path
        self.path, self.metadata, self.table_metadata = inner.path, inner.metadata, inner.table_metadata
        self.n_rows, self.row_groups, self.label = inner.n_rows, None, inner.label  # type: ignore[misc]
        self.row_key = inner.row_key
        kind = "U" if isinstance(values, Categorical) else values.dtype.kind
        width = values.shape[1] if isinstance(values, np.ndarray) and values.ndim == 2 else None
        self.columns = {**inner.columns, name: ColumnInfo(name, width, kind)}
        known = next((c.rows for c in inner.columns.values() if c.rows is not None), inner.n_rows)
        if self.places is None and known is not None:
            self._check(known)

    def rows_at_most(self, enough: int) -> int:
        return self.inner.rows_at_most(enough)

    def notices(self) -> tuple[Notice, ...]:
        return (*self.inner.notices(), *self.own_notices)

    def class_names(self, label: str, n: int) -> tuple[str, ...] | None:
        return self.inner.class_names(label, n)

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[ColumnBatch]:
        own = [name for name in names if name != self.name]
        if self.key and self.name in names and self.key not in own:
            own.append(self.key)
        end, self.inner.group = 0, self.group
        for batch in self.inner.read(own, [n for n in numeric if n != self.name], rest):
            end = batch.start + batch.n
            if self.name in names:
                batch.columns[self.name] = self._labels(batch, batch.columns.get(self.key or ""))
            elif rest:
                batch = self._passed_on(batch)
            yield batch
        if self.places is None and self.name in names:
            self._check(end)
        self.complete &= self.places is not None or end == self._size

    @contextmanager
    def reporting(self) -> Iterator[None]:
        with self.inner.reporting():
            yield

    def as_read(self, name: str, values: Any) -> tuple[Array | Lists | Categorical, Array | None]:
        return super().as_read(name, values) if name == self.name else self.inner.as_read(name, values)

    def _passed_on(self, batch: ColumnBatch) -> ColumnBatch:
        """The batch with the labels among the columns that are passed on, where all its rows have a label."""
        every = {**batch.columns, **batch.passed}
        try:
            keys = self.inner.as_read(self.key, every[self.key])[0] if self.key else None
            return batch._replace(passed={**batch.passed, self.name: self._labels(batch, keys)})
        except DataError:
            self.complete = False
            return batch

    def _labels(self, batch: ColumnBatch, keys: Array | Lists | Categorical | None) -> Array | Categorical:
        if self.places is None:
            if batch.start + batch.n > self._size:
                self._check(batch.start + batch.n)
            index = np.arange(batch.start, batch.start + batch.n)
        else:
            from bpmcli.io.group_keys import group_names

            assert keys is not None
            names = group_names(keys).tolist()
            lost = next((i for i, k in enumerate(names) if k not in self.places), None)
            if lost is not None:
                row = batch.start + lost + 1
                raise DataError(f"'{names[lost]}' (row {row}) has no label in {self.label_path}", "add it there")
            index = np.array([self.places[k] for k in names], dtype=np.int64)
        return self.values.take(index) if isinstance(self.values, Categorical) else self.values[index]

    @property
    def _size(self) -> int:
        return self.values.size if isinstance(self.values, Categorical) else len(self.values)

    def _check(self, rows: int) -> None:
        if rows != self._size:
            raise DataError(
                f"has {rows} rows, but {self.label_path} has {self._size} labels: row {min(rows, self._size) + 1} has "
                "no counterpart",
                "give labels for exactly these rows, or join them by a key: --id COLUMN",
            )
