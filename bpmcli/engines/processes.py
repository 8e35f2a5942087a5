"""A pool of processes that leaves nothing behind, even if it is interrupted or its parent is killed.

Written by hand because in concurrent.futures a worker that dies breaks the whole pool. Here every worker has its own
pipe, so the item that killed it is known. That item fails, and a new worker processes the remaining items.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from time import monotonic, sleep
from typing import Any

from bpmcli.errors import BpmError, DataError
from bpmcli.io import memory

GRACE = 10.0
"""Seconds that workers have to remove their temporary files and end."""

TERMINATED = 128 + signal.SIGTERM

_busy = threading.Event()
"""Set in a worker while it processes an item, because there may be temporary files then."""


class _Worker:
    """A process, the pipe to it, and the positions of the items that it was given."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        # spawn: arrow's threads do not survive a fork.
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, function), daemon=True)
        self.process.start()
        theirs.close()
        self.todo: deque[int] = deque()
        self.ready = False

    def give(self, places: Sequence[int], items: Sequence[Any]) -> None:
        self.todo.extend(places)
        with suppress(OSError):  # the worker has died, which is noticed when its result is due
            self.pipe.send([items[place] for place in places])

    def receive(self) -> Any:
        """The next result; EOFError if the process has ended."""
        try:
            return self.pipe.recv()
        except OSError:
            raise EOFError from None


def map_processes(
    function: Callable[[Any], Any], items: Sequence[Any], jobs: int, chunk: int, name: Callable[[Any], str] = str
) -> Iterator[Any]:
    """`function` over every item in `jobs` processes, results in order. If the caller stops early, so do the workers.

    An item whose worker dies (for lack of memory, or because a damaged file crashed a library) gives a DataError.
    """
    waiting = deque(range(len(items)))
    done: dict[int, Any] = {}
    workers: list[_Worker] = []
    try:
        with interrupts_held({signal.SIGINT, signal.SIGTERM}):
            workers += [_Worker(function) for _ in range(jobs)]
        for place in range(len(items)):
            while place not in done:
                _collect(workers, waiting, items, done, chunk, function, name)
            yield done.pop(place)
        for worker in workers:
            with suppress(OSError):
                worker.pipe.send(None)
        _await(workers)
    finally:
        _stop(workers)


def _collect(
    workers: list[_Worker], waiting: deque[int], items: Sequence[Any], done: dict[int, Any], chunk: int,
    function: Callable[[Any], Any], name: Callable[[Any], str],
) -> None:  # fmt: skip
    """Wait for results and hand out more items; replace workers that died."""
    by_pipe = {worker.pipe: worker for worker in workers}
    for pipe in wait(list(by_pipe)):
        worker = by_pipe[pipe]  # type: ignore[index]
        try:
            result = worker.receive()
            if worker.ready:
                done[worker.todo.popleft()] = result
            worker.ready = True
        except EOFError:
            worker.process.join()
            if not worker.ready:
                raise BpmError(
                    f"a worker process ended as it started ({_how(worker.process.exitcode)})", "use a smaller -j"
                ) from None
            if worker.todo:
                place = worker.todo.popleft()
                done[place] = _lost(name(items[place]), worker.process.exitcode)
                waiting.extendleft(reversed(worker.todo))
            with interrupts_held({signal.SIGINT, signal.SIGTERM}):
                workers[workers.index(worker)] = worker = _Worker(function)
            continue
        if not worker.todo and waiting:
            worker.give([waiting.popleft() for _ in range(min(chunk, len(waiting)))], items)


def _lost(name: str, code: int | None) -> DataError:
    if code == memory.EXCEEDED:
        return DataError(f"{name}: took more memory than its size allows", f"{memory.VARIABLE}=8G allows more")
    hint = "was it changed while it was read, or is it damaged? Other files were not affected"
    if code == -signal.SIGKILL:
        hint = "perhaps memory ran out: use a smaller -j"
    return DataError(f"{name}: the worker process died ({_how(code)})", hint)


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"


@contextmanager
def interrupts_held(signals: set[signal.Signals]) -> Iterator[None]:
    """Holds these signals back inside a `with` statement; processes that are started inside hold them back too."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # Otherwise the first worker would start the resource tracker, which unblocks signals again.
    resource_tracker.ensure_running()
    with handlers_held(signals):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def handlers_held(signals: set[signal.Signals]) -> Iterator[None]:
    """Runs the handlers of these signals after the `with` statement, in this process only.

    A mask is not enough: where another thread receives the signal, Python still calls the handler in the main thread.
    """
    caught: list[int] = []
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # no other thread has handlers
        before = {number: found for number in signals if callable(found := signal.getsignal(number))}
    try:
        for number in before:
            signal.signal(number, lambda number, frame: caught.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if caught:
            signal.raise_signal(caught[0])


def _await(workers: Sequence[_Worker]) -> list[_Worker]:
    """Waits for workers to end, and returns those that still run after GRACE seconds."""
    running = {worker.process.sentinel: worker for worker in workers if worker.process.is_alive()}
    end = monotonic() + GRACE
    while running and (gone := wait(list(running), max(0.0, end - monotonic()))):
        for sentinel in gone:
            del running[sentinel]  # type: ignore[arg-type]
    return list(running.values())


def _stop(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        if worker.process.is_alive():
            worker.process.terminate()
    for worker in _await(workers):
        worker.process.kill()
    for worker in workers:
        worker.process.join()
        worker.pipe.close()


def _serve(pipe: Connection, function: Callable[[Any], Any]) -> None:
    """Runs in a worker: receives lists of items and sends the result of every item, until None comes."""
    _start_worker()
    try:
        pipe.send(None)  # ready
    except BrokenPipeError:
        os._exit(TERMINATED)  # the parent process has ended
    while (items := pipe.recv()) is not None:
        for item in items:
            _busy.set()
            try:
                result = function(item)
            except SystemExit:
                os._exit(TERMINATED)  # the temporary files have been removed by now
            finally:
                _busy.clear()
            try:
                pipe.send(result)
            except BrokenPipeError:
                os._exit(TERMINATED)  # the parent process has ended
            except Exception as error:
                pipe.send(BpmError(f"internal error: a result cannot be sent: {error}"))


def _start_worker() -> None:
    memory.own_process = True
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    # Ctrl-C reaches every process of a terminal, but only the parent should react to it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    sys.unraisablehook = _unraisable
    threading.Thread(target=_follow_parent, daemon=True).start()
    threading.Thread(target=_watch_memory, daemon=True).start()


def _follow_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _watch_memory() -> None:
    """Ends a worker whose file takes too much memory; the parent process starts another worker."""
    watch = memory.Watch()
    while watch.possible and not watch.exceeded():
        sleep(memory.INTERVAL)
    if watch.possible:
        _end(memory.EXCEEDED)


def _end(code: int) -> None:
    """Remove the temporary files and end the process at once."""
    for path in list(getattr(sys.modules.get("bpmcli.io.writers"), "unfinished", ())):
        with suppress(OSError):
            os.unlink(path)
    os._exit(code)


def _unraisable(found: Any) -> None:
    """Says nothing. If the exception of a signal comes in a callback, it is lost, so the worker ends here."""
    if isinstance(found.exc_value, SystemExit):
        _end(TERMINATED)


def _leave(number: int, frame: Any) -> None:
    if not _busy.is_set():
        os._exit(TERMINATED)
    raise SystemExit(TERMINATED)
