"""One row of the tables of hints: a command that fails, what its hint says, and the command that follows from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), 80)
Z = np.log(P)
Y = RNG.integers(0, 3, 80)
TOP, HIT = P.max(axis=1), (P.argmax(axis=1) == Y).astype(int)
EVEN = RNG.integers(0, 2, 80)
WEIGHT = RNG.random(80) + 0.5
NAMES = ("bird", "cat", "dog")


class Case(NamedTuple):
    """A hint and what happens when it is followed. Commands are joined by ` && `."""

    name: str
    files: Callable[[], Any] | str
    """Makes the files, or the commands that make them; those of `everyday` are always there."""
    command: str
    """Its last part fails, or prints a notice."""
    hint: str
    """The whole hint; … stands for any text."""
    then: str
    """Works, and no longer prints the hint; … stands for the command in the hint."""
    notice: bool = False
    """The hint belongs to a notice, so the first command works too."""
    limits: dict[str, int] | None = None
    """Limits of the program that are lowered, so that small files exceed them."""


def csv(path: str, **columns: Any) -> Callable[[], Any]:
    return lambda: pd.DataFrame(columns).to_csv(path, index=False)


def npz(path: str, **arrays: Any) -> Callable[[], Any]:
    return lambda: np.savez(path, **arrays)


def text(path: str, content: str) -> Callable[[], Any]:
    return lambda: Path(path).write_text(content, encoding="utf-8")


def lines(path: str, entries: list[Any]) -> Callable[[], Any]:
    return text(path, "".join(json.dumps(entry) + "\n" for entry in entries))


def every(*makers: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: [make() for make in makers]


def everyday() -> None:
    """Files that many rows use: logits, probabilities, confidences, P(y = 1) and the labels of several classes."""
    for name, written in _everyday_files().items():
        Path(name).write_bytes(written)


@cache
def _everyday_files() -> dict[str, bytes]:
    """The content of each file, which is written here once."""
    npz("z.npz", logits=Z, labels=Y)()
    npz("p.npz", probs=P, labels=Y)()
    npz("tags.npz", probs=P, labels=np.eye(3, dtype=int)[Y])()
    csv("c.csv", confidence=TOP, hit=HIT, site=["north", "south"] * 40, doc=np.arange(80) // 2, w=WEIGHT)()
    csv("d.csv", confidence=TOP[::-1] ** 0.9, hit=HIT[::-1])()
    csv("e.csv", prob=RNG.permutation(TOP), label=EVEN)()
    names = ("z.npz", "p.npz", "tags.npz", "c.csv", "d.csv", "e.csv")
    return {name: Path(name).read_bytes() for name in names}


def missing(values: Any, row: int = 3, value: float = np.nan) -> Any:
    found = np.asarray(values, dtype=float).copy()
    found[row] = value
    return found
