"""docs/PYTHON.md and the examples in the docstrings of the public API are executed."""

from __future__ import annotations

import doctest
import importlib
from types import FunctionType

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT

import bpmcli
from bpmcli.errors import DataError

PUBLIC = [getattr(bpmcli, name) for name in bpmcli.__all__]
EXAMPLES = {"bpmcli", *(entry.__module__ for entry in PUBLIC if hasattr(entry, "__module__"))}
"""The modules that define what the package exports."""


def test_python_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the page saves a file
    failed, tried = doctest.testfile(str(ROOT / "docs" / "PYTHON.md"), module_relative=False, encoding="utf-8")
    assert tried > 20
    assert failed == 0


def test_examples_in_docstrings():
    tried = [doctest.testmod(importlib.import_module(name)) for name in sorted(EXAMPLES)]
    assert sum(result.failed for result in tried) == 0
    assert sum(result.attempted for result in tried) >= 40


def test_every_public_function_has_an_example_or_names_one():
    for entry in PUBLIC:
        if isinstance(entry, FunctionType):
            assert ">>> " in (entry.__doc__ or "") or "docs/PYTHON.md" in (entry.__doc__ or ""), entry.__name__


def test_frames_are_checked():
    frame = pd.DataFrame({"confidence": [0.9, None], "hit": [1, 0], "weight": [1.0, 2.0]})
    with pytest.raises(DataError, match=r"column 'confidence' has missing values \(first in row 2\)"):
        bpmcli.sample_from_frame(frame)
    with pytest.raises(DataError, match="no column 'score'"):
        bpmcli.sample_from_frame(frame, confidence="score")
    whole = frame.fillna(0.5)
    assert bpmcli.sample_from_frame(whole, weight="weight").weighted
    as_objects = whole.astype(object)
    assert bpmcli.sample_from_frame(as_objects).n == 2


def test_missing_metrics_have_a_reason_in_the_frame():
    sample = bpmcli.sample_from_confidences([0.9, 0.8, 0.7], [1, 0, 1])
    table = bpmcli.measure(sample, ["ece", "tce-bpm"]).to_frame()
    assert table.value.isna().to_dict() == {"ece": False, "tce-bpm": True}
    assert "too few" in table.why_missing["tce-bpm"]


def test_what_a_fit_looks_like():
    sample = bpmcli.simulate(bpmcli.TRUTHS["D4"], 500, np.random.default_rng(0)).sample()
    fit = bpmcli.fit_bpm(sample)
    assert "0x" not in repr(fit)
    assert "alpha=" in repr(fit)
    from bpmcli.core.curves.averaged.mixture import fit_averaged

    assert "components" in repr(fit_averaged(sample))
    assert "0x" not in repr(bpmcli.TRUTHS["D4"])
    assert len(repr(sample)) < 200
