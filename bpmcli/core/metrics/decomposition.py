"""The Brier score in three parts: brier = mcb − dsc + unc (the CORP decomposition).

- **mcb**, miscalibration: what the best non-decreasing recalibration of these rows (isotonic regression) would gain.
- **dsc**, discrimination: what the recalibrated confidences gain over one constant confidence, the accuracy.
- **unc**, uncertainty: the Brier score of that constant, r (1 − r). It depends on the outcomes only.

Dimitriadis, Gneiting & Jordan 2021, doi:10.1073/pnas.2016191118. Isotonic regression follows some noise, so mcb and
dsc are too high by about the same amount on few rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpmcli.core.curves.pooling import pooled_blocks
from bpmcli.core.data.sample import Floats, Sample, sigmoid


class BrierParts(NamedTuple):
    """Miscalibration, discrimination and uncertainty."""

    mcb: float
    dsc: float
    unc: float


def recalibrated(sample: Sample) -> Floats:
    """The accuracy that isotonic regression gives to each cell. Computed once per sample."""
    found: Floats | None = sample.__dict__.get("_recalibrated")
    if found is None:
        blocks = pooled_blocks(sample.hits, sample.mass, np.zeros(sample.mass.size, dtype=np.int64))
        found = np.repeat(np.clip(blocks.hits / blocks.mass, 0.0, 1.0), blocks.cells)
        sample.__dict__["_recalibrated"] = found
    return found


def brier_parts(sample: Sample) -> BrierParts:
    """The parts of the mean of (ŝ − h)²; their sum mcb − dsc + unc is the metric `brier`."""
    g, misses = recalibrated(sample), np.maximum(sample.mass - sample.hits, 0.0)
    r = float(sample.hits.sum()) / sample.n
    best = float(sample.hits @ np.square(1.0 - g) + misses @ np.square(g)) / sample.n
    own = float(sample.hits @ np.square(sample.complements) + misses @ np.square(sample.confidences)) / sample.n
    return BrierParts(max(own - best, 0.0), max(r * (1.0 - r) - best, 0.0), r * (1.0 - r))


def row_parts(sample: Sample, log_odds: Floats, hits: Floats) -> BrierRows:
    """What each row adds to the parts, which are the means of these values.

    The recalibrated confidences and the accuracy minimise the Brier score, so to first order a row changes a part only
    by what it adds itself: these values are also the rows' influence.
    """
    g = recalibrated(sample)[np.searchsorted(sample.log_odds, log_odds).clip(max=sample.log_odds.size - 1)]
    best, constant = np.square(g - hits), np.square(float(sample.hits.sum()) / sample.n - hits)
    against = np.where(hits > 0, -log_odds, log_odds)
    own = np.square(sigmoid(against))
    return BrierRows(own - best, constant - best, constant)


class BrierRows(NamedTuple):
    """The three parts, row by row."""

    mcb: Floats
    dsc: Floats
    unc: Floats
