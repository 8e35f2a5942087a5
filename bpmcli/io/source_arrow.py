"""parquet and arrow files, as record batches of pyarrow; what text files share with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bpmcli.errors import DataError
from bpmcli.io.columns import Array, Lists, from_arrow
from bpmcli.io.sources import BATCH_VALUES, Batch, Column, Part, Source, source


class ArrowSource(Source):
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
class ParquetSource(ArrowSource):
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
class ArrowFileSource(ArrowSource):
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
