"""Files to summaries and back: every format, every refusal, memory that does not grow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bpmcli.core.metrics import measure
from bpmcli.core.summary import distinct
from bpmcli.core.summary.merging import merge
from bpmcli.errors import BpmError, DataError, UsageError
from bpmcli.io import readers, summaries
from bpmcli.io.columns import from_arrow
from bpmcli.io.layout import InputOptions
from bpmcli.io.opening import open_reader
from bpmcli.io.readers import SUMMARY_KEY, read_rows
from bpmcli.io.summaries import merge_summarised, summarise_path
from bpmcli.io.summary_files import read_summary, write_summary
from bpmcli.io.writers import open_writer


def columns(n: int = 3000, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    s = rng.beta(2, 0.4, n)
    return {"confidence": s, "hit": rng.random(n) < s}


@pytest.mark.skipif(sys.platform != "linux", reason="names must be valid Unicode")
def test_a_summary_may_have_a_name_that_is_not_utf_8(tmp_path):
    found = summarise_path(written(tmp_path / "a.npz", columns()), InputOptions())
    write_summary(f"{tmp_path}/\udcff/s.parquet", found)
    assert read_summary(f"{tmp_path}/\udcff/s.parquet").tables[""].n == 3000


def written(path: Path, data: dict[str, np.ndarray]) -> str:
    with open_writer(str(path)) as out:
        out.write(data)
    return str(path)


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv", ".jsonl", ".arrow", ".csv.gz"])
def test_every_format_gives_the_same_summary(tmp_path, suffix):
    data = columns()
    found = summarise_path(written(tmp_path / f"a{suffix}", data), InputOptions()).whole
    there = summarise_path(written(tmp_path / "b.npz", data), InputOptions()).whole
    assert np.array_equal(found.cells, there.cells)
    assert np.array_equal(found.excess, there.excess)
    assert np.array_equal(found.values, there.values)


def test_logits_probabilities_and_weights_go_through_the_same_checks(tmp_path):
    rng = np.random.default_rng(1)
    z, labels = rng.normal(size=(500, 4)) * 3, rng.integers(0, 4, 500)
    path = written(tmp_path / "z.npz", {"logits": z, "labels": labels, "weight": rng.random(500)})
    exact = read_rows(path, InputOptions(weight="weight")).rows.sample
    cells = read_rows(path, InputOptions(weight="weight"), mode="summary").rows.sample
    assert cells.from_summary
    assert cells.weighted
    assert cells.accuracy == pytest.approx(exact.accuracy, rel=1e-12)
    assert cells.mean_confidence == pytest.approx(exact.mean_confidence, rel=1e-9)
    labels[7] = 9
    bad = written(tmp_path / "bad.npz", {"logits": z, "labels": labels})
    with pytest.raises(DataError, match=r"label 9 is outside 0 … 3 \(row 8"):
        summarise_path(bad, InputOptions())


def test_bad_confidences_are_refused_with_their_row(tmp_path):
    data = columns(100)
    data["confidence"][41] = 1.5
    with pytest.raises(DataError, match=r"confidences must not exceed 1, found 1\.5 \(row 42\)"):
        summarise_path(written(tmp_path / "a.parquet", data), InputOptions())
    data["confidence"][41] = 1.0005
    loaded = read_rows(written(tmp_path / "b.parquet", data), mode="summary")
    assert [n.code for n in loaded.notices] == ["above-one", "saturated", "distinct-kept"]


def test_saturated_confidences_are_counted(tmp_path):
    data = columns(200)
    data["confidence"][:5] = 1.0
    loaded = read_rows(written(tmp_path / "a.parquet", data), mode="summary")
    assert dict(loaded.notices[0].values) == {"count": 5}


@pytest.mark.parametrize("limit", [0, 10**6])
@pytest.mark.parametrize("weight", [None, "w"])
def test_a_summary_file_round_trips_bit_for_bit(tmp_path, monkeypatch, limit, weight):
    monkeypatch.setattr(distinct, "LIMIT", limit)
    data = columns() | {"w": np.random.default_rng(5).random(3000)}
    found = summarise_path(written(tmp_path / "a.parquet", data), InputOptions(weight=weight))
    write_summary(str(tmp_path / "cells.parquet"), found)
    back = read_summary(str(tmp_path / "cells.parquet"))
    assert (found.whole.values is None) == (back.whole.values is None) == (limit == 0)
    for field in ("cells", "count", "hits", "excess", "values"):
        assert np.array_equal(getattr(found.whole, field), getattr(back.whole, field)), field
    assert back.whole.weight_squares == found.whole.weight_squares
    assert back.target == found.target
    write_summary(str(tmp_path / "again.parquet"), back)
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "cells.parquet").read_bytes()
    loaded = read_rows(str(tmp_path / "cells.parquet"))
    assert loaded.rows.n == 3000
    assert loaded.rows.sample.summarised == (limit == 0)
    assert [n.code for n in loaded.notices] == ["distinct-kept" if limit else "summarised"]
    with pytest.raises(BpmError, match="needs the rows themselves"):
        loaded.rows.log_odds  # noqa: B018
    with pytest.raises(UsageError, match="scores of every row"):
        read_rows(str(tmp_path / "cells.parquet"), distributions=True)


def test_summaries_of_the_first_version_are_read_and_merged(tmp_path, monkeypatch):
    """They have cells only, and a sum of squares."""
    path = written(tmp_path / "a.parquet", columns())
    new = summarise_path(path, InputOptions()).whole
    monkeypatch.setattr(distinct, "LIMIT", 0)
    found = summarise_path(path, InputOptions())
    write_summary(str(tmp_path / "old.parquet"), found)
    table = {"group": "", "n": 3000, "cells": found.whole.cells.size, "weight_squares": None, "squares": str(2**150)}
    old = read_summary(changed(tmp_path / "old.parquet", version=1, tables=[table])).whole
    assert np.array_equal(old.excess, found.whole.excess)
    monkeypatch.undo()
    assert new.values is not None
    both, twice = merge([new, old]), merge([found.whole, found.whole])
    assert both.values is None
    assert np.array_equal(both.count, twice.count)
    assert np.array_equal(both.excess, twice.excess)


@pytest.mark.parametrize("limit", [0, 1500, 10**6])
def test_groups_are_kept_apart_and_add_up(tmp_path, monkeypatch, limit):
    """With 1500, one group keeps its values and the other does not."""
    monkeypatch.setattr(distinct, "LIMIT", limit)
    data = columns()
    data["site"] = np.array(["a", "b", "b"] * 1000)
    path = written(tmp_path / "a.parquet", data)
    found = summarise_path(path, InputOptions(group="site"))
    assert {name: table.n for name, table in found.tables.items()} == {"a": 1000, "b": 2000}
    write_summary(str(tmp_path / "cells.parquet"), found)
    back = read_summary(str(tmp_path / "cells.parquet"))
    assert np.array_equal(back.tables["b"].hits, found.tables["b"].hits)
    assert [back.tables[name].values is not None for name in "ab"] == [limit > 1000, limit > 2000]
    assert np.array_equal(back.tables["a"].values, found.tables["a"].values)
    whole = summarise_path(path, InputOptions()).whole
    assert np.array_equal(back.whole.count, whole.count)


def changed(path: Path, **changes: object) -> str:
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[SUMMARY_KEY.encode()]) | changes
    pq.write_table(table.replace_schema_metadata({SUMMARY_KEY: json.dumps(about)}), path)
    return str(path)


def test_foreign_and_broken_summaries_are_refused(tmp_path):
    path = tmp_path / "cells.parquet"
    found = summarise_path(written(tmp_path / "a.parquet", columns(200)), InputOptions())
    for changes, words in (
        ({"version": 9}, "version 9"),
        ({"mantissa_bits": 7}, "another grid"),
        ({"target": "none"}, "target: must be 'top-label' or 'event', found \"none\""),
        ({"tables": [{"group": "", "n": 7, "cells": 3, "weight_squares": None}]}, "counts 3 cells, but its table has"),
        ({"tables": [{"group": "", "n": 200, "cells": 200, "weight_squares": None}]}, "contradicts"),
    ):
        write_summary(str(path), found)
        with pytest.raises(DataError, match=words):
            read_summary(changed(path, **changes))
    for strange in (0, -1, 2**62):
        write_summary(str(path), found)
        table = pq.read_table(path)
        values = [strange, *table.column("value").to_pylist()[1:]]
        pq.write_table(table.set_column(4, "value", pa.array(values)), path)
        with pytest.raises(DataError, match="contradicts"):
            read_summary(str(path))
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({SUMMARY_KEY: "{}"}), path)
    with pytest.raises(DataError, match="is not a bpmcli/summary file"):
        read_summary(str(path))


def test_nothing_is_left_behind_by_a_failed_write(tmp_path, monkeypatch):
    found = summarise_path(written(tmp_path / "a.parquet", columns(200)), InputOptions())

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(DataError, match="No space left"):
        write_summary(str(tmp_path / "cells.parquet"), found)
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


def test_events_and_predicted_classes_do_not_mix(tmp_path):
    a = summarise_path(written(tmp_path / "a.npz", columns(100)), InputOptions())
    with pytest.raises(DataError, match="different kinds"):
        merge_summarised([a, a._replace(target="event")])


def test_large_files_are_summarised_by_themselves(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "EXACT_ROWS", 1000)
    for suffix in (".parquet", ".csv", ".npz", ".arrow"):
        small = written(tmp_path / f"small{suffix}", columns(900))
        large = written(tmp_path / f"large{suffix}", columns(1100))
        assert not read_rows(small, mode="auto").rows.sample.from_summary, suffix
        assert read_rows(large, mode="auto").rows.sample.from_summary, suffix
        assert not read_rows(large).rows.sample.from_summary, suffix


def test_rows_are_counted_where_size_does_not_tell(tmp_path):
    path = written(tmp_path / "a.csv", columns(900))
    assert open_reader(path).rows_at_most(10**9) >= 900
    assert open_reader(path).rows_at_most(10) in (901, 902)  # the header is a line too


def test_parts_of_a_file_are_the_file(tmp_path, monkeypatch):
    data = columns(5000)
    table = pa.table({k: pa.array(v) for k, v in data.items()})
    path = str(tmp_path / "a.parquet")
    pq.write_table(table, path, row_group_size=400)
    monkeypatch.setattr(summaries, "PART_ROWS", 1000)
    parts = open_reader(path).parts(1000)
    assert [p.first_row for p in parts] == [0, 1200, 2400, 3600, 4800]
    pieces = [summarise_path(path, InputOptions(), part) for part in parts]
    assert sum(p.whole.n for p in pieces) == 5000
    assert np.array_equal(merge_summarised(pieces).whole.excess, summarise_path(path, InputOptions()).whole.excess)
    data["confidence"][4900] = 2.0
    pq.write_table(pa.table({k: pa.array(v) for k, v in data.items()}), path, row_group_size=400)
    with pytest.raises(DataError, match="row 4901"):
        summarise_path(path, InputOptions(), parts[-1])


def test_a_part_without_weight_is_no_error(tmp_path, monkeypatch):
    data = columns(3000) | {"w": np.repeat([0.0, 1.0], [1200, 1800])}
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({k: pa.array(v) for k, v in data.items()}), path, row_group_size=400)
    monkeypatch.setattr(summaries, "PART_ROWS", 1000)
    assert read_rows(path, InputOptions(weight="w"), mode="summary").rows.n == 1800
    data["w"][:] = 0.0
    pq.write_table(pa.table({k: pa.array(v) for k, v in data.items()}), path, row_group_size=400)
    with pytest.raises(DataError, match="all weights are zero"):
        read_rows(path, InputOptions(weight="w"), mode="summary")


PEAK = """
import re, sys
from bpmcli.io.layout import InputOptions
from bpmcli.io.summaries import summarise_path
def peak():  # not ru_maxrss, which begins at the size of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
summarise_path(sys.argv[1], InputOptions())
before = peak()
for path in sys.argv[2:]:
    summarise_path(path, InputOptions())
