"""Files reduced to summaries in one pass, and summaries as files.

A summary file is parquet: `cell, count, hits, excess` (and `value`, and `group`), see `core.summary`; everything
else is JSON in its metadata. Memory is bounded by a few batches of 2^19 rows and the table, whatever the file's size.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bpmcli import __version__
from bpmcli.core.data.notices import notice
from bpmcli.core.data.rows import EVENT, TOP_LABEL, SummarisedRows, positions
from bpmcli.core.summary.grid import FIXED_BITS, KEPT_BITS, MANTISSA_BITS
from bpmcli.core.summary.merging import fold, merge, merge_all
from bpmcli.core.summary.summary import Accumulator, Summary, are_values
from bpmcli.errors import BpmError, DataError, UsageError
from bpmcli.io.columns import Array, from_arrow, to_arrow
from bpmcli.io.layout import SCORES, InputOptions, Layout, understand
from bpmcli.io.outcomes import hits_of
from bpmcli.io.readers import CONFIDENT, SUMMARY_KEY, Loaded, complete_batches, notices_of, rows_of, scores_of
from bpmcli.io.sources import Batch, Part, Source, open_source
from bpmcli.io.summary_checks import check_columns, check_header

SCHEMA, VERSION = "bpmcli/summary", 2
"""Version 1 kept no distinct values, and a sum of squares that is no longer needed."""

GRID = {"mantissa_bits": MANTISSA_BITS, "fixed_bits": FIXED_BITS, "kept_bits": KEPT_BITS}

PART_ROWS = 1 << 20
"""A parquet file is summarised in parts of at least this many rows, alone or by many workers: the same parts."""

T = TypeVar("T")


class Summarised(NamedTuple):
    """Some rows as summaries, one per group ("" where no groups were asked for)."""

    tables: dict[str, Summary]
    target: str
    odd: Mapping[str, int] = {}
    layout: Layout | None = None
    """None once it was stored."""
    metadata: Mapping[str, str] = {}
    """What the files said of themselves, if all said the same."""
    by: str | None = None
    """The column whose values are the groups."""
    path: str = ""
    """The file, or the first of several."""

    @property
    def whole(self) -> Summary:
        """All groups as one."""
        return merge_all(self.tables[name] for name in sorted(self.tables))


def summarise_path(path: str, options: InputOptions, part: Part | None = None) -> Summarised:
    """A file, or a part of it."""
    try:
        source = open_source(path)
        if SUMMARY_KEY in source.metadata:
            return read_stored(path, options)
        found = _summarise(source, options, part) if part else summarise_source(source, options)
        return found._replace(path=path)
    except BpmError as error:
        raise error.at(path if path != "-" else "standard input") from None


def summarise_source(source: Source, options: InputOptions) -> Summarised:
    """A whole file, part by part."""
    if options.weight and (parts := source.parts(PART_ROWS)):
        return merge_summarised(_summarise(source, options, part) for part in parts)
    # Whole numbers add up to the same bits in any order: no need to merge.
    return _summarise(source, options)


def merge_summarised(parts: Iterable[Summarised]) -> Summarised:
    """Any number as one, along the tree that every engine uses."""
    return fold(parts, merge_few)


def merge_few(parts: Sequence[Summarised]) -> Summarised:
    """One level of that tree."""
    if not parts:
        raise DataError("no rows")
    check_kinds([(part.path, part.target) for part in parts])
    if len(parts) == 1:
        return parts[0]
    by = parts[0].by
    if any(part.by != by for part in parts):
        # Groups of different columns have nothing in common but their rows.
        by, parts = None, [part._replace(tables={"": part.whole}) for part in parts]
    names = dict.fromkeys(name for part in parts for name in part.tables)
    tables = {name: merge(p.tables[name] for p in parts if name in p.tables) for name in names}
    odd: Counter[str] = Counter()
    for part in parts:
        odd.update(part.odd)
    same = all(part.metadata == parts[0].metadata for part in parts)
    return Summarised(
        tables, parts[0].target, odd, parts[0].layout, parts[0].metadata if same else {}, by, parts[0].path
    )


def check_kinds(parts: Sequence[tuple[str, str]]) -> None:
    """Refuse files, given by path and target, of which some are about P(y = 1) and some are not."""
    first: dict[str, str] = {}
    for path, target in parts:
        first.setdefault(target, path)
    if len(first) > 1:
        raise DataError(
            f"inputs of different kinds cannot be pooled: {first[EVENT]} is about P(y = 1), "
            f"{first[TOP_LABEL]} about the predicted class",
            "give --event for all of them, or for none",
        )


def load_summarised(source: Source, options: InputOptions, distributions: bool = False) -> Loaded:
    """A file in the shape every command works on: only the sample is left of the rows."""
    stored = SUMMARY_KEY in source.metadata
    if distributions:
        hint = "give the files that were summarised" if stored else "leave --summary out"
        raise UsageError("this needs the scores of every row, which a summary does not keep", hint)
    return as_loaded(read_stored(source.path, options) if stored else summarise_source(source, options))


def as_loaded(found: Summarised) -> Loaded:
    """A summary as loaded rows, with a notice of what it costs."""
    whole = found.whole
    sample = whole.to_sample()
    layout = found.layout or Layout("summary", (), False, None, None, None, None, None, None, found.target)
    shares = (
        None if sample.n < 100 else (sample.accuracy, float(sample.mass @ (sample.log_odds > CONFIDENT)) / sample.n)
    )
    notices = [
        *notices_of(Counter(found.odd), shares, layout),
        notice("summarised" if sample.summarised else "distinct-kept", rows=sample.n, cells=sample.mass.size),
    ]
    rows = SummarisedRows(sample, found.target, found.tables if found.by is not None else None)
    return Loaded(rows, layout, tuple(notices), dict(found.metadata), found)


def _summarise(source: Source, options: InputOptions, part: Part | None = None) -> Summarised:
    layout = understand(source, options)
    odd: Counter[str] = Counter()
    totals: dict[str, Accumulator] = {}
    source.part = part
    for batch in _ahead(complete_batches(source, layout, options, odd)):
        if not _add_bare(batch, layout, totals, odd):
            rows = rows_of(batch, layout, odd)
            for name, index in _groups(rows.groups):
                chosen = rows if index is None else rows.take(index)
                totals.setdefault(name, Accumulator(bool(layout.weight))).add(
                    chosen.log_odds, chosen.hits, chosen.weights
                )
    if part is None and not any(total.n for total in totals.values()):
        raise DataError("all weights are zero" if layout.weight and totals else "no rows")
    tables = {name: total.summary() for name, total in totals.items() if total.n}
    return Summarised(tables, layout.target, odd, layout, source.metadata, layout.group)


def _add_bare(batch: Batch, layout: Layout, totals: dict[str, Accumulator], odd: Counter[str]) -> bool:
    """The fast way for one confidence per row: no logarithm. False where it cannot be gone."""
    bare = layout.kind == "confidence" or (layout.kind == "probs" and layout.target == EVENT)
    if not bare or layout.weight or layout.group or (layout.binary and layout.target != EVENT):
        return False
    scores = scores_of(batch, layout)
    if scores.ndim != 1 or scores.dtype.kind != "f":
        return False
    hits = hits_of(batch, layout, None, scores)
    total = totals.setdefault("", Accumulator())
    saturated = total.saturated
    if not total.add_confidences(scores, hits):
        return False
    odd["saturated"] += total.saturated - saturated
    return True


def _groups(groups: Array | None) -> Iterator[tuple[str, Array | None]]:
    if groups is None:
        yield "", None
        return
    yield from positions(groups)


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """The next batch is decoded in a thread while this one is worked: arrow needs no lock for that."""
    end = object()
    with ThreadPoolExecutor(1) as reader:
        pending = reader.submit(next, items, end)
        while (item := pending.result()) is not end:
            pending = reader.submit(next, items, end)
            yield item  # type: ignore[misc]


def write_summary(path: str, found: Summarised) -> None:
    """The file appears when it is complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from bpmcli.io.writers import atomic_path

    names = sorted(found.tables)
    tables = [found.tables[name] for name in names]
    about = {
        "schema": SCHEMA, "version": VERSION, "tool": f"bpmcli {__version__}", "target": found.target, **GRID,
        "by": found.by,
        "metadata": dict(found.metadata),
        "odd": {k: v for k, v in sorted(found.odd.items()) if v},
        "tables": [
            {"group": name, "n": t.n, "cells": t.cells.size, "weight_squares": t.weight_squares,
             "distinct": t.values is not None}
            for name, t in zip(names, tables, strict=True)
        ],
    }  # fmt: skip
    kind = np.float64 if any(t.weighted for t in tables) else np.int64
    columns = {"cell": np.concatenate([t.cells for t in tables])}
    for field in ("count", "hits", "excess"):
        columns[field] = np.concatenate([getattr(t, field) for t in tables]).astype(kind)
    if any(t.values is not None for t in tables):
        none = np.zeros(max(t.cells.size for t in tables), dtype=np.int64)
        columns["value"] = np.concatenate([none[: t.cells.size] if t.values is None else t.values for t in tables])
    arrays = {name: to_arrow(values) for name, values in columns.items()}
    if names != [""]:
        arrays["group"] = pa.array([name for name, t in zip(names, tables, strict=True) for _ in range(t.cells.size)])
    table = pa.table(arrays).replace_schema_metadata({SUMMARY_KEY: json.dumps(about, ensure_ascii=False)})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", use_dictionary=["group"] if "group" in arrays else False)


