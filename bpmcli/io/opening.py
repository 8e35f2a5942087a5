"""Opens an input with the reader of its format, found by `--input-format`, by its suffix, or by its content.

Inputs that can be read only once (standard input, pipes, `<(...)` and devices) are copied to a temporary file, because
an input is opened several times: columns are looked at before rows are read. Worker processes find the copies through
an environment variable.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from bpmcli.errors import DataError, too_many_files
from bpmcli.io.formats import STDIN, file_and_group, known_suffixes, reader_for, reader_named, readers, suffix_of
from bpmcli.io.formats.reader import Reader
from bpmcli.io.memory import grant

if TYPE_CHECKING:
    from bpmcli.io.layout import InputOptions

GZIP = b"\x1f\x8b"

LOG_SUFFIXES = (".jsonl", ".json", ".eval", ".jsonl.gz", ".ndjson", "")
"""Suffixes of evaluation logs. Other files are not checked for being logs, so that reading them starts quickly."""


LM_SCORE = "lm-score:"
"""The beginning of the `--input-format` that --lm-score sets. Logs are recognised by content; lm-eval logs use it."""


def open_reader(path: str, input_format: str | None = None) -> Reader:
    """The reader of a file, directory, stream or remote object."""
    if file_and_group(path)[1]:
        grant(path)
        return reader_named("hdf5")(path)
    stream = is_stream(path)
    if stream:
        path = copied(path)
    elif "://" not in path and not os.path.exists(path):
        raise DataError("no such file")
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
    return with_label_file(open_reader(path, options.input_format), options)


def with_label_file(reader: Reader, options: InputOptions) -> tuple[Reader, InputOptions]:
    """The reader with the labels of another file, if `--label` names one; the options then name their column."""
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
    """The reader of a file whose suffix is unknown."""
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


STREAM_LIMIT = 4 << 30
"""The most bytes that are copied from a stream; a longer one counts as endless."""

HEAD = 1 << 16
"""Bytes by which the format is recognised."""

_COPIES = "BPMCLI_STREAM_COPIES"
_BLOCK = 1 << 20
_own: dict[tuple[str, int], str] = {}
unfinished: set[str] = set()
"""Copies that exist now."""


def is_stream(path: str) -> bool:
    """Whether a path can be read only once: anything but a regular file, a directory or a remote path."""
    if path == STDIN or path in _for_worker():
        return True
    if "://" in path:
        return False
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _for_worker() -> dict[str, str]:
    """The copies that were made by the process that started this worker."""
    if _COPIES not in os.environ:
        return {}
    from multiprocessing import parent_process  # not at the top: most commands start no workers

    if parent_process() is None:
        return {}
    import json

    found: dict[str, str] = json.loads(os.environ[_COPIES])
    return found


def copied(path: str) -> str:
    """A regular file with the stream's content. The stream is read on the first call only."""
    if path in _for_worker():
        return _for_worker()[path]
    # A path may name another stream later in the life of a process.
    key = (path, id(sys.stdin)) if path == STDIN else (path, os.stat(path).st_ino)
    if key not in _own:
        import json

        copy = _copy(path)
        if path != STDIN and hasattr(os, "O_PATH"):
            with suppress(OSError):  # stays open, so that the inode number is not given to another pipe
                os.open(path, os.O_PATH)
        _own[key] = copy
        os.environ[_COPIES] = json.dumps({path: copy for (path, _), copy in _own.items()})
    return _own[key]


def _copy(path: str) -> str:
    import atexit
    import tempfile

    if path == STDIN and sys.stdin is None:
        raise DataError("is closed", "pipe data into it, or name a file")
    copy = tempfile.NamedTemporaryFile(prefix="bpmcli-", suffix=".stream", delete=False)  # noqa: SIM115
    unfinished.add(copy.name)
    atexit.register(_remove, copy.name)
    try:
        with copy:
            if path == STDIN:
                _fill(copy, sys.stdin.buffer)
            else:
                with open(path, "rb") as stream:
                    _fill(copy, stream)
    except BaseException as error:
        _remove(copy.name)
        if isinstance(error, OSError):
            where = tempfile.gettempdir()
            raise too_many_files(error) or DataError(
                f"cannot be copied to {where} ({error.strerror or error})"
            ) from None
        raise
    return copy.name


def _fill(copy: IO[bytes], stream: IO[bytes]) -> None:
    """Copy a stream. If its first block is neither a known format nor text, it is refused."""
    head = stream.read(HEAD)
    if head.strip() and by_content(head) is None:
        raise DataError("is neither text nor a known format", "give csv, jsonl, parquet, arrow or npz")
    size = copy.write(head)
    while block := stream.read(_BLOCK):
        size += copy.write(block)
        if size > STREAM_LIMIT:
            raise DataError(
                f"has more than {STREAM_LIMIT >> 30} GiB, the limit for pipes and devices", "write it to a file first"
            )


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
    unfinished.discard(path)
