"""When `fit` says that an error is left, and which method it names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bpmcli.core.calibrators.registry import FitOptions
from bpmcli.core.compare import before_after
from bpmcli.core.data.rows import Rows
from bpmcli.core.metrics.verdict import Verdict

ROWS = Rows(np.zeros(4), np.array([True, False, True, False]))


def verdict(tce: float, where: dict[str, Any] | None = None) -> Verdict:
    return Verdict("over-confident", "", "", 0.9, 0.8, tce, 0.9 * tce, 1.1 * tce, 0.95, 0.001, 0.0, None, where)


@pytest.mark.parametrize(("tce", "where", "left"), [(0.01, {}, True), (0.0099, {}, False), (0.5, None, False)])
def test_an_error_is_left_from_one_point_if_the_rows_show_it(tce, where, left):
    assert before_after.error_left(verdict(tce, where)) is left


@pytest.mark.parametrize(
    ("smooth", "rising", "method", "named"),
    [
        (0.02, 0.03, "platt", "bpm-averaged"),
        (0.03, 0.019, "platt", "isotonic"),
        (0.03, 0.0201, "platt", None),
        (0.01, 0.03, "bpm-averaged", None),  # it is not advised again
    ],
)
def test_a_method_is_named_that_leaves_at_most_half_of_the_error(monkeypatch, smooth, rising, method, named):
    errors = {"bpm-averaged": smooth, "isotonic": rising}
    monkeypatch.setattr(before_after, "held_out", lambda name, *_: (errors[name], ""))
    monkeypatch.setattr(before_after, "verdict", lambda tce, target: verdict(tce))
    advice = before_after._advice(verdict(0.04), method, ROWS, FitOptions(), None, 0)
    assert advice.startswith(
        "An error is left: fit on more rows" if named is None else f"An error is left: try --method {named},"
    )


@pytest.mark.parametrize("method", ["temperature", "platt"])
def test_a_method_for_confidences_may_serve_the_other_classes_less_well(monkeypatch, method):
    monkeypatch.setattr(before_after, "held_out", lambda name, *_: (0.001, ""))
    monkeypatch.setattr(before_after, "verdict", lambda tce, target: verdict(tce))
    advice = before_after._advice(verdict(0.04), method, ROWS, FitOptions(), None, 0)
    assert ("the other classes may be less well calibrated" in advice) is (method == "temperature")
