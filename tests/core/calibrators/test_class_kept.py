"""Keeping the predicted class on top changes a distribution as little as possible."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from bpmcli.core.calibrators.distributions import keep_class, with_class_kept


def changed_rows(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Distributions, and a class that is not on top of any of them."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(k), size=n)
    return probs, (probs.argmax(axis=1) + rng.integers(1, k, size=n)) % k


@pytest.mark.parametrize("k", [2, 3, 7, 40])
def test_the_class_is_on_top_and_rows_still_add_up(k):
    probs, predictions = changed_rows(300, k, k)
    kept = keep_class(probs, predictions)
    assert np.array_equal(kept.argmax(axis=1), predictions)
    single = kept.astype(np.float32)
    assert np.array_equal(single.argmax(axis=1), predictions)
    others = np.where(np.arange(k) == predictions[:, None], 0, np.log(kept).astype(np.float32))
    own = np.log(kept).astype(np.float32)[np.arange(300), predictions]
    assert np.all(np.where(others == 0, -np.inf, others).max(axis=1) < own)
    np.testing.assert_allclose(kept.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    assert np.all(kept >= 0)
    # Classes below the predicted one keep their probability.
    low = probs < kept.max(axis=1, keepdims=True) * (1 - 1e-9)
    low[np.arange(300), predictions] = False
    np.testing.assert_array_equal(kept[low], probs[low])


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_closest_such_distribution(seed):
    """Σ p log q under q_top ≥ q_j and Σ q = 1, by scipy's constrained solver."""
    probs, predictions = changed_rows(1, 5, seed)
    p, top = probs[0], int(predictions[0])
    constraints = [{"type": "eq", "fun": lambda q: q.sum() - 1.0}]
    constraints += [{"type": "ineq", "fun": lambda q, j=j: q[top] - q[j]} for j in range(5) if j != top]
    found = minimize(
        lambda q: -p @ np.log(q), np.full(5, 0.2), jac=lambda q: -p / q, bounds=[(1e-9, 1)] * 5,
        constraints=constraints, method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    np.testing.assert_allclose(keep_class(probs, predictions)[0], found.x, atol=2e-5)


def test_rows_that_kept_their_class_are_left_alone():
    probs, predictions = changed_rows(50, 4, 0)
    predictions[:25] = probs[:25].argmax(axis=1)
    before = probs.copy()
    result = with_class_kept(probs, predictions, allow_argmax_change=False)
    assert result.below_runner_up == 25
    np.testing.assert_array_equal(result.probs[:25], before[:25])
