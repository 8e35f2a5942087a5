"""The command line. `entry` is the console script; `main(argv)` runs a command line and returns its exit code.

Importing this module takes no time: signals are caught before anything slow is imported.
"""

from __future__ import annotations

# The part of `signal` that is written in C: importing the rest takes longer than everything else before `entry`.
import _signal as signal  # type: ignore[import-not-found]
import atexit
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INTERRUPTED = (130, 143)


def entry() -> None:
    """Run the program. Until a command starts, there is nothing to tidy up, and a signal ends the process at once."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup and background jobs ignore it
            signal.signal(number, _leave)
    # Start-up makes thousands of objects and no garbage, for which Python would search after every 700 of them.
    gc.set_threshold(100_000)
    from bpmcli.cli.program import run_as_process

    _end(run_as_process())


def _end(code: int) -> None:
    """End the process at once, without taking the interpreter apart first.

    That would take 8 % of the time of a small command, and crash if a thread of pyarrow is still reading ahead. What
    libraries have registered to run at the end still runs. BPMCLI_DEBUG=1 ends in the usual way, for profilers.
    After an interrupt, Python may end the process by the signal instead of with this exit code, so it is not asked to.
    """
    if code not in INTERRUPTED:
        if os.environ.get("BPMCLI_DEBUG") or _others_work():
            sys.exit(code)
        atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _others_work() -> bool:
    """Whether a library has started a thread that Python would wait for."""
    import threading

    return any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())


def _leave(number: int, frame: Any) -> None:
    try:
        os.write(2, b"bpmcli: terminated\n" if number == signal.SIGTERM else b"bpmcli: interrupted\n")
    finally:  # standard error may be closed or full
        os._exit(128 + number)


def __getattr__(name: str) -> Any:
    if name in ("main", "app", "COMMANDS"):
        from bpmcli.cli import program

        return getattr(program, name)
    raise AttributeError(f"module 'bpmcli.cli' has no attribute '{name}'")
