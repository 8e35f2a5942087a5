"""Interrupted, terminated, killed: one line, the right exit code, no process and no file left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import active_children
from pathlib import Path

import forked
import numpy as np
import pyarrow as pa
import pytest
from conftest import PATIENCE, session, until, untraced
from dying import DiesOnArrival, die, leave, unpicklable
from pyarrow import csv

from bpmcli.cli import main
from bpmcli.engines.local import name_of, work
from bpmcli.engines.processes import interrupts_held
from bpmcli.errors import BpmError, DataError
from bpmcli.io.paths import Input
from bpmcli.io.writers import atomic_path, unfinished
from bpmcli.tasks.compare import FilePair, Repeat
from bpmcli.tasks.summarise import Piece

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text that takes a second to calibrate, and parameters beside it."""
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    s = rng.random(300_000)
    table = pa.table({"confidence": s, "hit": (rng.random(s.size) < s).astype(np.int8)})
    csv.write_csv(table, folder / "a.csv")
    assert main(["fit", str(folder / "a.csv"), "--method", "platt", "-o", str(folder / "p.json"), "-q"]) == 0
    return folder / "a.csv"


@pytest.fixture
def files(one_file: Path, tmp_path: Path) -> Path:
    """The file under six names, and the parameters."""
    (tmp_path / "in").mkdir()
    for i in range(6):
        os.link(one_file, tmp_path / "in" / f"{i}.csv")
    shutil.copy(one_file.with_name("p.json"), tmp_path / "p.json")
    return tmp_path


def begun(files: Path, *options: str) -> forked.Started:
    """`apply` in a session of its own."""
    return forked.start(
        "apply", "p.json", "in", "--output-dir", "out", *options,
        cwd=files, environment=untraced(), seconds=PATIENCE, new_workers=True,
    )  # fmt: skip


def started(files: Path, *options: str) -> forked.Started:
    """The same, once it has begun to write."""
    running = begun(files, *options)
    until(lambda: list(files.glob("out/.*.part")) or running.poll() is not None)
    return running


def check_nothing_is_left(files: Path, running: forked.Started) -> None:
    until(lambda: not list(session(running.pid)))
    assert [p.name for p in files.glob("out/.*") if p.name.endswith(".part")] == []
    assert not (files / "out" / "5.csv").exists(), "it was over before it could be interrupted"


def interrupt_terminal(running: forked.Started) -> None:
    os.killpg(running.pid, signal.SIGINT)


def interrupt_twice(running: forked.Started) -> None:
    os.killpg(running.pid, signal.SIGINT)
    time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)


def interrupt_parent(running: forked.Started) -> None:
    running.send(signal.SIGINT)


def terminate_parent(running: forked.Started) -> None:
    running.send(signal.SIGTERM)


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
    done = running.end()
    assert (done.code, done.err) == (code, f"bpmcli: {said}\n")
    check_nothing_is_left(files, running)


def test_a_signal_while_workers_start_leaves_nothing_behind(files):
    for delay in (0.0, 0.1, 0.3):
        running = begun(files, "-j", "2", "-q")
        # Two workers and the resource tracker are about to start: from here on the parent must handle signals.
        until(lambda running=running: len(list(session(running.pid))) > 1)
        time.sleep(delay)
        os.killpg(running.pid, signal.SIGINT)
        done = running.end()
        assert (done.code, done.err) == (130, "bpmcli: interrupted\n"), delay
        check_nothing_is_left(files, running)


def test_signals_are_held_back_whichever_thread_receives_them():
    """Python calls the handler in the main thread even if that thread has masked the signal."""
    came, waiting = [], threading.Event()
    other = threading.Thread(target=waiting.wait)
    other.start()
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    earlier = signal.set_wakeup_fd(tell)
    try:
        with interrupts_held({signal.SIGINT}):
            signal.pthread_kill(other.ident, signal.SIGINT)
            assert os.read(told, 1) == bytes([signal.SIGINT]), "the other thread has received it"
            assert came == []
        assert came == [signal.SIGINT]
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.set_wakeup_fd(earlier)
        os.close(told)
        os.close(tell)
        signal.signal(signal.SIGINT, before)
        waiting.set()
        other.join()


def test_a_signal_as_a_file_is_created_leaves_no_file(tmp_path, monkeypatch):
    create = os.open

    def interrupted(path, *arguments, **options):
        os.close(create(path, *arguments, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_path(str(tmp_path / "a.csv")):
        pass
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
    assert not unfinished


def test_workers_follow_a_killed_parent(files):
    running = started(files, "-j", "2")
    running.send(signal.SIGKILL)
    running.end()
    check_nothing_is_left(files, running)


@pytest.mark.parametrize("count", [8, 37])
def test_a_worker_that_dies_costs_its_item_and_no_other(count):
    """Dies as a worker does if memory is full or a file is cut off while it is read."""
    results = list(work(die, range(count), 2))
    for item, result in enumerate(results):
        if item % 10 != 3:
            assert result == item * item
            continue
        assert isinstance(result, DataError)
        how = "SIGKILL" if item < 20 else "SIGBUS"
        assert result.message == f"{item}: the worker process died ({how})"
        assert ("memory" in (result.hint or "")) == (item < 20)
    assert len(results) == count


def test_workers_may_all_die():
    results = list(work(leave, range(5), 2))
    assert [r.message for r in results] == [f"{i}: the worker process died (exit code 7)" for i in range(5)]


def test_a_result_that_cannot_be_sent_is_one_failure():
    results = list(work(unpicklable, range(4), 2))
    assert [r for r in results if not isinstance(r, BpmError)] == [0, 2, 3]
    assert "cannot be sent" in results[1].message


def test_workers_that_cannot_start_are_a_sentence():
    with pytest.raises(BpmError, match=r"ended as it started \(exit code 9\)"):
        list(work(DiesOnArrival(), range(4), 2))
    until(lambda: not [p for p in active_children() if p.is_alive()])


def test_a_reader_that_goes_early_ends_the_workers():
    results = work(die, [0, 1, 2, 4, 5, 6], 2)
    assert next(results) == 0
    results.close()
    assert not active_children()


def test_a_message_names_the_file_of_the_work_that_was_lost():
    pieces = [Piece(Input(name, name)) for name in ("a.csv", "b.csv", "c.csv")]
    assert name_of(pieces[1]) == "b.csv"
    assert name_of(pieces) == "a.csv or one of the next 2 files"
    assert name_of(pieces[:1]) == "a.csv"
    assert name_of(Repeat(FilePair("fit.csv", "judge.csv"), 3)) == "judge.csv"


@pytest.mark.parametrize(("lost", "code"), [("SystemExit(1)", 143), ("ValueError('x')", 0)])
def test_a_signal_that_comes_in_a_callback_of_a_worker_ends_it_without_a_word(tmp_path, lost, code):
    script = f"""
import sys
from bpmcli.engines import processes
from bpmcli.io import writers
sys.unraisablehook = processes._unraisable
open("a.part", "w").close()
writers.unfinished.add("a.part")
class Callback:
    def __del__(self):
        raise {lost}
Callback()
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=untraced(), capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (code, "")
    assert (tmp_path / "a.part").exists() == (code == 0)
