"""Options used by two or more commands, written once.

A group is a tuple of annotated fields; `@command` puts the fields of every group a function asks
for into its signature, so that typer sees plain options. (Named tuples, here and wherever records
lie on the everyday path: a frozen dataclass costs a millisecond at start-up, thirty of them 30.)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from bpmcli.errors import UsageError

Inputs = Annotated[
    list[str],
    typer.Argument(help="Files, globs, directories, or - for csv/jsonl on standard input.", metavar="INPUT..."),
]

OptionalInputs = Annotated[
    list[str] | None,
    typer.Argument(help="Files, globs, directories, or - for csv/jsonl on standard input.", metavar="INPUT..."),
]


def _job_count(jobs: int) -> int:
    if jobs < 0:
        raise UsageError(f"-j must not be negative, not {jobs}", "0 means one per core")
    return jobs


Jobs = Annotated[
    int, typer.Option("-j", "--jobs", callback=_job_count, help="Work this many files at a time; 0 = one per core.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every random draw.")]


RESAMPLES = (20, 1_000_000)
"""Of fewer the ends of an interval say nothing, and more take days."""
HIGHEST_LEVEL = 0.9999
"""A few thousand draws say nothing about rarer cases."""


def check_resamples(resamples: int) -> int:
    """A number of resamples, or a usage error."""
    fewest, most = RESAMPLES
    if not fewest <= resamples <= most:
        raise UsageError(f"--resamples must be between {fewest} and {most}, not {resamples}", "1000 are usual")
    return resamples


def check_level(option: str, level: float) -> float:
    """A level that an interval can have, or a usage error."""
    if not 0 < level <= HIGHEST_LEVEL:
        raise UsageError(f"{option} must lie between 0 and {HIGHEST_LEVEL}, not {level!r}", f"{option} 0.95")
    return level


class InputArgs(NamedTuple):
    """How to read the inputs."""

    logits: Annotated[str | None, typer.Option(metavar="KEY", help="Column or array of logits.")] = None
    probs: Annotated[str | None, typer.Option(metavar="KEY", help="Column or array of probabilities.")] = None
    confidence: Annotated[str | None, typer.Option(metavar="KEY", help="Column of confidences.")] = None
    log_odds: Annotated[str | None, typer.Option(metavar="KEY", help="Column of log-odds.")] = None
    label: Annotated[str | None, typer.Option(metavar="KEY", help="Column of true classes.")] = None
    hit: Annotated[str | None, typer.Option(metavar="KEY", help="Column of 0/1: was the prediction right.")] = None
    prediction: Annotated[str | None, typer.Option(metavar="KEY", help="Column of predicted classes.")] = None
    weight: Annotated[str | None, typer.Option(metavar="KEY", help="Column of sample weights.")] = None
    event: Annotated[bool, typer.Option("--event", help="Calibrate P(y = 1) itself, not the predicted class.")] = False
    skip_missing: Annotated[bool, typer.Option("--skip-missing", help="Leave out rows with missing values.")] = False

    def resolve(self, group: str | None = None) -> Any:
        """As the readers take them."""
        from bpmcli.io.layout import InputOptions

        if group == "":
            raise UsageError("--by needs the name of a column")
        return InputOptions(**self._asdict(), group=group)


class CurveArgs(NamedTuple):
    """How the paper's curve is fitted and turned into TCE_bpm."""

    variant: Annotated[str, typer.Option(help="paper, or authors: as their published code does it.")] = "paper"
    bins: Annotated[
        str | None, typer.Option(metavar="LO:HI", help="Bin counts of the curve's schemes [N/100:N/20].")
    ] = None
    schemes: Annotated[str, typer.Option(metavar="N|all", help="How many bin counts of that range.")] = "11"
    density: Annotated[str, typer.Option(help="Of confidence under TCE: beta or empirical.")] = "beta"
    p: Annotated[float, typer.Option("--p", help="Power of the error.")] = 1.0

    def resolve(self, n_bins: int = 15, binning: str = "mass") -> Any:
        """As the metrics take them; nonsense is a usage error."""
        from math import isfinite

        from bpmcli.core.metrics import MetricOptions

        _one_of("--variant", self.variant, ("paper", "authors"))
        _one_of("--density", self.density, ("beta", "empirical"))
        _one_of("--binning", binning, ("mass", "width"))
        if not (isfinite(self.p) and 1 <= self.p <= 50):
            raise UsageError(f"--p must lie between 1 and 50, not {self.p:g}")
        if n_bins < 1:
            raise UsageError(f"--n-bins must be positive, not {n_bins}")
        schemes = None if self.schemes == "all" else _positive("--schemes", self.schemes)
        return MetricOptions(n_bins, binning, self.p, self.variant, schemes, _range(self.bins), self.density)


