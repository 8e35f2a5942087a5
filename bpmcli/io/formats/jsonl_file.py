"""jsonl files: one JSON object per line, plain or gzipped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from bpmcli.errors import DataError
from bpmcli.io.formats import reads, writes
from bpmcli.io.formats.text_lines import Gzipped, TextReader, TextWriter, json_text, opened_text

BLOCK = 1 << 23
"""Bytes that pyarrow parses at a time; it takes the types of the fields from the first block."""


@reads("jsonl", ".jsonl", ".ndjson", ".jsonl.gz")
class JsonlReader(TextReader):
    """One JSON object per line."""

    @classmethod
    def looks_like(cls, text: bytes) -> bool:
        lines = text.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)
        if not lines[0].startswith(b"{"):
            return False
        return len(lines) == 1 or lines[0].rstrip().endswith(b"}")

    def _open(self, schema: Any | None, others: str = "infer") -> Any:
        from pyarrow import json

        from bpmcli.io.formats.json_lines import CheckedLines

        return json.open_json(
            CheckedLines(self.stream()),
            read_options=json.ReadOptions(use_threads=False, block_size=BLOCK),
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
                self._explain(str(e))

    def _explain(self, text: str) -> None:
        """pyarrow's errors with the name of the field and the row."""
        from bpmcli.io.formats.json_lines import first_fault, lines_of

        changed = re.search(r"Column\(/([^/)]+).*\) (?:changed from|was specified)", text)
        with self.stream() as raw:
            fault = first_fault(lines_of(raw), changed[1] if changed else None)
        if fault:
            hint = "write a null instead" if "too large" in fault else "write every line in the same way"
            raise DataError(fault, hint) from None
        if "unexpected field" in text:
            raise DataError(
                f"a line has a field that the first {BLOCK >> 20} MB of lines do not have",
                "give every line the same fields",
            ) from None
        # pyarrow counts from 0, and from the beginning of a block.
        whole = not self.compressed and self.size() <= BLOCK
        raise ValueError(
            re.sub(r" in row (\d+)", lambda m: f" in row {int(m[1]) + 1}" if whole else "", text)
        ) from None

    def schema(self) -> Any:
        if self.size() == 0:
            raise DataError("no rows")
        with self._open(None) as reader:
            return reader.schema

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        numbers = set(numeric)

        def kind(name: str) -> Any:
            found = self.fields[name].type
            if pa.types.is_timestamp(found):
                return pa.string()  # pyarrow takes text that looks like a date for a date
            if (name not in numbers or pa.types.is_string(found)) and not pa.types.is_null(found):
                return found
            return pa.list_(pa.float64()) if pa.types.is_list(found) else pa.float64()

        # Fields that are not asked for may come, go and change from line to line.
        dates = [name for name, field in self.fields.items() if pa.types.is_timestamp(field.type)]
        wanted = list(dict.fromkeys([*numeric, *dates])) if names is None else names
        schema = pa.schema([pa.field(name, kind(name)) for name in wanted]) if wanted else None
        with self._open(schema, "infer" if names is None else "ignore") as reader:
            for record in reader:
                if record.num_rows:
                    yield record.select(names) if names is not None else record

    @classmethod
    def written(cls, path: str) -> tuple[list[str], int]:
        lines = 0
        with opened_text(path) as raw:
            first = raw.readline()
            lines += bool(first)
            while block := raw.read(1 << 22):
                lines += block.count(b"\n")
        return list(json.loads(first or b"{}")), lines


@writes(".jsonl", ".ndjson")
class JsonlWriter(TextWriter):
    """One object per line; matrices stay lists."""

    def prepare(self, name: str, values: Any) -> list[str]:
        found = super().prepare(name, values)
        if isinstance(values, np.ndarray) and values.ndim == 1:
            if values.dtype.kind == "f" and np.isfinite(values).all():
                return list(map(float.__repr__, found))
            if values.dtype.kind in "iu":
                return list(map(int.__repr__, found))
        return [json_text(value) for value in found]

    def put(self, columns: Mapping[str, Any]) -> None:
        keys = [json.dumps(name, ensure_ascii=False) + ": " for name in columns]
        for values in zip(*columns.values(), strict=True):
            line = ", ".join(key + value for key, value in zip(keys, values, strict=True))
            self.file.write("{" + line + "}\n")


@writes(".jsonl.gz")
class JsonlGzWriter(Gzipped, JsonlWriter):
    """Compressed jsonl."""
