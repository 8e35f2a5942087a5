"""The parts of a verdict, on numbers that can be worked out by hand: rules, the range of the error, and every wording."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bpmcli.core.curves.averaged.cells import Cells
from bpmcli.core.data.sample import sample_from_confidences, sample_from_log_odds
from bpmcli.core.metrics import verdict as module
from bpmcli.core.metrics import verdict_words as words_of
from bpmcli.core.metrics.verdict import Verdict, Where
from bpmcli.core.metrics.verdict_words import in_brief, short_title, whole_sentence

WHERE = Where(0.6, 0.8, 0.5, 0.25, "over")


def made(name: str = "over-confident", **more: Any) -> Verdict:
    numbers = {"says": 0.9, "right": 0.8, "tce": 0.1, "low": 0.05, "high": 0.15, "level": 0.95, "noise_floor": 0.01}
    return Verdict(**{"name": name, "title": "", "sentence": "", "p_value": 0.01, "crossing": None, "where": None, **numbers, **more})  # fmt: skip


# Rules


@pytest.mark.parametrize(
    ("error", "size", "z", "clear"),
    [
        (-4.0, 5.0, -3.0, True),
        (4.0, 5.0, 3.0, True),  # exactly a tenth points the other way: 4.5 - 0.5
        (3.9, 5.0, 3.0, False),
        (4.0, 5.0, -3.0, False),  # the rows say the opposite
        (0.041, 0.05, 2.9, True),  # small errors count too
        (4.0, 5.0, 2.8, False),  # not more than 2.8
        (4.0, 5.0, 2.81, True),
        (4.0, 5.0, 0.0, False),
        (0.0, 0.0, 3.0, False),  # no error has no direction
    ],
)
def test_a_side_is_clear(error, size, z, clear):
    assert module._Side(error, size, z).clear(2.8) is clear


def test_the_best_split_separates_the_signs():
    assert module._best_split(np.array([1.0, 2.0, -1.0, -4.0, -1.0])) == 2
    assert module._best_split(np.array([-3.0, 1.0])) == 1
    assert module._best_split(np.array([1.0, -2.0, 0.0, -3.0])) == 1
    assert module._best_split(np.array([2.0])) == 1


def test_sides_are_sums_and_standard_scores():
    s, hits = np.repeat([0.2, 0.5, 0.9], 10), np.concatenate([np.arange(10) < k for k in (3, 4, 9)])
    sample = sample_from_confidences(s, hits)
    errors = np.array([1.0, -2.0, 4.0])
    below, above, whole = module._sides(sample, errors, 1)
    assert (below.error, above.error, whole.error) == (1.0, 2.0, 3.0)
    assert (below.size, above.size, whole.size) == (1.0, 6.0, 7.0)
    assert below.z == pytest.approx((3 - 2) / np.sqrt(1.6))
    assert above.z == pytest.approx((4 + 9 - 5 - 9) / np.sqrt(2.5 + 0.9))
    assert whole.z == pytest.approx(0.0, abs=1e-12)
    few = sample_from_confidences(np.full(5, 0.9), np.arange(5) < 4)  # a variance below 1
    assert module._sides(few, np.ones(1), 1)[2].z == pytest.approx(-0.5 / np.sqrt(0.45))
    # Weights: 10 rows of weight 1 and 10 of weight 3 are worth 16 rows.
    weighted = sample_from_confidences(s[:20], hits[:20], np.tile([1.0, 3.0], 10))
    side = module._sides(weighted, errors[:2], 1)[0]
    surplus = weighted.n * (np.tile([1.0, 3.0], 5) @ (hits[:10] - 0.2)) / 40
    assert side.z == pytest.approx(surplus * np.sqrt(16 / 20) / np.sqrt(10 * 0.16))


@pytest.mark.parametrize(("wrong", "z"), [(1, -np.inf), (0, 0.0)])
def test_a_wrong_row_among_saturated_ones_proves_an_error(wrong, z):
    sample = sample_from_log_odds(np.full(50, 800.0), np.arange(50) >= wrong)
    assert sample.confidences[0] == 1.0
    assert module._sides(sample._replace(complements=np.zeros_like(sample.complements)), np.zeros(1), 1)[2].z == z


def curve(errors: list[float], spread: float = 0.0, rows: list[float] | None = None) -> Any:
    """Errors of cells with one row each; draws scatter by `spread` times each error."""
    mass = np.array(rows or [1.0] * len(errors))
    cells = Cells(np.linspace(-2, 2, len(errors)), mass, mass)
    signs = np.tile([1 - spread, 1 + spread], module.CURVES // 2)[:, None]
    return SimpleNamespace(mixture=SimpleNamespace(cells=cells), distance_draws=lambda runs, rng: signs[:runs] * np.array(errors))  # fmt: skip


def test_curves_agree_if_their_mean_is_far_from_zero():
    assert module._curves_agree(curve([1.0, -1.0], 0.35), 1, 0)  # the mean is 2.86 deviations
    assert not module._curves_agree(curve([1.0, -1.0], 0.37), 1, 0)  # 2.70
    assert not module._curves_agree(curve([1.0, 0.0, -1.0, 1.0], 0.1), 2, 0)  # one side cancels
    assert module._curves_agree(curve([0.01, -0.01], 0.3), 1, 0)
    # One side cancels: one row of +1 and two of −½.
    assert not module._curves_agree(curve([1.0, -0.5, -1.0], 0.1, [1.0, 2.0, 1.0]), 2, 0)


@pytest.mark.parametrize(
    ("errors", "z", "name", "crossing"),
    [
        ([3.0, 3.0, -3.0, -3.0], (4, -4, 0), "over-confident-above", 0.5),
        ([-3.0, -3.0, 3.0, 3.0], (-4, 4, 0), "under-confident-above", 0.5),
        ([3.0, 3.0, -3.0, -3.0], (4, -1.4, 0), "mixed", None),  # a side is not clear
        ([0.4, 0.5, -3.0, -3.0], (4, -4, -3), "over-confident-above", 0.5),  # 0.9 of 6.9 is more than a tenth
        ([0.5, 0.5, -4.5, -4.5], (4, -4, -3), "over-confident-above", 0.5),  # exactly a tenth
        ([0.3, 0.3, -3.0, -3.0], (4, -4, -3), "over-confident", None),  # 0.6 of 6.6 is less
        ([0.2, 0.2, 0.2, 0.2], (4, 4, 5), "under-confident", None),
        ([-0.2, -0.2, 0.2, 0.2], (-4, 4, 0), "under-confident-above", 0.5),
        ([3.0, 3.0, 3.0, 3.0], (4, 4, 5), "under-confident", None),
        ([-3.0, -3.0, -3.0, -3.0], (-4, -4, -5), "over-confident", None),
        ([-3.0, -3.0, -3.0, -3.0], (-4, -4, -2.7), "mixed", None),
    ],
)
def test_directions(monkeypatch, errors, z, name, crossing):
    def sides(sample, found, split):
        parts = (slice(0, split), slice(split, None), slice(None))
        return tuple(module._Side(found[p].sum(), np.abs(found[p]).sum(), one) for p, one in zip(parts, z, strict=True))

    monkeypatch.setattr(module, "_sides", sides)
    found = module._direction(None, curve(errors), np.array(errors), 0)
    assert found[0] == name
    assert found[1] == (None if crossing is None else pytest.approx(crossing))


def test_opposite_sides_that_the_curves_do_not_confirm_are_mixed(monkeypatch):
    """Not over-confident, though most of the error and all rows point that way."""
    errors = [0.5, 0.5, -3.0, -3.0]
    monkeypatch.setattr(module, "_sides", lambda *_: tuple(module._Side(e, abs(e), e) for e in (1.0 + 1.0, -6.0, -5.0)))
    assert module._direction(None, curve(errors, 0.3), np.array(errors), 0)[0] == "over-confident-above"
    assert module._direction(None, curve(errors, 0.4), np.array(errors), 0) == ("mixed", None)


@pytest.mark.parametrize(
    ("low", "p", "high", "name"),
    [
        (0.01, 0.05, 0.2, "mixed"),
        (0.0, 0.01, 0.2, "too-few-rows"),
        (0.01, 0.06, 0.2, "too-few-rows"),
        (0.01, 0.06, 0.1, "calibrated"),
        (0.0, 0.011, 0.05, "calibrated"),
        (0.0, 0.01, 0.05, "imperfect"),
    ],
)
def test_both_interval_and_test_must_reject(monkeypatch, low, p, high, name):
    asked = []
    monkeypatch.setattr(module, "tce_interval", lambda _, *rest: asked.append(rest) or (low, high))
    monkeypatch.setattr(module, "tce_averaged", lambda _: SimpleNamespace(value=0.03))
    monkeypatch.setattr(module, "calibration_p_value", lambda *_, **__: p)
    monkeypatch.setattr(module, "_direction", lambda *_: ("mixed", None))
    sample = sample_from_confidences(np.full(20, 0.7), np.arange(20) < 10)
    found = module.verdict(sample)
    assert found.name == name
    assert (found.low, found.tce, found.high) == (low, 0.03, high)
    assert asked == [(1.0, 0.95, 0)]  # p, level and seed
    assert (found.where is None) == (name != "mixed")


# The range that holds half of the error


def test_the_smallest_range_with_half_of_the_error():
    x = np.log([0.1, 0.2, 0.3, 0.4]) - np.log1p(-np.array([0.1, 0.2, 0.3, 0.4]))
    mass = np.array([10.0, 30.0, 20.0, 40.0])
    cells = Cells(x, mass, mass)
    # Errors of 3, 3, 4 and 2: half of 12 are in the first two cells (40 rows) or in the next two (50 and 60 rows).
    found = module._where(cells, np.array([0.3, -0.1, -0.2, 0.05]))
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(0.1), pytest.approx(0.2))
    assert found.share == pytest.approx(0.5)
    assert found.rows == pytest.approx(0.4)
    assert found.direction == "under"  # +3 − 3 is not below zero
    found = module._where(cells, np.array([0.0, 0.0, -0.2, 0.01]))
    assert found == Where(pytest.approx(0.3), pytest.approx(0.3), pytest.approx(4 / 4.4), pytest.approx(0.2), "over")
    assert module._where(cells, np.zeros(4)) is None
    # 46 % are not half of the error.
    even = Cells(x[:3], np.ones(3), np.ones(3))
    found = module._where(even, np.array([4.6, 2.7, 2.7]))
    assert found is not None
    assert found.share == pytest.approx(0.73)


# Words


@pytest.mark.parametrize(
    ("name", "crossing", "target", "title"),
    [
        ("over-confident", None, "top-label", "over-confident"),
        ("under-confident", None, "event", "too low"),
        ("over-confident", None, "event", "too high"),
        ("over-confident-above", 0.7, "top-label", "over-confident above 0.7"),
        ("under-confident-above", 0.7, "event", "too low above 0.7"),
        ("mixed", None, "event", "miscalibrated, direction not clear"),
        ("imperfect", None, "event", "not perfectly calibrated"),
        ("too-few-rows", None, "top-label", "too few rows to tell"),
    ],
)
def test_titles(name, crossing, target, title):
    assert short_title(name, crossing, target) == title


@pytest.mark.parametrize(
    ("found", "target", "words"),
    [
        (made(), "top-label", "Over-confident"),
        (made("under-confident"), "event", "Probabilities are too low"),
        (made("over-confident-above", crossing=0.7), "top-label", "Over-confident above 0.7 and under-confident below"),
        (
            made("under-confident-above", crossing=0.7),
            "event",
            "Probabilities are too low above 0.7 and too high below",
        ),
        (made("calibrated"), "top-label", "Calibrated as far as 1,200 rows can tell"),
        (
            made("imperfect")._replace(p_value=0.0025),
            "event",
            "Not perfectly calibrated (P = 0.0025), but 1,200 rows exclude an error of more than 15.0 points",
        ),
        (made("mixed"), "top-label", "Miscalibrated, but 1,200 rows do not show one clear direction"),
        (made("too-few-rows"), "event", "Too few rows to tell: 1,200 rows cannot exclude an error of 15.0 points"),
    ],
)
def test_openings(found, target, words):
    assert words_of._opening(found, 1200, target) == words
    brief = in_brief(found, 1200, target)
    assert brief.startswith(words[0].lower() + words[1:] + "; it ")
    assert brief.endswith("calibration error (tce) 10.0 points, 95 % interval 5.0 to 15.0")


def test_sentences():
    assert whole_sentence(made(where=WHERE.asdict()), 1200, "top-label") == (
        "Over-confident: it says 90.0 % and is right 80.0 % of the time. Calibration error (tce) 10.0 points, "
        "95 % interval 5.0 to 15.0; a perfectly calibrated model would score about 1.0. "
        "Half of the error is between confidence 0.6 and 0.8, where 25.0 % of the rows are."
    )
    assert whole_sentence(made("too-few-rows"), 1200, "event").startswith(
        "Too few rows to tell: 1,200 rows cannot exclude an error of 15.0 points. "
        "It predicts 90.0 % and the event happens 80.0 % of the time. Calibration"
    )
    assert whole_sentence(made(), 1200, "top-label").endswith("about 1.0.")
    assert whole_sentence(made("too-few-rows"), 1, "top-label").startswith("Too few rows to tell: 1 row cannot")


def test_places():
    def place(target: str = "top-label", **changed: Any) -> str:
        return words_of._place(WHERE._replace(**changed).asdict(), target)

    assert "Half of the error is at confidence 0.6, where" in place(high=0.6)
    assert place(share=0.52).startswith("Half of")
    assert place(share=0.525).startswith("52.5 % of")
    assert place(high=0.6, share=1.0, rows=1.0) == "All rows are at confidence 0.6."
    assert place(share=1.0, rows=1.0).startswith("100.0 % of the error is between confidence 0.6 and 0.8")
    assert place("event").startswith("Half of the error is between probability 0.6 and 0.8")


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.5, "50.0"), (0.0, "0.0"), (1.0, "100.0"), (0.0004, "0.040"), (0.9997, "99.970"), (0.0006, "0.1"), (0.999, "99.9")],
)  # fmt: skip
def test_percentages_differ_from_0_and_100(share, shown):
    assert words_of._percent(share) == shown


@pytest.mark.parametrize(
    ("tce", "low", "high", "shown"),
    [
        (0.05, 0.04, 0.12345, "5.0 points, 95 % interval 4.0 to 12.3"),
        (0.008, 0.0, 0.01, "0.8 points, 95 % interval 0.0 to 1.0"),
        (0.00216, 0.00036, 0.0036, "0.22 points, 95 % interval 0.04 to 0.36"),  # two digits of the upper limit
        (0.006, 0.0004, 0.0101, "0.60 points, 95 % interval 0.04 to 1.01"),  # a lower limit that is not 0
        (0.006, 0.0005, 0.0101, "0.6 points, 95 % interval 0.1 to 1.0"),
        (0.006, 0.00003, 0.0101, "0.600 points, 95 % interval 0.003 to 1.010"),
        (0.006, 0.000005, 0.0101, "0.600 points, 95 % interval 0.001 to 1.010"),
        (0.006, 0.000497, 0.0101, "0.60 points, 95 % interval 0.05 to 1.01"),
        (0.006, 0.0, 0.00993, "0.60 points, 95 % interval 0.00 to 0.99"),
        (0.006, 0.000004, 0.0101, "0.6 points, 95 % interval 0.0 to 1.0"),  # too small for any number of decimals
        (0.0000087, 0.0, 0.0009, "0.001 points, 95 % interval 0.000 to 0.090"),
        (0.0, 0.0, 0.0, "0.000 points, 95 % interval 0.000 to 0.000"),
    ],
)
def test_the_error_and_its_limits_have_the_same_number_of_decimals(tce, low, high, shown):
    assert words_of.points(made(tce=tce, low=low, high=high)) == shown


@pytest.mark.parametrize(
    ("floor", "decimals", "shown"),
    [(0.01, 1, "1.0"), (0.00066, 1, "0.1"), (0.0004, 1, "0.04"), (0.0004, 2, "0.04"), (0.00002, 1, "0.002"), (2e-10, 1, "0"),
     (0.0005, 1, "0.1"), (0.000497, 1, "0.05"), (0.000005, 1, "0.001"), (0.00000497, 1, "0")],
)  # fmt: skip
def test_the_score_of_a_calibrated_model_keeps_a_digit(floor, decimals, shown):
    assert words_of._small(floor, decimals) == shown
