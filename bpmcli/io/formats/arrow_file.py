"""Arrow IPC files (feather version 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bpmcli.errors import DataError
from bpmcli.io.formats import reads, writes
from bpmcli.io.formats.reader import is_plain
from bpmcli.io.formats.record_batches import ArrowReader
from bpmcli.io.formats.table_writer import ArrowWriter

LARGEST_BATCH = 1 << 30
"""Record batches are read whole: one of more bytes than this is refused where all columns are needed."""


@reads("arrow", ".arrow", ".feather")
class ArrowFileReader(ArrowReader):
    """Record batches, read and not memory-mapped: a file that shrinks meanwhile is an error and not a crash."""

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start.startswith(b"ARROW1")

    def _opened(self) -> Any:
        import pyarrow as pa

        return pa.OSFile(self.path) if "://" not in self.path and is_plain(self.path) else self.opened()

    def _batches(self, raw: Any, fields: list[int] | None) -> Any:
        import pyarrow as pa

        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields or [])
        return pa.ipc.open_file(raw, options=options)

    def schema(self) -> Any:
        import pyarrow as pa

        with self._opened() as raw, self._batches(raw, None) as f:
            schema, count = f.schema, f.num_record_batches
        fixed = [i for i, field in enumerate(schema) if pa.types.is_primitive(field.type)]
        with self._opened() as raw, self._batches(raw, fixed[:1] or [0]) as f:
            self.n_rows = sum(f.get_batch(i).num_rows for i in range(count)) if len(schema) else 0
        self._count = count
        return schema

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        order = {name: i for i, name in enumerate(self.fields)}
        wanted = None if names is None else [order[name] for name in names]
        if names is None and "://" not in self.path:
            self._check_size()
        with self._opened() as raw, self._batches(raw, wanted) as f:
            for i in range(f.num_record_batches):
                record = f.get_batch(i)
                if record.num_rows:
                    yield record

    def _check_size(self) -> None:
        import os

        size = os.path.getsize(self.path) // max(1, self._count)
        if size > LARGEST_BATCH:
            raise DataError(
                f"has record batches of {size / 2**30:.1f} GiB, and at most {LARGEST_BATCH >> 30} GiB are read at once",
                "write smaller batches, or parquet",
            )


@writes(".arrow", ".feather")
class ArrowFileWriter(ArrowWriter):
    """Arrow IPC."""

    def open(self, target: Any, schema: Any) -> Any:
        import pyarrow as pa

        return pa.ipc.new_file(target, schema)
