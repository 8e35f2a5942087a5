"""Labels, hits and weights of a batch: what tells a hit from a miss, checked row by row."""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.log_odds import Reduced
from bpmcli.core.data.rows import EVENT
from bpmcli.core.data.sample import Floats, Ints
from bpmcli.errors import DataError
from bpmcli.io.columns import Array, Lists
from bpmcli.io.layout import Layout
from bpmcli.io.sources import Batch

TRUE_WORDS = ("true", "yes", "t", "1", "1.0", "correct")
FALSE_WORDS = ("false", "no", "f", "0", "0.0", "incorrect", "wrong")


def hits_of(batch: Batch, layout: Layout, reduced: Reduced | None, scores: Array) -> Array:
    """Which rows are hits; `reduced` is only needed where the scores bring their own prediction."""
    if layout.hit:
        return _booleans(batch, layout.hit)
    assert layout.label is not None
    labels = batch.columns[layout.label]
    if layout.target == EVENT:
        return _booleans(batch, layout.label)
    if layout.prediction:
        for name in (layout.prediction, layout.label):
            if isinstance(batch.columns[name], Lists) or np.ndim(batch.columns[name]) != 1:
                raise DataError(f"'{name}' must hold one value per row")
        predictions = np.asarray(batch.columns[layout.prediction])
        values = np.asarray(labels)
        if (predictions.dtype.kind == "U") != (values.dtype.kind == "U"):
            raise DataError(f"'{layout.prediction}' and '{layout.label}' are not of one kind: one is text, one numbers")
        equal: Array = predictions == values
        return equal
    index = class_indices(labels, layout.classes, batch.start)
    absent = None
    first = batch.columns[layout.scores[0]]
    n_classes: int | Ints = 2 if layout.binary else scores.shape[1]
    if isinstance(first, Lists):
        n_classes = first.lengths
    absent = (index < 0) | (index >= n_classes)
    if absent.any():
        row = int(np.flatnonzero(absent)[0])
        k = int(np.max(n_classes))
        hint = f"labels are class numbers 0 … {k - 1}"
        if int(index.min()) >= 1 and int(index.max()) == k:
            hint += f"; these run from 1 to {k}: subtract one"
        raise DataError(
            f"label {index[row]} is outside 0 … {k - 1} (row {batch.start + row + 1}{others(absent)})",
            hint,
        )
    assert reduced is not None
    hits: Array = reduced.predictions == index
    return hits


def others(bad: Array) -> str:
    """How many rows are as bad as the one that is named."""
    count = int(bad.sum())
    return f"; {count} such rows here" if count > 1 else ""


def weights_of(batch: Batch, name: str) -> Floats:
    values = batch.columns[name]
    if isinstance(values, Lists) or values.ndim != 1 or values.dtype.kind not in "fiub":
        raise DataError(f"'{name}' must be one number per row")
    weights = values.astype(np.float64)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"weights must be finite and not negative, found {weights[row]:g} (row {batch.start + row + 1})",
            "a row that should not count has the weight 0",
        )
    return weights


def class_indices(labels: Array | Lists, classes: tuple[str, ...] | None, first_row: int = 0) -> Ints:
    """Class numbers from numbers, or from names where the columns carry them."""
    if isinstance(labels, Lists) or labels.ndim != 1:
        raise DataError("labels must be one class number per row", "one-hot labels: take their argmax")
    if labels.dtype.kind == "U":
        known = {name: i for i, name in enumerate(classes or ())}
        unknown = [w for w in np.unique(labels).tolist() if w not in known]
        if unknown:
            hint = f"classes: {', '.join(known)}" if known else "give class numbers, or columns named prob_<class>"
            raise DataError(f"label '{unknown[0]}' is not a class", hint)
        return np.array([known[w] for w in labels.tolist()], dtype=np.int64)
    if labels.dtype.kind == "f":
        whole = np.isfinite(labels) & (labels == np.floor(labels))
        if not whole.all():
            row = int(np.flatnonzero(~whole)[0])
            raise DataError(
                f"labels must be class numbers, found {labels[row]:g} (row {first_row + row + 1})",
                "--skip-missing leaves rows with NaN out" if np.isnan(labels[row]) else None,
            )
    elif labels.dtype.kind not in "iub":
        raise DataError(f"labels must be class numbers, found {labels.dtype.name} values")
    elif labels.dtype == np.uint64:
        labels = np.minimum(labels, np.array(np.iinfo(np.int64).max, dtype=np.uint64))
    index: Ints = labels.astype(np.int64)
    return index


def _booleans(batch: Batch, name: str) -> Array:
    values = batch.columns[name]
    if isinstance(values, Lists) or values.ndim != 1:
        raise DataError(f"'{name}' must be one value per row")
    if values.dtype.kind == "U":
        lowered = np.char.lower(values)
        yes = np.isin(lowered, TRUE_WORDS)
        bad = ~yes & ~np.isin(lowered, FALSE_WORDS)
    elif values.dtype == bool or (
        values.dtype.kind in "iu" and values.size and values.min() >= 0 and values.max() <= 1
    ):
        return values.astype(bool, copy=False)
    else:
        yes = values == 1
        bad = ~yes & (values != 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        hint = "for class labels give --prediction as well" if name.lower() not in ("hit", "correct") else None
        raise DataError(f"'{name}' must be 0 or 1, found {values[row]} (row {batch.start + row + 1})", hint)
    return yes
