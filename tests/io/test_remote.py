"""Paths with a scheme, against a local S3-compatible server."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bpmcli.errors import BpmError, UsageError
from bpmcli.io.paths import expand
from bpmcli.io.remote import is_remote
from bpmcli.io.writers import open_writer


@pytest.fixture
def bucket(monkeypatch):
    """An empty bucket on a server of our own; s3fs finds it by its environment."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir("scores")
    yield "s3://scores"
    server.stop()
    s3fs.S3FileSystem.clear_instance_cache()


def test_schemes_are_recognised():
    assert is_remote("s3://a/b.parquet")
    assert is_remote("https://host/a.npz")
    assert not is_remote("a/b.parquet")
    assert not is_remote("C:/a.parquet")


@pytest.mark.filterwarnings("ignore")
def test_a_bucket_reads_and_writes_like_a_folder(bucket, run):
    rng = np.random.default_rng(0)
    s = rng.beta(2, 0.4, 800)
    data = {"confidence": s, "hit": rng.random(800) < s}
    for suffix in (".parquet", ".npz", ".csv", ".jsonl", ".arrow", ".csv.gz"):
        for place in ("local", f"{bucket}/in"):
            with open_writer(f"{place}/a{suffix}") as out:
                out.write(data)
    remote = json.loads(run("metrics", f"{bucket}/in", "-q", "--format", "json").out)["results"]
    local = json.loads(run("metrics", "local", "-q", "--format", "json").out)["results"]
    assert [r["input"] for r in remote] == [f"{bucket}/in/{r['input'].split('/')[1]}" for r in local]
    assert [r["metrics"] for r in remote] == [r["metrics"] for r in local]
    assert len(expand([f"{bucket}/in/*.csv"])) == 1
    run("summarize", f"{bucket}/in", "-o", f"{bucket}/cells.parquet")
    run("summarize", "local", "-o", "cells.parquet")
    places = f"{bucket}/cells.parquet", "cells.parquet"
    a, b = (json.loads(run("metrics", place, "-q", "-f", "json").out)["results"] for place in places)
    assert a[0]["metrics"] == b[0]["metrics"]
    run("fit", f"{bucket}/in/a.parquet", "-o", "p.json")
    run("apply", "p.json", f"{bucket}/in/a.parquet", "-o", f"{bucket}/out/a.parquet")
    assert json.loads(run("metrics", f"{bucket}/out/a.parquet", "-q", "-f", "json").out)["results"][0]["n"] == 800
    assert "no such file" in run("metrics", f"{bucket}/in/none.parquet", code=3).err
    with pytest.raises(BpmError):
        expand([f"{bucket}/in/*.xyz"])


def test_an_unknown_scheme_is_a_sentence():
    with pytest.raises(UsageError, match="cannot be opened"):
        expand(["nosuch://a/b.parquet"])
