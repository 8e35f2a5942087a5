"""Tables that W&B and MLflow store: `{"columns": […], "data": [[…], …]}`, W&B's with `_type` in artifacts.

W&B writes them as `NAME.table.json`, MLflow as `eval_results_table.json`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from bpmcli.errors import DataError
from bpmcli.io.column_choice import listed
from bpmcli.io.formats.json_file import JsonReader
from bpmcli.io.known_names import NAMES, SCORES, SPREAD

START = re.compile(rb'\s*\{\s*("_type"\s*:\s*"table"|"columns"\s*:\s*\[)')


class TableLog(JsonReader):
    """A logged table. Images and other media are left alone."""

    label = "table"
    choices: ClassVar[Mapping[str, str]] = {}
    how_to_log: ClassVar[str] = (
        "log a column per class, score_0, score_1, …, or one called confidence, and the true class"
    )

    def __init__(self, path: str, chosen: Mapping[str, str] | None = None) -> None:
        super().__init__(path)

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return START.match(start.removeprefix(b"\xef\xbb\xbf")) is not None

    def inspect(self) -> None:
        super().inspect()
        numbers = [name for name, column in self.columns.items() if column.kind in "fiu" or column.width is not None]
        known = [name for role in SCORES for name in NAMES[role]] + [
            name for names in SPREAD.values() for name in names
        ]
        named = [name for name in self.columns if name.lower() in known]
        if not numbers and not named:
            raise DataError(f"has no column of numbers (found: {listed(self.columns)})", self.how_to_log)
