"""csv and tsv files, plain or gzipped. `csv_dialect` finds out how a file is written."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from bpmcli.core.data.notices import Notice, notice
from bpmcli.errors import DataError
from bpmcli.io.formats import reader_for, reads, suffix_of, writer_for, writes
from bpmcli.io.formats.csv_columns import LineEnds, expected, has_nested, has_nul, with_points
from bpmcli.io.formats.csv_dialect import Dialect, dialect, first_lines
from bpmcli.io.formats.csv_quotes import closed_quotes, header_and_rows
from bpmcli.io.formats.free_name import as_utf8
from bpmcli.io.formats.text_lines import HEAD, Gzipped, TextReader, TextWriter, is_utf8, json_text
from bpmcli.io.formats.writer import spread_matrices

BLOCK = 1 << 23
"""Bytes that pyarrow parses at a time; it takes the types of the columns from the first block."""


@reads("csv", ".csv", ".csv.gz")
class CsvReader(TextReader):
    """Text with fields separated by commas, semicolons or spaces, with or without a header."""

    distinct: ClassVar[bool] = False
    from_disk: ClassVar[bool] = False
    _exact: dict[str, Any] | None = None
    delimiter: ClassVar[str] = ","
    _dialect: Dialect | None = None

    @classmethod
    def looks_like(cls, text: bytes) -> bool:
        first = text.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0]
        return not first.startswith((b"{", b"[")) and b"\t" not in first

    @property
    def dialect(self) -> Dialect:
        """How the file is written, by its first lines."""
        if self._dialect is None:
            with self.stream() as raw:
                self._dialect = dialect(first_lines(raw, HEAD, BLOCK), self.delimiter)
        return self._dialect

    @contextmanager
    def _open(
        self,
        names: list[str] | None,
        numeric: Sequence[str],
        texts: Sequence[str],
        whole: bool = False,
        exact: Mapping[str, Any] | None = None,
    ) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import csv

        types = {name: pa.float64() for name in numeric} | {name: pa.string() for name in texts} | dict(exact or {})
        # "NA" is a missing number, but among text it may be Namibia.
        convert = csv.ConvertOptions(
            include_columns=names, column_types=types, strings_can_be_null=False, quoted_strings_can_be_null=False,
            decimal_point=self.dialect.decimal,
        )  # fmt: skip
        read = csv.ReadOptions(
            use_threads=False, block_size=BLOCK, column_names=self.dialect.names, skip_rows=self.dialect.skip
        )
        parse = csv.ParseOptions(delimiter=self.dialect.delimiter, newlines_in_values=True)
        opened = closed_quotes(self.stream, self.dialect.delimiter) if whole else self.stream()
        with opened as raw, csv.open_csv(raw, read, parse, convert) as reader:
            yield reader

    @contextmanager
    def reporting(self) -> Iterator[None]:
        with super().reporting():
            try:
                yield
            except (ValueError, OSError) as e:
                self._explain(str(e))
                raise

    def _explain(self, text: str) -> None:
        """pyarrow's errors with the name of the column and the row."""
        shape = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text)
        if shape:
            raise DataError(
                f"line {shape[1]} has {shape[3]} fields, the header {shape[2]}",
                "quote fields that hold the separator, and leave no line cut off"
                if reader_for(suffix_of(self.path))
                else "leave out files that are no tables; if this is one, quote fields that hold the separator",
            ) from None
        if "invalid UTF8" in text:
            line = re.search(r"Row #(\d+)", text)
            at = f" (line {line[1]})" if line else ""
            raise DataError(f"is not text (UTF-8){at}", as_utf8(self.path)) from None
        if "Empty CSV" in text:
            raise DataError("no rows", "is the file complete?") from None
        if "straddling" in text or "block_size" in text:
            raise DataError(f"has a line of more than {BLOCK >> 20} MB", "is it csv?") from None
        where = re.search(r"In CSV column #(\d+): .*?conversion error to (\w+): invalid value '(.*?)'", text)
        if where:
            # pyarrow counts the columns of the file, not those that are asked for.
            name = dict(enumerate(self.columns)).get(int(where[1]), f"#{where[1]}")
            at = self._row_with(name, where[3])
            said = f"column '{name}' holds '{where[3][:80]}'{at}, which is not {expected(where[2])}"
            raise DataError(said, "fix that line") from None

    def _row_with(self, name: str, text: str) -> str:
        """The row of a value, found by reading the file again as text: it is the first row that holds the value."""
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
        with self.stream() as raw:
            if (head := raw.read(HEAD)).strip() and not is_utf8(head):
                raise DataError("is not text (UTF-8)", f"{as_utf8(self.path)}; or say what it is with --input-format")
        with self._open(None, (), (), whole="://" not in self.path and self.size() <= BLOCK) as reader:
            if b"[" not in head and b"(" not in head:
                return reader.schema
            from bpmcli.io.formats.text_lists import with_list_columns

            first = next(iter(reader), None)
            return reader.schema if first is None else with_list_columns(reader.schema, first)

    def notices(self) -> tuple[Notice, ...]:
        if self.dialect.names is None or self.dialect.skip:
            return ()
        return (notice("no-header", first=self.dialect.names[0], last=self.dialect.names[-1]),)

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        numbers = set(numeric)
        others = [name for name in (names or self.columns) if name not in numbers]
        percent = [name for name in numeric if self._is_percent(name)]
        lists = self._lists(names or self.columns)
        writer = writer_for(self.written_as) if names is None else None
        typed = names is None and not (writer is not None and writer.keeps_text)
        texts = [] if typed else [name for name in others if self._is_text(name, names is None)]
        exact = self._exact_types([name for name in others if name not in lists]) if typed else {}
        numbers -= {*percent, *lists}
        commas = [name for name in texts if names is None and self._has_decimal_commas(name)]
        start = 0
        with self._open(names, sorted(numbers), [*texts, *percent, *lists], whole=True, exact=exact) as reader:
            for record in reader:
                if record.num_rows:
                    record = with_points(record, commas)
                    yield self._with_lists(record, [name for name in lists if name in (names or numeric)], start)
                start += record.num_rows

    def _lists(self, names: Iterable[str]) -> list[str]:
        """The columns of text that hold lists of numbers."""
        import pyarrow as pa

        return [name for name in names if pa.types.is_list(self.fields[name].type)]

    def _with_lists(self, record: Any, names: list[str], start: int) -> Any:
        if not names:
            return record
        from bpmcli.io.formats.text_lists import as_lists

        return as_lists(record, names, start)

    def _is_text(self, name: str, passed: bool) -> bool:
        """Columns that stay text: columns that are written as text again, names of groups, dates and times."""
        import pyarrow as pa

        kind = self.fields[name].type
        return bool(passed or name == self.group or pa.types.is_temporal(kind) or pa.types.is_binary(kind))

    def _has_decimal_commas(self, name: str) -> bool:
        import pyarrow as pa

        return self.dialect.decimal == "," and bool(pa.types.is_floating(self.fields[name].type))

    def _is_percent(self, name: str) -> bool:
        """Whether a column of text begins with a value such as 90%."""
        import pyarrow as pa

        if not pa.types.is_string(self.fields[name].type):
            return False
        with self._open([name], (), [name]) as reader:
            first = next(iter(reader), None)
        return bool(first is not None and first.num_rows and str(first.column(0)[0].as_py()).strip().endswith("%"))

    def _exact_types(self, names: Sequence[str]) -> dict[str, Any]:
        """The types of columns that are carried along to a format with types, by all their rows."""
        from bpmcli.io.formats.csv_types import exact_types

        if self._exact is None or not set(names) <= set(self._exact):
            import pyarrow as pa

            # A column with other text among its first rows stays text, whatever follows.
            kinds = {name: self.fields[name].type for name in names}
            asked = [name for name, kind in kinds.items() if pa.types.is_primitive(kind) or pa.types.is_null(kind)]
            asked = [name for name in asked if not pa.types.is_temporal(kinds[name])]
            self._exact = dict.fromkeys(names, pa.string())
            if asked:
                with self._open(asked, (), asked) as reader:
                    self._exact |= exact_types(asked, reader, self.dialect.decimal)
        return self._exact

    @classmethod
    def written(cls, path: str) -> tuple[list[str], int]:
        return header_and_rows(path, cls.delimiter, BLOCK)


