"""Interrupted, terminated, killed: one line, the right exit code, no process and no file left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import PATIENCE, session, until
from pyarrow import csv

from bpmcli.engines.local import work
from bpmcli.errors import BpmError

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")


@pytest.fixture
def files(run: Callable[..., object], tmp_path: Path) -> Path:
    """Text that takes seconds to calibrate, and parameters."""
    rng = np.random.default_rng(0)
    s = rng.random(300_000)
    table = pa.table({"confidence": s, "hit": (rng.random(s.size) < s).astype(np.int8)})
    (tmp_path / "in").mkdir()
    for i in range(6):
        csv.write_csv(table, tmp_path / "in" / f"{i}.csv")
    run("fit", "in/0.csv", "--method", "platt", "-o", "p.json")
    return tmp_path


def started(files: Path, *options: str) -> subprocess.Popen[str]:
    """`apply` in a session of its own, once it has begun to write."""
    command = [sys.executable, "-m", "bpmcli", "apply", "p.json", "in", "--output-dir", "out", *options]
    running = subprocess.Popen(command, cwd=files, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until(lambda: list(files.glob("out/.*.part")) or running.poll() is not None)
    return running


def check_nothing_is_left(files: Path, running: subprocess.Popen[str]) -> None:
    until(lambda: not list(session(running.pid)))
    assert [p.name for p in files.glob("out/.*") if p.name.endswith(".part")] == []
    assert not (files / "out" / "5.csv").exists(), "it was over before it could be interrupted"


def interrupt_terminal(running: subprocess.Popen[str]) -> None:
    os.killpg(running.pid, signal.SIGINT)


def interrupt_twice(running: subprocess.Popen[str]) -> None:
    os.killpg(running.pid, signal.SIGINT)
    time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)


def interrupt_parent(running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGINT)


def terminate_parent(running: subprocess.Popen[str]) -> None:
    running.terminate()


@pytest.mark.parametrize(
    ("how", "jobs", "code", "said"),
    [
        (interrupt_terminal, "2", 130, "interrupted"),
        (interrupt_twice, "2", 130, "interrupted"),
        (interrupt_parent, "2", 130, "interrupted"),
        (terminate_parent, "2", 143, "terminated"),
        (interrupt_parent, "1", 130, "interrupted"),
        (terminate_parent, "1", 143, "terminated"),
    ],
)
def test_a_signal_leaves_nothing_behind(files, how, jobs, code, said):
    running = started(files, "-j", jobs)
    how(running)
    _, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, err) == (code, f"bpmcli: {said}\n")
    check_nothing_is_left(files, running)


def test_a_signal_while_workers_start_leaves_nothing_behind(files):
    command = [sys.executable, "-m", "bpmcli", "apply", "p.json", "in", "--output-dir", "out", "-j", "2", "-q"]
    for delay in (0.0, 0.1, 0.3):
        running = subprocess.Popen(command, cwd=files, stderr=subprocess.PIPE, text=True, start_new_session=True)
        # Two workers and the resource tracker are about to be: from here on the parent must know what to do.
        until(lambda running=running: len(list(session(running.pid))) > 1)
        time.sleep(delay)
        os.killpg(running.pid, signal.SIGINT)
        _, err = running.communicate(timeout=PATIENCE)
        assert (running.returncode, err) == (130, "bpmcli: interrupted\n"), delay
        check_nothing_is_left(files, running)


def test_workers_follow_a_killed_parent(files):
    running = started(files, "-j", "2")
    running.kill()
    running.communicate(timeout=PATIENCE)
    check_nothing_is_left(files, running)


def _die(item: int) -> int:
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_a_worker_that_dies_is_a_sentence():
    # What a full memory does to a worker.
    with pytest.raises(BpmError, match="a worker process died"):
        list(work(_die, range(8), 2))
