"""parquet and arrow files with columns of every type."""

from __future__ import annotations

import datetime
import decimal
import io
from random import Random
from typing import Any

import numpy as np
from fuzz.tables import Table, numpy_rng

NAMES = [
    "note",
    "x",
    "when",
    "probs",
    "confidence",
    "é🎉",
    "\x1b[31mred",
    "a.b",
    "",
    "prob_0",
    "group",
    "cell",
    "a" * 300,
]


def arrow_column(values: Any, rng: Random | None = None) -> Any:
    """Matrices as lists; with `rng`, in one of the types that hold the same values."""
    import pyarrow as pa

    array = np.asarray(values)
    if array.ndim == 2:
        flat = pa.array(array.ravel().astype(array.dtype.newbyteorder("=")))
        if rng and rng.random() < 0.5:
            offsets = pa.array(np.arange(len(array) + 1) * array.shape[1], pa.int32())
            return pa.ListArray.from_arrays(offsets, flat)
        return pa.FixedSizeListArray.from_arrays(flat, max(array.shape[1], 1))
    if array.dtype == object or array.dtype.kind in "US":
        texts = pa.array([str(v) for v in array.tolist()], pa.string())
        if rng and rng.random() < 0.3:
            return texts.dictionary_encode() if rng.random() < 0.5 else texts.cast(pa.large_string())
        return texts
    return pa.array(array.astype(array.dtype.newbyteorder("=")))


def odd_column(rng: Random, n: int, parquet: bool) -> Any:
    """A column that has nothing to do with calibration."""
    import pyarrow as pa

    draw = numpy_rng(rng)
    whole = draw.integers(-(2**62), 2**62, n)
    nulls = draw.random(n) < rng.choice([0, 0.3, 1])

    def day() -> Any:
        return datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=rng.randrange(10**8))

    choices = [
        lambda: pa.array(whole, mask=nulls),
        lambda: pa.array(draw.normal(size=n), mask=nulls),
        lambda: pa.array(whole.astype("u8")),
        lambda: pa.array(draw.normal(size=n).astype("f2")),
        lambda: pa.array(
            [rng.choice(["a", "é🎉", "", None, "x\ny", "\x1b[1m", '"', "007", "NA"]) for _ in range(n)], pa.string()
        ),
        lambda: pa.array(whole, pa.timestamp(rng.choice(["s", "ms", "us", "ns"]))),
        lambda: pa.array(
            [day() for _ in range(n)],
            pa.timestamp("us", tz=rng.choice(["UTC", "Europe/Paris", "Nowhere/Town", "+05:30"])),
        ),
        lambda: pa.array(whole % 2**31, pa.int32()).cast(pa.date32()) if n else pa.array([], pa.date32()),
        lambda: pa.array(whole, pa.duration("ns")),
        lambda: pa.array((np.abs(whole) % 86_400).astype("i4"), pa.int32()).cast(pa.time32("s")),
        lambda: pa.array([decimal.Decimal(rng.randrange(10**9)) / 100 for _ in range(n)], pa.decimal128(30, 2)),
        lambda: pa.array([rng.randbytes(rng.randrange(5)) for _ in range(n)], pa.binary()),
        lambda: pa.array([rng.randbytes(4) for _ in range(n)], pa.binary(4)),
        lambda: pa.array([rng.choice(["u", "v"]) for _ in range(n)]).dictionary_encode(),
        lambda: pa.array([{"a": 1, "b": "x"}] * n, pa.struct([("a", pa.int64()), ("b", pa.string())])),
        lambda: pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([["p", None][: rng.randrange(3)] for _ in range(n)], pa.list_(pa.string())),
        lambda: pa.array([[[1.0], []]] * n, pa.list_(pa.list_(pa.float64()))),
        lambda: pa.array([list(range(rng.randrange(4))) or None for _ in range(n)], pa.list_(pa.int32())),
        lambda: pa.nulls(n),
        lambda: pa.array(nulls),
        lambda: pa.array([None if x else True for x in nulls], pa.bool_()),
        lambda: pa.array([chr(rng.randrange(0x20, 0x2FF)) for _ in range(n)], pa.large_string()),
    ]
    if not parquet:
        choices += [
            lambda: pa.array([(1, 2, 3)] * n, pa.month_day_nano_interval()),
            lambda: pa.array(["abc"] * n, pa.string_view()),
            lambda: pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), pa.array([1.5])) if n else pa.nulls(0),
            lambda: pa.UnionArray.from_sparse(pa.array([0] * n, pa.int8()), [pa.array([1] * n)]),
            lambda: pa.Array.from_buffers(
                pa.string(), n, [None, pa.py_buffer(np.arange(n + 1, dtype="i4")), pa.py_buffer(b"\xff" * n)]
            ),
        ]
    return rng.choice(choices)()


def arrow_table(rng: Random, table: Table, plain: bool, parquet: bool) -> Any:
    import pyarrow as pa

    columns = {name: arrow_column(values, None if plain else rng) for name, values in table.columns.items()}
    if not plain:
        for _ in range(rng.choice([0, 0, 1, 2])):
            columns[rng.choice(NAMES)] = odd_column(rng, table.n, parquet)
    names, arrays = list(columns), list(columns.values())
    if not plain and rng.random() < 0.02:
        names.append(names[0])
        arrays.append(arrays[0])
    made = pa.Table.from_arrays(arrays, names=names)
    if rng.random() < 0.2:
        made = made.replace_schema_metadata({b"pandas": b'{"index_columns": ["row"], "columns": []}', b"x": b"\xff"})
    return made


def _fits_parquet(column: Any) -> bool:
    """Whether parquet can hold the one column of this table: some types and times fit into arrow files only."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.write_table(column, io.BytesIO())
    except (pa.ArrowException, OSError):
        return False
    return True


def parquet(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """In one or several row groups, with any compression."""
    import pyarrow.parquet as pq

    made = arrow_table(rng, table, plain, parquet=True)
    made = made.select([i for i in range(made.num_columns) if _fits_parquet(made.select([i]))])
    out = io.BytesIO()
    pq.write_table(
        made,
        out,
        compression=rng.choice(["snappy", "none", "zstd", "gzip"]),
        row_group_size=rng.choice([None, None, 7, 64]),
        use_dictionary=rng.random() < 0.5,
    )
    return rng.choice([".parquet", ".pq"]), out.getvalue()


def arrow(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """Arrow IPC files in one or several record batches."""
    import pyarrow as pa

    made = arrow_table(rng, table, plain, parquet=False)
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, None, "lz4", "zstd"]))
    with pa.ipc.new_file(out, made.schema, options=options) as writer:
        writer.write_table(made, max_chunksize=rng.choice([None, 7, 64]))
    return rng.choice([".arrow", ".feather"]), out.getvalue()
