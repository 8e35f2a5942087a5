"""npy files, read directly: structured arrays, and scores with files beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bpmcli.errors import DataError
from bpmcli.io.formats import reader
from bpmcli.io.formats.npy_file import NpyReader

Z = np.arange(24.0).reshape(8, 3)
ROWS = np.array(
    [(i / 10, i % 2, (i, -i), f"n{i}") for i in range(8)],
    [("confidence", "f8"), ("hit", "i8"), ("pair", "f4", 2), ("name", "U2")],
)


def saved(folder: Path, name: str, values: object) -> NpyReader:
    np.save(folder / name, values)
    return NpyReader(str(folder / name))


def test_recognised_by_its_first_bytes(tmp_path):
    saved(tmp_path, "a.npy", Z)
    assert NpyReader.recognises((tmp_path / "a.npy").read_bytes())
    assert not NpyReader.recognises(b"PK\x03\x04")


def test_the_fields_of_a_structured_array_are_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "BATCH_VALUES", 15)  # of four columns: three rows at a time
    found = saved(tmp_path, "a.npy", ROWS)
    assert found.n_rows == 8
    assert {name: (c.width, c.kind, c.rows) for name, c in found.columns.items()} == {
        "confidence": (None, "f", 8), "hit": (None, "i", 8), "pair": (2, "f", 8), "name": (None, "U", 8),
    }  # fmt: skip
    batches = list(found.batches(["pair", "name"], rest=True))
    assert [(b.start, b.n) for b in batches] == [(0, 3), (3, 3), (6, 2)]
    assert np.array_equal(np.concatenate([b.columns["pair"] for b in batches]), ROWS["pair"])
    assert [v for b in batches for v in b.columns["name"].tolist()] == ROWS["name"].tolist()
    assert [list(b.passed) for b in batches] == [["confidence", "hit"]] * 3
    assert np.array_equal(np.concatenate([b.passed["hit"] for b in batches]), ROWS["hit"])
    assert [b.passed for b in found.batches(["hit"])] == [{}] * 3


def test_a_single_structured_value_has_no_rows(tmp_path):
    found = saved(tmp_path, "a.npy", ROWS[0])
    assert (found.n_rows, found.columns["pair"].rows, found.columns["pair"].width) == (None, 0, 2)


def test_a_single_number_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds a single number"):
        saved(tmp_path, "a.npy", np.float64(3))


@pytest.mark.parametrize(
    ("name", "role", "beside"),
    [
        ("x_logits.npy", "logits", "x_labels.npy"), ("X_LOGITS.npy", "logits", "X_labels.npy"),
        ("x_probs.npy", "probs", "x_labels.npy"), ("x_proba.npy", "probs", None), ("conf.npy", "confidence", "labels.npy"),
        ("x_confidences.npy", "confidence", "x_labels.npy"), ("x.npy", "array", None),
    ],
)  # fmt: skip
def test_the_name_says_what_the_scores_are(tmp_path, name, role, beside):
    if beside:
        np.save(tmp_path / beside, np.arange(8))
    found = saved(tmp_path, name, Z)
    assert found.n_rows == 8
    assert list(found.columns) == [role, *(["labels"] if beside else [])]
    assert found.columns[role].width == 3


def test_files_beside_each_other_are_read_together(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "BATCH_VALUES", 15)  # five values a row: three rows at a time
    for word, values in (("labels", np.arange(8)), ("weights", np.arange(8) / 2), ("pred", np.arange(5))):
        np.save(tmp_path / f"x_{word}.npy", values)
    found = saved(tmp_path, "x_logits.npy", np.asfortranarray(Z))
    assert list(found.columns) == ["logits", "labels", "pred", "weights"]
    batches = list(found.batches(["logits", "labels"], rest=True))
    assert [(b.start, b.n) for b in batches] == [(0, 3), (3, 3), (6, 2)]
    assert np.array_equal(np.concatenate([b.columns["logits"] for b in batches]), Z)
    assert [v for b in batches for v in b.columns["labels"].tolist()] == list(range(8))
    assert [list(b.passed) for b in batches] == [["weights"]] * 3  # five predictions belong to other rows
    (alone,) = found.batches(["pred"])
    assert (alone.n, alone.passed) == (5, {})
    assert all(not b.passed for b in found.batches(["logits"]))


@pytest.mark.parametrize("lost", [1, 8])
def test_a_file_that_is_cut_off_is_refused_at_once(tmp_path, lost):
    np.save(tmp_path / "a.npy", Z)
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-lost])
    with pytest.raises(DataError, match="array 'a' ends too early"):
        NpyReader(str(tmp_path / "a.npy"))


def test_arrays_in_a_store():
    fsspec = pytest.importorskip("fsspec")
    with fsspec.filesystem("memory").open("/arrays/x_probs.npy", "wb") as file:
        np.save(file, Z)
    assert NpyReader("memory://arrays/x_probs.npy").columns["probs"].rows == 8
