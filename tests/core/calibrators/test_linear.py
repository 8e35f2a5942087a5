"""Calibrators of whole distributions with linear maps: derivatives, public packages, and what the average promises."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bpmcli.core.calibrators import fit_calibrator
from bpmcli.core.calibrators.averaged_matrix import AveragedMatrix
from bpmcli.core.calibrators.linear.components import FULL_CLASSES, precisions
from bpmcli.core.calibrators.linear.floor import Start, fit_start
from bpmcli.core.calibrators.linear.forms import FUNCTIONS, Chunk, Chunks, Form, shapes_of, softmax
from bpmcli.core.calibrators.linear.likelihood import Likelihood
from bpmcli.core.calibrators.linear.minimum import TRIANGULAR, Preconditioner, lbfgs, minimise_penalised
from bpmcli.core.calibrators.linear.minimum import _inverses as inverses
from bpmcli.core.calibrators.linear.stack import folds_of, prior_counts, stack_weights
from bpmcli.core.calibrators.linear.table import LOWEST, TrainingRows, log_probabilities
from bpmcli.core.calibrators.structured import StructuredVector
from bpmcli.core.data.log_odds import log_softmax, reduce_logits
from bpmcli.core.data.rows import Rows
from bpmcli.errors import DataError

ORACLES = json.loads((Path(__file__).resolve().parents[2] / "oracles/linear.json").read_text())["cases"]
LINEAR = ["vector", "matrix", "structured-vector", "structured-matrix", "dirichlet"]


def from_scores(z: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> Rows:
    reduced = reduce_logits(z)
    return Rows(reduced.log_odds, reduced.predictions == labels, weights, reduced.predictions, labels, None, z)


def simulated(n: int, k: int, seed: int) -> Rows:
    """As in benchmarks/oracle_linear.py: over-confident, with unequal slopes and shifts."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    z[np.arange(n), rng.integers(k, size=n)] += 2.0
    truth = z * np.linspace(0.4, 0.8, k) + np.linspace(-0.5, 0.5, k) + 0.2 * z @ np.eye(k)[:, ::-1]
    return from_scores(z, (truth + rng.gumbel(size=z.shape)).argmax(axis=1))


