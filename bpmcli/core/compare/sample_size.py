"""How many rows a method needs for a given error, and the paper's claim about it.

Theorem 3 of the paper: with probability 1 − δ, E|ĝ − g| ≤ ε once N ≥ 3 ln(1/δ) / (2ε²), while histogram
binning with B bins needs N ≥ B ln(1/δ) / (2ε²). So bpm would need 3/B as many rows as histogram binning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bpmcli.core.compare.curves_on_truth import REFERENCE, histogram_counts
from bpmcli.core.compare.metrics_on_truth import Draw, Values, by_cell
from bpmcli.core.data.sample import Floats
from bpmcli.errors import UsageError

PARAMETERS = 3
"""The number of parameters of the paper's curve."""

MOST_ROWS = 1e15
"""No data set has more rows than this, so a larger bound would be useless."""


@dataclass(frozen=True)
class Need:
    """The rows that one method needs on one truth; None if the largest size is not enough."""

    truth: str
    method: str
    n_mean: int | None
    """Rows for a mean error of ε."""
    n_sure: int | None
    """Rows for an error of at most ε in a share 1 − δ of the runs, as in the theorem."""
    bpm_share: float | None
    """The rows that bpm needs, divided by the rows that this method needs (`n_sure` of both)."""
    claim: float | None
    """The same ratio according to the paper: 3/B."""
    bound: int | None
    """The number of rows that suffices according to the paper."""
    held: float | None
    """Share of runs within ε at the simulated size nearest to that bound, if it is within a tenth of it."""
    best_error: float | None
    """Mean error at the largest size, where it is mostly bias."""


def sufficient_rows(parameters: int, error: float, delta: float) -> int:
    """The paper's bound: parameters · ln(1/δ) / (2ε²)."""
    found = -parameters * math.log(delta) / 2 / error / error
    if found > MOST_ROWS:
        raise UsageError(f"an error of {error:g} would need more than {MOST_ROWS:.0e} rows", "allow a larger error")
    return math.ceil(found)


def rows_needed(sizes: Sequence[int], errors: Sequence[float], target: float) -> int | None:
    """The size from which on the error does not exceed the target, interpolated linearly on log axes.

    The smallest size if the error never exceeds the target; None if it does so at the largest size.
    """
    order = np.argsort(sizes)
    n, e = np.array(sizes, dtype=float)[order], np.array(errors)[order]
    above = np.flatnonzero(~(e <= target))
    if above.size == 0:
        return int(n[0])
    i = int(above[-1])
    if i + 1 == n.size:
        return None
    if not (np.isfinite(e[i]) and e[i + 1] > 0):
        return int(n[i + 1])
    t = math.log(e[i] / target) / math.log(e[i] / e[i + 1])
    found = math.exp(math.log(n[i]) + t * math.log(n[i + 1] / n[i]))
    return math.ceil(found * (1 - 1e-9))  # rounding: 200.00000000000003 rows are 200


def needs(done: Sequence[tuple[Draw, Values]], error: float, delta: float) -> list[Need]:
    """Every method on every truth."""
    cells = by_cell(done)
    found: list[Need] = []
    for truth in dict.fromkeys(truth for truth, _ in cells):
        runs = {n: values for (name, n), values in cells.items() if name == truth}
        keys = [key for key in next(iter(runs.values()))[0] if key.endswith(" error")]
        errors = {key.removesuffix(" error"): {n: _column(v, key) for n, v in runs.items()} for key in keys}
        sure = {m: _needed(e, error, delta) for m, e in errors.items()}
        for method, by_size in errors.items():
            parameters = _parameters(method)
            bound = None if parameters is None else sufficient_rows(parameters, error, delta)
            reference, own = sure.get(REFERENCE), sure[method]
            largest = by_size[max(by_size)]
            found.append(
                Need(
                    truth, method, _needed(by_size, error, None), own,
                    reference / own if reference and own and method != REFERENCE else None,
                    PARAMETERS / parameters if parameters and method != REFERENCE else None,
                    bound, None if bound is None else _held(by_size, bound, error),
                    None if np.isnan(largest).any() else float(largest.mean()),
                )
            )  # fmt: skip
    return found


def _parameters(method: str) -> int | None:
    counts = histogram_counts(method)
    if method == REFERENCE:
        return PARAMETERS
    return counts[0] if counts is not None and len(counts) == 1 else None


def _column(runs: Sequence[Values], key: str) -> Floats:
    return np.array([np.nan if r[key] is None else r[key] for r in runs], dtype=float)


def _needed(by_size: Mapping[int, Floats], error: float, delta: float | None) -> int | None:
    """By the mean, or by the 1 − δ quantile; a run without a fit is a failure."""
    sizes = list(by_size)
    with_failures = [np.where(np.isnan(e), np.inf, e) for e in by_size.values()]
    if delta is None:
        return rows_needed(sizes, [float(e.mean()) for e in with_failures], error)
    # Of r runs, at least ⌈(1 − δ) r⌉ must be within the target.
    return rows_needed(sizes, [float(np.sort(e)[math.ceil((1 - delta) * e.size) - 1]) for e in with_failures], error)


def _held(by_size: Mapping[int, Floats], bound: int, error: float) -> float | None:
    nearest = min(by_size, key=lambda n: abs(n - bound))
    if abs(nearest - bound) > bound / 10:
        return None
    return float((by_size[nearest] <= error).mean())
