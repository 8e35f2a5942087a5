"""After `apply`, every column that is not a score equals the input's: same rows, same order, same values, same type."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from fuzz.reading import family, read_columns

SCORES = re.compile(
    r"(logits?|logprobs?|log_probs?|log_odds|probs?|proba|p|confidence|conf|output)([_.].*)?", re.IGNORECASE
)
"""Columns that `apply` may replace, rename or add."""

SECONDS = {(f"{kind}[s]", f"{kind}[ms]") for kind in ("time32", "timestamp")}
"""parquet has no times in whole seconds."""

KEY = "row"
"""A column of distinct numbers that every random table has."""


def differences(
    source: str, before: bytes, target: str, after: bytes, skipping: bool, scores: Collection[str | None] = ()
) -> Iterator[str]:
    """What was lost or changed on the way, in words. `scores`: columns that options named as scores, which do change."""
    try:
        old = read_columns(source, before)
    except (ValueError, KeyError, OSError) as error:
        if family(source) in ("numpy", "arrow") and "pickle" not in str(error):
            yield f"input unreadable: {error}"
        return
    if KEY not in old:
        return
    try:
        new = read_columns(target, after)
    except Exception as error:  # whatever a library says of it, the output cannot be read
        yield f"the output cannot be read: {type(error).__name__}: {error}"
        return
    if KEY not in new:
        yield f"column '{KEY}' is gone"
        return
    keys = _numbers(old[KEY])
    index = _where(keys, _numbers(new[KEY]), skipping)
    if isinstance(index, str):
        yield index
    elif index is not None:
        old = {name: values for name, values in old.items() if name not in scores}
        yield from _columns(old, new, index, len(keys), family(source) == family(target), family(target))


def _where(keys: list[Any], found: list[Any], skipping: bool) -> list[int] | str | None:
    """Where each row of the output was in the input; what is wrong with that; None if it cannot be told."""
    if any(isinstance(key, (list, dict)) for key in [*keys, *found]):
        return None
    place = {key: i for i, key in enumerate(keys)}
    if len(place) < len(keys):
        return None
    index = [place[key] for key in found if key in place]
    if len(index) < len(found):
        return "rows that were not in the input"
    if index != sorted(index) or len(set(index)) < len(index):
        return f"rows in another order, or twice ({len(found)} of {len(keys)})"
    if len(index) < len(keys) and not skipping:
        return f"{len(keys)} rows became {len(index)}"
    return index


def _columns(
    old: dict[str, Any], new: dict[str, Any], index: list[int], n: int, same: bool, kind: str
) -> Iterator[str]:
    for name, values in new.items():
        if isinstance(values, np.ndarray) and not values.ndim:
            continue
        unlike = len(values) != len(index)
        if unlike and not (name in old and np.shape(old[name])[:1] == np.shape(values)[:1]):
            yield f"column '{name}' has {len(values)} rows, not {len(index)}"
    for name, values in old.items():
        if not SCORES.fullmatch(name):
            yield from _column(name, values, new, index, n, same, kind)


def _numbers(values: Any) -> list[Any]:
    """The key as numbers, whatever the format makes of them."""
    try:
        return [None if v in (None, "") or math.isnan(float(v)) else float(v) for v in _plain(values)]
    except (TypeError, ValueError):
        return _plain(values)


def _taken(values: Any, index: list[int]) -> Any:
    if isinstance(values, list):
        return [values[i] for i in index]
    if isinstance(values, np.ndarray):
        return values[index]
    return values if index == list(range(len(values))) else values.take(index)


def _column(
    name: str, values: Any, new: dict[str, Any], index: list[Any], n: int, same: bool, kind: str
) -> Iterator[str]:
    rows_shaped = not (isinstance(values, np.ndarray) and values.ndim == 0) and len(values) == n
    if name not in new:
        wide = isinstance(values, np.ndarray) and (values.ndim > 1 or values.dtype.names)
        wide = (
            wide
            or "list" in str(getattr(values, "type", ""))
            or (isinstance(values, list) and any(isinstance(v, (list, dict)) for v in values))
        )
        if rows_shaped and not wide and np.shape(values):
            yield f"column '{name}' is gone"
        elif same and not wide and not (isinstance(values, np.ndarray) and values.ndim == 0):
            yield f"array '{name}' is gone"
        return
    now = new[name]
    if not rows_shaped:
        if same and not _equal(values, now):
            yield f"array '{name}' has changed"
        return
    taken = _taken(values, index)
    if same:
        if not _equal(taken, now):
            yield f"column '{name}' has changed ({_kind(taken)} to {_kind(now)}; {_first(taken, now)})"
        return
    old_plain, new_plain = _plain(taken), _plain(now)
    for a, b in zip(old_plain, new_plain, strict=True):
        if not _alike(a, b, kind):
            yield f"column '{name}': {a!r} became {b!r} ({_kind(taken)} to {_kind(now)})"
            return


def _kind(values: Any) -> str:
    return str(getattr(values, "dtype", None) or getattr(values, "type", None) or "text")


def _first(a: Any, b: Any) -> str:
    pairs = zip(_plain(a), _plain(b), strict=False)
    return next((f"{x!r} became {y!r}" for x, y in pairs if repr(x) != repr(y)), "the same values")


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        if not isinstance(b, np.ndarray) or a.dtype != b.dtype or a.shape != b.shape:
            return False
        return bool(np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes())
    if hasattr(a, "type"):
        if a.type != b.type and (str(a.type), str(b.type)) not in SECONDS:
            return False
        return bool((a.type == b.type and a.equals(b)) or repr(_plain(a)) == repr(_plain(b)))
    return _without_nan(a) == _without_nan(b)


def _without_nan(values: list[Any]) -> str:
    """JSON has no NaN: Python reads one, and it becomes null."""
    return json.dumps(values).replace("NaN", "null")


def _plain(values: Any) -> list[Any]:
    if isinstance(values, np.ndarray):
        return list(values) if values.dtype.kind == "M" else list(values.tolist())
    if hasattr(values, "to_pylist"):
        try:
            return list(values.to_pylist())
        except (ValueError, OverflowError, KeyError, UnicodeDecodeError):  # dates that Python has no name for
            return ["?"] * len(values)
    return list(values)


TRUE = {True: ("True", "true", "1", 1), False: ("False", "false", "0", 0)}


def _alike(a: Any, b: Any, kind: str) -> bool:
    """The same value in another format; values without a counterpart are not judged."""
    if a == "?" or b == "?":
        return True
    if a is None or (isinstance(a, float) and math.isnan(a)) or (isinstance(a, str) and a in MISSING):
        return b is None or b in ("", "nan", "NaN") or b == a or (isinstance(b, float) and math.isnan(b))
    if isinstance(a, bool):
        return b in TRUE[a]
    if isinstance(a, (int, float)):  # -1 beside 0.5 may become -1.0: JSON has one kind of number
        return bool(a == b) or (isinstance(b, str) and a in (_number(b, type(a)), _number(b, float)))
    if isinstance(a, str):
        return _text_alike(a, b)
    return _other_alike(a, b, kind)


def _other_alike(a: Any, b: Any, kind: str) -> bool:
    """Dates, lists and objects. Those that have no counterpart in the other format are not judged."""
    if isinstance(a, (np.datetime64, datetime.date)):
        return not isinstance(b, str) or _same_time(a, b)
    if isinstance(b, str) and isinstance(a, (list, dict)):
        b = json.loads(b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_alike(x, y, kind) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return all(_alike(a[key], b.get(key), kind) for key in a)
    return True


def _same_time(a: Any, b: str) -> bool:
    """A date or a time, and the text that stands for it: in UTC if it has a time zone."""
    if np.isnat(a) if isinstance(a, np.datetime64) else False:
        return b in ("", "NaT")
    if isinstance(a, datetime.datetime) and a.tzinfo is not None:
        if not b.endswith("Z"):
            return False
        a, b = a.astimezone(datetime.timezone.utc).replace(tzinfo=None), b[:-1]
    return bool(np.datetime64(b) == (a if isinstance(a, np.datetime64) else np.datetime64(a.isoformat())))


def _text_alike(a: str, b: Any) -> bool:
    if isinstance(b, str):
        return a == b
    if isinstance(b, (bool, int, float)):
        return a == repr(b)  # 003, 1.50 and true are text: as numbers they would be written in another way
    return True


def _number(text: str, kind: type) -> Any:
    try:
        return kind(text)
    except ValueError:
        return None


MISSING = ("", "NA", "N/A", "null", "NULL", "nan", "NaN", "n/a", "#N/A")
