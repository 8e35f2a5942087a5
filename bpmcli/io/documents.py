"""Every JSON document that bpmcli reads passes through this guarded loader.

Size, nesting and numbers are limited before anything looks at a value, and every field must be as `document_kinds`
describes it. An edited, damaged or hostile document therefore ends in exit code 3 and a sentence with the path of
the value that is wrong: `results[0].target: must be …`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bpmcli import __version__
from bpmcli.errors import BpmError, DataError
from bpmcli.io.document_kinds import Each, Is, Kind, Maybe

Built = TypeVar("Built")

LARGEST_FILE = 1 << 26
"""The largest document in bytes. Python needs up to ten times as much memory for its values."""

MOST_CONTAINERS = 2_000_000
"""The most lists and objects in a document: an empty one takes two bytes in the file and sixty in memory."""

DEEPEST = 40
"""The most levels of nesting. The documents that bpmcli writes have eight."""

LARGEST_INTEGER = 1 << 63


_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
"""Terminal commands, invisible characters, and the bytes of names that are not UTF-8."""


def dumps(document: Any, indent: int | None = 2) -> str:
    """JSON with full precision and without control characters; NaN and infinity never reach it. One line for None."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def load_document(path: str, kind: Kind) -> dict[str, Any]:
    """A document of this kind from a local or remote file, with a known version and every field as described."""
    from bpmcli.io.remote import read_start

    try:
        raw = read_start(path, LARGEST_FILE + 1)
    except BpmError as error:
        raise type(error)(error.message, error.hint or f"give a file {kind.origin}") from None
    return parse_document(raw, kind)


def parse_document(raw: bytes | str, kind: Kind) -> dict[str, Any]:
    """The same from its text."""
    document = parse(raw, f"give a file {kind.origin}")
    if not isinstance(document, dict) or document.get("schema") != kind.schema:
        found = document.get("schema") if isinstance(document, dict) else None
        shown = f" but {_shown(found)}" if found else ""
        raise DataError(f"is not a {kind.schema} file{shown}", f"give a file {kind.origin}")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise DataError(f"version: must be a whole number, 1 or more, found {_shown(version)}")
    if version > kind.version:
        raise DataError(
            f"has version {version}, but this bpmcli ({__version__}) reads versions up to {kind.version}",
            "upgrade: pip install -U bpmcli",
        )
    check(document, kind.fields, "", f"give a file {kind.origin}")
    return document


def parse(raw: bytes | str, hint: str) -> Any:
    """Any JSON value of bounded size and depth, all of whose numbers are finite and all of whose text is Unicode."""
    if len(raw) > LARGEST_FILE:
        raise DataError(f"is larger than {LARGEST_FILE >> 20} MB, the limit for such files", hint)
    if _containers(raw) > MOST_CONTAINERS:
        raise DataError(f"holds more than {MOST_CONTAINERS} lists and objects, which no file of bpmcli does", hint)
    try:
        document = json.loads(raw)
    except json.JSONDecodeError as error:
        raise DataError(f"is not JSON (line {error.lineno}: {error.msg})", hint) from None
    except UnicodeDecodeError:
        raise DataError("is not JSON (not text)", hint) from None
    except RecursionError:
        raise DataError(f"is nested more than {DEEPEST} levels deep", hint) from None
    except ValueError:  # Python's own limit on digits
        raise DataError("is not JSON (a number has thousands of digits)", hint) from None
    _check_values(document, "", 0, hint)
    return document


def _containers(raw: bytes | str) -> int:
    if isinstance(raw, str):
        return raw.count("[") + raw.count("{")
    return raw.count(b"[") + raw.count(b"{")


def _check_values(value: Any, path: str, depth: int, hint: str) -> None:
    if depth > DEEPEST:
        raise DataError(f"{path[:60]}…: is nested more than {DEEPEST} levels deep", hint)
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_text(name, path, hint)
            if not _is_sound(inner):
                _check_values(inner, _inside(path, name), depth + 1, hint)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            if not _is_sound(inner):
                _check_values(inner, f"{path}[{i}]", depth + 1, hint)
    elif isinstance(value, float):
        if value - value != 0.0:
            raise DataError(f"{path}: must be a finite number, found {value}", hint)
    elif isinstance(value, str):
        _check_text(value, path, hint)
    elif isinstance(value, int) and not -LARGEST_INTEGER <= value < LARGEST_INTEGER:
        raise DataError(f"{path}: a whole number of {len(str(abs(value)))} digits is too large", hint)


def _is_sound(value: Any) -> bool:
    """Whether a value needs no further check, so that its path need not be put together. Most values are sound."""
    kind = type(value)
    if kind is float:
        return bool(value - value == 0.0)
    return value is None or kind is bool or (kind is str and value.isascii())


def _check_text(text: str, path: str, hint: str) -> None:
    """Bytes of file names that are not UTF-8 (U+DC80 to U+DCFF) are text as far as Python is concerned."""
    if not text.isascii():
        try:
            text.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            raise DataError(f"{path}: holds half of a surrogate pair, which is not text", hint) from None


def check(value: Any, shape: Any, path: str, hint: str | None = None) -> None:
    """Raise DataError with the path of the first value that does not have this shape."""
    if isinstance(shape, Is):
        if not shape.test(value):
            raise DataError(f"{path}: must be {shape.words}, found {_shown(value)}", hint)
    elif isinstance(shape, Maybe):
        if value is not None:
            check(value, shape.shape, path, hint)
    elif isinstance(shape, list):
        if not isinstance(value, list) or not value:
            raise DataError(f"{path}: must be a list with at least one entry, found {_shown(value)}", hint)
        for i, inner in enumerate(value):
            check(inner, shape[0], f"{path}[{i}]", hint)
    elif not isinstance(value, dict):
        raise DataError(f"{path or 'it'}: must be an object, found {_shown(value)}", hint)
    elif isinstance(shape, Each):
        for name, inner in value.items():
            check(inner, shape.shape, _inside(path, name), hint)
    else:
        _check_fields(value, shape, path, hint)


def _check_fields(value: dict[str, Any], shape: Mapping[str, Any], path: str, hint: str | None) -> None:
    for name, inner in shape.items():
        if name not in value and not isinstance(inner, Maybe):
            raise DataError(f"{_inside(path, name)}: is missing", hint)
        check(value.get(name), inner, _inside(path, name), hint)


def built_at(path: str, build: Callable[..., Built], *values: Any) -> Built:
    """What `build` makes of values of a document. The errors that it raises name the path of the values."""
    try:
        return build(*values)
    except DataError as error:
        raise error.at(path) from None
    except (TypeError, ValueError, LookupError, OverflowError, AttributeError) as error:
        raise DataError(f"{path}: cannot be used ({error})", "was the file edited?") from None


def _inside(path: str, name: str) -> str:
    plain = name if name.replace("_", "").replace("-", "").isalnum() else json.dumps(name[:60])
    return f"{path}.{plain}" if path else plain


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
