"""Files reduced to summaries in one pass. Memory is bounded by a few batches and the summary, not by the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from bpmcli.core.data.notices import notice
from bpmcli.core.data.rows import EVENT, TOP_LABEL, Rows, SummarisedRows
from bpmcli.core.summary.merging import fold, merge, merge_all
from bpmcli.core.summary.summary import Accumulator, Summary
from bpmcli.errors import BpmError, DataError, UsageError
from bpmcli.io.batches import complete_batches
from bpmcli.io.formats.reader import ColumnBatch, Reader, RowGroups
from bpmcli.io.layout import InputOptions, Layout, understand
from bpmcli.io.opening import open_input
from bpmcli.io.outcomes import hits_of
from bpmcli.io.readers import CONFIDENT, SUMMARY_KEY, Loaded, no_weights, notices_of, rows_of
from bpmcli.io.scores import scores_of

PART_ROWS = 1 << 20
"""A parquet file is summarised in parts of at least this many rows, the same parts for any number of workers."""

T = TypeVar("T")


class Summarised(NamedTuple):
    """Some rows as summaries, one per group ("" where no groups were asked for)."""

    tables: dict[str, Summary]
    target: str
    odd: Mapping[str, int] = {}
    layout: Layout | None = None
    """None for a summary that was read from a file: files do not store it."""
    metadata: Mapping[str, str] = {}
    """Metadata that bpmcli stored in the files, if it is the same in all of them."""
    by: str | None = None
    """The column whose values are the groups."""
    path: str = ""
    """The file, or the first of several."""

    @property
    def whole(self) -> Summary:
        """All groups as one."""
        if not self.tables:
            raise DataError("all weights are zero", "name another column with --weight")
        return merge_all(self.tables[name] for name in sorted(self.tables))


def summarise_path(path: str, options: InputOptions, part: RowGroups | None = None) -> Summarised:
    """The summary of a file, or of a part of it."""
    try:
        source, options = open_input(path, options)
        if SUMMARY_KEY in source.metadata:
            from bpmcli.io.summary_files import read_stored

            return read_stored(path, options)
        found = _summarise(source, options, part) if part else summarise_source(source, options)
        return found._replace(path=path)
    except BpmError as error:
        raise error.at(path if path != "-" else "standard input") from None


def summarise_source(source: Reader, options: InputOptions) -> Summarised:
    """The summary of a whole file, part by part if its rows have weights."""
    if options.weight and (parts := source.parts(PART_ROWS)):
        return merge_summarised(_summarise(source, options, part) for part in parts)
    # Counts are whole numbers, whose sum does not depend on the order, so there is no need to merge parts.
    return _summarise(source, options)


def merge_summarised(parts: Iterable[Summarised]) -> Summarised:
    """Any number of summaries as one, merged along the tree that every engine uses."""
    return fold(parts, merge_few)


def merge_few(parts: Sequence[Summarised]) -> Summarised:
    """A few summaries as one: one step along that tree."""
    if not parts:
        raise DataError("no rows")
    check_kinds([(part.path, part.target) for part in parts])
    if len(parts) == 1:
        return parts[0]
    by = parts[0].by
    if any(part.by != by for part in parts):
        # Groups by different columns cannot be merged, only their rows.
        by, parts = None, [part._replace(tables={"": part.whole}) for part in parts]
    names = dict.fromkeys(name for part in parts for name in part.tables)
    tables = {name: merge(p.tables[name] for p in parts if name in p.tables) for name in names}
    odd: Counter[str] = Counter()
    for part in parts:
        odd.update(part.odd)
    same = all(part.metadata == parts[0].metadata for part in parts)
    return Summarised(
        tables, parts[0].target, odd, parts[0].layout, parts[0].metadata if same else {}, by, parts[0].path
    )


def check_kinds(parts: Sequence[tuple[str, str]]) -> None:
    """Raise DataError if some of the files, given by path and target, are about P(y = 1) and some are not."""
    first: dict[str, str] = {}
    for path, target in parts:
        first.setdefault(target, path)
    if len(first) > 1:
        raise DataError(
            f"inputs of different kinds cannot be pooled: {first[EVENT]} is about P(y = 1), "
            f"{first[TOP_LABEL]} about the predicted class",
            "give --event for all of them, or for none",
        )


def load_summarised(source: Reader, options: InputOptions, distributions: bool = False) -> Loaded:
    """A file as rows, of which only the sample is known. Raises UsageError if a command needs the rows themselves."""
    stored = SUMMARY_KEY in source.metadata
    if distributions:
        hint = "give the files that were summarised" if stored else "leave --summary out"
        raise UsageError("this needs the scores of every row, which a summary does not keep", hint)
    if stored and options.cluster:
        raise UsageError(
            "--cluster needs the rows themselves, which a summary does not store", "give the files that were summarised"
        )
    if stored:
        from bpmcli.io.summary_files import read_stored

        return as_loaded(read_stored(source.path, options))
    return as_loaded(summarise_source(source, options))


def as_loaded(found: Summarised) -> Loaded:
    """A summary as loaded rows, with a notice of how exact it is."""
    whole = found.whole
    sample = whole.to_sample()
    layout = found.layout or Layout("summary", (), False, None, None, None, None, None, None, found.target)
    shares = (
        None if sample.n < 100 else (sample.accuracy, float(sample.mass @ (sample.log_odds > CONFIDENT)) / sample.n)
    )
    notices = [
        *notices_of(Counter(found.odd), shares, layout),
        notice("summarised" if sample.summarised else "distinct-kept", rows=sample.n, cells=sample.mass.size),
    ]
    rows = SummarisedRows(sample, found.target, found.tables if found.by is not None else None)
    return Loaded(rows, layout, tuple(notices), dict(found.metadata), found)


def _summarise(source: Reader, options: InputOptions, part: RowGroups | None = None) -> Summarised:
    if options.cluster:
        raise UsageError("--cluster needs the rows themselves, which a summary does not store", "--exact keeps them")
    layout = understand(source, options)._replace(cluster=None, id=None)
    odd: Counter[str] = Counter()
    totals: dict[str, Accumulator] = {}
    source.row_groups = part
    for batch in _ahead(complete_batches(source, layout, options, odd)):
        if not _add_bare(batch, layout, totals, odd):
            _add_rows(rows_of(batch, layout, odd), totals)
    if part is None and not any(total.n for total in totals.values()):
        if layout.weight and totals:
            raise no_weights(layout)
        raise DataError("no rows", "is the file complete?")
    tables = {name: total.summary() for name, total in totals.items() if total.n}
    return Summarised(tables, layout.target, odd, layout, source.metadata, layout.group)


def _add_bare(batch: ColumnBatch, layout: Layout, totals: dict[str, Accumulator], odd: Counter[str]) -> bool:
    """The fast way for one confidence per row, without a logarithm. Returns False, and adds nothing, if that fails."""
    bare = layout.kind == "confidence" or (layout.kind == "probs" and layout.target == EVENT)
    if not bare or layout.weight or layout.group or (layout.binary and layout.target != EVENT):
        return False
    scores = scores_of(batch, layout)
    if scores.ndim != 1 or scores.dtype.kind != "f":
        return False
    hits = hits_of(batch, layout)
    total = totals.setdefault("", Accumulator())
    saturated = total.saturated
    if not total.add_confidences(scores, hits):
        return False
    odd["saturated"] += total.saturated - saturated
    return True


def _add_rows(rows: Rows, totals: dict[str, Accumulator]) -> None:
    """Add each row to its group; rows are sorted by group first, because there may be as many groups as rows."""
    x, hits, weights = rows.log_odds, rows.hits, rows.weights
    for name, index in [("", slice(None))] if rows.groups is None else rows.groups.positions():
        if name not in totals:
            totals[name] = Accumulator(weights is not None)
        totals[name].add(x[index], hits[index], None if weights is None else weights[index])


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """Decode the next batch in a thread while this one is summarised: pyarrow releases the lock of the interpreter."""
    end = object()
    with ThreadPoolExecutor(1) as reader:
        pending = reader.submit(next, items, end)
        while (item := pending.result()) is not end:
            pending = reader.submit(next, items, end)
            yield item  # type: ignore[misc]
