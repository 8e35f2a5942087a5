"""The tool as a process of its own, with limits, signals and streams as a test wants them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import bpmcli

PACKAGE = str(Path(bpmcli.__file__).resolve().parent.parent)


class Done(NamedTuple):
    """How it ended."""

    code: int
    out: bytes
    err: str
    megabytes: float

    def __str__(self) -> str:
        return f"exit code {self.code}, {self.megabytes:.0f} MB\n--- stdout\n{self.out[:2000]!r}\n--- stderr\n{self.err[-3000:]}"


_PEAK = """
import os, resource, sys
child = os.fork()
if not child:
    os.execv(sys.executable, [sys.executable, "-m", "bpmcli", *sys.argv[2:]])
status = os.waitpid(child, 0)[1]
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
code = os.waitstatus_to_exitcode(status)
sys.exit(code if code >= 0 else 128 - code)
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PACKAGE, **more}


def command(*argv: object) -> list[str]:
    return [sys.executable, "-m", "bpmcli", *map(str, argv)]


def tool(
    *argv: object,
    cwd: Path,
    limits: dict[int, int] | None = None,
    env: dict[str, str] | None = None,
    seconds: float = 120,
    **streams: Any,
) -> Done:
    """Runs the command to its end with at most 4 GB of memory; a timeout is a failure."""
    limits = {resource.RLIMIT_AS: 4 << 30, **(limits or {})}

    def prepare() -> None:
        for which, most in limits.items():
            resource.setrlimit(which, (most, most))

    peak = cwd / ".peak"
    streams.setdefault("stdout", subprocess.PIPE)
    streams.setdefault("stderr", subprocess.PIPE)
    arguments = [sys.executable, "-c", _PEAK, str(peak), *map(str, argv)]
    process = subprocess.Popen(
        arguments,
        cwd=cwd,
        env=environment(**(env or {})),
        preexec_fn=prepare,  # noqa: PLW1509
        start_new_session=True,
        **streams,
    )
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        with suppress(ProcessLookupError):  # the tool is a child of its own: it must not outlive the test
            os.killpg(process.pid, signal.SIGKILL)
    megabytes = int(peak.read_text()) / 1024 if peak.exists() and peak.read_text() else 0.0
    peak.unlink(missing_ok=True)
    return Done(process.returncode, out or b"", (err or b"").decode("utf-8", "replace"), megabytes)
