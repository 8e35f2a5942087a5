"""parquet, arrow, csv and jsonl files, as record batches of pyarrow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from bpmcli.errors import DataError
from bpmcli.io.columns import Array, Lists, from_arrow
from bpmcli.io.sources import BATCH_VALUES, Batch, Column, Part, Source, source, suffix_of


class _ArrowSource(Source):
    """What parquet, csv, jsonl and arrow files share: record batches."""

    def schema(self) -> Any:
        raise NotImplementedError

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        raise NotImplementedError

    def inspect(self) -> None:
        import pyarrow as pa

        schema = self.schema()
        for key, value in (schema.metadata or {}).items():
            if key.startswith(b"bpmcli"):
                self.metadata[key.decode()] = value.decode("utf-8", "replace")
        for f in schema:
            kind, width = f.type, None
            if pa.types.is_fixed_size_list(kind):
                kind, width = kind.value_type, kind.list_size
            elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
                kind, width = kind.value_type, 0
            letter = (
                "f" if pa.types.is_floating(kind) or pa.types.is_decimal(kind)
                else "i" if pa.types.is_integer(kind)
                else "b" if pa.types.is_boolean(kind)
                else "U"
            )  # fmt: skip
            if f.name in self.columns:
                raise DataError(f"two columns are called '{f.name}'", "give every column a name of its own")
            self.columns[f.name] = Column(f.name, width, letter)

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[Batch]:
        start = self.part.first_row if self.part else 0
        for record in self.record_batches(None if rest else list(dict.fromkeys(names)), numeric):
            columns: dict[str, Array | Lists] = {}
            missing: Array | None = None
            nulls: dict[str, Array] = {}
            for name in names:
                columns[name], null = from_arrow(record.column(name))
                if null is not None:
                    missing = null if missing is None else missing | null
                    nulls[name] = null
            passed = {f.name: record.column(f.name) for f in record.schema if f.name not in columns}
            yield Batch(start, record.num_rows, columns, passed, missing, nulls)
            start += record.num_rows


ROWS_AT_A_TIME = 1 << 20

CACHED_ROWS = 1 << 17
"""Rows of a batch that is only looked at: what was decoded is still in the cache. What is written makes row groups."""

READ_BYTES = 1 << 18
"""A local file is read in pieces; a remote one column by column, since requests are slow."""

FEW_COLUMNS = 8
"""So many are decoded by one thread: every further one has memory of its own."""


@source("parquet", ".parquet", ".pq", magic=b"PAR1")
class ParquetSource(_ArrowSource):
    """Row groups, only the columns needed."""

    def schema(self) -> Any:
        import pyarrow.parquet as pq

        with self.opened() as raw, pq.ParquetFile(raw) as f:
            self.n_rows = f.metadata.num_rows
            self.groups = [f.metadata.row_group(i).num_rows for i in range(f.num_row_groups)]
            return f.schema_arrow

    def parts(self, rows: int) -> list[Part]:
        found, first, at, inside = [], 0, 0, 0
        for i, n in enumerate(self.groups):
            inside += n
            if inside >= rows or i == len(self.groups) - 1:
                found.append(Part(first, i, at))
                first, at, inside = i + 1, at + inside, 0
        return found

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        buffered = {"buffer_size": READ_BYTES, "pre_buffer": False} if "://" not in self.path else {}
        threads = len(names or self.columns) > FEW_COLUMNS
        with self.opened() as raw, pq.ParquetFile(raw, **buffered) as f:
            size = max(1024, BATCH_VALUES // _values_per_row(f.metadata, names))
            if names is not None:
                size = min(size, CACHED_ROWS)
            # A few row groups at a time: given all of them, arrow holds on to what it has read.
            for part in [self.part] if self.part else self.parts(ROWS_AT_A_TIME):
                groups = range(part.first_group, part.last_group + 1)
                yield from f.iter_batches(batch_size=size, columns=names, row_groups=groups, use_threads=threads)
                if names is None:
                    pa.default_memory_pool().release_unused()


def _values_per_row(metadata: Any, names: list[str] | None) -> int:
    """Lists count with their length, so that batches of wide scores stay small."""
    if not metadata.num_row_groups or not metadata.row_group(0).num_rows:
        return 1
    group = metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    wanted = [c for c in chunks if names is None or c.path_in_schema.split(".")[0] in names]
    return max(1, int(sum(c.num_values for c in wanted)) // int(group.num_rows))


@source("arrow", ".arrow", ".feather", magic=b"ARROW1")
class ArrowFileSource(_ArrowSource):
    """Arrow IPC files (feather version 2)."""

    def _mapped(self) -> Any:
        import pyarrow as pa

        return pa.memory_map(self.path) if "://" not in self.path else self.opened()

    def schema(self) -> Any:
        import pyarrow as pa

        with self._mapped() as raw, pa.ipc.open_file(raw) as f:
            self.n_rows = sum(f.get_batch(i).num_rows for i in range(f.num_record_batches))
            return f.schema

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        with self._mapped() as raw, pa.ipc.open_file(raw) as f:
            for i in range(f.num_record_batches):
                record = f.get_batch(i)
                if record.num_rows:
                    yield record.select(names) if names is not None else record


class _TextSource(_ArrowSource):
    """Rows are lines."""

    @property
    def compressed(self) -> bool:
        return suffix_of(self.path).endswith(".gz")

    def stream(self) -> Any:
        import pyarrow as pa

        raw = self.path
        if "://" in self.path:
            from bpmcli.io.remote import opened

            raw = opened(self.path)
        return pa.input_stream(raw, compression="gzip" if self.compressed else None)

    def size(self) -> int:
        if "://" not in self.path:
            return os.path.getsize(self.path)
        from bpmcli.io.remote import size

        return int(size(self.path))

    def rows_at_most(self, enough: int) -> int:
        # The shortest line is "1,1"; gzip cannot pack more than a thousandfold.
        bound = self.size() * (1000 if self.compressed else 1) // SHORTEST_LINE + 1
        if bound <= enough:
            return bound
        lines = 1
        with self.reporting(), self.stream() as raw:
            while block := raw.read(1 << 22):
                lines += block.count(b"\n")
        return lines


SHORTEST_LINE = 4


@source("csv", ".csv", ".csv.gz")
class CsvSource(_TextSource):
    """Comma-separated text with a header; gzip by suffix."""

    delimiter: ClassVar[str] = ","

    def _open(self, names: list[str] | None, numeric: Sequence[str], texts: Sequence[str]) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        self._bad_row: Any = None

        def remember(row: Any) -> str:
            self._bad_row = row
            return "error"

        types = {name: pa.float64() for name in numeric} | {name: pa.string() for name in texts}
        return csv.open_csv(
            self.stream(),
            read_options=csv.ReadOptions(use_threads=False, block_size=1 << 23),
            parse_options=csv.ParseOptions(delimiter=self.delimiter, invalid_row_handler=remember),
            convert_options=csv.ConvertOptions(
                include_columns=names,
                column_types=types,
                strings_can_be_null=not texts,
                quoted_strings_can_be_null=False,
            ),
        )

    @contextmanager
    def reporting(self) -> Iterator[None]:
        with super().reporting():
            try:
                yield
            except (ValueError, OSError) as e:
                row = getattr(self, "_bad_row", None)
                if row is not None:
                    self._bad_row = None
                    raise DataError(
                        f"line {row.number} has {row.actual_columns} fields, the header {row.expected_columns}",
                        "quote fields that hold the separator, and leave no line cut off",
                    ) from None
                if "Empty CSV" in str(e):
                    raise DataError("no rows") from None
                where = re.search(r"In CSV column #(\d+): .*?conversion error to (\w+): invalid value '(.*?)'", str(e))
                if where:
                    name = self._converting[int(where[1])] if getattr(self, "_converting", None) else f"#{where[1]}"
                    raise DataError(
                        f"column '{name}' holds '{where[3]}'{self._row_with(name, where[3])}, which is not "
                        f"{self._expected(where[2])}",
                        "fix that line, or leave it empty",
                    ) from None
                raise

    @staticmethod
    def _expected(kind: str) -> str:
        if kind == "double":
            return "a number"
        return {"int64": "a whole number", "bool": "true or false"}.get(kind, f"a {kind}") + ", as all before it are"

    def _row_with(self, name: str, text: str) -> str:
        """Read once more, as text: the first row that holds it is the one, since types are the same all the way."""
        import pyarrow.compute as pc

        start = 0
        try:
            with self._open([name], (), [name]) as reader:
                for record in reader:
                    at = pc.index(record.column(0), text).as_py()
                    if at >= 0:
                        return f" (row {start + at + 1})"
                    start += record.num_rows
        except (ValueError, OSError, KeyError):
            pass
        return ""

    def schema(self) -> Any:
        self._check_text()
        with self._open(None, (), ()) as reader:
            names = reader.schema.names
            if len(names) == 1 and ";" in names[0]:
                raise DataError("columns are separated by ';'", f"separate them by {self.delimiter!r}")
            return reader.schema

    def _check_text(self) -> None:
        """pyarrow chokes audibly on bytes that are no text."""
        with self.stream() as raw:
            start = raw.read(1 << 16)
        try:
            start.decode("utf-8")
            torn = False
        except UnicodeDecodeError as error:
            torn = error.start < len(start) - 4  # the last character may be cut
        if torn or b"\0" in start:
            raise DataError("is not text (UTF-8)", "does its suffix fit its content?")

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        # Columns that only pass through stay text, so that they come out as they went in.
        texts = [c for c in self.columns if c not in numeric] if names is None and self.keep_text else []
        self._converting = names or list(self.columns)
        with self._open(names, numeric, texts) as reader:
            for record in reader:
                if record.num_rows:
                    yield record


@source("tsv", ".tsv", ".tsv.gz")
class TsvSource(CsvSource):
    """Tab-separated text with a header."""

    delimiter: ClassVar[str] = "\t"


JSON_BLOCK = 1 << 23


@source("jsonl", ".jsonl", ".ndjson", ".jsonl.gz")
class JsonlSource(_TextSource):
    """One JSON object per line; gzip by suffix."""

    def _open(self, schema: Any | None, others: str = "infer") -> Any:
        from pyarrow import json

        from bpmcli.io.json_lines import CheckedLines

        return json.open_json(
            CheckedLines(self.stream()),
            read_options=json.ReadOptions(use_threads=False, block_size=JSON_BLOCK),
            parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
        )

    @contextmanager
    def reporting(self) -> Iterator[None]:
        with super().reporting():
            try:
                yield
            except ValueError as e:
                if not str(e).startswith("JSON parse error"):
                    raise
                from bpmcli.io.json_lines import first_fault, lines_of

                changed = re.search(r"Column\(/([^/)]+).*\) (?:changed from|was specified)", str(e))
                with self.stream() as raw:
                    fault = first_fault(lines_of(raw), changed[1] if changed else None)
                if fault:
                    hint = "write a null instead" if "too large" in fault else "write every line in the same way"
                    raise DataError(fault, hint) from None
                if "unexpected field" in str(e):
                    raise DataError(
                        "a field comes up that the first 8 MB of lines do not have", "give every line the same fields"
                    ) from None
                # pyarrow counts from 0, and from the beginning of a block.
                whole = not self.compressed and self.size() <= JSON_BLOCK
                text = re.sub(r" in row (\d+)", lambda m: f" in row {int(m[1]) + 1}" if whole else "", str(e))
                raise ValueError(text) from None

    def schema(self) -> Any:
        if self.size() == 0:
            raise DataError("no rows")
        with self._open(None) as reader:
            self._schema = reader.schema
            return reader.schema

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        def kind(name: str) -> Any:
            found = self._schema.field(name).type
            if name not in numeric and not pa.types.is_null(found):
                return found
            return pa.list_(pa.float64()) if pa.types.is_list(found) else pa.float64()

        # Fields that nobody asked for may come, go and change as they like.
        wanted = numeric if names is None else names
        schema = pa.schema([pa.field(name, kind(name)) for name in wanted]) if wanted else None
        with self._open(schema, "infer" if names is None else "ignore") as reader:
            for record in reader:
                if record.num_rows:
                    yield record.select(names) if names is not None else record
