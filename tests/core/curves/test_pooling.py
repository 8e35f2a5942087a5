"""Isotonic regression of many samples at once, against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from bpmcli.core.curves import pooling
from bpmcli.core.curves.pooling import pooled_blocks
from bpmcli.core.data.sample import Floats


def curve(hits: Floats, mass: Floats, owner: np.ndarray) -> Floats:
    blocks = pooled_blocks(hits, mass, owner)
    return np.repeat(blocks.hits / blocks.mass, blocks.cells)


@pytest.mark.parametrize("most_passes", [60, 1])  # after one pass, scipy finishes the work
@pytest.mark.parametrize("seed", range(5))
def test_many_samples_agree_with_scipy(monkeypatch, seed, most_passes):
    monkeypatch.setattr(pooling, "MOST_PASSES", most_passes)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 80, 20)
    owner = np.repeat(np.arange(20), sizes)
    mass = rng.integers(1, 9, owner.size).astype(float)
    hits = rng.binomial(mass.astype(int), rng.random(owner.size)).astype(float)
    expected = [isotonic_regression(hits[owner == i] / mass[owner == i], weights=mass[owner == i]).x for i in range(20)]
    np.testing.assert_allclose(curve(hits, mass, owner), np.concatenate(expected), rtol=1e-12, atol=1e-15)


def test_an_order_that_pools_one_pair_in_each_pass():
    hits = np.append(np.arange(1.0, 3000.0), 0.0)
    mass, owner = np.full(3000, 3000.0), np.zeros(3000, dtype=np.int64)
    expected = isotonic_regression(hits / mass, weights=mass).x
    np.testing.assert_allclose(curve(hits, mass, owner), expected, rtol=1e-12)


def test_samples_are_not_pooled_with_each_other():
    blocks = pooled_blocks(np.array([1.0, 0.0]), np.ones(2), np.array([0, 1]))
    assert blocks.owner.tolist() == [0, 1]
    assert blocks.cells.tolist() == [1, 1]
