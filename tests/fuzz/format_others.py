"""JSON tables, safetensors, ORC, HDF5 and arrow streams: formats that are read and never written."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import numpy as np
from fuzz.format_arrow import arrow_table
from fuzz.format_numpy import odd_array
from fuzz.tables import Table


def json_table(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """A list of records, columns by name, or columns and data as pandas writes them."""
    columns = {name: np.asarray(values).tolist() for name, values in table.columns.items()}
    if not plain:
        for _ in range(rng.choice([0, 0, 1, 2])):
            kind = rng.choice([None, "x", [], [1, 2], {"a": 1}, True, 10**30, 1.5, "\ud800", [[1]], {}])
            odd = rng.choice([None, "", 3])
            columns[rng.choice(["note", "x", "é🎉", "\x1b[31mred", "", "a\nb"])] = [
                odd if rng.random() < 0.1 else kind for _ in range(table.n)
            ]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    document: Any = rng.choice(
        [
            lambda: rows,
            lambda: columns,
            lambda: {name: {str(i): v for i, v in enumerate(values)} for name, values in columns.items()},
            lambda: {"columns": list(columns), "data": [list(row.values()) for row in rows]},
            lambda: {"schema": {}, "data": rows},
        ]
    )()
    if not plain and rows and rng.random() < 0.1:
        rows[rng.randrange(len(rows))] = rng.choice([{}, {"y": 1}, {"confidence": "x"}])
    text = json.dumps(document, indent=rng.choice([None, None, 1]))
    return ".json", text.encode()


TENSOR_TYPES = {"f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64", "i4": "I32", "i2": "I16", "i1": "I8", "u8": "U64", "u4": "U32", "u2": "U16", "u1": "U8", "b1": "BOOL"}  # fmt: skip


def safetensors(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """A header and raw tensors; columns of text have no place there."""
    arrays = {name: np.asarray(values) for name, values in table.columns.items()}
    if not plain and rng.random() < 0.5:
        arrays["note"] = odd_array(rng, table.n)
    header: dict[str, Any] = {} if rng.random() < 0.5 else {"__metadata__": {"format": "pt", "x": "\x1b[31m"}}
    body = b""
    for name, array in arrays.items():
        array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
        kind = TENSOR_TYPES.get(array.dtype.str[1:])
        if kind is None:
            continue
        end = len(body) + array.nbytes
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(body), end]}
        body += array.tobytes()
    text = json.dumps(header).encode()
    return ".safetensors", len(text).to_bytes(8, "little") + text + body


def orc(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """In stripes, with any compression; types that ORC does not have are left out."""
    import pyarrow as pa
    from pyarrow import orc as pa_orc

    made = arrow_table(rng, table, plain, parquet=True)
    kept = []
    for i in range(made.num_columns):
        try:
            pa_orc.write_table(made.select([i]), io.BytesIO())
            kept.append(i)
        except (pa.ArrowException, OSError, ValueError):
            continue
    out = io.BytesIO()
    pa_orc.write_table(made.select(kept), out, compression=rng.choice(["uncompressed", "zlib", "zstd"]))
    return ".orc", out.getvalue()


def hdf5(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """Data sets of one group, or of several."""
    import h5py

    arrays = {name: np.asarray(values) for name, values in table.columns.items()}
    if not plain and rng.random() < 0.5:
        arrays["note"] = odd_array(rng, table.n)
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for folder in rng.choice([[""], [""], ["a"], ["a", "b/c"]]):
            group = file.require_group(folder) if folder else file
            for name, array in arrays.items():
                if array.dtype == object or array.dtype.kind == "U":
                    array = np.array([str(v) for v in array.tolist()], dtype=h5py.string_dtype())
                options = {"compression": "gzip"} if array.ndim and array.size and rng.random() < 0.3 else {}
                try:
                    group.create_dataset(name, data=array, **options)
                except (TypeError, ValueError):  # dates and the like
                    continue
    return rng.choice([".h5", ".hdf5"]), out.getvalue()


def arrow_stream(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """Arrow's stream format, as Hugging Face stores its shards."""
    import pyarrow as pa

    made = arrow_table(rng, table, plain, parquet=False)
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, None, "lz4", "zstd"]))
    with pa.ipc.new_stream(out, made.schema, options=options) as writer:
        writer.write_table(made, max_chunksize=rng.choice([None, 7, 64]))
    return ".arrows", out.getvalue()
