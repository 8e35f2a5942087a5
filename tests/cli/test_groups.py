"""metrics --by and fit --by: from rows, from rows reduced on the way, and from summaries that kept the groups."""

from __future__ import annotations

import json
from pathlib import Path

import forked
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SAMPLE_DATA

DEVICES = ("007", "b", "é")


def write(path: str, seed: int = 0, n: int = 900, **extra: object) -> str:
    """Three devices with a curve of their own each."""
    rng = np.random.default_rng(seed)
    device = rng.choice(3, p=[0.5, 0.3, 0.2], size=n)
    s = rng.beta(2.0, 0.6, n)
    hit = rng.random(n) < s ** (1 + device)
    names = [DEVICES[i] for i in device]
    columns = {"device": names, "site": names[::-1], "w": rng.random(n), "confidence": s, "hit": hit, **extra}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=100)
    return path


def results(text: str) -> dict[str, dict]:
    return {r["group"]: {**r["metrics"], "n": r["n"]} for r in json.loads(text)["results"]}


def test_a_group_measures_as_a_file_of_its_rows(run):
    table = pq.read_table(write("a.parquet"))
    found = json.loads(run("metrics", "a.parquet", "--by", "device", "-f", "json").out)["results"]
    assert [(r["input"], r["by"], r["group"]) for r in found] == [("a.parquet", "device", d) for d in DEVICES]
    for record in found:
        pq.write_table(table.filter(pa.compute.equal(table["device"], record["group"])), "own.parquet")
        own = json.loads(run("metrics", "own.parquet", "-f", "json").out)["results"][0]
        assert own["metrics"] == record["metrics"]
        assert own["n"] == record["n"]
    head, *lines = run("metrics", "a.parquet", "--by", "device", "-m", "ece", "-f", "csv").out.splitlines()
    assert head == "input,group,rows,accuracy,mean confidence,saturated,ece"
    assert [line.split(",")[1] for line in lines] == list(DEVICES)
    bins = run("metrics", "a.parquet", "--by", "device", "--bins-table", "-f", "csv").out.splitlines()
    assert bins[0].startswith("input,group,")
    assert len(bins) == 1 + 3 * 15


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("weight", [(), ("--weight", "w")])
def test_stored_groups_give_the_numbers_of_the_rows(run, weight):
    write("a.parquet")
    run("summarize", "a.parquet", "--by", "device", *weight, "-o", "cells.parquet")
    direct = run("metrics", "a.parquet", "--summary", "--by", "device", *weight, "-f", "json")
    stored = run("metrics", "cells.parquet", "--by", "device", "-f", "json")
    assert list(results(stored.out)) == list(DEVICES)
    assert results(stored.out) == results(direct.out)
    assert stored.err.count("rows were reduced to") == 1  # said once, not per group
    assert sum(r["n"] for r in results(stored.out).values()) == 900
    fits = [json.loads(run("fit", *of, "--by", "device", "--min-group", 100).out) for of in
            (["a.parquet", "--summary", *weight], ["cells.parquet"], ["a.parquet", *weight])]  # fmt: skip
    assert fits[0]["grouping"] == fits[1]["grouping"]
    assert fits[0]["parameters"] == fits[1]["parameters"]
    for device in DEVICES:
        cells, rows = (f["grouping"]["groups"][device] for f in fits[1:])
        assert cells["n"] == rows["n"]
        assert cells["parameters"] == pytest.approx(rows["parameters"], abs=0.02)
    # Without --by the groups are one sample.
    whole = json.loads(run("metrics", "cells.parquet", "-f", "json").out)["results"][0]
    assert "group" not in whole
    assert whole["n"] == 900


def test_pooling_merges_group_by_group(run):
    for i in range(3):
        write(f"in/{i}.parquet", seed=i)
        run("summarize", f"in/{i}.parquet", "--by", "device", "-o", f"cells/{i}.parquet")
    run("summarize", "cells", "-o", "all.parquet")
    by = ("--by", "device", "-q", "-f", "json", "-m", "ece", "-m", "smece", "-m", "tce-bpm")
    pooled = results(run("metrics", "in", "--pool", "--summary", *by).out)
    assert sum(r["n"] for r in pooled.values()) == 2700
    assert results(run("metrics", "cells", "--pool", *by).out) == pooled
    assert results(run("metrics", "cells", "--pool", "--exact", *by).out) == pooled
    assert results(run("metrics", "all.parquet", *by).out) == pooled
    assert results(run("metrics", "cells/0.parquet", "in/1.parquet", "in/2.parquet", "--pool", *by).out) == pooled
    assert results(run("metrics", "in/0.parquet", "cells/1.parquet", "in/2.parquet", "--pool", "--exact", *by).out) == pooled  # fmt: skip
    assert results(forked.run("metrics", "in", "--pool", "--summary", "-j", 2, *by).out.decode()) == pooled
    fits = [json.loads(call("fit", where, "--pool", "--by", "device", *how).out)["grouping"]
            for call, where, *how in ((run, "cells"), (run, "in", "--summary"), (forked.run, "in", "--summary", "-j", 2))]  # fmt: skip
    assert fits[0]["groups"]
    assert fits[0] == fits[1] == fits[2]


