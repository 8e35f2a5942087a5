"""Draws from the posterior of the averaged curve, for confidence bands."""

from __future__ import annotations

import numpy as np

from bpmcli.core.curves.averaged.mixture import band_mixture
from bpmcli.core.curves.averaged.monotone import mass_at, rising
from bpmcli.core.data.sample import Floats, Sample, sigmoid


def curve_draws(sample: Sample, log_odds: Floats, runs: int, rng: np.random.Generator) -> Floats:
    """Curves drawn from the posterior over components and their parameters, at these log-odds: (runs, points).

    Every drawn curve is projected onto the closest one that does not decrease, as the fitted curve is.
    """
    mixture = band_mixture(sample)
    cells = mixture.cells
    x = np.unique(np.concatenate([log_odds, cells.log_odds]))
    drawn = rising(sigmoid(mixture.draws(x, runs, rng)), mass_at(x, cells))
    return drawn[:, np.searchsorted(x, log_odds)]
