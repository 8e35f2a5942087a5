"""Input that made release 0.1.0 end with exit code 70, with stray output or with a wrong refusal. Each test fails there."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz.findings.process import command, environment, tool

N = 120
CSV = "confidence,hit,site\n" + "".join(f"0.{i % 9 + 1},{i % 2},s{i % 3}\n" for i in range(N))


@pytest.fixture
def params(run, tmp_path, monkeypatch):
    monkeypatch.delenv("BPMCLI_DEBUG")
    (tmp_path / "fit.csv").write_text(CSV)
    run("fit", "fit.csv", "--method", "platt", "-o", "p.json", "-q")
    return tmp_path / "p.json"


@pytest.mark.parametrize("arguments", [["-o", "/dev/full"], ["-o", "/dev/null"]])
def test_b05_devices_as_output(params, tmp_path, arguments):
    np.savez(tmp_path / "a.npz", confidence=np.full(N, 0.7), hit=np.arange(N) % 2)
    assert tool("apply", "p.json", "a.npz", *arguments, cwd=tmp_path).code in (0, 2, 3)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize(
    "extra",
    [np.arange(N).astype("M8[Y]"), np.arange(N) * 1j, np.arange(N).astype("g"), np.zeros(N, "V5"), np.zeros((N, 2, 2)), np.zeros(N, [("a", "f8")])],
    ids=["datetime", "complex", "longdouble", "void", "3d", "structured"],
)  # fmt: skip
def test_b05_arrays_that_a_table_cannot_hold(run, params, extra, suffix):
    np.savez("a.npz", confidence=np.full(N, 0.7), hit=np.arange(N) % 2, note=extra)
    ran = run("apply", params, "a.npz", "-o", f"o.{suffix}", code=None)
    assert ran.code in (0, 3), ran
    if ran.code == 3:
        assert "note" in ran.err


def odd_columns():
    far = pa.array([2**62] * N)
    yield "timestamp", far.cast(pa.timestamp("s"))
    yield "zone", pa.array([0] * N, pa.timestamp("us", tz="Nowhere/Town"))
    yield "utf8", pa.Array.from_buffers(pa.string(), N, [None, pa.py_buffer(np.arange(N + 1, dtype="i4")), pa.py_buffer(b"\xff" * N)])  # fmt: skip
    yield "interval", pa.array([(1, 2, 3)] * N, pa.month_day_nano_interval())


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "npz"])
@pytest.mark.parametrize(("name", "column"), list(odd_columns()), ids=lambda v: v if isinstance(v, str) else "")
def test_b05_arrow_columns_that_python_cannot_hold(run, params, name, column, suffix):
    table = pa.table({"confidence": np.full(N, 0.7), "hit": np.arange(N) % 2, "note": column})
    with pa.ipc.new_file("a.arrow", table.schema) as out:
        out.write_table(table)
    ran = run("apply", params, "a.arrow", "-o", f"o.{suffix}", code=None)
    assert ran.code in (0, 3), ran


@pytest.mark.parametrize("role", ["hit", "label"])
def test_b05_structured_outcomes(run, params, role):
    structured = np.zeros(N, dtype=[("a", "f8"), ("b", "i8")])
    scores = {"confidence": np.full(N, 0.7)} if role == "hit" else {"logits": np.zeros((N, 2))}
    np.savez("a.npz", **scores, **{role: structured})
    assert run("metrics", "a.npz", code=3).err


def test_b05_weights_that_are_all_zero(run, params):
    pq.write_table(pa.table({"confidence": np.full(N, 0.7), "hit": np.arange(N) % 2, "w": np.zeros(N)}), "a.parquet")
    run("summarize", "a.parquet", "--weight", "w", "-o", "s.parquet", code=3)


DEEP = "[" * 100_000 + "]" * 100_000


def test_b05_deep_documents(run, params, tmp_path):
    (tmp_path / "d.jsonl").write_text('{"schema": "bpmcli/draws", "setting": ' + DEEP + "}\n")
    run("compare", "metrics", "--truth", "D1", "-n", "50", "--runs", "1", "-m", "ece", "--resume", "d.jsonl", code=3)
    (tmp_path / "b.json").write_text('{"schema": "bpmcli/metrics", "version": 1, "results": ' + DEEP + "}")
    run("metrics", "fit.csv", "--baseline", "b.json", "--max-increase", "ece=0.9", code=3)
    run("summarize", "fit.csv", "-o", "s.parquet")
    table = pq.read_table("s.parquet")
    key = next(k for k in table.schema.metadata if k.startswith(b"bpmcli"))
    pq.write_table(table.replace_schema_metadata({key: DEEP}), "deep.parquet")
    run("metrics", "deep.parquet", code=3)
    run("apply", params, "fit.csv", "--output-dir", "out")
    for record in (tmp_path / "out").glob(".bpmcli*"):
        if record.is_file():
            record.write_text(DEEP)
    assert run("apply", params, "fit.csv", "--output-dir", "out", code=None).code in (0, 3)


def test_b05_edited_draws(run, params, tmp_path):
    compare = ["compare", "metrics", "--truth", "D1", "-n", "50", "--runs", "2", "-m", "ece", "--resume", "d.jsonl"]
    run(*compare)
    lines = (tmp_path / "d.jsonl").read_text().splitlines()
    for values in ([], {}, "x", None, [[1, [2]]], {"a": 1}):
        entry = json.loads(lines[1]) | {"values": values}
        (tmp_path / "d.jsonl").write_text("\n".join([lines[0], json.dumps(entry), *lines[2:]]) + "\n")
        assert run(*compare, code=None).code in (0, 3)


def test_b05_a_huge_number_in_a_baseline(run, params, tmp_path):
    document = json.loads(run("metrics", "fit.csv", "-m", "ece", "-f", "json").out)
    document["results"][0]["metrics"]["ece"]["value"] = 10**400
    (tmp_path / "b.json").write_text(json.dumps(document))
    run("metrics", "fit.csv", "-m", "ece", "--baseline", "b.json", "--max-increase", "ece=0.9", code=3)


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        (["compare", "samples", "--truth", "logit-logit:1e308,1@1e-300,1e300", "-n", "50", "--runs", "1"], (2, 3, 4)),
        (["compare", "metrics", "--truth", "D1", "-n", "10:1000000000000:1", "--runs", "1"], (2,)),
        (["metrics", "fit.csv", "--binning", "width", "--n-bins", "999999999"], (2,)),
    ],
)
def test_b05_absurd_options(params, tmp_path, arguments, codes):
    done = tool(*arguments, cwd=tmp_path, seconds=60)
    assert done.code in codes, done


def test_b05_b11_a_store_that_does_not_answer(tmp_path, monkeypatch):
    pytest.importorskip("s3fs")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    done = tool("metrics", "s3://bucket/a.csv", cwd=tmp_path, seconds=90)
    assert done.code == 3, done


THREE_COMMANDS = """
import os, sys
from bpmcli.cli import main
for name in [os.fsdecode(bytes.fromhex(each)) for each in sys.argv[1:]]:
    for argv in (["metrics", name, "-m", "ece"], *2 * [["apply", "p.json", name, "--output-dir", "out"]]):
        if code := main(argv):
            sys.exit(code)
