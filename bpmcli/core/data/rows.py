"""Rows in the order of the file, as the readers return them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bpmcli.core.data.categorical import Categorical, joined
from bpmcli.core.data.sample import Floats, Ints, Sample, sample_from_log_odds
from bpmcli.errors import DataError
from bpmcli.record import Record

if TYPE_CHECKING:
    import numpy.typing as npt

    from bpmcli.core.data.class_scores import ClassScores
    from bpmcli.core.data.missed import Missed
    from bpmcli.core.summary.summary import Summary

UNKNOWN = -(1 << 62)
"""The label of a row that belongs to none of the classes."""

TOP_LABEL, EVENT = "top-label", "event"
"""What a confidence is the probability of: that the predicted class is correct, or that y = 1."""


class Rows(Record):
    """Rows in the order of the file: log-odds, whether each row is correct, and what else a method or metric needs.

    `.sample` has the same rows as a `Sample`; `.take(index)` chooses some of them.

    >>> import numpy as np
    >>> from bpmcli import Rows
    >>> rows = Rows(np.array([2.0, 0.0, 1.0]), np.array([True, False, True]))
    >>> rows.n, round(rows.sample.accuracy, 3)
    (3, 0.667)
    """

    log_odds: Floats
    """log ŝ − log(1 − ŝ) of the confidence; with the target `event`, of P(y = 1)."""
    hits: npt.NDArray[np.bool_]
    """Whether each row is correct; with the target `event`, whether y = 1."""
    weights: Floats | None = None
    predictions: Ints | None = None
    labels: Ints | None = None
    groups: Categorical | None = None
    logits: Floats | None = None
    """N×K scores whose softmax is the model's distribution (log-probabilities included)."""
    from_probs: bool = False
    """The logits are logarithms of probabilities, so saturated values are lost."""
    target: str = TOP_LABEL
    missed: Missed | None = None
    """The scores of wrong rows, where they were asked for and `logits` were not."""
    clusters: Categorical | None = None
    """Rows of one cluster are not independent."""
    ids: Categorical | None = None
    """What identifies a row in another file."""
    scores: ClassScores | None = None
    """The scores of all classes as they were read, where metrics need them."""
    unknown: npt.NDArray[np.bool_] | None = None
    """Rows whose label is none of the classes, where there may be such rows. Their `labels` are UNKNOWN."""
    label_names: tuple[str, ...] = ()
    """The labels of a multi-label file. Each of its rows becomes one row per label, in this order."""

    @property
    def n(self) -> int:
        return self.log_odds.size

    @cached_property
    def sample(self) -> Sample:
        return sample_from_log_odds(self.log_odds, self.hits, self.weights)

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Rows:
        """The chosen rows, in the order of the index."""

        def pick(values: npt.NDArray[np.generic] | None) -> npt.NDArray[np.generic] | None:
            return None if values is None else values[index]

        groups, clusters, ids = (
            None if column is None else column.take(index) for column in (self.groups, self.clusters, self.ids)
        )
        return Rows(
            self.log_odds[index], self.hits[index], pick(self.weights), pick(self.predictions),  # type: ignore[arg-type]
            pick(self.labels), groups, pick(self.logits), self.from_probs, self.target,  # type: ignore[arg-type]
            clusters=clusters, ids=ids, scores=None if self.scores is None else self.scores.take(index),
            unknown=pick(self.unknown), label_names=self.label_names,  # type: ignore[arg-type]
        )  # fmt: skip

    @property
    def has_unknown(self) -> bool:
        """Whether the label of a row is none of the classes; then only the confidence can be calibrated."""
        return self.unknown is not None and bool(self.unknown.any())

    def known(self) -> Rows:
        """The rows whose label is one of the classes."""
        if self.labels is None or (self.labels >= 0).all():
            return self
        return self.take(self.labels >= 0)

    def by_group(self) -> Iterator[tuple[str, Rows]]:
        """The rows of each group, by name; a group whose weights are all zero is left out."""
        if self.groups is None:
            raise DataError("these rows have no groups")
        for name, index in self.groups.positions():
            if self.weights is None or self.weights[index].any():
                yield name, self.take(index)

    def groups_without_weight(self) -> list[str]:
        """The groups that `by_group` leaves out."""
        if self.weights is None or self.groups is None:
            return []
        return [name for name, index in self.groups.positions() if not self.weights[index].any()]


class SummarisedRows(Rows):
    """Stands for rows of which only a summary is known: it has a sample and a target, but no single rows."""

    def __init__(self, sample: Sample, target: str, tables: Mapping[str, Summary] | None = None) -> None:
        """`tables`: the summaries of the groups, if they were summarised separately."""
        self.__dict__.update(sample=sample, target=target, tables=tables)

    @property
    def n(self) -> int:
        return self.sample.n

    def groups_without_weight(self) -> list[str]:
        return []

    def by_group(self) -> Iterator[tuple[str, Rows]]:
        if self.tables is None:
            raise DataError("this summary has no groups", "summarise with bpmcli summarize --by COLUMN")
        for name in sorted(self.tables):
            yield name, SummarisedRows(self.tables[name].to_sample(), self.target)

    def __getattr__(self, name: str) -> Any:
        # Only reached for fields that were never set.
        if name.startswith("_"):
            raise AttributeError(name)
        raise DataError(
            "this needs the rows themselves, which a summary does not store", "give the files that were summarised"
        )


