"""From the scores of all classes to the log-odds of the predicted class, chunk by chunk.

x = log ŝ − log(1 − ŝ) keeps what a confidence rounds away: on saturated networks a fifth of the
float32 confidences are exactly 1, while their log-odds still differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bpmcli.core.data.sample import BARE_LIMIT, LOG_ODDS_LIMIT, Floats, Ints
from bpmcli.errors import DataError
from bpmcli.record import Record

if TYPE_CHECKING:
    import numpy.typing as npt

MISSING = "--skip-missing leaves such rows out"
AS_LOGITS = "if these are logits, name them with --logits"
"""The readers, which know the columns, put their names in."""

CHUNK_VALUES = 1 << 18
"""Scores per chunk: large enough that the overhead of numpy's calls is small, small enough for the cache."""

MANY_CLASSES = 256
"""From this many classes on, taking a maximum is faster than comparing all values."""

PLAIN_LIMIT = 100.0
SMALLEST_REST = 1e-200
"""Within these limits e^z needs no shift: the absolute error of x stays below 1e-13."""

EDGE = 1e-15
"""Confidences farther than this from 0 and 1 have log-odds within BARE_LIMIT."""

CLOSE = 1e-9
"""If the largest score is tied, the log-odds are at most 0, up to rounding."""

SUM_NOTICE = 1e-3
SUM_REFUSED = 0.02
"""Rows of float16 softmax have been seen to sum to 0.9956; rows off by more than 0.02 are not probabilities."""
ONE_ROUNDED = 1.001
"""Smoothed and float16 probabilities reach 1.00098."""


class Reduced(Record):
    """Log-odds of the predicted class, that class, and counts for notices."""

    log_odds: Floats
    predictions: Ints
    argmax_ties: int = 0
    rows_off_sum: int = 0
    saturated: int = 0


