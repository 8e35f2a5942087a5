"""Errors a user can meet. The exit code is a property of the kind of error."""

from __future__ import annotations


class BpmError(Exception):
    """What happened, where, what was found; `hint` is the simplest fix."""

    exit_code = 70

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type[BpmError], tuple[str, str | None]]:
        # Errors travel back from worker processes.
        return type(self), (self.message, self.hint)

    def at(self, where: str) -> BpmError:
        """The same error with the file it happened in put in front."""
        return type(self)(f"{where}: {self.message}", self.hint)


class UsageError(BpmError):
    """The command line does not make sense."""

    exit_code = 2


class DataError(BpmError):
    """An input or a parameter file is bad."""

    exit_code = 3


class FitError(BpmError):
    """No trustworthy fit can be had from these rows."""

    exit_code = 4
