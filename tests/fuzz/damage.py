"""Changes made to finished files: bytes of any file, and values inside JSON documents."""

from __future__ import annotations

import copy
import json
import struct
from random import Random
from typing import Any

NUMBERS = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 10**6, 2_000_000_000, 2**31 - 1, 2**31, 2**32 - 1, -1, -2, 2**62, 2**63 - 1]  # fmt: skip


def damaged(rng: Random, content: bytes) -> bytes:
    """The content with one to a few faults."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if not data:
            return rng.choice([b"", b"\0", b"PK\x03\x04", b"PAR1", b"ARROW1", b"{"])
        at = rng.randrange(len(data))
        # Formats keep what matters most at the beginning and at the end.
        at = rng.choice([at, at, min(at, 300), max(at, len(data) - 1 - rng.randrange(400)) % len(data)])
        what = rng.choice(
            ["flip", "flip", "byte", "number", "number", "cut", "remove", "repeat", "insert", "zero", "swap"]
        )
        if what == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif what == "byte":
            data[at] = rng.choice([0, 0xFF, 0x22, 0x2C, 0x0A, 0x0D, 0x5C, rng.randrange(256)])
        elif what == "number":
            form = rng.choice(["<i", "<q", "<H", ">i"])
            size = struct.calcsize(form)
            mask = (1 << 8 * size) - 1
            at -= at % rng.choice([1, size])
            packed = (rng.choice(NUMBERS) & mask).to_bytes(size, "little" if form[0] == "<" else "big")
            data[at : at + size] = packed[: max(0, len(data) - at)]
        elif what == "cut":
            del data[at:]
        elif what == "remove":
            del data[at : at + rng.choice([1, 4, 100])]
        elif what == "repeat":
            data[at:at] = data[at : at + rng.choice([1, 8, 200])]
        elif what == "insert":
            data[at:at] = rng.choice([b"\0", b"\xff", b"\xff\xfe", b"\n", b"\r\n", b'"', b",", b"{", b"\xc3", b"NaN", b"-", b"1e999", rng.randbytes(9)])  # fmt: skip
        elif what == "zero":
            size = min(rng.choice([4, 64]), len(data) - at)
            data[at : at + size] = bytes(size)
        else:
            other = rng.randrange(len(data))
            data[at], data[other] = data[other], data[at]
    return bytes(data)


HUGE = "@@huge@@"
"""Stands for a number that json.dumps cannot write."""

VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 1.5, 1e308, -1e308, 5e-324, 1e-300, 10**30, 10**400, "", "x", "nan", [], {}, [[]], [1], ["x"],
    [None], {"a": 1}, float("nan"), float("inf"), -float("inf"), "\x1b[31mred", "é🎉", "../../x", HUGE, 2**63, -(2**63), 0.9999999999999999,
]  # fmt: skip


def _places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in items:
        found += _places(child, (*path, key))
    return found


def _is_circular(document: Any) -> bool:
    try:
        json.dumps(document)
    except ValueError:
        return True
    return False


def damaged_document(rng: Random, document: Any) -> bytes:
    """A JSON document with values changed, removed, repeated or nested; now and then broken as text."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = _places(document)
        if not places:
            break
        *parents, key = rng.choice(places)
        node = document
        for parent in parents:
            node = node[parent]
        before = copy.deepcopy(document)
        _change(rng, node, key)
        if _is_circular(document):
            document = before
    text = json.dumps(document, allow_nan=True).replace(
        f'"{HUGE}"', rng.choice(["1e999", "9" * 5000, "-0", "01", "1e-999"])
    )
    deep = rng.random()
    if deep < 0.02:
        n = rng.choice([900, 100_000])
        text = text[:-1] + ', "deep": ' + "[" * n + "]" * n + "}"
    elif deep < 0.03:
        text = rng.choice(["", "[]", "null", "3", '"x"', "{}", "[" * 100_000, '{"a":' * 100_000, "nope", "{" + text])
    content = text.encode("utf-8", "surrogatepass")
    return damaged(rng, content) if rng.random() < 0.1 else content


def _change(rng: Random, node: Any, key: Any) -> None:
    value = node[key]
    what = rng.choice(["value", "value", "value", "remove", "nudge", "repeat", "wrap"])
    if what == "remove":
        del node[key]
    elif what == "nudge" and isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**64:
        node[key] = rng.choice(
            [-value, value * 1e6, value + 1, value * 1e300 if abs(value) < 1e8 else 0, float(value), str(value)]
        )
    elif what == "repeat" and isinstance(value, list):
        node[key] = rng.choice([value + value, value[:-1], value[::-1], value * 1000 if len(value) < 50 else value[:1]])
    elif what == "repeat" and isinstance(node, dict):
        node[rng.choice(["x", "version", "schema", "", "method", "parameters"])] = value
    elif what == "wrap":
        node[key] = rng.choice([[value], {"a": value}, str(value)])
    else:
        node[key] = rng.choice(VALUES)
