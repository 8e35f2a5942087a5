"""A pool of processes that leaves nothing behind: not when it is interrupted, not when its parent is killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process, resource_tracker
from multiprocessing.connection import wait
from time import monotonic
from typing import Any

from bpmcli.errors import BpmError

GRACE = 10.0
"""Seconds for workers to remove their temporary files and go."""

TERMINATED = 128 + signal.SIGTERM

_busy = threading.Event()
"""In a worker: an item is in the works, and may have temporary files."""


def map_processes(function: Callable[[Any], Any], items: Sequence[Any], jobs: int, chunk: int) -> Iterator[Any]:
    """`function` over every item in so many processes, results in order. Whatever ends this early ends the workers."""
    others = active_children()
    # spawn: arrow's threads do not survive a fork.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        with interrupts_held({signal.SIGINT, signal.SIGTERM}):
            runs = [items[start : start + chunk] for start in range(0, len(items), chunk)]
            # Not pool.map, which cancels what is pending: a pool that loses its workers then trips over it.
            pending = [pool.submit(_work, function, run) for run in runs]
        pending.reverse()
        while pending:
            yield from pending.pop().result()
    except BaseException as error:
        _stop([worker for worker in active_children() if worker not in others])
        if isinstance(error, BrokenProcessPool):
            raise BpmError("a worker process died, perhaps for lack of memory", "use a smaller -j") from None
        raise
    finally:
        pool.shutdown()


@contextmanager
def interrupts_held(signals: set[signal.Signals]) -> Iterator[None]:
    """What comes now is delivered at the end; processes and threads that start now hold it back on and on."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # Started by the first worker otherwise, and it lets signals through.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stop(workers: Sequence[Any]) -> None:
    for worker in workers:
        worker.terminate()
    running = {worker.sentinel: worker for worker in workers}
    end = monotonic() + GRACE
    while running and (gone := wait(list(running), max(0.0, end - monotonic()))):
        for sentinel in gone:
            del running[sentinel]
    for worker in running.values():
        worker.kill()


def _start_worker() -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    # Ctrl-C reaches every process of a terminal; the parent alone says what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _leave(number: int, frame: Any) -> None:
    if not _busy.is_set():
        os._exit(TERMINATED)
    raise SystemExit(TERMINATED)


def _work(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """In a worker. The pool would take an exit for a result: by then temporary files are gone, so this is the end."""
    _busy.set()
    try:
        return [function(item) for item in items]
    except SystemExit:
        os._exit(TERMINATED)
    finally:
        _busy.clear()
