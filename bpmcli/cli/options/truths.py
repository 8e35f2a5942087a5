"""Simulated data whose true calibration curve is known."""

from typing import Annotated

import typer

from bpmcli.cli.options.checks import whole
from bpmcli.cli.options.command import under
from bpmcli.errors import UsageError
from bpmcli.record import Record

TRUTH = "Known truth"
MOST_ROWS, MOST_SIZES, MOST_RUNS = 10_000_000, 1000, 100_000


@under(TRUTH)
class Truths(Record):
    """Which truths, and how many data sets are drawn from them."""

    truth: Annotated[
        list[str] | None,
        typer.Option(
            "--truth",
            metavar="TRUTH",
            help="D1 … D5, a curve with its Beta distribution (FAMILY:P,…@A1,A2) or a parameter file; repeatable.",
        ),
    ] = None
    density_from: Annotated[
        str | None,
        typer.Option("--density-from", metavar="FILE", help="Take the distribution of confidence from this file."),
    ] = None
    rows: Annotated[
        str | None,
        typer.Option(
            "-n", "--rows", metavar="N", help="Rows per data set: 2000, 500,1000, 500:5000:500 or 500:8000:x2."
        ),
    ] = None
    runs: Annotated[int, typer.Option("--runs", metavar="N", help="Data sets per truth and size.")] = 100
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="FILE", help="Save finished data sets here and continue from them."),
    ] = None

    def resolve(self, usual: str) -> list[int]:
        """The sizes of the data sets."""
        from bpmcli.io.truths import SYNTAX

        if not self.truth:
            raise UsageError("--truth is missing", f"--truth {SYNTAX}")
        whole("--runs", self.runs, 1, MOST_RUNS, "100 is usual")
        return parse_sizes("-n", self.rows or usual)

    def refuse(self) -> None:
        """Raise UsageError for options that need --truth."""
        for option, value in (("--density-from", self.density_from), ("-n", self.rows), ("--resume", self.resume)):
            if value is not None:
                raise UsageError(f"{option} needs --truth", f"bpmcli compare metrics --truth D1 {option} {value}")


@under(TRUTH)
class CustomTruth(Record):
    """A truth other than the paper's."""

    curve: Annotated[
        str | None, typer.Option("--curve", metavar="FAMILY:P,…", help="True curve, e.g. logit-logit:-0.88,0.49.")
    ] = None
    beta: Annotated[
        str | None, typer.Option("--beta", metavar="A1,A2", help="Beta distribution of the confidences.")
    ] = None


def parse_sizes(option: str, text: str) -> list[int]:
    """`2000`, `500,1000`, `500:5000:500` or `500:8000:x2` (both ends included), sorted."""
    try:
        if ":" in text:
            low, high, *rest = text.split(":")
            sizes = _ladder(int(low), int(high), *rest)
        else:
            sizes = [int(v) for v in text.split(",")]
    except (ValueError, TypeError, OverflowError):
        sizes = []
    if not sizes or min(sizes) < 1:
        raise UsageError(f"{option} {text}: expected sizes like 2000, 500,1000, 500:5000:500 or 500:8000:x2")
    if max(sizes) > MOST_ROWS or len(sizes) > MOST_SIZES:
        raise UsageError(f"{option} {text}: at most {MOST_SIZES} sizes, each of at most {MOST_ROWS} rows")
    return sorted(set(sizes))


def _ladder(low: int, high: int, step: str | None = None) -> list[int]:
    """Sizes from low to high, at most one more than is allowed, however long the range."""
    if step is None or not step.startswith("x"):
        width = low if step is None else int(step)
        return list(range(low, high + 1, width)[: MOST_SIZES + 1]) if width > 0 else []
    factor, sizes = float(step[1:]), list[int]()
    if not (factor > 1 and low > 0):
        return []
    size = float(low)
    while round(size) <= high and len(sizes) <= MOST_SIZES:
        sizes.append(round(size))
        size *= factor
    return sizes
