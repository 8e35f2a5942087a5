"""Calls a function for many items, in this process or in a pool of processes. Results keep their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from bpmcli.errors import BpmError, DataError, too_many_files
from bpmcli.record import Record

Item = TypeVar("Item")
Result = TypeVar("Result")


class Scale(Record):
    """Where tasks run, and whether they use rows or a summary."""

    jobs: int = 1
    mode: str = "auto"
    engine: str = "local"
    scheduler: str | None = None

    @property
    def workers(self) -> int:
        return self.jobs or os.cpu_count() or 1

    def run(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """The function over all items: results or BpmErrors, in order."""
        if self.engine == "local":
            return work(function, items, self.jobs)
        from bpmcli.engines import dask

        return dask.work(function, items, self)

    def each(self, task: Any, items: Sequence[Any]) -> Iterator[Any]:
        """The same for a task over files. If there are few files for the workers, they share the large ones."""
        idle = self.workers > 1 and len(items) < 2 * self.workers
        if not idle or self.mode == "exact" or getattr(task, "distributions", False):
            return self.run(task, items)
        from bpmcli.engines.scale import each_shared

        return each_shared(task, items, self)


def name_of(item: Any) -> str:
    """The file that an item is about, for messages."""
    if isinstance(item, list):
        others = f" or one of the next {len(item) - 1} files" if len(item) > 1 else ""
        return name_of(item[0]) + others
    inner = getattr(item, "item", item)
    return getattr(inner, "path", None) or str(inner)[:200]


def outcome(function: Callable[[Item], Result], item: Item) -> Result | BpmError:
    """The function's result, or its error as a result: a bad item must not stop the others."""
    try:
        return function(item)
    except BpmError as error:
        return error
    except BrokenPipeError:  # the reader of standard output has closed it, so the rest is not needed
        raise
    except Exception as error:
        if many := too_many_files(error):
            return many.at(name_of(item))
        if isinstance(error, OSError) and error.strerror:
            return DataError(
                f"{error.filename or name_of(item)}: {error.strerror}", "is the disk full, or the file gone?"
            )
        if isinstance(error, MemoryError):
            return DataError(f"{name_of(item)}: does not fit into memory", "split it into smaller files")
        if os.environ.get("BPMCLI_DEBUG"):
            raise
        text = f"{name_of(item)}: internal error: {type(error).__name__}: {error}"
        return BpmError(text, "this is a bug; BPMCLI_DEBUG=1 shows where")


def work(function: Callable[[Item], Result], items: Iterable[Item], jobs: int = 1) -> Iterator[Result | BpmError]:
    """`function` over every item, `jobs` at a time (0: one per core), in order."""
    todo = list(items)
    jobs = min(jobs or os.cpu_count() or 1, len(todo))
    if len(todo) == 1:
        return iter([outcome(function, todo[0])])
    if jobs <= 1:
        return (outcome(function, item) for item in todo)
    from bpmcli.engines.processes import map_processes

    return map_processes(partial(outcome, function), todo, jobs, _chunk(len(todo), jobs), name_of)


def _chunk(items: int, jobs: int) -> int:
    return max(1, min(16, items // (4 * jobs)))


def first_error(results: Iterable[Any]) -> BpmError | None:
    """The first error among the results, if there is one."""
    return next((r for r in results if isinstance(r, BpmError)), None)