print(peak() - before)
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    """Four times the rows of the first file take no further 15 MB (they alone would be 27 MB)."""
    rng = np.random.default_rng(0)
    paths = []
    for n in (750_000, 3_000_000):
        table = pa.table({"confidence": rng.random(n), "hit": rng.random(n) < 0.5})
        paths.append(str(tmp_path / f"{n}.parquet"))
        pq.write_table(table, paths[-1], row_group_size=1 << 19, use_dictionary=False)
    ran = subprocess.run([sys.executable, "-c", PEAK, *paths], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 15_000


def test_metrics_of_a_summary_are_those_of_the_rows(tmp_path, monkeypatch):
    path = written(tmp_path / "a.parquet", columns(20_000))
    exact, kept = read_rows(path).rows.sample, read_rows(path, mode="summary").rows.sample
    for name, found in measure(exact).items():
        assert measure(kept, [name])[name].value == pytest.approx(found.value, abs=1e-9), name
    monkeypatch.setattr(distinct, "LIMIT", 0)
    exact, cells = read_rows(path).rows.sample, read_rows(path, mode="summary").rows.sample
    for name in ("ece", "ece-debiased", "ks", "smece", "ls-ece", "tce-bpm"):
        assert measure(cells, [name])[name].value == pytest.approx(measure(exact, [name])[name].value, abs=2e-4), name


def test_booleans_of_a_slice_that_starts_inside_a_byte():
    values = np.random.default_rng(0).random(100) < 0.5
    column = pa.array(values)
    for start, n in ((0, 100), (3, 50), (8, 8), (13, 0), (99, 1)):
        assert np.array_equal(from_arrow(column.slice(start, n))[0], values[start : start + n])
    holes = pa.array([True, None, False])
    assert from_arrow(holes)[0].tolist() == [True, False, False]
    assert from_arrow(holes)[1].tolist() == [False, True, False]
