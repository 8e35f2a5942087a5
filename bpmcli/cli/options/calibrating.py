"""Which calibrators, how they are applied, and how they are compared."""

from typing import Annotated, Any

import typer

from bpmcli.cli.options.checks import one_of, share, whole
from bpmcli.cli.options.command import under
from bpmcli.errors import UsageError
from bpmcli.record import Record

FOLDS, REPEATS, JACKKNIFE = 5, 4, 10
"""Folds and repeats of a cross-validation; folds of separate evaluation rows, for standard errors."""
MOST_FOLDS, MOST_REPEATS = 1000, 1000


@under("Calibrator")
class Calibrators(Record):
    """Which calibrators to fit."""

    method: Annotated[
        list[str] | None, typer.Option("--method", metavar="METHOD", help="Only this calibrator; repeatable.")
    ] = None
    prior: Annotated[
        str, typer.Option("--prior", metavar="FAMILY", help="Curve family of bpm; 'list' explains them.")
    ] = "beta"
    optimizer: Annotated[
        str, typer.Option("--optimizer", metavar="NAME", help="newton, or nelder-mead as in the paper.")
    ] = "newton"

    def resolve(self, variant: str) -> tuple[str, bool]:
        """The method to fit, and whether it needs whole distributions. Raises UsageError if options contradict it."""
        from bpmcli.core.calibrators import METHODS, method_named
        from bpmcli.core.calibrators.base import PAPER
        from bpmcli.core.compare.choice import AUTO
        from bpmcli.core.curves.bpm import check_family
        from bpmcli.core.curves.families import BETA, family_named

        one_of("--optimizer", self.optimizer, ("newton", "nelder-mead"))
        method, *more = dict.fromkeys(self.method or [PAPER])
        if more:
            raise UsageError("fit takes one --method", "bpmcli compare calibrators compares several")
        method = AUTO if method.lower() == AUTO else method_named(method).name
        if ":" in method:
            raise UsageError(
                f"--method {method} works with compare only", "--method " + method.replace(":", " --prior ")
            )
        family = family_named(self.prior)
        if family is not BETA and method != PAPER:
            raise UsageError(f"--prior is the curve family of {PAPER}, not of {method}", "leave one of them out")
        check_family(family, variant, self.optimizer)
        return method, method == AUTO or METHODS[method].needs_distribution


@under("Calibration")
class Applying(Record):
    """How calibrated values are written."""

    allow_argmax_change: Annotated[
        bool, typer.Option("--allow-argmax-change", help="Let the predicted class change.")
    ] = False
    as_: Annotated[
        str | None, typer.Option("--as", metavar="KIND", help="'probs' writes probabilities in place of logits.")
    ] = None

    def resolve(self) -> bool:
        """Whether logits become probabilities."""
        if self.as_ is not None:
            one_of("--as", self.as_, ("probs",))
        return self.as_ is not None


@under("Fair comparison")
class FairComparison(Record):
    """On which rows calibrators are fitted and judged."""

    calibration: Annotated[
        list[str] | None,
        typer.Option(
            "--calibration", metavar="FILE", help="Fit on this file; repeatable, with one --evaluation for each."
        ),
    ] = None
    evaluation: Annotated[
        list[str] | None, typer.Option("--evaluation", metavar="FILE", help="Judge on this file.")
    ] = None
    rank_by: Annotated[
        str | None,
        typer.Option(
            "--rank-by",
            metavar="SCORE",
            show_default="nll-all, or nll if not all classes are known",
            help="The score that ranks the calibrators; a learning curve shows it.",
        ),
    ] = None
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds",
            metavar="N",
            show_default=f"{FOLDS}; {JACKKNIFE} with --evaluation",
            help="Folds of the cross-validation; correct and wrong rows are spread evenly.",
        ),
    ] = None
    repeats: Annotated[
        int | None,
        typer.Option(
            "--repeats", metavar="N", show_default=str(REPEATS), help="Repeat the cross-validation with new folds."
        ),
    ] = None
    in_sample: Annotated[
        bool, typer.Option("--in-sample", help="Judge on the same rows as the fit; the table says so.")
    ] = False
    learning_curve: Annotated[
        str | None,
        typer.Option("--learning-curve", metavar="N,N,…", help="Show the score for calibration sets of these sizes."),
    ] = None

    def resolve(self, cross_validated: bool) -> tuple[int, int, tuple[int, ...]]:
        """Folds, repeats and sizes of the learning curve."""
        from bpmcli.cli.options.truths import parse_sizes

        if self.in_sample and self.learning_curve:
            raise UsageError(
                "--in-sample and --learning-curve exclude each other", "a learning curve never uses the fitted rows"
            )
        if not cross_validated and self.repeats is not None and not self.learning_curve:
            raise UsageError("--repeats needs cross-validation or --learning-curve", "leave it out")
        sizes = tuple(parse_sizes("--learning-curve", self.learning_curve)) if self.learning_curve else ()
        usual = FOLDS if cross_validated or sizes else JACKKNIFE
        folds = usual if self.folds is None else whole("--folds", self.folds, 2, MOST_FOLDS)
        repeats = REPEATS if self.repeats is None else whole("--repeats", self.repeats, 1, MOST_REPEATS)
        return folds, repeats, sizes


@under("Goal")
class Accuracy(Record):
    """The error that `compare samples` looks for."""

    error: Annotated[
        float,
        typer.Option("--error", metavar="X", help="Error to reach: mean |estimated - true| over the confidences."),
    ] = 0.02
    delta: Annotated[float, typer.Option("--delta", metavar="X", help="Share of runs that may exceed this error.")] = (
        0.05
    )

    def resolve(self) -> tuple[float, float]:
        """Error and share, checked."""
        return share("--error", self.error), share("--delta", self.delta)


def compared_methods(chosen: list[str] | None, all_: Any) -> tuple[str, ...]:
    """Names of the methods to compare, each once; all if none was named."""
    from bpmcli.core.calibrators import method_named

    names = [part for name in chosen or all_ for part in name.split(",")]
    return tuple(dict.fromkeys(method_named(name).name for name in names))
