"""The words of a verdict: its title, its sentences, and percentages with as many digits as they need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bpmcli.core.curves.averaged.explain import short_confidence

if TYPE_CHECKING:
    from bpmcli.core.metrics.verdict import Verdict

EVENT = "event"

EVENT_WORDS = {
    "over- and under-confidence": "probabilities that are too high and too low",
    "at neighbouring confidences": "beside each other",
    "a correct row has a higher confidence than a wrong one": "the event has a higher probability in a row where it "
    "happens than in a row where it does not",
    "accuracies": "event rates",
    "accuracy": "event rate",
    "confidences": "probabilities",
    "confidence": "probability",
}
"""Words about a predicted class, and the words about an event that replace them; the longest come first."""

MOST_DECIMALS = 3
"""The most decimals of a number of percentage points."""


def short_title(name: str, crossing: float | None, target: str) -> str:
    """The verdict in a few words, for a table cell."""
    words = {"over-confident": "over-confident", "under-confident": "under-confident", "calibrated": "calibrated",
             "imperfect": "not perfectly calibrated",
             "too-few-rows": "too few rows to tell", "mixed": "miscalibrated, direction not clear"}  # fmt: skip
    if target == EVENT:
        words |= {"over-confident": "too high", "under-confident": "too low"}
    if crossing is None:
        return words[name]
    return f"{words[name.removesuffix('-above')]} above {short_confidence(crossing)}"


def about_event(sentence: str) -> str:
    """A sentence about confidence and accuracy, reworded for the probabilities of an event."""
    for words, other in EVENT_WORDS.items():
        sentence = sentence.replace(words, other)
    return sentence


def in_brief(found: Verdict, rows: float, target: str = "top-label") -> str:
    """The verdict without its details, for showing the verdicts before and after calibration one above the other."""
    opening = _opening(found, rows, target)
    return f"{opening[0].lower()}{opening[1:]}; it {_means(found, target)}; calibration error (tce) {points(found)}"


def whole_sentence(v: Verdict, rows: float, target: str) -> str:
    """The verdict as two or three plain sentences."""
    joint = ". It" if v.name == "too-few-rows" else ": it"
    sentence = (
        f"{_opening(v, rows, target)}{joint} {_means(v, target)}. Calibration error (tce) {points(v)}; a perfectly "
        f"calibrated model would score about {_small(v.noise_floor, _decimals(v.low, v.high))}."
    )
    return sentence if v.where is None else f"{sentence} {_place(v.where, target)}"


def _opening(v: Verdict, rows: float, target: str) -> str:
    """The verdict itself, in words."""
    event = target == EVENT
    at_most = f"{100 * v.high:.{_decimals(v.low, v.high)}f}"
    all_rows = "1 row" if rows == 1 else f"{rows:,} rows"
    opening = {
        "calibrated": f"Calibrated as far as {all_rows} can tell",
        "imperfect": f"Not perfectly calibrated (P = {v.p_value:.2g}), but {all_rows} exclude an error of "
        f"more than {at_most} points",
        "too-few-rows": f"Too few rows to tell: {all_rows} cannot exclude an error of {100 * v.high:.1f} points",
        "mixed": f"Miscalibrated, but {all_rows} do not show one clear direction",
    }.get(v.name)
    if opening is not None:
        return opening
    first, other = ("over", "under") if v.name.startswith("over") else ("under", "over")
    word = {"over": "too high" if event else "over-confident", "under": "too low" if event else "under-confident"}
    opening = ("probabilities are " if event else "") + word[first]
    if v.crossing is not None:
        opening = f"{opening} above {short_confidence(v.crossing)} and {word[other]} below"
    return opening[0].upper() + opening[1:]


def _means(v: Verdict, target: str) -> str:
    if target == EVENT:
        return f"predicts {_percent(v.says)} % and the event happens {_percent(v.right)} % of the time"
    return f"says {_percent(v.says)} % and is right {_percent(v.right)} % of the time"


def points(v: Verdict) -> str:
    """The error and its interval in percentage points, all with the same number of decimals."""
    decimals = _decimals(v.low, v.high)
    value, low, high = (f"{100 * error:.{decimals}f}" for error in (v.tce, v.low, v.high))
    return f"{value} points, {100 * v.level:.0f} % interval {low} to {high}"


def _decimals(low: float, high: float) -> int:
    """One decimal, or as many as it takes to show two digits of `high` and that `low` is not 0."""
    needed = 1
    while needed < MOST_DECIMALS and (
        100 * high < 10.0 ** (1 - needed) or 10.0**-MOST_DECIMALS / 2 <= 100 * low < 10.0**-needed / 2
    ):
        needed += 1
    return needed


def _small(error: float, decimals: int) -> str:
    """Percentage points with this many decimals, and more of them where that would be 0."""
    while decimals < MOST_DECIMALS and 100 * error < 10.0**-decimals / 2:
        decimals += 1
    return f"{100 * error:.{decimals}f}" if 100 * error >= 10.0**-decimals / 2 else "0"


def _place(where: Mapping[str, Any], target: str) -> str:
    what = "probability" if target == EVENT else "confidence"
    first, last = short_confidence(where["from"]), short_confidence(where["to"])
    place = f"at {what} {first}" if first == last else f"between {what} {first} and {last}"
    if where["rows"] == 1.0 and first == last:
        return f"All rows are {place}."
    share = "Half" if where["share"] < 0.525 else f"{_percent(where['share'])} %"
    return f"{share} of the error is {place}, where {_percent(where['rows'])} % of the rows are."


def _percent(share: float) -> str:
    """One decimal, and near 0 and 100 % as many as it takes to differ from these."""
    value = 100 * share
    if 0 < min(value, 100 - value) < 0.05:
        return f"{value:.3f}"
    return f"{value:.1f}"
