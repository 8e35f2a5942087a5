"""ORC files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bpmcli.errors import DataError
from bpmcli.io.formats import reads
from bpmcli.io.formats.record_batches import ArrowReader

LARGEST_UNPACKED = 1 << 28
"""Bytes that a file may unpack to, however small it is."""
LARGEST_RATIO = 64
"""A file that unpacks to more may unpack to at most this many times its size."""


@reads("orc", ".orc")
class OrcReader(ArrowReader):
    """Reads stripe by stripe, and only the columns needed."""

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start.startswith(b"ORC")

    def schema(self) -> Any:
        from pyarrow import orc

        with self.opened() as raw:
            file = orc.ORCFile(raw)
            self.n_rows, schema = file.nrows, file.schema
            self._check_claim(file.nrows * max(1, len(schema)) * 8, file.file_length)
            return schema

    def _check_claim(self, claimed: int, stored: int) -> None:
        """Raise DataError if the file claims far more values than it can hold: stripes are read whole."""
        if claimed > max(LARGEST_UNPACKED, LARGEST_RATIO * stored):
            raise DataError(
                f"claims {claimed / 2**20:.0f} MB packed into {stored} bytes",
                "write it as parquet, in small row groups",
            )

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        from pyarrow import orc

        with self.opened() as raw:
            file = orc.ORCFile(raw)
            for i in range(file.nstripes):
                record = file.read_stripe(i, columns=names)
                if record.num_rows:
                    yield record.select(names) if names is not None else record
