"""Batches of `apply`: what is up to date, what a killed batch keeps, two batches at once, inputs that are spared."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from conftest import PATIENCE, session, until, untraced

from bpmcli.io.output_record import RECORD, OutputRecord, record_output
from bpmcli.tasks import apply as tasks_apply

N = 8


@pytest.fixture
def batch(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Eight files in `in`, and parameters; no verdicts, which would take most of the time."""
    monkeypatch.setattr(tasks_apply, "JUDGED_ROWS", 0)
    rng = np.random.default_rng(0)
    Path("in").mkdir()
    for i in range(N):
        s = rng.beta(2, 0.5, 400)
        np.savez(f"in/{i}.npz", confidence=s, hit=rng.random(400) < s)
    run("fit", "in/0.npz", "--method", "platt", "-o", "p.json")
    return run


def apply(batch: Any, *more: object, code: int = 0) -> str:
    err: str = batch("apply", "p.json", "in", "--output-dir", "out", *more, code=code).err
    return err


def written(err: str) -> int:
    return err.count(" -> out")


def test_outputs_are_made_once(batch):
    assert written(apply(batch)) == N
    assert f"{N} of {N} outputs are up to date" in apply(batch)
    assert written(apply(batch, "--force")) == N
    assert len(list(Path("out").glob("*.npz"))) == N


@pytest.mark.parametrize("damage", [b"", b"x" * 100, None])
def test_an_output_that_was_damaged_is_made_again(batch, damage):
    """Release 0.1.0: an output truncated to 0 or 100 bytes counted as up to date."""
    apply(batch)
    good = Path("out/3.npz").read_bytes()
    changed = good[:50] + b"?" + good[51:] if damage is None else damage
    Path("out/3.npz").write_bytes(changed)
    Path("out/5.npz").unlink()
    err = apply(batch)
    assert written(err) == 2
    assert "6 of 8 outputs are up to date" in err
    assert Path("out/3.npz").read_bytes() == good


def test_changed_inputs_parameters_and_options_are_noticed(batch):
    apply(batch)
    assert written(apply(batch, "--confidence", "confidence")) == N
    apply(batch)
    time.sleep(0.01)
    Path("in/2.npz").touch()
    assert written(apply(batch)) == 1
    document = json.loads(Path("p.json").read_text())
    Path("p.json").write_text(json.dumps({**document, "tool": "another"}))
    assert written(apply(batch)) == N


def test_a_damaged_record_costs_work_and_nothing_else(batch):
    apply(batch)
    record = Path("out") / RECORD
    good = record.read_bytes()
    lines = good.split(b"\n")
    for bad in (
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"null\n[]\n5\n{}\n",
        good[:-20],
        good.replace(b'"size"', b'"sise"'),
        b"\n".join(reversed(lines)),
        good + b'{"output": "0.npz", "origin": 1, "size": -1, "checksum": null}\n' + b"9" * 5000,
    ):
        record.write_bytes(bad)
        apply(batch)
        assert f"{N} of {N} outputs are up to date" in apply(batch), bad[:40]
    record.unlink()
    record.mkdir()
    assert written(apply(batch)) == N


def test_a_record_that_is_a_link_or_a_pipe_is_not_used(batch):
    """Lines were added to the file behind the link, and nobody writes to the pipe."""
    before = Path("in/1.npz").read_bytes()
    Path("out").mkdir()
    record = Path("out") / RECORD
    record.symlink_to(Path("in/1.npz").resolve())
    assert written(apply(batch)) == N
    assert Path("in/1.npz").read_bytes() == before
    record.unlink()
    os.mkfifo(record)
    assert written(apply(batch)) == N


def test_a_line_that_was_cut_off_does_not_swallow_the_next(tmp_path):
    folder = str(tmp_path)
    for name in "ab":
        (tmp_path / name).write_text(name)
        record_output(folder, str(tmp_path / name), "origin")
        with open(tmp_path / RECORD, "ab") as f:
            f.write(b'{"output": "cut')
    found = OutputRecord(folder)
    assert sorted(found.made) == ["a", "b"]
    assert found.is_current(str(tmp_path / "b"), "origin")
    assert not found.is_current(str(tmp_path / "b"), "another")


