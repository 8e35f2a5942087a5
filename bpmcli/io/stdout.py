"""Standard output as a place for data."""

from __future__ import annotations

import sys
from typing import TextIO


def data_stream() -> TextIO:
    """Standard output, UTF-8 from now on whatever the terminal is; names that are not UTF-8 keep their bytes."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    return sys.stdout
