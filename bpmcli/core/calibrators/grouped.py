"""One calibrator per group of rows, and a pooled calibrator for groups that are small or new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.calibrators.base import Calibrator
from bpmcli.core.calibrators.marginal import class_rows, pooled_rows
from bpmcli.core.calibrators.registry import FitOptions, Fitted, fit_calibrator, method_named
from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import EVENT, Rows, positions
from bpmcli.core.data.sample import Ints
from bpmcli.errors import BpmError, DataError, UsageError

COLUMN, PREDICTED, MARGINAL, LABEL = "column", "predicted-class", "marginal", "label"
"""Groups are the values of a column, the predicted classes, every class against the rest, or the labels of multi-label
rows, each with its own probability."""

MIN_GROUP = 200
"""With fewer rows, the pooled curve of real models is mostly closer to the truth than the curve of the group."""

NAMED = 5
"""A notice names this many groups, then says how many more there are."""


class Grouping(NamedTuple):
    """What defines the groups, and how many rows a group needs for a calibrator of its own."""

    kind: str
    column: str | None = None
    minimum: int = MIN_GROUP


@dataclass(frozen=True)
class GroupCalibrators:
    """Calibrators by group."""

    grouping: Grouping
    members: Mapping[str, Calibrator]

    def split(self, rows: Rows) -> Iterator[tuple[str, Ints]]:
        """Every group that occurs among the rows, with the positions of its rows."""
        return positions(group_keys(rows, self.grouping))


class GroupFit(NamedTuple):
    """The pooled fit, the fits of single groups, and the reasons why other groups have none."""

    grouping: Grouping
    pooled: Fitted
    fits: dict[str, Fitted]
    rows: dict[str, int]
    without: dict[str, str]

    @property
    def notices(self) -> tuple[Notice, ...]:
        if not self.without:
            return self.pooled.notices
        few = list(self.without)[:NAMED]
        names = ", ".join(few) + (f" and {len(self.without) - NAMED} more" if len(self.without) > NAMED else "")
        rows = sum(self.rows[name] for name in self.without)
        return *self.pooled.notices, notice(
            "groups-pooled", count=len(self.without), total=len(self.rows), rows=rows,
            minimum=self.grouping.minimum, names=names,
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """The fits as the parameter file stores them."""
        return {
            "kind": self.grouping.kind,
            "column": self.grouping.column,
            "minimum": self.grouping.minimum,
            "groups": {
                name: {
                    "n": self.rows[name],
                    "parameters": fit.calibrator.parameters(),
                    "notices": [str(n) for n in fit.notices],
                }
                for name, fit in self.fits.items()
            },
            "pooled": {name: {"n": self.rows[name], "why": why} for name, why in self.without.items()},
        }


def group_keys(rows: Rows, grouping: Grouping) -> np.ndarray | Categorical:
    """The group of each row, as text."""
    if grouping.kind in (COLUMN, LABEL):
        if rows.groups is None:
            raise DataError("these rows have no groups")
        return rows.groups
    if rows.target == EVENT or rows.logits is None or rows.predictions is None:
        raise DataError(
            "classwise calibration needs the scores of all classes, but this input has only confidences",
            "--by COLUMN takes the column of predicted classes",
        )
    return rows.predictions.astype(np.str_)


def fit_groups(method: str, rows: Rows, options: FitOptions, grouping: Grouping) -> GroupFit:
    """A fit to every group of at least `minimum` rows, and one to all rows.

    With `--marginal` a group is a class k against the rest. Its correct rows are those whose true class is k, and there
    must be at least `minimum` of these.
    """
    if grouping.kind == MARGINAL:
        if method_named(method).needs_distribution:
            raise UsageError(
                f"{method} works on all classes at once", "choose another --method with --marginal, such as isotonic"
            )
        parts = [(str(k), part, int(part.hits.sum())) for k, part in class_rows(rows)]
        pooled = fit_calibrator(method, pooled_rows(rows), options)
    else:
        if grouping.kind in (COLUMN, LABEL):
            found = rows.by_group()
        else:
            found = ((name, rows.take(index)) for name, index in GroupCalibrators(grouping, {}).split(rows))
        parts = [(name, part, part.sample.n) for name, part in found]
        pooled = fit_calibrator(method, rows, options)
    fits: dict[str, Fitted] = {}
    without: dict[str, str] = {}
    for name, part, size in parts:
        if size < grouping.minimum:
            without[name] = f"fewer than {grouping.minimum} rows"
            continue
        try:
            fits[name] = fit_calibrator(method, part, options)
        except BpmError as error:
            without[name] = error.message
    return GroupFit(grouping, pooled, fits, {name: size for name, _, size in parts}, without)


def fit_with_groups(
    method: str, rows: Rows, options: FitOptions, grouping: Grouping | None
) -> tuple[Calibrator, GroupCalibrators | None]:
    """The calibrator of all rows and, if there is a grouping, the calibrators of its groups."""
    if grouping is None:
        return fit_calibrator(method, rows, options).calibrator, None
    found = fit_groups(method, rows, options, grouping)
    members = {name: fit.calibrator for name, fit in found.fits.items()}
    return found.pooled.calibrator, GroupCalibrators(grouping, members)


def load_groups(document: Mapping[str, Any], method: str) -> GroupCalibrators:
    """The inverse of `GroupFit.document`; raises a DataError that names the group if parameters are bad."""
    kind, column = document["kind"], document.get("column")
    if kind not in (COLUMN, PREDICTED, MARGINAL, LABEL) or (column is None) == (kind == COLUMN):
        raise DataError(f"kind '{kind}' with column {column!r} is not a grouping that `bpmcli fit` writes")
    calibrator, members = method_named(method).calibrator, {}
    for name, group in document["groups"].items():
        try:
            members[name] = calibrator.from_parameters(group["parameters"])
        except DataError as error:
            raise error.at(f"groups.{name}.parameters") from None
    return GroupCalibrators(Grouping(kind, column, document["minimum"]), members)
