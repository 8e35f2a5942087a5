"""The program: finds a command, imports and runs it, and turns whatever happens into an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from bpmcli import __version__
from bpmcli.cli import _leave, console, guard, streams
from bpmcli.cli.options.command import similar_options, unknown_command
from bpmcli.errors import BpmError, DataError, too_many_files
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

HELP_OPTIONS = ["-h", "--help"]

UNCONFIGURED = ("config", "completion")
"""Commands whose options cannot be set in a file or in the environment."""


class _Commands(TyperGroup):
    """Imports the module of a command only when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise unknown_command(args[0], COMMANDS, "bpmcli metrics")
        ctx.meta["help"] = bool({*HELP_OPTIONS} & {*args})
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"bpmcli.cli.cmd_{cmd_name}")
        found = typer.main.get_command(module.app)
        found.name, found.short_help = cmd_name, COMMANDS[cmd_name]
        if ctx is not None and cmd_name not in UNCONFIGURED:
            try:
                ctx.default_map = {**(ctx.default_map or {}), cmd_name: _configured((cmd_name,), found)}
            except BpmError:
                if not ctx.meta.get("help"):  # help that is asked for because the configuration is wrong
                    raise
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
    context_settings={"help_option_names": HELP_OPTIONS, "max_content_width": 110},
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
    before, code = streams.prepare(), 0
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        if memory.own_process:
            guard.answer_is_ready()
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the pipe has ended (`| head`), which is not an error
        streams.forget(sys.stdout)
        return code
    except OSError as error:
        # The rest of the output could not be written: a full disk shows only when the buffer is emptied.
        return _foreign(error)
    finally:
        streams.restore(*before)


def _run(arguments: list[str]) -> int:
    console.quiet = False
    console.hinted.clear()
    try:
        # Not command.main(), which would end the process with exit code 1 if a pipe is closed.
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
        number = guard.number_of(stop)
        console.say("bpmcli: terminated" if number == signal.SIGTERM else "bpmcli: interrupted")
        return 128 + number
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
    """Shows an exception other than a BpmError: a usage error of typer, an error of the system, or a bug.

    Returns the exit code.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error)
        return 2
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        context = getattr(error, "ctx", None)
        hint = f"see {context.command_path} --help" if context is not None else "see bpmcli --help"
        message = format_message().rstrip(".").partition(" (Possible options: ")[0]
        if near := similar_options(str(getattr(error, "option_name", "")), getattr(error, "possibilities", None) or ()):
            hint = f"did you mean {' or '.join(near)}?"
        console.show_error(BpmError(message[:1].lower() + message[1:], hint))
        return 2
    if type(error).__name__ == "Abort":
        return 130
    lacking = too_many_files(error)
    if isinstance(error, MemoryError):
        lacking = DataError("out of memory", "process the files one at a time, or split them")
    if lacking:
        console.show_error(lacking)
        return lacking.exit_code
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        console.show_error(BpmError(f"{where}{error.strerror}", "is the disk full, or the target gone?"))
        if not error.filename:
            streams.forget(sys.stdout)
        return 3
    if os.environ.get(DEBUG):
        raise error
    console.show_error(
        BpmError(f"internal error: {type(error).__name__}: {error}", f"this is a bug; {DEBUG}=1 shows where")
    )
    return 70


def run_as_process() -> int:
    """Run the command line of this process and return its exit code.

    From now on a signal raises an exception, so that temporary files and worker processes are removed.
    """

    def interrupt(number: int, frame: Any) -> None:
        # A second signal must not interrupt the clean-up.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise guard.Terminated if number == signal.SIGTERM else KeyboardInterrupt

    memory.own_process = True
    if not os.environ.get(DEBUG):
        guard.silence_libraries()
    caught = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) != signal.SIG_IGN]
    try:
        for each in caught:
            signal.signal(each, interrupt)
        guard.start(lambda error: _tell_ci(error, sys.argv[1:]))
        code = main()
        guard.remove_unfinished()  # the copy of standard input: nothing runs at exit after a signal
        for each in caught:
            signal.signal(each, _leave)  # there is nothing more to tidy up
    except KeyboardInterrupt as stop:  # just before or after the command, which catches it while it runs
        guard.remove_unfinished()
        _leave(guard.number_of(stop), None)
    return code
