"""Hugging Face data sets on disk: a folder of arrow shards in the stream format, or one such shard."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bpmcli.errors import DataError
from bpmcli.io.formats import reads
from bpmcli.io.formats.arrow_layout import stream_batches
from bpmcli.io.formats.record_batches import ArrowReader

HUGGING_FACE = b"huggingface"
"""The key under which the schema's metadata describes the features of a data set."""


def is_dataset(folder: str) -> bool:
    """Whether `Dataset.save_to_disk` wrote this folder."""
    return os.path.isfile(os.path.join(folder, "dataset_info.json")) and bool(_shards(folder))


def dataset_splits(folder: str) -> list[str]:
    """The folders of the splits that `DatasetDict.save_to_disk` wrote."""
    if not os.path.isfile(os.path.join(folder, "dataset_dict.json")):
        return []
    inside = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    return [path for path in inside if is_dataset(path)]


def _shards(folder: str) -> list[str]:
    return sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(".arrow"))


@reads("arrow-stream", ".arrows")
class ArrowStreamReader(ArrowReader):
    """Record batches one after the other; a folder is read shard by shard."""

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start.startswith(b"\xff\xff\xff\xff")

    @contextmanager
    def _stream(self, path: str) -> Iterator[Any]:
        import pyarrow as pa

        with pa.OSFile(path) as raw, pa.ipc.open_stream(raw) as stream:
            yield stream

    def _files(self) -> list[str]:
        return _shards(self.path) if os.path.isdir(self.path) else [self.path]

    def schema(self) -> Any:
        self.n_rows = 0
        for path in self._files():
            with open(path, "rb") as raw:
                self.n_rows += sum(batch.rows for batch in stream_batches(raw) if batch.is_rows)
        with self._stream(self._files()[0]) as stream:
            return stream.schema

    def record_batches(self, names: list[str] | None, numeric: Sequence[str]) -> Iterator[Any]:
        for path in self._files():
            with self._stream(path) as stream:
                if stream.schema.names != list(self.fields):
                    raise DataError(f"{os.path.basename(path)} has other columns than the first shard", "save it again")
                for record in stream:
                    if record.num_rows:
                        yield record.select(names) if names is not None else record

    def class_names(self, label: str, n: int) -> tuple[str, ...] | None:
        try:
            features = json.loads(self.table_metadata[HUGGING_FACE])["info"]["features"]
            found = features[label]["names"]
        except (KeyError, TypeError, ValueError, RecursionError):
            return super().class_names(label, n)
        return tuple(map(str, found)) if isinstance(found, list) and len(found) == n else None
