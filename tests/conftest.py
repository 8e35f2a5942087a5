"""Fixtures: the real tool, in a fresh directory."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bpmcli.cli import main

ROOT = Path(__file__).resolve().parent.parent
SAMPLE_DATA = ROOT / "sample_data"


def pytest_configure() -> None:
    # A job in the background ignores interrupts, and so would every command that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command line in an empty directory and checks that nothing looks like a traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BPMCLI_DEBUG", "1")

    def call(*argv: object, code: int | None = 0) -> Ran:
        capsys.readouterr()
        found = main([str(a) for a in argv])
        captured = capsys.readouterr()
        ran = Ran(found, captured.out, captured.err)
        assert "Traceback" not in ran.err, ran
        assert code is None or found == code, ran
        return ran

    return call


def arrays(path: object) -> dict[str, np.ndarray]:
    """All arrays of an npz file, which is closed again."""
    with np.load(str(path)) as data:
        return dict(data)


PATIENCE = 120
"""Seconds for what takes one on an idle machine."""


def until(condition: Callable[[], object]) -> None:
    """Waits for a condition."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def session(leader: int) -> Iterator[int]:
    """Living processes of a session, from /proc."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(number) == leader and state != "Z":
            yield int(stat.parent.name)


@pytest.fixture
def logits() -> tuple[np.ndarray, np.ndarray]:
    """An over-confident ten-class model: 400 rows of logits and labels."""
    rng = np.random.default_rng(7)
    z = rng.normal(size=(400, 10)) * 2
    labels = np.array([rng.choice(10, p=np.exp(row) / np.exp(row).sum()) for row in z])
    return 2 * z, labels
