"""The same functions on a dask cluster: `--engine dask --scheduler ADDRESS`, or a local cluster without one.

Every file is one task. A task that fails is tried again, one whose worker is lost runs elsewhere; a file's
summary is one value under one key, so whatever is computed twice is still counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bpmcli.core.merging import blocks
from bpmcli.errors import BpmError, DataError, UsageError

if TYPE_CHECKING:
    from bpmcli.engines.local import Scale

RETRIES = 2
"""Further attempts at a file before it is reported."""


@contextmanager
def connected(scale: Scale) -> Iterator[Any]:
    """A client of the scheduler; without one, of a cluster of processes on this machine."""
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
    options = {"n_workers": scale.workers, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 40}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client


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
    from distributed import KilledWorker

    try:
        return future.result()
    except BpmError as error:
        return error
    except KilledWorker:
        inner = getattr(item, "item", item)
        where = getattr(inner, "path", "a task")
        return DataError(f"{where}: its worker was lost every time", "does a worker have enough memory for this file?")
