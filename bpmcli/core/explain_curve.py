"""An averaged curve in a sentence: where confidence is too high or too low, where g ends, which shape it is."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from bpmcli.core.sample import BARE_LIMIT, Floats, Sample

if TYPE_CHECKING:
    from bpmcli.core.averaged import AveragedCurve

NOTICEABLE = 0.01
"""A smaller difference between g and s is not worth a word."""

FEW_ROWS = 100
"""A shift of sd 0.5 is known as well from its prior as from about this many rows of hit rate 0.95."""

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
    shape, weight = next(iter(curve.shape_weights.items()))
    sentence = f"{', '.join(parts)}; {NAMES[shape]} carried {100 * weight:.0f} % of the weight"
    if sample.effective_n < FEW_ROWS:
        sentence = (
            f"{sample.effective_n:.0f} rows say little, so the priors hold the curve back to the identity: {sentence}"
        )
    return sentence


def _ends(curve: AveragedCurve) -> dict[str, float]:
    g, _ = curve(np.array([-BARE_LIMIT, BARE_LIMIT]))
    return {"floor": float(g[0]), "ceiling": float(g[1])}


def _directions(curve: AveragedCurve, sample: Sample) -> list[str]:
    """Runs of confidence, within the inner 99 % of the rows, where g is noticeably below or above s."""
    low, high = np.interp([0.005 * sample.n, 0.995 * sample.n], sample.mass_before[1:], sample.confidences)
    s = np.linspace(low, high, POINTS)
    s = s[(s > 0) & (s < 1)]
    gap = curve.at(s) - s if s.size else np.zeros(0)
    side = np.where(np.abs(gap) > NOTICEABLE, np.sign(gap), 0.0)
    if not side.any():
        return [f"calibrated to within {NOTICEABLE:g}"]
    edges = np.concatenate([[0], np.flatnonzero(np.diff(side)) + 1, [s.size]])
    return [_run(s, gap, int(a), int(b)) for a, b in pairwise(edges) if side[a]]


def _flats(curve: AveragedCurve, sample: Sample) -> list[str]:
    """Where the curve is held flat because hits become rarer, if a hundredth of the rows is there and it shows."""
    parts = []
    for low, high in curve.stretch.flats():
        x = np.clip(sample.log_odds, -BARE_LIMIT, BARE_LIMIT)
        there = (x >= low) & (x <= high)
        if sample.mass[there].sum() > 0.01 * sample.n:
            g, _ = curve.average(x[there])
            if g.max() - g.min() > NOTICEABLE:
                s = sample.confidences[there]
                parts.append(f"held flat from {s[0]:.2g} to {s[-1]:.2g}, within which accuracy falls")
    return parts


def _run(s: Floats, gap: Floats, first: int, last: int) -> str:
    word = "under" if gap[first] > 0 else "over"
    # Near 1 every curve is close to the confidence.
    to_top = last == s.size or s[last - 1] > NEAR_ONE
    if first == 0 and to_top:
        where = "throughout"
    elif to_top:
        where = f"above {s[first]:.2g}"
    elif first == 0:
        where = f"below {s[last - 1]:.2g}"
    else:
        where = f"from {s[first]:.2g} to {s[last - 1]:.2g}"
    return f"{word}-confident {where} (by up to {np.abs(gap[first:last]).max():.2g})"
