"""Where a CI system looks for results."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from bpmcli.cli.options.command import under
from bpmcli.cli.options.measuring import Gate
from bpmcli.record import Record


@under(Gate.heading)  # type: ignore[attr-defined]
class Ci(Record):
    """Results for CI systems, in addition to standard output."""

    junit: Annotated[
        str | None,
        typer.Option("--junit", metavar="FILE", help="Also write a JUnit file, for GitLab, Jenkins and others."),
    ] = None
    no_ci: Annotated[
        bool, typer.Option("--no-ci", help="No annotations and no step summary inside GitHub Actions.")
    ] = False

    def summarises(self) -> bool:
        """Whether a step summary will be written."""
        import os

        active = os.environ.get("GITHUB_ACTIONS") and os.environ.get("GITHUB_STEP_SUMMARY")
        return bool(active) and not self.no_ci

    def publish(
        self,
        records: Sequence[Mapping[str, Any]],
        failures: Sequence[Any],
        gates: Sequence[Any],
        measured: Sequence[Any] = (),
    ) -> None:
        """Writes the JUnit file that was asked for, and what GitHub Actions shows if the command runs there."""
        import os

        if self.junit:
            from bpmcli.cli.junit import junit_xml
            from bpmcli.io.atomic import write_text

            write_text(self.junit, junit_xml(records, failures, gates))
        if os.environ.get("GITHUB_ACTIONS") and not self.no_ci:
            from bpmcli.cli import github

            github.annotate(failures, gates)
            github.summarise(records, failures, gates, measured)
