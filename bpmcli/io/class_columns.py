"""Columns named after the classes themselves: `cat, dog, bird` beside a label that holds those names."""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.log_odds import SUM_REFUSED
from bpmcli.errors import DataError
from bpmcli.io.column_choice import OUTCOMES, ColumnChoice
from bpmcli.io.column_spread import Spread
from bpmcli.io.formats.reader import Reader

MOST_CLASSES = 100_000
"""A column with more distinct labels than this does not hold classes."""


def class_columns(reader: Reader, chosen: ColumnChoice) -> Spread | None:
    """The columns named after the classes, if their values are probabilities; None if that is not clear."""
    columns = reader.columns
    taken = {getattr(chosen.options, role) for role in (*OUTCOMES, "weight", "group", "id")}
    numbers = [name for name, c in columns.items() if c.width is None and c.kind in "fiu" and name not in taken]
    digits = [name for name in numbers if name.isdigit()]
    if len(digits) >= 2 and sorted(map(int, digits)) == list(range(len(digits))):
        found = sorted(digits, key=int)
        return (tuple(found), tuple(found)) if _sum_to_one(reader, found) else None
    label = chosen.one("label")
    if label is None or columns[label].kind not in "US" or len(numbers) < 2:
        return None
    seen = _values(reader, label)
    if len(seen) < 2 or not seen <= set(numbers):
        return None
    # A column such as `correct` holds hits, unless a label says that it is a class.
    outcomes = set(chosen.outcome_names()) - seen
    numbers = [name for name in numbers if name not in outcomes]
    exact = [name for name in numbers if name in seen]
    places = [numbers.index(name) for name in (exact[0], exact[-1])]
    # Some classes may occur in no row, so more columns are tried: those between the known classes, then all.
    for names in (exact, numbers[places[0] : places[1] + 1], numbers):
        if _sum_to_one(reader, names):
            return tuple(names), tuple(names)
    return None


def _values(reader: Reader, label: str) -> set[str]:
    seen: set[str] = set()
    for batch in reader.batches([label]):
        values = batch.columns[label]
        if not isinstance(values, Categorical):
            return set()
        seen.update(values.categories[code] for code in values.used().tolist())
        if len(seen) > MOST_CLASSES:
            return set()
    return seen - {""}


def _sum_to_one(reader: Reader, names: list[str]) -> bool:
    """Whether the first rows of these columns are distributions."""
    try:
        batch = next(iter(reader.batches(names, names)), None)
    except DataError:
        return False
    if batch is None:
        return False
    values = np.stack([np.asarray(batch.columns[name], dtype=np.float64) for name in names], axis=1)
    good = np.isfinite(values).all(axis=1)
    return bool(good.any() and (values[good] >= 0).all() and (np.abs(values[good].sum(axis=1) - 1) < SUM_REFUSED).all())
