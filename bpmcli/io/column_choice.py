"""Which columns hold scores, labels and outcomes: those that an option names, otherwise those with a known name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bpmcli.core.data.names import nearest
from bpmcli.errors import DataError, UsageError
from bpmcli.io.formats.reader import ColumnInfo
from bpmcli.io.known_names import NAMES, RARER, SCORES, SPREAD, Spread, prefixed, several, split_of
from bpmcli.record import Record


class InputOptions(Record):
    """The options that say how to read an input."""

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
    """Other options for inputs whose absolute path matches a pattern. If several match, the last one wins."""

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

Scores = tuple[str, tuple[str, ...], tuple[str, ...] | None]
"""Kind, columns and class names of the scores."""

SHOWN = 20
"""The number of columns that a message names."""


def listed(names: Iterable[str]) -> str:
    """Names for a message, shortened to the first SHOWN."""
    every = list(names)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more


def as_option(names: Sequence[str]) -> str:
    """Columns as an option names them: a list, or a range if there are many. Empty if a name has a comma or colon."""
    from shlex import quote

    if len(names) > 1 and any("," in name or ":" in name for name in names):
        return ""
    return quote(",".join(names) if len(names) <= SHOWN else f"{names[0]}:{names[-1]}")


def _numbered_prefix(columns: Iterable[ColumnInfo]) -> str:
    """The common prefix of columns like score_0, score_1, …; empty if there is none, or more than one."""
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
        self.split = ""
        """The part of the data set that the scores belong to, such as `test`, if their name says so."""

    def existing(self, name: str, option: str) -> str:
        if name not in self.columns:
            near = nearest(name, self.columns)
            hint = f"did you mean {near}?" if near else f"name another one with {option}"
            raise DataError(f"no column '{name}' (found: {listed(self.columns)})", hint)
        return name

    def one(self, role: str) -> str | None:
        """A single column for the role."""
        option = "--" + role.replace("_", "-")
        named = getattr(self.options, role)
        if named:
            return self.existing(named, option)
        found = self._known(role, NAMES) or self._known(role, RARER)
        if len(found) > 1:
            say = " or ".join(f"{option} {as_option([name])}" for name in found)
            raise DataError(f"{' and '.join(repr(f) for f in found)} could both be the {role}", f"say {say}")
        return found[0] if found else None

    def _known(self, role: str, names: Mapping[str, Sequence[str]]) -> list[str]:
        """The columns with a name of this role, apart from those that an option gives another role."""
        if role == "label" and names is RARER and (self._known("hit", NAMES) or self._known("hit", RARER)):
            return []
        taken = {getattr(self.options, other) for other in (*SCORES, *OUTCOMES, "weight") if other != role}
        found = [name for name in self.columns if name.lower() in names[role] and name not in taken]
        if self.split and role in OUTCOMES:
            same = [name for name in self.columns if self._fits(name, names[role]) and name not in taken]
            return same or [name for name in found if not split_of(name)[1]]
        return found

    def _fits(self, name: str, known: Sequence[str]) -> bool:
        """Whether a column belongs to the same part of the data set as the scores."""
        stem, split = split_of(name)
        return split == self.split and stem in known

    def split_scores(self) -> list[tuple[str, str]]:
        """Kind and name of the scores whose names are common ones with a part of the data set: `probas_test`."""
        parts = {name: split_of(name) for name in self.columns}
        return [
            (role, name) for role in SCORES for name, (stem, split) in parts.items() if split and stem in NAMES[role]
        ]

    def outcome_columns(self) -> list[str]:
        """Columns that hold labels, hits or predictions, whether they are needed or not."""
        found = [name for role in OUTCOMES if (name := getattr(self.options, role))] or self.outcome_names()
        return [name for name in found if name in self.columns]

    def outcome_names(self) -> list[str]:
        """Columns with a name that stands for labels, hits or predictions, whatever the options say."""
        return [name for role in OUTCOMES for name in self._known(role, NAMES) or self._known(role, RARER)]

    def knows_outcome(self) -> bool:
        """Whether an option or a common name tells which column holds labels, hits or predictions."""
        return any(getattr(self.options, role) for role in OUTCOMES) or bool(self.outcome_names())

    def named_scores(self) -> list[str]:
        """The kinds of scores that an option names."""
        return [role for role in SCORES if getattr(self.options, role)]

    def scores(self) -> Scores:
        """The scores that an option names, or whose columns have one of the common names or prefixes."""
        named = self.named_scores()
        if len(named) > 1:
            options = " and ".join("--" + role.replace("_", "-") for role in named)
            raise UsageError(f"{options} exclude each other: all of them name the scores", "keep one of them")
        for role in named or SCORES:
            wanted = getattr(self.options, role)
            if wanted and wanted in self.columns:
                return role, (wanted,), None
            if role in SPREAD:
                spread = several(wanted, self.columns) if wanted else self._by_prefix(role)
                if spread:
                    return role, *spread
            if wanted:
                self.existing(wanted, "--" + role.replace("_", "-"))
            if self._known(role, NAMES):
                return role, (str(self.one(role)),), None
        parts = self.split_scores()
        if self._one_part(parts):
            return parts[0][0], (parts[0][1],), None
        raise self._several_parts(parts) if parts else self._none_found()

    def _one_part(self, parts: Sequence[tuple[str, str]]) -> bool:
        """Whether the scores are of one part of the data set. Of several kinds the first is taken, as with NAMES."""
        return len({split_of(name)[1] for _, name in parts}) == 1 and len({role for role, _ in parts}) == len(parts)

    def _several_parts(self, parts: Sequence[tuple[str, str]]) -> DataError:
        """The refusal to choose among the parts of a data set; the hint begins with the test rows."""
        ordered = sorted(parts, key=lambda part: split_of(part[1])[1] != "test")
        options = [f"--{role.replace('_', '-')} {as_option([name])}{self._label_for(name)}" for role, name in ordered]
        return DataError(
            f"has scores of several parts of a data set ({listed(n for _, n in parts)})", f"say {' or '.join(options)}"
        )

    def rarer_scores(self) -> Scores | None:
        """The scores whose column has one of the less common names; None if there is none."""
        role = next((role for role in SCORES if self._known(role, RARER)), None)
        if role:
            return role, (str(self.one(role)),), None
        # answer_confidence, model.conf and the like
        ending = re.compile(r".*[\W_]conf(idence)?([\W_]score)?", re.IGNORECASE)
        numbers = [column.name for column in self.columns.values() if column.kind == "f" and column.width is None]
        ends = [name for name in numbers if ending.fullmatch(name)]
        return ("confidence", (ends[0],), None) if len(ends) == 1 else None

    def _by_prefix(self, role: str) -> Spread | None:
        single = [name for name, column in self.columns.items() if column.width is None]
        # Beside other scores, the columns probs_0_0, probs_0_1, … are another array that was written to a table.
        plain = [name for name in single if not re.search(r"_\d+_\d+$", name)]
        found = self._first_spread(role, plain)
        if found or len(plain) == len(single) or any(self._known(other, NAMES) for other in SCORES):
            return found
        return self._first_spread(role, single)

    @staticmethod
    def _first_spread(role: str, columns: Sequence[str]) -> Spread | None:
        found = (prefixed(prefix, columns) for prefix in SPREAD[role])
        return next((spread for spread in found if spread), None)

    def _label_for(self, scores: str) -> str:
        """The option that names the labels of an array of scores, if their column cannot be recognised."""
        self.split = split_of(scores)[1]
        if scores not in self.columns or self.one("label"):
            return ""
        rows = self.columns[scores].rows
        words = re.split(r"[^a-z0-9]+", scores.lower())
        for name, column in self.columns.items():
            own = re.split(r"[^a-z0-9]+", name.lower())
            same = column.rows == rows and set(words[1:]) <= set(own)
            if same and column.width is None and any(word in NAMES["label"] for word in own):
                return f" --label {as_option([name])}"
        return ""

    def _none_found(self) -> DataError:
        wide = [c.name for c in self.columns.values() if c.width is not None]
        if wide:
            name = next((n for n in wide if "test" in n.lower()), wide[0])
            label, option = self._label_for(name), as_option([name])
            return DataError(
                f"'{name}' could be logits or probabilities", f"say --logits {option}{label} or --probs {option}{label}"
            )
        numbered = _numbered_prefix(self.columns.values())
        if numbered:
            label = self._label_for(f"{numbered}_")
            return DataError(
                f"columns of '{numbered}' could be logits or probabilities (found: {listed(self.columns)})",
                f"say --logits {numbered}{label} or --probs {numbered}{label}",
            )
        known = self.outcome_names()
        plain = [c.name for c in self.columns.values() if c.kind == "f" and c.name not in known]
        if len(plain) == 1:
            option = as_option(plain)
            return DataError(
                f"'{plain[0]}' could be P(y = 1), its logit or a confidence (found: {listed(self.columns)})",
                f"say --probs {option}, --logits {option} or --confidence {option}",
            )
        only = next(iter(self.columns.values()))
        if len(self.columns) == 1 and only.width is None and only.kind in "iubUS":
            return DataError(
                f"no column with scores (found: {only.name})",
                "if these are labels, give the file of scores instead, and name this one with --label",
            )
        return DataError(
            f"no column with scores (found: {listed(self.columns)})",
            "name them with --logits, --probs or --confidence: a column, a prefix (p), a list (a,b,c), a range (a:c) "
            "or a pattern ('p*')",
        )
