"""How much memory a command may take for the files it was given: 1 GB, and more for larger files.

Readers compare what a file claims with its size before they allocate anything. As a second guard, a thread compares the
memory of the process with a budget, and ends the process with a message if it takes more. This works on Linux only.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from bpmcli.errors import UsageError
from bpmcli.io.formats import file_and_group

VARIABLE = "BPMCLI_MEMORY"
"""The environment variable that sets another budget, such as 4G, or 0 for none."""

BASE = 960 << 20
"""The budget for small files, in bytes. Memory that is taken between two checks comes on top."""

PER_BYTE = 32
"""Further bytes for every byte of the files that were opened: float16 scores become float64, in several copies."""

INTERVAL = 0.03
"""Seconds between two checks."""

EXCEEDED = 3
"""Exit code of a process that took more than its budget."""

KEPT = 64 << 20
"""Freed bytes that the C library keeps for later. By default it gives them back to the system after every batch and
asks for them again, which costs a fifth of the time of `apply`."""
MAPPED = 32 << 20
"""Larger arrays are given back to the system as soon as they are freed."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""The numbers of these settings in malloc.h."""

own_process = False
"""Whether bpmcli may manage the memory of this process: true for the command line, false if it is used as a library."""

_sizes: dict[str, int | None] = {}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def grant(path: str) -> None:
    """Lets the budget grow with the size of a file that is opened. The size of a remote file is not known."""
    stated()
    if own_process and not _sizes:
        _keep_freed()
    if path not in _sizes:
        _sizes[path] = None if "://" in path else _size(path)


def _keep_freed() -> None:
    import ctypes  # numpy has imported it already

    with suppress(AttributeError, OSError, TypeError):  # only the GNU C library has it
        library = ctypes.CDLL(None)
        library.mallopt(M_TRIM_THRESHOLD, KEPT)
        library.mallopt(M_MMAP_THRESHOLD, MAPPED)


def _size(path: str) -> int:
    try:
        if os.path.isdir(path):
            return sum(entry.stat().st_size for entry in os.scandir(path))
        return os.stat(file_and_group(path)[0]).st_size
    except (OSError, ValueError):
        return 0


def stated() -> int | None:
    """The budget that the environment sets; None if it sets none."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    found = re.fullmatch(r"(\d{1,15})([KMG]?)B?", text.strip().upper())
    if found is None:
        raise UsageError(
            f"{VARIABLE}={text} is not a size", f"a number of bytes, such as {VARIABLE}=4G; {VARIABLE}=0 means no limit"
        )
    return int(found[1]) * _UNITS[found[2]]


def budget() -> int | None:
    """Bytes that the process may take. None means no limit: without input files, no input is untrusted."""
    wanted = stated()
    if wanted is not None:
        return wanted or None
    sizes = [size for size in list(_sizes.values()) if size is not None]
    return BASE + PER_BYTE * sum(sizes) if sizes and len(sizes) == len(_sizes) else None


class Watch:
    """Checks the memory of this process."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/self/statm", os.O_RDONLY)
            self._page = os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError):
            self._file = -1

    @property
    def possible(self) -> bool:
        return self._file >= 0

    def exceeded(self) -> bool:
        """Whether the process takes more than its budget."""
        if not self.possible or not (_sizes or VARIABLE in os.environ):
            return False
        limit = budget()
        return limit is not None and int(os.pread(self._file, 64, 0).split()[1]) * self._page > limit


def refusal() -> tuple[str, str]:
    """The message and the hint for a process that took more than its budget."""
    size = f"{(budget() or 0) / 2**30:.1f} GiB"
    return f"took more than {size} of memory, the budget for inputs of this size", f"{VARIABLE}=8G allows more"


__all__ = ["EXCEEDED", "INTERVAL", "VARIABLE", "Watch", "budget", "grant", "refusal"]
