"""From a calibrated confidence to a whole distribution: nothing is lost, no class changes, T is the stated posterior mode."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp

from bpmcli.core.calibrators import fit_calibrator
from bpmcli.core.calibrators.distributions import calibrate_distributions
from bpmcli.core.calibrators.row_temperature import at_row_temperature
from bpmcli.core.calibrators.spread import Spread, fit_spread
from bpmcli.core.calibrators.temperature import Ensemble, Temperature
from bpmcli.core.data import missed as missed_module
from bpmcli.core.data.log_odds import log_softmax, reduce_logits
from bpmcli.core.data.missed import Missed, joined_missed
from bpmcli.core.data.rows import Rows


def rows_of(
    logits: np.ndarray, labels: np.ndarray, from_probs: bool = False, weights: np.ndarray | None = None
) -> Rows:
    reduced = reduce_logits(logits)
    hits = reduced.predictions == labels
    return Rows(reduced.log_odds, hits, weights, reduced.predictions, labels, None, logits, from_probs)


def model(n: int = 2000, k: int = 6, rest_temperature: float = 2.0, seed: int = 0) -> Rows:
    """Wrong labels are drawn from the other classes at their own temperature."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, k))
    top = z.argmax(axis=1)
    others = z / rest_temperature + rng.gumbel(size=z.shape)
    others[np.arange(n), top] = -np.inf
    labels = np.where(rng.random(n) < 0.6, top, others.argmax(axis=1))
    return rows_of(z, labels)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_temperature_is_the_posterior_mode_on_the_wrong_rows(weighted: bool) -> None:
    rows = model()
    weights = np.random.default_rng(1).choice([0.5, 2.0], size=rows.n) if weighted else None
    rows = rows_of(rows.logits, rows.labels, weights=weights)  # type: ignore[arg-type]
    wrong = ~rows.hits
    assert rows.logits is not None
    assert rows.labels is not None
    z = rows.logits[wrong].copy()
    z[np.arange(len(z)), z.argmax(axis=1)] = -np.inf
    labels = rows.labels[wrong]
    w = np.ones(labels.size) if weights is None else weights[wrong]
    # The likelihood counts as many rows as the weights are worth.
    w = w / w.sum() * (w.sum() ** 2 / (w**2).sum())

    def minus_log_posterior(log_t: float) -> float:
        likelihood = log_softmax(z / math.exp(log_t))[np.arange(labels.size), labels]
        return float(-(w * likelihood).sum() + log_t**2 / (2 * 0.7**2))

    solved = minimize_scalar(minus_log_posterior, bounds=(-3, 3), method="bounded", options={"xatol": 1e-10})
    found = fit_spread(rows)
    assert found is not None
    assert math.log(found.temperature) == pytest.approx(solved.x, abs=1e-6)
    assert found.temperature == pytest.approx(2.0, rel=0.25)
    assert found.floor == 0.0


def test_probabilities_get_a_floor_and_no_class_stays_impossible() -> None:
    rng = np.random.default_rng(0)
    counts = rng.multinomial(10, rng.dirichlet(np.full(5, 0.5), size=300))
    labels = rng.integers(5, size=300)
    with np.errstate(divide="ignore"):
        rows = rows_of(np.log(counts / 10), labels, from_probs=True)
    spread = fit_spread(rows)
    assert spread is not None
    assert spread.floor == 1 / 600
    assert rows.logits is not None
    assert rows.predictions is not None
    for method in ("platt", "bpm-averaged"):
        fitted = fit_calibrator(method, rows).calibrator
        done = calibrate_distributions(fitted, rows.logits, rows.log_odds, rows.predictions, spread=spread)
        assert np.all(done.probs > 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 12), st.floats(0.2, 5.0), st.sampled_from([0.0, 0.01]), st.integers(0, 10**6))
def test_the_class_never_changes_and_the_confidence_is_exact(k: int, t: float, floor: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.choice([0.5, 3.0, 40.0]) * rng.normal(size=(50, k)).round(1)
    predictions = z.argmax(axis=1)
    g = rng.random(50)
    probs = Spread(t, floor).keeping_class(g, 1 - g, z, predictions)
    rows = np.arange(50)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-12)
    possible = g >= 1 / k
    np.testing.assert_allclose(probs[rows, predictions][possible], g[possible], atol=1e-10)
    np.testing.assert_allclose(probs[~possible], 1 / k, atol=1e-12)
    assert np.all(probs[rows, predictions] >= probs.max(axis=1) - 1e-10)


