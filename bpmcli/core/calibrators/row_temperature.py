"""The temperature of each row at which its predicted class has a given probability.

With d_i = z_i − z_top ≤ 0 and β = 1/T the equation is F(β) = log Σ_{others} e^{β d_i} = log((1 − g) / g). F is convex
and falls in β. The search starts in float32, where an exponential takes a quarter of the time, and ends in float64,
mostly with one step.
"""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Ints

ROUGH_STEPS = 2
"""Steps with exponentials in float32. After two of them most rows are as close as float32 can tell."""

STEPS = 100
CLOSE = 1e-4
"""The search ends when a step changes typical exponents by less than this; the remaining error is about its cube."""

STEEPEST = 1e30
"""The largest β. It is only reached where another class has the same score as the predicted one."""

SMALLEST_REST = 1e-15
"""Smaller differences cannot be told from rounding after 1 is subtracted."""

CHUNK_VALUES = 1 << 16
"""Scores per chunk: the buffers, 1 MB together, stay in the cache."""


def at_row_temperature(logits: Floats, predictions: Ints, g: Floats, miss: Floats) -> Floats:
    """softmax(β z) with β ≥ 0 for each row such that the predicted class, the largest one, has probability g.

    If g is below 1/K, the answer is β = 0: uniform. No row depends on the rows beside it.
    """
    out = np.empty(logits.shape)
    with np.errstate(divide="ignore"):
        target = np.clip(np.log(miss) - np.log(g), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
    step = max(1, CHUNK_VALUES // logits.shape[1])
    for start in range(0, logits.shape[0], step):
        rows = slice(start, min(start + step, logits.shape[0]))
        top = logits[np.arange(rows.start, rows.stop), predictions[rows]]
        with np.errstate(over="ignore"):  # masked classes have the smallest finite number
            gaps = np.subtract(logits[rows], top[:, None], out=out[rows])
        np.maximum(gaps, -LOG_ODDS_LIMIT, out=gaps)
        beta = _rough_sharpness(gaps, predictions[rows], target[rows])
        gaps *= _sharpness(gaps, target[rows], beta)[:, None]
        np.exp(gaps, out=gaps)
        gaps /= np.einsum("ij->i", gaps)[:, None]
    return out


def _rough_sharpness(gaps: Floats, predictions: Ints, target: Floats) -> Floats:
    """β of every row from a few steps in float32; the first, from β = 0, needs no exponentials.

    Sums are taken relative to the largest of the other classes, so they neither underflow nor cancel.
    """
    n, k = gaps.shape
    # Classes first, so that sums over them add whole vectors. A single column would be added up in another order.
    below, terms = np.zeros((2, k, max(n, 2)), dtype=np.float32)
    below[:, :n] = gaps.T
    below[predictions, np.arange(n)] = below[-1, :n]  # the predicted class is left out: the last one takes its place
    below, terms = below[:-1], terms[:-1]
    nearest = below.max(axis=0)
    below -= nearest
    lead = np.minimum(nearest.astype(np.float64), -1e-30)
    goal = np.zeros(nearest.size)
    goal[:n] = target
    beta = np.zeros(nearest.size)
    for step in range(1 + ROUGH_STEPS):
        if step:
            np.exp(np.multiply(below, beta.astype(np.float32), out=terms), out=terms)
        else:
            terms.fill(1.0)
        total = terms.sum(axis=0)
        terms *= below
        slope = terms.sum(axis=0) / total
        bend = np.einsum("ij,ij->j", terms, below) / total - slope**2
        beta = _next(beta, goal - beta * lead - np.log(total), lead + slope, bend)
        if not step:  # F is not below the term of the largest other class
            np.maximum(beta, np.clip(goal / lead, 0.0, STEEPEST), out=beta)
    return beta[:n]


def _sharpness(gaps: Floats, target: Floats, beta: Floats) -> Floats:
    """β of every row to the precision of float64; each row stops by itself."""
    rows = np.arange(target.size)
    terms = np.empty(gaps.shape)
    for _ in range(STEPS):
        now = terms[: rows.size]
        np.exp(np.multiply(gaps, beta[rows, None], out=now), out=now)
        # The predicted class has e^0 = 1.
        others = np.maximum(np.einsum("ij->i", now) - 1.0, SMALLEST_REST)
        now *= gaps
        slope = np.minimum(np.einsum("ij->i", now) / others, -1e-300)
        square = np.einsum("ij,ij->i", now, gaps) / others
        new = _next(beta[rows], target[rows] - np.log(others), slope, square - slope**2)
        moved = np.abs(new - beta[rows]) * np.sqrt(square) > CLOSE
        beta[rows] = new
        if not moved.any():
            break
        if not moved.all():
            rows, gaps = rows[moved], gaps[moved]
    return beta


def _next(beta: Floats, missing: Floats, slope: Floats, bend: Floats) -> Floats:
    """β + δ with F'δ + F''δ²/2 = `missing`, in the form that does not cancel.

    Where that has no solution it is a Newton step, which for a convex, falling function ends at or below the solution.
    """
    newton = missing / slope
    inside = 1.0 + 2.0 * newton * np.maximum(bend, 0.0) / slope
    step = np.where(inside > 0.0, 2.0 * newton / (1.0 + np.sqrt(np.maximum(inside, 0.0))), newton)
    new: Floats = np.clip(beta + step, 0.0, STEEPEST)
    return new