def read_summary(path: str) -> Summarised:
    """Read and check a summary file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from bpmcli.io.remote import opened

    try:
        with opened(path) as raw, pq.ParquetFile(raw) as f:
            about = json.loads(f.schema_arrow.metadata[SUMMARY_KEY.encode()])
            names = ["cell", "count", "hits", "excess"]
            names += ["value"] if "value" in f.schema_arrow.names else []
            table = f.read(columns=names)
        columns = [from_arrow(table.column(name).combine_chunks())[0] for name in names]
    except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as error:
        text = " ".join(str(error).split())[:200]
        raise DataError(f"cannot be read as a summary: {text}", "is the file complete?") from None
    if not isinstance(about, dict) or about.get("schema") != SCHEMA or about.get("version") not in range(VERSION + 1):
        what = f"is a {_told(about, 'schema')}, version {_told(about, 'version')}"
        raise DataError(
            f"{what}; this bpmcli ({__version__}) reads {VERSION}",
            "upgrade: pip install -U bpmcli",
        )
    if {key: about.get(key) for key in GRID} != GRID:
        raise DataError("was made on another grid of cells", "summarise the data again with this version")
    check_header(about)
    check_columns(columns, about["tables"])
    tables, at = {}, 0
    for entry in about["tables"]:
        cells, count, hits, excess, *more = (np.asarray(c)[at : at + entry["cells"]] for c in columns)
        at += entry["cells"]
        weight_squares = entry["weight_squares"]
        values = more[0] if entry.get("distinct") and more else None
        sound = count.size == entry["cells"] and not (hits > count).any()
        sound &= weight_squares is not None or float(count.sum()) == entry["n"]
        sound &= not (np.diff(cells) <= 0).any() if values is None else are_values(values, cells)
        if not sound:
            raise DataError("its table contradicts its header", "the file was changed: summarise the data again")
        if weight_squares is None:
            count, hits, excess = (c.astype(np.int64) for c in (count, hits, excess))
        tables[entry["group"]] = Summary(
            cells.astype(np.int32), count, hits, excess, entry["n"], weight_squares, values
        )
    if about.get("target") not in (TOP_LABEL, EVENT):
        raise DataError(f"'target' is {about.get('target')!r}")
    odd, metadata = about.get("odd", {}), about.get("metadata", {})
    return Summarised(tables, about["target"], odd, None, metadata, about.get("by"), path)


def _told(about: Any, key: str) -> str:
    return str(about.get(key) if isinstance(about, dict) else type(about).__name__)[:40]


def read_stored(path: str, options: InputOptions) -> Summarised:
    """A summary file as the options want it; what only rows could answer is refused, not passed over."""
    found = read_summary(path)
    for role in (*SCORES, "label", "hit", "prediction", "weight"):
        if getattr(options, role):
            option = f"--{role.replace('_', '-')} {getattr(options, role)}"
            raise UsageError(f"{option} names a column, and a summary has none", f"bpmcli summarize ROWS {option}")
    if options.event and found.target != EVENT:
        raise UsageError("--event was given, but this summary is of the predicted class", "summarize with --event too")
    if options.group is not None and found.by != options.group:
        kept = f"keeps the groups of '{found.by}' apart" if found.by is not None else "keeps no groups apart"
        raise UsageError(
            f"--by {options.group}: this summary {kept}", f"bpmcli summarize ROWS --by {options.group} does"
        )
    return found


__all__ = [
    "Summarised",
    "as_loaded",
    "load_summarised",
    "merge_summarised",
    "read_summary",
    "summarise_path",
    "write_summary",
]
