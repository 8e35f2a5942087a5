"""Commands in processes of their own that need no start: they are forked from one process that has imported the tool.

For tests of what a process takes and how it ends: memory, limits, exit codes, streams, signals during the work. Tests of
the start itself, of encodings and of unbuffered streams start the program as users do, and so does at least one test of
every kind of stream. As a script, this file is the process that forks.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import typer

import bpmcli

PACKAGE = str(Path(bpmcli.__file__).resolve().parent.parent)
COMMANDS = [f"bpmcli.cli.cmd_{name}" for name in ("fit", "apply", "metrics", "summarize", "simulate")]
FORMATS = [f"bpmcli.io.formats.{path.stem}" for path in sorted(Path(PACKAGE, "bpmcli/io/formats").glob("*_file.py"))]
IMPORTED = [
    "numpy", "scipy.special", "scipy.optimize", "pyarrow.csv", "pyarrow.json", "pyarrow.parquet", "pyarrow.feather",
    *COMMANDS, *FORMATS, "encodings.utf_8_sig", "bpmcli.io.readers", "bpmcli.io.writers", "bpmcli.io.output_record",
    "bpmcli.core.metrics", "bpmcli.core.calibrators", "bpmcli.tasks.measure", "bpmcli.tasks.fit", "bpmcli.tasks.apply",
    "bpmcli.cli.ci_errors", "bpmcli.core.metrics.disagreement", "bpmcli.io.logs.lm_eval",
]  # fmt: skip
"""What most commands import. A version that lacks some of these modules is only slower."""

STREAMS = ("in", "out", "err")


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: bytes
    err: str
    megabytes: float
    processor: float
    """Seconds of processor time."""

    def __str__(self) -> str:
        return f"exit code {self.code}, {self.megabytes:.0f} MB\n--- stdout\n{self.out[:2000]!r}\n--- stderr\n{self.err[-3000:]}"


class Started:
    """A command that is running: its process id is also its session and its process group."""

    def __init__(self, wanted: dict[str, Any], server: subprocess.Popen[str]) -> None:
        self._server, self._files = server, wanted
        self.pid: int = self._ask(wanted)
        self.done: Done | None = None

    def _ask(self, wanted: object) -> Any:
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps(wanted) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def poll(self) -> Done | None:
        """How it ended; None while it runs."""
        return self.done or self.wait(0)

    def wait(self, seconds: float | None = None, tidy: bool = False) -> Done | None:
        """How it ended; `tidy` ends whatever it has left. After `seconds`, or at once, None if it has not ended."""
        ended = self._ask({"pid": self.pid, "seconds": seconds, "tidy": tidy})
        if ended is not None:
            code, kilobytes, processor = ended
            out, err = (_content(self._files[name]) for name in ("out", "err"))
            self.done = Done(code, out, err.decode("utf-8", "replace"), kilobytes / 1024, processor)
        return self.done

    def end(self, tidy: bool = False) -> Done:
        """How it ends. It is waited for, and killed after the time that it was given."""
        done = self.done or self.wait(tidy=tidy)
        assert done
        return done

    def send(self, number: int) -> None:
        if self.done is None:
            os.kill(self.pid, number)


def start(
    *argv: object,
    cwd: Path | str = ".",
    limits: Mapping[int, int] | None = None,
    seconds: float = 120,
    environment: Mapping[str, str] | None = None,
    as_library: bool = False,
    new_workers: bool = False,
    module: str = "bpmcli",
    **streams: str | None,
) -> Started:
    """Starts a command. `in`, `out` and `err` are paths, or None for a stream that is closed; without them, output
    is kept. `as_library` calls `main`, which has no guard for the memory of the process: what readers take themselves is
    seen. With `new_workers`, the workers of `-j` are new processes, as for users; otherwise they are forked as well.
    `module` is another program."""
    assert set(streams) <= set(STREAMS)
    folder = Path(tempfile.mkdtemp(dir=_folder()))
    wanted = {
        "argv": [str(each) for each in argv], "cwd": os.path.abspath(cwd), "env": dict(environment or os.environ),
        "limits": list((limits or {}).items()), "seconds": seconds, "as_library": as_library,
        "new_workers": new_workers, "module": module,
        "in": os.devnull, "out": str(folder / "out"), "err": str(folder / "err"), **streams,
    }  # fmt: skip
    traced = any(name.startswith("COVERAGE_") for name in wanted["env"])
    return Started(wanted, _server(traced))


def run(*argv: object, **how: Any) -> Done:
    """Runs a command to its end. A command that takes longer is killed, which is exit code 137 like any SIGKILL."""
    return start(*argv, **how).end(tidy=True)


def _content(path: str | None) -> bytes:
    """What was written to a file; nothing if the stream is a device, a pipe or closed."""
    return Path(path).read_bytes() if path and os.path.isfile(path) else b""


def prepare() -> None:
    """What every command would do first, done before this process is forked."""
    build_commands_once()
    for name in IMPORTED:
        with suppress(ImportError):
            import_module(name)
    for name in ("bpmcli.cli.program", *COMMANDS):
        with suppress(ImportError, AttributeError):
            typer.main.get_command(import_module(name).app)
    gc.freeze()  # children leave the memory that they share with this process as it is


def build_commands_once() -> None:
    """The program builds its commands at every start, and the tests start it thousands of times."""
    build, built = typer.main.get_command, {}

    def remembered(app: typer.Typer) -> Any:
        if id(app) not in built:
            built[id(app)] = app, build(app)
        return built[id(app)][1]

    typer.main.get_command = remembered


@cache
def _folder() -> str:
    folder = tempfile.TemporaryDirectory(prefix="forked-")
    atexit.register(folder.cleanup)
    return folder.name


@cache
def _server(traced: bool) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if traced or not name.startswith("COVERAGE_")}
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen([sys.executable, __file__], env={**environment, "PYTHONPATH": PACKAGE}, **streams)

    @atexit.register
    def close() -> None:
        server.communicate()

    return server


def _serve() -> None:
    prepare()
    ends: dict[int, float] = {}
    for line in sys.stdin:
        wanted = json.loads(line)
        if "argv" not in wanted:
            child = wanted["pid"]
            ended = _ended(child, ends[child], wanted["seconds"])
            if wanted["tidy"]:
                with suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
            print(json.dumps(ended), flush=True)
            continue
        ready, tell = os.pipe()
        child = os.fork()
        if not child:
            os.close(ready)
            return _become(wanted, tell)
        ends[child] = time.monotonic() + wanted["seconds"]
        os.close(tell)
        os.read(ready, 1)  # until it has a session of its own
        os.close(ready)
        print(json.dumps(child), flush=True)
    return None


def _ended(child: int, end: float, seconds: float | None) -> tuple[int, int, float] | None:
    """Its exit code, its peak memory in kilobytes and its processor time; None if it has not ended after some seconds."""
    given_up = None if seconds is None else time.monotonic() + seconds
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            break
        now = time.monotonic()
        if given_up is not None and now >= given_up:
            return None
        if now > end:
            os.killpg(child, signal.SIGKILL)
        _rest(child, max(0.002, (end if given_up is None else min(end, given_up)) - now))
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code, used.ru_maxrss, used.ru_utime + used.ru_stime


def _rest(child: int, seconds: float) -> None:
    """Rests until the child ends, at most for some seconds; for a moment only where the system does not tell the end."""
    try:
        told = os.pidfd_open(child)
    except (AttributeError, OSError):  # of Linux only
        time.sleep(0.002)
        return
    select.select([told], [], [], seconds)
    os.close(told)


def _become(wanted: dict[str, Any], tell: int) -> None:
    """This process, a child, becomes the command: with its folder, variables, streams and limits."""
    import resource
    import runpy

    os.setsid()
    os.close(tell)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    _open_streams([wanted[name] for name in STREAMS])
    for which, most in wanted["limits"]:
        resource.setrlimit(which, (most, most))
    sys.argv[:] = [wanted["module"], *wanted["argv"]]
    if not wanted["new_workers"]:
        with suppress(ImportError):  # an older version, which benchmarks/findings_on.py tests, starts new ones
            _fork_workers()
    if wanted["as_library"]:
        from bpmcli.cli import main

        code = main(sys.argv[1:])
        sys.stderr.flush()
        os._exit(code)
    runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)


def _fork_workers() -> None:
    """Workers of this command have imported the tool, too, and know nothing else of what the command has done."""
    from bpmcli.engines import processes
    from bpmcli.io import memory

    class Worker(get_context("fork").Process):
        def run(self) -> None:
            signal.set_wakeup_fd(-1)  # tells the command of signals
            memory._sizes.clear()
            super().run()

    class Context(type(get_context("fork"))):
        Process = Worker

    processes.get_context = lambda method: Context()


def _open_streams(paths: list[str | None]) -> None:
    """The standard streams as Python opens them at its start, where a stream that is closed is None."""
    sys.stdin.close()
    for number, path in enumerate(paths):
        if path is None:
            continue
        opened = os.open(path, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY, 0o600)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
    for number, path in enumerate(paths):
        if path is None:
            with suppress(OSError):
                os.close(number)
    options: list[dict[str, Any]] = [{}, {"mode": "w"}, {"mode": "w", "errors": "backslashreplace", "buffering": 1}]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        opened = None if paths[number] is None else open(number, encoding="utf-8", closefd=False, **options[number])  # noqa: SIM115
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)


if __name__ == "__main__":
    _serve()
