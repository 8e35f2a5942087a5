"""What all readers that use pyarrow have in common: parquet, arrow, ORC, csv, jsonl and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

from bpmcli.core.data.categorical import Categorical
from bpmcli.errors import DataError
from bpmcli.io.columns import EXACT_INTEGER, Array, Lists, Objects, from_arrow, is_text
from bpmcli.io.formats import writer_for
from bpmcli.io.formats.reader import BATCH_BYTES, ColumnBatch, ColumnInfo, Reader

MOST_COLUMNS = 50_000
"""The most columns of a table: pyarrow takes some ten kilobytes for each of them."""

MOST_ROWS = 1 << 20
"""Rows that are converted at a time; some files have all their rows in one batch."""


class ArrowReader(Reader):
    """A reader that gets its rows from pyarrow."""

    from_disk: ClassVar[bool] = True
    """Whether offsets, indices and text come unchecked from the file. False if pyarrow makes and checks them itself."""

    has_digits: ClassVar[bool] = False
    """Whether numbers are stored as text, with any number of digits."""

    def schema(self) -> Any:
        """The arrow schema of the file."""
        raise NotImplementedError

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        """The record batches with the named columns, or with all of them for None."""
        raise NotImplementedError

    def inspect(self) -> None:
        schema = self.schema()
        if len(schema) > MOST_COLUMNS:
            raise DataError(
                f"has {len(schema)} columns, but at most {MOST_COLUMNS} are read", "store scores in one column of lists"
            )
        self.fields = {f.name: f for f in schema}
        for key, value in (schema.metadata or {}).items():
            if key.startswith(b"bpmcli"):
                self.metadata[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
            else:
                self.table_metadata[key] = value
        for f in schema:
            if f.name in self.columns:
                raise DataError(f"two columns are called '{f.name}'", "give every column a name of its own")
            self.columns[f.name] = _column_info(f)

    def class_names(self, label: str, n: int) -> tuple[str, ...] | None:
        """The class names in the metadata: a JSON list under `classes` or `class_names`."""
        import json

        try:
            for key in (b"classes", b"class_names"):
                if key in self.table_metadata:
                    found = json.loads(self.table_metadata[key])
                    if isinstance(found, list) and len(found) == n:
                        return tuple(map(str, found))
        except (ValueError, RecursionError):
            pass
        return super().class_names(label, n)

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[ColumnBatch]:
        start = self.row_groups.first_row if self.row_groups else 0
        numbers, exact = set(numeric), set[str]()
        for record in self.record_batches(None if rest else list(dict.fromkeys(names)), numeric):
            by_name = dict(zip(record.schema.names, record.columns, strict=True))
            if self.from_disk:
                for name, column in by_name.items():
                    _validate(name, column)
            if rest and self.has_digits:
                exact |= self._refuse_rounded({k: v for k, v in by_name.items() if k not in numbers | exact})
            for at in range(0, record.num_rows, MOST_ROWS):
                part = {name: column.slice(at, MOST_ROWS) for name, column in by_name.items()}
                size = min(MOST_ROWS, record.num_rows - at)
                for piece, n in _decoded(part, size, self.fields if rest else {}):
                    yield column_batch(piece, n, start, names, numbers)
                    start += n

    def as_read(self, name: str, values: Any) -> tuple[Array | Lists | Categorical, Array | None]:
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self.fields[name].type if name in self.fields else pa.null()
        if isinstance(values, Objects):
            values = pa.array(values.values)
        # Numbers of a csv file are passed on as text if they are written as text again.
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        if number and is_text(values.type):
            values = pc.utf8_trim_whitespace(values).cast(kind)
        return from_arrow(values)

    def _refuse_rounded(self, passed: Mapping[str, Any]) -> set[str]:
        """Refuse columns that pyarrow took for float64 although they hold longer whole numbers, such as keys.

        Returns the columns for which the whole file was searched; later batches need not search again.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        searched = set()
        for name, column in passed.items():
            ends = [pc.min_max(part) for part in _parts(column) if pa.types.is_float64(part.type)]
            if max((abs(end.as_py() or 0.0) for pair in ends for end in pair.values()), default=0) < EXACT_INTEGER:
                continue
            searched.add(name)
            found = next((text for text in self.whole_numbers(name) if self._is_rounded(text)), None)
            if found is not None:
                raise DataError(
                    f"'{name}' holds whole numbers such as {found[:40]}, which would be rounded",
                    f"write {self.label}, which keeps all digits (-o out.{self.label}), or leave the column out",
                )
        return searched

    def _is_rounded(self, text: str) -> bool:
        """Whether a whole number changes as float64, or as its shortest decimal, which is what text formats hold."""
        number, writer = float(text), writer_for(self.written_as)
        if math.isinf(number):
            return True
        as_text = writer is not None and writer.keeps_text and Decimal(repr(number)) != int(text)
        return as_text or int(number) != int(text)

    def whole_numbers(self, name: str) -> Iterator[str]:
        """The values of a column that are written as long whole numbers, digit by digit."""
        return iter(())


