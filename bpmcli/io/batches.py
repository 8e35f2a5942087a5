"""Batches without missing values, small enough even if the lists in them differ much in length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bpmcli.core.data.categorical import Categorical
from bpmcli.errors import DataError
from bpmcli.io.columns import Lists, Objects, kept_rows
from bpmcli.io.formats.reader import ColumnBatch, Reader
from bpmcli.io.layout import InputOptions, Layout
from bpmcli.io.outcomes import others

RAGGED_VALUES = 1 << 22
"""Lists of different lengths become matrices of at most this many values: one long list must not pad all others."""


watch: Callable[[int, int | None], None] | None = None
"""Called after every batch with the number of rows read and, if known, the number of all rows. The command line sets it
while it shows a progress bar."""


def complete_batches(
    reader: Reader,
    layout: Layout,
    options: InputOptions,
    odd: Counter[str],
    *,
    rest: bool = False,
    outcomes: bool = True,
) -> Iterator[ColumnBatch]:
    """Batches of rows. A row with a missing value is left out with `--skip-missing`, and otherwise an error.

    `odd` counts the rows that were left out.
    With `outcomes=False` labels are not read, and rows without a group are kept.
    """
    names = layout.names if outcomes else [*layout.scores, *([layout.group] if layout.group else [])]
    wanted = set(names)
    reader.group = layout.group
    for batch in reader.batches(names, [n for n in layout.numeric if n in wanted], rest):
        if watch is not None:
            watch(batch.start + batch.n, reader.n_rows)
        batch = _empty_is_missing(batch)
        if not outcomes and layout.group and layout.group in batch.nulls:
            batch = _without_group(batch, layout.group)
        if options.skip_missing:
            batch = _not_finite_is_missing(batch, layout)
        if batch.missing is not None and batch.missing.any():
            if not options.skip_missing:
                raise _refusal(batch)
            odd["missing-skipped"] += int(batch.missing.sum())
            batch = _without_missing(batch)
            if not batch.n:
                continue
        yield from _pieces(batch, batch.columns[layout.scores[0]])


def _refusal(batch: ColumnBatch) -> DataError:
    assert batch.missing is not None
    row = int(np.flatnonzero(batch.missing)[0])
    where = next(f" in '{name}'" for name, null in batch.nulls.items() if null[row])
    return DataError(
        f"a value is missing{where} (row {batch.start + row + 1}{others(batch.missing)})",
        "--skip-missing leaves such rows out",
    )


def _empty_is_missing(batch: ColumnBatch) -> ColumnBatch:
    """The batch with empty text counted as missing: csv cannot express missing text in any other way."""
    nulls = dict(batch.nulls)
    missing = batch.missing
    for name, values in batch.columns.items():
        if not isinstance(values, Categorical) or "" not in values.categories:
            continue
        empty = values.codes == values.categories.index("")
        if empty.any():
            nulls[name] = empty | nulls[name] if name in nulls else empty
            missing = nulls[name] if missing is None else missing | nulls[name]
    return batch._replace(missing=missing, nulls=nulls)


def _without_group(batch: ColumnBatch, group: str) -> ColumnBatch:
    """Keeps rows whose group is missing; they get the pooled calibrator."""
    nulls = {name: null for name, null in batch.nulls.items() if name != group}
    values = batch.columns[group]
    if not isinstance(values, (Lists, Categorical)):
        from bpmcli.io.group_keys import group_names

        values = group_names(values)
    assert isinstance(values, Categorical)
    codes = np.where(batch.nulls[group], len(values.categories), values.codes)
    missing = np.logical_or.reduce(list(nulls.values())) if nulls else None
    columns = {**batch.columns, group: Categorical([*values.categories, ""], codes)}
    return batch._replace(columns=columns, nulls=nulls, missing=missing)


def _not_finite_is_missing(batch: ColumnBatch, layout: Layout) -> ColumnBatch:
    """With `--skip-missing`, NaN (arrays have no nulls) and infinite scores count as missing."""
    missing = np.zeros(batch.n, dtype=bool) if batch.missing is None else batch.missing
    scores = set(layout.scores)
    for name, values in batch.columns.items():
        if isinstance(values, Lists):
            if values.values.dtype.kind == "f":
                bad = ~np.isfinite(values.values)
                missing = missing | (np.bincount(np.repeat(np.arange(batch.n), values.lengths), bad, batch.n) > 0)
        elif not isinstance(values, Categorical) and values.dtype.kind == "f":
            bad = ~np.isfinite(values) if name in scores else np.isnan(values)
            missing = missing | bad.reshape(batch.n, -1).any(axis=1)
    return batch._replace(missing=missing)


def _without_missing(batch: ColumnBatch) -> ColumnBatch:
    assert batch.missing is not None
    keep = ~batch.missing
    columns = {
        name: values.take(keep) if isinstance(values, (Lists, Categorical)) else values[keep]
        for name, values in batch.columns.items()
    }
    passed = {
        k: v[keep]
        if isinstance(v, np.ndarray)
        else v.take(keep)
        if isinstance(v, (Objects, Categorical))
        else kept_rows(v, keep)
        for k, v in batch.passed.items()
    }
    return ColumnBatch(batch.start, int(keep.sum()), columns, passed)


def _pieces(batch: ColumnBatch, scores: Any) -> Iterator[ColumnBatch]:
    """The batch, halved until its lists fit side by side into a matrix of moderate size."""
    if not (isinstance(scores, Lists) and scores.ragged and batch.n * int(scores.lengths.max()) > RAGGED_VALUES):
        yield batch
        return
    half = batch.n // 2
    for start, stop in ((0, half), (half, batch.n)):
        piece = _slice(batch, start, stop)
        yield from _pieces(piece, scores.slice(start, stop))


def _slice(batch: ColumnBatch, start: int, stop: int) -> ColumnBatch:
    def part(values: Any) -> Any:
        if isinstance(values, np.ndarray):
            return values[start:stop]
        if isinstance(values, Categorical):
            return Categorical(values.categories, values.codes[start:stop])
        return values.slice(start, stop) if isinstance(values, Lists) else values.slice(start, stop - start)

    columns = {name: part(values) for name, values in batch.columns.items()}
    passed = {name: part(values) for name, values in batch.passed.items()}
    return ColumnBatch(batch.start + start, stop - start, columns, passed)
