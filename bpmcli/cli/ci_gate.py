"""Gates for CI: limits on metrics, absolute or against a saved run. A metric that was not measured fails its gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from bpmcli.cli import console
from bpmcli.cli.measurement_tables import title
from bpmcli.cli.options.checks import level as check_level
from bpmcli.core.data.names import known_name
from bpmcli.core.metrics import METRICS
from bpmcli.errors import BpmError, DataError, UsageError

SCHEMA, VERSION = "bpmcli/metrics", 1

Record = Mapping[str, Any]


class Limit(NamedTuple):
    """A metric and the highest value it may have, or the most it may rise."""

    metric: str
    limit: float


class Limits(NamedTuple):
    """Every gate of a run."""

    above: Sequence[Limit] = ()
    rises: Sequence[Limit] = ()
    confidence: float | None = None
    baseline: str | None = None
    interval: float = 0.0
    """Level of the intervals that the run must compute; 0 for none."""

    def names(self) -> list[str]:
        """The metrics to measure: a gate must never pass because its metric was left out."""
        return [limit.metric for limit in [*self.above, *self.rises]]


class GateResult(NamedTuple):
    """One gate on one input."""

    input: str
    metric: str
    limit: float
    value: float | None
    passed: bool
    baseline: float | None = None
    bound: float | None = None
    """Lower confidence limit of the value, with --gate-confidence."""

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.input}: {self.metric} could not be measured, so its gate fails"
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
        metric = known_name(name, METRICS, f"metric of {option}")
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            raise UsageError(f"{option} {text}: '{number}' is not a finite number")
        limits.append(Limit(metric, value))
    return limits


def interval_level(interval: float, confidence: float | None, gated: bool) -> float:
    """The level of the intervals to compute: the one asked for, or the one whose lower limit is the gate's.

    The one-sided lower limit at level c is the lower limit of the two-sided interval at level 2c − 1.
    """
    if confidence is None:
        return interval
    check_level("--gate-confidence", confidence)
    if not gated:
        raise UsageError("--gate-confidence needs --fail-above", "--fail-above tce=0.03 --gate-confidence 0.95")
    if confidence <= 0.5:
        raise UsageError(f"--gate-confidence must be above 0.5, got {confidence:g}", "--gate-confidence 0.95")
    needed = 2 * confidence - 1
    if interval and abs(interval - needed) > 1e-9:
        raise UsageError(
            "--gate-confidence C uses the lower limit of the interval at level 2C − 1",
            f"leave --interval out or give {needed:g}",
        )
    return needed


def judge(
    records: Sequence[Record], limits: Limits, baseline: Record | None, failed: Sequence[str] = ()
) -> list[GateResult]:
    """Every gate on every input; inputs that could not be read (`failed`) fail theirs.

    With a confidence, a limit is broken when the lower confidence limit exceeds it.
    """
    single = len({record["input"] for record in records}) == 1
    results: list[GateResult] = []
    for record in records:
        results += _absolute(record, limits)
        if baseline is not None:
            results += _rises(record, limits, _matching(record, baseline, single))
    for name in failed:
        results += [GateResult(name, metric, limit, None, False) for metric, limit in [*limits.above, *limits.rises]]
    return results


def show_results(results: Sequence[GateResult]) -> bool:
    """Print every gate; whether all passed."""
    for result in results:
        if result.passed:
            console.note(f"gate passed: {result}", console.GREEN)
        else:
            console.fail(f"gate failed: {result}")
    return all(result.passed for result in results)


def _absolute(record: Record, limits: Limits) -> Iterator[GateResult]:
    for metric, limit in limits.above:
        measured = record["metrics"][metric]
        value = measured["value"]
        bound = measured.get("low") if limits.confidence is not None else None
        decisive = value if limits.confidence is None else bound
        passed = decisive is not None and decisive <= limit
        yield GateResult(title(record), metric, limit, value, passed, None, bound)


def _rises(record: Record, limits: Limits, before: Record) -> Iterator[GateResult]:
    for what in ("target", "weighted"):
        if before.get(what) != record[what]:
            raise DataError(
                f"the baseline has {what} = {before.get(what)}, this run {record[what]}",
                "measure both the same way (--event, --weight)",
            )
    for metric, limit in limits.rises:
        old = before["metrics"].get(metric, {}).get("value")
        if old is None:
            raise DataError(
                f"the baseline has no {metric} for {title(record)}",
                f"save it again with -m {metric} --format json",
            )
        value = record["metrics"][metric]["value"]
        passed = value is not None and value - old <= limit
        yield GateResult(title(record), metric, limit, value, passed, old)


def load_baseline(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A saved `metrics --format json`, measured with the same options."""
    from bpmcli.io.document_kinds import METRICS as KIND
    from bpmcli.io.documents import load_document

    try:
        document = load_document(path, KIND)
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


def _matching(record: Record, baseline: Record, single: bool) -> Record:
    """The baseline's result for the same input and group. A single input on both sides may have another name."""
    results: list[Record] = baseline["results"]
    single = single and len({str(result.get("input")) for result in results}) == 1
    for result in results:
        same_group = all(result.get(key) == record.get(key) for key in ("by", "group"))
        if same_group and (single or result.get("input") == record["input"]):
            return result
    raise DataError(f"the baseline has no result for {title(record)}", "save it again for all inputs")
