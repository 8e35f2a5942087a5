"""jsonl files: one JSON object per line, plain or gzipped."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from json.encoder import encode_basestring
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from bpmcli.errors import DataError
from bpmcli.io.columns import ABSENT, Objects
from bpmcli.io.formats import reads, writes
from bpmcli.io.formats.json_lines import BYTE_ORDER_MARK, whole_numbers_in, within_float64
from bpmcli.io.formats.reader import ColumnBatch, ColumnInfo
from bpmcli.io.formats.record_batches import column_batch
from bpmcli.io.formats.text_lines import CountedLines, Gzipped, TextReader, TextWriter, json_text, opened_text
from bpmcli.io.formats.writer import one_per_row

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

    @contextmanager
    def _open(self, schema: Any | None, others: str = "infer") -> Iterator[Any]:
        from pyarrow import json

        from bpmcli.io.formats.json_lines import CheckedLines

        read = json.ReadOptions(use_threads=False, block_size=BLOCK)
        parse = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)
        with self.stream() as raw:
            lines = CheckedLines(raw)
            with json.open_json(lines, read, parse) as reader:
                yield reader, lines

    @contextmanager
    def reporting(self) -> Iterator[None]:
        with super().reporting():
            try:
                yield
            except ValueError as e:
                if "straddl" in str(e):
                    raise DataError(f"has a line of more than {BLOCK >> 20} MB", "is it one object per line?") from None
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
        if changed and "changed from" in text:
            raise DataError(
                f"'{changed[1]}' holds values of different kinds", "write every line in the same way"
            ) from None
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
            raise DataError("no rows", "is the file complete?")
        try:
            with self._open(None) as (reader, _):
                return reader.schema
        except ValueError as error:
            if "changed from" not in str(error):
                raise
            return self._mixed_schema()

    def _mixed_schema(self) -> Any:
        """Fields whose type changes from line to line are read as text unless they are needed."""
        import pyarrow as pa

        kinds: dict[str, set[str]] = {}
        for row in next(self._objects(), []):
            for name, value in row.items():
                is_list = isinstance(value, list) and all(type(v) in (int, float) for v in value)
                kind = "list" if is_list else "number" if type(value) in (int, float) else type(value).__name__
                kinds.setdefault(name, set()).update({kind} - {"NoneType"})
        types = {"list": pa.list_(pa.float64()), "number": pa.float64(), "bool": pa.bool_()}
        return pa.schema(
            [(name, types.get(next(iter(found)), pa.string()) if len(found) == 1 else pa.string())
             for name, found in kinds.items()]
        )  # fmt: skip

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        numbers = set(numeric)

        def kind(name: str) -> Any:
            found = without_times(self.fields[name].type)
            kept = name not in numbers or pa.types.is_string(found) or pa.types.is_struct(found)
            if kept and not pa.types.is_null(found):
                return found
            return pa.list_(pa.float64()) if pa.types.is_list(found) else pa.float64()

        # Fields that are not asked for may differ from line to line.
        dates = [name for name, field in self.fields.items() if without_times(field.type) != field.type]
        wanted = list(dict.fromkeys([*numeric, *dates])) if names is None else names
        schema = pa.schema([pa.field(name, kind(name)) for name in wanted]) if wanted else None
        with self._open(schema, "infer" if names is None else "ignore") as (reader, lines):
            for record in reader:
                if lines.replaced and names is None:
                    raise DataError("holds half of a surrogate pair, which is not text", "write jsonl: -o out.jsonl")
                if record.num_rows:
                    yield record.select(names) if names is not None else record

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[ColumnBatch]:
        if not (rest and self.written_as.startswith((".jsonl", ".ndjson"))):
            yield from super().read(names, numeric, rest)
            return
        # From JSON to JSON nothing is converted: numbers of any size, texts that look like dates, mixed types.
        start = 0
        for rows in self._objects():
            found = _by_field(rows)
            for name in found:
                self.columns.setdefault(name, ColumnInfo(name, None, "U"))
            by_name = {name: self._typed(name, [row.get(name) for row in rows]) for name in names}
            batch = column_batch(by_name, len(rows), start, names, set(numeric))
            passed = {name: Objects(values) for name, values in found.items() if name not in numeric}
            yield batch._replace(passed=passed)
            start += len(rows)

    def _objects(self) -> Iterator[list[dict[str, Any]]]:
        """The lines as Python objects, about as many at a time as pyarrow would take."""
        from bpmcli.io.formats.json_lines import lines_of, parsed

        rows: list[dict[str, Any]] = []
        size = 0
        with self.stream() as raw:
            for number, line in enumerate(lines_of(raw), start=1):
                if not line.strip():
                    continue
                try:
                    row = parsed(line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line)
                except (ValueError, RecursionError, StopIteration):
                    raise DataError(f"line {number} is not valid JSON", "write every line in the same way") from None
                if not isinstance(row, dict):
                    raise DataError(f"line {number} is not a JSON object", "every line is one object, in braces")
                rows.append(row)
                size += len(line)
                if size > BLOCK:
                    yield rows
                    rows, size = [], 0
        if rows:
            yield rows

    def _typed(self, name: str, values: list[Any]) -> Any:
        """The values of a field that is needed, as an arrow column of numbers, lists of numbers or what arrow finds."""
        import pyarrow as pa

        # To arrow an empty text is an empty list.
        text = any(isinstance(value, str) for value in values)
        kinds = (None,) if text else (pa.float64(), pa.list_(pa.float64()), None)
        for convert, kind in product((None, within_float64), kinds):
            try:
                found = values if convert is None else list(map(convert, values))
                return pa.array(found) if kind is None else pa.array(found, kind)
            except (pa.ArrowException, OverflowError, TypeError):
                continue
        raise DataError(f"'{name}' holds values of different kinds", "write every line in the same way")

    def whole_numbers(self, name: str) -> Iterator[str]:
        for rows in self._objects():
            found = (number for row in rows for number in whole_numbers_in(row.get(name)))
            yield from map(str, found)

    @classmethod
    def written(cls, path: str) -> tuple[list[str], int]:
        counted = CountedLines(BLOCK)
        with opened_text(path) as raw:
            first = raw.readline()
        with opened_text(path) as raw:
            while block := raw.read(min(1 << 22, BLOCK)):
                counted.add_plain(block)
        return list(json.loads(first or b"{}")), counted.lines


def without_times(kind: Any) -> Any:
    """The type with text instead of times at any depth: pyarrow takes text that looks like a date for a time."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(without_times(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(without_times(each.type)) for each in kind])
    return kind


