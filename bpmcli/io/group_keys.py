"""Names of groups. A group is a value, however it is stored: 1, 1.0, "1" and "1.0" are one group, called 1.

pandas turns a column of integers into floats as soon as one of them is missing, and csv has only text; calibrators
fitted on one kind of file must find their groups in the other.
"""

from __future__ import annotations

import re

import numpy as np

from bpmcli.io.columns import Array

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,15})(\.\d+)?")
"""Plain decimals. 007 and 1e3 stay as they are: they are more often names than numbers."""

_FLAGS = {"true": "True", "false": "False"}


def group_name(text: str) -> str:
    """The name of the group that a text stands for."""
    if text.lower() in _FLAGS:
        return _FLAGS[text.lower()]
    if not _NUMBER.fullmatch(text):
        return text
    whole, _, part = text.partition(".")
    part = part.rstrip("0")
    name = f"{whole}.{part}" if part else whole
    return "0" if name == "-0" else name


def group_names(values: Array) -> Array:
    """The group of every row, by name."""
    if values.dtype.kind in "iu":
        return values.astype(np.str_)
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([group_name(str(value)) for value in distinct.tolist()], dtype=np.str_)[inverse]