def started(folder: Path, *options: str) -> forked.Started:
    return forked.start(
        "apply", "p.json", "in", "--output-dir", "out", *options, cwd=folder, environment=untraced(), seconds=PATIENCE
    )


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_killed_batch_continues_where_it_stopped(batch, tmp_path, jobs):
    """Killed at random moments by every signal; whatever was finished before is not done again."""
    table = "".join(f"0.{i % 90 + 10},{i % 2}\n" for i in range(20_000))
    for i in range(N):
        Path(f"in/{i}.npz").unlink()
        Path(f"in/{i}.csv").write_text("confidence,hit\n" + table)
    chance = random.Random(int(jobs))
    finished: dict[str, int] = {}
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        running = started(tmp_path, "-j", jobs)
        until(lambda running=running: list(Path("out").glob(".*.part")) or running.poll())
        recorded = len(finished) + chance.randrange(3)
        until(lambda running=running: len(OutputRecord("out").made) >= recorded or running.poll())  # noqa: B023
        time.sleep(chance.random() * 0.02)
        running.send(number)
        running.end()
        until(lambda running=running: not list(session(running.pid)))
        for name in OutputRecord("out").made:
            now = Path("out", name).stat().st_mtime_ns
            assert finished.setdefault(name, now) == now, "what was recorded is not done again"
    assert finished, "one run at least was to be killed after its first output"
    assert written(apply(batch)) == N - len(finished)
    assert f"{N} of {N} outputs are up to date" in apply(batch)
    assert not list(Path("out").glob(".*.part")), "temporary files of killed runs are removed"


def test_two_batches_at_once_lose_nothing(batch, tmp_path):
    """Release 0.1.0: two batches into one directory lost entries of the record."""
    running = [started(tmp_path, "-q", "-j", "2", "--force") for _ in range(2)]
    assert [process.end().code for process in running] == [0, 0]
    lines = (Path("out") / RECORD).read_text().splitlines()
    assert len(lines) == 2 * N
    assert {json.loads(line)["output"] for line in lines} == {f"{i}.npz" for i in range(N)}
    assert f"{N} of {N} outputs are up to date" in apply(batch)


def test_inputs_are_never_dropped_in_silence(batch):
    """Release 0.1.0: no file, no message, exit code 0."""
    os.chdir("in")
    assert "0.npz is the input itself" in batch("apply", "../p.json", "0.npz", "--output-dir", ".", code=2).err
    assert "also where the inputs are" in batch("apply", "../p.json", "*.npz", "--output-dir", ".", code=2).err
    os.chdir("..")
    err = batch("apply", "p.json", "in", "--output-dir", "in", code=2).err
    assert "--output-dir in is also where the inputs are" in err
    hint = err.split("--output-dir ")[-1].split()[0]
    for _ in range(2):  # outputs of the first run are not inputs of the second
        batch("apply", "p.json", "in", "--output-dir", hint)
    assert sorted(os.listdir(hint)) == sorted([RECORD, *(f"{i}.npz" for i in range(N))])
    assert written(batch("apply", "p.json", "in/0.npz", "--output-dir", "in/sub").err.replace("in/sub", "out")) == 1
    os.makedirs("top/out")
    os.rename("in/sub/0.npz", "top/out/0.npz")
    assert "all 1 inputs are below" in batch("apply", "p.json", "top", "--output-dir", "top/out", code=2).err
    batch("apply", "p.json", "top/out/0.npz", "--output-dir", ".")
    assert Path("0.npz").exists()


def test_file_urls_are_local_paths(batch):
    """Release 0.1.0: not protected against overwriting its own input, not atomic."""
    here = Path.cwd().as_uri()
    before = Path("in/0.npz").read_bytes()
    for target in (f"{here}/in/0.npz", "in/../in/0.npz"):
        for origin in ("in/0.npz", f"{here}/in/0.npz"):
            assert "is the input itself" in batch("apply", "p.json", origin, "-o", target, code=2).err
    assert Path("in/0.npz").read_bytes() == before
    batch("apply", "p.json", f"{here}/in/0.npz", "-o", f"{here}/a%20b.npz")
    assert Path("a b.npz").exists()
    Path("full").mkdir()
    Path("bad.csv").write_text("confidence,hit\n" + "0.5,1\n" * 1000 + "1.7,1\n")
    batch("apply", "p.json", "bad.csv", "-o", f"{here}/full/out.csv", code=3)
    assert os.listdir("full") == []
    assert "three slashes" in batch("apply", "p.json", "in/0.npz", "-o", "file://a/b.npz", code=2).err
    batch("apply", "p.json", "in", "--output-dir", f"{here}/out")
    assert "8 of 8 outputs are up to date" in apply(batch)
    batch("apply", f"{here}/p.json", "in/0.npz", "-o", "c.npz")
