"""Crashes, excessive memory, hangs and wrong exit codes of release 0.1.0. Each test fails there."""

from __future__ import annotations

import fcntl
import io
import json
import os
import resource
import signal
import struct
import subprocess
import threading
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE, until, until_busy
from fuzz.findings.process import command, environment, tool
from packed import add_repeated

F_SETPIPE_SZ = 1031
"""Of Linux; the module fcntl names it since Python 3.10, on Linux only."""
CSV = "confidence,hit,site\n" + "".join(f"0.{i % 9 + 1},{i % 2},s{i % 3}\n" for i in range(300))


@pytest.fixture
def params(run, tmp_path):
    (tmp_path / "fit.csv").write_text(CSV)
    run("fit", "fit.csv", "--method", "platt", "-o", "p.json", "-q")
    return tmp_path / "p.json"


def damaged_arrow(offset: int) -> bytes:
    """An arrow file in which one offset of a text column points far away."""
    table = pa.table(
        {"confidence": np.full(50, 0.7), "hit": np.ones(50, dtype=int), "site": [f"site{i:02}" for i in range(50)]}
    )
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    content = bytearray(out.getvalue())
    at = content.index(struct.pack("<4i", 0, 6, 12, 18))
    content[at + 40 : at + 44] = struct.pack("<i", offset)
    return bytes(content)


@pytest.mark.parametrize("offset", [2_000_000_000])
@pytest.mark.parametrize(
    "arguments", [["metrics", "a.arrow", "--by", "site"], ["apply", "p.json", "a.arrow", "-o", "o.csv"]]
)
def test_b01_a_damaged_arrow_file_is_an_error(params, tmp_path, offset, arguments):
    (tmp_path / "a.arrow").write_bytes(damaged_arrow(offset))
    done = tool(*arguments, cwd=tmp_path)
    assert done.code == 3, done
    assert not (tmp_path / "o.csv").exists()


def test_b01_a_damaged_file_costs_itself_and_not_the_batch(params, tmp_path):
    (tmp_path / "a.arrow").write_bytes(damaged_arrow(2_000_000_000))
    (tmp_path / "b.csv").write_text(CSV)
    done = tool("apply", "p.json", "a.arrow", "b.csv", "--output-dir", "out", "-j", "2", cwd=tmp_path)
    assert done.code == 3, done
    assert (tmp_path / "out/b.csv").exists()


def test_b02_one_long_text_does_not_widen_all(tmp_path):
    lines = "".join(f"0.{i % 9 + 1},{i % 2},s{i % 3}\n" for i in range(40_000))
    (tmp_path / "a.csv").write_text("confidence,hit,site\n0.5,1," + "x" * 50_000 + "\n" + lines)
    done = tool("metrics", "a.csv", "--by", "site", "-m", "ece", cwd=tmp_path)
    assert done.code == 0, done
    assert done.megabytes < 1024


def test_b02_one_long_list_does_not_widen_all(tmp_path):
    short = '{"logprobs": [-0.5, -1.5], "label": 1}\n' * 40_000
    (tmp_path / "a.jsonl").write_text(short + json.dumps({"logprobs": [-10.0] * 30_000, "label": 1}) + "\n")
    done = tool("metrics", "a.jsonl", "-m", "ece", cwd=tmp_path)
    assert done.code in (0, 3), done
    assert done.megabytes < 1024
    assert "Traceback" not in done.err


def test_b02_an_archive_that_unpacks_to_half_a_gigabyte(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<U134217728", "fortran_order": False, "shape": ()})
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, values in (("confidence", np.full(50, 0.7)), ("hit", np.arange(50) % 2)):
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, values)
        add_repeated(archive, "note.npy", header.getvalue(), bytes(1 << 20), 512)
    done = tool("metrics", "a.npz", "-m", "ece", cwd=tmp_path)
    assert done.code in (0, 3), done
    assert done.megabytes < 512


def test_b02_endless_parameters_end(params, tmp_path):
    done = tool("apply", "/dev/zero", "fit.csv", "-o", "o.csv", cwd=tmp_path, limits={resource.RLIMIT_CPU: 20})
    assert done.code in (2, 3), done
    assert done.megabytes < 1024


