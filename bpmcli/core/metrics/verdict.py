"""The answer in words: one verdict from a closed list, by rules that can be stated.

1. *Is there an error?* Yes, if the 95 % confidence interval of `tce` excludes 0 and the calibration test rejects
   calibration at 5 % (`calibration_test`).
2. If not: **too-few-rows** when the interval reaches above 0.10, because an error of ten points cannot be
   excluded; else **imperfect** when the test rejects calibration at 1 %, although the interval includes 0 (the test is
   more powerful, but does not say how large the error is); else **calibrated**, as far as these rows can tell.
3. If yes, the averaged curve g shows where confidence is too high (g < s) and too low (g > s). The range of
   confidence is split at the point that best separates the two.
   - **over-confident-above** (over-confident above the split, under-confident below) or **under-confident-above**
     (the reverse): the two sides point in opposite directions, and on each side (a) lies at least a tenth of the
     error, (b) at most a tenth of the side's error points the other way, (c) the side's mean error over curves drawn
     from the posterior is more than 2.8 of their standard deviations from 0, and (d) mean confidence and accuracy of
     its rows differ in that direction by more than 1.5 standard errors of a calibrated model. The curve knows more
     than the rows of one side, because its shape joins the two sides; (d) makes sure that these rows agree. If only (c)
     fails, the verdict is **mixed**.
   - Otherwise **over-confident** or **under-confident**, if at most a tenth of the error points the other way and mean
     confidence and accuracy of all rows differ in it by more than 2.8 standard errors. A model whose over- and
     under-confidence cancel would be given a direction by chance in 0.5 % of the data sets.
   - Otherwise **mixed**: there is an error, but no clear direction.

Measured on simulated truths by benchmarks/verdicts.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.curves.averaged.cells import Cells, cell_starts
from bpmcli.core.curves.averaged.tce import MatchedCurve, tce_averaged, tce_interval, unbiased_curve
from bpmcli.core.data.sample import Floats, Sample, sigmoid
from bpmcli.core.metrics.calibration_test import calibration_p_value
from bpmcli.core.metrics.verdict_words import short_title, whole_sentence
from bpmcli.record import Record

LEVEL = 0.95
TOO_WIDE = 0.10
REJECTED = 0.01
"""With a P-value up to this, no model is called calibrated."""
SMALLEST_SHARE = 0.1
CLEAR_Z = 2.8
CLEAR_SIDE_Z = 1.5
CLEAR_CURVE_Z = 2.8
CURVES = 400
"""The number of curves drawn from the posterior to judge the direction of a side."""
ONE_WAY = 0.8
"""The least |Σ mass · (g − s)| / Σ mass · |g − s| of an error with one direction: a tenth may point the other way."""

FLOOR = 0.9
"""A calibrated model scores a `tce` of about 0.9 √(mean ŝ(1 − ŝ) / N). The factor lay between 0.71 and 1.14 in one run
over seven distributions of confidence and N = 300, 1000, 10,000; benchmarks/verdicts.py --floor repeats it on four."""

NAMES = (
    "over-confident", "under-confident", "over-confident-above", "under-confident-above", "mixed", "imperfect",
    "calibrated", "too-few-rows",
)  # fmt: skip
"""The closed list."""


class Where(NamedTuple):
    """The smallest range of confidence that holds at least half of the error."""

    low: float
    high: float
    share: float
    """Share of the error inside it."""
    rows: float
    """Share of the rows inside it."""
    direction: str
    """`over` or `under`."""

    def asdict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"from": self.low, "to": self.high, "share": self.share, "rows": self.rows, "direction": self.direction}


class Verdict(NamedTuple):
    """What to tell the user, and the numbers behind it."""

    name: str
    """One of NAMES."""
    title: str
    """A few words, for a table cell."""
    sentence: str
    says: float
    """Mean confidence."""
    right: float
    """Accuracy (or event rate)."""
    tce: float
    low: float
    high: float
    level: float
    noise_floor: float
    """About what a perfectly calibrated model with these confidences would score by `tce`."""
    p_value: float
    """P-value of the calibration test."""
    crossing: float | None
    """The confidence at which the direction changes."""
    where: dict[str, Any] | None
    """The range that holds half of the error (`Where`), if there is an error."""

    def _repr_html_(self) -> str:
        """The sentence, which a notebook shows instead of the fields."""
        from html import escape

        return f"<p>{escape(self.sentence)}</p>"


class _Side(Record):
    """Rows in a range of confidence."""

    error: float
    """Σ mass · (g − s): negative where confidence is too high."""
    size: float
    """Σ mass · |g − s|."""
    z: float
    """(correct rows − Σ ŝ) over its standard deviation for a calibrated model."""

    def clear(self, z: float) -> bool:
        """Whether nearly all of the error has one direction, and the rows confirm it by more than z standard errors."""
        return abs(self.error) >= ONE_WAY * self.size and self.error * self.z > 0 and abs(self.z) > z


def verdict(sample: Sample, target: str = "top-label", seed: int = 0) -> Verdict:
    """Whether the confidences of a sample can be trusted, in words and numbers.

    The result has `name` and `title` (one of a closed list), a `sentence` for people, the calibration error `tce` with
    its 95 % limits `low` and `high`, and the figures behind them. An error is named only if its interval excludes 0 and
    the test of calibration has P ≤ 0.05; docs/METRICS.md has all rules.

    `target="event"` words the sentence for the probability of an event instead of a predicted class.

    >>> import numpy as np
    >>> from bpmcli import TRUTHS, simulate, verdict
    >>> verdict(simulate(TRUTHS["D1"], 10_000, np.random.default_rng(0)).sample()).title
    'over-confident'
    """
    value = tce_averaged(sample).value
    low, high = tce_interval(sample, 1.0, LEVEL, seed)
    low, high = min(low, value), max(high, value)
    p_value = calibration_p_value(sample, seed=seed)
    matched = unbiased_curve(sample)
    cells = matched.mixture.cells
    gaps = matched.at_cells
    floor = FLOOR * float(np.sqrt(sample.mass @ (sample.confidences * sample.complements) / sample.n))
    floor /= float(np.sqrt(sample.effective_n))
    crossing, where = None, None
    if low > 0.0 and p_value <= 1.0 - LEVEL:
        name, crossing = _direction(sample, matched, gaps, seed)
        where = _where(cells, gaps)
    else:
        name = "too-few-rows" if high > TOO_WIDE else "imperfect" if p_value <= REJECTED else "calibrated"
    title = short_title(name, crossing, target)
    found = Verdict(
        name, title, "", sample.mean_confidence, sample.accuracy, value, low, high, LEVEL, floor, p_value, crossing,
        None if where is None else where.asdict(),
    )  # fmt: skip
    return found._replace(sentence=whole_sentence(found, sample.n, target))


def _direction(sample: Sample, matched: MatchedCurve, gaps: Floats, seed: int) -> tuple[str, float | None]:
    """The name of a verdict with an error, and where its direction changes."""
    cells = matched.mixture.cells
    errors = cells.mass * gaps
    split = _best_split(errors)
    below, above, whole = _sides(sample, errors, split)
    large = all(abs(side.error) >= SMALLEST_SHARE * whole.size and side.clear(CLEAR_SIDE_Z) for side in (below, above))
    if below.error * above.error < 0 and large:
        if not _curves_agree(matched, split, seed):
            return "mixed", None
        crossing = float(sigmoid(cells.log_odds[split - 1 : split + 1]).mean())
        return ("over-confident-above" if above.error < 0 else "under-confident-above"), crossing
    if whole.clear(CLEAR_Z):
        return ("over-confident" if whole.error < 0 else "under-confident"), None
    return "mixed", None


def _curves_agree(matched: MatchedCurve, split: int, seed: int) -> bool:
    """Whether the error on each side of the split keeps its direction over curves drawn from the posterior."""
    drawn = matched.distance_draws(CURVES, np.random.default_rng(seed)) * matched.mixture.cells.mass
    sides = np.stack([drawn[:, :split].sum(axis=1), drawn[:, split:].sum(axis=1)])
    return bool(np.all(np.abs(sides.mean(axis=1)) > CLEAR_CURVE_Z * sides.std(axis=1)))


def _best_split(errors: Floats) -> int:
    """The number of cells below the split that separates over- from under-confidence best (1 … cells − 1)."""
    below = np.cumsum(errors)[:-1]
    if not below.size:
        return errors.size
    return 1 + int(np.argmax(np.abs(below) + np.abs(errors.sum() - below)))


def _sides(sample: Sample, errors: Floats, split: int) -> tuple[_Side, _Side, _Side]:
    """The rows below the split, the rows above it, and all rows."""
    starts = cell_starts(sample)
    residuals = -np.add.reduceat(sample.residuals, starts)
    variance = np.add.reduceat(sample.mass * sample.confidences * sample.complements, starts)
    worth = float(np.sqrt(sample.effective_n / sample.n))

    def side(part: slice) -> _Side:
        deviation = float(np.sqrt(variance[part].sum()))
        surplus = float(residuals[part].sum()) * worth
        # Saturated rows have no variance at all: any wrong row among them proves an error.
        z = surplus / deviation if deviation > 0 else float(np.sign(surplus)) * np.inf if surplus else 0.0
        return _Side(float(errors[part].sum()), float(np.abs(errors[part]).sum()), z)

    return side(slice(0, split)), side(slice(split, errors.size)), side(slice(None))


def _where(cells: Cells, gaps: Floats) -> Where | None:
    """The run of cells with the fewest rows that holds at least half of the error."""
    errors = np.abs(cells.mass * gaps)
    total, rows = float(errors.sum()), float(cells.mass.sum())
    if not total:
        return None
    before, mass_before = np.concatenate([[0.0], np.cumsum(errors)]), np.concatenate([[0.0], np.cumsum(cells.mass)])
    ends = np.searchsorted(before, before[:-1] + 0.5 * total * (1 - 1e-12))
    starts = np.flatnonzero(ends < before.size)
    best = int(starts[np.argmin(mass_before[ends[starts]] - mass_before[starts])])
    end = int(ends[best])
    s = sigmoid(cells.log_odds)
    inside = float((cells.mass * gaps)[best:end].sum())
    return Where(
        float(s[best]), float(s[end - 1]), float(errors[best:end].sum()) / total,
        float(mass_before[end] - mass_before[best]) / rows, "over" if inside < 0 else "under",
    )  # fmt: skip
