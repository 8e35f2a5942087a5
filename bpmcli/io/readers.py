"""Reads the rows of a file: batch by batch, checked, and reduced to confidences and outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.log_odds import Reduced, logits_of_probs, logits_of_two
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import EVENT, Rows, pool
from bpmcli.core.data.sample import Ints
from bpmcli.errors import BpmError, DataError
from bpmcli.io.batches import complete_batches
from bpmcli.io.columns import Array
from bpmcli.io.formats.reader import ColumnBatch, Reader
from bpmcli.io.layout import InputOptions, Layout, understand
from bpmcli.io.opening import open_input
from bpmcli.io.outcomes import SMALLEST_WEIGHT, has_named_event, hits_of, label_indices, unknown_rows, weights_of
from bpmcli.io.scores import class_scores, missed_of, reduced_scores, scores_of
from bpmcli.record import Record

if TYPE_CHECKING:
    from bpmcli.io.summaries import Summarised


EXACT_ROWS = 5_000_000
"""Up to this many rows, every row is kept (half a gigabyte). More rows are summarised unless --exact is given."""

SUMMARY_KEY = "bpmcli-summary"
"""Marks a summary file among parquet files."""

PADDED_BYTES = 1 << 29
"""Scores whose number of classes varies are padded to a table of at most this many bytes."""

CONFIDENT = float(np.log(4))
"""The log-odds of a confidence of 0.8."""


class Loaded(Record):
    """Rows of a file, how the file was understood, and notices."""

    rows: Rows
    layout: Layout
    notices: tuple[Notice, ...]
    metadata: dict[str, str]
    summarised: Summarised | None = None
    """The summary that the rows were reduced to, if they were."""


def read_rows(
    path: str, options: InputOptions | None = None, *, distributions: bool = False, mode: str = "exact",
    missed: bool = False, keep_scores: int = 0,
) -> Loaded:  # fmt: skip
    """The rows of a file in any known format, how the file was understood, and notices. Raises DataError if it is bad.

    `distributions` also keeps the scores of all classes, `missed` only the wrong rows' scores, and `keep_scores` up to
    that many scores as they were read. `mode="auto"` summarises files of more than EXACT_ROWS rows, `"summary"` all.

    >>> import tempfile, numpy as np
    >>> from bpmcli import read_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/scores.npz", confidence=[0.9, 0.6], hits=[1, 0])
    ...     read_rows(f"{folder}/scores.npz").rows.hits
    array([ True, False])
    """
    try:
        reader, options = open_input(path, options or InputOptions())
        large = mode == "auto" and not distributions and is_large(reader)
        if large or mode == "summary" or SUMMARY_KEY in reader.metadata:
            from bpmcli.io.summaries import load_summarised

            return load_summarised(reader, options, distributions)
        layout = understand(reader, options)
        odd: Counter[str] = Counter()
        streamed = stream_rows(
            reader, layout, options, odd, distributions=distributions, missed=missed, keep_scores=keep_scores
        )
        parts = [rows for _, rows in streamed]
        parts = _of_one_width(parts) if distributions else parts
        if not sum(part.log_odds.size for part in parts):
            raise DataError("no rows", "is the file complete?")
        rows = parts[0] if len(parts) == 1 else pool(parts)
        if rows.scores is None and 0 < keep_scores < odd["scores"] and odd["classes"] > 1:
            odd["classes-unchecked"] = odd["scores"]
        if rows.weights is not None and not rows.weights.any():
            raise no_weights(layout)
        return Loaded(rows, layout, (*reader.notices(), *notices_of(odd, _shares(rows), layout)), reader.metadata)
    except BpmError as error:
        raise error.at(path if path != "-" else "standard input") from None


def no_weights(layout: Layout) -> DataError:
    """The error for rows none of which counts."""
    said = f"all weights in '{layout.weight}' are zero or below {SMALLEST_WEIGHT}"
    return DataError(said, "name another column with --weight")


def _shares(rows: Rows) -> tuple[float, float] | None:
    """Accuracy and the share of confidences above 0.8, unless there are few rows."""
    n = rows.log_odds.size
    if n < 100:
        return None
    return np.count_nonzero(rows.hits) / n, np.count_nonzero(rows.log_odds > CONFIDENT) / n


def is_large(reader: Reader) -> bool:
    """Whether the rows are too many to keep, unless that was asked for."""
    return reader.rows_at_most(EXACT_ROWS) > EXACT_ROWS


def stream_rows(
    reader: Reader,
    layout: Layout,
    options: InputOptions,
    odd: Counter[str],
    *,
    distributions: bool = False,
    missed: bool = False,
    rest: bool = False,
    outcomes: bool = True,
    keep_scores: int = 0,
) -> Iterator[tuple[ColumnBatch, Rows]]:
    """Batches and their rows. `rest` also reads the other columns; with `outcomes=False` no labels are needed.

    `odd` counts what is unusual about the rows, by the code of its notice.
    """
    for batch in complete_batches(reader, layout, options, odd, rest=rest, outcomes=outcomes):
        rows = rows_of(
            batch, layout, odd, distributions=distributions, missed=missed, outcomes=outcomes, keep_scores=keep_scores
        )
        yield batch, rows


def rows_of(
    batch: ColumnBatch,
    layout: Layout,
    odd: Counter[str],
    *,
    distributions: bool = False,
    missed: bool = False,
    outcomes: bool = True,
    keep_scores: int = 0,
) -> Rows:
    """The rows of a batch, reduced and checked."""
    if layout.multi_label:
        from bpmcli.io.multi_label import multi_label_rows

        return multi_label_rows(batch, layout, odd, outcomes)
    scores = scores_of(batch, layout)
    _count_scores(scores, layout, odd)
    reduced = reduced_scores(scores, layout, batch.start)
    hits, labels = np.zeros(batch.n, dtype=bool), None
    if outcomes:
        reduced, hits, labels = _outcomes(batch, layout, scores, reduced)
    odd["argmax-ties"] += reduced.argmax_ties
    odd["rows-normalised"] += reduced.rows_off_sum
    odd["saturated"] += reduced.saturated
    weights = weights_of(batch, layout.weight) if layout.weight and outcomes else None
    groups, clusters, ids = (
        _groups(batch, name) if name else None for name in (layout.group, layout.cluster, layout.id)
    )
    logits = None
    if distributions and layout.target != EVENT and scores.ndim == 2:
        logits = logits_of_probs(scores) if layout.kind == "probs" else scores.astype(np.float64)
    elif distributions and layout.target != EVENT and layout.binary:
        logits = logits_of_two(reduced)
    wrong = missed_of(scores, layout, reduced, hits, labels, weights) if missed and labels is not None else None
    kept = class_scores(scores, layout) if labels is not None and odd["scores"] <= keep_scores else None
    return Rows(
        reduced.log_odds, hits, weights, reduced.predictions, labels, groups, logits,
        layout.kind == "probs", layout.target, wrong, clusters, ids, kept,
        unknown_rows(batch, layout) if layout.unknown is not None and outcomes else None,
    )  # fmt: skip


def _count_scores(scores: Array, layout: Layout, odd: Counter[str]) -> None:
    """Count the scores, those above 1 where these are probabilities, and the classes."""
    odd["classes"] = max(odd["classes"], scores.shape[1] if scores.ndim == 2 else 2 if layout.binary else 0)
    odd["above-one"] += int(np.count_nonzero(scores > 1.0)) if layout.kind in ("probs", "confidence") else 0
    odd["scores"] += scores.size


def _outcomes(
    batch: ColumnBatch, layout: Layout, scores: Array, reduced: Reduced
) -> tuple[Reduced, Array, Ints | None]:
    """Whether each row is correct, and its label; with --top-k also the log-odds of being correct."""
    labels = None
    if layout.label and not layout.prediction and layout.target != EVENT:
        labels = label_indices(batch, layout)
    hits = hits_of(batch, layout, reduced.predictions, labels)
    kept = class_scores(scores, layout) if layout.top_k > 1 else None
    if kept is not None and labels is not None:
        from bpmcli.core.data.top_k import within_top

        reduced, hits = within_top(kept, labels, layout.top_k, reduced)
    return reduced, hits, labels


def _groups(batch: ColumnBatch, name: str) -> Categorical:
    from bpmcli.io.group_keys import group_names

    return group_names(batch.columns[name])


def _of_one_width(parts: list[Rows]) -> list[Rows]:
    """Batches of lists can differ in their number of classes: absent classes get a score of -inf."""
    widths = {part.logits.shape[1] for part in parts if part.logits is not None}
    if len(widths) < 2:
        return parts
    width, n = max(widths), sum(part.n for part in parts)
    if width * n * 8 > PADDED_BYTES:
        raise DataError(
            f"has rows with {width} and with {min(widths)} classes: as one table they would take "
            f"{width * n * 8 / 2**30:.1f} GiB",
            "choose a --method that works on confidences, such as bpm-averaged",
        )
    wide = []
    for part in parts:
        assert part.logits is not None
        logits = np.full((part.n, width), -np.inf)
        logits[:, : part.logits.shape[1]] = part.logits
        wide.append(part._replace(logits=logits))
    return wide


def notices_of(odd: Counter[str], shares: tuple[float, float] | None, layout: Layout) -> Iterator[Notice]:
    """Notices about a file. `shares`: accuracy and the share of confidences above 0.8, unless there are few rows."""
    for code in ("rows-normalised", "above-one", "argmax-ties", "missing-skipped", "classes-unchecked"):
        if odd[code]:
            yield notice(code, count=odd[code])
    if odd["saturated"] and layout.kind in ("confidence", "probs") and len(layout.scores) == 1:
        yield notice("saturated", count=odd["saturated"])
    if layout.classes and layout.label and has_named_event(layout):
        yield notice("event-class", name=layout.classes[1], other=layout.classes[0])
    n_classes = odd["classes"]
    if n_classes >= 2 and layout.target != EVENT and shares:
        accuracy, confident = shares
        if accuracy < 0.7 / n_classes:
            yield notice("labels-worse-than-chance", accuracy=f"{accuracy:.3f}", classes=n_classes)
        elif accuracy < 1.2 / n_classes and confident > 0.5:
            yield notice("labels-misaligned", accuracy=f"{accuracy:.3f}", classes=n_classes)


__all__ = ["Loaded", "read_rows", "stream_rows"]
