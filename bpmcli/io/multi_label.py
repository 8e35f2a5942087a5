"""Multi-label files: N×K independent probabilities and N×K labels of 0 and 1.

Every pair of a row and a label becomes a row of its own, an event with its probability. The pairs of one row form a
cluster, because they are not independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.log_odds import log_odds_of_confidences
from bpmcli.core.data.rows import EVENT, Rows, row_hashes
from bpmcli.core.data.sample import BARE_LIMIT, LOG_ODDS_LIMIT, Floats
from bpmcli.errors import DataError
from bpmcli.io.column_choice import ColumnChoice, InputOptions, listed
from bpmcli.io.columns import Array, Lists
from bpmcli.io.formats.reader import ColumnBatch, ColumnInfo, Reader
from bpmcli.io.known_names import NAMES, prefixed, several
from bpmcli.io.layout import Layout, is_percent, key_column
from bpmcli.io.outcomes import others, weights_of
from bpmcli.io.scores import scores_of


def understand_multi_label(reader: Reader, options: InputOptions, outcomes: bool = True) -> Layout:
    """Which columns hold the probabilities and the labels; each is one array, or one column per label."""
    columns = reader.columns
    chosen = ColumnChoice(columns, options)
    kind, scores, names = chosen.scores()
    if kind not in ("probs", "logits") or (len(scores) == 1 and columns[scores[0]].width is None):
        raise DataError(
            f"--multi-label needs a probability for each label, but '{scores[0]}' is one number per row",
            "name the columns or the array with --probs or --logits",
        )
    labels = _label_columns(columns, options, chosen, scores, names) if outcomes else ()
    return Layout(
        kind, scores, binary=False, classes=names, label=None, hit=None, prediction=None,
        weight=options.weight and chosen.existing(options.weight, "--weight"),
        group=options.group and chosen.existing(options.group, "--by"),
        target=EVENT, percent=is_percent(options, kind),
        n_classes=(len(scores) if len(scores) > 1 else columns[scores[0]].width) or 0,
        cluster=key_column(chosen, options.cluster, "--cluster"), labels=labels, multi_label=True,
        each_label=options.each_label,
    )  # fmt: skip


def _label_columns(
    columns: Mapping[str, ColumnInfo],
    options: InputOptions,
    chosen: ColumnChoice,
    scores: Sequence[str],
    names: tuple[str, ...] | None,
) -> tuple[str, ...]:
    """The array of labels, or one column per label in the order of the probabilities."""
    if options.label and options.label in columns:
        return (options.label,)
    left = [name for name in columns if name not in scores]
    if options.label:
        spread = several(options.label, left)
    else:
        single = [name for name in left if name.lower() in NAMES["label"] and columns[name].width is not None]
        if len(single) == 1:
            return (single[0],)
        spread = next((found for name in NAMES["label"] if (found := prefixed(name, left))), None)
    if spread is None:
        raise DataError(
            f"no columns with labels of 0 and 1 (found: {listed(columns)})",
            "name them with --label: an array, a prefix (label), a list (a,b,c) or a pattern ('y_*')",
        )
    ordered, labels = spread
    if names and set(names) == set(labels):
        return tuple(ordered[labels.index(name)] for name in names)
    return ordered


def multi_label_rows(batch: ColumnBatch, layout: Layout, odd: Counter[str], outcomes: bool) -> Rows:
    """Every pair of row and label as a row, the pairs of one row after another."""
    first = batch.columns[layout.scores[0]]
    if isinstance(first, Lists) and first.ragged:
        raise DataError(
            f"'{layout.scores[0]}' has lists of different lengths, but --multi-label needs one value per label"
        )
    scores = scores_of(batch, layout)
    n, k = scores.shape
    x = _log_odds(scores, layout, batch.start)
    odd["saturated"] += int(np.count_nonzero(np.abs(x) >= BARE_LIMIT)) if layout.kind == "probs" else 0
    odd["above-one"] += int(np.count_nonzero(scores > 1.0)) if layout.kind == "probs" else 0
    hits = labels_of(batch, layout, (n, k)).ravel() if outcomes else np.zeros(n * k, dtype=bool)
    weights = np.repeat(weights_of(batch, layout.weight), k) if layout.weight and outcomes else None
    names = layout.classes or tuple(str(i) for i in range(k))
    groups = _repeated(batch, layout.group, k)
    if layout.each_label:
        groups = Categorical(list(names), np.tile(np.arange(k), n))
    clusters = _repeated(batch, layout.cluster, k) if outcomes else None
    if clusters is None and outcomes:
        # Resamples draw items in the order of their names, so the content of a row comes first in a name, and not its
        # place in the file. Its number distinguishes it from rows of the same content.
        content = [x, hits.reshape(n, k).astype(np.float64)] + ([] if weights is None else [weights[::k, None]])
        keys = row_hashes(np.concatenate(content, axis=1)).tolist()
        items = [f"{key:016x}-{batch.start + row:016x}" for row, key in enumerate(keys)]
        clusters = Categorical(items, np.repeat(np.arange(n), k))
    return Rows(
        x.ravel(), hits, weights, groups=groups, from_probs=layout.kind == "probs", target=EVENT, clusters=clusters,
        label_names=names,
    )  # fmt: skip


def _log_odds(scores: Array, layout: Layout, first_row: int) -> Floats:
    if layout.kind == "probs":
        return log_odds_of_confidences(scores, first_row, "probabilities")
    x: Floats = np.asarray(scores, dtype=np.float64)
    bad = np.asarray(~np.isfinite(x).all(axis=1))
    if bad.any():
        row = first_row + int(np.flatnonzero(bad)[0]) + 1
        raise DataError(f"logits must be finite (row {row}{others(bad)})", "--skip-missing leaves such rows out")
    limited: Floats = np.clip(x, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
    return limited


def labels_of(batch: ColumnBatch, layout: Layout, shape: tuple[int, int]) -> np.ndarray:
    """N×K labels of 0 and 1 as booleans."""
    columns = [batch.columns[name] for name in layout.labels]
    for name, column in zip(layout.labels, columns, strict=True):
        if isinstance(column, Categorical):
            raise DataError(f"'{name}' holds text, but labels must be 0 or 1")
        if len(columns) > 1 and (isinstance(column, Lists) or column.ndim != 1):
            raise DataError(f"'{name}' holds several values per row", "store one label per column, or all in one array")
    arrays = [column.matrix(0) if isinstance(column, Lists) else column for column in columns]
    values = np.asarray(arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=1))  # type: ignore[arg-type]
    if values.shape != shape:
        size = " × ".join(str(side) for side in values.shape)
        raise DataError(
            f"{shape[0]} × {shape[1]} probabilities but {size} labels",
            "--multi-label needs one label for each probability",
        )
    bad = ~((values == 0) | (values == 1))
    if bad.any():
        row, label = (int(i) for i in np.argwhere(bad)[0])
        raise DataError(f"labels must be 0 or 1, found {values[row, label]} (row {batch.start + row + 1})")
    found: np.ndarray = values == 1
    return found


def _repeated(batch: ColumnBatch, name: str | None, k: int) -> Categorical | None:
    """The group of each row, once for each of its labels."""
    if name is None:
        return None
    from bpmcli.io.group_keys import group_names

    groups = group_names(batch.columns[name])
    return Categorical(groups.categories, np.repeat(groups.codes, k))
