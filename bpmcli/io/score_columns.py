"""Calibrated scores in place of the old ones; every other column stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bpmcli.core.data.rows import EVENT
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats
from bpmcli.errors import DataError
from bpmcli.io.columns import Lists
from bpmcli.io.formats.reader import Reader
from bpmcli.io.layout import NAMES, InputOptions, Layout, understand

if TYPE_CHECKING:
    from bpmcli.core.calibrators.recalibration import Recalibrated
    from bpmcli.io.params import Params

RENAMED = (("logprob", "prob"), ("log_prob", "prob"), ("logit", "prob"))
"""Scores that were logits come out as probabilities, and their columns are renamed."""


def layout_for_apply(reader: Reader, options: InputOptions, params: Params) -> Layout:
    """How to read a file that may come without labels."""
    if params.target == EVENT and not options.event:
        options = options._replace(event=True)
    if params.groups is not None and (column := params.groups.grouping.column):
        if column not in reader.columns:
            raise DataError(
                f"no column '{column}', which tells the groups of these parameters apart "
                f"(found: {', '.join(reader.columns)})",
                "fit without --by, or add the column",
            )
        options = options._replace(group=column)
    if params.target != EVENT and options.event:
        raise DataError("--event was given, but the parameters calibrate the predicted class", "fit with --event too")
    return understand(reader, options, outcomes=False)


def with_new_scores(
    columns: Mapping[str, Any], order: Sequence[str], layout: Layout, done: Recalibrated
) -> dict[str, Any]:
    """The columns in their order, scores replaced; logits become probabilities, and are renamed so."""
    fresh = _as_stored(done, layout)
    place = {name: i for i, name in enumerate(layout.scores)}
    renamed = {name: _renamed(name, layout, i) for name, i in place.items()}
    written = set(renamed.values())
    out: dict[str, Any] = {}
    for name in order:
        if name in place:
            out[renamed[name]] = fresh[:, place[name]] if len(place) > 1 else _as_before(columns[name], fresh)
        elif layout.kind == "log_odds" and name.lower() in NAMES["confidence"]:
            out[name] = done.confidence  # log-odds and confidence stay one thing
        elif name in columns and name not in written:  # old probabilities beside the logits make room for the new ones
            out[name] = columns[name]
    return out


def _as_stored(done: Recalibrated, layout: Layout) -> Floats:
    """The new scores in the form of the old ones: all classes, P(y = 1), a confidence, log-odds, percent."""
    if layout.kind == "log_odds":
        with np.errstate(divide="ignore"):
            odds = np.log(done.score) - np.log(done.complement)
        limited: Floats = np.clip(odds, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
        return limited
    fresh = done.score if done.probs is None or layout.binary else done.probs
    return fresh * 100.0 if layout.percent else fresh


def _as_before(old: Any, fresh: Any) -> Any:
    """Lists stay lists, each of its own length; none of their probability stays with classes that they lack."""
    if not isinstance(old, Lists):
        return fresh
    inside = np.arange(fresh.shape[1]) < old.lengths[:, None]
    if not inside.all():
        fresh = np.where(inside, fresh, 0.0)
        fresh /= fresh.sum(axis=1, keepdims=True)
    return Lists(fresh[inside], old.lengths)


def _renamed(name: str, layout: Layout, place: int) -> str:
    if layout.kind != "logits":
        return name
    for old, new in RENAMED:
        if name.lower().startswith(old):
            return new + name[len(old) :]
    return "probs" if len(layout.scores) == 1 else f"prob_{place}"
