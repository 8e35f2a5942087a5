"""csv, tsv and jsonl files, plain or gzipped, as record batches of pyarrow; their errors with a row."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from bpmcli.errors import DataError
from bpmcli.io.source_arrow import ArrowSource
from bpmcli.io.sources import source, suffix_of

SHORTEST_LINE = 4

JSON_BLOCK = 1 << 23


class _TextSource(ArrowSource):
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
                        "fix that line",
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
