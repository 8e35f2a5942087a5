"""The curve that joins the averaged matrix for two classes: its parts, its symmetry, and its gain."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from bpmcli.core.calibrators import fit_calibrator
from bpmcli.core.calibrators.averaged_matrix import AveragedMatrix
from bpmcli.core.calibrators.linear.event_curve import EventCurve, fit_averaged_curve, fit_quadratic, mixed
from bpmcli.core.calibrators.linear.floor import Start
from bpmcli.core.calibrators.linear.table import TrainingRows
from bpmcli.core.curves.averaged.mixture import fit_averaged
from bpmcli.core.data.log_odds import reduce_logits
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.data.sample import sample_from_log_odds, sigmoid
from bpmcli.errors import DataError


def two_classes(x: np.ndarray, y: np.ndarray, swapped: bool = False, weights: np.ndarray | None = None) -> Rows:
    z = np.stack([np.zeros(x.size), x], axis=1)
    if swapped:
        z, y = z[:, ::-1].copy(), 1 - y
    reduced = reduce_logits(z)
    return Rows(reduced.log_odds, reduced.predictions == y, weights, reduced.predictions, y, None, z)


def noisy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident below and a ceiling of 0.8 above: no line in log-odds, nor a slightly bent one."""
    rng = np.random.default_rng(seed)
    x = 4.0 * rng.normal(size=n)
    g = np.where(x > 0, np.minimum(sigmoid(2 * x), 0.8), sigmoid(0.3 * x))
    return x, (rng.random(n) < g).astype(np.int64)


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_mean_of_the_averaged_curves_of_both_classes(weighted: bool) -> None:
    x, y = noisy(800, 0)
    weights = np.random.default_rng(1).choice([1.0, 3.0], size=800) if weighted else None
    rows = two_classes(x, y, weights=weights)
    curve = fit_averaged_curve(TrainingRows.of(rows, "test"))
    one = fit_averaged(sample_from_log_odds(x, y == 1, weights))
    zero = fit_averaged(sample_from_log_odds(-x, y == 0, weights))
    at = np.linspace(-12, 12, 401)
    wanted = (one(at)[0] + zero(-at)[1]) / 2
    # Stored points are joined by straight lines, so the agreement between them is good but not exact.
    log_probs = np.stack([np.zeros(at.size), at])
    np.testing.assert_allclose(curve.probabilities(log_probs)[1], wanted, atol=2e-3)
    inside = np.array(curve.log_odds)[np.abs(curve.log_odds) < 12]
    exact = (one(inside)[0] + zero(-inside)[1]) / 2
    found = curve.probabilities(np.stack([np.zeros(inside.size), inside]))
    np.testing.assert_allclose(found[1], exact, rtol=1e-9)
    np.testing.assert_allclose(found.sum(axis=0), 1.0, rtol=1e-14)


def test_swapping_the_classes_swaps_the_result() -> None:
    x, y = noisy(600, 2)
    tables = [TrainingRows.of(two_classes(x, y, swapped), "test") for swapped in (False, True)]
    plain, swapped = (fit_averaged_curve(table) for table in tables)
    at = np.linspace(-10, 10, 101)
    log_probs = np.stack([np.zeros(at.size), at])
    np.testing.assert_allclose(
        plain.probabilities(log_probs), swapped.probabilities(log_probs[::-1])[::-1], rtol=1e-6, atol=1e-9
    )


def test_it_carries_weight_where_no_line_fits() -> None:
    rows, fresh = two_classes(*noisy(3000, 3)), two_classes(*noisy(20000, 4))
    fitted = fit_calibrator("averaged-matrix", rows)
    assert fitted.report["components"]["curve"] > 0.25
    assert fresh.logits is not None
    assert fresh.labels is not None

    def log_loss(method: str) -> float:
        found = (fitted if method == "averaged-matrix" else fit_calibrator(method, rows)).calibrator.log_probabilities(
            fresh.logits
        )  # type: ignore[attr-defined]
        return float(-found[np.arange(fresh.n), fresh.labels].mean())

    best = float(-np.log(_truth(fresh)).mean())
    assert log_loss("averaged-matrix") - best < 0.6 * (log_loss("structured-matrix") - best)