def facts_of(rows: Rows, sample: Sample) -> dict[str, Any]:
    """The fields of a record that describe the rows themselves: their number, accuracy, mean confidence and so on."""
    facts: dict[str, Any] = {
        "target": rows.target,
        "n": sample.n,
        "weighted": sample.weighted,
        "accuracy": sample.accuracy,
        "mean_confidence": sample.mean_confidence,
        "saturated": sample.saturated,
    }
    if rows.target == EVENT:
        facts["event_rate"] = sample.accuracy
    if sample.from_summary:
        facts["summary_cells"] = sample.mass.size
    if sample.weighted or sample is not rows.sample:
        facts["effective_n"] = sample.effective_n
    if rows.label_names:
        facts |= {"items": rows.n // len(rows.label_names), "labels": len(rows.label_names)}
    return facts if rows.unknown is None else facts | _unknown_facts(rows, rows.unknown)


def _unknown_facts(rows: Rows, unknown: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """The number of unknown rows, and the mean confidence of unknown and of known rows."""
    facts: dict[str, Any] = {"unknown_rows": int(unknown.sum())}
    for name, index in (("unknown", unknown), ("known", ~unknown)):
        if index.any() and (rows.weights is None or rows.weights[index].any()):
            part = rows.take(index).sample
            facts[f"{name}_confidence"] = part.mean_confidence
            facts |= {"known_accuracy": part.accuracy} if name == "known" else {}
    return facts


def positions(keys: npt.NDArray[Any] | Categorical) -> Iterator[tuple[str, Ints]]:
    """Every distinct key, in order, with the positions at which it occurs."""
    if isinstance(keys, Categorical):
        yield from keys.positions()
        return
    names, inverse = np.unique(keys, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(np.bincount(inverse, minlength=names.size))
    for name, start, end in zip(names.tolist(), [0, *ends[:-1]], ends, strict=True):
        yield str(name), order[start:end]


def pool(parts: Sequence[Rows]) -> Rows:
    """The rows of several files as one."""

    def join(name: str) -> npt.NDArray[np.generic] | None:
        values = [getattr(part, name) for part in parts]
        return None if any(v is None for v in values) else np.concatenate(values)

    if len(parts) == 1:
        return parts[0]
    if len({part.label_names for part in parts}) > 1:
        raise DataError("the inputs have different labels, so they cannot be pooled", "measure each on its own")
    from bpmcli.core.data.missed import joined_missed

    def join_text(columns: list[Categorical | None]) -> Categorical | None:
        known = [column for column in columns if column is not None]
        return joined(known) if len(known) == len(columns) else None

    weights = join("weights")
    return Rows(
        np.concatenate([p.log_odds for p in parts]), np.concatenate([p.hits for p in parts]),
        weights, join("predictions"), join("labels"), join_text([p.groups for p in parts]), join("logits"),  # type: ignore[arg-type]
        any(p.from_probs for p in parts), parts[0].target, joined_missed([p.missed for p in parts]),
        join_text([p.clusters for p in parts]), join_text([p.ids for p in parts]),
        None if parts[0].scores is None else parts[0].scores.joined([p.scores for p in parts[1:]]),
        join("unknown"), parts[0].label_names,  # type: ignore[arg-type]
    )  # fmt: skip


MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio, odd: multiplying by it spreads every bit over the higher ones."""


def canonical_order(rows: Rows) -> Ints:
    """Positions that sort the rows by confidence, then by all their other values.

    Rows that tie in every value are equal, so it does not matter which comes first. Random splits drawn in this
    order, and sums taken in it, are the same to the last bit, whatever the order of the rows in the file.
    """
    parts = [rows.weights, rows.labels, rows.predictions, rows.hits, rows.log_odds]
    keys = [part for part in parts if part is not None]
    if rows.logits is not None:
        keys.insert(0, row_hashes(rows.logits))
    if rows.groups is not None:
        keys.insert(0, rows.groups.places())
    return np.lexsort(keys)


def row_hashes(values: Floats) -> np.ndarray:
    """A 64-bit hash of each row's values, column by column."""
    found = np.zeros(values.shape[0], dtype=np.uint64)
    for column in values.T:
        # Adding 0.0 turns -0.0 into 0.0, which is equal and must hash alike.
        found = (found ^ (column + 0.0).view(np.uint64)) * MULTIPLIER
        found ^= found >> np.uint64(29)
    return found
