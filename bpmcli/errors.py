"""The errors that users see. Each kind of error has its own exit code."""

from __future__ import annotations

import errno


class BpmError(Exception):
    """Base of all errors that users see: `message` says what happened and where, `hint` the simplest fix."""

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
    """These rows do not allow a trustworthy fit."""

    exit_code = 4


def too_many_files(error: BaseException) -> DataError | None:
    """The error for the user if the process may open no more files. The file that it names is not to blame."""
    if not isinstance(error, OSError) or error.errno != errno.EMFILE:
        return None
    return DataError("too many open files", "raise the limit: ulimit -n 4096")
