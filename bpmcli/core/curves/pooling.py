"""Isotonic regression of many samples at once: the accuracies of neighbouring cells are pooled until they do not fall.

Written by hand because a loop over a thousand resamples takes ten times as long, and importing scipy.optimize longer
still. Neighbours that violate the order always end up in one block, in whatever sequence they are pooled (Barlow et al.
1972), so each pass pools every falling run of every sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpmcli.core.data.sample import Floats, Ints

MOST_PASSES = 60
"""Real samples need about ten. Some orders of values pool only two blocks in each pass; scipy takes over from there."""


class Blocks(NamedTuple):
    """The blocks of equal accuracy of all samples, one sample after the other."""

    hits: Floats
    mass: Floats
    owner: Ints
    """The number of the sample that a block belongs to."""
    cells: Ints
    """How many cells were pooled."""


def pooled_blocks(hits: Floats, mass: Floats, owner: Ints) -> Blocks:
    """The blocks of the isotonic regression min Σ m (g − h/m)² over non-decreasing g, for every sample by itself.

    The cells of each sample stand together, in ascending order of confidence, and no mass is 0.
    """
    blocks = Blocks(hits, mass, owner, np.ones(owner.size, dtype=np.int64))
    for _ in range(MOST_PASSES):
        rates = blocks.hits / blocks.mass
        falls = (rates[1:] <= rates[:-1]) & (blocks.owner[1:] == blocks.owner[:-1])
        if not falls.any():
            return blocks
        blocks = _joined(blocks, np.flatnonzero(np.concatenate([[True], ~falls])))
    return _joined(blocks, _remaining(blocks))


def _joined(blocks: Blocks, starts: Ints) -> Blocks:
    hits, mass, cells = (np.add.reduceat(values, starts) for values in (blocks.hits, blocks.mass, blocks.cells))
    return Blocks(hits, mass, blocks.owner[starts], cells)


def _remaining(blocks: Blocks) -> Ints:
    """Where the final blocks begin, found by scipy sample by sample."""
    from scipy.optimize import isotonic_regression

    firsts = np.flatnonzero(np.concatenate([[True], np.diff(blocks.owner) > 0]))
    rates, starts = blocks.hits / blocks.mass, []
    for first, end in zip(firsts, np.append(firsts[1:], rates.size), strict=True):
        starts.append(first + isotonic_regression(rates[first:end], weights=blocks.mass[first:end]).blocks[:-1])
    return np.concatenate(starts)
