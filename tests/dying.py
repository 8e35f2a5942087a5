"""Functions for worker processes, each with a misfortune. Apart from the tests, so that workers import little."""

from __future__ import annotations

import os
import signal


def die(item: int) -> int:
    if item % 10 == 3:
        os.kill(os.getpid(), signal.SIGKILL if item < 20 else signal.SIGBUS)
    return item * item


def leave(item: int) -> int:
    os._exit(7)


def unpicklable(item: int) -> object:
    return (lambda: None) if item == 1 else item


class DiesOnArrival:
    """Cannot be unpickled: the worker ends before it is ready."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (9,)
