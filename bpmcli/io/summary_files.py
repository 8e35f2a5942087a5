"""Reads and writes summary files.

They are parquet files with the columns `cell, count, hits, excess` (and `value`, and `group`), which `core.summary`
explains. Everything else is JSON in the metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from bpmcli import __version__
from bpmcli.core.data.rows import EVENT
from bpmcli.core.summary.grid import FIXED_BITS, KEPT_BITS, MANTISSA_BITS
from bpmcli.core.summary.summary import Summary
from bpmcli.errors import DataError, UsageError
from bpmcli.io.columns import Array, from_arrow, to_arrow
from bpmcli.io.document_kinds import SUMMARY
from bpmcli.io.documents import parse_document
from bpmcli.io.known_names import SCORES
from bpmcli.io.layout import InputOptions
from bpmcli.io.opening import open_bytes
from bpmcli.io.readers import SUMMARY_KEY
from bpmcli.io.summaries import Summarised
from bpmcli.io.summary_checks import check_table
from bpmcli.io.writers import atomic_path

GRID = {"mantissa_bits": MANTISSA_BITS, "fixed_bits": FIXED_BITS, "kept_bits": KEPT_BITS}

MOST_CELLS = 1 << 23
"""The most cells that are read, over all groups: each takes 64 bytes of memory while it is read."""


def write_summary(path: str, found: Summarised) -> None:
    """Write a summary; the file appears when it is complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not found.tables:
        raise DataError("all weights are zero", "name another column with --weight")
    names = sorted(found.tables)
    tables = [found.tables[name] for name in names]
    sizes = [table.cells.size for table in tables]
    if sum(sizes) > MOST_CELLS:
        raise DataError(
            f"{path}: {len(names)} groups have {sum(sizes)} cells, and a summary file holds at most {MOST_CELLS}",
            "summarize fewer inputs at a time, or leave --by out",
        )
    arrays = {name: to_arrow(values) for name, values in _columns(tables).items()}
    if names != [""]:
        repeated = np.repeat(np.arange(len(names), dtype=np.int32), sizes)
        arrays["group"] = pa.DictionaryArray.from_arrays(to_arrow(repeated), pa.array(names)).dictionary_decode()
    about = json.dumps(_header(found, names), ensure_ascii=False)
    table = pa.table(arrays).replace_schema_metadata({SUMMARY_KEY: about})
    # A file object, because pyarrow takes only names that are valid UTF-8.
    with atomic_path(path) as temporary, open(temporary, "wb") as raw:
        pq.write_table(table, raw, compression="zstd", use_dictionary=["group"] if "group" in arrays else False)


def _header(found: Summarised, names: list[str]) -> dict[str, Any]:
    return {
        "schema": SUMMARY.schema, "version": SUMMARY.version, "tool": f"bpmcli {__version__}",
        "target": found.target, **GRID,
        "by": found.by,
        "metadata": dict(found.metadata),
        "odd": {k: v for k, v in sorted(found.odd.items()) if v},
        "tables": [
            {"group": name, "n": t.n, "cells": t.cells.size, "weight_squares": t.weight_squares,
             "distinct": t.values is not None}
            for name, t in ((name, found.tables[name]) for name in names)
        ],
    }  # fmt: skip


def _columns(tables: list[Summary]) -> dict[str, Array]:
    kind = np.float64 if any(t.weighted for t in tables) else np.int64
    columns = {"cell": np.concatenate([t.cells for t in tables])}
    for field in ("count", "hits", "excess"):
        columns[field] = np.concatenate([getattr(t, field) for t in tables]).astype(kind)
    if any(t.values is not None for t in tables):
        none = np.zeros(max(t.cells.size for t in tables), dtype=np.int64)
        columns["value"] = np.concatenate([none[: t.cells.size] if t.values is None else t.values for t in tables])
    return columns


def read_summary(path: str) -> Summarised:
    """Read and check a summary file."""
    about, columns = _read(path)
    if {key: about.get(key) for key in GRID} != GRID:
        raise DataError("was made on another grid of cells", "summarise the data again with this version")
    check_table(columns, about["tables"])
    tables = {entry["group"]: table for entry, table in zip(about["tables"], _split(about, columns), strict=True)}
    odd, metadata = about.get("odd") or {}, about.get("metadata") or {}
    return Summarised(tables, about["target"], odd, None, metadata, about.get("by"), path)


def _read(path: str) -> tuple[dict[str, Any], list[Array]]:
    """The header, and the columns in order: numbers, as many as the header says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_bytes(path) as raw, pq.ParquetFile(raw) as f:
            about = parse_document(f.schema_arrow.metadata[SUMMARY_KEY.encode()], SUMMARY)
            claimed = sum(entry["cells"] for entry in about["tables"])
            if f.metadata.num_rows != claimed or claimed > MOST_CELLS:
                raise DataError(
                    f"its header counts {claimed} cells, but its table has {f.metadata.num_rows} "
                    f"(at most {MOST_CELLS} can be read)",
                    "the file was changed: summarise the data again",
                )
            names = ["cell", "count", "hits", "excess"]
            names += ["value"] if "value" in f.schema_arrow.names else []
            table = f.read(columns=names)
        return about, [from_arrow(table.column(name).combine_chunks())[0] for name in names]  # type: ignore[misc]
    except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as error:
        text = " ".join(str(error).split())[:200]
        raise DataError(f"cannot be read as a summary: {text}", "is the file complete?") from None


def _split(about: dict[str, Any], columns: list[Array]) -> Iterator[Summary]:
    """The table of each group."""
    at = 0
    for entry in about["tables"]:
        cells, count, hits, excess, *more = (c[at : at + entry["cells"]] for c in columns)
        at += entry["cells"]
        if entry.get("weight_squares") is None:
            count, hits, excess = (c.astype(np.int64, copy=False) for c in (count, hits, excess))
        values = more[0] if entry.get("distinct") and more else None
        yield Summary(
            cells.astype(np.int32, copy=False), count, hits, excess, entry["n"], entry.get("weight_squares"), values
        )


def read_stored(path: str, options: InputOptions) -> Summarised:
    """A summary file read with these options; an option that needs rows is refused, not ignored."""
    found = read_summary(path)
    for role in (*SCORES, "label", "hit", "prediction", "weight"):
        if getattr(options, role):
            option = f"--{role.replace('_', '-')} {getattr(options, role)}"
            raise UsageError(f"{option} names a column, but a summary has none", f"bpmcli summarize ROWS {option}")
    given = {"--top-k": options.top_k > 1, "--unknown": options.unknown, "--multi-label": options.multi_label}
    if needy := [option for option, value in given.items() if value]:
        raise UsageError(
            f"{needy[0]} needs the rows themselves, which a summary does not store",
            "give the files that were summarised",
        )
    if options.event and found.target != EVENT:
        raise UsageError("--event was given, but this summary is of the predicted class", "summarize with --event too")
    if options.group is not None and found.by != options.group:
        kept = f"keeps the groups of '{found.by}' apart" if found.by is not None else "keeps no groups apart"
        raise UsageError(
            f"--by {options.group}: this summary {kept}", f"bpmcli summarize ROWS --by {options.group} does"
        )
    return found
