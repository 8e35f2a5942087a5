"""The command line: `main(argv)` returns the exit code. Commands are imported only when used."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, TextIO, cast

import typer
from typer.core import TyperGroup

from bpmcli import __version__
from bpmcli.errors import BpmError

# Before numpy is imported: sums that BLAS splits among threads would depend on their number, here and in workers.
for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

COMMANDS = {
    "fit": "Fit a calibration curve and write its parameters.",
    "apply": "Calibrate files with fitted parameters.",
    "metrics": "Measure calibration error; gate a CI job on it.",
    "report": "Write one HTML page about the calibration of one or more models.",
    "summarize": "Reduce files of any size to a small summary that metrics and fit read.",
    "simulate": "Draw data whose true calibration error is known.",
    "compare": "Compare metrics or calibrators, on files or on known truth.",
}


class _Commands(TyperGroup):
    """Imports a command's module when it is called, so that others cost nothing."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"bpmcli.cli.cmd_{cmd_name}")
        found = typer.main.get_command(module.app)
        found.name, found.short_help = cmd_name, COMMANDS[cmd_name]
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


HELP = """Is a classifier's confidence to be trusted, and if not, how to repair it.

\b
  bpmcli metrics test.npz                         how far off is it
  bpmcli fit val.npz -o params.json               fit the calibration curve
  bpmcli apply params.json test.npz -o out.npz    calibrated probabilities
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
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    """Replaced by HELP."""


root.__doc__ = None


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    code, stderr = 0, sys.stderr
    sys.stderr = cast(TextIO, _Messages(stderr))
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()
    except OSError as error:
        # The last of the output did not fit: a full disk shows only when the buffer is emptied.
        return _foreign(error)
    finally:
        sys.stderr = stderr
    return code


def forget_stdout() -> None:
    """The reader has gone (`| head`): nothing more is said, also at the flush on exit; the exit code stays."""
    _forget(sys.stdout)


def _forget(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Messages:
    """Standard error. That nobody reads it (`2>&1 | head`) is no error: what the exit code says stays true."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        try:
            return self.stream.write(text)
        except BrokenPipeError:
            _forget(self.stream)
            return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except BrokenPipeError:
            _forget(self.stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _run(arguments: list[str]) -> int:
    from bpmcli.cli import console

    console.quiet = False
    try:
        # Not .main(): that one ends the process with 1 when a pipe is closed.
        command = typer.main.get_command(app)
        with command.make_context("bpmcli", arguments[:] or ["--help"]) as context:
            return int(command.invoke(context) or 0)
    except typer.Exit as done:
        return done.exit_code if arguments else 2
    except BpmError as error:
        console.show_error(error)
        return error.exit_code
    except KeyboardInterrupt as stop:
        terminated = isinstance(stop, _Terminated)
        print("bpmcli: terminated" if terminated else "bpmcli: interrupted", file=sys.stderr)
        return 143 if terminated else 130
    except BrokenPipeError:
        raise
    except Exception as error:
        return _foreign(error)


def _foreign(error: Exception) -> int:
    """typer's own usage errors; anything else is a bug and says so."""
    from bpmcli.cli import console

    format_message = getattr(error, "format_message", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error)
        return 2
    if format_message is not None:
        context = getattr(error, "ctx", None)
        hint = f"see {context.command_path} --help" if context is not None else "see bpmcli --help"
        console.show_error(BpmError(format_message().rstrip("."), hint))
        return 2
    if type(error).__name__ == "Abort":
        return 130
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        console.show_error(BpmError(f"{where}{error.strerror}", "is the disk full, or the target gone?"))
        if not error.filename:
            forget_stdout()
        return 3
    if isinstance(error, MemoryError):
        console.show_error(BpmError("out of memory", "work the files one at a time, or split them"))
        return 70
    if os.environ.get("BPMCLI_DEBUG"):
        raise error
    console.show_error(
        BpmError(f"internal error: {type(error).__name__}: {error}", "this is a bug; BPMCLI_DEBUG=1 shows where")
    )
    return 70


class _Terminated(KeyboardInterrupt):
    """An interrupt by SIGTERM."""


def entry() -> None:
    """The console script. Being terminated is an interrupt: temporary files and worker processes go."""
    import signal

    def interrupt(number: int, frame: Any) -> None:
        # Once is enough: a second one must not interrupt the tidying up.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise _Terminated if number == signal.SIGTERM else KeyboardInterrupt

    for each in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(each) != signal.SIG_IGN:  # nohup and background jobs ignore it
            signal.signal(each, interrupt)
    sys.exit(main())
