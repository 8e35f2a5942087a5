"""Names of columns that are recognised without an option (in lower case), and of scores with a column per class."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from bpmcli.errors import DataError

NAMES: dict[str, tuple[str, ...]] = {
    "logits": ("logits", "logit", "logprobs", "log_probs", "logprob", "loglikelihoods"),
    "log_odds": ("log_odds", "logodds"),
    "probs": (
        "probs",
        "prob",
        "probabilities",
        "probability",
        "proba",
        "probas",
        "pred_probs",
        "y_prob",
        "y_proba",
        "softmax",
    ),
    "confidence": ("confidence", "confidences", "conf"),
    "label": ("label", "labels", "y", "y_true", "target", "targets", "true_label", "ground_truth", "truth"),
    "hit": ("hit", "hits", "correct", "is_correct"),
    "prediction": ("prediction", "predictions", "pred", "preds", "predicted", "y_pred", "predicted_label", "guess"),
}
"""Names of each role."""

RARER: dict[str, tuple[str, ...]] = {
    "logits": (),
    "log_odds": (),
    "probs": ("y_pred_proba", "y_pred_prob", "pred_proba", "pred_prob", "predicted_prob", "predicted_proba",
              "predicted_probability", "predicted_probabilities"),
    "confidence": ("stated_confidence", "verbalized_confidence", "max_prob", "max_probability", "top_prob",
                   "top1_prob"),
    "label": ("gold", "gold_label", "label_ids", "actual", "actual_label", "actual_class", "true_class", "obs",
              "observed", "y_test", "expected", "reference"),
    "hit": ("was_correct", "correctness"),
    "prediction": ("predict", "predicted_class", "pred_label", "pred_class", ".pred_class"),
}  # fmt: skip
"""Names that are recognised if the file has none of NAMES for the role."""

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
        "pred_proba",
        "predicted_prob",
        ".pred",
    ),
}
"""Prefixes of one column per class: logit_0, logit_1, …"""

SCORES = ("logits", "log_odds", "probs", "confidence")
"""Kinds of scores, most exact first: if a file has several, the first is taken."""

SPLITS = ("test", "val", "valid", "validation", "cal", "calib", "calibration", "train", "dev", "eval", "holdout")
"""Parts of a data set that names begin or end with: probas_test, test_labels."""


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
    # Compiling the patterns takes longer than all else here, so names that cannot match them are left out before.
    single = [name for name in columns if _may_begin(name, prefix) and name.lower() not in PREDICTIONS]
    if len(single) < 2:
        return None
    start = re.escape(prefix)
    for pattern in PATTERNS:
        matcher = re.compile(start + pattern, re.IGNORECASE)
        matched = {m[1]: name for name in single if (m := matcher.fullmatch(name))}
        numeric = {int(k): v for k, v in matched.items() if k.isdigit()}
        if len(numeric) >= 2 and len(numeric) == len(matched):
            return _numbered(prefix, numeric)
        if len(matched) >= 2 and not numeric and not {name.lower() for name in matched} <= {*SPLITS}:
            return tuple(matched.values()), tuple(matched)
    return None


def _may_begin(name: str, prefix: str) -> bool:
    """Whether the name begins with the prefix in any case. Beyond ASCII, `re` has rules of its own and decides."""
    return not (name.isascii() and prefix.isascii()) or name[: len(prefix)].lower() == prefix.lower()


def _numbered(prefix: str, columns: dict[int, str]) -> Spread:
    first = min(columns)
    expected = range(min(first, 1), min(first, 1) + len(columns))
    missing = next((i for i in expected if i not in columns), None)
    if missing is not None:
        known = next(iter(columns.values()))
        name = re.sub(r"\d+", str(missing), known[len(prefix) :])
        raise DataError(f"column {prefix}{name} is missing", f"columns run from {min(first, 1)} without a gap")
    return tuple(columns[i] for i in expected), tuple(str(i) for i in expected)


def split_of(name: str) -> tuple[str, str]:
    """A name without the part of the data set, and that part; empty if there is none."""
    lower = name.lower()
    first, _, rest = lower.partition("_")
    stem, _, last = lower.rpartition("_")
    if stem and last in SPLITS:
        return stem, last
    return (rest, first) if rest and first in SPLITS else (lower, "")
