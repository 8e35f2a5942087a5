"""Checks the footer of a parquet file for damage on which pyarrow aborts the whole process.

As soon as anything is asked about a column chunk, pyarrow compares its level histograms with the schema, and does not
catch its own exception. So they are compared here before. The footer is a structure of Thrift's compact protocol; its
fields are numbered in parquet.thrift of the parquet-format project.
"""

from __future__ import annotations

import os
from typing import IO, Any

from bpmcli.errors import DataError

LARGEST = 1 << 20
"""Larger footers are not checked: that would take longer than reading most files."""

DEEPEST = 32

ROW_GROUPS, COLUMNS, CHUNK, ENCRYPTED, SIZES = 4, 1, 3, 8, 16
"""Numbers of fields: FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data and .crypto_metadata, and
ColumnMetaData.size_statistics, whose fields are the bytes of text and the histograms of repetition and definition."""

TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


class _Compact:
    """Values of the compact protocol: a structure is a dictionary from field numbers to values."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise ValueError("too long a number")

    def value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("too deep")
        if kind == STRUCT:
            return self.structure(depth)
        if kind in (LIST, SET):
            return self.elements(depth)
        if kind == MAP:
            raise ValueError("parquet has no maps")
        if kind in (BINARY, DOUBLE):
            size = 8 if kind == DOUBLE else self.varint()
            self.at += size
            return self.data[self.at - size : self.at]
        number = self.byte() if kind in (TRUE, FALSE, BYTE) else self.varint()
        return (number >> 1) ^ -(number & 1)

    def elements(self, depth: int) -> list[Any]:
        head = self.byte()
        size = head >> 4 if head >> 4 != 15 else self.varint()
        if size > len(self.data) - self.at:
            raise ValueError("a list that is longer than the footer")
        return [self.value(head & 15, depth + 1) for _ in range(size)]

    def structure(self, depth: int = 0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            step, kind = head >> 4, head & 15
            if step:
                number += step
            else:
                encoded = self.varint()
                number = (encoded >> 1) ^ -(encoded & 1)
            # Truth values have no bytes of their own: they are part of the kind.
            found[number] = kind == TRUE if kind in (TRUE, FALSE) else self.value(kind, depth + 1)
        return found


def check_footer(file: IO[bytes], schema: Any) -> None:
    """Raise DataError if pyarrow would abort on a column chunk. `schema`: the parquet schema, as pyarrow read it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    length = int.from_bytes(file.read(4), "little")
    if length > min(LARGEST, size - 8):
        return
    file.seek(size - 8 - length)
    try:
        groups = _Compact(file.read(length)).structure().get(ROW_GROUPS) or []
        chunks = [(k, chunk) for group in groups for k, chunk in enumerate(group.get(COLUMNS) or [])]
        bad = next((k for k, chunk in chunks if not _is_sound(chunk, schema.column(k))), None)
        hidden = next((k for k, chunk in chunks if ENCRYPTED in chunk), None)
    except (ValueError, LookupError, AttributeError, TypeError):
        return  # pyarrow reports what else is wrong
    if hidden is not None:
        raise DataError(f"column '{schema.column(hidden).path}' is encrypted", "write the file without encryption")
    if bad is not None:
        raise DataError(
            f"is damaged: what its footer says about column '{schema.column(bad).path}' cannot be true", "copy it again"
        )


def _is_sound(chunk: dict[int, Any], column: Any) -> bool:
    """Whether pyarrow accepts what the footer says about a column chunk."""
    sizes = chunk.get(CHUNK, {}).get(SIZES) or {}
    levels = (column.max_repetition_level, column.max_definition_level)
    fit = all(len(sizes.get(2 + i) or []) in (0, most + 1) for i, most in enumerate(levels))
    return fit and (1 not in sizes or column.physical_type == "BYTE_ARRAY")
