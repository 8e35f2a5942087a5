"""npz and npy files with arrays of every dtype, shape and order beside the scores."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from random import Random
from typing import Any

import numpy as np
from fuzz.tables import Table, numpy_rng

NAMES = ["x", "x_0", "x_1", "note", "vocab", "probs", "confidence", "é🎉", "\x1b[31mred", "a/b", "a b", "file", "probs_0", "prob_0", "../up", "X.npy"]  # fmt: skip


def npz(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """An archive, compressed or not; `plain` leaves the unusual arrays out."""
    arrays = {name: _array(values) for name, values in table.columns.items()}
    if not plain:
        for _ in range(rng.choice([0, 0, 1, 2, 3])):
            arrays[rng.choice(NAMES)] = odd_array(rng, table.n)
        if rng.random() < 0.2:
            arrays = {name: np.asfortranarray(a) for name, a in arrays.items()}
        if rng.random() < 0.2:
            items = list(arrays.items())
            rng.shuffle(items)
            arrays = dict(items)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=True)
    return ".npz", out.getvalue()


def _array(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array.astype(str) if array.dtype == object else array


def odd_array(rng: Random, n: int) -> np.ndarray:
    """An array that has nothing to do with calibration."""
    draw = numpy_rng(rng)
    length = rng.choice([n, n, n, n, n + 1, max(n - 1, 0), 2 * n, 1000, 0, 1])
    whole = np.arange(length)
    return rng.choice(
        [
            lambda: whole.astype(rng.choice([">i8", "<i2", "u8", ">u4", "i1"])),
            lambda: draw.normal(size=length).astype(rng.choice([">f8", "f2", ">f4", "f4", "g"])),
            lambda: np.array([rng.choice(["a", "é🎉", "x" * 40, "", "\x1b[1m"]) for _ in range(length)], dtype=str),
            lambda: np.array([b"ab"] * length, dtype="S3"),
            lambda: whole.astype(rng.choice(["M8[ns]", "M8[D]", "M8[Y]", "m8[s]", "M8"])),
            lambda: whole.astype(complex),
            lambda: np.zeros(length, dtype=[("a", "f8"), ("b", "U3")]),
            lambda: np.zeros(length, dtype="V5"),
            lambda: draw.normal(size=(length, rng.choice([0, 1, 2, 3]))),
            lambda: draw.normal(size=(length, 2, 2)),
            lambda: np.asfortranarray(draw.normal(size=(length, 3))),
            lambda: np.array(rng.choice(["text", 3.5, 7, True, "x" * 1000])),
            lambda: draw.random(length) < 0.5,
            lambda: np.full(length, 2**63 + 11, dtype="u8"),
            lambda: np.array([{"a": 1}] * length, dtype=object),
        ]
    )()


def npy(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """A structured array of all columns."""
    fields: list[Any] = []
    columns = {name: _array(values) for name, values in table.columns.items()}
    if not plain and rng.random() < 0.5:
        extra = odd_array(rng, table.n)
        if extra.ndim and len(extra) == table.n and extra.dtype != object:
            columns["note"] = extra
    for name, array in columns.items():
        fields.append((name, array.dtype, array.shape[1:]))
    rows = np.zeros(table.n, dtype=fields)
    for name, array in columns.items():
        rows[name] = array
    out = io.BytesIO()
    np.lib.format.write_array(out, rows)
    return ".npy", out.getvalue()


def npy_scores(rng: Random, table: Table) -> dict[str, bytes]:
    """Scores in one file and labels in another beside it."""
    out = {}
    name, scores = next(iter(table.scores.items()))
    stem = "logits" if "logit" in name or name == "output" else "probs" if "p" in name else "confidence"
    out[f"x_{stem}.npy"] = _npy(_array(scores))
    for other, values in table.others.items():
        word = {"label": "labels", "y": "labels", "hit": "hits", "correct": "hits", "weight": "weights"}.get(other)
        if word:
            array = _array(values)
            out[f"x_{word}.npy"] = _npy(array[:-1] if rng.random() < 0.05 else array)
    return out


def _npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array)
    return out.getvalue()


def lying_npz(rng: Random, table: Table) -> bytes:
    """Headers that claim more than there is, and members that unpack to far more than the file's size."""
    out = io.BytesIO()
    n = rng.choice([10**6, 10**9, 10**12, 2**62, 2**64, -1])
    claimed = rng.choice([(n,), (n, 3), (3, n), (), (n, n), (n, 0), (0, n)])
    descr = rng.choice(["<f8", "<i8", "<U300000000", "|S999999999", "|V2000000000", "<f4", "|b1"])
    header = repr({"descr": descr, "fortran_order": rng.random() < 0.3, "shape": claimed}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    lie = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    name = rng.choice(["logits", "confidence", "label", "hit", "note", *table.columns])
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for other, values in table.columns.items():
            if other != name:
                with archive.open(f"{other}.npy", "w") as member:
                    np.lib.format.write_array(member, _array(values))
        if rng.random() < 0.5:
            archive.writestr(f"{name}.npy", lie + bytes(rng.choice([0, 8, 800])))
    content = out.getvalue()
    return content if rng.random() < 0.5 else _with_bomb(content, f"{name}.npy", lie)


MEGABYTES = 2000
_block: list[tuple[bytes, int]] = []


def _zeros() -> tuple[bytes, int]:
    """A deflated megabyte of zeros that can be repeated, and the checksum of them all."""
    if not _block:
        squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
        zeros = bytes(1 << 20)
        packed = squeeze.compress(zeros) + squeeze.flush(zlib.Z_FULL_FLUSH)
        _block.append((packed, 0))
    return _block[0]


def _with_bomb(content: bytes, name: str, start: bytes) -> bytes:
    """The archive with one more member, whose zeros fill two gigabytes."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = squeeze.compress(start) + squeeze.flush(zlib.Z_FULL_FLUSH)
    packed = head + _zeros()[0] * MEGABYTES + b"\x03\x00"
    size = len(start) + (MEGABYTES << 20)
    end = content.rindex(b"PK\x05\x06")
    count, central_size, central_at = struct.unpack("<H", content[end + 10 : end + 12])[0], *struct.unpack("<II", content[end + 12 : end + 20])  # fmt: skip
    raw = name.encode()
    fields = struct.pack("<HHHHHIIIHH", 20, 0x800, 8, 0, 33, 0, len(packed), size, len(raw), 0)
    local = b"PK\x03\x04" + fields + raw + packed
    entry = b"PK\x01\x02" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, central_at) + raw
    central = content[central_at : central_at + central_size] + entry
    tail = struct.pack("<HHHHIIH", 0, 0, count + 1, count + 1, len(central), central_at + len(local), 0)
    return content[:central_at] + local + central + b"PK\x05\x06" + tail
