"""csv, tsv and jsonl files, plain or gzipped, from tidy to broken."""

from __future__ import annotations

import csv
import gzip
import io
import json
from random import Random
from typing import Any

import numpy as np
from fuzz.tables import Table

CELLS = ["", "NA", "null", "nan", "007", "1e5", "+1", " 1", "a,b", "a\tb", 'say "x"', "two\nlines", "one\r\ntwo\r\n", "é🎉", "\x1b[31m", "2024-01-01", "12:30", "true", "x" * 500, "9" * 30, "1,5", "=1+1", "\r", "0x10", "1_000"]  # fmt: skip
NAMES = ["note", "x", "é🎉", "\x1b[31mred", "a,b", "a\nb", "", "probs", "prob_0", "confidence", "group"]


def _spread(table: Table) -> dict[str, list[Any]]:
    """One column per class, since lines have no lists."""
    out: dict[str, list[Any]] = {}
    for name, values in table.columns.items():
        array = np.asarray(values)
        if array.ndim == 2:
            stem = {"output": "logit", "proba": "prob"}.get(name, name.removesuffix("s"))
            out.update({f"{stem}_{i}": array[:, i].tolist() for i in range(array.shape[1])})
        else:
            out[name] = array.tolist()
    return out


def _separated(rng: Random, table: Table, plain: bool, delimiter: str) -> bytes:
    columns = _spread(table)
    if not plain:
        for _ in range(rng.choice([0, 0, 1, 2])):
            columns[rng.choice(NAMES)] = [rng.choice(CELLS) for _ in range(table.n)]
    out = io.StringIO()
    quoting = csv.QUOTE_MINIMAL if plain else rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    ending = "\n" if plain else rng.choice(["\n", "\n", "\r\n", "\r"])
    writer = csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator=ending)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    text = out.getvalue()
    if not plain and rng.random() < 0.1:
        text = text.rstrip("\r\n") if rng.random() < 0.5 else text + ending * rng.choice([1, 3])
    content = text.encode("utf-8")
    return b"\xef\xbb\xbf" + content if not plain and rng.random() < 0.05 else content


def separated(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """csv or tsv."""
    suffix, delimiter = rng.choice([(".csv", ","), (".csv", ","), (".tsv", "\t")])
    return _gzipped(rng, suffix, _separated(rng, table, plain, delimiter))


def _json_value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_json_value(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


ODD_VALUES: list[Any] = [
    None,
    "",
    "x",
    [],
    [1, 2],
    {"a": 1},
    True,
    10**30,
    -1,
    1.5,
    "é🎉",
    "\ud800",
    [[1]],
    "1",
    {},
    [None],
]


def json_lines(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """One object per line."""
    rows = [{name: _json_value(np.asarray(v)[i]) for name, v in table.columns.items()} for i in range(table.n)]
    if not plain:
        for _ in range(rng.choice([0, 0, 1, 2])):
            name, kind = rng.choice(NAMES), rng.choice(ODD_VALUES)
            for row in rows:
                row[name] = rng.choice(ODD_VALUES) if rng.random() < 0.02 else kind
        if rows and rng.random() < 0.15:
            row = rng.choice(rows)
            name = rng.choice(list(row))
            if rng.random() < 0.5:
                row[name] = rng.choice(ODD_VALUES)
            else:
                del row[name]
        if rows and rng.random() < 0.1:
            for row in rows:  # lists of different lengths
                for value in row.values():
                    if isinstance(value, list) and len(value) > 2 and rng.random() < 0.3:
                        value.pop()
    lines = [json.dumps(row, ensure_ascii=rng.random() < 0.5) for row in rows]
    if not plain and rng.random() < 0.1:
        odd = ["", "{}", "[]", "null", "{", '{"a":', "x", "[" * 5000, '{"a":' * 2000, '{"confidence": NaN}', " ", "1"]
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(odd))
    content = "\n".join(lines).encode("utf-8", "surrogatepass") + (b"\n" if rng.random() < 0.9 else b"")
    return _gzipped(rng, rng.choice([".jsonl", ".jsonl", ".ndjson"]), content)


def _gzipped(rng: Random, suffix: str, content: bytes) -> tuple[str, bytes]:
    if suffix == ".ndjson" or rng.random() < 0.8:
        return suffix, content
    return suffix + ".gz", gzip.compress(content, 1, mtime=0)


def greedy_text(rng: Random) -> tuple[str, bytes]:
    """Small files that are large if every value is given the room of the longest one."""
    n = rng.choice([5_000, 40_000])
    if rng.random() < 0.5:
        long = "x" * rng.choice([5_000, 50_000])
        lines = ["confidence,hit,site", f"0.5,1,{long}", *(f"0.{i % 9 + 1},{i % 2},s{i % 5}" for i in range(n))]
        return ".csv", "\n".join(lines).encode()
    many = rng.choice([3_000, 30_000])
    logits = json.dumps({"logprobs": [-1.0] * many, "label": 1})
    lines = [*('{"logprobs": [-0.5, -1.5], "label": %d}' % (i % 2) for i in range(n)), logits]  # noqa: UP031
    return ".jsonl", "\n".join(lines).encode()
