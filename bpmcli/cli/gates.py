"""Gates for CI: limits on metrics, absolute or against a saved run. What was not measured fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from bpmcli.core.metrics import METRICS
from bpmcli.errors import BpmError, DataError, UsageError
from bpmcli.io.documents import load_document

SCHEMA, VERSION = "bpmcli/metrics", 1


class Limit(NamedTuple):
    """A metric and the most it may be, or the most it may rise."""

    metric: str
    limit: float


class Verdict(NamedTuple):
    """One gate on one input."""

    input: str
    metric: str
    limit: float
    value: float | None
    passed: bool
    baseline: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.input}: {self.metric} could not be computed, so its gate fails"
        if self.baseline is not None:
            rise = self.value - self.baseline
            verb = "within" if self.passed else "more than"
            return (
                f"{self.input}: {self.metric} went from {self.baseline:.5f} to {self.value:.5f} "
                f"({rise:+.5f}), {verb} the {self.limit:g} allowed"
            )
        verb = "within" if self.passed else f"{self.value - self.limit:.5f} above"
        return f"{self.input}: {self.metric} = {self.value:.5f}, {verb} the limit {self.limit:g}"


def parse_limits(option: str, texts: Sequence[str]) -> list[Limit]:
    """`metric=number` pairs; anything else is a usage error."""
    limits = []
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals or name not in METRICS:
            raise UsageError(f"{option} {text}: expected METRIC=NUMBER", "metrics: " + ", ".join(METRICS))
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            raise UsageError(f"{option} {text}: '{number}' is not a finite number")
        limits.append(Limit(name, value))
    return limits


def judge(
    records: Sequence[Mapping[str, Any]],
    limits: Sequence[Limit],
    rises: Sequence[Limit],
    baseline: Mapping[str, Any] | None,
) -> list[Verdict]:
    """Every gate on every input."""
    verdicts = []
    for record in records:
        for gate in limits:
            value = record["metrics"][gate.metric]["value"]
            passed = value is not None and value <= gate.limit
            verdicts.append(Verdict(record["input"], gate.metric, gate.limit, value, passed))
        if baseline is not None:
            before = _matching(record, baseline, single=len(records) == 1)
            for gate in rises:
                old = before["metrics"].get(gate.metric, {}).get("value")
                if old is None:
                    raise DataError(
                        f"the baseline has no {gate.metric} for {record['input']}", "save it again with --format json"
                    )
                value = record["metrics"][gate.metric]["value"]
                passed = value is not None and value - old <= gate.limit
                verdicts.append(Verdict(record["input"], gate.metric, gate.limit, value, passed, old))
    return verdicts


def load_baseline(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A saved `metrics --format json`, measured with the same options."""
    try:
        document = load_document(path, SCHEMA, VERSION, "saved with `bpmcli metrics --format json`")
        if not document.get("results"):
            raise DataError("has no results")
        theirs = document.get("options", {})
        different = [k for k in options if theirs.get(k) != options[k]]
        if different:
            k = different[0]
            raise DataError(
                f"was measured with {k} = {theirs.get(k)}, this run uses {options[k]}", "measure both the same way"
            )
        return document
    except BpmError as error:
        raise error.at(path) from None


def _matching(record: Mapping[str, Any], baseline: Mapping[str, Any], single: bool) -> Mapping[str, Any]:
    results: list[Mapping[str, Any]] = baseline["results"]
    if single and len(results) == 1:
        return results[0]
    for result in results:
        if result.get("input") == record["input"]:
            return result
    raise DataError(f"the baseline has no result for {record['input']}", "measure it once more for all inputs")
