"""What the writers of parquet and arrow files have in common: arrow tables that keep the input's schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bpmcli.errors import DataError
from bpmcli.io.columns import to_arrow
from bpmcli.io.formats.reader import Reader, is_plain
from bpmcli.io.formats.writer import Writer, spread_matrices

PANDAS = b"pandas"
"""The key under which pandas describes the columns and the index."""


class ArrowWriter(Writer):
    """Writes arrow tables."""

    def __init__(self, path: str, metadata: Mapping[str, str], origin: Reader | None = None) -> None:
        super().__init__(path, metadata, origin)
        self.out: Any = None
        self.schema: Any = None
        self.raw: Any = None

    def spread(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        return spread_matrices(columns)

    def prepare(self, name: str, values: Any) -> Any:
        import pyarrow as pa

        try:
            return to_arrow(values)
        except pa.ArrowException as error:
            raise DataError(f"holds a value ({' '.join(str(error).split())[:120]})") from None

    def put(self, columns: Mapping[str, Any]) -> None:
        import pyarrow as pa

        try:
            if self.out is None:
                self.schema = self._schema(columns)
                self.raw = None if is_plain(self.path) else open(self.path, "wb")  # noqa: SIM115
                self.out = self.open(self.raw or self.path, self.schema)
            self.out.write_table(pa.table(list(columns.values()), schema=self.schema))
        except (pa.ArrowException, NotImplementedError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # errors of the system have a number; pyarrow raises OSError for some types too
            name = next((name for name in columns if not self._can_hold(name, columns[name])), "a column")
            raise self.cannot_hold(name, f"holds a value ({' '.join(str(error).split())[:160]})") from None

    def _can_hold(self, name: str, values: Any) -> bool:
        """Whether a column can be written on its own."""
        import pyarrow as pa

        try:
            one = pa.table([values], schema=pa.schema([self.schema.field(name)]))
            with self.open(pa.BufferOutputStream(), one.schema) as out:
                out.write_table(one)
        except (pa.ArrowException, NotImplementedError, OSError):
            return False
        return True

    def _schema(self, columns: Mapping[str, Any]) -> Any:
        """The fields of the input where they are unchanged, and its metadata."""
        import pyarrow as pa

        before = getattr(self.origin, "fields", {})
        fields = []
        for name, values in columns.items():
            known = before.get(name)
            same = known is not None and known.type == values.type
            fields.append(known if same else pa.field(name, values.type))
        return pa.schema(fields, metadata=self._metadata(columns) or None)

    def _metadata(self, columns: Mapping[str, Any]) -> dict[bytes, bytes]:
        found = dict(self.origin.table_metadata) if self.origin else {}
        if PANDAS in found:
            described = _pandas_description(found.pop(PANDAS), columns)
            if described:
                found[PANDAS] = described
        return found | {key.encode(): value.encode() for key, value in self.metadata.items()}

    def open(self, target: Any, schema: Any) -> Any:
        """pyarrow's writer for the format."""
        raise NotImplementedError

    def close(self) -> None:
        if self.out is not None:
            self.out.close()
        if self.raw is not None:
            self.raw.close()


def _pandas_description(text: bytes, columns: Mapping[str, Any]) -> bytes:
    """The description without columns that no longer exist; columns whose type changed are floats now."""
    try:
        document = json.loads(text)
        kept = [entry for entry in document["columns"] if (entry.get("field_name") or entry["name"]) in columns]
        for entry in kept:
            now = str(columns[entry.get("field_name") or entry["name"]].type)
            if now == "double":
                entry["pandas_type"] = entry["numpy_type"] = "float64"
        index = [i for i in document["index_columns"] if not isinstance(i, str) or i in columns]
        return json.dumps(document | {"columns": kept, "index_columns": index}).encode()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return b""
