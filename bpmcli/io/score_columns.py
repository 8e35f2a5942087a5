"""Puts calibrated scores in place of the old ones; every other column stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bpmcli.core.data.rows import EVENT
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Ints
from bpmcli.errors import BpmError, DataError
from bpmcli.io.column_choice import ColumnChoice, listed
from bpmcli.io.columns import Lists, Objects, is_text
from bpmcli.io.formats.reader import ColumnInfo, Reader
from bpmcli.io.formats.writer import column_of_matrix
from bpmcli.io.known_names import NAMES, SCORES, split_of
from bpmcli.io.layout import InputOptions, Layout, understand
from bpmcli.io.structs import is_spark_vector, struct_of, vector_values

if TYPE_CHECKING:
    from bpmcli.core.calibrators.grouped import GroupCalibrators
    from bpmcli.core.calibrators.recalibration import Recalibrated
    from bpmcli.io.params import Params

RENAMED = (("logprob", "prob"), ("log_prob", "prob"), ("logit", "prob"))
"""New names for columns of logits that are written as probabilities."""


SMALLEST = 5e-324
"""The smallest positive float64."""


def options_for_apply(reader: Reader, options: InputOptions, params: Params) -> InputOptions:
    """The options given for this input; where none is given, the option that was given to `fit`.

    If a column that was named for the fit does not exist here, columns are recognised by their names.
    """
    if params.target == EVENT and not options.event:
        options = options._replace(event=True)
    if params.groups is not None and (column := params.groups.grouping.column):
        if column not in reader.columns:
            raise DataError(
                f"no column '{column}', which holds the groups of these parameters "
                f"(found: {', '.join(reader.columns)})",
                "fit without --by, or add the column",
            )
        options = options._replace(group=column)
    if params.groups is not None:
        options = _with_label_groups(options, params.groups)
    if params.target != EVENT and options.event:
        raise DataError("--event was given, but the parameters calibrate the predicted class", "fit with --event too")
    if params.target != EVENT and options.multi_label:
        raise DataError(
            "--multi-label was given, but the parameters calibrate the predicted class", "fit with --multi-label too"
        )
    known: dict[str, Any] = {name: value for name, value in params.columns.items() if getattr(options, name) is None}
    if any(getattr(options, name) for name in SCORES):
        known = {name: value for name, value in known.items() if name not in SCORES}
    both = options._replace(**known)
    try:
        understand(reader, both, outcomes=False)
    except BpmError:
        return options
    return both


def same_part(reader: Reader, layout: Layout, options: InputOptions, params: Params) -> bool:
    """Whether `fit` would take its scores from the same part of this file: `cal_logits` and `test_logits` differ."""
    as_fitted = options._replace(**{role: params.columns.get(role) for role in SCORES})
    try:
        fitted = understand(reader, as_fitted, outcomes=False)
    except BpmError:
        return True
    return split_of(fitted.scores[0])[1] == split_of(layout.scores[0])[1]


def _with_label_groups(options: InputOptions, groups: GroupCalibrators) -> InputOptions:
    """The options with the labels as groups, if there is a calibrator for each label."""
    from bpmcli.core.calibrators.grouped import LABEL

    if groups.grouping.kind != LABEL:
        return options
    if not options.multi_label:
        raise DataError("these parameters have a calibrator for each label", "add --multi-label")
    return options._replace(each_label=True)


def with_new_scores(
    columns: Mapping[str, Any],
    known: Mapping[str, ColumnInfo],
    layout: Layout,
    done: Recalibrated,
    as_probs: bool = False,
) -> dict[str, Any]:
    """The columns in the order of `known`, those of the file; scores are replaced by scores of the same kind and name.

    Logits become logarithms of the calibrated probabilities, or with `as_probs` probabilities under a new name.
    """
    to_probs = writes_probs(layout, as_probs)
    first = columns[layout.scores[0]]
    fresh = _as_stored(done, layout, first.lengths.size if isinstance(first, Lists) else len(first))
    place = {name: i for i, name in enumerate(layout.scores)}
    renamed = {name: _as_probs(name, layout, i) if to_probs else name for name, i in place.items()}
    lists = known[layout.scores[0]].width is not None
    # Probabilities beside the logits are replaced too, so that both agree.
    beside = {_as_probs(name, layout, i): i for name, i in place.items()} if are_logits(layout) else {}
    beside = {name: i for name, i in beside.items() if name in columns and _holds_numbers(known[name], lists)}
    taken = [name for name in renamed.values() if name in known and name not in place and name not in beside]
    if taken:
        said = f"'{taken[0]}' is a column already, so the probabilities cannot be written under this name"
        raise DataError(said, "rename that column, or leave out --as probs")
    out: dict[str, Any] = {}
    for name, info in known.items():
        if name in place:
            new = _in_kind(columns[name], fresh, done, layout, place[name], to_probs)
            out[renamed[name]] = struct_of(new, layout.classes) if layout.keyed and layout.classes else new
        elif layout.kind == "log_odds" and name.lower() in NAMES["confidence"] and _holds_numbers(info, lists):
            out[name] = done.confidence  # replaced too, so that log-odds and confidence agree
        elif name in beside:
            new = fresh[:, beside[name]] if len(place) > 1 else _beside(info, columns[name], layout, first, fresh)
            out |= {} if to_probs else {name: new}
        elif name in columns:
            out[name] = columns[name]
    return out


def _in_kind(old: Any, fresh: Floats, done: Recalibrated, layout: Layout, place: int, to_probs: bool) -> Any:
    """The new scores of the column at this place, in the kind of the old ones unless they become probabilities."""
    logarithms = layout.kind in ("logits", "log_odds") and not to_probs
    of_event = layout.multi_label or layout.kind == "log_odds"
    values = _log_odds(done).reshape(fresh.shape) if logarithms and of_event else fresh
    new = values[:, place] if len(layout.scores) > 1 else _as_before(old, values)
    return _logarithms(new) if logarithms and not of_event else new


def check_recognised(source: Reader, layout: Layout, names: Sequence[str]) -> None:
    """Refuse to write a table in which the columns of another array would be taken for the scores.

    In an npz file, `confidence` is recognised beside a matrix `p`. In a table this matrix becomes p_0, p_1, …, which
    are recognised before `confidence`.
    """
    known = source.columns
    if _recognised(known) != layout.scores:  # an option names the scores, and will name those of the output
        return
    found = _recognised({name: known.get(name, ColumnInfo(name, None, "f")) for name in names})
    for name, info in known.items():
        exact = any(name.lower() in NAMES[role] for role in SCORES)
        if not exact and info.width is not None and name not in names and column_of_matrix(name, 0) in found:
            raise DataError(
                f"'{name}' would become columns {listed(found)}, which are taken for scores",
                "rename it, or write npz: -o out.npz",
            )


def _recognised(columns: Mapping[str, ColumnInfo]) -> Sequence[str]:
    """The columns that are taken for the scores if no option names them."""
    try:
        return ColumnChoice(columns, InputOptions()).scores()[1]
    except DataError:
        return ()


def _holds_numbers(info: ColumnInfo, lists: bool) -> bool:
    """Whether a column holds floating-point numbers, one per row or, with `lists`, several."""
    return info.kind == "f" and (info.width is not None) == lists


def _beside(info: ColumnInfo, old: Any, layout: Layout, own: Any, fresh: Floats) -> Any:
    """The new probabilities in the form of the `old` ones (lists, objects or a matrix) beside the logits `own`."""
    if info.classes is not None:
        if not layout.keyed or set(info.classes) != set(layout.classes or ()):
            said = f"'{info.name}' holds objects, but the scores have no such keys"
            raise DataError(said, "rename that column, or leave it out")
        return struct_of(fresh, layout.classes or ())
    if info.width is None:
        return fresh
    lengths, expected = _lengths(old), _lengths(own)
    if not np.array_equal(lengths, expected):
        said = f"'{info.name}' has another number of values per row than the scores"
        raise DataError(said, "rename that column, or leave it out")
    return fresh if isinstance(old, np.ndarray) else _as_before(Lists(np.empty(0), lengths), fresh)


def _lengths(column: Any) -> Ints:
    """The number of values in every row of a matrix or of lists."""
    if isinstance(column, Lists):
        return column.lengths
    if isinstance(column, np.ndarray):
        return np.full(len(column), column.shape[1])
    if isinstance(column, Objects):
        values = [value.get("values") if isinstance(value, dict) else value for value in column.values]
        return np.array([len(value) if isinstance(value, list) else 0 for value in values])
    return _lengths_of_arrow(column)


def _lengths_of_arrow(column: Any) -> Ints:
    """The same for arrow columns: lists, vectors of Spark, and lists as text. A row without numbers counts as empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from bpmcli.io.formats.text_lists import as_lists

    try:
        if is_spark_vector(column.type):
            column = vector_values(column)
        elif is_text(column.type):
            column = as_lists(pa.record_batch({"": column}), [""], 0).column(0)
    except DataError:
        return np.zeros(len(column), dtype=np.int64)
    lengths: Ints = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return lengths


