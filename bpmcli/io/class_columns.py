"""Columns named after the classes themselves: `cat, dog, bird` beside a label that holds those names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpmcli.core.data.categorical import Categorical
from bpmcli.core.data.log_odds import SUM_REFUSED
from bpmcli.errors import DataError
from bpmcli.io.column_choice import OUTCOMES, ColumnChoice, as_option, listed
from bpmcli.io.formats.reader import Reader
from bpmcli.io.known_names import Spread

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_CLASSES = 100_000
"""A column with more distinct labels than this does not hold classes."""


def class_columns(reader: Reader, chosen: ColumnChoice) -> Spread | None:
    """The columns named after the classes, if their values are probabilities; None if that is not clear."""
    for names in _candidates(reader, chosen):
        if (found := _first_rows(reader, names)) is not None and _sum_to(found, 1.0):
            return tuple(names), tuple(names)
    return None


def unclear_columns(reader: Reader, chosen: ColumnChoice) -> DataError | None:
    """The refusal of columns that are named after the classes, but do not hold probabilities."""
    candidates = _candidates(reader, chosen)
    if not candidates or chosen.one("label") is None:  # columns without names are numbered too
        return None
    names = candidates[min(1, len(candidates) - 1)]  # the known classes and the columns between them
    found, option = _first_rows(reader, names), as_option(names)
    if found is None or not option:
        return None
    hint = f"say --logits {option} or --probs {option}"
    if _sum_to(found, 100.0):
        hint = f"if these are percentages, say --probs {option} --scale percent"
    elif not ((found >= 0) & (found <= 1)).all():
        hint = f"if these are logits, say --logits {option}"
    return DataError(f"the columns {listed(names)} are named after classes, but their rows do not sum to 1", hint)


def _candidates(reader: Reader, chosen: ColumnChoice) -> list[list[str]]:
    """Sets of columns that may be named after the classes, the smallest first; none if there is no such column."""
    columns = reader.columns
    taken = {getattr(chosen.options, role) for role in (*OUTCOMES, "weight", "group", "id")}
    numbers = [name for name, c in columns.items() if c.width is None and c.kind in "fiu" and name not in taken]
    digits = [name for name in numbers if name.isdigit()]
    if len(digits) >= 2 and sorted(map(int, digits)) == list(range(len(digits))):
        return [sorted(digits, key=int)]
    label = chosen.one("label")
    if label is None or columns[label].kind not in "US" or len(numbers) < 2:
        return []
    seen = _values(reader, label)
    if len(seen) < 2 or not seen <= set(numbers):
        return []
    # A column such as `correct` holds hits, unless it is the name of a label.
    outcomes = set(chosen.outcome_names()) - seen
    numbers = [name for name in numbers if name not in outcomes]
    exact = [name for name in numbers if name in seen]
    places = [numbers.index(name) for name in (exact[0], exact[-1])]
    # Some classes may occur in no row, so the columns between the known classes are tried next, then all columns.
    return [exact, numbers[places[0] : places[1] + 1], numbers]


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


def _first_rows(reader: Reader, names: list[str]) -> npt.NDArray[np.float64] | None:
    """The first rows of these columns that have no missing value; None if there are none."""
    try:
        batch = next(iter(reader.batches(names, names)), None)
    except DataError:
        return None
    if batch is None:
        return None
    values = np.stack([np.asarray(batch.columns[name], dtype=np.float64) for name in names], axis=1)
    values = values[np.isfinite(values).all(axis=1)]
    return values if values.size else None


def _sum_to(values: npt.NDArray[np.float64], total: float) -> bool:
    """Whether these rows are distributions, as probabilities (1) or percentages (100)."""
    return bool((values >= 0).all() and (np.abs(values.sum(axis=1) - total) < SUM_REFUSED * total).all())
