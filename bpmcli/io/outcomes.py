"""Labels, correctness and weights of a batch, checked row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.rows import EVENT, UNKNOWN
from bpmcli.core.data.sample import Floats, Ints
from bpmcli.errors import DataError
from bpmcli.io.columns import Array, Lists
from bpmcli.io.formats.reader import ColumnBatch
from bpmcli.io.layout import Layout

if TYPE_CHECKING:
    import numpy.typing as npt

TRUE_WORDS = ("true", "yes", "t", "1", "1.0", "correct")
FALSE_WORDS = ("false", "no", "f", "0", "0.0", "-1", "-1.0", "incorrect", "wrong")


def hits_of(batch: ColumnBatch, layout: Layout, predictions: Ints | None = None, labels: Ints | None = None) -> Array:
    """Which rows are correct; `predictions` are only needed where they come from the scores.

    `labels`: the class number of each row's label, where it is known already.
    """
    if layout.hit:
        return _booleans(batch, layout.hit)
    assert layout.label is not None
    if layout.target == EVENT:
        named = batch.columns[layout.label]
        if has_named_event(layout) and _names_classes(named, layout.classes or ()):
            second: Array = class_indices(named, layout.classes, batch.start) == 1
            return second
        return _booleans(batch, layout.label, hits=False)
    if layout.prediction:
        equal = _equal(batch, layout.prediction, layout.label)
        return equal if layout.unknown is None else equal & ~unknown_rows(batch, layout)
    index = label_indices(batch, layout) if labels is None else labels
    n_classes = _class_counts(batch, layout)
    absent = ((index < 0) & (index != UNKNOWN)) | (index >= n_classes)
    if absent.any():
        raise _outside(batch, index, absent, int(np.max(n_classes)), _first_number(batch, layout))
    assert predictions is not None
    hits: Array = predictions == index
    return hits


def _class_counts(batch: ColumnBatch, layout: Layout) -> int | Ints:
    """How many classes the rows have; one number per row where the scores are lists."""
    first = batch.columns[layout.scores[0]]
    if isinstance(first, Lists):
        return first.lengths
    if layout.binary:
        return 2
    assert isinstance(first, np.ndarray)
    return len(layout.scores) if len(layout.scores) > 1 else int(first.shape[1])


def has_named_event(layout: Layout) -> bool:
    """Whether the event is the second of two classes whose names the columns carry."""
    numbers = layout.classes is not None and all(name.isdigit() for name in layout.classes)
    return layout.target == EVENT and layout.classes is not None and len(layout.classes) == 2 and not numbers


def _names_classes(labels: Array | Lists | Categorical, classes: tuple[str, ...]) -> bool:
    """Whether labels are names of the classes, and not words for 0 and 1, such as no and yes beside neg and pos."""
    if not isinstance(labels, Categorical):
        return _true_comes_first(labels, classes)
    words = {name.lower() for name in classes} & {*TRUE_WORDS, *FALSE_WORDS}
    return bool(words) or any(labels.categories[code] in classes for code in labels.used().tolist())


def _true_comes_first(labels: Array | Lists, classes: tuple[str, ...] | None) -> bool:
    """Whether labels are true and false, and the columns of scores are named after these, the one of true first."""
    named = [name.lower() for name in classes or ()] == ["true", "false"]
    return named and isinstance(labels, np.ndarray) and labels.dtype == bool


def _outside(batch: ColumnBatch, index: Ints, absent: Array, k: int, first: int) -> DataError:
    """Labels that are not among the classes, which are numbered from `first`."""
    row = int(np.flatnonzero(absent)[0])
    label, last = int(index[row]) + first, k - 1 + first
    hint = f"labels are class numbers {first} … {last}"
    if first and int(index[absent].min()) + first == 0:
        hint = "the columns of scores are numbered from 1: add one to the labels, or number the columns from 0"
    elif not first and int(index.min()) >= 1 and int(index.max()) == k:
        hint += f"; these run from 1 to {k}: subtract one"
    elif np.unique(index[absent]).size == 1:
        hint += f"; if label {label} means none of the classes, say --unknown {label}"
    return DataError(f"label {label} is outside {first} … {last} (row {batch.start + row + 1}{others(absent)})", hint)


def _equal(batch: ColumnBatch, prediction: str, label: str) -> Array:
    """Rows whose prediction is their label, both of them numbers or both text."""
    predictions, labels = batch.columns[prediction], batch.columns[label]
    for name, values in ((prediction, predictions), (label, labels)):
        if isinstance(values, Lists) or (not isinstance(values, Categorical) and values.ndim != 1):
            raise DataError(f"'{name}' must hold one value per row")
    if isinstance(predictions, Categorical) != isinstance(labels, Categorical):
        raise DataError(f"one of '{prediction}' and '{label}' is text, the other numbers", "store both in the same way")
    if isinstance(predictions, Categorical) and isinstance(labels, Categorical):
        known = {name: code for code, name in enumerate(labels.categories)}
        codes = np.array([known.get(name, -1) for name in predictions.categories], dtype=np.int64)
        same: Array = codes[predictions.codes] == labels.codes
        return same
    assert isinstance(predictions, np.ndarray)
    assert isinstance(labels, np.ndarray)
    if "V" in (predictions.dtype.kind, labels.dtype.kind):
        raise DataError(f"'{prediction}' and '{label}' must hold numbers or text")
    equal: Array = predictions == labels
    return equal


def others(bad: Array) -> str:
    """How many rows have the same fault as the one that a message names; empty if it is the only one."""
    count = int(bad.sum())
    return f"; {count} such rows here" if count > 1 else ""


def _numbers_in(values: Categorical) -> Array:
    """The numbers that a column of text holds; the text itself if it holds anything else."""
    try:
        numbers = np.array(values.categories, dtype=np.float64)
    except ValueError:
        numbers = np.array(values.categories)
    found: Array = numbers[values.codes]
    return found


LARGEST_WEIGHT, SMALLEST_WEIGHT = 1e290, 1e-290  # between them, sums and inverses are finite; less counts as 0


def weights_of(batch: ColumnBatch, name: str) -> Floats:
    """One finite weight per row."""
    values = batch.columns[name]
    if isinstance(values, Categorical):
        values = _numbers_in(values)
    if isinstance(values, Lists) or values.ndim != 1 or values.dtype.kind not in "fiub":
        raise DataError(f"'{name}' must be one number per row")
    weights = values.astype(np.float64)
    bad = ~((weights >= 0) & (weights <= LARGEST_WEIGHT))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        found = f"found {weights[row]:g} (row {batch.start + row + 1})"
        if np.isfinite(weights[row]) and weights[row] > 0:
            raise DataError(
                f"weights must be at most {LARGEST_WEIGHT:g}, {found}",
                "only ratios of weights count: divide them all by the largest",
            )
        raise DataError(
            f"weights must be finite and not negative, {found}", "give a row that should not count the weight 0"
        )
    return np.where(weights < SMALLEST_WEIGHT, 0.0, weights)


def label_indices(batch: ColumnBatch, layout: Layout) -> Ints:
    """The class number of each row's label."""
    assert layout.label is not None
    labels = batch.columns[layout.label]
    if layout.unknown is not None:
        return _with_unknown(batch, layout)
    index = class_indices(labels, layout.classes, batch.start)
    index = index - _first_number(batch, layout)
    # Labels -1 and 1 are common for two classes; together with 0 they would be three.
    if layout.binary and not isinstance(labels, Categorical) and not (index == 0).any():
        index = np.where(index == -1, 0, index)
    return index


