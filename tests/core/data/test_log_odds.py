"""Logits to log-odds, against the definition in long doubles; ties are counted, few classes or many."""

from __future__ import annotations

import numpy as np
import pytest

from bpmcli.core.data.log_odds import CHUNK_VALUES, MANY_CLASSES, reduce_logits
from bpmcli.core.data.sample import LOG_ODDS_LIMIT


@pytest.mark.parametrize("k", [2, 10, MANY_CLASSES - 1, MANY_CLASSES, 1000])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_log_odds_and_ties_are_those_of_the_definition(k, scale, kind):
    rng = np.random.default_rng(k)
    n = CHUNK_VALUES // k // 40 + 40
    z = (rng.standard_normal((n, k)) * scale).astype(kind)
    z[::7, 0] = z[::7].max(axis=1)  # ties, unless the first class was the largest
    found = reduce_logits(z)
    exact = z.astype(np.longdouble)
    best = exact.argmax(axis=1)
    peak = exact[np.arange(n), best]
    others = np.exp(exact - peak[:, None])
    others[np.arange(n), best] = 0.0
    with np.errstate(divide="ignore"):
        margin = np.minimum(-np.log(others.sum(axis=1)), LOG_ODDS_LIMIT)
    assert np.array_equal(found.predictions, best)
    assert np.abs(found.log_odds - margin.astype(np.float64)).max() < 1e-12
    assert found.argmax_ties == int(((z == z.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum())
    assert found.argmax_ties > 0


def test_a_row_does_not_depend_on_its_neighbours():
    z = np.random.default_rng(0).standard_normal((3 * CHUNK_VALUES // 300, 300)).astype(np.float32)
    alone = np.concatenate([reduce_logits(z[i : i + 1]).log_odds for i in range(0, len(z), 100)])
    assert np.array_equal(reduce_logits(z).log_odds[::100], alone)
