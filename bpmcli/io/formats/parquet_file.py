"""parquet files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from bpmcli.errors import DataError
from bpmcli.io.columns import is_text
from bpmcli.io.formats import reads, writes
from bpmcli.io.formats.parquet_footer import check_footer
from bpmcli.io.formats.reader import BATCH_BYTES, BATCH_VALUES, RowGroups
from bpmcli.io.formats.record_batches import ArrowReader
from bpmcli.io.formats.table_writer import ArrowWriter
from bpmcli.io.times import check_days

ROWS_AT_A_TIME = 1 << 20

CACHED_ROWS = 1 << 17
"""The most rows per batch if only some columns are read: so few that decoded values stay in the cache. If all columns
are read to be written again, batches are larger, because each becomes a row group."""

READ_BYTES = 1 << 18
"""A local file is read in pieces; a remote one column by column, since requests are slow."""

FEW_COLUMNS = 8
"""Up to this many columns are decoded by one thread, because every further thread needs its own memory."""

REPEATED_BYTES = 8
"""Text that takes no more bytes than this per row is read as a dictionary; dictionaries of unique text are slow."""
LARGEST_DICTIONARY = 1 << 22
"""Text with a larger dictionary than this is also read as a dictionary; common writers make none that large."""

LARGEST_CHUNK = 1 << 29
"""A column chunk that claims to unpack to more bytes than this is refused if it stores less than a thousandth."""
PACKED = 1000


@reads("parquet", ".parquet", ".pq")
class ParquetReader(ArrowReader):
    """Reads row groups, and only the columns needed."""

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start.startswith(b"PAR1")

    def schema(self) -> Any:
        import pyarrow.parquet as pq

        with self.opened() as raw, pq.ParquetFile(raw) as f:
            if "://" not in self.path:
                with open(self.path, "rb") as file:
                    check_footer(file, f.schema)
            self.n_rows = f.metadata.num_rows
            self.groups = [f.metadata.row_group(i).num_rows for i in range(f.num_row_groups)]
            self.texts = _dictionary_sizes(f)
            return f.schema_arrow

    def _repeats(self, name: str) -> bool:
        """Whether few bytes stand for many rows of text: only then can unpacking it take much memory."""
        values, size, dictionary = self.texts.get(name, (1, 0, 0))
        return size <= REPEATED_BYTES * values or dictionary > LARGEST_DICTIONARY

    def parts(self, rows: int) -> list[RowGroups]:
        found, first, at, inside = [], 0, 0, 0
        for i, n in enumerate(self.groups):
            inside += n
            if inside >= rows or i == len(self.groups) - 1:
                found.append(RowGroups(first, i, at))
                first, at, inside = i + 1, at + inside, 0
        return found

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        buffered = {"buffer_size": READ_BYTES, "pre_buffer": False} if "://" not in self.path else {}
        threads = len(names or self.columns) > FEW_COLUMNS
        # One long value may occur in many rows, so text is kept as a dictionary until it is written.
        texts = [name for name in names or self.columns if is_text(self.fields[name].type) and self._repeats(name)]
        with self.opened() as raw, pq.ParquetFile(raw, read_dictionary=texts, **buffered) as f:
            size = _batch_rows(f.metadata, None if names is None else set(names))
            # A few row groups at a time: given all of them, arrow keeps what it has read.
            for part in [self.row_groups] if self.row_groups else self.parts(ROWS_AT_A_TIME):
                groups = range(part.first_group, part.last_group + 1)
                yield from f.iter_batches(batch_size=size, columns=names, row_groups=groups, use_threads=threads)
                if names is None:
                    pa.default_memory_pool().release_unused()


def _dictionary_sizes(file: Any) -> dict[str, tuple[int, int, int]]:
    """For columns of text with dictionaries: number of values, unpacked bytes, and bytes of the largest dictionary."""
    found: dict[str, tuple[int, int, int]] = {}
    texts = {field.name for field in file.schema_arrow if is_text(field.type)}
    for i in range(file.metadata.num_row_groups if texts else 0):
        group = file.metadata.row_group(i)
        for k in range(group.num_columns):
            chunk = group.column(k)
            if (name := chunk.path_in_schema) in texts and chunk.has_dictionary_page:
                size = chunk.data_page_offset - (chunk.dictionary_page_offset or chunk.data_page_offset)
                values, unpacked, largest = found.get(name, (0, 0, 0))
                found[name] = values + chunk.num_values, unpacked + chunk.total_uncompressed_size, max(largest, size)
    return found


def _batch_rows(metadata: Any, names: set[str] | None) -> int:
    """Rows per batch, from what the first row group states about its columns. Impossible sizes in it are refused."""
    if not metadata.num_row_groups or not metadata.row_group(0).num_rows:
        return 1024
    group = metadata.row_group(0)
    values = unpacked = 0
    for i in range(group.num_columns):
        chunk = group.column(i)
        if names is not None and chunk.path_in_schema.split(".", 1)[0] not in names:
            continue
        if chunk.total_uncompressed_size > max(LARGEST_CHUNK, PACKED * chunk.total_compressed_size):
            raise DataError(
                f"column '{chunk.path_in_schema}' claims {chunk.total_uncompressed_size / 2**20:.0f} MB packed into "
                f"{chunk.total_compressed_size} bytes",
                "write it in smaller row groups",
            )
        values += chunk.num_values
        unpacked += chunk.total_uncompressed_size
    rows = int(group.num_rows)
    row_values = max(1, values // rows)
    row_bytes = max(1, unpacked // rows, 8 * row_values)
    size = max(1, min(max(1024, BATCH_VALUES // row_values), BATCH_BYTES // row_bytes))
    return size if names is None else min(size, CACHED_ROWS)


@writes(".parquet", ".pq")
class ParquetWriter(ArrowWriter):
    """Writes each batch as a row group, without dictionaries for floats: these would make files a third larger."""

    def prepare(self, name: str, values: Any) -> Any:
        found = super().prepare(name, values)
        if re.search(r"fixed_size_list<.*>\[0\]", str(found.type)):
            raise DataError("holds lists whose length is fixed at 0")  # pyarrow writes what it cannot read
        check_days(found)
        return found

    def open(self, target: Any, schema: Any) -> Any:
        import pyarrow.parquet as pq

        others = [f.name for f in schema if str(f.type) not in ("halffloat", "float", "double")]
        return pq.ParquetWriter(target, schema, use_dictionary=others)