@pytest.mark.parametrize("suffix", ["", ".csv", ".jsonl", ".npz", ".parquet", ".arrow"])
def test_b03_an_endless_input_ends(params, tmp_path, suffix):
    os.symlink("/dev/zero", tmp_path / f"link{suffix}")
    done = tool("metrics", f"link{suffix}", cwd=tmp_path, limits={resource.RLIMIT_CPU: 20})
    assert done.code in (2, 3), done
    assert done.megabytes < 1024


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_b03_a_fifo_is_read_once(tmp_path, form):
    text = CSV
    if form == "jsonl":
        text = "".join(f'{{"confidence": 0.{i % 9 + 1}, "hit": {i % 2}}}\n' for i in range(300))
    os.mkfifo(tmp_path / f"pipe.{form}")

    def write() -> None:
        with open(tmp_path / f"pipe.{form}", "w") as pipe:
            pipe.write(text)

    threading.Thread(target=write, daemon=True).start()
    done = tool("metrics", f"pipe.{form}", "-m", "ece", cwd=tmp_path, seconds=30)
    assert done.code == 0, done


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_b03_many_columns_take_linear_time(tmp_path, form):
    n = 8_000
    names = ["label", *(f"prob_{i}" for i in range(n))]
    if form == "csv":
        line = ",".join(["1"] + [f"{1 / n:.6f}"] * n)
        (tmp_path / "a.csv").write_text("\n".join([",".join(names), line, line]) + "\n")
    else:
        pq.write_table(pa.table([[1, 2]] + [[1 / n, 1 / n]] * n, names=names), tmp_path / "a.parquet")
    done = tool("metrics", f"a.{form}", "-m", "ece", cwd=tmp_path, limits={resource.RLIMIT_CPU: 20})
    assert done.code in (0, 3), done
    assert done.megabytes < 1024


def test_b03_many_groups_take_linear_time(tmp_path):
    n = 30_000
    table = {"confidence": np.full(n, 0.7), "hit": np.arange(n) % 2, "g": [f"g{i}" for i in range(n)]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    done = tool(
        "summarize", "a.parquet", "--by", "g", "-o", "s.parquet", cwd=tmp_path, limits={resource.RLIMIT_CPU: 40}
    )
    assert done.code in (0, 3), done


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "metrics", "--truth", "D1", "-n", "50", "--runs", "1000000000000"],
        ["metrics", "a.csv", "--noise-floor", "--noise-runs", "1000000000000"],
        ["compare", "calibrators", "a.csv", "--repeats", "1000000000000"],
    ],
)
def test_b03_counts_have_an_upper_limit(tmp_path, arguments):
    (tmp_path / "a.csv").write_text(CSV)
    done = tool(*arguments, cwd=tmp_path, limits={resource.RLIMIT_CPU: 15})
    assert done.code == 2, done


def test_b03_a_fifo_without_a_writer_ends_with_sigterm(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    process = subprocess.Popen(command("metrics", "pipe.csv"), cwd=tmp_path, env=environment(), stderr=subprocess.PIPE)
    until_busy(process.pid)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, err
    assert b"Traceback" not in err


def test_b04_a_full_stderr_does_not_change_the_exit_code(tmp_path):
    assert tool("metrics", "nope.csv", cwd=tmp_path, err="/dev/full").code == 3


@pytest.mark.parametrize("module", ["bpmcli.errors", "typer", "numpy"])
def test_b04_an_interrupt_at_the_start_is_no_traceback(params, tmp_path, module):
    """Sent as soon as a module has been imported, which -X importtime tells.

    The pipe holds 4 kB: the command waits until its lines are read, and cannot end before the signal.
    """
    arguments = command("metrics", "fit.csv")
    arguments[1:1] = ["-X", "importtime"]
    process = subprocess.Popen(
        arguments, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    fcntl.fcntl(process.stderr, F_SETPIPE_SZ, 4096)
    told = b""
    for line in process.stderr:
        told += line
        if line.split(b"|")[-1].strip() == module.encode():
            process.send_signal(signal.SIGINT)
            break
    _, err = process.communicate(timeout=PATIENCE)
    assert b"Traceback" not in err, err[-2000:]
    assert process.returncode == 130, told[-500:] + err[-500:]


def test_b04_output_to_a_closed_stream_is_no_success(params, tmp_path):
    ran = subprocess.run(
        ["bash", "-c", '"$@" >&-', "x", *command("apply", "p.json", "fit.csv")],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
    )
    assert ran.returncode == 3, ran


def test_b09_three_hundred_columns_with_few_descriptors(params, tmp_path):
    columns = {f"x{i}": np.arange(50) for i in range(300)}
    np.savez(tmp_path / "a.npz", confidence=np.full(50, 0.7), hit=np.arange(50) % 2, **columns)
    done = tool("apply", "p.json", "a.npz", "-o", "o.npz", cwd=tmp_path, limits={resource.RLIMIT_NOFILE: 128})
    assert done.code == 0, done


def test_b09_parts_of_a_killed_run_are_removed_by_the_next(params, tmp_path):
    n = 400_000
    np.savez(tmp_path / "a.npz", confidence=np.full(n, 0.7), hit=np.arange(n) % 2)
    argv = command("apply", "p.json", "a.npz", "-o", "o.csv")
    for _ in range(10):  # on a busy machine it may be done before this process sees the part
        process = subprocess.Popen(argv, cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL)
        until(lambda process=process: list(tmp_path.glob(".*.part*")) or process.poll() is not None)
        process.kill()
        process.wait()
        if list(tmp_path.glob(".*.part*")):
            break
    assert list(tmp_path.glob(".*.part*"))
    done = tool("apply", "p.json", "fit.csv", "-o", "o.csv", cwd=tmp_path)
    assert done.code == 0, done
    assert not list(tmp_path.glob(".*.part*"))
