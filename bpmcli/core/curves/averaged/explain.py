"""An averaged curve in a sentence: where confidence is too high or too low, its ceiling or floor, and its shape."""

from __future__ import annotations

import itertools
import math

import numpy as np

from bpmcli.core.curves.averaged.curve import AveragedCurve
from bpmcli.core.curves.averaged.mixture import prior_share
from bpmcli.core.data.sample import BARE_LIMIT, Floats, Sample

NOTICEABLE = 0.01
"""Smaller differences between g and s are not mentioned."""

FEW_ROWS = 100
"""The prior of a shift (sd 0.5) contributes as much information as about this many rows with an accuracy of 0.95."""

CLEAR = 3.0
"""The curve must be more likely than the identity by this many nats in a range that is mentioned: χ² = 6, P = 0.05
with two parameters."""

SURE = 6.0
"""A falling curve must be more likely than a flat one by this many nats before that is mentioned."""

POINTS = 401
NEAR_ONE = 0.95

ASKED = 3.0
"""`bends` is named only if its Bayes factor against the formulas exceeds this."""

NAMES = {
    "identity": "the identity",
    "slope": "a temperature-like slope",
    "slope+shift": "slope and shift of the log-odds",
    "beta": "the beta shape",
    "odds": "odds that follow 1/(1-s)",
    "power": "a power of s",
    "flip": "a power of 1-s",
    "bends": "a curve without a formula",
}


def explain(curve: AveragedCurve, sample: Sample, event: bool = False) -> str:
    """For example: over-confident above 0.62 (by up to 0.08), ceiling 0.97; shape of the curve: a power of s (…).

    Ranges cover the inner 99 % of the rows.
    """
    parts = _directions(curve, sample, event) + _flats(curve, sample, event)
    for end, level in _ends(curve).items():
        if curve.end_weights.get(end, 0.0) > 0.5:
            parts.append(f"{end} {level:.3g}")
    sentence = f"{', '.join(parts)}; {_shape(curve)}"
    n = sample.effective_n
    if n < FEW_ROWS:
        rows = "1 row" if round(n) == 1 else f"{n:.0f} rows"
        worth = "" if n > 0.99 * sample.n else f" (the effective number of {sample.n:.0f} weighted rows)"
        sentence = f"with only {rows}{worth}, the priors have as much influence as the data: {sentence}"
    return sentence


def _shape(curve: AveragedCurve) -> str:
    """The shape with the largest weight; `bends`, which has most of the prior weight, only if it exceeds ASKED."""
    weights = curve.shape_weights
    shape, weight = next(iter(weights.items()))
    formulas = [other for other in weights if other != "bends"]
    prior = prior_share("bends")
    if shape == "bends" and weight * (1.0 - prior) < ASKED * prior * (1.0 - weight) and formulas:
        return f"no shape of curve stood out (the best with a formula: {NAMES[formulas[0]]})"
    return f"shape of the curve: {NAMES[shape]} (weight {100 * weight:.0f} %)"


def _ends(curve: AveragedCurve) -> dict[str, float]:
    g, _ = curve(np.array([-BARE_LIMIT, BARE_LIMIT]))
    return {"floor": float(g[0]), "ceiling": float(g[1])}


def _directions(curve: AveragedCurve, sample: Sample, event: bool) -> list[str]:
    """Ranges of confidence, within the inner 99 % of the rows, where g is noticeably and clearly below or above s."""
    low, high = np.interp([0.005 * sample.n, 0.995 * sample.n], sample.mass_before[1:], sample.confidences)
    s = np.unique(np.linspace(low, high, POINTS))
    gap = curve.at(s) - s
    side = np.where(np.abs(gap) > NOTICEABLE, np.sign(gap), 0.0)
    if not side.any():
        return [f"calibrated to within {NOTICEABLE:g}"]
    edges = np.concatenate([[-np.inf], (s[1:] + s[:-1]) / 2, [np.inf]])
    before = np.concatenate([[0.0], np.cumsum(_gains(curve, sample))])
    cuts = [0, *(np.flatnonzero(np.diff(side)) + 1).tolist(), s.size]
    runs: list[tuple[int, int]] = []
    for first, end in itertools.pairwise(cuts):
        rows = np.searchsorted(sample.confidences, edges[[first, end]])
        if not side[first] or before[rows[1]] - before[rows[0]] < CLEAR:
            continue
        # A range lasts until the direction changes.
        joins = bool(runs) and side[runs[-1][0]] == side[first]
        runs[-1:] = [(runs[-1][0], end - 1)] if joins else [*runs[-1:], (first, end - 1)]
    found = [_run(s, gap, first, last, last == runs[-1][1], event) for first, last in runs]
    return found or ["calibrated as far as these rows can tell"]


def _gains(curve: AveragedCurve, sample: Sample) -> Floats:
    """By how many nats the curve is more likely than the identity, cell by cell."""
    g, miss = curve(sample.log_odds)
    misses = sample.mass - sample.hits
    gains: Floats = sample.hits * np.log(g / sample.confidences) + misses * np.log(miss / sample.complements)
    return gains * (sample.effective_n / sample.n)


def _flats(curve: AveragedCurve, sample: Sample, event: bool) -> list[str]:
    """Where the curve is held flat because accuracy falls, if the rows there make that clear."""
    x = np.clip(sample.log_odds, -BARE_LIMIT, BARE_LIMIT)
    parts = []
    for low, high in curve.stretch.flats():
        there = (x >= low) & (x <= high)
        hits, misses = sample.hits[there], (sample.mass - sample.hits)[there]
        (g, miss), (level, below) = curve.average(x[there]), curve(x[there])
        gain = hits @ np.log(g / level) + misses @ np.log(miss / below) if there.any() else 0.0
        if gain * sample.effective_n / sample.n > SURE and np.ptp(g) > NOTICEABLE:
            first, last = (short_confidence(sample.confidences[there][i]) for i in (0, -1))
            parts += [f"{first} to {last}"] if first != last else []
    rate = "the event rate" if event else "accuracy"
    return [f"held flat from {' and from '.join(parts)}, within which {rate} falls"] if parts else []


def _run(s: Floats, gap: Floats, first: int, last: int, final: bool, event: bool) -> str:
    over, under = ("too high", "too low") if event else ("over-confident", "under-confident")
    word = under if gap[first] > 0 else over
    # Near 1 every curve is close to the diagonal.
    to_top = final and (last == s.size - 1 or s[last] > NEAR_ONE)
    if first == 0 and to_top:
        where = "wherever most rows are" if s.size == 1 else f"from {short_confidence(s[0])} up"
    elif to_top:
        where = f"above {short_confidence(s[first])}"
    elif first == 0:
        where = f"below {short_confidence(s[last])}"
    else:
        where = f"from {short_confidence(s[first])} to {short_confidence(s[last])}"
    return f"{word} {where} (by up to {np.abs(gap[first : last + 1]).max():.2g})"


def short_confidence(s: float) -> str:
    """Two digits, and close to 1 as many as it takes to differ from 1."""
    if min(s, 1.0 - s) < 1e-6:
        return f"{s:.0f}"
    return f"{s:.2g}" if s < 0.9 else f"{s:.{max(2, -math.floor(math.log10(1.0 - s)))}f}"