class BatchArgs(NamedTuple):
    """How several files are worked."""

    pool: Annotated[bool, typer.Option("--pool", help="Take all inputs as one sample.")] = False
    jobs: Jobs = 1


class ScaleArgs(NamedTuple):
    """How much data is worked, and where."""

    exact: Annotated[bool, typer.Option("--exact", help="Keep every row, however many there are.")] = False
    summary: Annotated[bool, typer.Option("--summary", help="Reduce rows to a summary [beyond 5 million].")] = False
    engine: Annotated[str, typer.Option(help="Where -j works: local processes, or dask.")] = "local"
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of a dask cluster; a local one if not given.")
    ] = None

    def resolve(self, jobs: int) -> Any:
        """As the engines take them."""
        from bpmcli.engines.local import Scale

        if self.exact and self.summary:
            raise UsageError("--exact and --summary exclude each other")
        _one_of("--engine", self.engine, ("local", "dask"))
        if self.scheduler and self.engine != "dask":
            raise UsageError("--scheduler goes with --engine dask")
        mode = "exact" if self.exact else "summary" if self.summary else "auto"
        return Scale(jobs, mode, self.engine, self.scheduler)


class QuietArgs(NamedTuple):
    """For commands whose data has its own format."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no progress.")] = False

    def resolve(self) -> None:
        """Quiet takes effect."""
        from bpmcli.cli import console

        console.quiet = console.quiet or self.quiet


class OutputArgs(NamedTuple):
    """How results are shown."""

    format: Annotated[str, typer.Option("--format", "-f", help="table, json, csv or markdown.")] = "table"
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no progress.")] = False

    def resolve(self) -> str:
        """The format, checked; quiet takes effect."""
        from bpmcli.cli import console
        from bpmcli.cli.render import check_format

        console.quiet = console.quiet or self.quiet
        return check_format(self.format)


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{option} must be {' or '.join(allowed)}, not '{value}'")


def _positive(option: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) < 1:
        raise UsageError(f"{option} must be a positive whole number, not '{text}'")
    return int(text)


def _range(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    low, _, high = text.partition(":")
    pair = _positive("--bins", low), _positive("--bins", high or low)
    if pair[0] > pair[1]:
        raise UsageError(f"--bins {text}: the range is empty")
    return pair


def command(function: Callable[..., int]) -> Callable[..., int]:
    """Expand parameters annotated with a group into that group's options."""
    # Not get_type_hints: before 3.11 it wraps what defaults to None into Optional, and typer's marks are lost.
    signature = inspect.signature(function, eval_str=True)
    hints = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if hasattr(hint, "_fields")}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name not in groups:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        group_hints = get_type_hints(groups[parameter.name], include_extras=True)
        parameters += [
            parameter.replace(name=name, default=default, annotation=group_hints[name])
            for name, default in groups[parameter.name]._field_defaults.items()
        ]

    @wraps(function)
    def call(**values: Any) -> int:
        built = {name: group(**{f: values.pop(f) for f in group._fields}) for name, group in groups.items()}
        return function(**values, **built)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    del call.__wrapped__
    return call
