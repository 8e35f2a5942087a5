"""The scores of a batch, and their reduction to the log-odds of the predicted class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.log_odds import (
    AS_LOGITS,
    Reduced,
    log_odds_of_confidences,
    logits_of_probs,
    reduce_logits,
    reduce_probs,
)
from bpmcli.core.data.rows import EVENT, TOP_LABEL
from bpmcli.core.data.sample import BARE_LIMIT, LOG_ODDS_LIMIT, Floats, Ints
from bpmcli.errors import DataError
from bpmcli.io.columns import Array, Lists
from bpmcli.io.formats.reader import ColumnBatch
from bpmcli.io.layout import Layout

if TYPE_CHECKING:
    from bpmcli.core.data.class_scores import ClassScores
    from bpmcli.core.data.missed import Missed

NOT_FINITE = "--skip-missing leaves such rows out; write -1e9 for a class that cannot be chosen"


def scores_of(batch: ColumnBatch, layout: Layout) -> Array:
    """One number, or the scores of all classes, for each row; percentages become fractions."""
    scores = _as_stored(batch, layout)
    return scores / 100.0 if layout.percent else scores


def _as_stored(batch: ColumnBatch, layout: Layout) -> Array:
    first = batch.columns[layout.scores[0]]
    if len(layout.scores) > 1:
        columns = [batch.columns[name] for name in layout.scores]
        for name, column in zip(layout.scores, columns, strict=True):
            _check_numbers(name, column, one_each=True)
        return np.stack([np.asarray(column) for column in columns], axis=1)
    _check_numbers(layout.scores[0], first.values if isinstance(first, Lists) else first)
    if isinstance(first, Lists):
        return _from_lists(first, batch, layout)
    assert not isinstance(first, Categorical)
    if first.ndim > 2:
        raise DataError(f"'{layout.scores[0]}' has {first.ndim} dimensions", "store one row of scores per row")
    if layout.kind == "logits" and first.dtype.kind == "f" and first.min(initial=0.0) == -np.inf:
        row = int(np.flatnonzero(np.isneginf(first).reshape(batch.n, -1).any(axis=1))[0])
        raise DataError(f"logits must be finite, found -inf (row {batch.start + row + 1})", NOT_FINITE)
    return first


def _check_numbers(name: str, values: Array | Lists | Categorical, one_each: bool = False) -> None:
    if isinstance(values, Lists) or (one_each and getattr(values, "ndim", 1) != 1):
        raise DataError(f"'{name}' must be one number per row", "name the column of scores: --probs, --logits")
    kind = "text" if isinstance(values, Categorical) else values.dtype.name
    if isinstance(values, Categorical) or values.dtype.kind not in "fiub":
        raise DataError(f"'{name}' holds {kind} values, not numbers")


def _from_lists(lists: Lists, batch: ColumnBatch, layout: Layout) -> Array:
    """Lists as a matrix. Missing classes get a score of -inf or a probability of 0."""
    name = layout.scores[0]
    if lists.lengths.min(initial=2) < 2:
        row = batch.start + int(np.flatnonzero(lists.lengths < 2)[0]) + 1
        raise DataError(f"'{name}' has fewer than two values (row {row})")
    # Checked before padding: afterwards -inf means that a class is absent.
    if not np.isfinite(lists.values).all():
        row = int(np.repeat(np.arange(batch.n), lists.lengths)[np.flatnonzero(~np.isfinite(lists.values))[0]])
        raise DataError(f"'{name}' must be finite, found NaN or inf (row {batch.start + row + 1})", NOT_FINITE)
    return lists.matrix(-np.inf if layout.kind == "logits" else 0.0)


def reduced_scores(scores: Array, layout: Layout, first_row: int) -> Reduced:
    """Log-odds of the predicted class, or of y = 1 for --event."""
    try:
        return _reduced(scores, layout, first_row)
    except DataError as error:
        if error.hint and AS_LOGITS in error.hint and (named := layout.named_scores):
            kind, option = ("log-odds", "--log-odds") if layout.kind == "confidence" else ("logits", "--logits")
            hint = error.hint.replace(AS_LOGITS, f"if these are {kind}, say {option} {named}")
            raise DataError(error.message, hint) from None
        raise


def _reduced(scores: Array, layout: Layout, first_row: int) -> Reduced:
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
            row = first_row + int(np.flatnonzero(bad)[0]) + 1
            raise DataError(f"log-odds must be finite (row {row})", "--skip-missing leaves such rows out")
        x = np.clip(x, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
        ends = 0
    else:
        x = log_odds_of_confidences(scores, first_row, "probabilities" if layout.binary else "confidences")
        ends = int(np.count_nonzero(np.abs(x) >= BARE_LIMIT))
    if layout.binary and layout.target != EVENT:
        return Reduced(np.abs(x), (x > 0).astype(np.int64), int(np.count_nonzero(x == 0)), 0, ends)
    return Reduced(x, np.ones(x.size, dtype=np.int64), 0, 0, ends)


def _event_of_two(scores: Array, layout: Layout, first_row: int) -> Reduced:
    """P(y = 1) from the scores of classes 0 and 1: its complement is P(y = 0), to full precision."""
    if scores.shape[1] != 2:
        raise DataError(
            f"--event calibrates P(y = 1), but there are scores of {scores.shape[1]} classes (row {first_row + 1})",
            "leave --event out, or name the column of P(y = 1) with --probs",
        )
    top = reduced_scores(scores, layout._replace(target=TOP_LABEL), first_row)
    x = np.where(top.predictions == 1, top.log_odds, -top.log_odds)
    return top._replace(log_odds=x, predictions=np.ones(x.size, dtype=np.int64), argmax_ties=0)


def class_scores(scores: Array, layout: Layout) -> ClassScores | None:
    """The scores of all classes; P(y = 1) gives logits of two classes. None if there are no such scores."""
    if layout.target == EVENT or (scores.ndim == 1 and not layout.binary):
        return None
    from bpmcli.core.data.class_scores import ClassScores

    if scores.ndim == 2:
        return ClassScores([scores], layout.kind == "probs", layout.classes)
    x = reduced_scores(scores, layout._replace(target=EVENT), 0).log_odds
    return ClassScores([np.stack([np.zeros_like(x), x], axis=1)], from_probs=False)


def missed_of(
    scores: Array, layout: Layout, reduced: Reduced, hits: Array, labels: Ints, weights: Floats | None
) -> Missed | None:
    """The scores of wrong rows, for learning how the other classes share their probability."""
    if scores.ndim != 2 or layout.target == EVENT:
        return None
    wrong = np.flatnonzero(~hits & (labels >= 0))  # an unknown row does not tell how the other classes share
    few = scores[wrong]
    logits = logits_of_probs(few) if layout.kind == "probs" else few.astype(np.float64)
    from bpmcli.core.data.missed import MOST_VALUES, Missed

    missed = Missed(logits, reduced.predictions[wrong], labels[wrong], None if weights is None else weights[wrong])
    return missed.few() if logits.size > MOST_VALUES else missed
