"""Everything that is not data: notes, notices, errors, progress. Standard error only."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, TypeVar

from bpmcli.core.data.notices import Notice
from bpmcli.errors import BpmError
from bpmcli.escape import spelled_out

T = TypeVar("T")

quiet = False
"""Set for -q: no notes and no progress. Errors are still shown."""

hinted: set[str] = set()
"""Hints that this run has given with a notice. Emptied by main."""

RED, GREEN, YELLOW = "31", "32", "33"

PROGRESS_AFTER = 0.5
"""Seconds before a progress bar is worth showing."""


def colourful(stream: TextIO) -> bool:
    """Whether this stream gets colours: on a terminal, or with FORCE_COLOR; never with NO_COLOR or TERM=dumb."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def _styled(text: str, code: str) -> str:
    if not colourful(sys.stderr):
        return text
    return f"\033[{code}m{text}\033[0m"


def _wrapped(text: str) -> str:
    """The text, wrapped at words if it goes to a terminal, which would break it anywhere."""
    if not sys.stderr.isatty():
        return text
    try:
        width = int(os.environ.get("COLUMNS") or os.get_terminal_size(sys.stderr.fileno()).columns)
    except (OSError, ValueError):
        width = 80
    hang = "    " if text.startswith("  ") else "  "
    return textwrap.fill(text, max(width, 20), subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)


def printable(text: str) -> str:
    """The text without control characters. Almost all text has none; compiling the pattern takes a millisecond."""
    return text if text.isprintable() else spelled_out(text)


def say(text: str, colour: str = "", word: str = "") -> None:
    """Prints a line on standard error, also with -q. `colour` applies to `word`, or to the whole line."""
    line = _wrapped(printable(text))
    if colour:
        line = line.replace(word, _styled(word, colour), 1) if word else _styled(line, colour)
    print(line, file=sys.stderr)


def note(text: str, colour: str = "") -> None:
    """Prints a line on standard error, unless -q."""
    if not quiet:
        say(text, colour)


def note_table(text: str) -> None:
    """Prints a rendered table on standard error, unless -q."""
    if not quiet:
        print(text.rstrip(), file=sys.stderr)


def show_notices(notices: Iterable[Notice], where: str = "") -> None:
    """Prints notices with their hints, each once, unless -q."""
    if quiet:
        return
    for item in dict.fromkeys(notices):
        place = f"{where}: " if where else ""
        say(f"note: {place}{item}", YELLOW, "note:")
        if item.hint and item.hint not in hinted:
            hinted.add(item.hint)
            say(f"  hint: {item.hint}")


def show_error(error: BpmError) -> None:
    """Prints what happened and where, and on a second line the simplest fix."""
    say(f"bpmcli: error: {error.message}", RED, "error:")
    if error.hint:
        say(f"  hint: {error.hint}")


def fail(text: str) -> None:
    """Prints that a gate failed, also with -q."""
    say(text, RED)


def progress(items: Iterable[T], total: int, what: str) -> Iterable[T]:
    """The items, with a bar on a terminal once they have taken half a second."""
    if quiet or not sys.stderr.isatty():
        return items
    return _with_bar(items, _Bar(total, what))


def _with_bar(items: Iterable[T], bar: _Bar) -> Iterator[T]:
    from bpmcli.io import batches

    batches.watch = bar.rows
    try:
        for done, item in enumerate(items, 1):
            bar.move(done)
            yield item
    finally:
        batches.watch = None
        bar.stop()


class _Bar:
    """A bar over several inputs that also moves within each of them if its number of rows is known."""

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what, self.done = total, what, 0
        self.started = time.monotonic()
        self.shown: Any = None
        self.task: Any = None

    def move(self, done: int) -> None:
        """Report how many inputs are done."""
        self.done = done
        self._show(float(done), self.what)

    def rows(self, read: int, known: int | None) -> None:
        """Report how many rows of the next input are read, and how many it has, if known."""
        share = min(read / known, 1.0) if known else 0.0
        self._show(self.done + share, f"{self.what}, row {read:,}")

    def stop(self) -> None:
        if self.shown is not None:
            self.shown.stop()

    def _show(self, completed: float, what: str) -> None:
        if self.shown is None and time.monotonic() - self.started > PROGRESS_AFTER:
            self.shown = _rich_bar()
            self.shown.start()
            self.task = self.shown.add_task(what, total=self.total, done=0)
        if self.shown is not None:
            self.shown.update(self.task, completed=completed, description=what, done=self.done)


def reading(items: Iterator[T], total: int) -> Iterator[T]:
    """The same for engines, which only know how many results they wait for."""
    return iter(progress(items, total, "reading"))


def _rich_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    count = TextColumn("{task.fields[done]}/{task.total:.0f}")
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
