"""Gates for CI: limits on metrics, absolute or against a saved run. What was not measured fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from bpmcli.cli.options import check_level
from bpmcli.core.metrics import METRICS
from bpmcli.errors import BpmError, DataError, UsageError
from bpmcli.tasks.measure import title

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
    bound: float | None = None
    """Lower bound of the value, where the gate asks for one."""

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
        if self.bound is not None:
            where = (
                "and surely above" if not self.passed else "within" if self.value <= self.limit else "not surely above"
            )
            value = f"{self.value:.5f} (at least {self.bound:.5f})"
            return f"{self.input}: {self.metric} = {value}, {where} the limit {self.limit:g}"
        verb = "within" if self.passed else f"{self.value - self.limit:.5f} above"
        return f"{self.input}: {self.metric} = {self.value:.5f}, {verb} the limit {self.limit:g}"


def parse_limits(option: str, texts: Sequence[str]) -> list[Limit]:
    """`metric=number` pairs; anything else is a usage error."""
    limits = []
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals:
            raise UsageError(f"{option} {text}: expected METRIC=NUMBER", f"{option} ece=0.05")
        if name not in METRICS:
            raise UsageError(f"{option} {text}: unknown metric '{name}'", "choose from " + ", ".join(METRICS))
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
    confidence: float | None = None,
) -> list[Verdict]:
    """Every gate on every input. With a confidence, a limit is broken when the lower bound exceeds it."""
    verdicts = []
    for record in records:
        for gate in limits:
            measured = record["metrics"][gate.metric]
            value = measured["value"]
            bound = measured.get("low") if confidence is not None else None
            decisive = value if confidence is None else bound
            passed = decisive is not None and decisive <= gate.limit
            verdicts.append(Verdict(title(record), gate.metric, gate.limit, value, passed, None, bound))
        if baseline is not None:
            before = _matching(record, baseline, single=len({r["input"] for r in records}) == 1)
            for what in ("target", "weighted"):
                if before.get(what) != record[what]:
                    raise DataError(
                        f"the baseline has {what} = {before.get(what)}, this run {record[what]}",
                        "measure both the same way (--event, --weight)",
                    )
            for gate in rises:
                old = before["metrics"].get(gate.metric, {}).get("value")
                if old is None:
                    raise DataError(
                        f"the baseline has no {gate.metric} for {title(record)}", "save it again with --format json"
                    )
                value = record["metrics"][gate.metric]["value"]
                passed = value is not None and value - old <= gate.limit
                verdicts.append(Verdict(title(record), gate.metric, gate.limit, value, passed, old))
    return verdicts


def interval_level(interval: float | None, confidence: float | None, gated: bool) -> float:
    """The level of the intervals to compute: as asked, or the one whose lower end is the gate's bound."""
    for option, level in (("--interval", interval), ("--gate-confidence", confidence)):
        if level is not None:
            check_level(option, level)
    if confidence is None:
        return interval or 0.0
    if not gated:
        raise UsageError("--gate-confidence goes with --fail-above", "--fail-above tce=0.03 --gate-confidence 0.95")
    if confidence <= 0.5:
        raise UsageError(f"--gate-confidence must exceed 0.5, not {confidence:g}")
    if interval is not None and abs(interval - (2 * confidence - 1)) > 1e-9:
        raise UsageError(
            "--gate-confidence C looks at the lower end of the interval of level 2C − 1",
            f"leave --interval out or give {2 * confidence - 1:g}",
        )
    return 2 * confidence - 1


def load_baseline(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A saved `metrics --format json`, measured with the same options."""
    from bpmcli.io.document_kinds import METRICS
    from bpmcli.io.documents import load_document

    try:
        document = load_document(path, METRICS)
        theirs = document["options"]
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
    """The same group of the same input; of the only input where there is one on either side."""
    results: list[Mapping[str, Any]] = baseline["results"]
    single = single and len({str(result.get("input")) for result in results}) == 1
    for result in results:
        same_group = all(result.get(key) == record.get(key) for key in ("by", "group"))
        if same_group and (single or result.get("input") == record["input"]):
            return result
    raise DataError(f"the baseline has no result for {title(record)}", "measure it once more for all inputs")
