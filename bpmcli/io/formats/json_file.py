"""JSON tables: a list of records, or columns and data as pandas, W&B and MLflow write them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from bpmcli.errors import DataError
from bpmcli.io.columns import Objects
from bpmcli.io.formats import reads, writer_for
from bpmcli.io.formats.free_name import as_lines
from bpmcli.io.formats.reader import ColumnBatch
from bpmcli.io.formats.record_batches import ArrowReader
from bpmcli.io.formats.text_lines import is_utf8, json_text

LARGEST = 1 << 26
"""The largest document in bytes: it is read whole, and Python needs ten times as much memory for its values."""
MOST_CONTAINERS = 2_000_000
"""The most lists and objects in a document: a small one takes two hundred bytes of memory."""

JSON_LINES = (".jsonl", ".ndjson")

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
        self.values = _columns(document)
        self.mixed: set[str] = set()
        """Columns that no arrow type can hold, for example numbers beside text."""
        self.table = self._table()
        self.n_rows = self.table.num_rows
        return self.table.schema

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        table = self.table if names is None else self.table.select(names)
        yield from (batch for batch in table.combine_chunks().to_batches() if batch.num_rows)

    def _table(self) -> Any:
        import pyarrow as pa

        if not self.values:
            raise DataError("holds no table", HINT)
        lengths = {len(values) for values in self.values.values()}
        if len(lengths) != 1:
            raise DataError("has columns of different lengths", HINT)
        if not lengths.pop():
            raise DataError("no rows", "is the file complete?")
        found = {name: _column(values) for name, values in self.values.items()}
        self.mixed = {name for name, column in found.items() if column is None}
        numbers = [
            name for name, column in found.items() if name not in self.mixed and pa.types.is_floating(column.type)
        ]
        texts = {name: _as_text(_readable(self.values[name])) for name in self.mixed}
        self.mixed |= {name for name in numbers if _has_truth_values(self.values[name])}  # to arrow, true is 1 there
        return pa.table(found | texts)

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[ColumnBatch]:
        for batch in super().read(names, numeric, rest):
            passed = {name: self._carried(name, column, batch) for name, column in batch.passed.items()}
            yield batch._replace(passed=passed) if rest else batch

    def _carried(self, name: str, column: Any, batch: ColumnBatch) -> Any:
        """A column for the output: from JSON to JSON nothing is converted, and mixed values become text only in csv."""
        writer = writer_for(self.written_as)
        if writer is None or not (self.written_as.startswith(JSON_LINES) or name in self.mixed):
            return column
        values = self.values[name][batch.start : batch.start + batch.n]
        if self.written_as.startswith(JSON_LINES):
            return Objects(values)
        if not writer.keeps_text:
            raise DataError(
                f"'{name}' holds values of different kinds, which {writer.label} cannot hold",
                "write jsonl instead (-o out.jsonl), or leave the column out",
            )
        try:
            return _as_text(values)
        except UnicodeEncodeError:
            raise DataError(
                f"'{name}' holds half of a surrogate pair, which is not text", "write jsonl: -o out.jsonl"
            ) from None


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


def _readable(values: list[Any]) -> list[Any]:
    """Question marks for halves of surrogate pairs, which JSON may hold and arrow does not."""
    return [v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in values]


def _as_text(values: list[Any]) -> Any:
    """Text as it is, nothing for null and NaN, anything else as JSON."""
    import pyarrow as pa

    texts = [v if isinstance(v, str) else None if v is None or _is_nan(v) else json_text(v) for v in values]
    return pa.array(texts, pa.string())


def _column(values: list[Any]) -> Any:
    """Numbers, text, lists or objects as arrow finds them; None for values of different kinds."""
    import pyarrow as pa

    for kind in (None, pa.float64()):
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError):
            continue
    return None


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _has_truth_values(values: list[Any]) -> bool:
    return any(value is True or value is False for value in values)
