"""Decisions about a limit under uncertainty: surely within, surely above, or not enough rows to tell."""

from __future__ import annotations

from math import ceil, sqrt
from typing import NamedTuple

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"


class Decision(NamedTuple):
    """What can be said about a limit, and what more rows would change."""

    outcome: str
    rows_to_decide: int | None
    """About how many rows would settle it; None when it is settled, or when no number of rows would."""
    detectable: float
    """The smallest error that this number of rows could show to be above the limit."""


def decide(value: float, low: float, high: float, limit: float, n: float) -> Decision:
    """Whether a metric with this confidence interval is surely within the limit, surely above it, or neither.

    *pass* when high ≤ limit, *fail* when low > limit, otherwise *inconclusive*. The limits of an interval approach
    the value like 1/√N, so an inconclusive result needs about N · (distance now / distance to the limit)² rows, where
    the distance is that from the value to the limit of the interval on the side of X.
    """
    detectable = limit + (value - low)
    if high <= limit:
        return Decision(PASS, None, detectable)
    if low > limit:
        return Decision(FAIL, None, detectable)
    reach, distance = (high - value, limit - value) if value <= limit else (value - low, value - limit)
    if distance <= 0 or reach <= 0:
        return Decision(INCONCLUSIVE, None, detectable)
    return Decision(INCONCLUSIVE, two_digits(n * (reach / distance) ** 2), detectable)


def two_digits(rows: float) -> int | None:
    """A number of rows rounded up to two digits, as it is an estimate; None beyond a trillion."""
    if rows > 1e12:
        return None
    whole = ceil(rows * (1 - 1e-9))
    step: int = 10 ** max(len(str(whole)) - 2, 0)
    return -(-whole // step) * step


def of_difference(
    low: float, high: float, old_low: float, old_high: float, value: float, old: float
) -> tuple[float, float]:
    """The confidence interval of value − old for two independent runs: variances add on each side."""
    difference = value - old
    return (
        difference - sqrt((value - low) ** 2 + (old_high - old) ** 2),
        difference + sqrt((high - value) ** 2 + (old - old_low) ** 2),
    )
