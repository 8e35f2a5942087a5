"""The same functions on a dask cluster: `--engine dask --scheduler ADDRESS`, or a local cluster without one.

Every file is one task. A task that fails is tried again, one whose worker is lost runs elsewhere; a file's
summary is one value under one key, so whatever is computed twice is still counted once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from bpmcli.core.summary.merging import blocks
from bpmcli.engines.processes import interrupts_held
from bpmcli.errors import BpmError, DataError, UsageError

if TYPE_CHECKING:
    from bpmcli.engines.local import Scale

RETRIES = 2
"""Further attempts at a file before it is reported."""

SILENT = str(dict.fromkeys(("distributed", "distributed.client", "tornado.application", "asyncio"), "critical"))
"""dask's setting of its loggers."""


@contextmanager
def connected(scale: Scale) -> Iterator[Any]:
    """A client of the scheduler; without one, of a cluster of processes on this machine."""
    if not os.environ.get("BPMCLI_DEBUG"):
        # By the environment, which dask's worker processes share: a worker whose heart beats while the cluster
        # closes logs a traceback. What goes wrong with a task comes back as its result.
        os.environ.setdefault("DASK_DISTRIBUTED__LOGGING", SILENT)
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise UsageError("--engine dask needs dask", "pip install 'bpmcli[cluster]'") from None
    if scale.scheduler:
        try:
            client = Client(scale.scheduler, timeout=20)
        except (OSError, ValueError) as error:
            raise UsageError(f"no dask scheduler at {scale.scheduler} ({error})", "dask scheduler starts one") from None
        with client:
            yield client
        return
    options: dict[str, Any] = {"n_workers": scale.workers, "threads_per_worker": 1, "silence_logs": 50}
    # No dashboard. Its server starts all the same, and warns if another cluster has its usual port.
    options |= {"dashboard_address": None, "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"}}
    with ExitStack() as stack:
        # Half a cluster cannot be closed without noise: an interrupt waits until it is whole. The workers never get
        # one from the terminal; they are told to stop.
        with interrupts_held({signal.SIGINT}), _termination_held():
            client = stack.enter_context(Client(stack.enter_context(LocalCluster(**options))))
        yield client


@contextmanager
def _termination_held() -> Iterator[None]:
    """The same for SIGTERM, but the cluster's processes must obey it."""
    caught: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if caught:
            os.kill(os.getpid(), signal.SIGTERM)


def work(function: Callable[[Any], Any], items: Sequence[Any], scale: Scale) -> Iterator[Any]:
    """`function` over every item: results or BpmErrors, in order."""
    with connected(scale) as client:
        futures = [_submit(client, function, item) for item in items]
        futures.reverse()
        for item in items:
            # Let go of each result once it is here, so that the cluster forgets it.
            yield _result(futures.pop(), item)


def merged(
    function: Callable[[Any], Any], plan: Sequence[Sequence[Any]], merge: Callable[[Sequence[Any]], Any], scale: Scale
) -> Any:
    """`function` over the pieces of every file, merged per file, then along the tree every engine uses."""
    with connected(scale) as client:
        leaves = [[_submit(client, function, piece) for piece in pieces] for pieces in plan]
        futures = [_tree(client, merge, pieces) for pieces in leaves]
        found = _result(_tree(client, merge, futures), None)
        if isinstance(found, BpmError):
            # A failed leaf fails its whole branch: say which file it was.
            for pieces, file in zip(plan, leaves, strict=True):
                for piece, future in zip(pieces, file, strict=True):
                    if future.status == "error":
                        found = _result(future, piece)
                        raise found
            raise found
        return found


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
