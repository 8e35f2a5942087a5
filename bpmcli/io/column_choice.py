"""Which columns hold the scores, labels and hits: by name when that is unambiguous, by option always.

Scores with one column per class are named by a prefix, a list, a range or a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from bpmcli.errors import DataError, UsageError
from bpmcli.io.formats.reader import ColumnInfo
from bpmcli.record import Record

Spread = tuple[tuple[str, ...], tuple[str, ...]]
"""The columns, and the names of their classes."""

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
    """Class names: the columns' names without their common beginning."""
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
    return tuple(names), tuple(rest)


def _in_order(names: Sequence[str]) -> list[str]:
    """By the number in their names, where all have one: p10 comes after p9."""
    numbers = [_LAST_NUMBER.fullmatch(name) for name in names]
    if names and all(numbers):
        return sorted(names, key=lambda name: int(_LAST_NUMBER.fullmatch(name)[2]))  # type: ignore[index]
    return list(names)


def prefixed(prefix: str, columns: Collection[str]) -> Spread | None:
    """`prob_0, prob_1, …`, `p0, p1, …`, `prob.cat, prob.dog` or `P(cat), P(dog)`, whichever the file has."""
    start = re.escape(prefix)
    for pattern in (rf"{start}[_.](.+)", rf"{start}\((.+)\)", rf"{start}\[(.+)\]", rf"{start}(\d+)"):
        matcher = re.compile(pattern, re.IGNORECASE)
        matched = {m[1]: name for name in columns if (m := matcher.fullmatch(name))}
        numeric = {int(k): v for k, v in matched.items() if k.isdigit()}
        if len(numeric) >= 2 and len(numeric) == len(matched):
            return _numbered(prefix, numeric)
        if len(matched) >= 2 and not numeric:
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


NAMES: dict[str, tuple[str, ...]] = {
    "logits": ("logits", "logit", "logprobs", "log_probs", "logprob", "loglikelihoods"),
    "log_odds": ("log_odds", "logodds"),
    "probs": ("probs", "prob", "probabilities", "probability", "proba", "pred_probs", "y_prob", "y_proba", "softmax"),
    "confidence": ("confidence", "confidences", "conf"),
    "label": ("label", "labels", "y", "y_true", "target", "targets", "true_label", "ground_truth", "truth"),
    "hit": ("hit", "hits", "correct", "is_correct"),
    "prediction": ("prediction", "predictions", "pred", "preds", "predicted", "y_pred", "predicted_label", "guess"),
}
"""Names that are recognised, in lower case."""

SPREAD = {
    "logits": ("logit", "logits", "logprob", "log_prob"),
    "probs": (
        "prob",
        "probs",
        "p",
        "proba",
        "probability",
        "probabilities",
        "pred_prob",
        "y_prob",
        "y_proba",
        "softmax",
    ),
}
"""Prefixes of one column per class: logit_0, logit_1, …"""

SCORES = ("logits", "log_odds", "probs", "confidence")
"""Kinds of scores, most exact first: if a file has several, the first is taken."""


