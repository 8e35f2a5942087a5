"""Random rows: scores in every layout, outcomes, weights and groups, from ordinary to absurd."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

SIZES = [0, 1, 2, 3, 5, 12, 40, 40, 40, 90, 200]
GROUPS = [
    "a",
    "b",
    "NA",
    "",
    "null",
    "1",
    "1.0",
    "2024-01-01",
    "é🎉",
    "\x1b[31mred",
    "a\nb",
    "None",
    "nan",
    "  ",
    "x" * 300,
]


@dataclass
class Table:
    """Columns by name. Matrices have one column per class, lists may differ in length."""

    n: int
    scores: dict[str, Any]
    others: dict[str, Any] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)
    """Command-line options that this layout needs."""
    group: str | None = None

    @property
    def columns(self) -> dict[str, Any]:
        return {**self.scores, **self.others}


def numpy_rng(rng: Random) -> np.random.Generator:
    return np.random.default_rng(rng.getrandbits(64))


def random_table(rng: Random, tame: bool = False) -> Table:
    """Some rows. Tame ones are such that every command should accept them."""
    draw = numpy_rng(rng)
    n = rng.choice([60, 90, 150]) if tame else rng.choice(SIZES)
    k = rng.choice([2, 3, 4]) if tame else rng.choice([2, 2, 3, 3, 4, 10, 1])
    make = rng.choice([_logits, _probs, _confidence, _log_odds, _event, _predictions])
    table: Table = make(rng, draw, n, k)
    table.others["row"] = np.arange(n) * 3 + 7
    if rng.random() < 0.4:
        table.others["weight"] = draw.uniform(0.5, 2, n)
        if rng.random() < 0.5:
            table.options += ["--weight", "weight"]
    if rng.random() < 0.5:
        pool = ["a", "b", "c"] if tame else rng.sample(GROUPS, rng.randint(1, 5))
        table.others["site"] = np.array([rng.choice(pool) for _ in range(n)], dtype=object)
        table.group = "site"
    if not tame and rng.random() < 0.6:
        for _ in range(rng.choice([1, 1, 2])):
            _spoil(rng, draw, table)
    return table


def _softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True, initial=-np.inf)) if z.size else np.ones_like(z)
    return e / e.sum(axis=1, keepdims=True) if z.size else e


def _labels(draw: np.random.Generator, probs: np.ndarray) -> np.ndarray:
    if not probs.size:
        return np.zeros(len(probs), dtype=np.int64)
    return (probs.cumsum(axis=1) < draw.random((len(probs), 1))).sum(axis=1).clip(0, probs.shape[1] - 1)


def _logits(rng: Random, draw: np.random.Generator, n: int, k: int) -> Table:
    z = draw.normal(size=(n, k)) * 2
    others = {"label": _labels(draw, _softmax(z / 2))}
    if rng.random() < 0.5:
        return Table(n, {"logits": z}, others)
    if rng.random() < 0.3:
        return Table(n, {"output": z}, others, ["--logits", "output"])
    return Table(n, {f"logit_{i}": z[:, i] for i in range(k)}, others)


def _probs(rng: Random, draw: np.random.Generator, n: int, k: int) -> Table:
    p = _softmax(draw.normal(size=(n, k)) * 2)
    others = {rng.choice(["label", "y"]): _labels(draw, p)}
    if rng.random() < 0.5:
        return Table(n, {rng.choice(["probs", "proba"]): p}, others)
    stem = rng.choice(["prob_", "p_"])
    return Table(n, {f"{stem}{i}": p[:, i] for i in range(k)}, others)


def _confidence(rng: Random, draw: np.random.Generator, n: int, k: int) -> Table:
    c = draw.beta(2, 0.5, n)
    return Table(n, {"confidence": c}, {rng.choice(["hit", "correct"]): (draw.random(n) < c**2).astype(int)})


def _predictions(rng: Random, draw: np.random.Generator, n: int, k: int) -> Table:
    c = draw.beta(2, 0.5, n)
    label = draw.integers(0, max(k, 2), n)
    prediction = np.where(draw.random(n) < c, label, (label + 1) % max(k, 2))
    if rng.random() < 0.4:
        names = np.array(["cat", "dog", "owl", "é", "a,b", 'say "x"', "7", "eight", "nine", "ten"], dtype=object)
        label, prediction = names[label], names[prediction]
    return Table(n, {"confidence": c}, {"label": label, "prediction": prediction})


def _log_odds(rng: Random, draw: np.random.Generator, n: int, k: int) -> Table:
    x = draw.normal(size=n) * 3 + 1
    table = Table(n, {"log_odds": x}, {"hit": (draw.random(n) < 0.7).astype(int)})
    if rng.random() < 0.3:
        table.scores["confidence"] = 1 / (1 + np.exp(-x))
    return table


def _event(rng: Random, draw: np.random.Generator, n: int, k: int) -> Table:
    p = draw.beta(0.7, 0.9, n)
    options = ["--event"] if rng.random() < 0.7 else []
    return Table(n, {"prob": p}, {"y": (draw.random(n) < p).astype(int)}, options)


ODD_NUMBERS = [0.0, 1.0, -0.0, 0.5, -1.0, 2.0, 1.0000001, 1e308, -1e308, 1e-320, 5e-324, float("nan"), float("inf"), -float("inf"), 1 - 2**-53, 2.0**53, 700.0, 800.0, -745.2]  # fmt: skip


def _spoil(rng: Random, draw: np.random.Generator, table: Table) -> None:
    """Make something about the values unusual."""
    name = rng.choice(list(table.columns))
    values = np.array(table.columns[name])
    if values.dtype == object or not values.size:
        return
    what = rng.choice(["odd", "odd", "constant", "tied", "saturated", "type", "negate", "shift", "text", "same"])
    values = values.astype(np.float64) if what in ("odd", "constant", "tied", "saturated", "shift") else values
    if what == "odd":
        for _ in range(rng.choice([1, 2, 5])):
            values.flat[rng.randrange(values.size)] = rng.choice(ODD_NUMBERS)
    elif what == "constant":
        values[...] = rng.choice(ODD_NUMBERS)
    elif what == "tied":
        with np.errstate(over="ignore"):
            values = np.round(values, rng.choice([0, 1]))
    elif what == "saturated":
        values[draw.random(values.shape) < 0.5] = rng.choice([0.0, 1.0])
    elif what == "type":
        kind = rng.choice(["f2", "f4", ">f8", "i1", "u1", "?", ">i8", "i4", "u8"])
        with np.errstate(all="ignore"):
            values = np.nan_to_num(values.astype(np.float64)).astype(kind)
    elif what == "negate":
        values = -values if values.dtype.kind in "fi" else values
    elif what == "shift":
        values = values + rng.choice([1, -1, 0.01, 1e6])
    elif what == "text" and values.ndim == 1:
        values = np.array([rng.choice([str(v), "true", "False", "", "x", "1.0"]) for v in values], dtype=object)
    elif what == "same" and values.ndim == 1:
        values = np.repeat(values[:1], values.size)
    (table.scores if name in table.scores else table.others)[name] = values
