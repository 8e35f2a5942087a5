"""A real two-worker cluster: same numbers, failures retried and reported, a killed worker costs nothing."""

from __future__ import annotations

import dataclasses
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import forked
import numpy as np
import pytest
from conftest import PATIENCE, session, until, untraced

from bpmcli.engines import scale as scale_module
from bpmcli.engines.local import Scale
from bpmcli.errors import BpmError, DataError, UsageError
from bpmcli.io.layout import InputOptions
from bpmcli.io.paths import expand
from bpmcli.io.summaries import merge_few

LOCAL = Scale(1, "summary")


def quiet(items, total):
    return items


@pytest.fixture
def files(tmp_path) -> list:
    (tmp_path / "in").mkdir()
    for i in range(40):
        rng = np.random.default_rng(i)
        s = rng.beta(2, 0.4, 500)
        np.savez(tmp_path / "in" / f"{i:02d}.npz", confidence=s, hit=rng.random(500) < s)
    return expand([str(tmp_path / "in")])


class Once:
    """Summarises a file; the worker that meets file 7 first is killed in the middle of it."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __call__(self, piece):
        time.sleep(0.01)
        if piece.item.path.endswith("07.npz") and not os.path.exists(self.marker):
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return scale_module.Summarise(InputOptions())(piece)


class Flaky:
    """Fails on file 3 until it was tried often enough."""

    def __init__(self, marker: str, failures: int) -> None:
        self.marker, self.failures = marker, failures

    def __call__(self, piece):
        if piece.item.path.endswith("03.npz"):
            with open(self.marker, "a") as f:
                f.write("x")
            if os.path.getsize(self.marker) <= self.failures:
                raise DataError(f"{piece.item.path}: connection reset")
        return scale_module.Summarise(InputOptions())(piece)


def same(a, b) -> bool:
    names = [f.name for f in dataclasses.fields(a)]
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


@pytest.fixture
def there(cluster) -> Scale:
    return Scale(2, "summary", "dask", cluster.scheduler_address)


def test_the_cluster_gives_the_bits_of_one_process(there, files):
    found = scale_module.summarise_inputs(files, InputOptions(), there, quiet)
    assert same(found.whole, scale_module.summarise_inputs(files, InputOptions(), LOCAL, quiet).whole)
    assert found.whole.n == 40 * 500


def test_a_killed_worker_costs_nothing_and_counts_nothing_twice(there, files, tmp_path):
    from bpmcli.engines import dask

    marker = tmp_path / "killed"
    plan = [[scale_module.Piece(item)] for item in files]
    found = dask.run_and_merge(Once(str(marker)), plan, merge_few, there)
    assert marker.exists()
    assert found.whole.n == 40 * 500
    assert same(found.whole, scale_module.summarise_inputs(files, InputOptions(), LOCAL, quiet).whole)


def test_a_failing_file_is_retried_then_reported(there, files, tmp_path):
    from bpmcli.engines import dask

    plan = [[scale_module.Piece(item)] for item in files]
    found = dask.run_and_merge(Flaky(str(tmp_path / "twice"), 2), plan, merge_few, there)
    assert found.whole.n == 40 * 500
    with pytest.raises(BpmError, match=r"03\.npz: connection reset"):
        dask.run_and_merge(Flaky(str(tmp_path / "always"), 99), plan, merge_few, there)
    assert (tmp_path / "always").stat().st_size == 1 + dask.RETRIES
    results = list(dask.work(Flaky(str(tmp_path / "each"), 99), [p[0] for p in plan[:6]], there))
    assert [isinstance(r, BpmError) for r in results] == [i == 3 for i in range(6)]


def test_commands_run_on_the_cluster(cluster, files, run):
    address = cluster.scheduler_address
    folder = str(Path(files[0].path).parent)
    on = ("--engine", "dask", "--scheduler", address, "--format", "json", "-q")
    for arguments in (("metrics", folder, "--pool", "--summary"), ("metrics", *[f.path for f in files[:6]])):
        assert run(*arguments, *on).out == run(*arguments, "--format", "json", "-q").out
    run("summarize", folder, "-o", "a.parquet", *on[:4])
    run("summarize", folder, "-o", "b.parquet")
    assert Path("a.parquet").read_bytes() == Path("b.parquet").read_bytes()


def test_a_worker_that_sees_another_file_says_so(tmp_path):
    from bpmcli.engines.dask import Located, OnWorker
    from bpmcli.io.paths import Input

    path = tmp_path / "a.csv"
    path.write_text("confidence,hit\n0.5,1\n")
    located = Located.of(Input(str(path), "a.csv"))
    assert OnWorker(lambda item: item.place)(located) == str(path)
    path.write_text("confidence,hit\n0.6,1\n")
    with pytest.raises(DataError, match=r"has another file at .* \(of the same size\)"):
        OnWorker(len)(located)
    path.write_text("confidence,hit\n0.6,1\n0.1,0\n")
    with pytest.raises(DataError, match="27 bytes, and here 21"):
        OnWorker(len)(located)
    path.unlink()
    with pytest.raises(DataError, match=r"cannot read .* \(No such file"):
        OnWorker(len)(located)


def test_no_scheduler_is_a_sentence(files):
    pytest.importorskip("distributed")
    from bpmcli.engines import dask

    with pytest.raises(UsageError, match="no dask scheduler"):
        list(dask.work(len, [[1]], Scale(1, "auto", "dask", "nonsense")))


def test_a_cluster_that_needs_more_open_files_than_allowed_is_not_started(files):
    pytest.importorskip("distributed")
    ran = forked.run(
        "metrics", "in", "--engine", "dask", cwd=Path(files[0].path).parents[1], limits={resource.RLIMIT_NOFILE: 36}
    )
    assert (ran.code, ran.out) == (3, b"")
    assert ran.err.startswith("bpmcli: error: a local dask cluster needs 42 open files, and the limit is 36\n")


NOISY = """
import logging
from bpmcli.engines.dask import connected
from bpmcli.engines.local import Scale