class InputOptions(Record):
    """What the user said about the input."""

    logits: str | None = None
    probs: str | None = None
    confidence: str | None = None
    log_odds: str | None = None
    label: str | None = None
    hit: str | None = None
    prediction: str | None = None
    weight: str | None = None
    group: str | None = None
    event: bool = False
    skip_missing: bool = False
    input_format: str | None = None
    scale: str | None = None
    """`percent`: scores are percentages."""
    id: str | None = None
    """The column by which labels from another file are joined, and rows of two runs are paired."""
    cluster: str | None = None
    """Rows with the same value in this column are not independent."""
    keep_ids: bool = False
    """Whether rows keep their ids, so that they can be paired with the rows of another run."""
    top_k: int = 1
    """A row is correct if its label is among this many of the most probable classes."""
    unknown: str | None = None
    """The label of rows that belong to none of the classes."""
    multi_label: bool = False
    """A row may have several labels, each with a probability of its own."""
    each_label: bool = False
    """With `multi_label`: the labels are the groups of the rows."""
    by_path: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Other values for the inputs whose absolute path matches a pattern; the last that matches wins."""

    def at(self, path: str) -> InputOptions:
        """The options of this input."""
        if not self.by_path:
            return self
        import os
        from fnmatch import fnmatch

        place = path if "://" in path else os.path.abspath(path)
        found = self
        for pattern, changes in self.by_path:
            if fnmatch(place, pattern):
                found = found._replace(**changes)
        return found


OUTCOMES = ("label", "hit", "prediction")

SHOWN = 20
"""The number of columns that a message names."""


def listed(names: Iterable[str]) -> str:
    """Names for a message, shortened to the first SHOWN."""
    every = list(names)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more


def _numbered_prefix(columns: Iterable[ColumnInfo]) -> str:
    """The prefix of numbers in columns like score_0, score_1, …; empty if there is none, or more than one."""
    found: dict[str, set[int]] = {}
    for column in columns:
        parts = re.fullmatch(r"(.*?[^\W\d_])_?(\d{1,6})", column.name)
        if parts and column.width is None and column.kind in "fiu":
            found.setdefault(parts[1], set()).add(int(parts[2]))
    runs = [name for name, numbers in found.items() if len(numbers) > 1 and max(numbers) - min(numbers) < len(numbers)]
    return runs[0] if len(runs) == 1 else ""


class ColumnChoice:
    """Finds the column for a role."""

    def __init__(self, columns: Mapping[str, ColumnInfo], options: InputOptions) -> None:
        self.columns, self.options = columns, options

    def existing(self, name: str, option: str) -> str:
        if name not in self.columns:
            raise DataError(f"no column '{name}' (found: {listed(self.columns)})", f"name another one with {option}")
        return name

    def one(self, role: str) -> str | None:
        """A single column for the role."""
        option = "--" + role.replace("_", "-")
        named = getattr(self.options, role)
        if named:
            return self.existing(named, option)
        found = [name for name in self.columns if name.lower() in NAMES[role]]
        if len(found) > 1:
            raise DataError(f"{' and '.join(repr(f) for f in found)} could both be the {role}", f"choose with {option}")
        return found[0] if found else None

    def outcome_columns(self) -> list[str]:
        """Columns that hold labels, hits or predictions, whether they are needed or not."""
        found = [getattr(self.options, role) for role in OUTCOMES]
        if not any(found):
            found = [name for name in self.columns if any(name.lower() in NAMES[role] for role in OUTCOMES)]
        return [name for name in found if name in self.columns]

    def scores(self) -> tuple[str, tuple[str, ...], tuple[str, ...] | None]:
        """Kind, columns and class names of the scores."""
        named = [role for role in SCORES if getattr(self.options, role)]
        if len(named) > 1:
            raise UsageError(
                "give one of " + ", ".join("--" + r.replace("_", "-") for r in named), "they name the same thing"
            )
        for role in named or SCORES:
            wanted = getattr(self.options, role)
            if wanted and wanted in self.columns:
                return role, (wanted,), None
            if role in SPREAD:
                spread = several(wanted, self.columns) if wanted else self._by_prefix(SPREAD[role])
                if spread:
                    return role, *spread
            if wanted:
                self.existing(wanted, "--" + role.replace("_", "-"))
            single = self.one(role)
            if single:
                return role, (single,), None
        raise self._none_found()

    def _by_prefix(self, prefixes: Sequence[str]) -> Spread | None:
        single = [name for name, column in self.columns.items() if column.width is None]
        found = (prefixed(prefix, single) for prefix in prefixes)
        return next((spread for spread in found if spread), None)

    def _label_for(self, scores: str) -> str:
        """The option that names the labels of an array of scores, if their column cannot be recognised."""
        if scores not in self.columns or self.one("label"):
            return ""
        rows = self.columns[scores].rows
        words = re.split(r"[^a-z0-9]+", scores.lower())
        for name, column in self.columns.items():
            own = re.split(r"[^a-z0-9]+", name.lower())
            same = column.rows == rows and set(words[1:]) <= set(own)
            if same and column.width is None and any(word in NAMES["label"] for word in own):
                return f" --label {name}"
        return ""

    def _none_found(self) -> DataError:
        wide = [c.name for c in self.columns.values() if c.width is not None]
        if wide:
            name = next((n for n in wide if "test" in n.lower()), wide[0])
            label = self._label_for(name)
            return DataError(
                f"'{name}' could be logits or probabilities", f"say --logits {name}{label} or --probs {name}{label}"
            )
        numbered = _numbered_prefix(self.columns.values())
        if numbered:
            label = self._label_for(f"{numbered}_")
            return DataError(
                f"columns of '{numbered}' could be logits or probabilities (found: {listed(self.columns)})",
                f"say --logits {numbered}{label} or --probs {numbered}{label}",
            )
        return DataError(
            f"no column with scores (found: {listed(self.columns)})",
            "name them with --logits, --probs or --confidence: a column, a prefix (p), a list (a,b,c), a range (a:c) "
            "or a pattern ('p*')",
        )
