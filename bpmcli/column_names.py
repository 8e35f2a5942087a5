"""Prints the columns of a file, for shell completion: `python -m bpmcli.column_names FILE`.

Only the standard library is imported, except for parquet and arrow files: an answer must be there before the next key.
Whatever goes wrong, nothing is printed.
"""

from __future__ import annotations

import gzip
import sys
from typing import Any

LONGEST_LINE = 1 << 20


def column_names(path: str) -> list[str]:
    """The names of columns or arrays, in the order of the file."""
    name = path.removesuffix(".gz").lower()
    if name.endswith(".npz"):
        import zipfile

        with zipfile.ZipFile(path) as archive:
            return [member.removesuffix(".npy") for member in archive.namelist()]
    if name.endswith((".csv", ".tsv")):
        import csv

        with _opened(path) as file:
            return next(csv.reader([_first_line(file)], delimiter="\t" if name.endswith(".tsv") else ","))
    if name.endswith((".jsonl", ".ndjson")):
        import json

        with _opened(path) as file:
            return list(json.loads(_first_line(file)))
    return _arrow_names(path, name)


def _opened(path: str) -> Any:
    return gzip.open(path) if path.endswith(".gz") else open(path, "rb")


def _first_line(file: Any) -> str:
    return str(file.readline(LONGEST_LINE), "utf-8-sig")


def _arrow_names(path: str, name: str) -> list[str]:
    if name.endswith((".parquet", ".pq")):
        from pyarrow.parquet import ParquetFile

        return list(ParquetFile(path).schema_arrow.names)
    if name.endswith((".arrow", ".feather")):
        from pyarrow.ipc import open_file

        with open(path, "rb") as file:
            return list(open_file(file).schema.names)
    return []


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
