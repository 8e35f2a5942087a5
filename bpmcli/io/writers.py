"""Writes a file under a temporary name and renames it when it is complete.

Tables are written batch by batch, and the finished file is opened again and checked before it gets its name. The
temporary file is locked while its writer lives. A run that was killed leaves its file behind unlocked, and the next run
that writes the same target removes it.
"""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape, glob
from pathlib import Path

from bpmcli.errors import BpmError, DataError, UsageError, too_many_files
from bpmcli.io.formats import STDIN, reader_for, suffix_of, writer_for, writers
from bpmcli.io.formats.reader import Reader
from bpmcli.io.formats.writer import Writer
from bpmcli.io.remote import is_remote, local_path
from bpmcli.io.stdout import data_stream

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

STDOUT = "-"
PART = ".part"

unfinished: set[str] = set()
"""Temporary files that exist now."""


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
        text, hint = (error.message, error.hint) if isinstance(error, BpmError) else (str(error), "")
        raise DataError(f"the output cannot be read again: {text}", hint or "nothing was written") from None
    expected = [*out.names, *out.carried]
    if rows != out.rows or (out.fixed_columns and not set(out.names) <= set(names)) or not set(names) <= set(expected):
        found = f"{len(names)} columns, {rows} rows"
        raise DataError(
            f"the output has {found} instead of {len(expected)} columns, {out.rows} rows",
            "nothing was written; is the disk full?",
        )


@contextmanager
def atomic_path(path: str) -> Iterator[str]:
    """A temporary name beside `path`. The file is renamed to `path` at the end, and removed on any failure."""
    path = local_path(path)
    target = Path(path)
    if is_remote(path) or (target.exists() and not target.is_file() and not target.is_dir()):
        # A device or a pipe (/dev/null, /dev/stdout) is written to, never replaced.
        with _sent(path) as name:
            yield name
        return
    handle, name = -1, ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(target)
        # The name is known before the file is there, because a signal may come between the two.
        name = os.path.abspath(target.parent / f".{target.name[:80]}.{os.urandom(8).hex()}{PART}")
        unfinished.add(name)
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if not _lock(handle):
            os.close(handle)  # Windows cannot rename an open file
        yield name
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        if target.is_dir():
            raise DataError(f"{path}: cannot be written (is a directory)", "name a file")
        os.replace(name, target)
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:
        with suppress(OSError):
            os.unlink(name)
        unfinished.discard(name)
        with suppress(OSError):
            os.close(handle)


def _cannot_write(path: str, error: OSError) -> DataError:
    said = f"{path}: cannot be written ({error.strerror or error})"
    return too_many_files(error) or DataError(said, "choose another target")


def remove_stale(target: Path) -> None:
    """Remove temporary files of this target whose writer was killed."""
    for name in glob(os.path.join(escape(str(target.parent)), f".{escape(target.name[:80])}.*{PART}")):
        with suppress(OSError):
            handle = os.open(name, os.O_RDWR)
            try:
                if _lock(handle):
                    os.unlink(name)
            finally:
                os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open file until it is closed; False if another process holds it. Always False on Windows."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def _sent(path: str) -> Iterator[str]:
    """Write a complete local file first, then send its content at once: stores and pipes cannot take anything back."""
    with tempfile.TemporaryDirectory(prefix="bpmcli-") as folder:
        name = os.path.join(folder, "output")
        unfinished.update({name, folder})
        yield name
        unfinished.difference_update({name, folder})
        if is_remote(path):
            from bpmcli.io.remote import upload

            upload(name, path)
            return
        try:
            with open(name, "rb") as whole, open(path, "wb") as target:
                shutil.copyfileobj(whole, target, 1 << 20)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _cannot_write(path, error) from None


def write_text(path: str, text: str) -> None:
    """Writes text to a file, or to standard output for `-`."""
    if path == STDOUT:
        data_stream().write(text)
        return
    with atomic_path(path) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")
