"""Is a metric below its limit? Yes, no, or the rows cannot tell."""

from __future__ import annotations

from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from bpmcli.core.data.normal import normal_quantile

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"

POWER = 0.8
"""An error counts as detectable if about this share of all samples of the same size would show it."""

ROUNDING = 1e-12
"""A number exceeds another only by more than this share of the numbers involved: 0.8 − 0.7 is not more than 0.1."""

MOST_TIMES = 1000
"""If more than this many times the present rows would be needed, no number is named."""


class Decision(NamedTuple):
    """The outcome; how many rows would decide; and the smallest error that these rows could detect."""

    outcome: str
    """PASS, FAIL or INCONCLUSIVE."""
    rows_needed: int | None = None
    """If inconclusive: about how many rows would decide. None if that is more than MOST_TIMES the present number."""
    detectable: float | None = None
    """The smallest error that this many rows would show to be above the limit in most samples; None if unknown."""


def at_most(value: float, limit: float, *terms: float) -> bool:
    """Whether the value is at most the limit, apart from rounding; `terms` are the numbers it was computed from.

    What is not finite is not at most anything.

    >>> 0.8 - 0.7 <= 0.1, at_most(0.8 - 0.7, 0.1, 0.8, 0.7)
    (False, True)
    """
    slack = ROUNDING * max(abs(value), abs(limit), *map(abs, terms))
    return isfinite(slack) and value <= limit + slack


def decide(
    value: float | None,
    low: float | None,
    high: float | None,
    limit: float,
    rows: float,
    confidence: float = 0.95,
    mean_confidence: float | None = None,
    effective: float | None = None,
) -> Decision:
    """PASS if the whole interval is at or below the limit, FAIL if it is all above, otherwise INCONCLUSIVE.

    `low` and `high` are one-sided confidence limits of `value` at level `confidence`. A metric or an interval that is
    missing or not finite fails: nothing may pass because it was not measured.

    Intervals shrink with the square root of the number of rows, so about n (reach / distance)² rows would decide. Here
    `reach` is the distance from the value to the end of its interval on the side of the limit, and `distance` is
    |value − limit|. `smallest_detectable` needs the mean confidence and the effective number of rows (default: `rows`);
    leave the mean confidence out for metrics that are not calibration errors of the confidence.

    >>> decide(0.02, 0.01, 0.05, 0.03, 1000, mean_confidence=0.9)
    Decision(outcome='inconclusive', rows_needed=9000, detectable=0.0587...)
    """
    if value is None or low is None or high is None or not isfinite(value + low + high):
        return Decision(FAIL)
    detectable = None
    if mean_confidence is not None and limit < 1.0:  # no error is above 1
        detectable = smallest_detectable(limit, effective or rows, confidence, mean_confidence)
    if at_most(high, limit):
        return Decision(PASS, detectable=detectable)
    if not at_most(low, limit):
        return Decision(FAIL, detectable=detectable)
    towards = high - value if value <= limit else value - low
    return Decision(INCONCLUSIVE, _rows_needed(rows, towards, abs(value - limit)), detectable)


def smallest_detectable(limit: float, rows: float, confidence: float, mean_confidence: float) -> float:
    """The error E that a share POWER of samples of this size would show to be above the limit, which must be below 1.

    A model whose confidence is E too high, or too low, has the accuracy g = mean_confidence ∓ E. The mean of its
    outcomes has the variance g (1 − g) / n, so E = limit + (z(confidence) + z(POWER)) √(g (1 − g) / n), with the larger
    of both variances. The solution is found by bisection. The width of the interval cannot be used instead, because
    intervals widen as the error grows. benchmarks/gates.py measures how often such an error is found.
    """
    z = normal_quantile(confidence) + normal_quantile(POWER)
    low, high = max(limit, 0.0), 1.0  # a debiased metric may have a limit below 0, but no error is below 0
    for _ in range(40):
        middle = (low + high) / 2
        accuracies = (mean_confidence - middle, mean_confidence + middle)
        variance = max(0.0, *(g * (1.0 - g) for g in accuracies))  # below 0 only for an accuracy that cannot be
        enough = middle >= limit + z * (variance / rows) ** 0.5
        low, high = (low, middle) if enough else (middle, high)
    return high


def _rows_needed(rows: float, reach: float, distance: float) -> int | None:
    """rows (reach / distance)², rounded up to two digits: it is an estimate."""
    if reach > distance * MOST_TIMES**0.5:
        return None
    needed = max(rows * (reach / distance) ** 2, rows + 1.0)
    unit = int(10.0 ** max(floor(log10(needed)) - 1, 0))
    return ceil(needed / unit - 1e-9) * unit
