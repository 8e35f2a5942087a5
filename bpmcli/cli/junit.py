"""Results of `metrics` as a JUnit file, which GitLab, Jenkins and GitHub's test reporters show.

Every gate is a test case. An inconclusive gate is a failure, or skipped with --inconclusive pass. An input without a
gate is a case that passes if it was measured. An input that could not be read is a case with an error, so nothing
passes by omission.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from bpmcli.cli.measurement_tables import title
from bpmcli.errors import BpmError

Record = Mapping[str, Any]
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(records: Sequence[Record], failures: Sequence[Any], gates: Sequence[Any]) -> str:
    """The whole file."""
    gated = {gate.input for gate in gates}
    cases = [_gate_case(gate) for gate in gates]
    cases += [_case("measured", title(record)) for record in records if title(record) not in gated]
    cases += [_failure_case(failure) for failure in failures]
    failed = sum(not gate.passed for gate in gates)
    skipped = sum(gate.passed and gate.outcome == "inconclusive" for gate in gates)
    return _document(cases, failed, len(failures), skipped)


def junit_of_error(error: Any) -> str:
    """The file for a command that ended before it measured anything."""
    hint = f"\nhint: {error.hint}" if error.hint else ""
    return _document([_case("runs", "bpmcli metrics", ("error", "error", error.message + hint))], 0, 1)


def write_error(error: Any, path: str) -> None:
    """Write a JUnit file with the error, unless another kind of file has that name.

    The error may be that --junit names an input, which must not be overwritten.
    """
    from bpmcli.io.writers import write_text

    try:
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                if '<testsuites name="bpmcli"' not in file.read(200):
                    return
        if path:
            write_text(path, junit_of_error(error))
    except (OSError, BpmError):
        return  # the error itself was shown already


def _document(cases: Sequence[str], failed: int, errors: int, skipped: int = 0) -> str:
    counts = f'tests="{len(cases)}" failures="{failed}" errors="{errors}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="bpmcli" {counts} time="0">',
        f'  <testsuite name="calibration" {counts} skipped="{skipped}" time="0">',
        *cases,
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _gate_case(gate: Any) -> str:
    words = {"max-increase": "rises by at most", "pass-below": "surely at most", "fail-below": "at least"}
    name = f"{gate.metric} {words.get(gate.kind, 'at most')} {gate.limit:g}"
    if gate.outcome == "inconclusive":
        return _case(name, gate.input, ("skipped" if gate.passed else "failure", "inconclusive", str(gate)))
    return _case(name, gate.input, None if gate.passed else ("failure", "gate failed", str(gate)))


def _failure_case(failure: Any) -> str:
    hint = f"\nhint: {failure.error.hint}" if failure.error.hint else ""
    return _case("can be read", failure.input, ("error", "input error", failure.error.message + hint))


def _case(name: str, where: str, outcome: tuple[str, str, str] | None = None) -> str:
    """A test case; `outcome` holds the element to put into it, its type, and its text."""
    head = f'    <testcase name={_attribute(name)} classname={_attribute(where)} time="0"'
    if outcome is None:
        return f"{head}/>"
    element, kind, text = outcome
    first = text.partition("\n")[0]
    if element == "skipped":  # the schema allows neither a type nor a text here
        return f"{head}>\n      <skipped message={_attribute(f'{kind}: {first}')}/>\n    </testcase>"
    body = f"<{element} message={_attribute(first)} type={_attribute(kind)}>{escape(_allowed(text))}</{element}>"
    return f"{head}>\n      {body}\n    </testcase>"


def _attribute(text: str) -> str:
    return quoteattr(_allowed(text))


def _allowed(text: str) -> str:
    """The text without characters that XML cannot hold, not even escaped."""
    return NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
