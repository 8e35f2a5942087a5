"""bpmcli report: one self-contained HTML page about the calibration of one or more models."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bpmcli.cli.options import BatchArgs, CurveArgs, InputArgs, Inputs, QuietArgs, Seed, command
from bpmcli.errors import BpmError, UsageError

app = typer.Typer(rich_markup_mode=None, add_completion=False)

LEVEL = 0.95
REPAIR_SCORES = ("nll", "brier", "ece-debiased", "kept")


@app.command()
@command
def report(
    inputs: Inputs,
    out: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="The page, an .html file.")],
    calibration: Annotated[str | None, typer.Option("--calibration", metavar="FILE", help="Also show what each calibrator, fitted here, would make of the inputs.")] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="COLUMN", help="Also a result for each value of this column.")] = None,
    resamples: Annotated[int, typer.Option("--resamples", help="Resamples behind the intervals.")] = 1000,
    seed: Seed = 0,
    *,
    read: InputArgs,
    curve: CurveArgs,
    batch: BatchArgs,
    said: QuietArgs,
) -> int:  # fmt: skip
    """Write one HTML page: a ranking of the models, and for each its verdict, diagram and metrics with intervals.

    \b
      bpmcli report test.npz -o report.html
      bpmcli report runs/*.npz -o report.html --calibration val.npz -j 0
      bpmcli report preds.parquet -o report.html --by country
    """
    from bpmcli.cli import console
    from bpmcli.engines.local import work
    from bpmcli.io.outputs import spare_inputs
    from bpmcli.io.paths import expand
    from bpmcli.io.writers import write_text
    from bpmcli.report.page import check_report, render_report

    said.resolve()
    check_report(out)
    items = expand(inputs)
    if calibration in [item.path for item in items]:
        raise UsageError(
            f"{calibration} is both an input and --calibration",
            "a repair is judged on other rows than it was fitted to",
        )
    spare_inputs(items, out)
    task = _task(read, curve, calibration, by, resamples, seed)
    results = console.progress(work(task, items, batch.jobs), len(items), "examining")
    models: list[Any] = []
    failures: list[tuple[str, str]] = []
    for item, result in zip(items, results, strict=True):
        if isinstance(result, BpmError):
            console.show_error(result)
            failures.append((item.path, result.message))
        else:
            models.append(result)
    if not models:
        return 3
    write_text(out, render_report(models, failures, calibration))
    console.note(f"{out}: {len(models)} models" + (f", {len(failures)} inputs could not be read" if failures else ""))
    return 3 if failures else 0


def _task(read: InputArgs, curve: CurveArgs, calibration: str | None, by: str | None, resamples: int, seed: int) -> Any:
    from bpmcli.core.calibrators import METHODS, FitOptions
    from bpmcli.core.compare.cross_validation import HELD_OUT, Contest
    from bpmcli.core.metrics import METRICS
    from bpmcli.tasks.compare import ComparePair
    from bpmcli.tasks.measure import Extras, MeasureFile
    from bpmcli.tasks.report import ExamineFile

    options = curve.resolve()
    extras = Extras(interval=LEVEL, resamples=resamples, seed=seed)
    measure = MeasureFile(read.resolve(), tuple(METRICS), options, extras)
    groups = MeasureFile(read.resolve(by), ("tce",), options, extras) if by else None
    compare = None
    if calibration:
        contest = Contest(tuple(METHODS), REPAIR_SCORES, FitOptions(options), 10, 1, seed, ())
        compare = ComparePair(read.resolve(), contest, HELD_OUT)
    return ExamineFile(measure, groups, compare, calibration)