@pytest.mark.parametrize("k", [2, 3, 7, 40])
@pytest.mark.parametrize("scale", [0.05, 1.0, 4.0, 60.0])
def test_the_row_temperature_is_the_root_scipy_finds(k: int, scale: float) -> None:
    """From logits that hardly differ, where T is far below 1, to saturated ones, and from 1/K to almost 1."""
    rng = np.random.default_rng(3)
    z = scale * rng.normal(size=(40, k))
    top = z.argmax(axis=1)
    g = 1 / k + (1 - 1 / k) * np.concatenate(
        [rng.uniform(0.001, 0.99, size=35), [1e-9, 1e-5, 0.999, 1 - 1e-6, 1 - 1e-9]]
    )
    found = at_row_temperature(z, top, g, 1 - g)
    for row, p, t, wanted in zip(z, found, top, g, strict=True):
        gaps = np.delete(row, t) - row[t]
        goal = math.log1p(-wanted) - math.log(wanted)
        beta = brentq(lambda b, d=gaps, y=goal: logsumexp(b * d) - y, 0, 60 / -gaps.max(), xtol=1e-300, rtol=1e-14)
        np.testing.assert_allclose(p, np.exp(log_softmax(beta * row[None]))[0], atol=1e-12)


@pytest.mark.parametrize("k", [2, 5, 33, 300])
def test_rows_do_not_influence_each_other(k: int) -> None:
    rng = np.random.default_rng(4)
    z, g = 4 * rng.normal(size=(300, k)), rng.random(300)
    top = z.argmax(axis=1)
    together = at_row_temperature(z, top, g, 1 - g)
    for size in (1, 2, 3):
        for i in range(0, 297, 7):
            few = slice(i, i + size)
            assert np.array_equal(at_row_temperature(z[few], top[few], g[few], 1 - g[few]), together[few])


def test_scores_without_a_solution_give_the_nearest_distribution() -> None:
    """A tie cannot have more than 1/2 on top, a probability below 1/K is raised, and 0 and 1 are finite."""
    z = np.array([[2.0, 2.0, 0.0], [2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [2.0, 1.0, -1e9]])
    g = np.array([0.9, 0.2, 0.0, 1.0])
    found = at_row_temperature(z, np.zeros(4, dtype=int), g, 1 - g)
    np.testing.assert_allclose(found, [[0.5, 0.5, 0], [1 / 3] * 3, [1 / 3] * 3, [1, 0, 0]], atol=1e-12)


def test_wrong_rows_alone_are_enough_and_their_order_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = model()
    assert rows.logits is not None
    assert rows.labels is not None
    assert rows.predictions is not None
    wrong = np.flatnonzero(~rows.hits)

    def spread(index: np.ndarray) -> Spread | None:
        parts = np.array_split(index, 3)
        missed = joined_missed([Missed(rows.logits[i], rows.predictions[i], rows.labels[i], None) for i in parts])  # type: ignore[index]
        return fit_spread(
            Rows(rows.log_odds, rows.hits, predictions=rows.predictions, labels=rows.labels, missed=missed)
        )

    assert spread(wrong) == fit_spread(rows)
    monkeypatch.setattr(missed_module, "MOST_VALUES", 600)
    few = spread(wrong)
    assert few is not None
    assert few != fit_spread(model(seed=1))
    assert spread(np.random.default_rng(0).permutation(wrong)) == few


def test_nothing_to_learn_is_in_proportion() -> None:
    rows = model(100)
    assert rows.logits is not None
    assert rows.predictions is not None
    assert fit_spread(rows_of(rows.logits, rows.predictions)) == Spread(1.0, 0.0)
    assert fit_spread(rows_of(rows.logits[:, :2], rows.hits.astype(int))) == Spread(1.0, 0.0)
    assert fit_spread(Rows(rows.log_odds, rows.hits)) is None


def test_the_largest_and_the_smallest_number_may_be_logits():
    """As masks of classes. Their difference is infinite, which must not warn."""
    largest = np.finfo(np.float64).max
    z = np.array([[largest, 1.0, -largest], [1.0, 0.0, -largest]])
    found = at_row_temperature(z, np.zeros(2, dtype=int), np.array([0.8, 0.6]), np.array([0.2, 0.4]))
    assert found[:, 0] == pytest.approx([0.8, 0.6])
    assert np.isfinite(found).all()


@pytest.mark.parametrize("calibrate", [
    lambda z: np.exp(Temperature(0.5).log_probabilities(z)),
    lambda z: np.exp(Ensemble(0.5, 0.5, 0.5, 0.0).log_probabilities(z)),
    lambda z: Spread(0.5).distributions(np.array([0.8]), np.array([0.2]), z, np.array([0])),
])  # fmt: skip
def test_a_masked_class_stays_impossible_at_any_temperature(calibrate):
    """Divided by a temperature below 1, the smallest finite number is -inf, which must not warn."""
    found = calibrate(np.array([[1.0, 0.0, -np.finfo(np.float64).max]]))
    assert found.sum() == pytest.approx(1.0)
    assert found[0, 2] == 0.0
