"""Results of `metrics` as a JUnit file, which GitLab, Jenkins and GitHub's test reporters show.

One test case per gate. An input without a gate is a case that passes when it was measured, and an input that could
not be read is a case with an error, so that nothing passes by omission.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from bpmcli.cli.measurement_tables import title

Record = Mapping[str, Any]
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(records: Sequence[Record], failures: Sequence[Any], gates: Sequence[Any]) -> str:
    """The whole file."""
    gated = {gate.input for gate in gates}
    cases = [_gate_case(gate) for gate in gates]
    cases += [_case("measured", title(record)) for record in records if title(record) not in gated]
    cases += [_failure_case(failure) for failure in failures]
    failed = sum(not gate.passed for gate in gates)
    counts = f'tests="{len(cases)}" failures="{failed}" errors="{len(failures)}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="bpmcli" {counts} time="0">',
        f'  <testsuite name="calibration" {counts} skipped="0" time="0">',
        *cases,
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _gate_case(gate: Any) -> str:
    name = f"{gate.metric} {'rises by at most' if gate.baseline is not None else 'at most'} {gate.limit:g}"
    return _case(name, gate.input, None if gate.passed else ("failure", "gate failed", str(gate)))


def _failure_case(failure: Any) -> str:
    hint = f"\nhint: {failure.error.hint}" if failure.error.hint else ""
    return _case("can be read", failure.input, ("error", "input error", failure.error.message + hint))


def _case(name: str, where: str, outcome: tuple[str, str, str] | None = None) -> str:
    """A test case; `outcome` holds the element to put into it, its type, and what it says."""
    head = f'    <testcase name={_attribute(name)} classname={_attribute(where)} time="0"'
    if outcome is None:
        return f"{head}/>"
    element, kind, text = outcome
    first = text.partition("\n")[0]
    body = f"<{element} message={_attribute(first)} type={_attribute(kind)}>{escape(_allowed(text))}</{element}>"
    return f"{head}>\n      {body}\n    </testcase>"


def _attribute(text: str) -> str:
    return quoteattr(_allowed(text))


def _allowed(text: str) -> str:
    """The text without characters that XML cannot hold, not even escaped."""
    return NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
