"""The check of parquet footers, compared with what pyarrow reads from the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bpmcli.errors import DataError
from bpmcli.io.formats import parquet_footer


def footer_of(path: str) -> tuple[bytes, dict[int, Any], Any]:
    """The footer of a parquet file, as bytes and decoded, and the schema."""
    raw = Path(path).read_bytes()
    footer = raw[-8 - int.from_bytes(raw[-8:-4], "little") : -8]
    with pq.ParquetFile(path) as file:
        return footer, parquet_footer._Compact(footer).structure(), file.schema


def test_footers_of_parquet_files_are_decoded(tmp_path):
    path = str(tmp_path / "a.parquet")
    table = pa.table({"x": [1.5, None] * 5, "y": [[1], []] * 5, "z": pa.array(["a", "b"] * 5).dictionary_encode()})
    pq.write_table(table, path, row_group_size=5)
    _, found, schema = footer_of(path)
    with pq.ParquetFile(path) as file:
        about = file.metadata
        for i, group in enumerate(found[4]):
            for k, chunk in enumerate(group[1]):
                known = about.row_group(i).column(k)
                assert [part.decode() for part in chunk[3][3]] == known.path_in_schema.split(".")
                assert (chunk[3][5], chunk[3][6]) == (known.num_values, known.total_uncompressed_size)
                assert parquet_footer._is_sound(chunk, schema.column(k))
    assert found[3] == 10


@pytest.mark.parametrize("change", [{3: [1, 2, 3]}, {2: [1, 2]}, {1: 7}])
def test_footers_that_abort_pyarrow_are_refused(change, tmp_path, monkeypatch):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1.5, None] * 5}), path)
    _, found, schema = footer_of(path)
    found[4][0][1][0][3][16] = change
    monkeypatch.setattr(parquet_footer._Compact, "structure", lambda *_: found)
    with (
        open(path, "rb") as file,
        pytest.raises(DataError, match="what its footer says about column 'x' cannot be true"),
    ):
        parquet_footer.check_footer(file, schema)


def test_encrypted_columns_are_named(tmp_path, monkeypatch):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1.5, None] * 5}), path)
    _, found, schema = footer_of(path)
    found[4][0][1][0][8] = {}
    monkeypatch.setattr(parquet_footer._Compact, "structure", lambda *_: found)
    with open(path, "rb") as file, pytest.raises(DataError, match="column 'x' is encrypted"):
        parquet_footer.check_footer(file, schema)
