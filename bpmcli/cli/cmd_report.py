"""bpmcli report: one self-contained HTML page about the calibration of one or more models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from bpmcli.cli import console
from bpmcli.cli.options.calibrating import FairComparison
from bpmcli.cli.options.command import command_app, only
from bpmcli.cli.options.measuring import Details, Uncertainty
from bpmcli.cli.options.reading import Groups, Inputs, Reading, Work
from bpmcli.cli.options.showing import Other, Output
from bpmcli.cli.outcomes import Outcomes
from bpmcli.errors import UsageError

LEVEL = 0.95
REPAIR_SCORES = ("nll-all", "nll", "brier", "ece-debiased", "kept")

PAGE = only("output", help={"output": "The page, an .html file."})
REPAIR = only(
    "calibration", help={"calibration": "Also show how well each calibrator would do if it were fitted to this file."}
)
BY = only("by", help={"by": "Also show a result for each value of this column."})


def report(
    inputs: Inputs,
    *,
    output: Annotated[Output, PAGE],
    fair: Annotated[FairComparison, REPAIR],
    groups: Annotated[Groups, BY],
    uncertainty: Annotated[Uncertainty, only("resamples", "cluster")],
    read: Reading,
    work: Annotated[Work, only("jobs")],
    details: Details,
    other: Other,
) -> int:
    """Write one HTML page: a ranking of the models, and for each model a verdict, a diagram and metrics with intervals.

    \b
      bpmcli report test.npz -o report.html
      bpmcli report runs/*.npz -o report.html --calibration val.npz -j 0
      bpmcli report preds.parquet -o report.html --by country
    """
    from bpmcli.engines.local import work as each
    from bpmcli.io.paths import expand
    from bpmcli.io.writers import write_text
    from bpmcli.report.page import render_report

    output.resolve(), work.resolve(), groups.resolve(), uncertainty.resolve()
    target, items, seed = output.output or "", expand(inputs), other.resolve()
    calibration = _check_files(target, items, fair)
    task = _task(read, details, calibration, groups.by, uncertainty, seed)
    names = [item.path for item in items]
    outcomes = Outcomes(len(items))
    models = [model for _, model in outcomes.good(names, each(task, items, work.jobs), "examining")]
    if models:
        failures = [failure.error.message for failure in outcomes.failures]
        write_text(target, render_report(models, failures, calibration))
        unread = (
            f", {len(failures)} {'input' if len(failures) == 1 else 'inputs'} could not be read" if failures else ""
        )
        console.note(f"{target}: {len(models)} model{'' if len(models) == 1 else 's'}{unread}")
    return outcomes.finish()


app = command_app(report)


def _check_files(target: str, items: Sequence[Any], fair: FairComparison) -> str | None:
    """The file to fit calibrators to, if any. Checks, before the work begins, that the page can be written and judged."""
    from bpmcli.io.outputs import spare_inputs
    from bpmcli.report.page import check_report

    if not target:
        raise UsageError("-o is missing", "-o report.html")
    check_report(target)
    spare_inputs(items, target)
    calibrations = fair.calibration or []
    if len(calibrations) > 1:
        raise UsageError("report takes one --calibration", "bpmcli compare calibrators takes several")
    calibration = calibrations[0] if calibrations else None
    if calibration in [item.path for item in items]:
        raise UsageError(
            f"{calibration} is both an input and --calibration",
            "give --calibration a file whose rows are not among the inputs",
        )
    return calibration


def _task(
    read: Reading, details: Details, calibration: str | None, by: str | None, uncertainty: Uncertainty, seed: int
) -> Any:
    from bpmcli.core.calibrators import METHODS, FitOptions
    from bpmcli.core.compare.cross_validation import HELD_OUT, Contest
    from bpmcli.core.metrics import calibration_errors
    from bpmcli.tasks.compare import CompareCalibrators
    from bpmcli.tasks.measure import MeasureFile, Requested
    from bpmcli.tasks.report import ExamineFile

    options = details.resolve()
    wanted = Requested(interval=LEVEL, resamples=uncertainty.resamples, seed=seed)
    cluster, names = uncertainty.cluster, tuple(dict.fromkeys(["tce", *calibration_errors()]))
    measure = MeasureFile(read.resolve(cluster=cluster), names, options, wanted._replace(diagram=True))
    of_groups = MeasureFile(read.resolve(by, cluster), ("tce",), options, wanted._replace(verdict=True))
    groups = of_groups if by else None
    compare = None
    if calibration:
        contest = Contest(tuple(METHODS), REPAIR_SCORES, FitOptions(options), 10, 1, seed, ())
        compare = CompareCalibrators(read.resolve(), contest, HELD_OUT)
    return ExamineFile(measure, groups, compare, calibration)
