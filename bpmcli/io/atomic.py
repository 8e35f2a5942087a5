"""Writes a file under a temporary name and renames it when it is complete.

The temporary file is locked while its writer lives. A run that was killed leaves its file behind unlocked, and the
next run that writes the same target removes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape, glob
from pathlib import Path

from bpmcli.errors import DataError
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
    return DataError(f"{path}: cannot be written ({error.strerror or error})", "choose another target")


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