@reads("tsv", ".tsv", ".tsv.gz")
class TsvReader(CsvReader):
    """Text with fields separated by tabs, with or without a header."""

    delimiter: ClassVar[str] = "\t"

    @classmethod
    def looks_like(cls, text: bytes) -> bool:
        first = text.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0]
        return not first.startswith((b"{", b"[")) and b"\t" in first


@writes(".csv")
class CsvWriter(TextWriter):
    """Writes numbers in their shortest exact form, text as it was read, lists and objects as JSON."""

    delimiter: ClassVar[str] = ","
    keeps_text: ClassVar[bool] = True

    def spread(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        return spread_matrices(columns, lists=True, keyed=self.keyed)

    def prepare(self, name: str, values: Any) -> list[Any]:
        found = super().prepare(name, values)
        if "\0" in name or has_nul(found):
            raise DataError("holds text with a NUL character")
        return [json_text(v) if isinstance(v, (list, dict)) else v for v in found] if has_nested(found) else found

    def put(self, columns: Mapping[str, Any]) -> None:
        text = self._plain_lines(columns) or self._lines(columns, "\n")
        if "\r" in text:
            # Before Python 3.13 a carriage return is quoted only if it is part of the line end.
            text = self._lines(columns, "\r\n")
        self.file.write(text)

    def _plain_lines(self, columns: Mapping[str, Any]) -> str:
        """The batch as text if nothing in it needs quotes, otherwise "": much faster than a csv writer."""
        plain = [self._plain(values) for values in columns.values()]
        if len(plain) < 2 or not all(plain):
            return ""
        head = "" if self.rows else self._lines(dict.fromkeys(columns, ()), "\n")
        return head + "\n".join(map(self.delimiter.join, zip(*plain, strict=True))) + "\n"

    def _plain(self, values: Sequence[Any]) -> Sequence[str]:
        """The fields of a column of numbers or of text that needs no quotes; otherwise none."""
        kinds = set(map(type, values))
        if kinds <= {float}:
            return list(map(float.__repr__, values))
        if kinds <= {int}:
            return list(map(int.__repr__, values))
        if kinds != {str}:
            return ()
        text = "\n".join(values)
        quoted = text.count("\n") >= len(values) or any(letter in text for letter in ('"', "\r", self.delimiter))
        return () if quoted else values

    def _lines(self, columns: Mapping[str, Any], ending: str) -> str:
        """The batch as text. Lines end in a line feed; `ending` decides what is quoted."""
        lines = io.StringIO(newline="")
        out = csv.writer(lines if ending == "\n" else LineEnds(lines), delimiter=self.delimiter, lineterminator=ending)
        if not self.rows:
            out.writerow(columns)
        out.writerows(zip(*columns.values(), strict=True))
        return lines.getvalue()


@writes(".tsv")
class TsvWriter(CsvWriter):
    """Like csv, separated by tabs."""

    delimiter: ClassVar[str] = "\t"


@writes(".csv.gz")
class CsvGzWriter(Gzipped, CsvWriter):
    """Compressed csv."""


@writes(".tsv.gz")
class TsvGzWriter(Gzipped, TsvWriter):
    """Compressed tsv."""
