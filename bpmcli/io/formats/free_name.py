"""A name for a converted file that no file has yet, so that the line in a hint overwrites nothing."""

from __future__ import annotations

import os
from itertools import count


def free_name(path: str, suffix: str) -> str:
    """The name of a file with another suffix, in the current folder: a.csv for a.xlsx, else a-2.csv, a-3.csv, …"""
    stem = os.path.splitext(os.path.basename(path))[0]
    names = (f"{stem}{suffix}" if k == 1 else f"{stem}-{k}{suffix}" for k in count(1))
    return next(name for name in names if not os.path.lexists(name))
