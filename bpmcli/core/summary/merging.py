"""Summaries merged along one fixed tree, so that sums of weights have the same bits however the work is split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from bpmcli.core.summary.summary import Accumulator, Summary

FAN_IN = 32
"""How many summaries are merged at a time. With weights the last bits of the result depend on it."""

T = TypeVar("T")


def merge(parts: Iterable[Summary]) -> Summary:
    """The sum of a few summaries, added one after the other."""
    few = list(parts)
    if len(few) == 1:
        return few[0]
    total = Accumulator()
    for part in few:
        total.absorb(part)
    return total.summary()


def merge_all(parts: Iterable[Summary]) -> Summary:
    """The sum of any number of summaries, along the tree that every engine uses."""
    return fold(parts, merge)


def fold(parts: Iterable[T], merge_few: Callable[[Sequence[T]], T]) -> T:
    """Merge along a tree of fan-in 32, holding no more than 32 parts of a level at a time."""
    levels: list[list[T]] = [[]]

    def put(part: T, level: int) -> None:
        if level == len(levels):
            levels.append([])
        levels[level].append(part)
        if len(levels[level]) == FAN_IN:
            full, levels[level] = levels[level], []
            put(merge_few(full), level + 1)

    for part in parts:
        put(part, 0)
    for level in range(len(levels) - 1):
        if levels[level]:
            rest, levels[level] = levels[level], []
            put(merge_few(rest), level + 1)
    return merge_few(levels[-1])


def blocks(parts: Iterable[T]) -> Iterator[list[T]]:
    """Groups of FAN_IN parts: one level of the tree."""
    source = iter(parts)
    while block := list(islice(source, FAN_IN)):
        yield block
