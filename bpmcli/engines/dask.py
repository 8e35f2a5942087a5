"""Runs tasks on a dask cluster: at `--scheduler ADDRESS`, or on a local cluster that is started for the command.

Every file, or part of a large file, is one task. A task that fails is tried again, and a task whose worker is lost
runs on another worker. The summary of a task is one value under one key, so a summary that is
computed twice is still counted once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from bpmcli.core.summary.merging import blocks
from bpmcli.engines.processes import handlers_held, interrupts_held
from bpmcli.errors import BpmError, DataError, UsageError
from bpmcli.io.paths import Input
from bpmcli.io.remote import is_remote

if TYPE_CHECKING:
    from bpmcli.engines.local import Scale

RETRIES = 2
"""How often a failed task is tried again before the failure is reported."""

OPEN_FILES, OPEN_FILES_PER_WORKER = 32, 10
"""A little more than a local cluster opens in this process: 21, and 9 for each worker."""

SILENT = str(dict.fromkeys(("distributed", "distributed.client", "tornado.application", "asyncio"), "critical"))
"""The configuration that silences dask's loggers."""

WORKER_SETTINGS = {"distributed.nanny.pre-spawn-environ": {}, "distributed.worker.profile.enabled": False}
"""dask starts workers with MALLOC_TRIM_THRESHOLD_ set, which makes glibc return every large array to the system and
fault its pages in again. Without this setting and without the profiler, `metrics` took about 40 % less processor time;
the two effects were not measured separately. bpmcli sets the number of threads itself."""


@contextmanager
def connected(scale: Scale) -> Iterator[Any]:
    """A client of the given scheduler, or of a new cluster of processes on this machine."""
    if not os.environ.get("BPMCLI_DEBUG"):
        # Set in the environment, which dask's worker processes inherit: a worker that sends a heartbeat while the
        # cluster closes logs a traceback. The failure of a task is not lost, because it comes back as its result.
        os.environ.setdefault("DASK_DISTRIBUTED__LOGGING", SILENT)
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise UsageError("--engine dask needs dask", "pip install distributed") from None
    if scale.scheduler:
        try:
            client = Client(scale.scheduler, timeout=20)
        except (OSError, ValueError) as error:
            raise UsageError(f"no dask scheduler at {scale.scheduler} ({error})", "dask scheduler starts one") from None
        with client:
            yield client
        return
    _check_limit(scale.workers)
    options: dict[str, Any] = {"n_workers": scale.workers, "threads_per_worker": 1, "silence_logs": 50}
    # No dashboard. Its server starts nevertheless, and would warn if another cluster used the default port.
    options |= {"dashboard_address": None, "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"}}
    with ExitStack() as stack:
        # A cluster that has only half started prints errors when it closes, so interrupts wait until it has started.
        # Workers never receive an interrupt from the terminal; they are told to stop, and must obey SIGTERM.
        with interrupts_held({signal.SIGINT}), handlers_held({signal.SIGTERM}), dask.config.set(WORKER_SETTINGS):
            client = stack.enter_context(Client(stack.enter_context(LocalCluster(**options))))
        yield client


def _check_limit(workers: int) -> None:
    """Refuse to start a cluster that needs more open files than allowed: dask would try to accept for ever."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = OPEN_FILES + OPEN_FILES_PER_WORKER * workers
    if 0 <= limit < needed:
        raise DataError(
            f"a local dask cluster needs {needed} open files, and the limit is {limit}",
            f"raise the limit: ulimit -n {max(needed, 4096)}",
        )


def work(function: Callable[[Any], Any], items: Sequence[Any], scale: Scale) -> Iterator[Any]:
    """`function` over every item: results or BpmErrors, in order."""
    located = [Located.of(item) for item in items]
    with connected(scale) as client:
        futures = [_submit(client, OnWorker(function), item) for item in located]
        futures.reverse()
        for item in items:
            # Drop each future once its result is here, so that the cluster can free the result.
            yield _result(futures.pop(), item)


def run_and_merge(
    function: Callable[[Any], Any], plan: Sequence[Sequence[Any]], merge: Callable[[Sequence[Any]], Any], scale: Scale
) -> Any:
    """`function` over the pieces of every file; results are merged per file, then along the tree of all engines."""
    located = [[Located.of(piece) for piece in pieces] for pieces in plan]
    with connected(scale) as client:
        leaves = [[_submit(client, OnWorker(function), piece) for piece in pieces] for pieces in located]
        futures = [_tree(client, merge, pieces) for pieces in leaves]
        found = _result(_tree(client, merge, futures), None)
        if isinstance(found, BpmError):
            # If one file fails, everything merged with it fails too: report the file itself.
            for pieces, file in zip(plan, leaves, strict=True):
                for piece, future in zip(pieces, file, strict=True):
                    if future.status == "error":
                        found = _result(future, piece)
                        raise found
            raise found
        return found


class Located(NamedTuple):
    """An item with the size of its file and a checksum of its beginning, so that a worker notices another file."""

    item: Any
    size: int = 0
    head: str = ""

    @classmethod
    def of(cls, item: Any) -> Located:
        """The item with an absolute path, because a worker has its own working directory."""
        inner = getattr(item, "item", item)
        if not isinstance(inner, Input) or is_remote(inner.path):
            return cls(item)
        if inner.path == "-":
            raise UsageError("dask workers cannot read standard input", "write it to a file, or leave --engine out")
        inner = inner._replace(location=os.path.abspath(inner.path))
        found = cls(item._replace(item=inner) if hasattr(item, "item") else inner)
        try:
            return found._replace(size=os.path.getsize(inner.path), head=_head(inner.path))
        except OSError:
            return found  # the reader will report what is wrong


@dataclass(frozen=True)
class OnWorker:
    """Calls a function on a worker, after checking that the worker sees the same file as the user."""

    function: Callable[[Any], Any]

    def __call__(self, located: Located) -> Any:
        inner = getattr(located.item, "item", located.item)
        if located.head:
            _check_same(inner, located)
        return self.function(located.item)


def _check_same(inner: Input, located: Located) -> None:
    from platform import node

    hint = "put the files where every worker sees them, or on a store (s3://…)"
    worker = f"{inner.path}: the dask worker on {node()}"
    try:
        size, head = os.path.getsize(inner.place), _head(inner.place)
    except OSError as error:
        raise DataError(f"{worker} cannot read {inner.place} ({error.strerror})", hint) from None
    if (size, head) != (located.size, located.head):
        what = f"{size} bytes, and here {located.size}" if size != located.size else "of the same size"
        raise DataError(f"{worker} has another file at {inner.place} ({what})", hint)


def _head(path: str) -> str:
    """A checksum of the first bytes."""
    import hashlib

    with open(path, "rb") as f:
        return hashlib.sha256(f.read(1 << 16)).hexdigest()


def _submit(client: Any, function: Callable[..., Any], argument: Any) -> Any:
    return client.submit(function, argument, pure=False, retries=RETRIES)


def _tree(client: Any, merge: Callable[[Sequence[Any]], Any], futures: list[Any]) -> Any:
    while len(futures) > 1:
        futures = [_submit(client, merge, block) for block in blocks(futures)]
    return futures[0]


def _result(future: Any, item: Any) -> Any:
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        return future.result()
    except BpmError as error:
        return error
    except CancelledError:
        raise DataError("the connection to the dask scheduler was lost", "is it still running?") from None
    except KilledWorker:
        inner = getattr(item, "item", item)
        where = getattr(inner, "path", "a task")
        return DataError(f"{where}: its worker was lost every time", "does a worker have enough memory for this file?")
