"""Arrow IPC files (feather version 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bpmcli.errors import DataError
from bpmcli.io.formats import reads, writes
from bpmcli.io.formats.arrow_layout import file_batches
from bpmcli.io.formats.reader import Reader, is_plain
from bpmcli.io.formats.record_batches import ArrowReader
from bpmcli.io.formats.table_writer import ArrowWriter
from bpmcli.io.opening import open_bytes

LARGEST_BATCH = 1 << 30
"""Record batches are read whole. A larger one, in bytes, is refused if all columns are needed."""


@reads("arrow", ".arrow", ".feather")
class ArrowFileReader(ArrowReader):
    """Record batches. Files are not memory-mapped: a file that shrinks while it is read is an error, not a crash."""

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
        with open_bytes(self.path) as raw:
            found = file_batches(raw)
        self.n_rows = sum(batch.rows for batch in found if batch.is_rows)
        self._largest = max((batch.size for batch in found), default=0)
        with self._opened() as raw, self._batches(raw, None) as f:
            return f.schema

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        order = {name: i for i, name in enumerate(self.fields)}
        wanted = None if names is None else [order[name] for name in names]
        if names is None and self._largest > LARGEST_BATCH:
            raise DataError(
                f"has record batches of {self._largest / 2**30:.1f} GiB, but at most {LARGEST_BATCH >> 30} GiB are "
                "read at once",
                "write smaller batches, or parquet",
            )
        with self._opened() as raw, self._batches(raw, wanted) as f:
            for i in range(f.num_record_batches):
                record = f.get_batch(i)
                if record.num_rows:
                    yield record


@writes(".arrow", ".feather")
class ArrowFileWriter(ArrowWriter):
    """Arrow IPC. A column has one dictionary for the whole file, which batches may only add words to."""

    def __init__(self, path: str, metadata: Mapping[str, str], origin: Reader | None = None) -> None:
        super().__init__(path, metadata, origin)
        self.words: dict[str, Any] = {}

    def prepare(self, name: str, values: Any) -> Any:
        import pyarrow as pa

        column = super().prepare(name, values)
        if not pa.types.is_dictionary(column.type):
            return column
        if name in self.words and not column.dictionary.equals(self.words[name]):
            column = _with_words(column, self.words[name])
        self.words[name] = column.dictionary
        return column

    def open(self, target: Any, schema: Any) -> Any:
        import pyarrow as pa

        return pa.ipc.new_file(target, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True))


def _with_words(column: Any, words: Any) -> Any:
    """The same column; its dictionary begins with `words`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    own = column.dictionary
    words = pa.concat_arrays([words, own.filter(pc.is_null(pc.index_in(own, words)))])
    codes = pc.index_in(own, words).take(column.indices).cast(column.type.index_type)
    return pa.DictionaryArray.from_arrays(codes, words, ordered=column.type.ordered)