def calibrated(n: int, k: int, seed: int, t: float = 1.0) -> Rows:
    """Labels drawn from softmax(z/t)."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=(n, k))
    return from_scores(z, (z / t + rng.gumbel(size=z.shape)).argmax(axis=1))


def log_loss(log_probs: np.ndarray, rows: Rows) -> float:
    return float(-log_probs[np.arange(rows.n), rows.labels].mean())


# Public packages


@pytest.mark.parametrize("case", ORACLES)
@pytest.mark.parametrize("method", LINEAR)
def test_coefficients_agree_with_public_packages(case, method):
    wanted = ORACLES[case][method]
    found = fit_calibrator(method, simulated(*ORACLES[case]["case"])).calibrator.parameters()
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", ORACLES)
@pytest.mark.parametrize("method", ["structured-vector", "structured-matrix"])
def test_the_objective_is_below_that_of_the_package_as_shipped(case, method):
    rows = simulated(*ORACLES[case]["case"])
    fitted = fit_calibrator(method, rows)
    theirs = {k: np.array(v) for k, v in ORACLES[case]["as_shipped"][method].items()}
    table = TrainingRows.of(rows, method)
    k, calibrator = table.classes, fitted.calibrator
    x = calibrator.prepared(table.x)
    linear = theirs["matrix"] if "matrix" in theirs else np.diag(theirs["slopes"])
    z = linear @ x + theirs["shifts"][:, None]
    mean = log_loss(log_softmax(np.ascontiguousarray(z.T)), rows._replace(labels=table.labels))
    own = np.diag(linear) - 1.0
    rest = linear - np.diag(np.diag(linear))
    penalty = (k * (own @ own + theirs["shifts"] @ theirs["shifts"]) + k * (k - 1) * (rest**2).sum()) / rows.n
    assert fitted.report["objective"] <= mean + penalty
    assert fitted.report["objective"] == pytest.approx(mean + penalty, rel=1e-4)


# Derivatives


def likelihood(form: Form, weighted: bool) -> Likelihood:
    rows = simulated(50, form.classes, 3)
    if weighted:
        rows = rows._replace(weights=np.random.default_rng(0).random(50) + 0.1)
    return Likelihood(Chunks(TrainingRows.of(rows, "test"), with_shapes=True), form)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [Form(4, True), Form(4, False), Form(4, True, FUNCTIONS), Form(4, False, FUNCTIONS)])
def test_gradient_and_hessian_are_finite_differences(form, weighted):
    loss = likelihood(form, weighted)
    rng = np.random.default_rng(1)
    theta, tau, h = 0.2 * rng.normal(size=form.size), rng.random(form.size), 1e-5
    steps = h * np.eye(form.size)
    ends = [(loss.loss(theta + s, tau), loss.loss(theta - s, tau)) for s in steps]
    value, gradient = loss.loss(theta, tau)
    assert value > 0
    np.testing.assert_allclose(gradient, [(a[0] - b[0]) / (2 * h) for a, b in ends], rtol=1e-6, atol=1e-6)
    curvature = np.array([(a[1] - b[1]) / (2 * h) for a, b in ends]) - np.diag(tau)
    if not form.functions:
        np.testing.assert_allclose(loss.hessian(theta), curvature, rtol=1e-5, atol=1e-5)
    own, shared = loss.blocks(theta)
    for k in range(form.classes):
        at = slice(k * form.columns, (k + 1) * form.columns)
        np.testing.assert_allclose(own[k], curvature[at, at], rtol=1e-5, atol=1e-5)
    common = slice(form.classes * form.columns, None)
    np.testing.assert_allclose(shared, curvature[common, common], rtol=1e-5, atol=1e-5)


def test_scaled_coordinates_go_there_and_back():
    form = Form(3, True, FUNCTIONS)
    loss = likelihood(form, False)
    tau = precisions(form, 0.3)
    scale = Preconditioner.of(loss.blocks(np.zeros(form.size)), form, tau)
    theta = np.random.default_rng(0).normal(size=form.size)
    np.testing.assert_allclose(scale.forward(scale.inverse(theta)), theta, rtol=1e-9)
    assert theta @ scale.forward(theta) == pytest.approx(scale.backward(theta) @ theta)
    hessian = np.linalg.inv(loss.blocks(np.zeros(form.size))[0][0] + np.diag(tau[: form.columns]))
    np.testing.assert_allclose(scale.variances()[: form.columns], np.diag(hessian), rtol=1e-6)


def test_both_solvers_find_the_same_minimum():
    form = Form(4, True)
    loss, tau = likelihood(form, True), precisions(form, 0.5)
    start = np.zeros(form.size)
    exact = minimise_penalised(loss, tau, 50)
    near = lbfgs(loss, tau, start, 1e-7, Preconditioner.of(loss.blocks(start), form, tau))
    np.testing.assert_allclose(exact.theta, near.theta, atol=1e-6)
    assert exact.gradient < 1e-7


# Floor and temperature


def test_a_floor_is_found_where_labels_have_probabilities_of_zero():
    rng = np.random.default_rng(0)
    p = np.zeros((400, 5))
    p[np.arange(400), rng.integers(5, size=400)] = 1.0
    labels = np.where(rng.random(400) < 0.2, rng.integers(5, size=400), p.argmax(axis=1))
    with np.errstate(divide="ignore"):
        rows = from_scores(np.log(p), labels)
    table = TrainingRows.of(rows, "test")
    assert table.x.min() == LOWEST
    start = fit_start(table, table.n)
    assert start.floor > 0
    for method in [*LINEAR, "averaged-matrix"]:
        loss = log_loss(fit_calibrator(method, rows).calibrator.log_probabilities(rows.logits), rows)
        assert np.isfinite(loss)
    # One in five labels is drawn at random: 0.84 log 0.84 + 4 · 0.04 log 0.04.
    assert loss == pytest.approx(0.661, abs=0.08)


def test_a_calibrated_model_keeps_its_zeros_and_its_temperature():
    table = TrainingRows.of(calibrated(4000, 5, 0), "test")
    start = fit_start(table, table.n)
    assert start.floor <= 0.01
    assert abs(start.log_sharpness) < 0.05


def test_start_is_its_formula():
    x = np.log(np.array([[0.7, 0.2], [0.3, 0.5], [0.0 + 1e-30, 0.3]]))
    start = Start(0.01, np.log(0.5), 0.002)
    p = np.sqrt(0.99 * np.exp(x) + 0.01 / 3)
    wanted = 0.998 * p / p.sum(axis=0) + 0.002 / 3
    q, log_q = start.scores(x)
    np.testing.assert_allclose(q, wanted, rtol=1e-12)
    np.testing.assert_allclose(np.exp(log_q), wanted, rtol=1e-12)
    p = np.exp(x)
    np.testing.assert_allclose(shapes_of(x), [p * x, -np.log(1 - p), x**2 / 10], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("matrix", [True, False])
def test_the_quick_map_of_the_average_is_its_form(matrix):
    """Fewer passes, the same numbers; a temperature so low that exponentials would underflow included."""
    rng = np.random.default_rng(1)
    form = Form(4, matrix, FUNCTIONS)
    table = 0.3 * rng.normal(size=(4, form.columns))
    logits = 3.0 * rng.normal(size=(50, 4))
    for temperature in (0.8, 1e-3):
        fitted = AveragedMatrix(1e-3, temperature, 1e-3, 0.1, 0.2, 0.7, tuple(map(tuple, table.tolist())))
        x = log_softmax(logits).T
        scaled, z = Start(1e-3, -np.log(temperature), 1e-3).scores(x)
        eta = form.map(table, Chunk(z, shapes_of(z), np.empty(0, dtype=np.int64), None))
        unchanged = (np.exp(x) + 1e-6 / 4) / (1 + 1e-6)
        wanted = 0.1 * unchanged + 0.2 * scaled + 0.7 * np.exp(log_softmax(eta.T)).T
        np.testing.assert_allclose(np.exp(fitted.log_probabilities(logits)), wanted.T, rtol=1e-10)
        np.testing.assert_allclose(wanted.sum(axis=0), 1.0, rtol=1e-12)


# The average


def test_folds_deal_out_every_class_evenly():
    labels = np.random.default_rng(0).integers(4, size=203)
    counts = np.array([np.bincount(folds_of(labels)[labels == k], minlength=5) for k in range(4)])
    assert counts.sum() == 203
    assert np.all(np.ptp(counts, axis=1) <= 1)


def test_stack_weights_are_a_stationary_point_of_their_posterior():
    rng = np.random.default_rng(0)
    likelihoods, mass, counts = rng.random((4, 300)), rng.random(300) + 0.5, np.array([0.5, 0.2, 1.0, 1.0])
    w = stack_weights(likelihoods, mass, counts)
    slopes = (likelihoods * mass / (w @ likelihoods)).sum(axis=1) + counts / w
    np.testing.assert_allclose(slopes[w > 0], slopes[w > 0].mean(), rtol=1e-2)
    assert w.sum() == pytest.approx(1.0)


def test_prior_counts_favour_leaving_alone_when_rows_are_scarce():
    scarce, many = prior_counts(50, 3), prior_counts(5000, 3)
    assert scarce[0] / scarce.sum() > 0.4
    assert many[0] / many.sum() < 0.05


def test_calibrated_rows_are_hardly_changed():
    for seed in range(4):
        rows, fresh = calibrated(50, 6, seed), calibrated(4000, 6, 100 + seed)
        found = fit_calibrator("averaged-matrix", rows).calibrator.log_probabilities(fresh.logits)
        assert log_loss(found, fresh) < 1.05 * log_loss(log_softmax(fresh.logits), fresh)


def test_it_repairs_what_needs_a_matrix():
    rows, fresh = simulated(3000, 6, 0), simulated(6000, 6, 1)
    losses = {
        name: log_loss(fit_calibrator(name, rows).calibrator.log_probabilities(fresh.logits), fresh)
        for name in ("temperature", "structured-matrix", "averaged-matrix")
    }
    assert losses["averaged-matrix"] < losses["temperature"] - 0.05
    assert losses["averaged-matrix"] < 1.003 * losses["structured-matrix"]


def test_many_classes_have_a_diagonal_and_many_rows_a_subset(monkeypatch):
    rows = calibrated(300, FULL_CLASSES + 2, 0, t=2.0)
    found = fit_calibrator("averaged-matrix", rows).calibrator
    assert len(found.table[0]) == 2 + FUNCTIONS
    few = calibrated(900, 4, 0, t=2.0)
    full = fit_calibrator("averaged-matrix", few).calibrator.log_probabilities(few.logits)
    monkeypatch.setattr("bpmcli.core.calibrators.averaged_matrix.STACK_VALUES", 1300)
    subset = fit_calibrator("averaged-matrix", few).calibrator.log_probabilities(few.logits)
    assert log_loss(subset, few) == pytest.approx(log_loss(full, few), rel=0.01)
    assert not np.array_equal(full, subset)


@pytest.mark.parametrize("rows", [1, 2, 7, 12])
def test_from_one_row_up(rows):
    data = calibrated(rows, 4, 0)
    found = fit_calibrator("averaged-matrix", data)
    assert np.isfinite(found.calibrator.log_probabilities(data.logits)).all()
    assert sum(found.report["components"].values()) == pytest.approx(1.0)


def test_equal_rows_in_a_chunk_or_not(monkeypatch):
    """Applying it chunk by chunk does not change a bit."""
    rows = simulated(500, 5, 0)
    for method in [*LINEAR, "averaged-matrix"]:
        calibrator = fit_calibrator(method, rows).calibrator
        whole = calibrator.log_probabilities(rows.logits)
        pieces = [calibrator.log_probabilities(rows.logits[i : i + 100]) for i in range(0, 500, 100)]
        np.testing.assert_allclose(np.concatenate(pieces), whole, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"unchanged": 0.9}, "add up"),
        ({"temperature": -1.0}, "out of range"),
        ({"floor": 1.5}, "out of range"),
        ({"table": [[0.0, 1.0], [0.0, 1.0]]}, "wrong shape"),
    ],
)
def test_parameters_that_do_not_fit_together_are_refused(change, said):
    parameters = fit_calibrator("averaged-matrix", calibrated(200, 3, 0)).calibrator.parameters()
    with pytest.raises(DataError, match=said):
        AveragedMatrix.from_parameters(parameters | change)


@pytest.mark.parametrize("lowest", [-5.0, -80.0, -500.0])
def test_a_constant_in_every_row_is_skipped_without_a_change(lowest: float) -> None:
    """Where scores need not be normalised first, the result is that of normalised scores, also near the smallest."""
    logits = np.random.default_rng(0).normal(size=(50, 3)) + 1000.0
    logits[:, 0] += lowest
    table = ((0.2, -0.1, 0.0, 0.3, 0.1, 0.0, 0.02), (0.0, 0.1, 0.1, 0.0, 0.2, 0.1, 0.0), (0.0,) * 7)
    for unchanged in (0.0, 0.25):
        own = AveragedMatrix(0.0, 6.0, 1e-9, unchanged, 0.25, 0.75 - unchanged, table)
        with_normalised = np.log(own.probabilities(log_probabilities(logits))).T
        assert own.log_probabilities(logits) == pytest.approx(with_normalised, rel=1e-10)
    structured = StructuredVector(6.0, 1e-9, (1.2, 0.9, 1.0), (0.1, 0.0, -0.1))
    z = np.array([[1.2], [0.9], [1.0]]) * structured.prepared(log_probabilities(logits)) + [[0.1], [0.0], [-0.1]]
    assert structured.log_probabilities(logits) == pytest.approx(np.log(softmax(z)[0]).T, rel=1e-10)


@pytest.mark.parametrize("size", [TRIANGULAR - 1, TRIANGULAR])
def test_inverses_of_triangular_factors(size: int) -> None:
    """A wrong inverse only slows the search down, so no test of a fit would notice it."""
    rng = np.random.default_rng(0)
    factors = np.tril(rng.normal(size=(2, size, size)) / size) + np.eye(size)
    before = factors.copy()
    found = inverses(factors)
    assert factors == pytest.approx(before, abs=0)  # the factors are not overwritten
    assert found @ factors == pytest.approx(np.broadcast_to(np.eye(size), found.shape), abs=1e-9)
