"""What a narrow terminal shows: whole words, rows that can be identified in every block, titles as wide as the terminal."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bpmcli.cli import console, metrics_output, render
from bpmcli.cli.options.reading import Correct, Reading
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
    console.hinted.clear()
    monkeypatch.setattr("sys.stderr", stream)
    console.show_notices(
        [notice("groups-unseen", count=3, what="a group with no fitted calibrator", names="north")], "runs/a.npz"
    )
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


def test_a_wide_ranking_wraps_verdicts_and_names_but_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("COLUMNS", "80"), ("NO_COLOR", ""), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    columns = ["input", "rank", "tied", "verdict", "tce", "tce low", "tce high"]
    titles = ["miscalibrated, direction not clear", "calibrated", "over-confident", "too low above 0.7"]
    long = "a_model_whose_name_is_longer_than_all.npz"
    rows = [[long, i, False, title, 0.12345, 0.1, 0.2] for i, title in enumerate(titles)]
    render.show("table", render.Table(columns, rows), {})
    shown = out.getvalue()
    head = next(line for line in shown.splitlines() if "rank" in line)
    assert "verdict" in head
    assert "tce" in head  # the first block has the figure that the ranking is about
    for number, colour in (
        ("33", "miscalibrated,"),
        ("32", "calibrated"),
        ("31", "over-confident"),
        ("34", "too low above 0.7"),
    ):
        assert f"\033[{number}m{colour}" in shown
    assert long not in shown


def test_without_colours_a_terminal_still_breaks_lines_at_words(narrow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR takes the colours away, and nothing else; on a dumb terminal everything is plain."""
    table = render.Table(["input", "tce"], [["a.npz", 0.5]], "A sentence that has more than fifty characters. " * 3)
    for name, value, longest in (("NO_COLOR", "1", 50), ("TERM", "dumb", 200)):
        monkeypatch.setenv(name, value)
        out = Terminal()
        monkeypatch.setattr("sys.stdout", out)
        render.show("table", table, {})
        lines = [line.rstrip() for line in out.getvalue().splitlines()]
        assert 0.7 * longest < max(map(len, lines)) <= longest
        assert "\033" not in out.getvalue()


def test_names_of_wide_characters_are_folded_only_without_room(narrow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for width, whole in (("100", True), ("40", False)):
        out = Terminal()
        monkeypatch.setenv("COLUMNS", width)
        monkeypatch.setattr("sys.stdout", out)
        name = "日本語の長い名前のモデルの出力.npz"
        render.show("table", render.Table(["input", "tce"], [[name, 0.5]]), {})
        assert (name in out.getvalue()) is whole


@pytest.mark.parametrize("names", [["calibrated"], ["too-few-rows"], ["over-confident", "mixed"], [None], ["mixed"]])
def test_only_a_terminal_says_how_to_repair_the_error_of_a_single_input(
    monkeypatch: pytest.MonkeyPatch, names: list[str | None]
) -> None:
    monkeypatch.setattr(console, "quiet", False)
    measured = [SimpleNamespace(record={"verdict": {"name": name}} if name else {}) for name in names]
    for stream, there in ((Terminal(), names == ["mixed"]), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        metrics_output.suggest_repair(measured, Reading(), Correct())
        assert ("To repair it" in stream.getvalue()) is there


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--confidence 'my score' --hit matched",
        "--confidence percents --hit matched --scale percent",
        "--probs p1 --label y1 --event",
        "--probs p --label y --multi-label",
        "--probs p1 --label truth.csv",
        "--top-k 2",
    ],
)
def test_the_commands_that_repair_an_error_work(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: str
) -> None:
    rng = np.random.default_rng(0)
    p, s = rng.uniform(0.05, 0.95, (300, 2)), rng.uniform(0.6, 0.99, 300)
    y = (rng.random((300, 2)) < 0.5 + 0.4 * (p - 0.5)).astype(int)
    hits = (rng.random(300) < s - 0.25).astype(int)
    if "--multi-label" in options:
        np.savez("own", p=p, y=y)
    elif "--top-k" in options or not options:
        np.savez("own", logits=6 * rng.normal(size=(300, 3)), label=rng.integers(0, 3, 300))
    elif "truth" in options or "--event" in options:
        np.savez("own", p1=p[:, 0], **({"y1": y[:, 0]} if "--event" in options else {}))
        Path("truth.csv").write_text("label\n" + "\n".join(map(str, y[:, 0])) + "\n")
    else:
        np.savez("own", **{"my score": s, "percents": 100 * s, "matched": hits, "other": s})
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    said = run("metrics", "own.npz", "--diagram", *shlex.split(options)).err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    if "--top-k" in options:
        assert "To repair it" not in said
        return
    monkeypatch.setattr("bpmcli.core.compare.choice.METHODS", ["platt", "temperature"])  # all of them take seconds
    fit, apply = re.findall(r"bpmcli ((?:fit|apply) [^;\n]*)", said)
    fit = fit.replace("VALIDATION_LABELS", "truth.csv").replace("VALIDATION", "own.npz")
    run(*shlex.split(fit), "-q")
    run(*shlex.split(apply.replace("INPUT", "own.npz").replace("OUTPUT", "out.npz")), "-q")
    assert Path("out.npz").exists()


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
    """Rows that are read move the bar; after it, rows are no longer counted."""
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


def test_bins_near_one_keep_the_digits_that_tell_them_apart() -> None:
    rows = [[0.5, 12], [0.99998, 3], [0.9999975, 4], [1 - 1e-15, 5], [1.0, 6], [2.5e-7, 7]]
    shown = render.render("table", render.Table(["lower", "rows"], rows, fine=("lower",)), None).splitlines()[2:]
    texts = [line.split()[0] for line in shown]
    assert texts == ["0.50000", "0.999980", "0.9999975", "1.00000", "1.00000", "0.00000025"]
    assert len({len(line) for line in shown}) == 1  # set flush right


def test_the_verdict_is_coloured_and_its_metric_stands_beside_it(run, monkeypatch):
    rng = np.random.default_rng(0)
    for name, shift in (("a", -0.2), ("b", 0.0)):
        s = rng.uniform(0.6, 0.99, 800)
        np.savez(f"{name}.npz", confidence=s, hit=rng.random(800) < s + shift)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\033[1;31mOver-confident\033[0m" in run("metrics", "a.npz").out
    assert "\033[1;32mCalibrated as far as 800 rows can tell\033[0m" in run("metrics", "b.npz").out
    monkeypatch.setenv("NO_COLOR", "1")
    head = next(line for line in run("metrics", "a.npz", "b.npz", "--sort", "ece").out.splitlines() if "rank" in line)
    assert head.split()[:4] == ["input", "rank", "verdict", "ece"]
    head = next(line for line in run("metrics", "a.npz", "b.npz").out.splitlines() if "verdict" in line)
    assert head.split()[:7] == ["input", "verdict", "tce", "tce", "low", "tce", "high"]


def test_a_hint_is_given_once_in_a_run(run):
    for name in "ab":
        np.savez(f"{name}.npz", confidence=np.array([1.0, 0.9, 0.8]), hit=np.array([1, 1, 0]))
    for _ in range(2):
        err = run("metrics", "a.npz", "b.npz", "-m", "ece").err
        assert err.count("note: ") == 2
        assert err.count("hint: ") == 1
