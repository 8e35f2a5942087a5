"""Inputs that can be read only once: standard input, pipes, `<(...)` and devices.

They are copied to a temporary file, because an input is opened several times: columns are looked at before rows are
read. Worker processes find the copies through an environment variable.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import IO

from bpmcli.errors import DataError
from bpmcli.io.formats import STDIN

STREAM_LIMIT = 4 << 30
"""The most bytes that are copied from a stream; a longer one counts as endless."""

HEAD = 1 << 16
"""Bytes by which the format is recognised."""

_COPIES = "BPMCLI_STREAM_COPIES"
_BLOCK = 1 << 20
_own: dict[tuple[str, int], str] = {}
unfinished: set[str] = set()
"""Copies that exist now."""


def is_stream(path: str) -> bool:
    """Whether a path can be read only once: anything but a regular file, a directory or a remote path."""
    if path == STDIN or path in _for_worker():
        return True
    if "://" in path:
        return False
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _for_worker() -> dict[str, str]:
    """The copies that were made by the process that started this worker."""
    if _COPIES not in os.environ:
        return {}
    from multiprocessing import parent_process  # not at the top: most commands start no workers

    if parent_process() is None:
        return {}
    import json

    found: dict[str, str] = json.loads(os.environ[_COPIES])
    return found


def copied(path: str) -> str:
    """A regular file with the stream's content. The stream is read on the first call only."""
    if path in _for_worker():
        return _for_worker()[path]
    # A path may name another stream later in the life of a process.
    key = (path, id(sys.stdin)) if path == STDIN else (path, os.stat(path).st_ino)
    if key not in _own:
        import json

        _own[key] = _copy(path)
        os.environ[_COPIES] = json.dumps({path: copy for (path, _), copy in _own.items()})
    return _own[key]


def _copy(path: str) -> str:
    import atexit
    import tempfile

    if path == STDIN and sys.stdin is None:
        raise DataError("is closed", "pipe data into it, or name a file")
    copy = tempfile.NamedTemporaryFile(prefix="bpmcli-", suffix=".stream", delete=False)  # noqa: SIM115
    unfinished.add(copy.name)
    atexit.register(_remove, copy.name)
    try:
        with copy:
            if path == STDIN:
                _fill(copy, sys.stdin.buffer)
            else:
                with open(path, "rb") as stream:
                    _fill(copy, stream)
    except BaseException as error:
        _remove(copy.name)
        if isinstance(error, OSError):
            raise DataError(f"cannot be copied to {tempfile.gettempdir()} ({error.strerror or error})") from None
        raise
    return copy.name


def _fill(copy: IO[bytes], stream: IO[bytes]) -> None:
    """Copy a stream. If its first block is neither a known format nor text, it is refused."""
    from bpmcli.io.opening import by_content

    head = stream.read(HEAD)
    if head.strip() and by_content(head) is None:
        raise DataError("is neither text nor a known format", "give csv, jsonl, parquet, arrow or npz")
    size = copy.write(head)
    while block := stream.read(_BLOCK):
        size += copy.write(block)
        if size > STREAM_LIMIT:
            raise DataError(
                f"has more than {STREAM_LIMIT >> 30} GiB, the limit for pipes and devices", "write it to a file first"
            )


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
    unfinished.discard(path)
