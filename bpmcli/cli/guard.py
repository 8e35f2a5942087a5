"""A thread that ends the process after a signal, or if it takes too much memory, whatever the main thread is doing."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from bpmcli.cli import _leave
from bpmcli.errors import BpmError
from bpmcli.io import memory

PATIENCE = 0.7
"""Seconds for tidying up after a signal. Python handles a signal between two steps of the main thread, so a long call
into a library delays it, and a library may swallow the exception. In both cases the thread ends the process."""

_ending = threading.Lock()
"""Held by whoever decides how the process ends: this thread, for its memory, or the main thread, with an answer."""

UNFINISHED = ("bpmcli.io.writers", "bpmcli.io.opening")
"""Modules with a set `unfinished` of temporary files and folders."""


class Terminated(KeyboardInterrupt):
    """An interrupt by SIGTERM."""


def number_of(stop: BaseException) -> int:
    """The number of the signal that caused an interrupt."""
    return signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT


def start(tell: Callable[[BpmError], None]) -> None:
    """Start the thread. `tell` shows an error in places other than standard error, such as a JUnit file."""
    threading.Thread(target=_guard, args=(_told_of_signals(), tell), daemon=True).start()


def answer_is_ready() -> None:
    """Called before the last output is written: from now on the process is not ended for its memory."""
    _ending.acquire()


def _told_of_signals() -> int:
    """The read end of a pipe that receives the number of every signal, whatever the main thread is doing."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    return told


def _guard(told: int, tell: Callable[[BpmError], None]) -> None:
    """Wait for a signal, give the main thread a moment to tidy up, then do it here and end the process.

    Until then, look from time to time whether the process has taken more memory than it may.
    """
    number, watch = 0, memory.Watch()
    while number not in (signal.SIGINT, signal.SIGTERM):
        if not watch.possible or select.select([told], [], [], memory.INTERVAL)[0]:
            number = os.read(told, 1)[0]
        elif watch.exceeded() and _ending.acquire(blocking=False):
            _end_for_memory(tell)
    time.sleep(PATIENCE)
    remove_unfinished()
    _leave(number, None)


def _end_for_memory(tell: Callable[[BpmError], None]) -> None:
    """Ends the process with a message. The main thread is not waited for, because it might take still more memory."""
    error = BpmError(*memory.refusal())
    with suppress(Exception):
        tell(error)
    remove_unfinished()
    with suppress(OSError):  # not through sys.stderr, which the main thread may be using
        os.write(2, f"bpmcli: error: {error.message}\n  hint: {error.hint}\n".encode())
    os._exit(memory.EXCEEDED)


def remove_unfinished() -> None:
    """Remove all temporary files."""
    for module in UNFINISHED:
        for path in sorted(getattr(sys.modules.get(module), "unfinished", ()), reverse=True):  # files before folders
            with suppress(OSError):
                os.rmdir(path) if os.path.isdir(path) else os.unlink(path)


FRAGILE = ("MPLBACKEND", "SOURCE_DATE_EPOCH")
"""Environment variables that matplotlib and numpy read. If a value is invalid, their import fails. Nothing that bpmcli
writes depends on these variables, so they are removed."""


def silence_libraries() -> None:
    """Silence warnings, and exceptions that a library can only print, here and in workers."""
    for name in FRAGILE:
        os.environ.pop(name, None)
    warnings.simplefilter("ignore")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")

    def unraisable(found: Any) -> None:
        if isinstance(found.exc_value, KeyboardInterrupt):  # lost in a callback, but the process must end
            _leave(number_of(found.exc_value), None)

    sys.unraisablehook = unraisable
    threading.excepthook = lambda found: None
