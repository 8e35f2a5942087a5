"""Fixtures: the real tool, in a fresh directory."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

# Set before numpy is imported, as in the program: threads of BLAS would compete with the processes of other tests.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import forked
import numpy as np
import pytest

from bpmcli.cli import main


@atexit.register  # before all others that tests bring along, so it is called after them
def leave_at_once() -> None:
    """A worker of pytest ends without taking its memory apart, object by object. Coverage has yet to write its files."""
    if "PYTEST_XDIST_WORKER" in os.environ and not any(name.startswith("COVERAGE_") for name in os.environ):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


MEMORY = Path("/dev/shm")
"""A file system in memory, where files are made and removed more quickly than on a disk. The tests make many thousands."""

ROOT = Path(__file__).resolve().parent.parent
SAMPLE_DATA = ROOT / "sample_data"


def pytest_configure() -> None:
    # A job in the background ignores interrupts, and so would every command that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    use_memory_for_files()
    # benchmarks/findings_on.py runs tests on versions without some of these; test_project.py says if one is missing here.
    with suppress(ImportError, AttributeError):
        from bpmcli.io import memory

        memory._keep_freed()  # as commands do in a process of their own: half of the system's time goes into fresh memory
    forked.build_commands_once()


def use_memory_for_files() -> None:
    """Temporary files are kept in memory where that is possible; TMPDIR decides if it is set."""
    if not MEMORY.is_dir() or "TMPDIR" in os.environ:
        return
    found = os.statvfs(MEMORY)
    if found.f_bavail * found.f_frsize >= 4 << 30 and not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of several seconds come first. One that began last would keep the other processes waiting."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Python searches for unused objects more rarely, and not among the modules and tests, which stay until the end."""
    with suppress(ImportError, AttributeError):  # as above
        import remembered

        remembered.results_of_commands()

    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)


def pytest_sessionfinish() -> None:
    """Pytest ends with five searches for unused objects, whose errors it reports. One search, here, finds them as well."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


FOLDERS = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty directory, which is removed unless the test fails.

    The fixture of pytest also replaces a link before every test, and it leaves thousands of directories to later runs.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}-{next(FOLDERS)}"
    folder.mkdir()
    failed = request.session.testsfailed
    yield folder
    if request.session.testsfailed == failed:
        shutil.rmtree(folder, ignore_errors=True)


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


@pytest.fixture
def unjudged(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fit` and `apply` do not judge calibrated rows. For tests that look at parameters and outputs only: to judge them,
    `fit` makes five more fits."""
    from bpmcli.core.compare import before_after
    from bpmcli.tasks import apply

    monkeypatch.setattr(before_after, "MOST_VALUES", 0)
    monkeypatch.setattr(apply, "JUDGED_ROWS", 0)


def arrays(path: object) -> dict[str, np.ndarray]:
    """All arrays of an npz file, which is closed again."""
    with np.load(str(path)) as data:
        return dict(data)


def untraced() -> dict[str, str]:
    """The environment of a command that coverage does not trace: it imports modules, and delays and loses signals."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    return {**env, "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT))}


PATIENCE = 120
"""Time limit, in seconds, for what takes one second on an idle machine."""


def until(condition: Callable[[], object]) -> None:
    """Waits for a condition."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def processor_time(pid: int) -> float:
    """Seconds that a process has used so far; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until_busy(pid: int, started: bool = False) -> None:
    """Waits until a process has used more processor time than its start takes, or has come to rest."""
    start, least, rest = (0.15, -1.0, 0.1) if started else (0.4, 0.05, 0.3)  # as a process has that is forked
    if not Path(f"/proc/{pid}/stat").exists():  # not on this system
        time.sleep(2)
        return
    seen, since = -1.0, time.monotonic()

    def busy() -> bool:
        nonlocal seen, since
        used, state = processor_time(pid), Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if used != seen or state not in "SZ":
            seen, since = used, time.monotonic()
        return used > start or state == "Z" or (used > least and time.monotonic() - since > rest)

    until(busy)


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


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A dask cluster of two processes. They are forked from one that has imported dask, which is quicker than to start
    them; clusters that bpmcli starts itself are not."""
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    forking = {"distributed.worker.multiprocessing-method": "forkserver"}
    with warnings.catch_warnings(), dask.config.set(forking):
        warnings.simplefilter("ignore")  # of dask itself, when it starts and ends
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as running:
            yield running


BUCKETS = count()


@pytest.fixture(scope="session")
def store() -> Iterator[str]:
    """The address of an S3-compatible server of our own."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty bucket; s3fs finds the server by its environment."""
    s3fs = pytest.importorskip("s3fs")
    for name, value in {
        "AWS_ENDPOINT_URL": store, "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    name = f"scores{next(BUCKETS)}"
    s3fs.S3FileSystem().mkdir(name)
    yield f"s3://{name}"
    s3fs.S3FileSystem.clear_instance_cache()