"""


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_b06_names_and_encodings(params, tmp_path, encoding):
    names = ["é🎉.csv".encode(), b"\xff.csv"]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_text(CSV)
    argv = [sys.executable, "-c", THREE_COMMANDS, *(name.hex() for name in names)]
    env = environment(PYTHONIOENCODING=encoding)
    ran = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True)
    assert ran.returncode == 0, ran
    assert b"internal error" not in ran.stderr
    assert ran.stderr.count(b"up to date") == len(names), "the second batch finds the record of the first"


def test_b07_a_stray_byte_far_down(tmp_path):
    lines = [b"0.5,1,x\n"] * 20_000
    (tmp_path / "a.csv").write_bytes(b"confidence,hit,site\n" + b"".join(lines) + b"0.5,1,\xff,extra\n")
    done = tool("metrics", "a.csv", "-m", "ece", cwd=tmp_path)
    assert done.code == 3, done
    assert "Traceback" not in done.err


def test_b07_no_warnings_of_libraries(tmp_path):
    np.savez(tmp_path / "a.npz", log_odds=np.array([800.0, 1.0, -800.0]), hit=np.array([1, 0, 1]))
    done = tool("summarize", "a.npz", "-o", "s.parquet", cwd=tmp_path)
    assert "Warning" not in done.err, done


def test_b08_names_from_files_are_escaped(run, params, tmp_path):
    red, name = "\x1b[31mred\n", "a\x1b[2J\n.csv"
    (tmp_path / name).write_text(CSV)
    with open(tmp_path / "b.jsonl", "w") as f:
        f.writelines(json.dumps({"confidence": 0.7, "hit": i % 2, "site": red}) + "\n" for i in range(N))
    document = json.loads(params.read_text())
    (tmp_path / "q.json").write_text(json.dumps(document | {"method": red}))
    for arguments in (["metrics", name, "-m", "ece"], ["metrics", "b.jsonl", "--by", "site", "-m", "ece"], ["metrics", "b.jsonl", "--by", "site", "-m", "ece", "-f", "markdown"], ["apply", "q.json", name, "-o", "o.csv"], ["metrics", name, "--label", red]):  # fmt: skip
        ran = run(*arguments, code=None)
        assert "\x1b" not in ran.out + ran.err, ran


@pytest.mark.parametrize("method", ["temperature", "ets"])
@pytest.mark.parametrize("kind", ["right", "wrong", "flat"])
def test_b10_scores_of_trees_and_neighbours(run, method, kind):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, N)
    probs = np.eye(3)[label if kind == "right" else (label + 1) % 3]
    if kind == "flat":
        probs = np.full((N, 3), 1 / 3)
    elif kind == "wrong":
        probs[: N // 10] = np.eye(3)[label[: N // 10]]
    np.savez("a.npz", probs=probs, label=label)
    run("fit", "a.npz", "--method", method, "-o", "t.json", "-q")
    run("apply", "t.json", "a.npz", "-o", "o.npz", "-q")


def test_b10_beta_on_separable_rows(run):
    c = np.linspace(0.05, 0.95, N)
    np.savez("a.npz", confidence=c, hit=(c > 0.5).astype(int))
    run("fit", "a.npz", "--method", "beta", "-o", "b.json", "-q")


def test_b11_a_reader_that_leaves(params, tmp_path):
    (tmp_path / "long.csv").write_text("confidence,hit\n" + "0.7,1\n0.4,0\n" * 60_000)
    for quiet in ([], ["-q"]):
        script = '"$@" 2>err.txt | head -1'
        subprocess.run(["bash", "-c", script, "x", *command("apply", "p.json", "long.csv", *quiet)], cwd=tmp_path, env=environment(), capture_output=True)  # fmt: skip
        assert "internal error" not in (tmp_path / "err.txt").read_text()


def test_b05_a_lying_header_is_an_error(run, params, tmp_path):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("confidence.npy", out.getvalue() + bytes(80))
        archive.writestr("hit.npy", out.getvalue() + bytes(80))
    run("metrics", "a.npz", code=3)
