"""Why a metric lies outside the confidence interval of `tce`, in one sentence per metric.

`tce`, tce-bpm, ece and ks estimate the same error in different ways. If their values are far apart, there is a cause:

- **tce-bpm** integrates over a Beta distribution of confidence. If the value with the confidences themselves
  (`--density empirical`) lies inside the interval, the Beta distribution is the cause; otherwise its curve is.
- **ks** adds signed gaps, so over- and under-confidence cancel, and it can only lie below.
- **ece, ece-sweep, smece, ls-ece** count noise as error. Noise is the cause if they lie above the interval and
  ece-debiased does not. If they lie below, gaps of opposite signs cancel within a bin or a kernel's width. Where most
  rows are tied, the ties are the cause: equal-mass bins cut through rows with the same confidence and join parts of
  neighbouring confidences.
- **ece-debiased** may lie above the interval too, for one of two reasons. Near perfect calibration it still contains
  some noise. Or the error changes with the confidence so quickly that the smooth curve of `tce` cannot follow it.
  Outcomes drawn from that curve show which: if ece-debiased is hardly ever so high on them, the curve misses something
  (benchmarks/disagreement.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bpmcli.core.data.sample import Sample
from bpmcli.core.metrics.registry import METRICS, MetricOptions, measure
from bpmcli.core.metrics.verdict import verdict
from bpmcli.core.metrics.verdict_words import EVENT, about_event

ROWS_PER_TIE = 10
"""With at least this many rows per distinct confidence, most rows count as tied."""

VISIBLE = 0.00005
"""Smaller differences do not show in four decimals."""

NOISY = ("ece", "ece-sweep", "smece", "ls-ece")
"""Metrics that count noise as error."""

DEBIASED = "ece-debiased"

CHANCE = 0.05
"""Below this share of simulated samples, a value counts as too high for the curve of `tce`."""

RUNS = 399

CUT_TIES = ("ece", "ece-sweep")
"""Metrics whose bins may cut through rows of the same confidence."""


def answer(sample: Sample, target: str, measured: dict[str, Any], options: MetricOptions) -> dict[str, Any]:
    """The verdict and the sentences about metrics that disagree with it, as a record holds them.

    `measured` holds the metrics of the record; the interval of the verdict is added to its `tce`.
    """
    found = verdict(sample, target)
    if options.p != 1.0:
        return {"verdict": found._asdict()}
    measured["tce"] |= {"low": found.low, "high": found.high, "level": found.level}
    values = {name: one["value"] for name, one in measured.items()}
    sentences = disagreements(sample, values, found.low, found.high, options, target)
    return {"verdict": found._asdict(), "disagreements": sentences}


def disagreements(
    sample: Sample,
    values: Mapping[str, float | None],
    low: float,
    high: float,
    options: MetricOptions,
    target: str = "top-label",
) -> list[str]:
    """One sentence for each metric whose value lies outside the interval of `tce` for a known reason.

    `values` are the metrics that were measured, `low` and `high` the limits of the interval.
    """
    known = {name: value for name, value in values.items() if value is not None}
    outside = {name: value for name, value in known.items() if not low - VISIBLE < value < high + VISIBLE}
    sentences = [
        *_tce_bpm(sample, outside, low, high, options),
        *_ks(outside, low),
        *_noise(outside, values, high),
        *_debiased_too(sample, outside, high, options),
        *_cancelled(sample, outside, low),
    ]
    return [about_event(sentence) for sentence in sentences] if target == EVENT else sentences


def _tce_bpm(
    sample: Sample, outside: Mapping[str, float], low: float, high: float, options: MetricOptions
) -> Iterator[str]:
    if "tce-bpm" not in outside or options.density != "beta":
        return
    empirical = measure(sample, ["tce-bpm"], options._replace(density="empirical"))["tce-bpm"].value
    where = f"tce-bpm = {outside['tce-bpm']:.4f} lies outside the interval of tce"
    if empirical is not None and low <= empirical <= high:
        yield (
            f"{where}: it assumes Beta-distributed confidences, which these are not; "
            f"with --density empirical it is {empirical:.4f}."
        )
    else:
        yield f"{where}: its curve family does not follow these rows; rely on tce."


def _ks(outside: Mapping[str, float], low: float) -> Iterator[str]:
    if outside.get("ks", low) < low:
        yield f"ks = {outside['ks']:.4f} lies below the interval of tce: over- and under-confidence cancel in it."


def _noise(outside: Mapping[str, float], values: Mapping[str, float | None], high: float) -> Iterator[str]:
    debiased = values.get(DEBIASED)
    above = [name for name in NOISY if outside.get(name, high) > high]
    if above and debiased is not None and not outside.get(DEBIASED, high) > high:
        verb, count = ("lie", "they count") if len(above) > 1 else ("lies", "it counts")
        yield (
            f"{_listed(outside, above)} {verb} above the interval of tce: {count} noise as error, which ece-debiased "
            "does not."
        )


def _debiased_too(sample: Sample, outside: Mapping[str, float], high: float, options: MetricOptions) -> Iterator[str]:
    if not outside.get(DEBIASED, high) > high:
        return
    above = [name for name in (*NOISY, DEBIASED) if outside.get(name, high) > high]
    chance = _chance(sample, options)
    often = f"{100 * chance:.0f} %" if chance >= 0.01 else "less than 1 %"
    first = f"{_listed(outside, above)} {'lie' if len(above) > 1 else 'lies'} above the interval of tce"
    if chance >= CHANCE:
        yield (
            f"{first}, as noise can explain: on rows that follow the curve of tce exactly, ece-debiased would be as "
            f"high in {often} of the cases."
        )
    else:
        yield (
            f"{first}: on rows that follow its smooth curve exactly, ece-debiased would be as high in {often} of the "
            "cases. The error probably changes with the confidence faster than that curve, and tce may be too low."
        )


def _chance(sample: Sample, options: MetricOptions) -> float:
    """How often samples drawn from the curve of `tce` have an ece-debiased at least as large as this sample."""
    from bpmcli.core.curves.averaged.tce import unbiased_curve
    from bpmcli.core.metrics.resamples import Resamples, itself, merged

    cells = merged(sample)
    g = np.clip(cells.confidences + unbiased_curve(sample).distance(cells.log_odds), 0.0, 1.0)
    rows = np.maximum(1, np.rint(cells.mass * (sample.effective_n / sample.n))).astype(np.int64)
    hits = np.random.default_rng(0).binomial(rows, g, (RUNS, rows.size)) * (cells.mass / rows)
    drawn = Resamples(cells, np.broadcast_to(cells.mass, hits.shape), hits)
    of = METRICS[DEBIASED].on_resamples
    return float(1 + np.count_nonzero(of(drawn, options) >= of(itself(cells), options) - 1e-12)) / (1 + RUNS)


def _cancelled(sample: Sample, outside: Mapping[str, float], low: float) -> Iterator[str]:
    below = [name for name in NOISY if outside.get(name, low) < low]
    distinct = 1 + int(np.count_nonzero(np.diff(sample.log_odds)))
    tied = [name for name in below if name in CUT_TIES] if distinct * ROWS_PER_TIE <= sample.n else []
    why = (
        f"only {distinct} different confidences occur, and bins that cut through such ties join neighbouring ones, "
        "whose errors cancel"
    )
    smooth = [name for name in below if name not in tied]
    for names, cause in ((tied, why), (smooth, "over- and under-confidence at neighbouring confidences cancel")):
        if names:
            verb = "lie" if len(names) > 1 else "lies"
            yield f"{_listed(outside, names)} {verb} below the interval of tce: {cause}."


def _listed(values: Mapping[str, float], names: Sequence[str]) -> str:
    """For example: ece = 0.0131, ece-sweep = 0.0131 and smece = 0.0124."""
    found = [f"{name} = {values[name]:.4f}" for name in names]
    return " and ".join(filter(None, [", ".join(found[:-1]), found[-1]]))
