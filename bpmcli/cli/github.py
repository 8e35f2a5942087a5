"""Inside GitHub Actions: annotations on the run, and a step summary in markdown.

Workflow commands (`::error …`) may stand on either stream; standard error keeps standard output for data.
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from bpmcli.cli import console
from bpmcli.cli.measurement_tables import measurements, title, two_levels
from bpmcli.cli.render import render
from bpmcli.escape import markdown, spelled_out

Record = Mapping[str, Any]

LARGEST_SUMMARY = 1 << 20
"""GitHub refuses the summary of a step beyond 1 MiB."""
MOST_ANNOTATIONS = 10
"""GitHub shows this many errors per step and drops the others."""


MOST_DIAGRAMS = 20
DIAGRAM_WIDTH = 72
"""Characters that fit into the width of a summary."""

SIGNS = {"fail": "❌", "inconclusive": "❔", "pass": "✅"}
"""The sign before an outcome, the worst first."""


def active() -> bool:
    """Whether this process runs in a step of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def annotate(failures: Sequence[Any], gates: Sequence[Any]) -> None:
    """Every failed gate and every input that could not be read, as an annotation of the run."""
    unread = {failure.input for failure in failures}  # an unreadable input fails its gates too: it is shown once
    for gate in gates:
        if gate.passed and gate.outcome == "inconclusive":
            console.say(_command("warning", "Calibration gate inconclusive", str(gate)))
    found = [
        (f"Calibration gate {'inconclusive' if gate.outcome == 'inconclusive' else 'failed'}", str(gate))
        for gate in gates
        if not gate.passed and gate.input not in unread
    ]
    found += [("Input could not be read", failure.error.message) for failure in failures]
    shown = found if len(found) <= MOST_ANNOTATIONS else found[: MOST_ANNOTATIONS - 1]
    for heading, text in shown:
        console.say(_command("error", heading, text))
    if len(shown) < len(found):
        rest = f"{len(found) - len(shown)} further gates or inputs failed; the log lists them"
        console.say(_command("error", "Calibration", rest))


def annotate_error(error: Any) -> None:
    """An error that ended the command, as an annotation of the run."""
    if active():
        console.say(_command("error", "bpmcli", error.message))


def _command(kind: str, heading: str, text: str) -> str:
    """A workflow command, escaped so that a line break in a file name cannot start another command."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{kind} title={heading}::{escaped}"


def summarise(
    records: Sequence[Record], failures: Sequence[Any], gates: Sequence[Any], measured: Sequence[Any] = ()
) -> None:
    """Append verdicts, table, gates and diagrams to the step summary, if there is one and they fit into it."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    text = step_summary(records, failures, gates) + diagrams(measured)
    try:
        size = os.path.getsize(path) if os.path.exists(path) else 0
        if size + len(text.encode()) <= LARGEST_SUMMARY:
            with open(path, "a", encoding="utf-8", errors="replace") as file:
                file.write(text)
    except OSError as error:
        console.note(f"note: the step summary could not be written ({error.strerror})")


def step_summary(records: Sequence[Record], failures: Sequence[Any], gates: Sequence[Any]) -> str:
    """The summary as markdown: what failed first, then verdicts, then the numbers."""
    parts = [f"### Calibration{_headline(gates, len(failures))}\n"]
    if gates or failures:
        unread = {failure.input for failure in failures}  # their gates fail too, but one line says it all
        lines = [f"- {SIGNS[gate.outcome]} {markdown(str(gate))}" for gate in gates if gate.input not in unread]
        lines += [f"- {SIGNS['fail']} {markdown(failure.error.message)}" for failure in failures]
        order = [f"- {sign}" for sign in SIGNS.values()]
        parts.append("\n".join(sorted(lines, key=lambda line: order.index(line[:3]))) + "\n")
    verdicts = [record for record in records if record.get("verdict")]
    if verdicts:
        parts.append(
            "\n".join(f"- **{markdown(title(r))}**: {markdown(r['verdict']['sentence'])}" for r in verdicts) + "\n"
        )
    if records:
        parts += [f"{sentence}\n" for sentence in {two_levels(record): None for record in records} if sentence]
        parts.append(render("markdown", measurements(records, brief=True), None))
    return "\n".join(parts) + "\n"


def diagrams(measured: Sequence[Any]) -> str:
    """A reliability diagram in characters for each of the first inputs, folded away if there are several."""
    from bpmcli.cli.diagram import draw

    parts = []
    for one in [one for one in measured if one.diagram is not None][:MOST_DIAGRAMS]:
        # ASCII, because fonts of browsers draw braille in another width than other characters.
        lines = draw(one.diagram, DIAGRAM_WIDTH, unicode=False, event=one.record["target"] == "event")
        text = "\n".join("".join(glyph.text for glyph in line).rstrip() for line in lines)
        body = f"```text\n{text}\n```\n"
        name = escape(spelled_out(title(one.record)))  # the name is in HTML, where markdown has no escapes
        parts.append(f"<details><summary>{name}</summary>\n\n{body}\n</details>\n" if len(measured) > 1 else body)
    return "\n".join(parts) + ("\n" if parts else "")


def _headline(gates: Sequence[Any], unread: int) -> str:
    count = {outcome: sum(gate.outcome == outcome for gate in gates) for outcome in SIGNS}
    said = [f"{count['fail']} of {len(gates)} gates failed"] if count["fail"] else []
    said += [f"{count['inconclusive']} of {len(gates)} gates inconclusive"] if count["inconclusive"] else []
    said += ["every gate passed"] if gates and not said else []
    said += [f"{unread} input{'s' if unread > 1 else ''} could not be read"] if unread else []
    return f": {', '.join(said)}" if said else ""
