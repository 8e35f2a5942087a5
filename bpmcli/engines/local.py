"""The same function over many items: in this process, or in a pool of them. Results keep their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from bpmcli.errors import BpmError

Item = TypeVar("Item")
Result = TypeVar("Result")


def outcome(function: Callable[[Item], Result], item: Item) -> Result | BpmError:
    """A bad item is a result too: it must not stop the others."""
    try:
        return function(item)
    except BpmError as error:
        return error


def work(function: Callable[[Item], Result], items: Iterable[Item], jobs: int = 1) -> Iterator[Result | BpmError]:
    """`function` over every item, `jobs` at a time (0: one per core), in order."""
    todo = list(items)
    jobs = min(jobs or os.cpu_count() or 1, len(todo))
    if jobs <= 1:
        yield from (outcome(function, item) for item in todo)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # spawn: arrow's threads do not survive a fork.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        yield from pool.map(partial(outcome, function), todo, chunksize=_chunk(len(todo), jobs))


def _chunk(items: int, jobs: int) -> int:
    return max(1, min(16, items // (4 * jobs)))


def _one_thread() -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def first_error(results: Iterable[Any]) -> BpmError | None:
    """The first failure among outcomes."""
    return next((r for r in results if isinstance(r, BpmError)), None)
