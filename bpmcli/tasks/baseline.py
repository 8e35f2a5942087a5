"""Saved runs: what a baseline keeps, and how much a metric rose above it.

Up to a limit rows are kept, so that two runs over the same rows can be compared row by row. Cells are always kept, so
that any two runs can be compared. Two runs have the same rows if the ids are the same or, without ids, if the labels
are the same in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.data.names import few
from bpmcli.core.data.rows import EVENT, Rows, SummarisedRows
from bpmcli.core.data.sample import Sample, sample_at
from bpmcli.core.metrics.increase import Increase, unpaired_increases
from bpmcli.core.metrics.registry import MetricOptions
from bpmcli.core.metrics.resamples import merged
from bpmcli.errors import BpmError, DataError
from bpmcli.io.packed import pack, pack_bits, unpack, unpack_bits
from bpmcli.tasks.baseline_whole import Runs, is_whole, kept_whole

MOST_ROWS = 100_000
"""The most rows of one input that a baseline keeps; they take about a megabyte."""
MOST_IN_ALL = 500_000
"""The most rows of all inputs together that a baseline keeps: a larger file would exceed the size that is read."""

Record = Mapping[str, Any]


def rows_to_keep(inputs: int) -> int:
    """How many rows of each input are kept if there are this many inputs."""
    return max(1, min(MOST_ROWS, MOST_IN_ALL // max(inputs, 1)))


def kept(rows: Rows, sample: Sample, most: int, names: Sequence[str], options: MetricOptions) -> dict[str, Any]:
    """The cells and, if there are at most `most`, the rows, in the form that JSON stores.

    `names` are the metrics that have a value.
    """
    cells = merged(sample)
    found: dict[str, Any] = {
        "effective_n": sample.effective_n,
        "cells": {name: pack(getattr(cells, name)) for name in ("log_odds", "mass", "hits")},
    }
    with_rows = not isinstance(rows, SummarisedRows) and rows.n <= most
    if with_rows:
        found["rows"] = {
            "log_odds": pack(rows.log_odds),
            "hits": pack_bits(rows.hits),
            "weights": None if rows.weights is None else pack(rows.weights),
            "ids": None if rows.ids is None else pack(_hashed(rows)),
            "labels": _labels(rows),
        }
    if any(is_whole(name) for name in names):
        found["whole"], by_row = kept_whole(rows, [name for name in names if is_whole(name)], options, with_rows)
        if with_rows:
            found["rows"]["whole"] = by_row
    return found


def _hashed(rows: Rows) -> Any:
    """A number for every row's id, which is the same in every file."""
    assert rows.ids is not None
    hashes = [
        int.from_bytes(blake2b(i.encode(errors="replace"), digest_size=6).digest(), "big") for i in rows.ids.categories
    ]
    return np.array(hashes, dtype=np.float64)[rows.ids.codes]  # 48 bits are exact in float64


def _labels(rows: Rows) -> str | None:
    """A checksum of the labels in their order; None if there are none."""
    labels = rows.hits if rows.target == EVENT else rows.labels
    return None if labels is None else sha256(np.asarray(labels, dtype="<i8").tobytes()).hexdigest()


def _same_option(name: str, value: Any) -> str:
    """The hint for a run with another option than its baseline: what to add, or what to leave out."""
    option = "--" + name.replace("_", "-")
    if value is None:
        return "--schemes all" if name == "schemes" else f"leave {option} out"
    return f"{option} {':'.join(map(str, value)) if isinstance(value, list) else value}"


