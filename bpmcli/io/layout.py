"""Which column is what: by name when that is unambiguous, by option always."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from bpmcli.core.data.rows import EVENT, TOP_LABEL
from bpmcli.errors import DataError, UsageError
from bpmcli.io.sources import Column, Source

NAMES: dict[str, tuple[str, ...]] = {
    "logits": ("logits", "logit", "logprobs", "log_probs", "logprob", "loglikelihoods"),
    "log_odds": ("log_odds", "logodds"),
    "probs": ("probs", "prob", "probabilities", "probability", "proba", "pred_probs", "y_prob", "y_proba", "softmax"),
    "confidence": ("confidence", "confidences", "conf"),
    "label": ("label", "labels", "y", "y_true", "target", "targets", "true_label", "ground_truth"),
    "hit": ("hit", "hits", "correct", "is_correct"),
    "prediction": ("prediction", "predictions", "pred", "preds", "predicted", "y_pred", "predicted_label"),
}
"""Names that are recognised, in lower case."""

SPREAD = {"logits": ("logit", "logits", "logprob"), "probs": ("prob", "probs", "p", "proba")}
"""Prefixes of one column per class: logit_0, logit_1, …"""

SCORES = ("logits", "log_odds", "probs", "confidence")
"""Most exact first: with several in a file, the first is taken."""


@dataclass(frozen=True)
class InputOptions:
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


class Layout(NamedTuple):
    """The columns in use and what they mean."""

    kind: str
    """One of SCORES."""
    scores: tuple[str, ...]
    """One column, or one per class."""
    binary: bool
    """Scores are P(y = 1)."""
    classes: tuple[str, ...] | None
    """Names of the classes, where the columns carry them."""
    label: str | None
    hit: str | None
    prediction: str | None
    weight: str | None
    group: str | None
    target: str

    @property
    def names(self) -> list[str]:
        """Every column to be read."""
        extra = (self.label, self.hit, self.prediction, self.weight, self.group)
        return [*self.scores, *(name for name in extra if name)]

    @property
    def numeric(self) -> list[str]:
        """Columns that must be floating-point numbers."""
        return [*self.scores, *([self.weight] if self.weight else [])]

    def explain(self) -> list[tuple[str, str]]:
        """What was understood, as pairs of role and column."""
        shown = self.scores[0] if len(self.scores) == 1 else f"{self.scores[0]} … {self.scores[-1]}"
        kind = "P(y = 1)" if self.binary else self.kind.replace("_", "-")
        pairs = [(kind, shown)]
        if len(self.scores) > 1:
            pairs.append(("classes", str(len(self.scores))))
        for role in ("label", "hit", "prediction", "weight", "group"):
            name = getattr(self, role)
            if name:
                pairs.append((role, name))
        if not self.hit:
            what = "prediction = label" if self.prediction else "argmax = label"
            if self.target == EVENT:
                what = "label = 1"
            elif self.binary:
                what = "(P(y = 1) > 0.5) = label"
            pairs.append(("a hit is", what))
        pairs.append(("calibrates", "P(y = 1) itself" if self.target == EVENT else "the predicted class"))
        return pairs


def understand(source: Source, options: InputOptions, outcomes: bool = True) -> Layout:
    """Decide from names and options; never guess from values what names leave open.

    `outcomes=False`: labels are not needed, and a file may come without them.
    """
    columns = source.columns
    if not columns:
        raise DataError("no columns", "is the file empty?")
    chosen = _Chooser(columns, options)
    kind, scores, classes = chosen.scores()
    matrix = len(scores) > 1 or columns[scores[0]].width is not None
    if kind in ("confidence", "log_odds") and matrix:
        raise DataError(
            f"'{scores[0]}' has {columns[scores[0]].width} values a row; a {kind.replace('_', '-')} is one number",
            f"if these are scores of all classes, say --logits {scores[0]} or --probs {scores[0]}",
        )
    binary = (kind == "probs" and not matrix) or (options.event and not matrix)
    if kind == "logits" and not matrix:
        # One logit per row is the log-odds of y = 1.
        kind, binary = "log_odds", True
    n_classes = len(scores) if len(scores) > 1 else columns[scores[0]].width
    if options.event and matrix and n_classes not in (0, 2):
        raise DataError(
            f"--event calibrates P(y = 1), and this file has scores of {n_classes} classes",
            "leave --event out, or name the column of P(y = 1) with --probs",
        )
    if options.group and (group := columns.get(options.group)) and group.width is not None:
        raise DataError(f"'{group.name}' must hold one value per row", "name another column with --by")
    one = chosen.one if outcomes else lambda role: None
    layout = Layout(
        kind, scores, binary, classes,
        label=one("label"), hit=one("hit"), prediction=one("prediction"),
        weight=options.weight and chosen.existing(options.weight, "--weight"),
        group=options.group and chosen.existing(options.group, "--by"),
        target=EVENT if options.event else TOP_LABEL,
    )  # fmt: skip
    return _with_outcome(layout, columns, options, matrix) if outcomes else layout


def _with_outcome(layout: Layout, columns: Mapping[str, Column], options: InputOptions, matrix: bool) -> Layout:
    """Keep the columns that tell hits from misses, and only those."""
    found = ", ".join(columns)
    # Scores of all classes and P(y = 1) bring their own prediction.
    own_prediction = matrix or layout.binary
    if layout.target == EVENT:
        outcome = layout.label or layout.hit
        if outcome is None:
            raise DataError(f"no column with y (found: {found})", "name it with --label")
        return layout._replace(label=outcome, hit=None, prediction=None)
    if own_prediction and layout.label and not options.hit:
        return layout._replace(hit=None, prediction=None)
    if layout.hit and not (options.prediction or (options.label and layout.prediction)):
        return layout._replace(label=None, prediction=None)
    if layout.label and layout.prediction:
        return layout._replace(hit=None)
    if own_prediction:
        raise DataError(f"no column with labels (found: {found})", "name it with --label, or hits with --hit")
    hint = "name the hits with --hit, or --prediction and --label"
    if layout.label:
        hint += f"; if '{layout.scores[0]}' is P(y = 1), say --event --probs {layout.scores[0]}"
    raise DataError(f"no column tells hits from misses (found: {found})", hint)


class _Chooser:
    """Finds the column for a role."""

    def __init__(self, columns: Mapping[str, Column], options: InputOptions) -> None:
        self.columns, self.options = columns, options

    def existing(self, name: str, option: str) -> str:
        if name not in self.columns:
            raise DataError(f"no column '{name}' (found: {', '.join(self.columns)})", f"name another one with {option}")
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
                prefixes = (wanted.rstrip("_"),) if wanted else SPREAD[role]
                spread = self._spread(prefixes)
                if spread:
                    return role, *spread
            if wanted:
                self.existing(wanted, "--" + role.replace("_", "-"))
            single = self.one(role)
            if single:
                return role, (single,), None
        wide = [c.name for c in self.columns.values() if c.width is not None]
        hint = "name them with --logits, --probs or --confidence"
        if wide:
            name = wide[0]
            raise DataError(f"'{name}' could be logits or probabilities", f"say --logits {name} or --probs {name}")
        raise DataError(f"no column with scores (found: {', '.join(self.columns)})", hint)

    def _spread(self, prefixes: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        for prefix in prefixes:
            pattern = re.compile(re.escape(prefix) + r"[_.](.+)", re.IGNORECASE)
            matched = {m[1]: name for name in self.columns if (m := pattern.fullmatch(name))}
            numeric = {int(k): v for k, v in matched.items() if k.isdigit()}
            if len(numeric) >= 2 and len(numeric) == len(matched):
                if sorted(numeric) != list(range(len(numeric))):
                    missing = next(i for i in range(len(numeric)) if i not in numeric)
                    hint = f"columns run from {prefix}_0 without a gap"
                    raise DataError(f"column {prefix}_{missing} is missing", hint)
                return tuple(numeric[i] for i in sorted(numeric)), tuple(str(i) for i in sorted(numeric))
            if len(matched) >= 2 and not numeric:
                return tuple(matched.values()), tuple(matched)
        return None


ROLE_OPTIONS = tuple(f.name for f in fields(InputOptions))
