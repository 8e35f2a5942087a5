"""A column of text as a list of its values and one code per row, so that no value is padded to the longest one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bpmcli.record import Record

if TYPE_CHECKING:
    import numpy.typing as npt

Codes = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]


class Categorical(Record):
    """Text row by row: row i holds `categories[codes[i]]`. Some categories may be unused."""

    categories: list[str]
    codes: Codes

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.codes.size

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Categorical:
        """The chosen rows, in the order of the index."""
        return Categorical(self.categories, self.codes[index])

    def used(self) -> Codes:
        """The codes that occur, in order."""
        return np.flatnonzero(np.bincount(self.codes, minlength=len(self.categories)))

    def ranks(self) -> Codes:
        """One number per row, the place of its value among those that occur, whatever the order of rows and categories.

        Shorter values come first, so whole numbers are in their order.
        """
        used = sorted(self.used().tolist(), key=lambda code: (len(self.categories[code]), self.categories[code]))
        place = np.zeros(len(self.categories), dtype=np.int64)
        place[used] = np.arange(len(used))
        ranks: Codes = place[self.codes]
        return ranks

    def positions(self) -> Iterator[tuple[str, Codes]]:
        """Every value that occurs, in alphabetical order, with the rows that hold it."""
        order = np.argsort(self.codes, kind="stable")
        ends = np.cumsum(np.bincount(self.codes, minlength=len(self.categories)))
        starts = ends - np.diff(ends, prepend=0)
        for code in sorted(self.used().tolist(), key=self.categories.__getitem__):
            yield self.categories[code], order[starts[code] : ends[code]]

    def places(self) -> Codes:
        """The place of each row's value among all values in alphabetical order; unlike codes, it has no history."""
        order = sorted(range(len(self.categories)), key=self.categories.__getitem__)
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        return places[self.codes]

    def tolist(self) -> list[str]:
        """One Python string per row."""
        return [self.categories[code] for code in self.codes.tolist()]


def categorical(values: Sequence[str]) -> Categorical:
    """From one string per row."""
    known: dict[str, int] = {}
    codes = np.fromiter((known.setdefault(value, len(known)) for value in values), dtype=np.int64, count=len(values))
    return Categorical(list(known), codes)


def joined(parts: Sequence[Categorical]) -> Categorical:
    """Several columns, one below the other."""
    known: dict[str, int] = {}
    codes = []
    for part in parts:
        own = [known.setdefault(name, len(known)) for name in part.categories]
        codes.append(np.array(own, dtype=np.int64)[part.codes] if own else part.codes)
    return Categorical(list(known), np.concatenate(codes) if codes else np.zeros(0, dtype=np.int64))
