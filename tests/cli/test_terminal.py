"""What a narrow terminal shows: words whole, rows told apart in every block, titles as wide as the terminal."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from bpmcli.cli import console, render
from bpmcli.core.data.notices import notice
from bpmcli.errors import BpmError


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("COLUMNS", "50"), ("NO_COLOR", ""), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(console, "quiet", False)


def spoken(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    console.show_notices([notice("argmax-kept", count=3)], "runs/a.npz")
    console.show_error(
        BpmError("a message with error: and many words " * 3, "a hint of more than fifty characters " * 2)
    )
    console.note("a note of more than fifty characters, which is a lot of them")
    console.note_table("a  table\n-  -----\n" + "x" * 60)
    console.fail("gate failed: " + "word " * 20)
    return stream.getvalue()


def test_a_terminal_breaks_notes_at_words(narrow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown, plain = spoken(monkeypatch, Terminal()), spoken(monkeypatch, io.StringIO())
    assert max(map(len, plain.splitlines())) > 100
    assert [line for line in shown.splitlines() if len(line) > 50] == ["x" * 60]
    assert shown.split() == plain.split()
    monkeypatch.setenv("NO_COLOR", "")
    coloured = spoken(monkeypatch, Terminal())
    assert coloured.count("\033[31merror:\033[0m") == 1
    assert coloured.count("\033[33mnote:\033[0m") == 1


def test_blocks_of_a_split_table_repeat_input_and_group(narrow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = [f"metric-{i}" for i in range(6)]
    rows = [["a.npz", group, *[0.5] * 6] for group in ("north", "south")]
    title = "a title of more characters than its table is wide"
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    render.show("table", render.Table(["input", "group", *metrics], rows, title), None)
    text = out.getvalue()
    assert text.count("metric-") == 6
    blocks = text.count("input")
    assert blocks > 1
    assert text.count("group") == text.count("north") == text.count("south") == blocks
    render.show("table", render.Table(["", "value"], [["n", 1]], title), None)
    assert out.getvalue().count(title) == 2  # not folded to the table's width


def test_the_bar_moves_within_a_file(run, monkeypatch):
    """Rows that are read move the bar, and nothing is watched after it."""
    from bpmcli.io import batches

    moves: list[float] = []

    class Shown:
        def start(self) -> None: ...
        def stop(self) -> None: ...
        def add_task(self, what: str, total: int, done: int) -> int:
            return 0

        def update(self, task: int, completed: float, description: str, done: int) -> None:
            moves.append(completed)

    for name in ("a.npz", "b.npz"):
        np.savez(name, confidence=np.full(200_000, 0.9), hits=np.ones(200_000))
    monkeypatch.setattr(console, "PROGRESS_AFTER", -1.0)
    monkeypatch.setattr(console, "_rich_bar", Shown)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run("metrics", "a.npz", "b.npz", "-m", "ece")
    assert moves == sorted(moves)
    assert moves[-1] == 2
    assert len(moves) >= 4  # the rows of each file, and each file
    assert batches.watch is None
