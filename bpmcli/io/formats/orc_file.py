"""ORC files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bpmcli.io.formats import reads
from bpmcli.io.formats.record_batches import ArrowReader


@reads("orc", ".orc")
class OrcReader(ArrowReader):
    """Stripe by stripe, and of them only the columns needed."""

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start.startswith(b"ORC")

    def schema(self) -> Any:
        from pyarrow import orc

        with self.opened() as raw:
            file = orc.ORCFile(raw)
            self.n_rows = file.nrows
            return file.schema

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        from pyarrow import orc

        with self.opened() as raw:
            file = orc.ORCFile(raw)
            for i in range(file.nstripes):
                record = file.read_stripe(i, columns=names)
                if record.num_rows:
                    yield record.select(names) if names is not None else record
