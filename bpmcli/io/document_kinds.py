"""The JSON documents that bpmcli reads, field by field. `io.documents` loads them by these descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Check = Callable[[Any], bool]


class Is(NamedTuple):
    """What a value must be: a test, and the words for it in a message."""

    words: str
    test: Check


class Maybe(NamedTuple):
    """A field that may be missing or null."""

    shape: Any


class Each(NamedTuple):
    """An object whose names are free and whose values are all of one shape."""

    shape: Any


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


ANYTHING = Is("anything", lambda value: True)
TEXT = Is("text", lambda value: isinstance(value, str))
FLAG = Is("true or false", lambda value: isinstance(value, bool))
NUMBER = Is("a number", _is_number)
COUNT = Is("a whole number, 0 or more", lambda value: _is_integer(value) and value >= 0)
POSITIVE = Is("a whole number, 1 or more", lambda value: _is_integer(value) and value > 0)
OBJECT = Each(ANYTHING)


def is_one_of(*values: str) -> Is:
    """One of these texts."""
    return Is(" or ".join(f"'{value}'" for value in values), lambda value: isinstance(value, str) and value in values)


def _is_target(value: Any) -> bool:
    """Whether a run of `metrics` may be about this; with --top-k, about some of the most probable classes."""
    most = value.removeprefix("top-") if isinstance(value, str) else ""
    return value in ("top-label", "event") or (value == f"top-{most}" and most.isdecimal())


class Kind(NamedTuple):
    """A kind of document: its name, the newest version that is read, where it comes from, and its fields."""

    schema: str
    version: int
    origin: str
    """The end of a hint that begins with "give a file"."""
    fields: Mapping[str, Any]


METRIC_VALUE = {"value": Maybe(NUMBER), "low": Maybe(NUMBER), "high": Maybe(NUMBER)}

REMEMBERED = ("logits", "probs", "confidence", "log_odds", "label", "hit", "prediction", "weight", "scale")
"""Input options that a parameter file stores, so that `apply` finds the same columns in other files."""

LIST_OF_INPUTS = Is(
    "a list of objects with the sha256 of a file",
    lambda value: isinstance(value, list) and all(
        isinstance(item, dict) and isinstance(item.get("sha256"), (str, type(None))) for item in value
    ),
)  # fmt: skip

CALIBRATOR = Kind(
    "bpmcli/calibrator", 2, "written by `bpmcli fit`",
    {
        "method": TEXT,
        "target": is_one_of("top-label", "event"),
        "parameters": OBJECT,
        "fit": Maybe(OBJECT),
        "sample": Maybe({"classes": Maybe(POSITIVE)}),
        "spread": Maybe({
            "temperature": Is("a number from 1e-100 to 1e100", lambda x: _is_number(x) and 1e-100 < x < 1e100),
            "floor": Is("a number from 0 to below 1", lambda value: _is_number(value) and 0 <= value < 1),
        }),
        "grouping": Maybe({
            "kind": TEXT,
            "column": Maybe(TEXT),
            "minimum": COUNT,
            "groups": Each({"parameters": OBJECT}),
        }),
        "columns": Maybe({name: Maybe(TEXT) for name in REMEMBERED}),
        "inputs": Maybe(LIST_OF_INPUTS),
        "validation": Maybe(OBJECT),
    },
)  # fmt: skip
"""Version 2 has a calibrator per group. Files without groups stay at version 1, which every release reads."""

KEPT = {
    "effective_n": Is("a number, 1 or more", lambda value: _is_number(value) and 1 <= value < 1e18),
    "cells": {"log_odds": TEXT, "mass": TEXT, "hits": TEXT},
    "rows": Maybe({
        "log_odds": TEXT, "hits": TEXT, "weights": Maybe(TEXT), "ids": Maybe(TEXT), "labels": Maybe(TEXT),
        "whole": Maybe(Each(TEXT)),
    }),
    "whole": Maybe(Each({
        "error": Is("a number, 0 or more", lambda value: _is_number(value) and 0 <= value < 1e100),
        "noise": Maybe(TEXT),
    })),
}  # fmt: skip
"""What `--save-baseline` stores beside the values."""

METRICS = Kind(
    "bpmcli/metrics", 1, "saved with `bpmcli metrics --save-baseline FILE`",
    {
        "options": OBJECT,
        "results": [{
            "input": TEXT,
            "by": Maybe(TEXT),
            "group": Maybe(TEXT),
            "target": Is("'top-label', 'event' or 'top-K' for a number K", _is_target),
            "weighted": FLAG,
            "metrics": Each(METRIC_VALUE),
            "kept": Maybe(KEPT),
        }],
    },
)  # fmt: skip

SUMMARY = Kind(
    "bpmcli/summary", 2, "written by `bpmcli summarize`",
    {
        "target": is_one_of("top-label", "event"),
        "mantissa_bits": COUNT, "fixed_bits": COUNT, "kept_bits": COUNT,
        "by": Maybe(TEXT),
        "odd": Maybe(Each(COUNT)),
        "metadata": Maybe(Each(TEXT)),
        "tables": [{
            "group": TEXT,
            "n": POSITIVE,
            "cells": POSITIVE,
            "weight_squares": Maybe(Is("a positive number", lambda value: _is_number(value) and value > 0)),
            "distinct": Maybe(FLAG),
        }],
    },
)  # fmt: skip
"""Version 2 has distinct values. Version 1 had a sum of squares that is no longer needed."""

DRAWS = Kind("bpmcli/draws", 1, "written by `bpmcli compare --resume`", {"setting": TEXT, "content": TEXT})
DRAW = {"draw": TEXT, "values": Each(Maybe(NUMBER))}
"""A line of such a file after the first."""

OUTPUT = {"output": TEXT, "origin": TEXT, "size": COUNT, "checksum": TEXT}
"""A line in the record of an output directory."""