def _truth(rows: Rows) -> np.ndarray:
    assert rows.logits is not None
    x = rows.logits[:, 1]
    g = np.where(x > 0, np.minimum(sigmoid(2 * x), 0.8), sigmoid(0.3 * x))
    return np.where(rows.labels == 1, g, 1 - g)


def test_an_event_is_two_classes() -> None:
    x, y = noisy(500, 5)
    by_event = fit_calibrator("averaged-matrix", Rows(x, y == 1, target=EVENT)).calibrator
    whole = fit_calibrator("averaged-matrix", two_classes(x, y)).calibrator
    # The folds differ, and with them the weights.
    np.testing.assert_allclose(by_event(x)[0], whole(x)[0], atol=0.01)


def test_several_classes_have_no_curve_and_old_parameters_still_load() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 3))
    reduced = reduce_logits(z)
    labels = rng.integers(3, size=200)
    rows = Rows(reduced.log_odds, reduced.predictions == labels, None, reduced.predictions, labels, None, z)
    fitted = fit_calibrator("averaged-matrix", rows)
    assert "curve" not in fitted.report["components"]
    parameters = fitted.calibrator.parameters()
    assert not {"curve", "curve_log_odds", "curve_eta"} & set(parameters)
    assert AveragedMatrix.from_parameters(parameters) == fitted.calibrator


@cache
def fitted_parameters() -> dict[str, object]:
    return fit_calibrator("averaged-matrix", two_classes(*noisy(500, 6))).calibrator.parameters()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"curve_eta": [0.0]}, "do not fit together"),
        ({"curve_log_odds": [1.0, 0.0], "curve_eta": [0.0, 1.0]}, "do not fit together"),
        ({"curve_log_odds": [], "curve_eta": []}, "only for two classes"),
        ({"curve": 2.0}, "add up"),
    ],
)
def test_points_that_make_no_curve_are_refused(change: dict[str, object], said: str) -> None:
    parameters = fitted_parameters()
    assert parameters["curve"] > 0
    with pytest.raises(DataError, match=said):
        AveragedMatrix.from_parameters(parameters | change)


def test_it_is_constant_beyond_its_points() -> None:
    curve = EventCurve((-1.0, 1.0), (-2.0, 3.0))
    np.testing.assert_allclose(curve.at(np.array([-9.0, 9.0])), [-2.0, 3.0])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_quadratic_is_the_posterior_mode(weighted: bool) -> None:
    from scipy.optimize import minimize

    x, y = noisy(400, 7)
    weights = np.random.default_rng(1).choice([1.0, 3.0], size=400) if weighted else None
    table = TrainingRows.of(two_classes(x, y, weights=weights), "test")
    start = Start(0.01, 0.3, 0.002)
    odds = np.diff(start.scores(table.x)[1], axis=0)[0]
    w = np.ones(table.rows) if table.weights is None else table.weights

    def minus_log_posterior(theta: np.ndarray) -> float:
        p = sigmoid(theta[0] + theta[1] * odds + theta[2] * odds**2 / 10)
        prior = 0.005 * (theta[0] ** 2 + (theta[1] - 1) ** 2 + theta[2] ** 2)
        return float(prior - w @ np.log(np.where(table.labels == 1, p, 1 - p)))

    best = minimize(minus_log_posterior, [0.0, 1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    points = np.array(fit_quadratic(table, start).log_odds)
    log_probs = np.stack([-np.logaddexp(0, points), -np.logaddexp(0, -points)])
    at = np.diff(start.scores(log_probs)[1], axis=0)[0]
    a, b, c = best.x
    np.testing.assert_allclose(fit_quadratic(table, start).eta, a + b * at + c * at**2 / 10, atol=1e-4)


def test_a_mixture_is_the_weighted_mean_of_probabilities() -> None:
    one, two = EventCurve((-1.0, 1.0), (-2.0, 2.0)), EventCurve((-1.0, 0.0, 1.0), (0.0, 1.0, 4.0))
    found = mixed([one, two], np.array([0.1, 0.3]))
    assert found.log_odds == (-1.0, 0.0, 1.0)
    wanted = 0.25 * sigmoid(np.array([-2.0, 0.0, 2.0])) + 0.75 * sigmoid(np.array([0.0, 1.0, 4.0]))
    np.testing.assert_allclose(sigmoid(np.array(found.eta)), wanted, rtol=1e-12)
