"""Curves that are held flat where they would fall: the projection against its definition, and fits to a falling truth."""

from __future__ import annotations

import numpy as np
import pytest

from bpmcli.core.calibrators import FitOptions
from bpmcli.core.calibrators.averaged import Averaged, calibrator_of, posterior_draws
from bpmcli.core.calibrators.band import curve_band
from bpmcli.core.compare.truths import TRUTHS, simulate
from bpmcli.core.curves.averaged.cells import Cells, cells_for_fit
from bpmcli.core.curves.averaged.curve import NO_ROWS, NOWHERE, AveragedCurve, mass_at, rising, stretch_that_falls
from bpmcli.core.curves.averaged.mixture import averaged_mixture, fit_averaged
from bpmcli.core.curves.averaged.shapes import Component
from bpmcli.core.curves.averaged.tce import tce_averaged
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, Sample, sample_from_log_odds, sigmoid

GRID = np.concatenate([[-700.0, -50.0], np.linspace(-38, 38, 7601), [50.0, 700.0]])


def true_rate(x: Floats) -> Floats:
    """Rises, falls between log-odds 1 and 2, and rises again."""
    return sigmoid(np.interp(x, [-2, 1, 2, 5], [-2.5, 1.5, 0.0, 3.0]))


def falling(n: int = 20_000, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    x = rng.normal(1.5, 1.2, n)
    return Rows(x, rng.random(n) < true_rate(x))


def bends(*slopes: float) -> Component:
    return Component("bends", "", (0.0, *slopes), tuple(range(len(slopes) - 1)))


def least_squares(values: Floats, mass: Floats) -> Floats:
    """max over a ≤ i of min over b ≥ i of the mean of a … b: the definition of isotonic regression."""
    n = values.size
    mean = np.full((n, n), np.inf)
    for a in range(n):
        mean[a, a:] = np.cumsum((values * mass)[a:]) / np.cumsum(mass[a:])
    return np.array([min_of.max() for min_of in (mean[: i + 1, i:].min(axis=1) for i in range(n))])


def test_projection_is_the_least_squares_one() -> None:
    rng = np.random.default_rng(0)
    cells = Cells(np.sort(rng.normal(1, 1.5, 60)), rng.integers(1, 9, 60).astype(float), np.zeros(60))
    components, weights = (bends(1.0, -2.0, 1.5, -0.5), bends(0.5, 0.1, 0.2, 1.0)), (0.7, 0.3)
    stretch = stretch_that_falls(components, weights, cells)
    plain, held = AveragedCurve(components, weights), AveragedCurve(components, weights, stretch)
    assert held(cells.log_odds)[0] == pytest.approx(least_squares(plain(cells.log_odds)[0], cells.mass), abs=1e-7)
    # Least squares keeps the mean.
    assert cells.mass @ held(cells.log_odds)[0] == pytest.approx(cells.mass @ plain(cells.log_odds)[0], rel=1e-7)
    for values in held(GRID):
        assert np.all(np.abs(np.diff(values[1:-1])) < 0.01)
    assert np.all(np.diff(held(GRID)[0]) >= -1e-15)
    assert np.all(np.diff(held(GRID)[1]) <= 1e-15)


def test_nothing_is_held_where_nothing_falls() -> None:
    cells = cells_for_fit(simulate(TRUTHS["D4"], 500, np.random.default_rng(0)).sample())
    assert (
        stretch_that_falls((bends(1.0, 0.0, 0.5), Component("identity", "", (0.0,) * 4)), (0.5, 0.5), cells) is NOWHERE
    )


def test_a_curve_that_only_falls_is_the_hit_rate() -> None:
    cells = Cells(np.linspace(-3, 3, 50), np.ones(50), np.zeros(50))
    components = (bends(-1.0, -1.0),)
    g, miss = AveragedCurve(components, (1.0,), stretch_that_falls(components, (1.0,), cells))(GRID)
    assert g == pytest.approx(np.full(GRID.size, 0.5), abs=1e-6)
    assert g + miss == pytest.approx(np.ones(GRID.size), abs=1e-15)


def test_saturated_falls_keep_their_digits() -> None:
    # 1 − g falls to e^-36, rises to e^-35.2 and falls again: g itself rounds to 1 on the way.
    cells = Cells(np.linspace(34.5, 37.3, 80), np.ones(80), np.zeros(80))
    components = (Component("bends", "", (0.0, 1.0, -1.0, 1.0), (36.0, 36.8)),)
    curve = AveragedCurve(components, (1.0,), stretch_that_falls(components, (1.0,), cells))
    miss = curve(np.linspace(34.5, 37.3, 400))[1]
    assert np.all(np.diff(miss) <= 0)
    assert curve(np.array([36.1]))[1] == curve(np.array([36.7]))[1]
    wanted = -least_squares(-AveragedCurve(components, (1.0,))(cells.log_odds)[1], cells.mass)
    assert curve(cells.log_odds)[1] == pytest.approx(wanted, rel=1e-6, abs=0)


def test_falling_hits_make_a_flat_stretch() -> None:
    rows = falling()
    curve = fit_averaged(rows.sample)
    g = curve(GRID)[0]
    assert np.all(np.diff(g) >= -1e-15)
    inside = curve(np.linspace(1.1, 1.9, 50))[0]
    assert np.all(inside == inside[0])
    assert averaged_mixture(rows.sample).curve(np.array([1.1]))[0] > inside[0] + 0.05
    assert "held flat from 0.6 to 0.93, within which accuracy falls" in curve.explain(rows.sample)
    loaded = Averaged.from_parameters(calibrator_of(curve).parameters())
    assert np.array_equal(loaded(GRID)[0], g)
    # What is stored is the calibrator with the fit's own mean on its rows.
    assert np.mean(curve(rows.log_odds)[0]) == pytest.approx(rows.hits.mean(), abs=2e-3)


def test_the_error_of_a_fall_is_error() -> None:
    rows = falling()
    truth = np.mean(np.abs(true_rate(rows.log_odds) - sigmoid(rows.log_odds)))
    held = np.mean(np.abs(fit_averaged(rows.sample)(rows.log_odds)[0] - sigmoid(rows.log_odds)))
    found = tce_averaged(rows.sample).value
    assert found == pytest.approx(truth, abs=0.012)
    assert abs(found - truth) < abs(held - truth)


def test_draws_and_band_do_not_fall() -> None:
    rows = falling(2000)
    x = np.linspace(-2, 5, 30)
    draws = posterior_draws(rows, x, 300, np.random.default_rng(0))
    assert draws.shape == (300, 30)
    assert np.all(np.diff(draws, axis=1) >= 0)
    curve = fit_averaged(rows.sample)
    band = curve_band("bpm-averaged", calibrator_of(curve), rows, FitOptions())
    for limits in (band.low, band.high):
        assert np.all(np.diff(limits) >= 0)
    g = curve.at(np.array(band.confidence))
    assert np.all((np.array(band.low) <= g) & (g <= np.array(band.high)))


def test_only_what_falls_is_replaced() -> None:
    # Slopes below 0 beyond the rows do not count: nothing falls there.
    cells = Cells(np.linspace(-3, 3, 61), np.ones(61), np.zeros(61))
    components = (Component("bends", "", (0.0, -1.0, 1.0, -1.0, 1.0, -1.0), (-3.0, 0.0, 1.0, 3.0)),)
    stretch = stretch_that_falls(components, (1.0,), cells)
    assert -3 < stretch.log_odds[0] < 0
    assert 1 < stretch.log_odds[-1] < 3
    outside = np.concatenate([np.linspace(-40, -2.5, 99), np.linspace(2.6, 40, 99)])
    assert np.array_equal(
        AveragedCurve(components, (1.0,), stretch)(outside)[0], AveragedCurve(components, (1.0,))(outside)[0]
    )


def test_saturated_cells_at_one_place_all_count() -> None:
    x = np.sort(np.random.default_rng(0).uniform(30, 300, 3000))
    cells = cells_for_fit(sample_from_log_odds(x, np.ones(3000)))
    assert np.unique(cells.log_odds).size < cells.log_odds.size
    assert mass_at(np.unique(cells.log_odds), cells).sum() == pytest.approx(3000)


def test_rising_rows_stay_as_they_are() -> None:
    curves = np.array([[0.1, 0.2, 0.3], [0.3, 0.1, 0.5]])
    found = rising(curves, np.array([1.0, 3.0, NO_ROWS]))
    assert np.array_equal(found[0], curves[0])
    assert found[1] == pytest.approx([0.15, 0.15, 0.5])


def test_rows_in_another_order_make_the_same_stretch() -> None:
    rows = falling(3000)
    order = np.random.default_rng(1).permutation(3000)
    other: Sample = sample_from_log_odds(rows.log_odds[order], rows.hits[order])
    assert fit_averaged(other) == fit_averaged(rows.sample)
