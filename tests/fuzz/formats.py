"""Every input format. A new one is one function in a file beside this, and one entry here."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fuzz.format_arrow import arrow, parquet
from fuzz.format_numpy import npy, npz
from fuzz.format_others import arrow_stream, hdf5, json_table, orc, safetensors
from fuzz.format_text import json_lines, separated
from fuzz.tables import Table

Format = Callable[..., tuple[str, bytes]]

FORMATS: list[Format] = [npz, npy, parquet, arrow, separated, json_lines]
SELDOM: list[Format] = [json_table, safetensors, orc, hdf5, arrow_stream]

OUTPUT_SUFFIXES = [".npz", ".parquet", ".arrow", ".csv", ".tsv", ".jsonl", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".feather", ".pq", ".ndjson"]  # fmt: skip


def random_file(rng: Random, table: Table, plain: bool = False) -> tuple[str, bytes]:
    """Suffix and content in a format chosen at random."""
    return rng.choice(SELDOM if rng.random() < 0.15 else FORMATS)(rng, table, plain)


def text_file(rng: Random, table: Table, plain: bool = False) -> bytes:
    """What can be read from standard input."""
    return rng.choice([separated, json_lines])(rng, table, plain)[1]
