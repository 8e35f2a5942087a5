"""Commands in processes of their own that need no start: they are forked from one process that has imported the tool.

For tests of what a process takes and how it ends: memory, limits, exit codes. Tests of the start itself, of closed
streams, encodings and signals start the program as users do. As a script, this file is the process that forks.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import bpmcli

PACKAGE = str(Path(bpmcli.__file__).resolve().parent.parent)
IMPORTED = (
    "numpy", "scipy.special", "scipy.optimize", "pyarrow.csv", "pyarrow.json", "pyarrow.parquet", "pyarrow.feather",
    *(f"bpmcli.cli.cmd_{name}" for name in ("fit", "apply", "metrics", "summarize")),
    "bpmcli.io.readers", "bpmcli.io.writers", "bpmcli.core.metrics", "bpmcli.core.calibrators",
    "bpmcli.tasks.measure", "bpmcli.tasks.fit", "bpmcli.tasks.apply",
)  # fmt: skip
"""What most commands import. A version that lacks some of these modules is only slower."""


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: bytes
    err: str
    megabytes: float

    def __str__(self) -> str:
        return f"exit code {self.code}, {self.megabytes:.0f} MB\n--- stdout\n{self.out[:2000]!r}\n--- stderr\n{self.err[-3000:]}"


def run(
    *argv: object,
    cwd: Path | str = ".",
    limits: Mapping[int, int] | None = None,
    seconds: float = 120,
    stderr: str | None = None,
    as_library: bool = False,
) -> Done:
    """Runs a command to its end. A command that takes longer is killed, which is exit code 137 like any SIGKILL.

    `as_library` calls `main`, which has no guard for the memory of the process: what readers take themselves is seen.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(stderr or Path(folder, "err"))
        wanted = {
            "argv": [str(each) for each in argv], "cwd": os.path.abspath(cwd), "env": dict(os.environ),
            "limits": list((limits or {}).items()), "seconds": seconds, "out": str(out), "err": str(err),
            "as_library": as_library,
        }  # fmt: skip
        server = _server()
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps(wanted) + "\n")
        server.stdin.flush()
        code, kilobytes = json.loads(server.stdout.readline())
        told = b"" if stderr else err.read_bytes()
        return Done(code, out.read_bytes(), told.decode("utf-8", "replace"), kilobytes / 1024)


@cache
def _server() -> subprocess.Popen[str]:
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen([sys.executable, __file__], env={**os.environ, "PYTHONPATH": PACKAGE}, **streams)

    @atexit.register
    def close() -> None:
        server.communicate()

    return server


def _serve() -> None:
    for name in IMPORTED:
        with suppress(ImportError):
            import_module(name)
    gc.freeze()  # children leave the memory that they share with this process as it is
    for line in sys.stdin:
        wanted = json.loads(line)
        child = os.fork()
        if not child:
            return _become(wanted)
        print(json.dumps(_ended(child, wanted["seconds"])), flush=True)
    return None


def _ended(child: int, seconds: float) -> tuple[int, int]:
    """Its exit code, and its peak memory in kilobytes."""
    end, done = time.monotonic() + seconds, 0
    while not done:
        time.sleep(0.002)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        done, status, used = os.wait4(child, os.WNOHANG)
    with suppress(ProcessLookupError):  # whatever it has started
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code, used.ru_maxrss


def _become(wanted: dict[str, Any]) -> None:
    """This process, a child, becomes the command: with its folder, variables, streams and limits."""
    import resource
    import runpy

    os.setsid()
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    sys.stdin.close()
    writing = os.O_WRONLY | os.O_CREAT
    for i, path, flags in ((0, os.devnull, os.O_RDONLY), (1, wanted["out"], writing), (2, wanted["err"], writing)):
        opened = os.open(path, flags, 0o600)
        if opened != i:
            os.dup2(opened, i)
            os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    for which, most in wanted["limits"]:
        resource.setrlimit(which, (most, most))
    sys.argv[:] = ["bpmcli", *wanted["argv"]]
    if wanted["as_library"]:
        from bpmcli.cli import main

        code = main(sys.argv[1:])
        sys.stderr.flush()
        os._exit(code)
    runpy.run_module("bpmcli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve()