def are_logits(layout: Layout) -> bool:
    """Whether the scores are logits, of all classes or of y = 1, and not the log-odds of a confidence."""
    return layout.kind == "logits" or (layout.kind == "log_odds" and layout.binary)


def writes_probs(layout: Layout, as_probs: bool) -> bool:
    """Whether `--as probs` turns these scores into probabilities."""
    return as_probs and are_logits(layout)


def writes_log_odds(layout: Layout, as_probs: bool) -> bool:
    """Whether the new scores are log-odds, which never round to 0 or 1."""
    return layout.kind == "log_odds" and not writes_probs(layout, as_probs)


def keyed_column(layout: Layout, as_probs: bool) -> str | None:
    """The column of the output that holds the new scores as an object per row; None if they have another form."""
    if not layout.keyed:
        return None
    return _as_probs(layout.scores[0], layout, 0) if writes_probs(layout, as_probs) else layout.scores[0]


def _as_stored(done: Recalibrated, layout: Layout, rows: int) -> Floats:
    """The new probabilities of `rows` rows in the form of the old scores: all classes, P(y = 1), confidence, percent.

    In a multi-label file every row has several scores, one after another.
    """
    fresh = done.score if done.probs is None or layout.binary else done.probs
    if layout.multi_label:
        fresh = done.score.reshape(rows, -1)
    return fresh * 100.0 if layout.percent else fresh


def _log_odds(done: Recalibrated) -> Floats:
    with np.errstate(divide="ignore"):
        odds = np.log(done.score) - np.log(done.complement)
    limited: Floats = np.clip(odds, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
    return limited


def _as_before(old: Any, fresh: Any) -> Any:
    """Lists stay lists with their own lengths; classes that a list lacks get no probability."""
    if not isinstance(old, Lists):
        return fresh
    inside = np.arange(fresh.shape[1]) < old.lengths[:, None]
    if not inside.all():
        fresh = np.where(inside, fresh, 0.0)
        fresh /= fresh.sum(axis=1, keepdims=True)
    return Lists(fresh[inside], old.lengths)


def _logarithms(values: Any) -> Any:
    """Logits whose softmax gives these probabilities; a probability of 0 gets the smallest finite logit."""
    if isinstance(values, Lists):
        return Lists(_logarithms(values.values), values.lengths)
    return np.log(np.maximum(values, SMALLEST))


def _as_probs(name: str, layout: Layout, place: int) -> str:
    """The new name of a column of logits that becomes a column of probabilities."""
    for old, new in RENAMED:
        if name.lower().startswith(old):
            return new + name[len(old) :]
    return "probs" if len(layout.scores) == 1 else f"prob_{place}"
