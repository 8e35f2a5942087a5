"""FINDINGS A13 and B12: what workers of a cluster read, and what is written to a store and read again."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest


def test_a13_workers_read_the_users_file_and_no_other(cluster, tmp_path, run, monkeypatch):
    """Release 0.1.0: a relative path named another file on the worker, silently."""
    rng = np.random.default_rng(0)
    for folder, n in (("here", 500), ("there", 700)):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "a.npz", confidence=rng.random(n), hit=rng.random(n) < 0.5)
    with cluster.get_client() as client:
        client.run(os.chdir, str(tmp_path / "there"))
        monkeypatch.chdir(tmp_path / "here")
        on = ("--engine", "dask", "--scheduler", cluster.scheduler_address, "-m", "ece", "-f", "json", "-q")
        ran = run("metrics", "a.npz", *on)
        assert ran.out == run("metrics", "a.npz", "-m", "ece", "-f", "json", "-q").out
        run("summarize", "a.npz", "-o", "cells.parquet", *on[:4])
        assert "rows in" not in run("metrics", "cells.parquet", *on).err
        assert "standard input" in run("metrics", "-", *on, code=2).err


def put(path: str, text: str) -> None:
    """A text file in the bucket, without the tool."""
    import s3fs

    s3fs.S3FileSystem().pipe(path.removeprefix("s3://"), text.encode())


def rows(seed: int) -> str:
    rng = np.random.default_rng(seed)
    s = rng.beta(2, 0.4, 500)
    return "confidence,hit\n" + "".join(f"{c},{int(h)}\n" for c, h in zip(s, rng.random(500) < s, strict=True))


@pytest.mark.filterwarnings("ignore")
def test_b12_parameters_and_baselines_in_a_bucket_are_read(bucket, run):
    put(f"{bucket}/a.csv", rows(0))
    run("fit", f"{bucket}/a.csv", "-o", f"{bucket}/p.json")
    run("apply", f"{bucket}/p.json", f"{bucket}/a.csv", "-o", "local.csv")
    put(f"{bucket}/base.json", run("metrics", "local.csv", "-m", "ece", "-f", "json").out)
    run("metrics", "local.csv", "--baseline", f"{bucket}/base.json", "--max-increase", "ece=0", "-q")
    assert "no such file" in run("apply", f"{bucket}/none.json", "local.csv", code=3).err
    run("apply", f"{bucket}/p.json", f"{bucket}/a.csv", "-o", f"{bucket}/a.csv", code=2)
    run("compare", "metrics", "--truth", f"{bucket}/p.json", "-n", 120, "--runs", 1)


@pytest.mark.filterwarnings("ignore")
def test_b12_a_batch_in_a_bucket_skips_what_is_up_to_date(bucket, run):
    for i in range(3):
        put(f"{bucket}/in/{i}.csv", rows(i))
    run("fit", f"{bucket}/in/0.csv", "-o", "p.json")
    batch = ("apply", "p.json", f"{bucket}/in", "--output-dir", f"{bucket}/out")
    assert run(*batch).err.count(" -> ") == 6  # twice a line
    assert "3 of 3 outputs are up to date" in run(*batch).err
    put(f"{bucket}/out/1.csv", "confidence\n0.5\n")
    put(f"{bucket}/in/2.csv", rows(4))
    assert "1 of 3 outputs are up to date" in run(*batch).err
    again = run("metrics", f"{bucket}/out", "-q", "-m", "ece", "-f", "json").out
    assert len(json.loads(again)["results"]) == 3