def test_parts_of_a_file_keep_its_groups(run, monkeypatch):
    from bpmcli.engines import scale
    from bpmcli.io import summaries

    write("a.parquet", n=4000)
    for module in (summaries, scale):
        monkeypatch.setattr(module, "PART_ROWS", 1000)
    alone = run("metrics", "a.parquet", "--summary", "--by", "device", "-f", "json").out
    assert run("metrics", "a.parquet", "--summary", "--by", "device", "-f", "json", "-j", 2).out == alone


def test_groups_of_different_columns_pool_as_rows_only(run):
    write("a.parquet")
    run("summarize", "a.parquet", "--by", "device", "-o", "cells/device.parquet")
    run("summarize", "a.parquet", "--by", "site", "-o", "cells/site.parquet")
    whole = json.loads(run("metrics", "cells", "--pool", "-f", "json").out)["results"][0]
    assert whole["n"] == 1800
    assert "keeps the groups of 'site' apart" in run("metrics", "cells", "--pool", "--by", "device", code=2).err


def test_a_group_without_weight_is_none(run):
    write("a.parquet", v=np.where(np.random.default_rng(0).choice(3, p=[0.5, 0.3, 0.2], size=900) == 1, 0.0, 1.0))
    for how in ((), ("--summary",)):
        found = run("metrics", "a.parquet", "--by", "device", "--weight", "v", *how, "-f", "json")
        assert list(results(found.out)) == ["007", "é"]


def test_gates_and_baselines_are_per_group(run):
    write("a.parquet")
    ran = run("metrics", "a.parquet", "--by", "device", "-m", "ece", "--fail-above", "ece=0.15", "-q", code=1)
    (line,) = ran.err.splitlines()
    assert line.startswith("gate failed: a.parquet, device = é: ece = 0.2")
    Path("old.json").write_text(run("metrics", "a.parquet", "--by", "device", "-f", "json").out)
    write("b.parquet")
    same = ("--baseline", "old.json", "--max-increase", "ece=0")
    run("metrics", "b.parquet", "--by", "device", *same)
    assert "no result for b.parquet" in run("metrics", "b.parquet", *same, code=3).err
    assert "no result for b.parquet, site = 007" in run("metrics", "b.parquet", "--by", "site", *same, code=3).err


def test_what_a_summary_cannot_answer_is_refused(run):
    write("a.parquet")
    run("summarize", "a.parquet", "-o", "plain.parquet")
    run("summarize", "a.parquet", "--by", "device", "-o", "cells.parquet")
    for command in (("metrics",), ("fit",), ("summarize", "-o", "out.parquet")):
        for option, words in (
            (("--weight", "w"), "cells.parquet: --weight w names a column, but a summary has none"),
            (("--confidence", "x"), "--confidence x names a column"),
            (("--log-odds", "x"), "--log-odds x names a column"),
            (("--hit", "x"), "--hit x names a column"),
            (("--event",), "--event was given, but this summary is of the predicted class"),
            (("--by", "site"), "--by site: this summary keeps the groups of 'device' apart"),
        ):
            assert words in run(command[0], "cells.parquet", *command[1:], *option, code=2).err
        ran = run(command[0], "plain.parquet", *command[1:], "--by", "device", code=2)
        assert "this summary keeps no groups apart" in ran.err
        assert "hint: bpmcli summarize ROWS --by device" in ran.err
    for command, option in (
        ("metrics", ("--top-k", "3")),
        ("metrics", ("--unknown", "x")),
        ("fit", ("--unknown", "x")),
        ("fit", ("--multi-label",)),
    ):
        ran = run(command, "plain.parquet", *option, code=2)
        assert f"{option[0]} needs the rows themselves, which a summary does not store" in ran.err
    run("metrics", "cells.parquet", "--skip-missing")
    assert "device (3 values)" in run("metrics", "cells.parquet", "--explain-input").out
    run("summarize", "a.parquet", "--event", "--label", "hit", "--probs", "confidence", "-o", "event.parquet")
    assert "P(y = 1)" in run("metrics", "event.parquet", "--event").out


def test_groups_without_weight_are_named(run):
    """A gate does not pass unseen because its group was left out."""
    with np.load(SAMPLE_DATA / "digits_test.npz") as data:
        site = np.repeat(["a", "b"], [300, 299])
        np.savez("x.npz", **data, site=site, w=(site == "b").astype(float))
    gate = ("-m", "ece", "--by", "site", "--fail-above", "ece=0.5")
    ran = run("metrics", "x.npz", *gate, "--weight", "w")
    assert "site = a: left out, because all weights there are 0" in ran.err
    assert ran.err.count("gate passed") == 1
    assert "left out" not in run("metrics", "x.npz", *gate).err


def test_labels_of_another_file_change_neither_the_names_of_groups_nor_messages(run):
    rows = [f"{0.1 + i % 9 / 10},0{i % 2}\n" for i in range(400)]
    Path("labels.txt").write_text("".join(f"{i % 3 % 2}\n" for i in range(400)))
    Path("scores.csv").write_text("prob,site\n" + "".join(rows))
    options = ("--event", "--by", "site", "-m", "ece", "-f", "csv", "-q")
    out = run("metrics", "scores.csv", "--label", "labels.txt", *options).out
    assert [line.split(",")[1] for line in out.splitlines()[1:]] == ["00", "01"]
    Path("bad.csv").write_text("prob,site\n" + "".join(rows[:-1]) + "none,01\n")
    ran = run("metrics", "bad.csv", "--label", "labels.txt", *options, code=3)
    assert "column 'prob' holds 'none' (row 400), which is not a number" in ran.err
