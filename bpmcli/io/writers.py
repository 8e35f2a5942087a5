"""Writes tables batch by batch. The finished file is opened again and checked before it gets its name."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from bpmcli.errors import BpmError, DataError, UsageError
from bpmcli.io.atomic import atomic_path, write_text
from bpmcli.io.formats import STDIN, reader_for, suffix_of, writer_for, writers
from bpmcli.io.formats.reader import Reader
from bpmcli.io.formats.writer import Writer


@contextmanager
def open_writer(
    path: str, suffix: str | None = None, metadata: Mapping[str, str] | None = None, origin: Reader | None = None
) -> Iterator[Writer]:
    """A writer by suffix. The file appears only if the block ends without an error and its content was checked.

    `origin` is the input that the columns come from: its field types and its metadata are kept.
    """
    suffix = suffix or suffix_of(path)
    cls = writer_for(suffix)
    if cls is None:
        raise UsageError(f"{path}: cannot write '{suffix}' files", "known formats: " + ", ".join(writers()))
    if path == STDIN:
        if not cls.to_stdout:
            raise UsageError(f"{suffix[1:]} cannot go to standard output", "name a file with -o")
        with _to_stdout(), _closing(cls(STDIN, metadata or {}, origin)) as out:
            yield out
        return
    with atomic_path(path) as temporary:
        with _closing(cls(temporary, metadata or {}, origin)) as out:
            yield out
        check_output(out, suffix)


@contextmanager
def _closing(out: Writer) -> Iterator[Writer]:
    try:
        yield out
    except BaseException:
        with suppress(Exception):
            out.abandon()
        raise
    out.close()


@contextmanager
def _to_stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"standard output cannot be written ({error.strerror or error})", "name a file") from None


def check_output(out: Writer, suffix: str) -> None:
    """Open a finished file again and compare its rows and columns with what was written."""
    cls = reader_for(suffix)
    if cls is None or not out.names:
        return
    try:
        names, rows = cls.written(out.path)
    except (BpmError, OSError, ValueError, csv.Error) as error:
        text = error.message if isinstance(error, BpmError) else str(error)
        raise DataError(f"the output cannot be read again: {text}", "nothing was written") from None
    expected = [*out.names, *out.carried]
    if rows != out.rows or (out.fixed_columns and not set(out.names) <= set(names)) or not set(names) <= set(expected):
        found = f"{len(names)} columns, {rows} rows"
        raise DataError(
            f"the output has {found} instead of {len(expected)} columns, {out.rows} rows",
            "nothing was written; is the disk full?",
        )


__all__ = ["atomic_path", "check_output", "open_writer", "write_text"]
