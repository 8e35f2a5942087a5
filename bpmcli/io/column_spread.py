"""Scores with one column per class: the columns that a prefix, a list, a range or a pattern names."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from bpmcli.errors import DataError
from bpmcli.io.known_names import NAMES, RARER, SPLITS

Spread = tuple[tuple[str, ...], tuple[str, ...]]
"""The columns, and the names of their classes."""

PATTERNS = (r"[_.](.+)", r" ?\((?:[^=()]*=)?(.+)\)", r"\[(.+)\]", r":class=(.+)", r"(\d+)")
"""What follows a prefix: the class in group 1. KNIME writes `P (species=cat)`, CatBoost `Probability:Class=cat`."""

PREDICTIONS = {*NAMES["prediction"], *RARER["prediction"]}
"""tidymodels writes the predicted class to `.pred_class`, beside `.pred_cat` and `.pred_dog`."""

_LAST_NUMBER = re.compile(r"(.*?)(\d+)\D*")


def several(wanted: str, columns: Collection[str]) -> Spread | None:
    """The columns that an option such as `--probs` names: `a,b,c`, `p0:p9`, `p*` or the prefix `p`."""
    if "," in wanted:
        names = [name.strip() for name in wanted.split(",") if name.strip()]
        missing = [name for name in names if name not in columns]
        if missing:
            raise DataError(f"no column '{missing[0]}', which is in the list {wanted}", "check its spelling")
        return _with_classes(names)
    if ":" in wanted:
        ends = wanted.split(":")
        every = list(columns)
        if len(ends) == 2 and all(end in every for end in ends):
            first, last = (every.index(end) for end in ends)
            return _with_classes(every[min(first, last) : max(first, last) + 1])
    if any(letter in wanted for letter in "*?["):
        return _with_classes(_in_order([name for name in columns if fnmatchcase(name, wanted)]))
    return prefixed(wanted.rstrip("_."), columns)


def _with_classes(names: Sequence[str]) -> Spread | None:
    """Class names: the columns' names without their common beginning.

    Columns that are numbered from 0 or 1 are in the order of their numbers, because labels are such numbers.
    """
    if len(names) < 2:
        return None
    start = 0
    while all(len(n) > start and n[start] == names[0][start] for n in names):
        start += 1
    # A number is not cut in two: p10 and p11 share "p1", but their classes are 10 and 11.
    while start and any(name[start - 1].isdigit() for name in names):
        start -= 1
    rest = [name[start:].strip("_. )") for name in names]
    if start and names[0][start - 1].isalpha() and not all(r.isdigit() for r in rest):
        rest = list(names)  # cat and car share letters, but not a prefix
    order = order_of_classes(rest)
    return tuple(names[k] for k in order), tuple(rest[k] for k in order)


def order_of_classes(names: Sequence[str]) -> list[int]:
    """The places of the names in the order of the classes: by number, if they are numbered from 0 or 1."""
    numbers = {int(name): k for k, name in enumerate(names)} if all(name.isdecimal() for name in names) else {}
    if any(set(numbers) == {*range(first, first + len(names))} for first in (0, 1)):
        return [numbers[number] for number in sorted(numbers)]
    return list(range(len(names)))


def _in_order(names: Sequence[str]) -> list[str]:
    """By the number in their names, where all have one: p10 comes after p9."""
    numbers = [_LAST_NUMBER.fullmatch(name) for name in names]
    if names and all(numbers):
        return sorted(names, key=lambda name: int(_LAST_NUMBER.fullmatch(name)[2]))  # type: ignore[index]
    return list(names)


def prefixed(prefix: str, columns: Collection[str]) -> Spread | None:
    """`prob_0, prob_1, …`, `p0, p1, …`, `prob.cat, prob.dog`, `P(cat), P(dog)` and the like, whichever the file has."""
    start = re.escape(prefix)
    single = [name for name in columns if name.lower() not in PREDICTIONS]
    for pattern in PATTERNS:
        matcher = re.compile(start + pattern, re.IGNORECASE)
        matched = {m[1]: name for name in single if (m := matcher.fullmatch(name))}
        numeric = {int(k): v for k, v in matched.items() if k.isdigit()}
        if len(numeric) >= 2 and len(numeric) == len(matched):
            return _numbered(prefix, numeric)
        if len(matched) >= 2 and not numeric and not {name.lower() for name in matched} <= {*SPLITS}:
            return tuple(matched.values()), tuple(matched)
    return None


def _numbered(prefix: str, columns: dict[int, str]) -> Spread:
    first = min(columns)
    expected = range(min(first, 1), min(first, 1) + len(columns))
    missing = next((i for i in expected if i not in columns), None)
    if missing is not None:
        known = next(iter(columns.values()))
        name = re.sub(r"\d+", str(missing), known[len(prefix) :])
        raise DataError(f"column {prefix}{name} is missing", f"columns run from {min(first, 1)} without a gap")
    return tuple(columns[i] for i in expected), tuple(str(i) for i in expected)
