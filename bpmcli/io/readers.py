"""From a path to rows: open, understand, reduce batch by batch, check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bpmcli.core.data.log_odds import (
    Reduced,
    log_odds_of_confidences,
    log_softmax,
    reduce_logits,
    reduce_probs,
)
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import EVENT, TOP_LABEL, Rows, pool
from bpmcli.core.data.sample import BARE_LIMIT, LOG_ODDS_LIMIT, Floats
from bpmcli.errors import BpmError, DataError
from bpmcli.io.columns import Array, Lists, to_arrow
from bpmcli.io.group_keys import group_names
from bpmcli.io.layout import InputOptions, Layout, understand
from bpmcli.io.outcomes import class_indices, hits_of, others, weights_of
from bpmcli.io.sources import Batch, Source, open_source

if TYPE_CHECKING:
    from bpmcli.io.summaries import Summarised


EXACT_ROWS = 5_000_000
"""Up to here every row is kept: half a gigabyte. Beyond, rows go into a summary unless --exact is given."""

SUMMARY_KEY = "bpmcli-summary"
"""Marks a summary file among parquet files."""

CONFIDENT = float(np.log(4))


class Loaded(NamedTuple):
    """Rows of a file, how it was understood, and what was odd."""

    rows: Rows
    layout: Layout
    notices: tuple[Notice, ...]
    metadata: dict[str, str]
    summarised: Summarised | None = None
    """What the rows were reduced to, where they were."""


class RowsBatch(NamedTuple):
    """Reduced rows of one batch, with the batch they came from."""

    batch: Batch
    rows: Rows


def read_rows(
    path: str, options: InputOptions | None = None, *, distributions: bool = False, mode: str = "exact"
) -> Loaded:
    """All rows of a file. `distributions` keeps the scores of all classes as well.

    `mode="auto"`: a file of more than EXACT_ROWS rows comes as a summary; `"summary"`: any file does.
    """
    try:
        source = open_source(path)
        options = options or InputOptions()
        if (
            SUMMARY_KEY in source.metadata
            or mode == "summary"
            or (mode == "auto" and not distributions and is_large(source))
        ):
            from bpmcli.io.summaries import load_summarised

            return load_summarised(source, options, distributions)
        layout = understand(source, options)
        odd: Counter[str] = Counter()
        parts = [part.rows for part in stream_rows(source, layout, options, odd, distributions=distributions)]
        if not parts or not sum(part.n for part in parts):
            raise DataError("no rows")
        rows = pool(parts)
        if rows.weights is not None and not rows.weights.any():
            raise DataError(f"all weights in '{layout.weight}' are zero", "name another column with --weight")
        shares = None if rows.n < 100 else (float(rows.hits.mean()), float((rows.log_odds > CONFIDENT).mean()))
        return Loaded(rows, layout, tuple(notices_of(odd, shares, layout)), source.metadata)
    except BpmError as error:
        raise error.at(path if path != "-" else "standard input") from None


def is_large(source: Source) -> bool:
    """Too many rows to hold them all, unless asked to."""
    return source.rows_at_most(EXACT_ROWS) > EXACT_ROWS


def stream_rows(
    source: Source,
    layout: Layout,
    options: InputOptions,
    odd: Counter[str],
    *,
    distributions: bool = False,
    rest: bool = False,
    outcomes: bool = True,
) -> Iterator[RowsBatch]:
    """Rows batch by batch. `rest` brings the other columns along, `outcomes=False` needs no labels."""
    for batch in complete_batches(source, layout, options, odd, rest=rest, outcomes=outcomes):
        yield RowsBatch(batch, rows_of(batch, layout, odd, distributions=distributions, outcomes=outcomes))


def complete_batches(
    source: Source,
    layout: Layout,
    options: InputOptions,
    odd: Counter[str],
    *,
    rest: bool = False,
    outcomes: bool = True,
) -> Iterator[Batch]:
    """Batches without missing values: such rows are left out if that was asked for, and refused otherwise."""
    names = layout.names if outcomes else [*layout.scores, *([layout.group] if layout.group else [])]
    for batch in source.batches(names, [n for n in layout.numeric if n in names], rest):
        if options.skip_missing:
            batch = _nan_is_missing(batch)
        if batch.missing is not None and batch.missing.any():
            if not options.skip_missing:
                row = int(np.flatnonzero(batch.missing)[0])
                where = next(f" in '{name}'" for name, null in batch.nulls.items() if null[row])
                raise DataError(
                    f"a value is missing{where} (row {batch.start + row + 1}{others(batch.missing)})",
                    "--skip-missing leaves such rows out",
                )
            odd["missing-skipped"] += int(batch.missing.sum())
            batch = _without_missing(batch)
            if not batch.n:
                continue
        yield batch


def rows_of(
    batch: Batch, layout: Layout, odd: Counter[str], *, distributions: bool = False, outcomes: bool = True
) -> Rows:
    """The rows of a batch, reduced and checked."""
    scores = scores_of(batch, layout)
    reduced = _reduce(scores, layout, batch.start)
    odd["argmax-ties"] += reduced.argmax_ties
    odd["rows-normalised"] += reduced.rows_off_sum
    odd["saturated"] += reduced.saturated
    odd["classes"] = max(odd["classes"], scores.shape[1] if scores.ndim == 2 else 2 if layout.binary else 0)
    odd["above-one"] += int((scores > 1.0).sum()) if layout.kind in ("probs", "confidence") else 0
    hits = hits_of(batch, layout, reduced, scores) if outcomes else np.zeros(batch.n, dtype=bool)
    weights = None
    if layout.weight and outcomes:
        weights = weights_of(batch, layout.weight)
    labels = None
    if outcomes and layout.label and not layout.prediction and layout.target != EVENT:
        labels = class_indices(batch.columns[layout.label], layout.classes, batch.start)
    groups = None
    if layout.group:
        groups = group_names(np.asarray(batch.columns[layout.group]))
    logits = _logits(scores, layout, reduced) if distributions else None
    return Rows(
        reduced.log_odds, hits, weights, reduced.predictions, labels, groups, logits,
        layout.kind == "probs", layout.target,
    )  # fmt: skip


def _nan_is_missing(batch: Batch) -> Batch:
    """Arrays have no nulls: there NaN is what is missing."""
    missing = np.zeros(batch.n, dtype=bool) if batch.missing is None else batch.missing
    for values in batch.columns.values():
        if isinstance(values, Lists):
            bad = np.isnan(values.values.astype(np.float64))
            missing = missing | (np.bincount(np.repeat(np.arange(batch.n), values.lengths), bad, batch.n) > 0)
        elif values.dtype.kind == "f":
            missing = missing | np.isnan(values).reshape(batch.n, -1).any(axis=1)
    return batch._replace(missing=missing)


def _without_missing(batch: Batch) -> Batch:
    assert batch.missing is not None
    keep = ~batch.missing
    columns: dict[str, Array | Lists] = {}
    for name, values in batch.columns.items():
        if isinstance(values, Lists):
            # Null lists have no values, so the flat values stay.
            inside = np.repeat(keep, values.lengths)
            columns[name] = Lists(values.values[inside], values.lengths[keep])
        else:
            columns[name] = values[keep]
    mask = to_arrow(keep)
    passed = {k: v[keep] if isinstance(v, np.ndarray) else v.filter(mask) for k, v in batch.passed.items()}
    return Batch(batch.start, int(keep.sum()), columns, passed)


def scores_of(batch: Batch, layout: Layout) -> Array:
    first = batch.columns[layout.scores[0]]
    if len(layout.scores) > 1:
        columns = [np.asarray(batch.columns[name]) for name in layout.scores]
        if any(c.dtype.kind not in "fiub" for c in columns):
            raise DataError(f"columns {layout.scores[0]} … must hold numbers")
        return np.stack(columns, axis=1)
    if isinstance(first, Lists):
        if first.lengths.min(initial=2) < 2:
            row = batch.start + int(np.flatnonzero(first.lengths < 2)[0]) + 1
            raise DataError(f"'{layout.scores[0]}' has fewer than two values (row {row})")
        if first.values.dtype.kind not in "fiub":
            raise DataError(f"'{layout.scores[0]}' holds {first.values.dtype.name} values, not numbers")
        # Checked before padding: afterwards -inf means that a class is absent.
        if not np.isfinite(first.values).all():
            row = int(np.repeat(np.arange(batch.n), first.lengths)[np.flatnonzero(~np.isfinite(first.values))[0]])
            raise DataError(f"'{layout.scores[0]}' must be finite, found NaN or inf (row {batch.start + row + 1})")
        return first.matrix(-np.inf if layout.kind == "logits" else 0.0)
    if first.dtype.kind not in "fiub":
        raise DataError(f"'{layout.scores[0]}' holds {first.dtype.name} values, not numbers")
    if layout.kind == "logits" and np.isneginf(first).any():
        row = int(np.flatnonzero(np.isneginf(first).reshape(batch.n, -1).any(axis=1))[0])
        raise DataError(f"logits must be finite, found -inf (row {batch.start + row + 1})")
    return first


def _reduce(scores: Array, layout: Layout, first_row: int) -> Reduced:
    if layout.target == EVENT and scores.ndim == 2:
        return _event_of_two(scores, layout, first_row)
    if layout.kind == "logits":
        return reduce_logits(scores, first_row)
    if layout.kind == "probs" and scores.ndim == 2:
        return reduce_probs(scores, first_row)
    if layout.kind == "log_odds":
        x: Floats = np.asarray(scores, dtype=np.float64)
        bad = ~np.isfinite(x)
        if bad.any():
            raise DataError(f"log-odds must be finite (row {first_row + int(np.flatnonzero(bad)[0]) + 1})")
        x = np.clip(x, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
        ends = 0
    else:
        x = log_odds_of_confidences(scores, first_row, "probabilities" if layout.binary else "confidences")
        ends = int((np.abs(x) >= BARE_LIMIT).sum())
    if layout.binary and layout.target != EVENT:
        return Reduced(np.abs(x), (x > 0).astype(np.int64), int((x == 0).sum()), 0, ends)
    return Reduced(x, np.ones(x.size, dtype=np.int64), 0, 0, ends)


def _event_of_two(scores: Array, layout: Layout, first_row: int) -> Reduced:
    """P(y = 1) from the scores of classes 0 and 1: its complement is P(y = 0), to full precision."""
    if scores.shape[1] != 2:
        raise DataError(
            f"--event calibrates P(y = 1), and there are scores of {scores.shape[1]} classes (row {first_row + 1})",
            "leave --event out, or name the column of P(y = 1) with --probs",
        )
    top = _reduce(scores, layout._replace(target=TOP_LABEL), first_row)
    x = np.where(top.predictions == 1, top.log_odds, -top.log_odds)
    return top._replace(log_odds=x, predictions=np.ones(x.size, dtype=np.int64), argmax_ties=0)


def _logits(scores: Array, layout: Layout, reduced: Reduced) -> Floats | None:
    """Scores whose softmax is the distribution."""
    if layout.target == EVENT:
        return None
    if scores.ndim == 2:
        if layout.kind == "logits":
            return scores.astype(np.float64)
        with np.errstate(divide="ignore"):
            return log_softmax(np.log(scores.astype(np.float64)))
    if layout.binary:
        x = np.where(reduced.predictions == 1, reduced.log_odds, -reduced.log_odds)
        return np.stack([np.zeros_like(x), x], axis=1)
    return None


def notices_of(odd: Counter[str], shares: tuple[float, float] | None, layout: Layout) -> Iterator[Notice]:
    """What was odd. `shares`: accuracy and the share of confidences above 0.8, unless rows are few."""
    for code in ("rows-normalised", "above-one", "argmax-ties", "missing-skipped"):
        if odd[code]:
            yield notice(code, count=odd[code])
    if odd["saturated"] and layout.kind in ("confidence", "probs") and len(layout.scores) == 1:
        yield notice("saturated", count=odd["saturated"])
    n_classes = odd["classes"]
    if n_classes >= 2 and layout.target != EVENT and shares:
        accuracy, confident = shares
        if accuracy < 1.2 / n_classes and confident > 0.5:
            yield notice("labels-misaligned", accuracy=f"{accuracy:.3f}", classes=n_classes)


__all__ = ["Loaded", "read_rows", "stream_rows"]
