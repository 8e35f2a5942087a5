"""Many or large inputs: exact or summarised, in one process, in a pool of processes, or on a cluster.

Results never depend on where they are computed: files are summarised in the same parts, and parts and files are
merged along the same tree, whether by one worker or by a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bpmcli.core.data.notices import Notice
from bpmcli.core.data.rows import Rows
from bpmcli.core.summary.merging import FAN_IN, blocks
from bpmcli.engines.local import Scale, first_error, outcome, work
from bpmcli.errors import BpmError, UsageError
from bpmcli.io.layout import InputOptions
from bpmcli.io.opening import is_stream, open_reader
from bpmcli.io.paths import Input
from bpmcli.io.readers import EXACT_ROWS, SUMMARY_KEY
from bpmcli.io.summaries import PART_ROWS, Summarised, as_loaded, merge_few, merge_summarised
from bpmcli.tasks.read import Read, pooled
from bpmcli.tasks.summarise import Piece, Summarise, SummariseFiles

Watch = Callable[[Iterator[Any], int], Iterator[Any]]
"""Passes results on while it shows the progress; takes the results and their number."""


@dataclass(frozen=True)
class WholeOrPart:
    """Runs a task on a whole file. A part of a file is only summarised."""

    task: Any

    def __call__(self, piece: Piece) -> Any:
        return self.task(piece.item) if piece.part is None else Summarise(self.task.options)(piece)


def each_shared(task: Any, items: Sequence[Input], scale: Scale) -> Iterator[Any]:
    """Runs a task on a few inputs. Workers share large parquet files, and this process completes the task for them."""
    plan = [_pieces(item, scale, task.options) for item in items]
    results = scale.run(WholeOrPart(task), [piece for pieces in plan for piece in pieces])
    for pieces in plan:
        found = [next(results) for _ in pieces]
        if pieces[0].part is None:
            yield found[0]
            continue
        yield first_error(found) or outcome(partial(_finish, task, pieces[0].item), found)


def _finish(task: Any, item: Input, parts: list[Summarised]) -> Any:
    """Completes a task when all parts of its file are summarised."""
    return task.finish(item, as_loaded(merge_summarised(parts)))


def pool_inputs(
    items: Sequence[Input],
    options: InputOptions,
    scale: Scale,
    watch: Watch,
    distributions: bool = False,
    missed: bool = False,
    keep_scores: int = 0,
) -> tuple[Rows, tuple[Notice, ...]]:
    """The rows of all inputs together, with notices. Raises the error of the first input that cannot be read."""
    mode = scale.mode
    if mode == "auto":
        mode = "summary" if not distributions and _many_rows(items, options) else "exact"
    if mode == "exact":
        read = Read(options, distributions, missed=missed, keep_scores=keep_scores)
        loaded = list(watch(scale.run(read, items), len(items)))
        error = first_error(loaded)
        if error is not None:
            raise error
        return pooled(loaded, [item.path for item in items])
    if distributions:
        raise UsageError("this needs the scores of every row, which a summary does not keep", "leave --summary out")
    one = as_loaded(summarise_inputs(items, options, scale, watch))
    return one.rows, one.notices


def summarise_inputs(items: Sequence[Input], options: InputOptions, scale: Scale, watch: Watch) -> Summarised:
    """One summary of all inputs. Raises the error of the first input that cannot be read."""
    few = scale.workers > 1 and len(items) < 2 * scale.workers
    plan = [_pieces(item, scale._replace(mode="summary"), options) if few else [Piece(item)] for item in items]
    if scale.engine != "local":
        from bpmcli.engines import dask

        found: Summarised = dask.run_and_merge(Summarise(options), plan, merge_few, scale)
        return found
    if not few and len(items) >= 4 * FAN_IN * scale.workers:
        # The first level of the tree is merged where the files are read.
        runs = list(blocks(pieces[0] for pieces in plan))
        return merge_summarised(_good(watch(work(SummariseFiles(options), runs, scale.jobs), len(runs))))
    flat = [piece for pieces in plan for piece in pieces]
    results = _good(watch(work(Summarise(options), flat, scale.jobs), len(flat)))
    return merge_summarised(merge_summarised(next(results) for _ in pieces) for pieces in plan)


def _good(results: Iterable[Any]) -> Iterator[Any]:
    for result in results:
        if isinstance(result, BpmError):
            raise result
        yield result


def _pieces(item: Input, scale: Scale, options: InputOptions) -> list[Piece]:
    """A large parquet file as several pieces, any other file as one."""
    if is_stream(item.path):
        return [Piece(item)]
    try:
        source = open_reader(item.path, options.at(item.path).input_format)
        large = scale.mode == "summary" or (source.n_rows or 0) > EXACT_ROWS
        parts = source.parts(PART_ROWS) if large and SUMMARY_KEY not in source.metadata else []
    except BpmError:
        return [Piece(item)]  # the reader will report what is wrong
    return [Piece(item, part) for part in parts] if len(parts) > 1 else [Piece(item)]


def _many_rows(items: Sequence[Input], options: InputOptions) -> bool:
    """Whether there are more than EXACT_ROWS rows, or summaries among the inputs. Stops counting once that is known."""
    total = 0
    for item in items:
        if is_stream(item.path):
            continue
        try:
            source = open_reader(item.path, options.at(item.path).input_format)
            if SUMMARY_KEY in source.metadata:
                return True
            total += source.rows_at_most(EXACT_ROWS - total)
        except BpmError:
            continue
        if total > EXACT_ROWS:
            return True
    return False
