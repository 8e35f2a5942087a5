"""The program: finds a command, imports and runs it, and turns whatever happens into an exit code."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from bpmcli import __version__
from bpmcli.cli import _leave, console, streams
from bpmcli.cli.options.command import unknown_command
from bpmcli.errors import BpmError
from bpmcli.io import memory

DEBUG = "BPMCLI_DEBUG"
"""The environment variable that shows tracebacks of bugs and warnings of libraries."""

# Set before numpy is imported: sums that BLAS splits among threads would depend on the number of threads.
for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

COMMANDS = {
    "fit": "Fit a calibrator and write its parameters.",
    "apply": "Calibrate files with fitted parameters.",
    "metrics": "Measure calibration error; gate a CI job on it.",
    "report": "Write one HTML page about the calibration of one or more models.",
    "summarize": "Reduce files of any size to a small summary that metrics and fit read.",
    "simulate": "Draw data whose true calibration error is known.",
    "compare": "Compare metrics or calibrators, on files or on known truth.",
    "config": "Show the options that a file or the environment sets.",
    "completion": "Print a completion script for bash, zsh or fish.",
}

UNCONFIGURED = ("config", "completion")
"""Commands whose options cannot be set in a file or in the environment."""


class _Commands(TyperGroup):
    """Imports the module of a command only when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise unknown_command(args[0], COMMANDS, "bpmcli metrics")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"bpmcli.cli.cmd_{cmd_name}")
        found = typer.main.get_command(module.app)
        found.name, found.short_help = cmd_name, COMMANDS[cmd_name]
        if ctx is not None and cmd_name not in UNCONFIGURED:
            ctx.default_map = {**(ctx.default_map or {}), cmd_name: _configured((cmd_name,), found)}
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _configured(path: tuple[str, ...], command: Any) -> dict[str, Any]:
    """What a file or the environment sets for a command, or for each command of a group."""
    from bpmcli.cli.config import defaults

    if hasattr(command, "commands"):
        return {name: _configured((*path, name), each) for name, each in command.commands.items()}
    return defaults(path, command)


HELP = """Measure and fix a classifier's calibration from the command line.

\b
  bpmcli metrics test.npz                            is the model calibrated?
  bpmcli fit val.npz --method auto -o params.json    fit a calibrator
  bpmcli apply params.json test.npz -o out.npz       write calibrated scores
"""

