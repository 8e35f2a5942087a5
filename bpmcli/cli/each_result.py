"""Writes each result as soon as its input is done: as a line of JSON, a file, or both."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bpmcli.cli import streams
from bpmcli.cli.measurement_tables import measurements, outward
from bpmcli.cli.render import render
from bpmcli.io.stdout import data_stream

Record = Mapping[str, Any]
JSON_LINES = "jsonl"


class EachResult:
    """Takes the records of one input after the other."""

    def __init__(
        self, items: Sequence[Any], folder: str | None, format_: str, head: Mapping[str, Any], label: str | None = None
    ) -> None:
        """`label`: a file of labels, which must not be written over."""
        self.format, self.head = format_, head
        self.targets: list[str] = []
        if folder is not None:
            from bpmcli.io.outputs import output_paths

            suffix = ".metrics.csv" if format_ == "csv" else ".metrics.json"
            self.targets = output_paths(items, folder, [suffix] * len(items), also=label)

    def take(self, position: int, records: Sequence[Record]) -> None:
        """Print and write the records of the input at this position."""
        if self.format == JSON_LINES:
            print_lines(records)
        if self.targets:
            from bpmcli.io.writers import write_text

            document = {**self.head, "results": [outward(record) for record in records], "failures": [], "gates": []}
            form = "csv" if self.format == "csv" else "json"
            write_text(self.targets[position], render(form, measurements(records, wide=True), document))


def print_lines(records: Sequence[Record]) -> None:
    """Print one line of JSON per record at once, so that its reader need not wait for the next input."""
    from bpmcli.io.documents import dumps

    try:
        stream = data_stream()
        for record in records:
            stream.write(dumps(outward(record), indent=None))
        stream.flush()
    except BrokenPipeError:
        # A gate must still fail even if nobody reads the lines.
        streams.forget(sys.stdout)
