"""The base of all readers of evaluation logs: samples become rows, and samples without a confidence are counted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import exp, isfinite, log
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bpmcli.core.data.categorical import categorical
from bpmcli.core.data.notices import Notice, notice
from bpmcli.errors import DataError
from bpmcli.io.columns import Lists
from bpmcli.io.documents import LARGEST_FILE, parse
from bpmcli.io.formats.reader import ColumnBatch, ColumnInfo, Reader
from bpmcli.io.opening import GZIP, open_bytes

PROMPT = "prompt"
"""The column of task and sample: rows that share it are answers to one question."""

ROWS = 1 << 15
"""Rows of a batch."""


class LogSample(NamedTuple):
    """One sample of a log."""

    sample: str
    """Its id; repetitions of a sample have the same id."""
    score: float | Sequence[float]
    """The scores, of the kind that the log's class names in `score`."""
    hit: bool | None = None
    prediction: str | None = None
    task: str = ""
    model: str = ""
    label: int | None = None
    """The position of the correct choice, if the log has it."""


class SkipSample(Exception):  # noqa: N818
    """Raised with the reason why a sample has no confidence."""


class LogReader(Reader):
    """A log as a table. Subclasses say how to recognise it and yield its samples."""

    suffixes = (".jsonl",)
    choices: ClassVar[Mapping[str, str]] = {}
    """What may follow the name in `--input-format NAME:CHOICE`, and what it means."""
    how_to_log: ClassVar[str] = ""
    """The hint for a log without confidences: how to make a log with them."""
    score: str = "log_odds"
    """The column of the scores: logits (of every choice), log_odds or confidence."""

    def __init__(self, path: str, chosen: Mapping[str, str] | None = None) -> None:
        self.chosen = dict(chosen or {})
        self.skipped: Counter[str] = Counter()
        self.remarks: Counter[str] = Counter()
        self.samples: list[LogSample] = []
        super().__init__(path)

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Every sample as the log has it, with its id."""
        raise NotImplementedError

    def sample_of(self, name: str, entry: Any) -> LogSample:
        """The sample as a row. Raises SkipSample if it has no confidence, DataError if the log is wrong."""
        raise NotImplementedError

    def inspect(self) -> None:
        for name, entry in self.entries():
            try:
                self.samples.append(self.sample_of(name, entry))
            except SkipSample as reason:
                self.skipped[str(reason)] += 1
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                what = "does not have the form of a sample"
                if isinstance(error, KeyError | ValueError):
                    what = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error)
                raise DataError(f"sample {name}: {what}", f"is this {self.label} log complete?") from None
        self.n_rows = len(self.samples)
        if not self.samples:
            self._refuse()
        self.table = self._columns()

    def _refuse(self) -> None:
        if not self.skipped:
            raise DataError("holds no samples", "is the log complete?")
        total = sum(self.skipped.values())
        raise DataError(f"none of its {total} samples has a confidence ({self.reasons()})", self.how_to_log)

    def reasons(self) -> str:
        """Why samples were left out, the most frequent reason first."""
        return "; ".join(f"{count}: {reason}" for reason, count in self.skipped.most_common())

    def _columns(self) -> dict[str, Any]:
        rows = self.samples
        columns: dict[str, Any] = {}
        if self.score == "logits":
            lengths = np.array([len(row.score) for row in rows], dtype=np.int64)  # type: ignore[arg-type]
            columns["logits"] = Lists(np.array([x for row in rows for x in row.score], dtype=np.float64), lengths)  # type: ignore[union-attr]
        else:
            columns[self.score] = np.array([row.score for row in rows], dtype=np.float64)
        if all(row.hit is not None for row in rows):
            columns["hit"] = np.array([bool(row.hit) for row in rows])
        if all(row.prediction is not None for row in rows):
            columns["prediction"] = categorical([row.prediction or "" for row in rows])
        if all(row.label is not None for row in rows) and not self.remarks:
            columns["label"] = np.array([row.label for row in rows], dtype=np.int64)
        for name in ("task", "model", "sample"):
            columns[name] = categorical([getattr(row, name) for row in rows])
            if name != "sample" and columns[name].categories not in ([], [""]) and len(columns[name].categories) == 1:
                self.metadata[name] = columns[name].categories[0]
        # Samples of two models share a prompt. Samples of two tasks may have the same id by chance.
        columns[PROMPT] = categorical([f"{row.task}/{row.sample}" for row in rows])
        columns["source"] = categorical([self.path] * len(rows))
        self.row_key = PROMPT if len(columns[PROMPT].categories) > 1 else None
        for name in columns:
            kind = {self.score: "f", "hit": "b", "label": "i"}.get(name, "U")
            self.columns[name] = ColumnInfo(name, 0 if name == "logits" else None, kind)
        return columns

    def read(self, names: Sequence[str], numeric: Sequence[str], rest: bool) -> Iterator[ColumnBatch]:
        from bpmcli.io.columns import to_arrow

        for start in range(0, len(self.samples), ROWS):
            stop = min(start + ROWS, len(self.samples))
            part = {name: _slice(values, start, stop) for name, values in self.table.items()}
            passed = {name: to_arrow(part[name]) for name in part if name not in names} if rest else {}
            yield ColumnBatch(start, stop - start, {name: part[name] for name in names}, passed)

    def notices(self) -> tuple[Notice, ...]:
        """Samples without a confidence by reason, and samples that are repeated."""
        found = []
        if self.skipped:
            total = sum(self.skipped.values())
            found.append(notice("samples-skipped", count=total, total=total + len(self.samples), why=self.reasons()))
        found += [notice("log-remark", count=count, what=what) for what, count in self.remarks.most_common()]
        distinct = len(self.table[PROMPT].categories)
        if distinct < len(self.samples):
            found.append(notice("samples-repeated", rows=len(self.samples), samples=distinct))
        return tuple(found)

    def advice(self) -> str:
        return f"is this {self.label} log complete?"


def json_lines(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every line of a local or remote file, plain or gzipped, as an object with the number of its line."""
    import gzip

    with open_bytes(path) as raw:
        packed = raw.read(2) == GZIP
        raw.seek(0)
        lines = gzip.GzipFile(fileobj=raw) if packed else raw
        row = 0
        while line := lines.readline(LARGEST_FILE + 1):
            row += 1
            if not line.strip():
                continue
            try:
                entry = parse(line, "is the log complete?")
            except DataError as error:
                raise error.at(f"line {row}") from None
            if not isinstance(entry, dict):
                raise DataError(f"line {row}: is not a JSON object", "is the log complete?")
            yield row, entry


def _slice(values: Any, start: int, stop: int) -> Any:
    if isinstance(values, Lists):
        return values.slice(start, stop)
    return values[start:stop] if isinstance(values, np.ndarray) else values.take(np.arange(start, stop))


def log_odds_among(chosen: str, log_probs: Mapping[str, float]) -> float:
    """log p − log(1 − p) of one answer, after scaling the probabilities of all given answers to a sum of one."""
    others = [x for name, x in log_probs.items() if name != chosen]
    top = max(others)
    return log_probs[chosen] - (top + log(sum(exp(x - top) for x in others)))


def finite_number(value: Any, what: str) -> float:
    """A finite number, also if it was stored as text."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{what} is {str(value)[:40]!r}, not a number") from None
    if not isfinite(found):
        raise ValueError(f"{what} is {found}, not a finite number")
    return found


def as_hit(value: Any) -> bool | None:
    """Whether 0, 1, true or false stands for a correct answer; None for anything else."""
    try:
        return {0.0: False, 1.0: True}.get(float(value)) if not isinstance(value, (dict, list)) else None
    except (TypeError, ValueError):
        return None


def name_beside(path: str) -> str:
    """The name of the directory that a file is in."""
    return os.path.basename(os.path.dirname(os.path.abspath(path)))
