"""The heaps of an HDF5 file, which hold texts of any length. One kind of damage makes the HDF5 library hang.

A heap is `GCOL`, a version, its size and a chain of objects, each with its index and its size. Object 0 is the free
space, and its size leads to the end of the chain. If that size is 0, the library (2.0.0 and earlier) stays where it is
for ever. See "Disk Format: Level 1E - Global Heap" in the HDF5 File Format Specification.
"""

from __future__ import annotations

import os
import struct

from bpmcli.errors import DataError

HEAP = b"GCOL\x01"
HEADER = 16
"""Bytes of the header of a heap, and of each object in it."""
BLOCK = 1 << 24
"""Bytes that are searched at a time."""


def check_heaps(path: str) -> None:
    """Raise DataError if a heap of the file has a free space of 0 bytes."""
    length = os.path.getsize(path)
    with open(path, "rb") as file:
        for place in _places(path):
            file.seek(place)
            size = struct.unpack("<8xQ", file.read(HEADER).ljust(HEADER, b"\0"))[0]
            if _is_endless(file.read(max(min(size, length) - HEADER, 0))):
                raise DataError(f"is damaged: the texts at byte {place} have no end", "write the file again")


def _places(path: str) -> list[int]:
    """Where heaps begin."""
    found, start, before = [], 0, b""
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            whole = before + block
            at = whole.find(HEAP)
            while at >= 0:
                found.append(start - len(before) + at)
                at = whole.find(HEAP, at + 1)
            start, before = start + len(block), whole[1 - len(HEAP) :]
    return found


def _is_endless(objects: bytes) -> bool:
    """Whether the chain of objects stays at one place."""
    place = 0
    while place + HEADER <= len(objects):
        index, size = struct.unpack_from("<H6xQ", objects, place)
        if index == 0 and size == 0:
            return True
        place += size if index == 0 else HEADER + -(-size // 8) * 8
    return False