def _first_number(batch: ColumnBatch, layout: Layout) -> int:
    """The number of the first class in numeric labels: 1 for columns p1 … pK, because labels are numbered like them."""
    names = layout.classes or ("",)
    from_one = names[0] == "1" and all(name.isdigit() for name in names)
    return int(from_one and not isinstance(batch.columns[layout.label or ""], Categorical))


def _with_unknown(batch: ColumnBatch, layout: Layout) -> Ints:
    """The class number of each row's label, or UNKNOWN."""
    assert layout.label is not None
    unknown, labels = unknown_rows(batch, layout), batch.columns[layout.label]
    found = np.full(batch.n, UNKNOWN)
    known = ~unknown
    kept = labels.take(known) if isinstance(labels, (Categorical, Lists)) else labels[known]
    part = batch._replace(n=int(known.sum()), columns={layout.label: kept})
    if part.n:
        found[known] = label_indices(part, layout._replace(unknown=None))
    return found


def unknown_rows(batch: ColumnBatch, layout: Layout) -> npt.NDArray[np.bool_]:
    """Which rows have the label that stands for none of the classes (--unknown)."""
    assert layout.label is not None
    assert layout.unknown is not None
    labels = batch.columns[layout.label]
    if isinstance(labels, Categorical):
        return np.array([name == layout.unknown for name in labels.categories], dtype=bool)[labels.codes]
    if isinstance(labels, Lists) or labels.ndim != 1:
        raise DataError("--unknown needs one label per row", "leave --unknown out")
    try:
        value = float(layout.unknown)
    except ValueError:
        message = f"--unknown {layout.unknown}: the labels in '{layout.label}' are numbers"
        raise DataError(message, "give the number that stands for none of the classes, such as --unknown -1") from None
    same: npt.NDArray[np.bool_] = labels == value
    return same


