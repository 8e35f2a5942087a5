"""The same commands from one file to many, exact or summarised, by one worker or two: the same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bpmcli.core.summary import distinct
from bpmcli.engines import scale as scale_module
from bpmcli.io import readers, summaries

pytestmark = pytest.mark.usefixtures("unjudged")

N = 4000


def write(path: str, n: int = N, seed: int = 0, **extra: np.ndarray) -> str:
    rng = np.random.default_rng(seed)
    s = rng.beta(1.5, 0.5, n)
    hit = rng.random(n) < 1 / (1 + np.exp(-0.4) * (1 / s - 1) ** 0.6)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"confidence": s, "hit": hit, **extra}), path, row_group_size=500)
    return path


def figures(text: str) -> dict[str, float]:
    (record,) = json.loads(text)["results"]
    return {name: m["value"] for name, m in record["metrics"].items()}


@pytest.fixture
def cells(monkeypatch):
    """Rows go to cells, however few values they have."""
    monkeypatch.setattr(distinct, "LIMIT", 0)


def test_few_values_are_summarised_without_loss(run):
    write("a.parquet")
    run("summarize", "a.parquet", "-o", "kept.parquet")
    exact = json.loads(run("metrics", "a.parquet", "--format", "json").out)["results"][0]
    for arguments in (["kept.parquet"], ["a.parquet", "--summary"], ["a.parquet", "--summary", "-j", 2]):
        ran = run("metrics", *arguments, "--format", "json")
        record = json.loads(ran.out)["results"][0]
        assert figures(ran.out) == pytest.approx({k: m["value"] for k, m in exact["metrics"].items()}, abs=1e-9)
        assert "approximate" not in record["metrics"]["ece-sweep"]
        assert record["summary_cells"] == N
        assert any("their 4,000 distinct values, without loss" in n for n in record["notices"])
    fitted, there = json.loads(run("fit", "kept.parquet").out), json.loads(run("fit", "a.parquet").out)
    assert fitted["parameters"] == pytest.approx(there["parameters"], abs=1e-6)
    again = run("metrics", "kept.parquet", "--variant", "authors", "-m", "tce-bpm", "--format", "json")
    assert figures(again.out)["tce-bpm"] is not None


def test_the_order_of_rows_does_not_show(run):
    for limit in (0, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distinct, "LIMIT", limit)
            write("a.parquet")
            forwards = run("metrics", "a.parquet", "--summary", "--format", "json").out
            table = pq.read_table("a.parquet")
            pq.write_table(table.take(np.random.default_rng(1).permutation(N)), "a.parquet", row_group_size=300)
            assert run("metrics", "a.parquet", "--summary", "--format", "json").out == forwards


def test_summarize_then_metrics_and_fit(run, cells):
    write("a.parquet")
    ran = run("summarize", "a.parquet", "-o", "cells.parquet")
    assert ran.out == ""
    assert "cells.parquet: 4,000 rows in" in ran.err
    direct = run("metrics", "a.parquet", "--summary", "--format", "json")
    stored = run("metrics", "cells.parquet", "--format", "json")
    assert figures(direct.out) == figures(stored.out)
    record = json.loads(stored.out)["results"][0]
    assert record["summary_cells"] > 1000
    assert record["metrics"]["ece-sweep"]["approximate"] is True
    assert any("reduced to" in n for n in record["notices"])
    assert "--exact" in stored.err
    assert "cells of the summary" in run("metrics", "cells.parquet").out
    assert "written by bpmcli summarize" in run("metrics", "cells.parquet", "--explain-input").out
    exact = figures(run("metrics", "a.parquet", "--format", "json").out)
    for name, value in figures(stored.out).items():
        assert value == pytest.approx(exact[name], abs=5e-4 if name != "ece-sweep" else 5e-3), name
    fitted = json.loads(run("fit", "cells.parquet").out)
    there = json.loads(run("fit", "a.parquet").out)
    assert fitted["parameters"] == pytest.approx(there["parameters"], abs=2e-3)
    assert fitted["sample"] == pytest.approx(there["sample"])
    assert len(fitted["inputs"][0]["sha256"]) == 64


def test_every_sample_calibrator_fits_a_summary(run):
    write("a.parquet")
    run("summarize", "a.parquet", "-o", "cells.parquet")
    for method in ("bpm", "histogram", "isotonic", "spline", "platt", "beta", "identity"):
        run("fit", "cells.parquet", "--method", method, "-o", f"{method}.json")
        run("apply", f"{method}.json", "a.parquet", "-o", f"{method}.parquet")
    assert "every row" in run("fit", "cells.parquet", "--method", "temperature", code=2).err


def test_pooling_summaries_is_pooling_files(run):
    for i in range(3):
        write(f"in/{i}.parquet", seed=i)
        run("summarize", f"in/{i}.parquet", "-o", f"cells/{i}.parquet")
    run("summarize", "in", "-o", "all.parquet")
    pooled = figures(run("metrics", "in", "--pool", "--summary", "--format", "json").out)
    assert figures(run("metrics", "cells", "--pool", "--format", "json").out) == pooled
    assert figures(run("metrics", "all.parquet", "--format", "json").out) == pooled
    mixed = run("metrics", "cells/0.parquet", "cells/1.parquet", "in/2.parquet", "--pool", "--format", "json")
    assert figures(mixed.out) == pytest.approx(pooled, abs=1e-12)
    run("summarize", "in", "--output-dir", "each")
    assert sorted(p.name for p in Path("each").iterdir()) == [f"{i}.cells.parquet" for i in range(3)]


def test_any_number_of_workers_gives_the_same_bytes(run, monkeypatch):
    rng = np.random.default_rng(0)
    for i in range(3):
        write(f"in/{i}.parquet", seed=i, w=rng.random(N))
    monkeypatch.setattr(summaries, "PART_ROWS", 1000)
    monkeypatch.setattr(scale_module, "PART_ROWS", 1000)
    for arguments in (
        ["metrics", "in", "--pool", "--summary", "--weight", "w"],
        ["metrics", "in/0.parquet", "--summary", "--weight", "w"],
    ):
        alone = run(*arguments, "-q", "--format", "json")
        assert run(*arguments, "-q", "--format", "json", "-j", 2).out == alone.out, arguments


def test_blocks_of_files_merge_where_they_are_read(run, monkeypatch):
    for i in range(9):
        write(f"in/{i}.parquet", n=200, seed=i)
    plain = run("metrics", "in", "--pool", "--summary", "--format", "json").out
    monkeypatch.setattr(scale_module, "FAN_IN", 2)
    monkeypatch.setattr("bpmcli.core.summary.merging.FAN_IN", 2)
    assert run("metrics", "in", "--pool", "--summary", "--format", "json").out == plain


def test_large_inputs_switch_by_themselves_and_exact_forbids_it(run, monkeypatch):
    monkeypatch.setattr(readers, "EXACT_ROWS", 5000)
    monkeypatch.setattr(scale_module, "EXACT_ROWS", 5000)
    write("a.parquet")
    write("b.parquet", seed=1)
    assert "reduced to" not in run("metrics", "a.parquet").err
    assert "8,000 rows were reduced to" in run("metrics", "a.parquet", "b.parquet", "--pool").err
    assert "reduced to" not in run("metrics", "a.parquet", "b.parquet", "--pool", "--exact").err
    write("c.parquet", n=6000)
    assert "6,000 rows were reduced to" in run("metrics", "c.parquet").err
    assert "6,000 rows were reduced to" in run("metrics", "c.parquet", "-j", 2).err
    assert "reduced to" not in run("metrics", "c.parquet", "--exact").err


def test_a_bad_file_stops_the_pool_and_not_the_others(run):
    write("in/a.parquet")
    Path("in/b.parquet").write_bytes(b"PAR1 no more than this")
    ran = run("metrics", "in", "--pool", "--summary", code=3)
    assert "in/b.parquet: cannot be read as parquet" in ran.err
    ran = run("metrics", "in", "--summary", code=3)
    assert "in/b.parquet" in ran.err
    assert "in/a.parquet" in ran.out
    ran = run("summarize", "in", "--output-dir", "out", code=3)
    assert [p.name for p in Path("out").iterdir()] == ["a.cells.parquet"]


def test_contradictory_options_are_usage_errors(run, cells):
    write("a.parquet")
    assert "exclude" in run("metrics", "a.parquet", "--exact", "--summary", code=2).err
    assert "--engine must be" in run("metrics", "a.parquet", "--engine", "spark", code=2).err
    assert "--scheduler needs" in run("metrics", "a.parquet", "--scheduler", "tcp://x:1", code=2).err
    assert "-o FILE" in run("summarize", "a.parquet", code=2).err
    assert "parquet file" in run("summarize", "a.parquet", "-o", "cells.csv", code=2).err
    ran = run("metrics", "a.parquet", "--summary", "--variant", "authors", "-m", "tce-bpm", "--format", "json")
    assert "not available from a summary" in json.loads(ran.out)["results"][0]["metrics"]["tce-bpm"]["why_missing"]


def test_noise_floor_and_bins_run_from_a_summary(run):
    write("a.parquet")
    run("summarize", "a.parquet", "-o", "cells.parquet")
    ran = run("metrics", "cells.parquet", "--noise-floor", "--noise-runs", 5, "--bins-table", "--format", "json")
    record = json.loads(ran.out)["results"][0]
    assert len(record["bins"]) == 15
    assert 0 < record["noise_floor"]["ece"]["mean"] < 0.05


def test_everyday_use_pays_nothing_for_scale(run):
    import subprocess
    import sys

    rng = np.random.default_rng(0)
    np.savez("a.npz", confidence=rng.random(200), hit=rng.random(200) < 0.5)
    mine = (
        "core.summary",
        "engines.scale",
        "engines.dask",
        "io.summaries",
        "io.remote",
    )
    unwanted = ("pyarrow", "scipy", "pandas", *(f"bpmcli.{name}" for name in mine))
    code = (
        "import sys; from bpmcli.cli import main; main(['metrics', 'a.npz', '-q']);"
        f"bad = [m for m in sys.modules if m.startswith({unwanted!r})]; assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
