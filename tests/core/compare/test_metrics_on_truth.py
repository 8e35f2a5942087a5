"""The arithmetic of the known-truth benchmarks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import wilcoxon

from bpmcli.core.calibrators import METHODS, FitOptions
from bpmcli.core.compare.curves_on_truth import (
    MEAN,
    REFERENCE,
    FitDraw,
    curve_methods,
    expected_error,
    quadrature,
    score_curves,
)
from bpmcli.core.compare.metrics_on_truth import Draw, MeasureDraw, Simulations, draws, score_metrics
from bpmcli.core.compare.sample_size import needs, rows_needed, sufficient_rows
from bpmcli.core.compare.truths import EAD_GRID, TRUTHS, EmpiricalDensity, Truth, ead, on_grid
from bpmcli.core.curves.families import parse_curve
from bpmcli.core.curves.histogram_mean import fit_histograms
from bpmcli.core.data.sample import sample_from_confidences
from bpmcli.core.metrics import MetricOptions
from bpmcli.errors import UsageError

GRID = EAD_GRID[::13]


def test_scores_by_hand() -> None:
    values = [
        {"a": 0.10, "b": 0.30, "c": None},
        {"a": 0.30, "b": 0.30, "c": None},
        {"a": 0.14, "b": 0.20, "c": 0.2},
        {"a": 0.26, "b": None, "c": 0.2},
    ]
    done = [(Draw("T", 50, run), v) for run, v in enumerate(values)]
    a, b, c = score_metrics(done, {"T": 0.2})
    assert (a.mean, a.bias) == pytest.approx((0.2, 0.0))
    assert a.sd == pytest.approx(np.std([0.10, 0.30, 0.14, 0.26], ddof=1))
    assert a.rmse == pytest.approx(np.sqrt(np.mean([0.01, 0.01, 0.0036, 0.0036])))
    assert (b.runs, c.runs) == (3, 2)
    assert b.bias == pytest.approx(0.2 / 3)
    # Run 1 and 2: a and b tie (up to rounding only in run 2); run 3: b and c; run 4: c.
    assert a.closest + b.closest + c.closest == pytest.approx(1.0)
    assert c.closest == pytest.approx((0.5 + 1) / 4)


def test_a_metric_that_never_came_is_none() -> None:
    (only,) = score_metrics([(Draw("T", 5, 0), {"a": None})], {"T": 0.2})
    assert (only.runs, only.mean, only.bias, only.sd, only.rmse, only.closest) == (0, None, None, None, None, 0.0)


def test_every_draw_has_its_own_stream() -> None:
    source = Simulations(TRUTHS, 0)
    todo = draws(["D1", "D2"], [40, 50], 3)
    sums = {draw: float(source.sample(draw).confidences.sum()) for draw in reversed(todo)}
    assert len(set(sums.values())) == len(todo) == 12
    task = MeasureDraw(source, ("ece",), MetricOptions())
    assert task(todo[5]) == task(todo[5])
    assert task(todo[5]) != replace(task, source=Simulations(TRUTHS, 1))(todo[5])


def test_a_file_is_known_by_its_content_not_its_name() -> None:
    d1 = TRUTHS["D1"]
    one, two = (Simulations({name: replace(d1, name=name, identity="sha256:x")}) for name in ("a.json", "b/a.json"))
    first, second = Draw("a.json", 30, 0), Draw("b/a.json", 30, 0)
    assert one.identity(first) == two.identity(second)
    np.testing.assert_array_equal(one.sample(first).log_odds, two.sample(second).log_odds)


def test_ead_is_the_papers_sum() -> None:
    flat, diagonal = parse_curve("logit-logit:0,0"), parse_curve("identity")
    assert ead(flat, diagonal) == pytest.approx(np.abs(0.5 - np.arange(1001) / 1000).sum() / 1000, abs=1e-15)
    assert ead(diagonal, diagonal) == 0.0


@pytest.mark.parametrize("counts", [[10], range(10, 51), [3, 400]])
def test_histogram_mean_by_its_definition(counts: list[int]) -> None:
    rng = np.random.default_rng(0)
    s = np.sort(rng.beta(2, 1, 230))
    h = (rng.random(230) < s).astype(float)
    curves = []
    for count in counts:
        parts = np.array_split(np.arange(230), min(count, 230))
        upper = [(s[p[-1]] + s[p[-1] + 1]) / 2 for p in parts[:-1]]
        curves.append([h[parts[sum(x > u for u in upper)]].mean() for x in GRID])
    found = fit_histograms(sample_from_confidences(s, h), counts)
    np.testing.assert_allclose(on_grid(found, GRID), np.mean(curves, axis=0), atol=1e-12)
    with np.errstate(divide="ignore"):
        low, mean, high = found.band(np.clip(np.log(GRID) - np.log1p(-GRID), -700, 700))
    np.testing.assert_allclose(low, np.min(curves, axis=0), atol=1e-12)
    np.testing.assert_allclose(high, np.max(curves, axis=0), atol=1e-12)
    assert (low <= mean + 1e-12).all()
    assert (mean <= high + 1e-12).all()


def test_authors_histogram_mean_by_its_definition() -> None:
    """Their rule in words: bins of ⌊N/B⌋ rows, the last one dropped, zero up to the lowest confidence."""
    rng = np.random.default_rng(1)
    s = np.sort(rng.beta(3, 1, 1003))
    h = (rng.random(1003) < s).astype(float)
    curves = []
    for count in range(10, 50):
        size = 1003 // count
        rates = [h[i * size : (i + 1) * size].mean() for i in range(count - 1)]
        starts = [s[i * size] for i in range(count - 1)]
        curves.append([0.0 if x <= starts[0] else rates[sum(x > v for v in starts) - 1] for x in GRID])
    found = fit_histograms(sample_from_confidences(s, h), variant="authors")
    np.testing.assert_allclose(on_grid(found, GRID), np.mean(curves, axis=0), atol=1e-12)


def test_histograms_do_not_depend_on_the_order_of_tied_rows() -> None:
    rng = np.random.default_rng(2)
    s = np.round(rng.random(300), 1)
    h = (rng.random(300) < s).astype(float)
    order = rng.permutation(300)
    one, two = (fit_histograms(sample_from_confidences(*rows)) for rows in ((s, h), (s[order], h[order])))
    np.testing.assert_array_equal(on_grid(one), on_grid(two))


@pytest.mark.parametrize("name", TRUTHS)
def test_expected_error_of_the_identity_is_the_tce(name: str) -> None:
    truth = TRUTHS[name]
    found = expected_error(parse_curve("identity"), truth.curve, quadrature(truth.density))
    assert found == pytest.approx(truth.tce(), abs=1e-7)


def test_expected_error_under_a_file_is_its_mean() -> None:
    sample = sample_from_confidences([0.2, 0.2, 0.9], [0, 0, 0])
    truth = Truth("file", parse_curve("logit-logit:-0.5,0.7"), EmpiricalDensity(sample))
    found = expected_error(parse_curve("identity"), truth.curve, quadrature(truth.density))
    assert found == pytest.approx(truth.tce(), abs=1e-14)


def test_methods_come_from_the_registry() -> None:
    methods = curve_methods()
    assert methods[:2] == [REFERENCE, MEAN]
    assert set(methods) - {MEAN} == {name for name, entry in METHODS.items() if not entry.needs_distribution}
    assert curve_methods(["hb-7", "isotonic"]) == [REFERENCE, "hb-7", "isotonic"]
    for wrong in ("hb-0", "hb-", "nope", next(n for n, e in METHODS.items() if e.needs_distribution)):
        with pytest.raises(UsageError):
            curve_methods([wrong])


def test_a_fit_that_fails_is_none_and_the_others_go_on() -> None:
    task = FitDraw(Simulations(TRUTHS), (REFERENCE, MEAN), FitOptions())
    values = task(Draw("D4", 30, 0))
    assert values[f"{REFERENCE} ead"] is None
    assert values[f"{MEAN} ead"] is not None
    bpm, mean = score_curves([(Draw("D4", 30, 0), values)])
    assert (bpm.runs, bpm.ead, mean.runs, mean.p_value, mean.better) == (0, None, 1, None, None)


def _curve_runs(pairs: list[tuple[float, float]]) -> list[tuple[Draw, dict[str, float | None]]]:
    return [
        (Draw("T", 10, i), {"bpm ead": a, "bpm error": a, "hb-mean ead": b, "hb-mean error": b})
        for i, (a, b) in enumerate(pairs)
    ]


def test_the_papers_p_value_is_that_of_fifty_pairs() -> None:
    """1.77e-15 stands in all five rows of the paper's table: 2^-49, the least an exact test of 50 pairs can give."""
    fifty = score_curves(_curve_runs([(0.1, 0.2 + i / 1000) for i in range(50)]))[1]
    assert fifty.p_value == pytest.approx(2.0**-49)
    hundred = score_curves(_curve_runs([(0.1, 0.2 + i / 1000) for i in range(100)]))[1]
    assert hundred.p_value == pytest.approx(3.9e-18, rel=0.01)
    assert (hundred.better, hundred.runs) == (0.0, 100)


