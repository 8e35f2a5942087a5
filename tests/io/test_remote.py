"""Paths with a scheme, against an S3-compatible and a web server of our own."""

from __future__ import annotations

import json
import re
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from bpmcli.errors import BpmError, UsageError
from bpmcli.io.paths import expand
from bpmcli.io.remote import is_remote
from bpmcli.io.writers import open_writer

pytestmark = pytest.mark.usefixtures("unjudged")


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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trouble", ["down", "anonymous"])
def test_a_store_that_cannot_be_reached_is_a_sentence(run, monkeypatch, trouble):
    """Release 0.1.0: exit code 3, not 70, without credentials or with the server down."""
    s3fs = pytest.importorskip("s3fs")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
        if trouble == "down":
            monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(s3fs.core.S3FileSystem, "retries", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    rng = np.random.default_rng(0)
    np.savez("a.npz", confidence=rng.random(200), hit=rng.random(200) < 0.5)
    run("fit", "a.npz", "--method", "platt", "-o", "p.json")
    for arguments in (
        ["metrics", "s3://none/a.csv"],
        ["metrics", "s3://none/in/*.csv"],
        ["apply", "s3://none/p.json", "a.npz", "-o", "b.npz"],
        ["apply", "p.json", "a.npz", "-o", "s3://none/b.npz"],
        ["apply", "p.json", "a.npz", "--output-dir", "s3://none/out"],
        ["fit", "a.npz", "--method", "platt", "-o", "s3://none/p.json"],
        ["summarize", "a.npz", "-o", "s3://none/cells.parquet"],
        ["metrics", "a.npz", "--baseline", "s3://none/m.json", "--max-increase", "ece=0"],
    ):
        err = run(*arguments, code=3).err
        assert "s3://none" in err, arguments
        assert "cannot be reached" in err or "permission denied" in err, err
        assert "s3://none/a.csv: s3://none/a.csv" not in err
    s3fs.S3FileSystem.clear_instance_cache()


def test_an_unknown_scheme_is_a_sentence():
    with pytest.raises(UsageError, match="cannot be opened"):
        expand(["nosuch://a/b.parquet"])


class Whole(SimpleHTTPRequestHandler):
    """Gives files from the beginning, as Python's own server does."""

    def log_message(self, *_: object) -> None:
        pass


class Ranges(Whole):
    """Gives parts of files too, as nearly every other server does."""

    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if asked is None or not path.is_file():
            return super().do_GET()
        data = path.read_bytes()
        part = data[int(asked[1]) : int(asked[2] or len(data)) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {asked[1]}-{int(asked[1]) + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)
        return None


@pytest.fixture
def web(tmp_path):
    """Starts servers of the folder `web`."""
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    servers = []

    def start(kind: type[Whole]) -> str:
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: kind(*a, directory=str(tmp_path / "web"))))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.filterwarnings("ignore")
def test_the_web_reads_like_a_folder(web, run):
    rng = np.random.default_rng(0)
    s = rng.beta(2, 0.4, 800)
    data = {"confidence": s, "hit": rng.random(800) < s}
    names = [f"a{suffix}" for suffix in (".parquet", ".npz", ".csv", ".jsonl", ".arrow", ".csv.gz")]
    for name in names:
        with open_writer(f"web/{name}") as out:
            out.write(data)
    rows = np.array(list(zip(*data.values(), strict=True)), dtype=[("confidence", "f8"), ("hit", "?")])
    np.save("web/a.npy", rows)
    site = web(Ranges)
    for name in [*names, "a.npy"]:
        here, there = (
            json.loads(run("metrics", place, "-q", "-f", "json").out)["results"][0]
            for place in (f"web/{name}", f"{site}/{name}?version=2")
        )
        assert here["metrics"] == there["metrics"], name
    run("fit", f"{site}/a.parquet", "-o", "p.json")
    run("apply", "p.json", f"{site}/a.npz", "-o", "out.npz")
    assert "none.csv: no such file" in run("metrics", f"{site}/none.csv", code=3).err
    # Text is read from front to back, which any server can give.
    site = web(Whole)
    run("metrics", f"{site}/a.csv")
    ran = run("metrics", f"{site}/a.npz", code=3)
    assert "the server does not support range requests" in ran.err
    assert "download it first" in ran.err


@pytest.mark.filterwarnings("ignore")
def test_a_host_that_does_not_answer_is_not_a_missing_file(web, run):
    from bpmcli.errors import DataError
    from bpmcli.io.opening import open_reader

    server = ThreadingHTTPServer(("127.0.0.1", 0), Whole)
    server.server_close()
    with pytest.raises(DataError, match="cannot be reached: "):
        open_reader(f"http://127.0.0.1:{server.server_port}/a.csv")


@pytest.mark.parametrize(
    ("path", "package"), [("gs://b/a.csv", "gcsfs"), ("https://h/a.csv", "aiohttp"), ("abfs://c/a.csv", "adlfs")]
)
def test_a_missing_package_is_named(monkeypatch, path, package):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError, match=f"needs the packages fsspec and {package}") as caught:
        expand([path])
    assert str(caught.value.hint).startswith("pip install")


def test_a_missing_hadoop_is_named(monkeypatch):
    from pyarrow import fs

    class Missing:
        @staticmethod
        def from_uri(path: str) -> None:
            raise OSError("Unable to load libjvm")

    monkeypatch.setattr(fs, "FileSystem", Missing)
    with pytest.raises(UsageError, match="Unable to load libjvm") as caught:
        expand(["hdfs://host:9000/a.parquet"])
    assert "JAVA_HOME" in str(caught.value.hint)
