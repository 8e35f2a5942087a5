"""Finds the reader of a file: by `--input-format`, by its suffix, or by its content."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from bpmcli.errors import DataError
from bpmcli.io.formats import known_suffixes, reader_for, reader_named, readers, suffix_of
from bpmcli.io.formats.reader import Reader
from bpmcli.io.memory import grant

if TYPE_CHECKING:
    from bpmcli.io.layout import InputOptions

GZIP = b"\x1f\x8b"

LOG_SUFFIXES = (".jsonl", ".json", ".eval", ".jsonl.gz", ".ndjson", "")
"""Suffixes of evaluation logs. Other files are not checked for being logs, so that reading them starts quickly."""


LM_SCORE = "lm-score:"
"""Begins the `--input-format` that --lm-score sets: logs are recognised by content, and those of lm-eval use it."""


def open_reader(path: str, input_format: str | None = None) -> Reader:
    """The reader of a file, directory, stream or remote object."""
    from bpmcli.io.streams import HEAD, copied, is_stream

    if "::" in path and not os.path.exists(path) and os.path.isfile(path.partition("::")[0]):
        grant(path)
        return reader_named("hdf5")(path)
    stream = is_stream(path)
    if stream:
        path = copied(path)
    elif "://" not in path and not os.path.exists(path):
        raise DataError("no such file" if path else "an empty name")
    grant(path)
    if input_format and input_format.startswith(LM_SCORE):
        return _scored(_reader_of_file(path, "" if stream else suffix_of(path), HEAD), path, input_format)
    if input_format:
        from bpmcli.io import logs

        return (logs.named(input_format) or reader_named(input_format))(path)
    if os.path.isdir(path):
        return _folder(path)
    return _reader_of_file(path, "" if stream else suffix_of(path), HEAD)(path)


def open_input(path: str, options: InputOptions) -> tuple[Reader, InputOptions]:
    """The reader of an input; labels from another file are joined, and the options then name their column."""
    options = options.at(path)
    reader = open_reader(path, options.input_format)
    label = options.label
    if label is None or label in reader.columns:
        return reader, options
    from bpmcli.io.label_files import file_and_column, refuse_missing_file, with_labels

    path, column = file_and_column(label)
    if path:
        return with_labels(reader, path, column, options)
    refuse_missing_file(label, reader.columns)
    return reader, options


def _reader_of_file(path: str, suffix: str, size: int) -> type[Reader]:
    """The class that reads a file, by its suffix and its first bytes."""
    named = reader_for(suffix)
    if named is not None and "://" in path:
        return named  # saves a request
    head = _head(path, size)
    if suffix in LOG_SUFFIXES and head is not None and (log := _log(head)) is not None:
        return log
    if suffix == ".eval":  # only Inspect writes such files, and its reader will report what is wrong
        return _inspect()
    if named is not None and (head is None or not head.strip() or named.recognises(head)):
        return named
    if named is not None and head is not None and head.startswith(named.containers):
        return named
    return _by_content_or_suffix(head, named, suffix)


def _by_content_or_suffix(head: bytes | None, named: type[Reader] | None, suffix: str) -> type[Reader]:
    """The reader of a file whose suffix is unknown or contradicts its content."""
    found = by_content(head or b"")
    if named is None:
        return _unnamed(found, head, suffix)
    if found is not None and found.label.startswith(named.label):
        return found  # a variant of the format, such as arrow's stream format
    if found is not None and found.distinct:
        raise DataError(f"has the suffix {suffix} but holds {found.label}", f"--input-format {found.label}")
    return named  # this reader will report what is wrong


def _scored(found: type[Reader], path: str, choice: str) -> Reader:
    from bpmcli.io import logs

    if found.label not in logs.LOGS:
        raise DataError(f"is {found.label}, but --lm-score is for logs of lm-evaluation-harness", "leave it out")
    if found.label != "lm-eval":
        return found(path)
    lm_eval: Any = found
    reader: Reader = lm_eval(path, chosen={choice.removeprefix(LM_SCORE): ""})
    return reader


def _folder(path: str) -> Reader:
    from bpmcli.io.formats.hf_file import ArrowStreamReader, is_dataset

    if is_dataset(path):
        return ArrowStreamReader(path)
    raise DataError("is a directory")


def _inspect() -> type[Reader]:
    from bpmcli.io.logs.inspect_log import InspectLog

    return InspectLog


def _log(head: bytes) -> type[Reader] | None:
    """The reader of an evaluation log."""
    from bpmcli.io import logs

    return logs.recognised(unzipped(head) if head.startswith(GZIP) else head)


def _unnamed(found: type[Reader] | None, head: bytes | None, suffix: str) -> type[Reader]:
    """The reader of a file whose suffix says nothing."""
    if found is not None:
        return found
    if head is not None and not head.strip():
        raise DataError("no rows", "the input is empty")
    what = f"unknown suffix '{suffix}'" if suffix else "no suffix"
    raise DataError(what, f"known formats: {known_suffixes()}")


def by_content(head: bytes) -> type[Reader] | None:
    """The reader of the format that the first bytes of a file have, unpacked if they are gzipped."""
    if head.startswith(GZIP):
        head = unzipped(head)
    # Formats with a mark of their own come first: almost any text could be csv.
    every = sorted(dict.fromkeys(readers().values()), key=lambda cls: not cls.distinct)
    return next((cls for cls in every if cls.recognises(head)), None)


def unzipped(head: bytes, most: int = 1 << 16) -> bytes:
    """The beginning of gzipped data; empty if it is damaged."""
    import zlib

    try:
        return zlib.decompressobj(wbits=31).decompress(head, most)
    except zlib.error:
        return b""


def _head(path: str, size: int) -> bytes | None:
    """The first bytes of a file; None if it cannot be opened (its reader will report why)."""
    try:
        with open_bytes(path) as f:
            head: bytes = f.read(size)
            return head
    except OSError:
        return None


def open_bytes(path: str) -> Any:
    """A binary file, local or remote."""
    if "://" not in path:
        return open(path, "rb")
    from bpmcli.io.remote import opened

    return opened(path)
