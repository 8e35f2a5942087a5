"""Summary files that were tampered with: whatever was changed, a sentence."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bpmcli.io.readers import SUMMARY_KEY

ODD = [None, True, -1, 0, 1, 3.5, 1e308, float("nan"), 10**30, "", "x", [], [1], {}, {"x": [1]}, {"a": "b"}]


@pytest.fixture
def stored(run) -> pa.Table:
    """Two groups, one of them of few values."""
    rng = np.random.default_rng(0)
    s, g = rng.random(3000), np.repeat(["a", "b"], 1500)
    s[1500:] = np.round(s[1500:], 1)
    pq.write_table(pa.table({"confidence": s, "hit": rng.random(3000) < s, "g": g}), "rows.parquet")
    run("summarize", "rows.parquet", "--by", "g", "-o", "cells.parquet")
    run("metrics", "cells.parquet", "-m", "ece", "-m", "tce-bpm")
    return pq.read_table("cells.parquet")


def header(table: pa.Table) -> dict:
    return json.loads(table.schema.metadata[SUMMARY_KEY.encode()])


def check(run, table: pa.Table, about: object, what: object) -> None:
    """Fine or refused: never anything else."""
    pq.write_table(table.replace_schema_metadata({SUMMARY_KEY: json.dumps(about)}), "bad.parquet")
    for options in ((), ("--by", "g")):
        ran = run("metrics", "bad.parquet", "-m", "ece", "-q", *options, code=None)
        assert ran.code in (0, 2, 3), (what, ran)
        assert (ran.code == 0) == (ran.err == ""), (what, ran)


def test_any_field_of_the_header_may_be_wrong(run, stored):
    about = header(stored)
    for name in about:
        for odd in ODD:
            check(run, stored, {**about, name: odd}, (name, odd))
        check(run, stored, {k: v for k, v in about.items() if k != name}, name)
    for odd in ODD:
        check(run, stored, odd, odd)


def test_any_field_of_a_table_may_be_wrong(run, stored):
    about = header(stored)
    first, second = about["tables"]
    for name in first:
        for odd in ODD:
            check(run, stored, {**about, "tables": [{**first, name: odd}, second]}, (name, odd))
        check(run, stored, {**about, "tables": [{k: v for k, v in first.items() if k != name}, second]}, name)
    for tables in ([first], [first, first], [second, first], [first, second, second]):
        check(run, stored, {**about, "tables": tables}, tables)


@pytest.mark.filterwarnings("error")
def test_any_column_may_be_wrong(run, stored):
    about = header(stored)
    for i, name in enumerate(stored.column_names):
        old = stored.column(name)
        kept = old.to_pylist()
        for odd in (-1, 0, 2**31 - 1, 2**62, -(2**62)):
            if name != "group":
                check(run, stored.set_column(i, name, pa.array([odd, *kept[1:]])), about, (name, odd))
                check(run, stored.set_column(i, name, pa.array([*kept[:-1], odd])), about, (name, odd))
        others = [pa.nulls(len(old), old.type), pa.array(["x"] * len(old)), pa.array([[1]] * len(old))]
        if name != "group":
            others += [
                old.cast(pa.float64(), safe=False),
                pa.array([float("nan")] * len(old)),
                pa.array([1e300] * len(old)),
            ]
        for other in others:
            check(run, stored.set_column(i, name, other), about, (name, other.type))
        check(run, stored.drop_columns([name]), about, name)
    check(run, stored.slice(1), about, "first")
    check(run, stored.slice(0, 5), about, "few")
    check(run, pa.concat_tables([stored, stored]), about, "twice")
