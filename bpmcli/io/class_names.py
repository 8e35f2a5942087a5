"""The order of the classes from a file beside the scores, such as `x.classes.txt` or `classes.json`."""

from __future__ import annotations

import json
import os

LARGEST = 1 << 24
"""The largest list of class names that is read, in bytes."""


def beside(path: str, n: int) -> tuple[str, ...] | None:
    """The n class names in a file beside the input; None if there is none of that length."""
    if "://" in path:
        return None
    stem = os.path.splitext(path)[0]
    folder = os.path.dirname(path)
    for name in (f"{stem}.classes", os.path.join(folder, "classes"), os.path.join(folder, "class_names")):
        for suffix in (".txt", ".json"):
            found = _read(name + suffix)
            if len(found) == n:
                return found
    return None


def _read(path: str) -> tuple[str, ...]:
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
            return ()
        with open(path, encoding="utf-8") as file:
            text = file.read()
        values = json.loads(text) if path.endswith(".json") else text.split("\n")
    except (OSError, ValueError, RecursionError):
        return ()
    if not isinstance(values, list):
        return ()
    return tuple(str(value).strip() for value in values if str(value).strip())
