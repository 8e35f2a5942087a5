"""Results of many inputs as they arrive: good ones are passed on, failures are shown at once and remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bpmcli.cli import console
from bpmcli.errors import BpmError, DataError

NAMED = 5
"""Failed inputs that the last line names."""


class Failure(NamedTuple):
    """An input that gave no result."""

    input: str
    error: BpmError


class Outcomes:
    """Separates the results of one task over many inputs."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.failures: list[Failure] = []

    def good(self, names: Sequence[str], results: Iterable[Any], what: str) -> Iterator[tuple[int, Any]]:
        """Position and result of every input that succeeded; `what` names the progress bar."""
        for position, result in enumerate(console.progress(results, len(names), what)):
            if isinstance(result, BpmError):
                self.fail(names[position], result)
            else:
                yield position, result

    def fail(self, name: str, error: BpmError) -> None:
        """Show and remember why an input failed."""
        error = error if name in error.message else error.at(name)
        console.show_error(error)
        self.failures.append(Failure(name, error))

    def sum_up(self) -> None:
        """At the end of a batch: how many failed, and which, because their errors may be far up."""
        if self.failures and self.inputs > 1:
            names = ", ".join(failure.input for failure in self.failures[:NAMED])
            more = f" and {len(self.failures) - NAMED} more" if len(self.failures) > NAMED else ""
            done = self.inputs - len(self.failures)
            console.note(f"{done} of {self.inputs} inputs done, {len(self.failures)} failed: {names}{more}")

    def exit_code(self) -> int:
        """0 if every input succeeded, 70 after a bug, the failures' own code if nothing succeeded, otherwise 3."""
        codes = {failure.error.exit_code for failure in self.failures}
        if not codes:
            return 0
        if BpmError.exit_code in codes:
            return BpmError.exit_code
        return codes.pop() if len(codes) == 1 and len(self.failures) == self.inputs else DataError.exit_code

    def where(self, name: str) -> str:
        """The input to name in a notice; nothing where there is only one."""
        return name if self.inputs > 1 else ""