def load_baseline(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A run saved with `--save-baseline` or `--format json`. Raises DataError if its options differ from `options`."""
    from bpmcli.io.document_kinds import METRICS as KIND
    from bpmcli.io.documents import load_document

    try:
        document = load_document(path, KIND)
        theirs = document["options"]
        different = [k for k in options if theirs.get(k) != options[k]]
        if different:
            k = different[0]
            raise DataError(
                f"was measured with {k} = {theirs.get(k)}, this run uses {options[k]}", _same_option(k, theirs.get(k))
            )
        return document
    except BpmError as error:
        raise error.at(path) from None


def matching(record: Record, baseline: Record, single: bool, title: str) -> Record:
    """The baseline's result for the same input and group. If both runs have one input only, its name may differ."""
    results: list[Record] = baseline["results"]
    single = single and _one_input(baseline)
    for result in results:
        if _same(result, record, single):
            return result
    grouped = any("group" in each for each in (record, *results))
    by = "inputs are matched by their paths" + (", groups by their column and value" if grouped else "")
    raise DataError(f"the baseline has no result for {title}", f"the baseline has {few(_titles(results))}; {by}")


def not_compared(records: Sequence[Record], failed: Sequence[str], baseline: Record, single: bool) -> str:
    """A sentence about the results of the baseline that this run has no counterpart for; empty if there are none.

    `failed` are the inputs of this run that could not be read.
    """
    single = single and _one_input(baseline)
    left = [
        result
        for result in baseline["results"]
        if not any(_same(result, record, single) for record in records) and not (failed and single)
    ]
    names = _titles([result for result in left if result.get("input") not in failed])
    if not names:
        return ""
    are, were = ("is", "it was") if len(names) == 1 else ("are", "they were")
    return f"{few(names)} {are} in the baseline but not in this run; {were} not compared"


def _one_input(baseline: Record) -> bool:
    return len({str(result.get("input")) for result in baseline["results"]}) == 1


def _same(result: Record, record: Record, single: bool) -> bool:
    """Whether a result of the baseline is about the same input and group as a record of this run."""
    same_group = all(result.get(key) == record.get(key) for key in ("by", "group"))
    return same_group and (single or result.get("input") == record["input"])


def _titles(results: Sequence[Record]) -> list[str]:
    """The inputs of results, and their groups."""
    return [
        f"{one.get('input')}" + (f", {one.get('by')} = {one['group']}" if "group" in one else "") for one in results
    ]


def save_again(before: Record, path: str | None) -> str:
    """A hint: the command that writes a baseline with everything that a later gate may need."""
    import shlex

    name = str(before["input"])
    source = "INPUT…" if name.startswith("pooled (") else shlex.quote(name)
    target = shlex.quote(path or "FILE")
    return f"save it again, with the options of this run: bpmcli metrics {source} --save-baseline {target}"


class Against(NamedTuple):
    """A saved run to compare with, the metrics to compare, and the level of their intervals."""

    baseline: Record
    single: bool
    names: Sequence[str]
    level: float
    resamples: int
    seed: int
    path: str | None = None

    def increases(self, record: Record, rows: Rows, sample: Sample, options: MetricOptions) -> dict[str, Any]:
        """The confidence interval of every metric's increase, paired row by row if both runs have the same rows."""
        before = matching(record, self.baseline, self.single, str(record["input"]))
        stored = before.get("kept")
        if stored is None:
            raise DataError(
                "the baseline has values without the rows or cells that --gate-confidence needs",
                save_again(before, self.path),
            )
        try:
            return self._compared(before, record, rows, sample, options)
        except DataError as error:
            raise error.at(self.path or "the baseline") from None

    def _compared(
        self, before: Record, record: Record, rows: Rows, sample: Sample, options: MetricOptions
    ) -> dict[str, Any]:
        stored = before["kept"]
        first = _stored_rows(stored, before)
        index = None if first is None else _same_rows(first, stored["rows"], rows)
        in_order = rows if index is None or index is True else rows.take(index)
        values = {
            name: (before["metrics"].get(name, {}).get("value"), record["metrics"][name]["value"])
            for name in self.names
        }
        whole = {name: pair for name, pair in values.items() if is_whole(name)}
        others = {name: pair for name, pair in values.items() if name not in whole}
        found: dict[str, Any] = {}
        if others and first is not None and index is not None:
            found |= self._paired(first, in_order, list(others), options)
        elif others:
            cells = _stored_cells(stored, before)
            found |= unpaired_increases(cells, sample, others, options, self.level, self.resamples, self.seed)
        if whole:
            sizes = float(stored["effective_n"]), sample.effective_n
            runs = Runs(stored, in_order, index is not None, sizes, save_again(before, self.path))
            found |= runs.increases(whole, options, self.level)
        return {name: found[name]._asdict() for name in self.names}

    def _paired(self, first: Rows, second: Rows, names: Sequence[str], options: MetricOptions) -> dict[str, Increase]:
        from bpmcli.core.metrics.paired import paired_differences

        found = paired_differences(first, second, names, options, self.level, self.resamples, self.seed)
        return {d.metric: Increase(d.low, d.high, True) for d in found}


def _stored_cells(stored: Record, before: Record) -> Sample:
    cells = stored["cells"]
    x, mass, hits = (unpack(cells[name], f"cells.{name}") for name in ("log_odds", "mass", "hits"))
    sound = x.size == mass.size == hits.size > 0 and (mass > 0).all() and (hits >= 0).all()
    if not sound or not (np.diff(x) > 0).all() or (hits > mass * (1 + 1e-9)).any() or np.abs(x).max() > 701:
        raise DataError("the cells of the baseline contradict each other", "save it again with --save-baseline FILE")
    n = max(1, round(float(mass.sum())))
    return sample_at(x, mass, np.minimum(hits, mass), n, min(stored["effective_n"], n), bool(before["weighted"]))


def _stored_rows(stored: Record, before: Record) -> Rows | None:
    kept_rows = stored.get("rows")
    if kept_rows is None:
        return None
    x = unpack(kept_rows["log_odds"], "rows.log_odds")
    hits = unpack_bits(kept_rows["hits"], x.size, "rows.hits")
    weights = None if kept_rows.get("weights") is None else unpack(kept_rows["weights"], "rows.weights")
    if not x.size or (weights is not None and (weights.size != x.size or (weights < 0).any() or not weights.any())):
        raise DataError("the rows of the baseline contradict each other", "save it again with --save-baseline FILE")
    return Rows(x, hits, weights, target=before["target"])


def _same_rows(first: Rows, stored: Record, rows: Rows) -> Any:
    """True if both runs have the same rows in the same order, the permutation if the order differs, None otherwise."""
    if isinstance(rows, SummarisedRows) or first.n != rows.n or first.target != rows.target:
        return None
    if stored.get("ids") is not None and rows.ids is not None:
        theirs, ours = unpack(stored["ids"], "rows.ids"), _hashed(rows)
        by_theirs, by_ours = np.argsort(theirs, kind="stable"), np.argsort(ours, kind="stable")
        if theirs.size != ours.size or not np.array_equal(theirs[by_theirs], ours[by_ours]):
            return None
        if (np.diff(ours[by_ours]) == 0).any():
            return None  # an id that occurs twice cannot identify a row
        order = np.empty(ours.size, dtype=np.int64)
        order[by_theirs] = by_ours
        return order
    same = stored.get("labels") is not None and stored["labels"] == _labels(rows)
    return True if same else None
