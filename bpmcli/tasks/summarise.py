"""Summarises one file, a part of a file, or several files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bpmcli.io.formats.reader import RowGroups
from bpmcli.io.layout import InputOptions
from bpmcli.io.paths import Input
from bpmcli.io.summaries import Summarised, merge_few, summarise_path


class Piece(NamedTuple):
    """A file, or a part of one."""

    item: Input
    part: RowGroups | None = None


@dataclass(frozen=True)
class Summarise:
    """Summarises one file, or a part of one."""

    options: InputOptions

    def __call__(self, piece: Piece) -> Summarised:
        return summarise_path(piece.item.place, self.options, piece.part)


@dataclass(frozen=True)
class SummariseFiles:
    """Summarises several files as one, so that a worker sends one merged summary."""

    options: InputOptions

    def __call__(self, pieces: Sequence[Piece]) -> Summarised:
        one = Summarise(self.options)
        return merge_few([one(piece) for piece in pieces])
