"""Gates for CI: limits on metrics, absolute or against a saved run. A metric that was not measured fails its gate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from bpmcli.cli import console
from bpmcli.cli.options.checks import level as check_level
from bpmcli.core.data.names import known_name
from bpmcli.core.metrics import METRICS
from bpmcli.errors import UsageError

FAIL_ABOVE, PASS_BELOW, MAX_INCREASE, FAIL_BELOW = "fail-above", "pass-below", "max-increase", "fail-below"
CONFIDENCE = 0.95
"""The confidence of --pass-below if neither --gate-confidence nor --interval sets it."""

Record = Mapping[str, Any]


class Limit(NamedTuple):
    """A metric and its limit: the highest or lowest value that it may have, or the most that it may rise."""

    metric: str
    limit: float


class Limits(NamedTuple):
    """Every gate of a run."""

    above: Sequence[Limit] = ()
    below: Sequence[Limit] = ()
    rises: Sequence[Limit] = ()
    confidence: float | None = None
    """The confidence that a gate needs; None if --fail-above and --max-increase use values only."""
    baseline: str | None = None
    interval: float = 0.0
    """Level of the intervals that the run must compute; 0 for none."""
    inconclusive: str | None = None
    """What an inconclusive gate counts as: `pass`, `fail`, or None for an exit code of its own."""
    paths: tuple[tuple[str, tuple[Sequence[Limit] | None, ...]], ...] = ()
    """Other limits (above, below, rises, least; None keeps them) for inputs whose path matches. The last match wins."""
    least: Sequence[Limit] = ()
    """The lowest values allowed for metrics whose higher values are better."""
    names: Sequence[str] = ()
    """The metrics to measure, as `completed` finds them: a gate must never pass because its metric was left out."""

    def at(self, path: str) -> Limits:
        """The limits of this input."""
        from fnmatch import fnmatch

        found = self
        for pattern, limits in self.paths:
            if fnmatch(os.path.abspath(path), pattern):
                named = zip(("above", "below", "rises", "least"), limits, strict=True)
                changes: dict[str, Any] = {name: own for name, own in named if own is not None}
                found = found._replace(**changes)
        return found

    def kinds(self) -> Iterator[tuple[str, Limit]]:
        """Every gate with its kind."""
        kinds = {FAIL_ABOVE: self.above, PASS_BELOW: self.below, MAX_INCREASE: self.rises, FAIL_BELOW: self.least}
        for kind, limits in kinds.items():
            yield from ((kind, limit) for limit in limits)

    @property
    def needs_interval(self) -> bool:
        """Whether a gate looks at a confidence interval of the value itself."""
        return bool(self.below) or any(limits[1] for _, limits in self.paths)


_EXAMPLES = {
    f"--{FAIL_ABOVE}": "tce=0.05",
    f"--{PASS_BELOW}": "tce=0.05",
    f"--{MAX_INCREASE}": "tce=0.01",
    f"--{FAIL_BELOW}": "accuracy=0.9",
}


def parse_limits(option: str, texts: Sequence[str]) -> list[Limit]:
    """`metric=number` pairs; anything else is a usage error."""
    limits = []
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals:
            raise UsageError(f"{option} {text}: expected METRIC=NUMBER", f"{option} {_EXAMPLES[option]}")
        metric = known_name(name, METRICS, f"metric of {option}")
        if METRICS[metric].higher_is_better != (option == f"--{FAIL_BELOW}"):
            better, use = ("lower", FAIL_ABOVE) if option == f"--{FAIL_BELOW}" else ("higher", FAIL_BELOW)
            # The number of --max-increase is a difference, not a limit on the value.
            limit = "LOWEST" if option == f"--{MAX_INCREASE}" else number
            raise UsageError(f"{option} {text}: {better} values of {metric} are better", f"--{use} {metric}={limit}")
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            raise UsageError(f"{option} {text}: '{number}' is not a finite number", _as_a_number(metric, number))
        _check_range(option, text, metric, value)
        limits.append(Limit(metric, value))
    return limits


def _as_a_number(metric: str, text: str) -> str:
    """A hint for a limit such as 5% or 0,05, which is written 0.05; otherwise empty."""
    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().removesuffix("%").replace(",", ".")) / (100 if percent else 1)
    except ValueError:
        return ""
    return f"write {metric}={value:g}" if isfinite(value) else ""


def _check_range(option: str, text: str, metric: str, limit: float) -> None:
    """Raise UsageError for a limit beyond the metric's largest or smallest value, where the gate has one outcome only.

    The other gates may have limits below 0: they fail visibly, and --max-increase may require that a metric falls.
    """
    most, lowest = METRICS[metric].most, option == f"--{FAIL_BELOW}"
    if lowest and limit <= 0:
        message = f"{option} {text}: {metric} is at least 0, so this gate could never fail"
        raise UsageError(message, "give a limit above 0")
    if limit < most or (lowest and limit == most):
        return
    hint = f"give a limit below {most:g}"
    if 1 <= limit < 100 * most:  # perhaps it was meant as a percentage
        unit = "%" if lowest else "point" if limit == 1 else "points"
        hint = f"{limit:g} {unit} {'are' if unit == 'points' else 'is'} {metric}={limit / 100:g}"
    never = "pass" if lowest else "fail"
    raise UsageError(f"{option} {text}: {metric} is at most {most:g}, so this gate could never {never}", hint)


def completed(limits: Limits, interval: float, gate_confidence: float | None) -> Limits:
    """These gates with what follows from them: the metrics to measure, and the level of the intervals that they need.

    `interval` is the level that --interval sets. The one-sided limits at level c are the limits of the two-sided
    interval at level 2c − 1.
    """
    by_path = [limit for _, inside in limits.paths for kind in inside for limit in kind or ()]
    limits = limits._replace(names=[limit.metric for limit in [*(limit for _, limit in limits.kinds()), *by_path]])
    if gate_confidence is None:
        if not limits.needs_interval:
            return limits._replace(interval=interval)
        return limits._replace(interval=interval or 2 * CONFIDENCE - 1)
    check_level("--gate-confidence", gate_confidence)
    if not limits.names:
        raise UsageError(
            "--gate-confidence needs --fail-above, --fail-below, --pass-below or --max-increase",
            "--fail-above tce=0.03 --gate-confidence 0.95",
        )
    if gate_confidence <= 0.5:
        raise UsageError(f"--gate-confidence must be above 0.5, got {gate_confidence:g}", "--gate-confidence 0.95")
    needed = 2 * gate_confidence - 1
    if interval and abs(interval - needed) > 1e-9:
        raise UsageError(
            "--gate-confidence C uses one end of the interval at level 2C − 1",
            f"leave --interval out or give {needed:g}",
        )
    named = limits.above or limits.least or any(one[0] or one[3] for _, one in limits.paths)
    if not (named or limits.needs_interval):
        needed = interval  # an increase has an interval of its own
    return limits._replace(interval=needed, confidence=gate_confidence)


def with_baselines(wanted: Any, limits: Limits, baseline: Record | None, single: bool, saved: int) -> Any:
    """What a run computes, including what a comparison with a baseline needs and what is saved for a later one."""
    if saved:
        from bpmcli.tasks.baseline import rows_to_keep

        wanted = wanted._replace(keep=rows_to_keep(saved))
    if baseline is not None and limits.confidence is not None:
        from bpmcli.tasks.baseline import Against

        rises = [*limits.rises, *(limit for _, inside in limits.paths for limit in inside[2] or ())]
        names = list(dict.fromkeys(limit.metric for limit in rises))
        level = 2 * limits.confidence - 1
        against = Against(baseline, single, names, level, wanted.resamples, wanted.seed, limits.baseline)
        wanted = wanted._replace(against=against)
    return wanted


_REASONS = {1: "a gate failed", 3: "an input could not be read", 5: "a gate is inconclusive"}
"""Why a run does not become a baseline, by its exit code."""


def save_baseline(path: str, document: Mapping[str, Any], measured: Sequence[Any], code: int) -> None:
    """Write a baseline that holds every metric, unless something failed: a bad run must not become the standard."""
    from bpmcli.io.documents import dumps
    from bpmcli.io.writers import write_text

    if code:
        console.say(f"{path} was not written, because {_REASONS.get(code, f'the exit code is {code}')}")
        return
    results = []
    for one in measured:
        record = {key: value for key, value in one.record.items() if key not in ("bins", "increases")}
        metrics = {**record["metrics"], **one.kept["metrics"]}
        stored = {key: value for key, value in one.kept.items() if key != "metrics"}
        results.append({**record, "metrics": metrics, "kept": stored})
    write_text(path, dumps({**document, "results": results}))
    console.note(f"wrote {path}")