def test_the_test_is_paired_and_two_sided() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random(30), rng.random(30)
    bpm, other = score_curves(_curve_runs(list(zip(a.tolist(), b.tolist(), strict=True))))
    assert other.p_value == pytest.approx(wilcoxon(a, b).pvalue)
    assert other.better == pytest.approx((b < a).mean())
    assert (bpm.p_value, bpm.better) == (None, None)
    assert score_curves(_curve_runs([(0.1, 0.1)] * 5))[1].p_value is None


def test_rows_needed() -> None:
    assert rows_needed([100, 200, 400], [0.4, 0.2, 0.1], 0.2) == 200
    assert rows_needed([100, 400], [0.4, 0.1], 0.2) == 200  # straight on log axes
    assert rows_needed([100, 200], [0.1, 0.05], 0.2) == 100
    assert rows_needed([100, 200], [0.4, 0.3], 0.2) is None
    assert rows_needed([400, 100, 200], [0.1, 0.1, 0.4], 0.2) == 283  # it must stay below
    assert rows_needed([100, 200], [np.inf, 0.1], 0.2) == 200


def test_needs_of_a_perfect_square_root_law() -> None:
    """Errors of 1/√N and of √(B/3)/√N: bpm needs 3/B of the rows, as the paper says."""
    done = []
    for n in (100, 400, 1600, 6400, 25600):
        for run in range(20):
            wobble = 0.5 + run / 19  # 0.5 … 1.5
            one = wobble / np.sqrt(n)
            done.append(
                (Draw("T", n, run), {"bpm error": one, "bpm ead": one, "hb-12 error": 2 * one, "hb-12 ead": one})
            )
    bpm, binned = needs(done, 0.05, 0.05)
    assert bpm.n_mean == pytest.approx(400, abs=1)
    assert bpm.n_sure == pytest.approx(400 * (0.5 + 18 / 19) ** 2, abs=1)
    assert binned.bpm_share == pytest.approx(0.25, abs=1e-3)
    assert binned.claim == 0.25
    assert (bpm.bpm_share, bpm.claim) == (None, None)
    assert bpm.bound == sufficient_rows(3, 0.05, 0.05) == 1798
    assert bpm.held is None  # 1600 is not within a tenth of 1798
    assert needs(done, 0.053, 0.05)[0].held == 1.0  # 1600
