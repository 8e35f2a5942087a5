"""The outcome of every gate: pass, fail or inconclusive, in words and as an exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bpmcli.cli import console
from bpmcli.cli.ci_gate import FAIL_ABOVE, FAIL_BELOW, MAX_INCREASE, PASS_BELOW, Limits
from bpmcli.cli.measurement_tables import title
from bpmcli.core.data.rows import EVENT, TOP_LABEL
from bpmcli.core.metrics import METRICS
from bpmcli.core.metrics.decision import FAIL, INCONCLUSIVE, PASS, at_most, decide
from bpmcli.errors import DataError

FAILED, UNDECIDED = 1, 5
"""Exit codes: a gate failed; no gate failed, but one is inconclusive."""

Record = Mapping[str, Any]


class GateResult(NamedTuple):
    """One gate on one input."""

    input: str
    metric: str
    limit: float
    value: float | None
    passed: bool
    """Whether the gate counts as passed, which an inconclusive gate does with --inconclusive pass."""
    baseline: float | None = None
    bound: float | None = None
    """With --gate-confidence, the confidence limit that decides: the lower one, or the upper one of --fail-below."""
    kind: str = FAIL_ABOVE
    outcome: str = FAIL
    """PASS, FAIL or INCONCLUSIVE."""
    low: float | None = None
    high: float | None = None
    """Confidence limits of the value, or of its increase."""
    paired: bool | None = None
    """Whether the increase was computed row by row; None if it was not needed."""
    rows: int | None = None
    rows_needed: int | None = None
    detectable: float | None = None
    counts_as: str | None = None
    """PASS or FAIL if the gate is inconclusive and --inconclusive decides; otherwise None."""
    why_missing: str | None = None
    """Why the metric has no value, if the input could be read."""

    @property
    def exit_code(self) -> int:
        """0 if passed, otherwise FAILED or UNDECIDED."""
        if self.passed:
            return 0
        return UNDECIDED if self.outcome == INCONCLUSIVE and self.counts_as is None else FAILED

    def __str__(self) -> str:
        if self.value is None:
            why = f" ({self.why_missing})" if self.why_missing else ""
            return f"{self.input}: {self.metric} could not be measured{why}, so its gate fails"
        return f"{self.input}: {self.metric} {_WORDS[self.kind](self)}"


def _above(gate: GateResult) -> str:
    assert gate.value is not None
    if gate.bound is not None:
        where = "within" if at_most(gate.value, gate.limit) else "not surely above"
        where = where if gate.passed else "and surely above"
        return f"= {gate.value:.5f} (at least {gate.bound:.5f}), {where} the limit {gate.limit:g}"
    verb = "within" if gate.passed else f"{gate.value - gate.limit:.5f} above"
    return f"= {gate.value:.5f}, {verb} the limit {gate.limit:g}"


def _below(gate: GateResult) -> str:
    if gate.low is None or gate.high is None:
        return f"= {gate.value:.5f} has no confidence interval, so its gate fails"
    if gate.outcome == PASS:
        return f"= {gate.value:.5f} (at most {gate.high:.5f}), surely below the limit {gate.limit:g}"
    if gate.outcome == FAIL:
        return f"= {gate.value:.5f} (at least {gate.low:.5f}), surely above the limit {gate.limit:g}"
    needed = (
        "even a thousand times as many would not" if gate.rows_needed is None else f"about {gate.rows_needed:,} would"
    )
    said = (
        f"= {gate.value:.5f} (between {gate.low:.5f} and {gate.high:.5f}): {gate.rows:,} rows cannot tell whether it "
        f"is below the limit {gate.limit:g}; {needed}"
    )
    if gate.detectable is None:
        return said
    return f"{said}. With {gate.rows:,} rows, an error must be about {gate.detectable:.2g} to be found above the limit"


def _risen(gate: GateResult) -> str:
    assert gate.value is not None
    assert gate.baseline is not None
    rise = f"{gate.value - gate.baseline:+.5f}"
    verb = "within" if gate.passed else "more than"
    if gate.low is not None:
        how = "row by row" if gate.paired else "from summaries"
        rise += f", at least {gate.low:+.5f} {how}"
        verb = "within" if at_most(gate.value - gate.baseline, gate.limit, gate.baseline) else "not surely more than"
        verb = verb if gate.passed else "surely more than"
    return f"went from {gate.baseline:.5f} to {gate.value:.5f} ({rise}), {verb} the {gate.limit:g} allowed"


def _too_low(gate: GateResult) -> str:
    assert gate.value is not None
    if gate.bound is not None:
        where = "at least" if at_most(gate.limit, gate.value) else "not surely below"
        where = where if gate.passed else "and surely below"
        return f"= {gate.value:.5f} (at most {gate.bound:.5f}), {where} the limit {gate.limit:g}"
    verb = "at least" if gate.passed else f"{gate.limit - gate.value:.5f} below"
    return f"= {gate.value:.5f}, {verb} the limit {gate.limit:g}"


_WORDS = {FAIL_ABOVE: _above, PASS_BELOW: _below, MAX_INCREASE: _risen, FAIL_BELOW: _too_low}


def judge(
    records: Sequence[Record], limits: Limits, baseline: Record | None, failed: Sequence[str] = (), single: bool = False
) -> list[GateResult]:
    """Every gate on every input; for inputs that could not be read (`failed`), every gate fails.

    `single`: there is one input, which may have another name in the baseline.
    """
    results: list[GateResult] = []
    for record in records:
        own = limits.at(record["input"])
        found = [*_absolute(record, own)]
        if baseline is not None:
            from bpmcli.tasks.baseline import matching

            found += _rises(record, own, matching(record, baseline, single, title(record)))
        results += [one._replace(why_missing=record["metrics"][one.metric].get("why_missing")) for one in found]
    for name in failed:
        kinds = limits.at(name).kinds()
        results += [GateResult(name, metric, limit, None, False, kind=kind) for kind, (metric, limit) in kinds]
    return results


def exit_code(results: Sequence[GateResult]) -> int:
    """FAILED if any gate failed, else UNDECIDED if any is inconclusive, else 0."""
    codes = {result.exit_code for result in results}
    return next((code for code in (FAILED, UNDECIDED) if code in codes), 0)


def show_gates(results: Sequence[GateResult]) -> None:
    """Print every gate."""
    for result in results:
        if result.outcome == INCONCLUSIVE:
            counts = f" (counts as {result.counts_as})" if result.counts_as else ""
            console.say(f"gate inconclusive{counts}: {result}", console.YELLOW)
        elif result.passed:
            console.note(f"gate passed: {result}", console.GREEN)
        else:
            console.fail(f"gate failed: {result}")


def _absolute(record: Record, limits: Limits) -> Iterator[GateResult]:
    where, rows = title(record), record["n"]
    for metric, limit in limits.above:
        measured = record["metrics"][metric]
        value = measured["value"]
        bound = measured.get("low") if limits.confidence is not None else None
        decisive = value if limits.confidence is None else bound
        passed = decisive is not None and at_most(decisive, limit)
        yield GateResult(
            where, metric, limit, value, passed, None, bound, FAIL_ABOVE, PASS if passed else FAIL, rows=rows
        )
    for metric, limit in limits.least:
        measured = record["metrics"][metric]
        value = measured["value"]
        # A P-value has no interval of its own.
        bound = None if limits.confidence is None or METRICS[metric].is_test else measured.get("high")
        decisive = value if limits.confidence is None or METRICS[metric].is_test else bound
        passed = decisive is not None and at_most(limit, decisive)
        outcome = PASS if passed else FAIL
        yield GateResult(where, metric, limit, value, passed, None, bound, FAIL_BELOW, outcome, rows=rows)
    for metric, limit in limits.below:
        measured = record["metrics"][metric]
        low, high = measured.get("low"), measured.get("high")
        mean_confidence = record["mean_confidence"] if METRICS[metric].calibration_error else None
        sample = mean_confidence, record.get("effective_n")
        found = decide(measured["value"], low, high, limit, rows, (1 + limits.interval) / 2, *sample)
        open_ = found.outcome == INCONCLUSIVE
        yield GateResult(
            where, metric, limit, measured["value"],
            found.outcome == PASS or (open_ and limits.inconclusive == PASS),
            kind=PASS_BELOW, outcome=found.outcome, low=low, high=high, rows=rows, rows_needed=found.rows_needed,
            detectable=found.detectable, counts_as=limits.inconclusive if open_ else None,
        )  # fmt: skip


def _same_way(what: str, before: Any, now: Any) -> str:
    """The hint for a run of another kind than its baseline."""
    if what == "weighted":
        return "leave --weight out" if now else "name the weights with --weight"
    if before == EVENT:
        return "add --event"
    if before != TOP_LABEL:
        return f"add --top-k {str(before).removeprefix('top-')}"
    return f"leave {'--event' if now == EVENT else '--top-k'} out"


def _rises(record: Record, limits: Limits, before: Record) -> Iterator[GateResult]:
    for what in ("target", "weighted"):
        if before.get(what) != record[what]:
            raise DataError(
                f"the baseline has {what} = {before.get(what)}, this run {record[what]}",
                _same_way(what, before.get(what), record[what]),
            )
    for metric, limit in limits.rises:
        old = before["metrics"].get(metric, {}).get("value")
        if old is None:
            from bpmcli.tasks.baseline import save_again

            raise DataError(f"the baseline has no {metric} for {title(record)}", save_again(before, limits.baseline))
        value = record["metrics"][metric]["value"]
        change = record.get("increases", {}).get(metric, {})
        rise = None if value is None else value - old
        if limits.confidence is not None:
            rise = change.get("low")
        passed = rise is not None and at_most(rise, limit, old)
        yield GateResult(
            title(record), metric, limit, value, passed, old, None, MAX_INCREASE, PASS if passed else FAIL,
            change.get("low"), change.get("high"), change.get("paired"), record["n"],
        )  # fmt: skip
