"""A real two-worker cluster: same numbers, failures retried and reported, a killed worker costs nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from bpmcli.engines import scale as scale_module
from bpmcli.engines.local import Scale
from bpmcli.errors import BpmError, DataError, UsageError
from bpmcli.io.layout import InputOptions
from bpmcli.io.paths import expand
from bpmcli.io.summaries import merge_few

LOCAL = Scale(1, "summary")


def quiet(items, total):
    return items


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    # Warnings of dask's own start and end are none of ours.
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as running:
            yield running


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
    fields = ("cells", "count", "hits", "excess")
    return a.n == b.n and a.squares == b.squares and all(np.array_equal(getattr(a, f), getattr(b, f)) for f in fields)


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
    found = dask.merged(Once(str(marker)), plan, merge_few, there)
    assert marker.exists()
    assert found.whole.n == 40 * 500
    assert same(found.whole, scale_module.summarise_inputs(files, InputOptions(), LOCAL, quiet).whole)


def test_a_failing_file_is_retried_then_reported(there, files, tmp_path):
    from bpmcli.engines import dask

    plan = [[scale_module.Piece(item)] for item in files]
    found = dask.merged(Flaky(str(tmp_path / "twice"), 2), plan, merge_few, there)
    assert found.whole.n == 40 * 500
    with pytest.raises(BpmError, match=r"03\.npz: connection reset"):
        dask.merged(Flaky(str(tmp_path / "always"), 99), plan, merge_few, there)
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


def test_no_scheduler_is_a_sentence(files):
    pytest.importorskip("distributed")
    from bpmcli.engines import dask

    with pytest.raises(UsageError, match="no dask scheduler"):
        list(dask.work(len, [[1]], Scale(1, "auto", "dask", "nonsense")))