def class_indices(labels: Array | Lists | Categorical, classes: tuple[str, ...] | None, first_row: int = 0) -> Ints:
    """Class numbers from numbers, or from names where the columns carry them."""
    if isinstance(labels, Categorical):
        return _named_indices(labels, classes, first_row)
    if isinstance(labels, Lists) and not labels.ragged:
        labels = labels.matrix(0)
    if not isinstance(labels, Lists) and labels.ndim == 2 and labels.shape[1] > 1 and labels.dtype.kind in "fiub":
        return _one_hot(labels, first_row)
    if isinstance(labels, Lists) or labels.ndim != 1:
        raise DataError("labels must be one class number per row, or one-hot", "name another column with --label")
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
    elif _true_comes_first(labels, classes):
        labels = ~labels
    with np.errstate(invalid="ignore"):  # does not fit into int64, so it is outside every range of classes
        index: Ints = labels.astype(np.int64)
    return index


def _one_hot(labels: Array, first_row: int) -> Ints:
    """Class numbers from rows with a single 1."""
    binary = (labels == 0) | (labels == 1)
    good = binary.all(axis=1) & (labels.sum(axis=1) == 1)
    if not good.all():
        row = first_row + int(np.flatnonzero(~good)[0]) + 1
        raise DataError(
            f"labels with several values per row must hold a single 1 (row {row})",
            "--multi-label, if a row may have several labels" if binary.all() else "name another column with --label",
        )
    index: Ints = labels.argmax(axis=1).astype(np.int64)
    return index


def _named_indices(labels: Categorical, classes: tuple[str, ...] | None, first_row: int) -> Ints:
    known = {name: i for i, name in enumerate(classes or ())}
    index = np.array([known.get(name, -1) for name in labels.categories], dtype=np.int64)
    unknown = [code for code in labels.used().tolist() if index[code] < 0]
    if unknown:
        row = int(np.flatnonzero(labels.codes == unknown[0])[0])
        only = f"; --unknown {labels.categories[unknown[0]]}, if it means none of them" if len(unknown) == 1 else ""
        hint = (
            f"classes: {', '.join(list(known)[:20])}{only}"
            if known
            else "list the classes, one per line, in the order of the scores (that of y = 1 second), in a file beside "
            "the input: a.classes.txt beside a.csv; or give class numbers"
        )
        raise DataError(f"label '{labels.categories[unknown[0]]}' is not a class (row {first_row + row + 1})", hint)
    return index[labels.codes]


def _booleans(batch: ColumnBatch, name: str, hits: bool = True) -> Array:
    """A column of 0 and 1, true and false, or -1 and 1: hits, or else the y of an event."""
    values = batch.columns[name]
    if isinstance(values, Lists) or (not isinstance(values, Categorical) and values.ndim != 1):
        raise DataError(f"'{name}' must be one value per row")
    if isinstance(values, Categorical):
        words = [word.strip().lower() for word in values.categories]
        yes = np.array([word in TRUE_WORDS for word in words], dtype=bool)[values.codes]
        bad = ~yes & ~np.array([word in FALSE_WORDS for word in words], dtype=bool)[values.codes]
    elif values.dtype == bool or (
        values.dtype.kind in "iu" and values.size and values.min() >= 0 and values.max() <= 1
    ):
        return values.astype(bool, copy=False)
    elif values.dtype.kind not in "fiu":
        raise DataError(f"'{name}' must be 0 or 1, found {values.dtype.name} values")
    else:
        yes = values == 1
        none = values == (-1 if not (values == 0).any() else 0)
        bad = ~yes & ~none
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        found = values.categories[values.codes[row]] if isinstance(values, Categorical) else values[row]
        hint = f"if these are classes, say --label {name} --prediction COLUMN"
        if hits and name.lower() in ("hit", "correct"):
            hint = "write 1 for a correct prediction, 0 for a wrong one"
        elif not hits:
            text = isinstance(values, Categorical)
            hint = "write 1 for the event and 0 otherwise" if text else "name another column with --label"
        raise DataError(f"'{name}' must be 0 or 1, found {found} (row {batch.start + row + 1})", hint)
    return yes