def _parts(column: Any) -> Iterator[Any]:
    """The columns of values that a column of lists and objects is made of; a plain column itself."""
    import pyarrow as pa

    if pa.types.is_struct(column.type):
        for part in column.flatten():
            yield from _parts(part)
    elif pa.types.is_list(column.type):
        yield from _parts(column.flatten())
    else:
        yield column


def _column_info(field: Any) -> ColumnInfo:
    import pyarrow as pa

    kind, width = field.type, None
    if pa.types.is_struct(kind):
        from bpmcli.io.structs import class_keys, is_spark_vector

        keys = class_keys(kind)
        if keys or is_spark_vector(kind):
            return ColumnInfo(field.name, len(keys), "f", classes=keys or None)
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
    return ColumnInfo(field.name, width, letter)


def _validate(name: str, column: Any) -> None:
    """Check every offset, index and text before a value is used: damaged data would crash the process."""
    import pyarrow as pa

    try:
        column.validate(full=not pa.types.is_primitive(column.type))
    except pa.ArrowInvalid as error:
        text = " ".join(str(error).split())[:160]
        raise DataError(f"column '{name}' is damaged: {text}", "write the file again") from None


def column_batch(
    by_name: Mapping[str, Any], n: int, start: int, names: Sequence[str], numbers: set[str]
) -> ColumnBatch:

    columns: dict[str, Array | Lists | Categorical] = {}
    missing: Array | None = None
    nulls: dict[str, Array] = {}
    for name in names:
        column = by_name[name]
        if name in numbers and _is_coded_text(column.type):
            column = column.dictionary_decode()
        if name in numbers and is_text(column.type):
            column = _as_numbers(name, column, start)
        columns[name], null = _from_arrow(name, column)
        if null is not None:
            missing = null if missing is None else missing | null
            nulls[name] = null
    passed = {name: column for name, column in by_name.items() if name not in numbers}
    return ColumnBatch(start, n, columns, passed, missing, nulls)


def _from_arrow(name: str, column: Any) -> tuple[Array | Lists | Categorical, Array | None]:
    try:
        return from_arrow(column)
    except DataError as error:
        raise DataError(f"'{name}': {error.message}", error.hint) from None


def _as_numbers(name: str, column: Any, start: int) -> Any:
    """Numbers from a column of text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.cast(pa.string()) if str(column.type) == "string_view" else column  # pyarrow trims no views
    trimmed = pc.utf8_trim_whitespace(pc.replace_substring_regex(column, r"\s*%\s*$", ""))
    try:
        return trimmed.cast(pa.float64())
    except pa.ArrowInvalid:
        row, text = next((i, text) for i, text in enumerate(trimmed.to_pylist()) if not _is_number(text))
        raise DataError(
            f"'{name}' holds the text '{text}' (row {start + row + 1}), which is not a number", "fix that row"
        ) from None


def _is_number(text: str | None) -> bool:
    import pyarrow as pa

    try:
        pa.array([text], pa.string()).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _decoded(by_name: dict[str, Any], n: int, fields: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Text that was read as a dictionary gets the type it has in `fields`.

    The pieces are so small that a writer can give every row its own copy of the text, also where it stays a dictionary.
    """
    import pyarrow as pa

    coded = {name for name, column in by_name.items() if name in fields and _is_coded_text(column.type)}
    if coded and n > 1 and sum(_text_bytes(by_name[name]) for name in coded) > BATCH_BYTES:
        half = n // 2
        yield from _decoded({k: v.slice(0, half) for k, v in by_name.items()}, half, fields)
        yield from _decoded({k: v.slice(half) for k, v in by_name.items()}, n - half, fields)
        return
    plain = {name for name in coded if not pa.types.is_dictionary(fields[name].type)}
    # By way of plain text: pyarrow has no cast from a dictionary to a view.
    yield {k: v.cast(pa.string()).cast(fields[k].type) if k in plain else v for k, v in by_name.items()}, n


def _is_coded_text(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_dictionary(kind) and is_text(kind.value_type)


def _text_bytes(column: Any) -> int:
    """Bytes of the text once every row has its own copy."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = column.dictionary
    lengths = pc.binary_length(words.cast(pa.string()) if str(words.type) == "string_view" else words)
    return int(pc.sum(pc.take(lengths, column.indices)).as_py() or 0)
