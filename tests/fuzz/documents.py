"""Documents that the tool writes and reads, made by the tool itself: the starting points of all changes to them."""

from __future__ import annotations

import json
import tempfile
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from fuzz.case import Step
from fuzz.format_arrow import parquet
from fuzz.running import run_step
from fuzz.tables import Table, numpy_rng

ROWS = 150


def rows_file(seed: int = 1) -> bytes:
    """Rows that every method can be fitted to: logits of three classes, labels, sites and weights."""
    import numpy as np

    draw = numpy_rng(Random(seed))
    z = draw.normal(size=(ROWS, 3)) * 2
    noisy = z / 2 + draw.gumbel(size=z.shape)
    site = np.array(["a", "b", "c"], dtype=object)[draw.integers(0, 3, ROWS)]
    table = Table(
        ROWS, {"logits": z}, {"label": noisy.argmax(axis=1), "site": site, "weight": draw.uniform(1, 2, ROWS)}
    )
    return parquet(Random(seed), table, plain=True)[1]


def event_file(seed: int = 1) -> bytes:
    """P(y = 1) and y, with sites."""
    import numpy as np

    draw = numpy_rng(Random(seed))
    p = draw.beta(0.8, 1.2, ROWS)
    site = np.array(["a", "b", "c"], dtype=object)[draw.integers(0, 3, ROWS)]
    table = Table(ROWS, {"prob": p}, {"y": (draw.random(ROWS) < p**1.5).astype(int), "site": site})
    return parquet(Random(seed), table, plain=True)[1]


def _made(commands: list[list[str]], wanted: str) -> list[bytes]:
    """The files of that name that the commands write; commands that refuse are left out.

    Fits are judged on one split, as those of many rows are: the five fits of a cross-validation would take most of the
    time, and a parameter file holds the same fields.
    """
    from bpmcli.core.compare import before_after

    few, before_after.FEW_VALUES = before_after.FEW_VALUES, 0
    try:
        return _written(commands, wanted)
    finally:
        before_after.FEW_VALUES = few


def _written(commands: list[list[str]], wanted: str) -> list[bytes]:
    found = []
    for argv in commands:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / "rows.parquet").write_bytes(rows_file())
            (place / "event.parquet").write_bytes(event_file())
            ran = run_step(Step(argv), place)
            if wanted == "-":
                found += [ran.out] if ran.code == 0 else []
            elif (place / wanted).exists():
                found.append((place / wanted).read_bytes())
    return found


@lru_cache
def methods() -> list[str]:
    """Every calibrator, from the registry."""
    from bpmcli.core.calibrators import METHODS

    return [m for m in METHODS if ":" not in m]


@lru_cache
def _fits() -> list[list[str]]:
    """One command per method and way to group."""
    commands = []
    for method in methods():
        base = ["-q", "--method", method, "-o", "p.json"]
        commands += [["fit", "rows.parquet", *base], ["fit", "event.parquet", "--event", *base]]
    for more in (["--by", "site"], ["--classwise"], ["--marginal"]):
        for method in ("bpm-averaged", "isotonic", "platt"):
            commands.append(
                ["fit", "rows.parquet", *more, "--min-group", "20", "-q", "--method", method, "-o", "p.json"]
            )
    return commands


@lru_cache
def _parameters(index: int) -> Any:
    made = _made([_fits()[index]], "p.json")
    return json.loads(made[0]) if made else None


def parameters(rng: Random) -> Any:
    """A parameter document; only those asked for are fitted."""
    while (found := _parameters(rng.randrange(len(_fits())))) is None:
        pass
    return found


@lru_cache
def baselines() -> list[Any]:
    """Saved results of `metrics`."""
    commands = [
        ["metrics", "rows.parquet", "-q", "-f", "json", "-m", "ece", "-m", "ks"],
        ["metrics", "rows.parquet", "-q", "-f", "json", "-m", "ece", "-m", "ks", "--by", "site"],
        ["metrics", "rows.parquet", "-q", "-f", "json", "-m", "tce", "--interval", "0.9", "--resamples", "20"],
    ]
    return [json.loads(text) for text in _made(commands, "-")]


RESUMED = [
    "compare",
    "metrics",
    "--truth",
    "D1",
    "-n",
    "60",
    "--runs",
    "2",
    "-m",
    "ece",
    "-q",
    "--resume",
    "draws.jsonl",
]


@lru_cache
def resumed() -> list[list[Any]]:
    """Draws that an interrupted comparison has kept."""
    return [[json.loads(line) for line in text.splitlines()] for text in _made([RESUMED], "draws.jsonl")]


BATCH = ["apply", "p.json", "rows.parquet", "--output-dir", "out", "-q"]


@lru_cache
def batches() -> dict[str, bytes]:
    """An output folder with its record."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "rows.parquet").write_bytes(rows_file())
        (place / "p.json").write_text(json.dumps(parameters(Random(0))))
        run_step(Step(BATCH), place)
        return {
            str(path.relative_to(place)): path.read_bytes() for path in (place / "out").rglob("*") if path.is_file()
        }


@lru_cache
def summaries() -> list[bytes]:
    """Summary files of every kind: distinct values or cells, weighted, grouped, of events."""
    commands = [
        ["summarize", "rows.parquet", "-q", "-o", "s.parquet", *more]
        for more in ([], ["--by", "site"], ["--weight", "weight"], ["--by", "site", "--weight", "weight"])
    ]
    commands.append(["summarize", "event.parquet", "-q", "--event", "-o", "s.parquet"])
    return _made(commands, "s.parquet")
