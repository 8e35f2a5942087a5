"""The sample reduced to at most a few hundred cells of log-odds, which is all that an averaged fit uses."""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.sample import BARE_LIMIT, Floats, Ints, Sample
from bpmcli.record import Record

CELL = 1 / 8
KNEE = 4.0
"""Cells are ⅛ wide up to log-odds of ±4 and widen beyond. They keep their mean log-odds, so g moves by < 1e-4."""

MASS_CELLS = 128
"""No cell holds rows from two different 128ths of the sorted sample."""


class Cells(Record):
    """Mean log-odds, rows and correct rows of every cell; `mass` adds up to the effective number of rows."""

    log_odds: Floats
    mass: Floats
    hits: Floats


def cells_for_fit(sample: Sample) -> Cells:
    """Merge neighbouring cells of the sample, keeping their mean log-odds.

    Log-odds are clipped at ±37.4: 1 − 1e-16 and 1 mean the same, and no curve should bend because of the difference.
    """
    x, starts = np.clip(sample.log_odds, -BARE_LIMIT, BARE_LIMIT), cell_starts(sample)
    mass = np.add.reduceat(sample.mass, starts)
    worth = sample.effective_n / sample.n
    return Cells(
        np.add.reduceat(sample.mass * x, starts) / mass, mass * worth, np.add.reduceat(sample.hits, starts) * worth
    )


def cell_starts(sample: Sample) -> Ints:
    """Where in the sorted sample each of these cells begins."""
    x = np.clip(sample.log_odds, -BARE_LIMIT, BARE_LIMIT)
    size = np.abs(x)
    scale = np.where(size <= KNEE, size, KNEE * (1.0 + np.log(np.maximum(size, KNEE) / KNEE)))
    key = np.floor(np.copysign(scale, x) / CELL)
    part = np.floor(sample.mass_before[:-1] * (MASS_CELLS / sample.n))
    new = (key[1:] != key[:-1]) | (part[1:] != part[:-1])
    return np.concatenate([[0], np.flatnonzero(new) + 1])
