"""The results of many inputs as they arrive: good results are passed on, failures are shown and collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bpmcli.cli import console
from bpmcli.errors import BpmError, DataError


class Failure(NamedTuple):
    """An input that gave no result."""

    input: str
    error: BpmError


def with_suggestion(error: BpmError, path: str) -> BpmError:
    """The same error; for a file that does not exist, with the name of a similar one that does."""
    if error.hint or "no such file" not in error.message or "://" in path:
        return error
    from bpmcli.io.paths import similar_file

    near = similar_file(path)
    return type(error)(error.message, f"did you mean {near}?") if near else error


class Outcomes:
    """Separates the good results of a task over many inputs from the failures."""

    def __init__(self, inputs: int | None = None) -> None:
        """`inputs`: how many there are, if some of them are not passed to `good`."""
        self.inputs = inputs or 0
        self.failures: list[Failure] = []

    def good(self, names: Sequence[str], results: Iterable[Any], what: str) -> Iterator[tuple[int, Any]]:
        """Position and result of every input that succeeded; `what` names the progress bar."""
        self.inputs = self.inputs or len(names)
        for position, result in enumerate(console.progress(results, len(names), what)):
            if isinstance(result, BpmError):
                self.fail(names[position], result)
            else:
                yield position, result

    def fail(self, name: str, error: BpmError) -> None:
        """Show why an input failed, and keep it in `failures`."""
        error = with_suggestion(error if name in error.message else error.at(name), name)
        console.show_error(error)
        self.failures.append(Failure(name, error))

    def failed(self) -> list[str]:
        """The inputs that gave no result."""
        return [failure.input for failure in self.failures]

    def exit_code(self) -> int:
        """0 if every input succeeded, 70 after a bug, the failures' own code if nothing succeeded, otherwise 3."""
        codes = {failure.error.exit_code for failure in self.failures}
        if not codes:
            return 0
        if BpmError.exit_code in codes:
            return BpmError.exit_code
        return codes.pop() if len(codes) == 1 and len(self.failures) == self.inputs else DataError.exit_code

    def finish(self) -> int:
        """Print how many of many inputs were done, list the failures again, and return the exit code."""
        if self.failures and self.inputs > 1:
            failed = len(self.failures)
            console.say(f"{self.inputs - failed} done, {failed} failed:", console.RED)
            for failure in self.failures:
                console.say(f"  {failure.error.message}")
        return self.exit_code()

    def where(self, name: str) -> str:
        """The input to name in a notice; empty if there is only one."""
        return name if self.inputs > 1 else ""
