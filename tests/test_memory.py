"""The memory budget: a process that takes more ends with a message, and leaves nothing behind."""

from __future__ import annotations

import os

import forked
import numpy as np
import pytest
from conftest import ROOT

from bpmcli.errors import UsageError
from bpmcli.io import memory

ROWS = 3_000_000


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A small file of many rows: read whole, they take some 250 MB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("memory")
    table = pa.table({"confidence": np.full(ROWS, 0.75), "hit": np.arange(ROWS) % 4 > 0})
    pq.write_table(table, folder / "a.parquet")
    return folder


def bpmcli(folder, *arguments, budget):
    environment = {**os.environ, "BPMCLI_MEMORY": budget, "PYTHONPATH": str(ROOT)}
    return forked.run(*arguments, cwd=folder, environment=environment)


pytestmark = pytest.mark.skipif(not memory.Watch().possible, reason="only Linux tells")


def test_more_than_the_budget_is_refused(many):
    ran = bpmcli(many, "metrics", "a.parquet", "--junit", "j.xml", budget="150M")
    assert ran.code == 3, ran
    assert "took more than 0.1 GiB of memory" in ran.err
    assert "BPMCLI_MEMORY" in ran.err
    assert not ran.out
    assert "memory" in (many / "j.xml").read_text()
    assert bpmcli(many, "metrics", "a.parquet", "-m", "ece", "-q", budget="2G").code == 0


def test_an_answer_comes_with_exit_code_0(many):
    """The thread that watches may notice the memory only when the answer is ready: then it is too late to refuse."""
    for budget in ("110M", "150M", "170M", "180M", "200M", "250M"):
        ran = bpmcli(many, "metrics", "a.parquet", "-m", "ece", budget=budget)
        assert bool(ran.out) == (ran.code == 0) == ("took more" not in ran.err)


def test_a_worker_over_its_budget_costs_its_file(many):
    (many / "c.csv").write_text("confidence,hit\n0.5,1\n0.75,0\n")
    ran = bpmcli(many, "metrics", "a.parquet", "c.csv", "-j", "2", "-f", "csv", budget="150M")
    assert ran.code == 3
    assert "a.parquet: took more memory" in ran.err
    assert b"c.csv" in ran.out
    ran = bpmcli(many, "compare", "calibrators", "a.parquet", "c.csv", "-j", "2", "--in-sample", budget="150M")
    assert ran.err.startswith("bpmcli: error: a.parquet: took more memory")


def test_nothing_unfinished_is_left(many, tmp_path):
    parameters = '{"format": "bpmcli-calibrator", "version": 1}'
    (tmp_path / "p.json").write_text(parameters)
    fitted = bpmcli(many, "fit", "a.parquet", "--method", "platt", "-o", str(tmp_path / "p.json"), budget="120M")
    assert fitted.code == 3
    assert (tmp_path / "p.json").read_text() == parameters
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


def test_budget_grows_with_the_files(tmp_path, monkeypatch):
    monkeypatch.delenv("BPMCLI_MEMORY", raising=False)
    monkeypatch.setattr(memory, "_sizes", {})
    assert memory.budget() is None, "no file, no limit"
    (tmp_path / "a.csv").write_bytes(bytes(1000))
    for _ in range(2):  # a file counts once
        memory.grant(str(tmp_path / "a.csv"))
    assert memory.budget() == memory.BASE + 1000 * memory.PER_BYTE
    memory.grant(str(tmp_path))
    assert memory.budget() == memory.BASE + 2000 * memory.PER_BYTE
    memory.grant("s3://bucket/a.csv")
    assert memory.budget() is None, "nothing is known about remote files"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4G", 4 << 30), ("300m", 300 << 20), ("7KB", 7 << 10), ("6000000000", 6 * 10**9), ("0", None)],
)
def test_budget_from_the_environment(text, expected, monkeypatch):
    monkeypatch.setenv("BPMCLI_MEMORY", text)
    assert memory.budget() == expected


@pytest.mark.parametrize("text", ["much", "-1", "1.5G", "4T"])
def test_a_budget_that_is_no_size(text, monkeypatch):
    monkeypatch.setenv("BPMCLI_MEMORY", text)
    with pytest.raises(UsageError, match="not a size"):
        memory.grant("a.csv")