def complain():
    for name in ("distributed.worker", "distributed.nanny", "distributed.core", "tornado.application", "asyncio"):
        logging.getLogger(name).error("Failed to communicate with scheduler during heartbeat.")
    return "done"

if __name__ == "__main__":
    with connected(Scale(1, "auto", "dask")) as client:
        complain()
        print(*client.run(complain, nanny=False).values())
"""


def test_dask_keeps_its_own_troubles_to_itself(tmp_path):
    """A heartbeat that comes while the cluster closes is logged as an error, with a traceback, by chance."""
    pytest.importorskip("distributed")
    (tmp_path / "noisy.py").write_text(NOISY)
    env = {k: v for k, v in os.environ.items() if k not in ("BPMCLI_DEBUG", "DASK_DISTRIBUTED__LOGGING")}
    ran = subprocess.run([sys.executable, "noisy.py"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")


def reads(leader: int) -> bool:
    """Whether another process of this session has opened a file with rows."""
    for pid in set(session(leader)) - {leader}:
        with suppress(OSError):
            if any(os.readlink(opened).endswith(".npz") for opened in Path(f"/proc/{pid}/fd").iterdir()):
                return True
    return False


@pytest.mark.parametrize(
    ("number", "said", "moment"), [(signal.SIGTERM, "terminated", "start"), (signal.SIGINT, "interrupted", "work")]
)
def test_an_interrupted_local_cluster_goes_quietly(tmp_path, number, said, moment):
    """Interrupted at the start and during the work; the interrupt reaches the workers too, as from a terminal."""
    pytest.importorskip("distributed")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", logits=rng.random((50_000, 100), dtype=np.float32), labels=np.zeros(50_000, int))
    for i in range(160):
        (tmp_path / f"{i}.npz").symlink_to("a.npz")
    command = [sys.executable, "-m", "bpmcli", "metrics", ".", "--summary", "--engine", "dask", "-j", "2", "-q"]
    env = {k: v for k, v in untraced().items() if k != "BPMCLI_DEBUG"}
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: len(list(session(running.pid))) > 1 if moment == "start" else reads(running.pid))
    os.killpg(running.pid, number) if number == signal.SIGINT else running.send_signal(number)
    _, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, err) == (128 + number, f"bpmcli: {said}\n")
    until(lambda: not list(session(running.pid)))