def _by_field(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The values of every field; ABSENT where an object does not have it."""
    names = list(rows[0])
    if all(len(row) == len(names) for row in rows):
        with suppress(KeyError):
            return {name: list(map(itemgetter(name), rows)) for name in names}
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name, ABSENT) for row in rows] for name in names}


SURROGATE = re.compile("[\ud800-\udfff]")


@writes(".jsonl", ".ndjson")
class JsonlWriter(TextWriter):
    """One object per line; matrices stay lists."""

    fixed_columns: ClassVar[bool] = False

    def spread(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        return {name: one_per_row(values) for name, values in columns.items()}

    def prepare(self, name: str, values: Any) -> list[Any]:
        if isinstance(values, Objects):
            return json_texts(values.values)
        found = super().prepare(name, values)
        if isinstance(values, np.ndarray) and values.ndim == 1:
            if values.dtype.kind == "f" and np.isfinite(values).all():
                return list(map(float.__repr__, found))
            if values.dtype.kind in "iu":
                return list(map(int.__repr__, found))
        return [json_text(value) for value in found]

    def put(self, columns: Mapping[str, Any]) -> None:
        keys = [json.dumps(name, ensure_ascii=False) + ": " for name in columns]
        rows = zip(*columns.values(), strict=True)
        if any(ABSENT in values for values in columns.values()):
            pairs = ([k + v for k, v in zip(keys, row, strict=True) if v is not ABSENT] for row in rows)
            text = "".join(["{" + ", ".join(pair) + "}\n" for pair in pairs])
        else:
            line = "{" + ", ".join(key.replace("%", "%%") + "%s" for key in keys) + "}\n"
            text = "".join([line % row for row in rows])
        try:
            self.file.write(text)
        except UnicodeEncodeError:  # half of a surrogate pair, which UTF-8 cannot hold and JSON writes as \\udxxx
            self.file.write(SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def json_texts(values: list[Any]) -> list[Any]:
    """Every value as JSON; ABSENT stays. Columns of one type are converted at once."""
    kinds = set(map(type, values))
    if kinds == {float} and all(map(math.isfinite, values)):
        return list(map(float.__repr__, values))
    if kinds == {int}:
        return list(map(int.__repr__, values))
    if kinds == {str}:
        return list(map(encode_basestring, values))
    return [value if value is ABSENT else json_text(value) for value in values]


@writes(".jsonl.gz")
class JsonlGzWriter(Gzipped, JsonlWriter):
    """Compressed jsonl."""
