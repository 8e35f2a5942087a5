"""What is measured: metrics, how they are computed, their uncertainty, and gates on them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from bpmcli.cli.options.checks import digits, level, number, one_of, whole
from bpmcli.cli.options.command import under
from bpmcli.cli.options.reading import CLASSWISE
from bpmcli.errors import UsageError
from bpmcli.record import Record

METRICS = "Metrics"
MOST_BINS = 100_000
"""With more bins than this, most bins are empty in all but the largest files, and memory grows."""
RESAMPLES = (20, 1_000_000)
"""Limits on the number of resamples: with fewer, an interval means little; more take days."""
MOST_NOISE_RUNS = 100_000


@under(METRICS)
class Metrics(Record):
    """Which metrics, and the bins behind them."""

    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", metavar="METRIC", help="Only this metric, or 'all'; repeatable."),
    ] = None
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="METRIC", help="Rank the inputs by this metric, best first, and mark ties."),
    ] = None
    list_: Annotated[bool, typer.Option("--list", help="Explain every metric, then stop.")] = False
    bins_table: Annotated[bool, typer.Option("--bins-table", help="Show the bins of the reliability diagram.")] = False
    classwise: Annotated[bool, CLASSWISE] = False

    def resolve(
        self, default: Sequence[str] | None = None, more: Sequence[str] = (), known: Sequence[str] | None = None
    ) -> list[str]:
        """Names of the metrics, each once: the chosen or default metrics, the metric to rank by, and `more`.

        `known` are the metrics to choose from, if not all of them.
        """
        from bpmcli.core.metrics import check_metric_names

        first = [] if self.metric or default else ["tce"]
        more = [*more, *(["ece-classwise", "ece-marginal"] if self.classwise else [])]
        ranked = [self.sort] if self.sort else []
        chosen = check_metric_names(self.metric or default, known)
        return list(dict.fromkeys([*first, *chosen, *more, *(check_metric_names(ranked) if ranked else [])]))

    def sort_by(self) -> str | None:
        """The metric to rank by, if any."""
        if not self.sort:
            return None
        from bpmcli.core.metrics import check_metric_names

        names = check_metric_names([self.sort])
        if len(names) > 1:
            raise UsageError(f"--sort takes one metric, got '{self.sort}'", "--sort tce")
        return names[0]


@under(METRICS)
class Pairs(Record):
    """Two models on the same rows."""

    paired: Annotated[
        bool, typer.Option("--paired", help="Compare two files of the same rows: differences with intervals.")
    ] = False


@under("Uncertainty")
class Uncertainty(Record):
    """How uncertain a value is."""

    interval: Annotated[
        float | None, typer.Option("--interval", metavar="LEVEL", help="Add confidence intervals, e.g. 0.95.")
    ] = None
    resamples: Annotated[int, typer.Option("--resamples", metavar="N", help="Bootstrap resamples per interval.")] = 1000
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="COLUMN",
            help="Rows with the same value in this column are not independent: resample them together.",
        ),
    ] = None
    noise_floor: Annotated[
        bool, typer.Option("--noise-floor", help="Show what a perfectly calibrated model would score.")
    ] = False
    noise_runs: Annotated[int, typer.Option("--noise-runs", metavar="N", help="Simulations for the noise floor.")] = 200

    def resolve(self) -> float:
        """The level of the intervals, 0 for none."""
        fewest, most = RESAMPLES
        whole("--resamples", self.resamples, fewest, most, "1000 is usual")
        whole("--noise-runs", self.noise_runs, 1, MOST_NOISE_RUNS, "200 is usual")
        return 0.0 if self.interval is None else level("--interval", self.interval)


@under("Gate for CI (exit code 1, or 5 if inconclusive)")
class Gate(Record):
    """Limits that fail a CI job."""

    fail_above: Annotated[
        list[str] | None,
        typer.Option("--fail-above", metavar="METRIC=X", help="Fail if the metric exceeds X; repeatable."),
    ] = None
    fail_below: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-below",
            metavar="METRIC=X",
            help="Fail if accuracy, auroc, dsc or canonical-p is below X; repeatable.",
        ),
    ] = None
    pass_below: Annotated[
        list[str] | None,
        typer.Option(
            "--pass-below", metavar="METRIC=X", help="Pass only if the metric is surely at most X; repeatable."
        ),
    ] = None
    inconclusive: Annotated[
        str | None,
        typer.Option(
            "--inconclusive",
            metavar="OUTCOME",
            help="Count an inconclusive --pass-below as 'pass' or 'fail'; by default it exits with 5.",
        ),
    ] = None
    gate_confidence: Annotated[
        float | None,
        typer.Option(
            "--gate-confidence",
            metavar="LEVEL",
            help="How sure gates must be: --fail-above fails only if the lower limit exceeds X. Best with tce.",
        ),
    ] = None
    baseline: Annotated[str | None, typer.Option("--baseline", metavar="FILE", help="A saved run to compare with.")] = (
        None
    )
    save_baseline: Annotated[
        str | None,
        typer.Option(
            "--save-baseline", metavar="FILE", help="Save this run, if no gate fails, for a later --baseline."
        ),
    ] = None
    max_increase: Annotated[
        list[str] | None,
        typer.Option(
            "--max-increase", metavar="METRIC=X", help="Fail if the metric rose above the baseline by more than X."
        ),
    ] = None

    def resolve(self, interval: float = 0.0) -> Any:
        """The limits, and the level of the intervals that they need; `interval` is the level that --interval sets."""
        from bpmcli.cli.ci_gate import Limits, completed
        from bpmcli.cli.config import path_options

        paths = [(one.pattern, self._changed(one.changes(self))) for one in path_options()]
        if not any(self._asdict().values()) and not any(any(limits) for _, limits in paths):
            return Limits(interval=interval)
        above, below, rises, least = self._limits()
        if bool(rises or any(limits[2] for _, limits in paths)) != (self.baseline is not None):
            raise UsageError(
                "--baseline and --max-increase need each other",
                "--baseline old.json --max-increase tce=0.01; an earlier run writes it with --save-baseline old.json",
            )
        if self.inconclusive is not None:
            one_of("--inconclusive", self.inconclusive, ("pass", "fail"))
            if not (below or any(limits[1] for _, limits in paths)):
                raise UsageError("--inconclusive needs --pass-below", "--pass-below tce=0.03 --inconclusive fail")
        limits = Limits(above, below, rises, None, self.baseline, 0.0, self.inconclusive, tuple(paths), least)
        return completed(limits, interval, self.gate_confidence)

    def _changed(self, changes: Mapping[str, Any]) -> tuple[Any, ...]:
        """The limits that are different for some inputs; None for limits that are not."""
        names = ("fail_above", "pass_below", "max_increase", "fail_below")
        found = zip(names, self._replace(**changes)._limits(), strict=True)
        return tuple(limits if name in changes else None for name, limits in found)

    def _limits(self) -> tuple[Any, Any, Any, Any]:
        """The limits of --fail-above, --pass-below, --max-increase and --fail-below."""
        from bpmcli.cli.ci_gate import parse_limits

        return (
            parse_limits("--fail-above", self.fail_above or []),
            parse_limits("--pass-below", self.pass_below or []),
            parse_limits("--max-increase", self.max_increase or []),
            parse_limits("--fail-below", self.fail_below or []),
        )


@under("Details of metrics and curves (for experts)")
class Details(Record):
    """How metrics are computed and how the paper's curve is fitted; the defaults are the paper's."""

    n_bins: Annotated[
        int, typer.Option("--n-bins", metavar="N", help="Bins of the binned metrics and of histogram.")
    ] = 15
    binning: Annotated[
        str, typer.Option("--binning", metavar="KIND", help="Bins of equal mass or equal width: mass or width.")
    ] = "mass"
    p: Annotated[float, typer.Option("--p", metavar="P", help="Exponent p of the error, (mean |gap|^p)^(1/p).")] = 1.0
    variant: Annotated[
        str, typer.Option(metavar="NAME", help="Follow the paper or the authors' published code: paper or authors.")
    ] = "paper"
    bins: Annotated[
        str | None,
        typer.Option(metavar="LO:HI", show_default="N/100:N/20", help="Range of bin counts for the fit."),
    ] = None
    schemes: Annotated[str, typer.Option(metavar="N|all", help="How many bin counts of that range to use.")] = "11"
    density: Annotated[
        str, typer.Option(metavar="NAME", help="Confidence distribution for tce-bpm: beta or empirical.")
    ] = "beta"

    def resolve(self) -> Any:
        """The options of the metrics."""
        from bpmcli.core.metrics import MetricOptions

        whole("--n-bins", self.n_bins, 1, MOST_BINS, "15 is usual")
        one_of("--binning", self.binning, ("mass", "width"))
        number("--p", self.p, 1, 50)
        one_of("--variant", self.variant, ("paper", "authors"))
        one_of("--density", self.density, ("beta", "empirical"))
        schemes = None if self.schemes == "all" else digits("--schemes", self.schemes, MOST_BINS)
        counts = _bin_counts(self.bins)
        return MetricOptions(self.n_bins, self.binning, self.p, self.variant, schemes, counts, self.density)


def _bin_counts(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    low, _, high = text.partition(":")
    pair = digits("--bins", low, MOST_BINS), digits("--bins", high or low, MOST_BINS)
    if pair[0] > pair[1]:
        raise UsageError(f"--bins {text}: the range is empty", f"--bins {pair[1]}:{pair[0]}")
    return pair


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
            from bpmcli.io.writers import write_text

            write_text(self.junit, junit_xml(records, failures, gates))
        if os.environ.get("GITHUB_ACTIONS") and not self.no_ci:
            from bpmcli.cli import github

            github.annotate(failures, gates)
            github.summarise(records, failures, gates, measured)
