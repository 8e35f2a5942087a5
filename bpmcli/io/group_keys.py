"""Names of groups. How a value is stored does not matter: 1, 1.0, "1" and "1.0" are one group, called 1.

pandas turns a column of integers into floats as soon as one of them is missing, and csv has only text; calibrators
fitted on one kind of file must find their groups in the other.
"""

from __future__ import annotations

import re

import numpy as np

from bpmcli.core.data.categorical import Categorical, categorical
from bpmcli.errors import DataError
from bpmcli.io.columns import Array, Lists

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,15})(\.\d+)?")
"""Plain decimals. 007 and 1e3 stay as they are: they are more often names than numbers."""

_FLAGS = {"true": "True", "false": "False"}


_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(\.\d*?)?0*(Z|\+00:?00)?")


def group_name(text: str) -> str:
    """The name of the group that a text stands for."""
    if text.lower() in _FLAGS:
        return _FLAGS[text.lower()]
    if not _NUMBER.fullmatch(text):
        return _time_name(text)
    whole, _, part = text.partition(".")
    part = part.rstrip("0")
    name = f"{whole}.{part}" if part else whole
    return "0" if name == "-0" else name


def _time_name(text: str) -> str:
    """Times in one spelling; midnight becomes the date alone, because some formats do not store the time."""
    time = _TIME.fullmatch(text)
    if not time:
        return text
    clock = time[2] if time[2].count(":") == 2 else f"{time[2]}:00"
    fraction = (time[3] or "").rstrip(".")
    return time[1] if clock == "00:00:00" and not fraction else f"{time[1]} {clock}{fraction}"


def group_names(values: Array | Lists | Categorical) -> Categorical:
    """The group of every row, by name."""
    if isinstance(values, Lists):
        raise DataError("groups must be one value per row", "name another column with --by")
    if not isinstance(values, Categorical):
        if values.ndim != 1 or values.dtype.kind not in "biufUS":
            raise DataError(f"groups must be text or numbers, found {values.dtype.name} values")
        distinct, codes = np.unique(values, return_inverse=True)
        values = Categorical([str(value) for value in distinct.tolist()], codes.astype(np.int64))
    names = [group_name(name) for name in values.categories]
    if len(set(names)) == len(names):
        return Categorical(names, values.codes)
    merged = categorical(names)
    return Categorical(merged.categories, merged.codes[values.codes])
