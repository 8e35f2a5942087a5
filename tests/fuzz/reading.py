"""Columns of any file, read by numpy, pyarrow, h5py, csv and json alone, never by the tool's own readers."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
from typing import Any

import numpy as np

csv.field_size_limit(sys.maxsize)


def family(name: str) -> str:
    """numpy, arrow, csv, jsonl and others: within a family, types must stay as well."""
    name = name.lower().removesuffix(".gz")
    for suffixes, found in (((".npz", ".npy"), "numpy"), ((".parquet", ".pq", ".arrow", ".feather", ".orc", ".arrows"), "arrow"), ((".csv", ".tsv"), "csv")):  # fmt: skip
        if name.endswith(suffixes):
            return found
    return {".json": "json", ".h5": "hdf5", ".hdf5": "hdf5", ".safetensors": "safetensors"}.get(
        os.path.splitext(name)[1], "jsonl"
    )


def read_columns(name: str, content: bytes) -> dict[str, Any]:
    """Columns as arrays of numpy or arrow, or as lists of text or JSON values."""
    lower = name.lower()
    if lower.endswith(".gz"):
        content, lower = gzip.decompress(content), lower[:-3]
    if lower.endswith(".npz"):
        with np.load(io.BytesIO(content)) as data:
            return {k: data[k] for k in data.files}
    if lower.endswith(".npy"):
        array = np.load(io.BytesIO(content))
        return {k: array[k] for k in array.dtype.names or ()}
    if family(lower) == "arrow":
        return _read_arrow(lower, content)
    if family(lower) in ("json", "hdf5", "safetensors"):
        return _read_other(family(lower), content)
    text = content.decode("utf-8-sig", "surrogatepass")
    if family(lower) == "csv":
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t" if ".tsv" in lower else ","))
        rows = [row for row in rows if row]
        if not rows or any(len(row) != len(rows[0]) for row in rows):
            raise ValueError("lines have different numbers of fields")
        return {head: [row[i] for row in rows[1:]] for i, head in enumerate(rows[0])}
    records = [json.loads(line) for line in text.split("\n") if line.strip()]
    names = dict.fromkeys(key for record in records for key in record)
    return {key: [record.get(key) for record in records] for key in names}


def _read_arrow(name: str, content: bytes) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if name.endswith((".parquet", ".pq")):
        table = pq.read_table(io.BytesIO(content))
    elif name.endswith(".orc"):
        from pyarrow import orc

        table = orc.ORCFile(io.BytesIO(content)).read()
    elif name.endswith(".arrows"):
        table = pa.ipc.open_stream(io.BytesIO(content)).read_all()
    else:
        table = pa.ipc.open_file(io.BytesIO(content)).read_all()
    return {n: table.column(i).combine_chunks() for i, n in enumerate(table.schema.names)}


def _read_other(kind: str, content: bytes) -> dict[str, Any]:
    """Formats that are never written: columns are found in their plainest layouts only."""
    if kind == "json":
        document = json.loads(content)
        if isinstance(document, list):
            return {name: [row.get(name) for row in document] for row in document for name in row}
        return document if all(isinstance(v, list) for v in document.values()) else {}
    if kind == "hdf5":
        import h5py

        with h5py.File(io.BytesIO(content), "r") as file:
            return {
                name: [v.decode() for v in data[()]] if h5py.check_string_dtype(data.dtype) else data[()]
                for name, data in file.items()
                if isinstance(data, h5py.Dataset) and data.shape
            }
    size = int.from_bytes(content[:8], "little")
    found = {}
    for name, about in json.loads(content[8 : 8 + size]).items():
        if name != "__metadata__":
            letter, bits = about["dtype"][0].lower(), about["dtype"][1:]
            dtype = np.dtype("?") if letter == "b" else np.dtype(f"<{letter}{int(bits) // 8}")
            start, stop = (8 + size + i for i in about["data_offsets"])
            found[name] = np.frombuffer(content[start:stop], dtype).reshape(about["shape"])
    return found
