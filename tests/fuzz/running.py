"""Runs command lines of the tool inside this process, each with standard streams of its own."""

from __future__ import annotations

import atexit
import io
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.case import Case, Step


@dataclass
class Ran:
    """What a command did."""

    argv: list[str]
    code: int
    out: bytes
    err: str
    seconds: float
    """Of processor time, which does not depend on what else the machine does."""
    megabytes: float
    """Peak of resident memory while it ran."""
    before: dict[str, bytes | None]
    after: dict[str, bytes | None]
    must_succeed: bool = False


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Contents of all files below a folder; None for what is too large to compare."""
    found: dict[str, bytes | None] = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            try:
                small = os.path.isfile(path) and os.path.getsize(path) < 1 << 22
                content = Path(path).read_bytes() if small else None
            except OSError:
                content = None
            found[os.path.relpath(path, folder)] = content
    return found


def run_step(step: Step, folder: Path) -> Ran:
    """A command line in this process. Whatever the libraries below print is caught as well."""
    from bpmcli.cli import main

    before = snapshot(folder)
    with tempfile.TemporaryDirectory(dir=folder.parent) as streams:
        (Path(streams) / "in").write_bytes(step.stdin or b"")
        with (
            _streams(Path(streams)),
            _temporary_files_in(folder),
            _environment(step.environment),
            _blocks_of(int(step.environment.get(BLOCK, 0))),
            _exit_functions() as leave,
        ):
            _reset_peak()
            start = time.process_time()
            try:
                code = main(list(step.argv))
            except SystemExit as error:
                code = -1000 if error.code is None else int(error.code)
            except BaseException:
                import traceback

                traceback.print_exc()
                code = 70
            for function in leave:
                function()
            seconds, peak = time.process_time() - start, _peak()
        out = (Path(streams) / "out").read_bytes()
        err = (Path(streams) / "err").read_text(encoding="utf-8", errors="replace")
    return Ran(step.argv, code, out, err, seconds, peak, before, snapshot(folder), step.must_succeed)


@contextmanager
def _streams(folder: Path) -> Iterator[None]:
    """Descriptors 0, 1 and 2 and their Python objects; restored afterwards."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(i) for i in range(3)]
    objects = sys.stdin, sys.stdout, sys.stderr
    flags = os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_CREAT
    for i, (name, flag) in enumerate(zip(("in", "out", "err"), flags, strict=True)):
        opened = os.open(folder / name, flag, 0o600)
        os.dup2(opened, i)
        os.close(opened)
    sys.stdin = _text(0, "rb")
    sys.stdout = _text(1, "wb")
    sys.stderr = _text(2, "wb", errors="backslashreplace", line_buffering=True)
    try:
        yield
    finally:
        mine = sys.stdout, sys.stderr
        sys.stdin, sys.stdout, sys.stderr = objects
        for stream in mine:
            with suppress(OSError, ValueError):
                stream.flush()
        for i, descriptor in enumerate(kept):
            os.dup2(descriptor, i)
            os.close(descriptor)


def _text(descriptor: int, mode: str, **options: Any) -> Any:
    return io.TextIOWrapper(open(descriptor, mode, closefd=False), encoding="utf-8", **options)


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Temporary files go where leftovers are seen."""
    place = folder / "tmp"
    place.mkdir(exist_ok=True)
    before, here = tempfile.tempdir, os.getcwd()
    tempfile.tempdir = str(place)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        tempfile.tempdir = before


@contextmanager
def _environment(wanted: dict[str, str]) -> Iterator[None]:
    """These variables, and afterwards what was there before."""
    before = dict(os.environ)
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _blocks_of(size: int) -> Iterator[None]:
    """Readers of text take so many bytes at a time, as they do from large files; 0 leaves them as they are."""
    from bpmcli.io.formats import csv_file, jsonl_file

    before = csv_file.BLOCK, jsonl_file.BLOCK
    csv_file.BLOCK, jsonl_file.BLOCK = (size, size) if size else before
    try:
        yield
    finally:
        csv_file.BLOCK, jsonl_file.BLOCK = before


@contextmanager
def _exit_functions() -> Iterator[list[Callable[[], Any]]]:
    """What a command wants to be done at exit: this process goes on, so it is done after the command."""
    wanted: list[Callable[[], Any]] = []
    register = atexit.register

    def remember(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if str(getattr(function, "__module__", "")).startswith("bpmcli"):
            wanted.append(lambda: function(*args, **kwargs))
            return function
        return register(function, *args, **kwargs)

    atexit.register = remember
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _print_warning
            yield wanted
    finally:
        atexit.register = register


def _print_warning(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    """As Python does it; pytest would collect it."""
    print(warnings.formatwarning(message, category, filename, lineno, line), file=sys.stderr)


def _reset_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    """Megabytes; 0 where the system does not tell."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def put_files(case: Case, folder: Path) -> None:
    """The files of a case; a content that starts with a marker is a link."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith(LINK):
            os.symlink(os.fsdecode(content.removeprefix(LINK)), path)
        else:
            path.write_bytes(content)


BLOCK = "FUZZ_BLOCK"
"""The variable of a step that makes its readers of text take small blocks."""

LINK = b"@link to "
