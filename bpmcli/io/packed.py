"""Arrays in JSON: little-endian float64 or float32, or one bit per value, in base64. Every bit survives."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error

import numpy as np
import numpy.typing as npt

from bpmcli.core.data.sample import Floats
from bpmcli.errors import DataError

HINT = "was the file edited? save it again"


def pack(values: npt.NDArray[np.generic], size: int = 8) -> str:
    """Numbers of 8 or 4 bytes as text."""
    return b64encode(np.ascontiguousarray(values, dtype=f"<f{size}").tobytes()).decode("ascii")


def unpack(text: str, where: str, size: int = 8) -> Floats:
    """The numbers again; anything that is not finite, or not such a text, is a DataError."""
    raw = _bytes(text, where)
    if len(raw) % size:
        raise DataError(f"{where}: is cut off", HINT)
    values = np.frombuffer(raw, dtype=f"<f{size}").astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError(f"{where}: holds values that are not finite", HINT)
    return values


def pack_bits(values: npt.NDArray[np.bool_]) -> str:
    """Truth values as text."""
    return b64encode(np.packbits(values).tobytes()).decode("ascii")


def unpack_bits(text: str, size: int, where: str) -> npt.NDArray[np.bool_]:
    """The truth values again; there must be `size` of them."""
    raw = _bytes(text, where)
    if len(raw) != (size + 7) // 8:
        raise DataError(f"{where}: its length differs from the number of rows", HINT)
    return np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=size).astype(bool)


def _bytes(text: str, where: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Error, ValueError, TypeError):
        raise DataError(f"{where}: is not base64", HINT) from None
