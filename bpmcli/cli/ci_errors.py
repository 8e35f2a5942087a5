"""Shows an error that ends the command where a CI system looks. Otherwise an old JUnit file would report success."""

from __future__ import annotations

import os
from collections.abc import Sequence

from bpmcli.errors import BpmError

COMMAND = "metrics"
"""The command that has the options --junit and --no-ci."""


def tell_ci(error: BpmError, arguments: Sequence[str]) -> None:
    """Write the error to the JUnit file that was asked for, and annotate the run inside GitHub Actions."""
    path = _junit_file(arguments)
    if path:
        from bpmcli.cli.junit import write_error

        write_error(error, path)
    if os.environ.get("GITHUB_ACTIONS") and not _turned_off(arguments):
        from bpmcli.cli import github

        github.annotate_error(error)


def _junit_file(arguments: Sequence[str]) -> str | None:
    """What --junit names: on the command line, in the environment or in a file. The error may be in any of them."""
    for position, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if option == "--junit":
            return value if equals else "".join(arguments[position + 1 : position + 2])
    if not _is_metrics(arguments):
        return None
    from bpmcli.cli.config import unchecked

    found = unchecked(COMMAND, "junit", path=True)
    return found if isinstance(found, str) else None


def _turned_off(arguments: Sequence[str]) -> bool:
    if "--no-ci" in arguments:
        return True
    from bpmcli.cli.config import NO, unchecked

    return _is_metrics(arguments) and str(unchecked(COMMAND, "no-ci") or "").lower() not in NO


def _is_metrics(arguments: Sequence[str]) -> bool:
    """Whether the command is `metrics`, and not `compare metrics` or another command with an input of that name."""
    return next((argument for argument in arguments if not argument.startswith("-")), None) == COMMAND