def _chunks(scores: npt.NDArray[np.generic]) -> Iterator[tuple[slice, Floats]]:
    n, k = scores.shape
    step = max(1, CHUNK_VALUES // k)
    buffer = np.empty((min(step, n), k))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        chunk = buffer[: rows.stop - rows.start]
        chunk[...] = scores[rows]
        yield rows, chunk


def _refuse(
    bad: npt.NDArray[np.bool_], first_row: int, what: str, hint: str | None = None, values: Floats | None = None
) -> None:
    """Raise DataError with the first bad row and, from `values`, what was found there."""
    if bad.any():
        what += "" if values is None else f", found {values[bad][0]:.6g}"
        rows = np.flatnonzero(bad.reshape(bad.shape[0], -1).any(axis=1))
        more = f" and {rows.size - 1} more here" if rows.size > 1 else ""
        raise DataError(f"{what} (row {first_row + int(rows[0]) + 1}{more})", hint)


def _check_matrix(scores: npt.NDArray[np.generic], name: str) -> None:
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise DataError(f"{name} must have one row per sample and at least two classes, found shape {scores.shape}")


def reduce_logits(logits: npt.NDArray[np.generic], first_row: int = 0) -> Reduced:
    """x = z_top − log Σ_{others} e^z, exact however large the margin. `-inf` marks an absent class."""
    _check_matrix(logits, "logits")
    n, k = logits.shape
    if logits.dtype.kind != "f" or logits.dtype.itemsize not in (4, 8):
        logits = logits.astype(np.float32 if logits.dtype == np.float16 else np.float64)
    x, top, ties = np.empty(n), np.empty(n, dtype=np.int64), 0
    step = max(1, CHUNK_VALUES // k)
    buffer = np.empty((min(step, n), k))
    for start in range(0, n, step):
        z = logits[start : start + step]
        best, tops, rest, several = _one_pass(z, buffer[: len(z)])
        # argmax prefers NaN and inf, so checking the largest value checks the whole row.
        peak = tops.astype(np.float64)
        if not np.isfinite(peak).all():
            _refuse(~(peak < np.inf), first_row + start, "logits must be finite, found NaN or inf", MISSING)
            _refuse(peak == -np.inf, first_row + start, "logits must be finite, found a row of -inf")
        margin = peak + _minus_log(rest)
        # Where e^z would overflow or underflow, it is computed relative to the largest score.
        lost = ~((np.abs(peak) <= PLAIN_LIMIT) & (rest > SMALLEST_REST))
        if lost.any():
            rows = np.flatnonzero(lost)
            with np.errstate(over="ignore"):  # a difference that overflows is -inf, which is as good as any
                relative = z[rows].astype(np.float64) - peak[rows, None]
            margin[rows] = _minus_log(_one_pass(relative, buffer[: rows.size]).rest)
        if several:
            close = margin <= CLOSE
            ties += int(np.count_nonzero((z[close] == tops[close, None]).sum(axis=1) > 1))
        x[start : start + step] = margin
        top[start : start + step] = best
    np.minimum(x, LOG_ODDS_LIMIT, out=x)
    return Reduced(x, top, argmax_ties=ties, saturated=int(np.count_nonzero(x >= LOG_ODDS_LIMIT)))


class _Pass(NamedTuple):
    best: Ints
    tops: npt.NDArray[np.generic]
    rest: Floats
    """Σ e^z without the best class, in float64."""
    several: bool
    """Some row may have its largest value more than once."""


def _one_pass(z: npt.NDArray[np.generic], e: Floats) -> _Pass:
    """The steps that touch every score, in one pass; `e` is a buffer for the exponentials."""
    best = z.argmax(axis=1)
    at = np.arange(len(z)), best
    tops = z[at]
    with np.errstate(over="ignore", invalid="ignore"):
        np.exp(z, out=e, dtype=np.float64)
    if z.shape[1] < MANY_CLASSES:
        several = int(np.count_nonzero(z == tops[:, None])) > len(z)
        e[at] = 0.0
    else:
        most, e[at] = e[at], 0.0
        several = bool((e.max(axis=1) == most).any())
    # Unlike a matrix product, this adds every row in the same order, wherever it is in the array.
    return _Pass(best, tops, np.einsum("ij->i", e), several)


def reduce_probs(probs: npt.NDArray[np.generic], first_row: int = 0) -> Reduced:
    """x = log p_top − log Σ_{others} p. This normalises the row without dividing, and never computes 1 − max."""
    _check_matrix(probs, "probabilities")
    n = probs.shape[0]
    x, top, ties, off = np.empty(n), np.empty(n, dtype=np.int64), 0, 0
    for rows, p in _chunks(probs):
        check_probabilities(p, first_row + rows.start)
        best = p.argmax(axis=1)
        index = np.arange(p.shape[0])
        peak = p[index, best]
        ties += int(((p == peak[:, None]).sum(axis=1) > 1).sum())
        p[index, best] = 0.0
        rest = p.sum(axis=1)
        deviation = np.abs(rest + peak - 1.0)
        if deviation.max() > SUM_REFUSED:
            row = int(np.flatnonzero(deviation > SUM_REFUSED)[0])
            raise DataError(
                f"probabilities sum to {rest[row] + peak[row]:.6g} (row {first_row + rows.start + row + 1})",
                f"rows of probabilities sum to 1; {AS_LOGITS}; if a row may have several labels, say --multi-label",
            )
        off += int((deviation > SUM_NOTICE).sum())
        x[rows] = np.log(peak) + _minus_log(rest)
        top[rows] = best
    np.minimum(x, LOG_ODDS_LIMIT, out=x)
    return Reduced(x, top, ties, off, int(np.count_nonzero(x >= LOG_ODDS_LIMIT)))


def check_probabilities(values: Floats, first_row: int = 0, name: str = "probabilities") -> tuple[float, float]:
    """Refuse NaN, inf, negative values and values above 1 beyond rounding. Returns the least and the largest value."""
    low, high = float(values.min(initial=0.5)), float(values.max(initial=0.5))
    if not (low >= 0.0 and high <= ONE_ROUNDED):
        _refuse(~np.isfinite(values), first_row, f"{name} must be finite, found NaN or inf", MISSING)
        hint = AS_LOGITS
        _refuse(values < 0.0, first_row, f"{name} must not be negative", hint, values)
        if 1.5 < high <= 100:
            hint = f"--scale percent if these are percentages; {hint}"
        _refuse(values > ONE_ROUNDED, first_row, f"{name} must not exceed 1", hint, values)
    return low, high


def log_odds_of_confidences(
    confidences: npt.NDArray[np.generic], first_row: int = 0, name: str = "confidences"
) -> Floats:
    """Log-odds of confidences: |x| ≤ 37.4, the largest that a float64 confidence can express."""
    s = np.asarray(confidences, dtype=np.float64)
    low, high = check_probabilities(s, first_row, name)
    if high > 1.0:
        s = np.minimum(s, 1.0)
    with np.errstate(divide="ignore"):
        x, rest = np.log(s), np.negative(s)
        x -= np.log1p(rest, out=rest)
    if low < EDGE or high > 1.0 - EDGE:
        np.clip(x, -BARE_LIMIT, BARE_LIMIT, out=x)
    return x


def _minus_log(rest: Floats) -> Floats:
    """−log of the complement, clipped where the complement has underflowed to 0."""
    with np.errstate(divide="ignore"):
        out: Floats = np.negative(np.log(rest))
    np.minimum(out, LOG_ODDS_LIMIT, out=out)
    return out


def logits_of_probs(probs: npt.NDArray[np.generic]) -> Floats:
    """Logarithms of N×K probabilities, which are scaled to a sum of one."""
    with np.errstate(divide="ignore"):
        return log_softmax(np.log(probs.astype(np.float64)))


def logits_of_two(reduced: Reduced) -> Floats:
    """Logits of the classes 0 and 1, from the log-odds of the predicted one."""
    x = np.where(reduced.predictions == 1, reduced.log_odds, -reduced.log_odds)
    return np.stack([np.zeros_like(x), x], axis=1)


def log_softmax(logits: Floats) -> Floats:
    """log softmax along the rows, without overflow."""
    with np.errstate(over="ignore"):
        z: Floats = logits - logits.max(axis=1, keepdims=True)
    z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
    return z
