"""Reads one file, or several as one sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bpmcli.core.data.notices import Notice
from bpmcli.core.data.rows import Rows, pool
from bpmcli.io.layout import InputOptions
from bpmcli.io.paths import Input
from bpmcli.io.readers import Loaded, read_rows


@dataclass(frozen=True)
class Read:
    """Reads one file."""

    options: InputOptions
    distributions: bool = False
    mode: str = "exact"
    missed: bool = False
    """Also read the scores of wrong rows."""
    keep_scores: int = 0
    """Also keep the scores of all classes, if there are at most this many."""

    def __call__(self, item: Input) -> Loaded:
        return read_rows(
            item.place, self.options, distributions=self.distributions, mode=self.mode, missed=self.missed,
            keep_scores=self.keep_scores,
        )  # fmt: skip


def pooled(loaded: Sequence[Loaded], paths: Sequence[str]) -> tuple[Rows, tuple[Notice, ...]]:
    """The rows of several files together, with their notices."""
    from bpmcli.io.summaries import check_kinds

    check_kinds([(path, part.rows.target) for path, part in zip(paths, loaded, strict=True)])
    notices = tuple(n for part in loaded for n in part.notices)
    if any(part.summarised for part in loaded):
        return pooled_summaries(loaded)
    return pool([part.rows for part in loaded]), notices


def pooled_summaries(loaded: Sequence[Loaded]) -> tuple[Rows, tuple[Notice, ...]]:
    """The same if some of the files are summaries: the other files are summarised too."""
    from bpmcli.core.summary.summary import summary_of
    from bpmcli.io.summaries import Summarised, as_loaded, merge_summarised

    def summarised(part: Loaded) -> Summarised:
        if part.summarised:
            return part.summarised._replace(odd={})  # its notices are among `part.notices`
        groups = part.rows.by_group() if part.layout.group else [("", part.rows)]
        tables = {name: summary_of(rows.log_odds, rows.hits, rows.weights) for name, rows in groups}
        return Summarised(tables, part.rows.target, by=part.layout.group)

    one = as_loaded(merge_summarised(summarised(part) for part in loaded))
    others = [n for part in loaded for n in part.notices if n.code not in ("summarised", "distinct-kept")]
    return one.rows, (*others, *one.notices)
