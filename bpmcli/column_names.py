"""Prints the columns of a file, for shell completion: `python -m bpmcli.column_names FILE`.

Only the standard library is imported: an answer must be there before the next key.
Whatever goes wrong, nothing is printed.
"""

from __future__ import annotations

import gzip
import sys
from typing import Any

LONGEST_LINE = 1 << 20
LARGEST_FOOTER = 1 << 24


def column_names(path: str) -> list[str]:
    """The names of columns or arrays, in the order of the file."""
    name = path.removesuffix(".gz").lower()
    if name.endswith(".npz"):
        import zipfile

        with zipfile.ZipFile(path) as archive:
            return [member.removesuffix(".npy") for member in archive.namelist()]
    if name.endswith((".csv", ".tsv")):
        import csv

        from bpmcli.io.formats.csv_dialect import dialect

        with _opened(path) as file:
            line = _first_line(file)
        found = dialect(line.encode(), "\t" if name.endswith(".tsv") else ",")
        return list(found.names or next(csv.reader([line], delimiter=found.delimiter)))
    if name.endswith((".jsonl", ".ndjson")):
        import json

        with _opened(path) as file:
            return list(json.loads(_first_line(file)))
    return _arrow_names(path, name)


def _opened(path: str) -> Any:
    return gzip.open(path) if path.endswith(".gz") else open(path, "rb")


def _first_line(file: Any) -> str:
    """The first line that is not empty."""
    line = b"\n"
    while line in (b"\n", b"\r\n"):
        line = file.readline(LONGEST_LINE)
    return str(line, "utf-8-sig")


def _arrow_names(path: str, name: str) -> list[str]:
    if name.endswith((".parquet", ".pq")):
        return _ParquetFooter(_footer(path, b"PAR1")).names()
    if name.endswith((".arrow", ".feather")):
        return _arrow_schema(_footer(path, b"ARROW1"))
    return []


def _footer(path: str, magic: bytes) -> bytes:
    """The description at the end of a file: its bytes, their number (four bytes) and the name of the format."""
    with open(path, "rb") as file:
        file.seek(-len(magic) - 4, 2)
        end = file.read()
        size = int.from_bytes(end[:4], "little")
        if end[4:] != magic or not 0 < size <= LARGEST_FOOTER:
            raise ValueError("no footer")
        file.seek(-len(end) - size, 2)
        return file.read(size)


class _ParquetFooter:
    """The schema in the footer of a parquet file, in Thrift's compact protocol (importing pyarrow takes too long)."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def names(self) -> list[str]:
        """The columns: children of the first element, without their own children."""
        for field, kind in self._fields():
            if field == 2:  # the schema, a list of elements in the order of the tree
                found: list[str] = []
                elements = self._list_size()[0] - 1
                self._element()
                while elements > 0:
                    name, children = self._element()
                    found.append(name)
                    elements -= 1 + self._skip_children(children)
                return found
            self._skip(kind)
        return []

    def _skip_children(self, count: int) -> int:
        return sum(1 + self._skip_children(self._element()[1]) for _ in range(count))

    def _element(self) -> tuple[str, int]:
        name, children = "", 0
        for field, kind in self._fields():
            if field == 4:
                name = self._bytes().decode()
            elif field == 5:
                children = self._integer()
            else:
                self._skip(kind)
        return name, children

    def _byte(self) -> int:
        self.at += 1
        return self.raw[self.at - 1]

    def _number(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7

    def _integer(self) -> int:
        found = self._number()
        return (found >> 1) ^ -(found & 1)

    def _bytes(self) -> bytes:
        size = self._number()
        self.at += size
        return self.raw[self.at - size : self.at]

    def _list_size(self) -> tuple[int, int]:
        header = self._byte()
        return (header >> 4 if header >> 4 < 15 else self._number()), header & 15

    def _fields(self) -> Any:
        """Number and type of each field of a struct; whoever iterates reads or skips its value."""
        field = 0
        while header := self._byte():
            field = field + (header >> 4) if header >> 4 else self._integer()
            yield field, header & 15

    def _skip(self, kind: int) -> None:
        if kind in (3,):
            self.at += 1
        elif kind in (4, 5, 6):
            self._number()
        elif kind == 7:
            self.at += 8
        elif kind == 8:
            self._bytes()
        elif kind in (9, 10):
            size, inner = self._list_size()
            for _ in range(size):
                self._skip(inner)
        elif kind == 12:
            for _, inner in self._fields():
                self._skip(inner)
        elif kind not in (1, 2):
            raise ValueError("a map")


def _arrow_schema(raw: bytes) -> list[str]:
    """Names of the columns, from the flat buffer in the footer of an arrow file."""

    def number(at: int, size: int = 4) -> int:
        return int.from_bytes(raw[at : at + size], "little", signed=True)

    def field(table: int, which: int) -> int:
        """Where a field of a table refers to."""
        entries = table - number(table)
        offset = number(entries + 4 + 2 * which, 2) if number(entries, 2) > 4 + 2 * which else 0
        if not offset:
            raise ValueError("no such field")
        return table + offset + number(table + offset)

    columns = field(field(number(0), 1), 1)  # footer, schema, columns
    places = [columns + 4 + 4 * i for i in range(number(columns))]
    texts = [field(place + number(place), 0) for place in places]
    return [raw[text + 4 : text + 4 + number(text)].decode() for text in texts]


def main(paths: list[str]) -> None:
    """The columns of the files, each once, a line each; a name with a line break is left out."""
    found: dict[str, None] = {}
    for path in paths:
        try:
            found |= dict.fromkeys(column_names(path))
        except Exception:  # completion never disturbs the prompt
            continue
    print("\n".join(name for name in found if name.isprintable() and name))


if __name__ == "__main__":
    main(sys.argv[1:])
