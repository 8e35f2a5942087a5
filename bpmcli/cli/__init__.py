"""The command line. `entry` is the console script; `main(argv)` runs a command line and returns its exit code.

Importing this module takes no time: signals are caught before anything slow is imported.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any

INTERRUPTED = (130, 143)


def entry() -> None:
    """Run the program. Until a command starts, there is nothing to tidy up, and a signal ends the process at once."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup and background jobs ignore it
            signal.signal(number, _leave)
    from bpmcli.cli.program import run_as_process

    code = run_as_process()
    if code in INTERRUPTED:
        # An interrupt that passed through a module written in C marks the interpreter, which then ends by the signal.
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _leave(number: int, frame: Any) -> None:
    with suppress(OSError):  # standard error may be closed or full
        os.write(2, b"bpmcli: terminated\n" if number == signal.SIGTERM else b"bpmcli: interrupted\n")
    os._exit(128 + number)


def __getattr__(name: str) -> Any:
    if name in ("main", "app", "COMMANDS"):
        from bpmcli.cli import program

        return getattr(program, name)
    raise AttributeError(f"module 'bpmcli.cli' has no attribute '{name}'")
