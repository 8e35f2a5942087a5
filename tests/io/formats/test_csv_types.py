"""A csv column that `apply` carries along becomes numbers only where writing them again gives the same text."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import arrays

from bpmcli.io.formats import csv_file
from bpmcli.io.formats.csv_types import exact_types

NUMBERS = {
    "whole": ["0", "5", "-17", str(2**53 + 1), str(2**63 - 1), str(-(2**63)), ""],
    "fraction": ["0.5", "-0.0", "1.0", "0.1", "1e-05", "1e+16", "1000000000000000.0", "5e-324", ""],
    "flag": ["True", "False", ""],
}
KINDS = {"whole": pa.int64(), "fraction": pa.float64(), "flag": pa.bool_()}
TEXTS = {
    "zeros": "003", "sign": "+5", "exponent": "1e3", "hundredths": "1.50", "negative": "-0", "blank": " 5",
    "long": str(2**63), "digits": "0.1000000000000000055", "point": ".5", "end": "5.", "missing": "NA", "nan": "nan",
    "infinite": "inf", "flag": "true", "date": "2020-01-02", "hexadecimal": "0x10", "large": "1e+15", "larger": "1.2e+15", "small": "0.00001",
}  # fmt: skip
"""Texts that are not what we would write for their number."""


@pytest.mark.parametrize("name", NUMBERS)
def test_every_spelling_of_ours_becomes_a_number_and_back(name):
    column = pa.array(NUMBERS[name])
    assert exact_types(["x"], [pa.record_batch([column], ["x"])]) == {"x": KINDS[name]}
    # The oracle: Python's own numbers.
    make: Any = {"whole": int, "fraction": float, "flag": lambda text: text == "True"}[name]
    assert [str(make(text)) for text in NUMBERS[name] if text] == [text for text in NUMBERS[name] if text]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("beside", ["5", "0.5", "True"])
def test_one_other_spelling_anywhere_makes_it_text(name, beside):
    batches = [pa.record_batch([pa.array(texts)], ["x"]) for texts in ([beside] * 3, [beside, TEXTS[name]])]
    assert exact_types(["x"], batches) == {"x": pa.string()}


@pytest.mark.parametrize("texts", [["-1", "0.5"], ["1", "True"], ["", ""], []])
def test_texts_of_two_kinds_or_none(texts):
    assert exact_types(["x"], [pa.record_batch([pa.array(texts, pa.string())], ["x"])]) == {"x": pa.string()}


def test_texts_of_several_columns_and_batches():
    def batch(x: list[str], y: list[str]) -> pa.RecordBatch:
        return pa.record_batch([pa.array(x), pa.array(y)], ["x", "y"])

    # A column that is text already says nothing about the other; neither does a batch of empty fields.
    found = exact_types(["x", "y"], [batch(["abc"], ["5"]), batch(["abc"], ["003"])])
    assert found == {"x": pa.string(), "y": pa.string()}
    found = exact_types(["x", "y"], [batch(["", ""], ["5", "6"]), batch(["5"], [""])])
    assert found == {"x": pa.int64(), "y": pa.int64()}


def test_texts_are_read_until_nothing_is_left_to_find_out():
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array(["abc"])], ["x"])
        raise AssertionError("read on")

    assert exact_types(["x"], batches()) == {"x": pa.string()}


@pytest.mark.parametrize(("text", "kind"), [("1,5", pa.float64()), ("1.5", pa.string()), ("15", pa.int64())])
def test_a_decimal_comma(text, kind):
    assert exact_types(["x"], [pa.record_batch([pa.array([text])], ["x"])], ",") == {"x": kind}


COLUMNS = {
    **{name: [text, "7"] for name, text in TEXTS.items()},
    **{f"number-{name}": [text for text in texts if text] for name, texts in NUMBERS.items()},
    "gaps": ["0.5", "", "-0.25"],
    "mixed": ["-1", "0.5"],
}


@pytest.fixture
def table(run: Any, unjudged: Any) -> Any:
    """Columns of 200 rows whose odd texts are in the last ones only, in t.csv and t.tsv; parameters in p.json."""
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.5, 1.0, 200)
    np.savez("fit.npz", confidence=scores, hit=rng.random(200) < scores)
    run("fit", "fit.npz", "--method", "identity", "-o", "p.json", "-q")
    found = {name: [texts[-1]] * (200 - len(texts)) + texts for name, texts in COLUMNS.items()}
    found = {"confidence": [repr(s) for s in scores.tolist()], **found}
    for path, delimiter in (("t.csv", ","), ("t.tsv", "\t")):
        with open(path, "w", newline="") as file:
            out = csv.writer(file, delimiter=delimiter)
            out.writerow(found)
            out.writerows(zip(*found.values(), strict=True))
    return run, found


@pytest.mark.parametrize("block", [1 << 12, 1 << 23])
@pytest.mark.parametrize("target", [".parquet", ".arrow", ".jsonl", ".npz", ".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize("source", ["t.csv", "t.tsv"])
def test_every_text_comes_back(table, source, target, block, monkeypatch):
    run, before = table
    monkeypatch.setattr(csv_file, "BLOCK", block)
    run("apply", "p.json", source, "-o", f"out{target}", "-q")
    after = written(f"out{target}")
    for name, texts in before.items():
        if name != "confidence":
            assert [text_of(value) for value in after[name]] == texts, name


def text_of(value: Any) -> str:
    """The text that stands for a value; an array has NaN where a number is missing."""
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def written(path: str) -> dict[str, list[Any]]:
    """The columns of an output, read without the tool."""
    if path.endswith(".npz"):
        return {name: values.tolist() for name, values in arrays(path).items()}
    if path.endswith(".parquet"):
        return dict(pq.read_table(path).to_pydict())
    if path.endswith(".arrow"):
        return dict(pa.ipc.open_file(path).read_all().to_pydict())
    if path.endswith(".jsonl"):
        rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    else:
        data = Path(path).read_bytes()
        lines = io.StringIO((gzip.decompress(data) if path.endswith(".gz") else data).decode(), newline="")
        rows = list(csv.DictReader(lines, delimiter="\t" if ".tsv" in path else ","))
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize("target", ["csv", "parquet", "npz", "jsonl"])
def test_groups_with_leading_zeros_keep_their_calibrators(run, unjudged, target):
    """They were numbers in `fit` and text in `apply -o out.csv`, which gave every row the pooled calibrator."""
    rng = np.random.default_rng(0)
    lines = [
        f"{s!r},{int(rng.random() < s)},{i % 3:03d},{1.5:.2f}" for i, s in enumerate(rng.uniform(0.5, 1, 300).tolist())
    ]
    Path("a.csv").write_text("\n".join(["confidence,hit,site,w", *lines]) + "\n")
    run("fit", "a.csv", "--by", "site", "--min-group", 20, "--method", "platt", "-o", "p.json", "-q")
    ran = run("apply", "p.json", "a.csv", "-o", f"o.{target}")
    assert "no fitted calibrator" not in ran.err
    again = run("metrics", f"o.{target}", "--by", "site", "--weight", "w", "-m", "ece", "-f", "csv", "-q")
    assert [line.split(",")[1] for line in again.out.splitlines()[1:]] == ["000", "001", "002"]
