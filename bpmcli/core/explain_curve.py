"""An averaged curve in a sentence: where confidence is too high or too low, where g ends, which shape it is."""

from __future__ import annotations

import math

import numpy as np

from bpmcli.core.averaged import AveragedCurve, prior_share
from bpmcli.core.sample import BARE_LIMIT, Floats, Sample

NOTICEABLE = 0.01
"""A smaller difference between g and s is not worth a word."""

FEW_ROWS = 100
"""A shift of sd 0.5 is known as well from its prior as from about this many rows of hit rate 0.95."""

SURE = 6.0
"""Nats by which a falling curve must fit better than a flat one before it is said to fall."""

POINTS = 401
NEAR_ONE = 0.95

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


def explain(curve: AveragedCurve, sample: Sample) -> str:
    """For example: over-confident above 0.62 (by up to 0.08), ceiling 0.97; a power of s carried 71 % of the weight."""
    parts = _directions(curve, sample) + _flats(curve, sample)
    for end, level in _ends(curve).items():
        if curve.end_weights.get(end, 0.0) > 0.5:
            parts.append(f"{end} {level:.3g}")
    sentence = f"{', '.join(parts)}; {_shape(curve)}"
    n = sample.effective_n
    if n < FEW_ROWS:
        rows = "1 row says" if round(n) == 1 else f"{n:.0f} rows say"
        worth = "" if n > 0.99 * sample.n else f" (worth of {sample.n:.0f} weighted ones)"
        sentence = f"{rows} little{worth}, so the priors count for as much: {sentence}"
    return sentence


def _shape(curve: AveragedCurve) -> str:
    """What carried the weight. Bends begin with most of it, so they need more than that to be what the rows ask for."""
    weights = curve.shape_weights
    shape, weight = next(iter(weights.items()))
    formulas = [other for other in weights if other != "bends"]
    if shape == "bends" and weight < prior_share("bends") and formulas:
        return f"no shape stood out (the best with a formula: {NAMES[formulas[0]]})"
    return f"{NAMES[shape]} carried {100 * weight:.0f} % of the weight"


def _ends(curve: AveragedCurve) -> dict[str, float]:
    g, _ = curve(np.array([-BARE_LIMIT, BARE_LIMIT]))
    return {"floor": float(g[0]), "ceiling": float(g[1])}


def _directions(curve: AveragedCurve, sample: Sample) -> list[str]:
    """Runs of confidence, within the inner 99 % of the rows, where g is noticeably below or above s."""
    low, high = np.interp([0.005 * sample.n, 0.995 * sample.n], sample.mass_before[1:], sample.confidences)
    s = np.unique(np.linspace(low, high, POINTS))
    gap = curve.at(s) - s
    side = np.where(np.abs(gap) > NOTICEABLE, np.sign(gap), 0.0)
    seen = np.flatnonzero(side)
    if not seen.size:
        return [f"calibrated to within {NOTICEABLE:g}"]
    # A run lasts until the other side is seen.
    starts = seen[np.concatenate([[True], side[seen[1:]] != side[seen[:-1]]])]
    ends = [*(int(seen[seen < start][-1]) for start in starts[1:]), int(seen[-1])]
    return [_run(s, gap, int(a), b, b == ends[-1]) for a, b in zip(starts, ends, strict=True)]


def _flats(curve: AveragedCurve, sample: Sample) -> list[str]:
    """Where the curve is held flat because accuracy falls, if the rows there are sure of it."""
    x = np.clip(sample.log_odds, -BARE_LIMIT, BARE_LIMIT)
    parts = []
    for low, high in curve.stretch.flats():
        there = (x >= low) & (x <= high)
        hits, misses = sample.hits[there], (sample.mass - sample.hits)[there]
        (g, miss), (level, below) = curve.average(x[there]), curve(x[there])
        gain = hits @ np.log(g / level) + misses @ np.log(miss / below) if there.any() else 0.0
        if gain * sample.effective_n / sample.n > SURE and np.ptp(g) > NOTICEABLE:
            first, last = (_place(sample.confidences[there][i]) for i in (0, -1))
            parts += [f"{first} to {last}"] if first != last else []
    return [f"held flat from {' and from '.join(parts)}, within which accuracy falls"] if parts else []


def _run(s: Floats, gap: Floats, first: int, last: int, final: bool) -> str:
    word = "under" if gap[first] > 0 else "over"
    # Near 1 every curve is close to the confidence.
    to_top = final and (last == s.size - 1 or s[last] > NEAR_ONE)
    if first == 0 and to_top:
        where = "throughout"
    elif to_top:
        where = f"above {_place(s[first])}"
    elif first == 0:
        where = f"below {_place(s[last])}"
    else:
        where = f"from {_place(s[first])} to {_place(s[last])}"
    return f"{word}-confident {where} (by up to {np.abs(gap[first : last + 1]).max():.2g})"


def _place(s: float) -> str:
    """Two digits, and near 1 as many as tell it from 1."""
    if min(s, 1.0 - s) < 1e-6:
        return f"{s:.0f}"
    return f"{s:.2g}" if s < 0.9 else f"{s:.{max(2, -math.floor(math.log10(1.0 - s)))}f}"
