"""JSON tables: a list of records, or columns and data as pandas, W&B and MLflow write them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from bpmcli.errors import DataError
from bpmcli.io.formats import reads
from bpmcli.io.formats.free_name import as_lines
from bpmcli.io.formats.record_batches import ArrowReader
from bpmcli.io.formats.text_lines import is_utf8

LARGEST = 1 << 26
"""The largest document in bytes: it is read whole, and Python needs ten times as much memory for its values."""
MOST_CONTAINERS = 2_000_000
"""The most lists and objects in a document: a small one takes two hundred bytes of memory."""

HINT = "give a list of objects, or one object per line as .jsonl"


@reads("json", ".json")
class JsonReader(ArrowReader):
    """One document: `[{…}, …]`, `{"columns": […], "data": [[…], …]}`, `{"a": […], …}`, `{"a": {"0": …}, …}`, or
    `{"0": {"a": …}, …}`."""

    in_folders: ClassVar[bool] = False

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
        if not is_utf8(start) or not text.startswith((b"[", b"{")):
            return False
        first, _, rest = text.partition(b"\n")
        if text.startswith(b"{") and rest.strip():
            return not first.rstrip().endswith(b"}")  # otherwise it is the first of several lines
        return True

    def schema(self) -> Any:
        from bpmcli.io.opening import open_bytes

        if "://" not in self.path and os.path.getsize(self.path) > LARGEST:
            raise DataError(
                f"is larger than {LARGEST >> 20} MB, the limit for JSON, which is read whole", as_lines(self.path)
            )
        with open_bytes(self.path) as raw:
            text = raw.read(LARGEST + 1)
        if text.count(b"{") + text.count(b"[") > MOST_CONTAINERS:
            raise DataError(f"has more than {MOST_CONTAINERS} rows or lists", as_lines(self.path))
        try:
            document = json.loads(text)
        except RecursionError:
            raise DataError("is nested too deeply", HINT) from None
        except ValueError as error:
            raise DataError(f"is not JSON ({error})", HINT) from None
        self.table = _table(document)
        self.n_rows = self.table.num_rows
        return self.table.schema

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        table = self.table if names is None else self.table.select(names)
        yield from (batch for batch in table.combine_chunks().to_batches() if batch.num_rows)


def _table(document: Any) -> Any:
    import pyarrow as pa

    columns = _columns(document)
    if not columns:
        raise DataError("holds no table", HINT)
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise DataError("has columns of different lengths", HINT)
    if not lengths.pop():
        raise DataError("no rows", "is the file complete?")
    return pa.table({name: _column(values) for name, values in columns.items()})


def _columns(document: Any) -> dict[str, list[Any]]:
    """The columns of any of the layouts; empty if it is none of them."""
    if isinstance(document, list):
        return _records(document)
    if not isinstance(document, dict) or not document:
        return {}
    names, data = document.get("columns"), document.get("data")
    if isinstance(data, list) and isinstance(names, list):
        return _split(names, data)
    if isinstance(data, list) and set(document) <= {"data", "schema"}:
        return _records(data)  # pandas orient="table"
    return _by_column(document)


def _by_column(document: dict[str, Any]) -> dict[str, list[Any]]:
    columns = list(document.values())
    if all(isinstance(row, dict) for row in columns) and _are_indices(document) and not _are_indices(columns[0]):
        return _records(columns)  # pandas orient="index"
    if all(isinstance(values, dict) and list(values) == list(columns[0]) for values in columns):
        return {name: list(values.values()) for name, values in document.items()}
    if all(isinstance(values, list) for values in columns):
        return document
    single = not any(isinstance(values, (list, dict)) for values in columns)
    return {name: [value] for name, value in document.items()} if single else {}


def _are_indices(names: Iterable[str]) -> bool:
    return all(name.isdigit() for name in names)


def _records(rows: list[Any]) -> dict[str, list[Any]]:
    if not all(isinstance(row, dict) for row in rows):
        raise DataError("holds a list, but not of objects", HINT)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _split(names: list[Any], data: list[Any]) -> dict[str, list[Any]]:
    if not all(isinstance(row, list) and len(row) == len(names) for row in data):
        raise DataError("has rows that do not fit its columns", HINT)
    return {str(name): [row[i] for row in data] for i, name in enumerate(names)}


def _column(values: list[Any]) -> Any:
    """Numbers, text or lists of numbers; anything else as JSON text."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError):
        pass
    try:
        return pa.array(values, pa.float64())
    except (pa.ArrowException, OverflowError, TypeError):
        return pa.array([value if value is None else json.dumps(value) for value in values], pa.string())