app = typer.Typer(
    cls=_Commands,
    help=HELP,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"bpmcli {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "-V", "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Replaced by HELP."""


root.__doc__ = None


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    stderr, code = streams.prepare(), 0
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the pipe has ended (`| head`), which is not an error
        streams.forget(sys.stdout)
        return code
    except OSError as error:
        # The rest of the output could not be written: a full disk shows only when the buffer is emptied.
        return _foreign(error)
    finally:
        streams.restore(stderr)


def _run(arguments: list[str]) -> int:
    console.quiet = False
    console.hinted.clear()
    try:
        # Not .main(), which would end the process with exit code 1 if a pipe is closed.
        command = typer.main.get_command(app)
        with command.make_context("bpmcli", arguments[:] or ["--help"]) as context:
            return int(command.invoke(context) or 0)
    except typer.Exit as done:
        return done.exit_code if arguments else 2
    except BpmError as error:
        console.show_error(error)
        _tell_ci(error, arguments)
        return error.exit_code
    except KeyboardInterrupt as stop:
        terminated = isinstance(stop, _Terminated)
        console.say("bpmcli: terminated" if terminated else "bpmcli: interrupted")
        return 143 if terminated else 130
    except BrokenPipeError:
        raise
    except Exception as error:
        code = _foreign(error)
        told = getattr(error, "format_message", None)
        _tell_ci(BpmError(told() if told else str(error)), arguments)
        return code


def _tell_ci(error: BpmError, arguments: Sequence[str]) -> None:
    from bpmcli.cli.ci_errors import tell_ci

    tell_ci(error, arguments)


def _foreign(error: Exception) -> int:
    """The error to show for an exception: typer's usage errors, errors of the operating system, or a bug."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error)
        return 2
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        context = getattr(error, "ctx", None)
        hint = f"see {context.command_path} --help" if context is not None else "see bpmcli --help"
        message, _, others = format_message().rstrip(".").partition(" (Possible options: ")
        if others:
            hint = f"did you mean {others.rstrip(')').replace(', ', ' or ')}?"
        console.show_error(BpmError(message, hint))
        return 2
    if type(error).__name__ == "Abort":
        return 130
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        console.show_error(BpmError(f"{where}{error.strerror}", "is the disk full, or the target gone?"))
        if not error.filename:
            streams.forget(sys.stdout)
        return 3
    if isinstance(error, MemoryError):
        console.show_error(BpmError("out of memory", "process the files one at a time, or split them"))
        return 3
    if os.environ.get(DEBUG):
        raise error
    console.show_error(
        BpmError(f"internal error: {type(error).__name__}: {error}", f"this is a bug; {DEBUG}=1 shows where")
    )
    return 70


PATIENCE = 0.7
"""Seconds for tidying up after a signal. Python handles a signal between two steps of the main thread, so a long call
into a library delays it, and a library may swallow the exception. In both cases a thread ends the process."""

UNFINISHED = ("bpmcli.io.atomic", "bpmcli.io.streams")
"""Modules with a set `unfinished` of temporary files and folders."""


class _Terminated(KeyboardInterrupt):
    """An interrupt by SIGTERM."""


def run_as_process() -> int:
    """Run the command line of this process. From now on a signal is an exception, so that temporary files and worker
    processes are removed."""

    def interrupt(number: int, frame: Any) -> None:
        # A second signal must not interrupt the clean-up.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise _Terminated if number == signal.SIGTERM else KeyboardInterrupt

    memory.own_process = True
    if not os.environ.get(DEBUG):
        _silence_libraries()
    for each in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(each) != signal.SIG_IGN:
            signal.signal(each, interrupt)
    threading.Thread(target=_guard, args=(_told_of_signals(),), daemon=True).start()
    code = main()
    _remove_unfinished()  # the copy of standard input: nothing runs at exit after a signal
    return code


def _told_of_signals() -> int:
    """The read end of a pipe that receives the number of every signal, whatever the main thread is doing."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    return told


def _guard(told: int) -> None:
    """Wait for a signal, give the main thread a moment to tidy up, then do it here and end the process.

    Until then, look from time to time whether the process has taken more memory than it may.
    """
    number, watch = 0, memory.Watch()
    while number not in (signal.SIGINT, signal.SIGTERM):
        if not watch.possible or select.select([told], [], [], memory.INTERVAL)[0]:
            number = os.read(told, 1)[0]
        elif watch.exceeded():
            _end_for_memory()
    time.sleep(PATIENCE)
    _remove_unfinished()
    _leave(number, None)


def _end_for_memory() -> None:
    """Waiting for the main thread would mean more memory, so the process ends here."""
    error = BpmError(*memory.refusal())
    with suppress(Exception):
        _tell_ci(error, sys.argv[1:])
    _remove_unfinished()
    with suppress(OSError):  # not through sys.stderr, which the main thread may be using
        os.write(2, f"bpmcli: error: {error.message}\n  hint: {error.hint}\n".encode())
    os._exit(memory.EXCEEDED)


def _remove_unfinished() -> None:
    for module in UNFINISHED:
        for path in sorted(getattr(sys.modules.get(module), "unfinished", ()), reverse=True):  # files before folders
            with suppress(OSError):
                os.rmdir(path) if os.path.isdir(path) else os.unlink(path)


def _silence_libraries() -> None:
    """Silence warnings, and exceptions that a library can only print, here and in workers."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")

    def unraisable(found: Any) -> None:
        if isinstance(
            found.exc_value, KeyboardInterrupt
        ):  # the exception was lost in a callback, but the process must end
            _leave(signal.SIGTERM if isinstance(found.exc_value, _Terminated) else signal.SIGINT, None)

    sys.unraisablehook = unraisable
    threading.excepthook = lambda found: None
