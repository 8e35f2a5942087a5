"""Calibrates one file batch by batch, keeps its other columns and the order of its rows, and writes atomically."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.sample import sigmoid
from bpmcli.errors import BpmError, DataError
from bpmcli.io.carried import CarriedOutcomes
from bpmcli.io.formats.reader import Reader
from bpmcli.io.layout import InputOptions, Layout, understand
from bpmcli.io.opening import open_reader
from bpmcli.io.outputs import Job
from bpmcli.io.params import Params
from bpmcli.io.readers import SUMMARY_KEY, stream_rows
from bpmcli.io.score_columns import (
    check_recognised,
    keyed_column,
    options_for_apply,
    same_part,
    with_new_scores,
    writes_log_odds,
)
from bpmcli.io.writers import open_writer

if TYPE_CHECKING:
    from bpmcli.core.compare.before_after import Judged

SHOWN = 5
"""How many names a notice lists."""

JUDGED_ROWS = 250_000
"""For files with more rows than this (or pairs of a row and a label), `apply` does not say what it changed: the two
verdicts would take longer than everything else."""


@dataclass(frozen=True)
class Applied:
    """What was written."""

    output: str
    rows: int
    mean_before: float
    mean_after: float
    notices: tuple[Notice, ...]
    judged: Judged | None = None
    """What the calibration changed, in words, if the input has labels."""


@dataclass(frozen=True)
class ApplyFile:
    """Calibrates a file into another one."""

    params: Params
    options: InputOptions
    allow_argmax_change: bool = False
    as_probs: bool = False
    """Whether to write probabilities instead of logits."""
    judge: bool = False
    """Whether to say what the calibration changed, if there are labels."""

    def __call__(self, job: Job) -> Applied:
        try:
            done = self._run(job.path, job.output, job.suffix)
        except BpmError as error:
            raise error.at("standard input" if job.path == "-" else job.path) from None
        if job.folder is not None:
            from bpmcli.io.output_record import record_output

            record_output(job.folder, job.output, job.origin)
        return done

    def _run(self, path: str, output: str, suffix: str) -> Applied:
        source, options, layout = self._understood(path, suffix)
        params, counts, classes = self.params, Counter[str](), self.params.classes
        counts["in-sample"] = int(params.fitted_to(path) and same_part(source, layout, options, params))
        outcomes = CarriedOutcomes(source, options, JUDGED_ROWS if self.judge else 0)
        recalibrate = params.recalibration(self.allow_argmax_change, exact=writes_log_odds(layout, self.as_probs))
        whole = params.calibrator.needs_distribution or bool(params.groups) or layout.kind in ("logits", "probs")
        read = stream_rows(outcomes.reader, layout, options, counts, distributions=whole, rest=True, outcomes=False)
        n, scores, before, after = 0, 0, 0.0, 0.0
        with open_writer(output, source.written_as, origin=source) as out:
            out.keyed = keyed_column(layout, self.as_probs)
            for batch, rows in read:
                done = recalibrate(rows, layout.binary)
                before += float(sigmoid(rows.log_odds).sum())
                columns = {**batch.columns, **batch.passed}
                out.write(with_new_scores(columns, source.columns, layout, done, self.as_probs))
                if not n:
                    check_recognised(source, layout, list(out.names))
                outcomes.add(batch, rows, done.confidence)
                n, scores = n + batch.n, scores + rows.log_odds.size
                after += float(done.confidence.sum())
                counts["below"] += done.below
                counts.update({f"unseen:{name}": count for name, count in done.unseen.items()})
            if not n:
                raise DataError("no rows", "is the file complete?")
            left_out = [] if out.carry(source, others := source.file_arrays(layout.scores[0])) else others
        judged = None
        if (known := outcomes.all()) is not None:
            from bpmcli.core.compare.before_after import judge_calibrated

            judged = judge_calibrated(*known)
        notices = tuple(_notices(counts, judged, left_out, self.allow_argmax_change, classes))
        return Applied(output, n, before / scores, after / scores, notices, judged)

    def _understood(self, path: str, suffix: str) -> tuple[Reader, InputOptions, Layout]:
        """The reader of the input, the options that it is read with, and what its columns are."""
        source = open_reader(path, self.options.at(path).input_format)
        if SUMMARY_KEY in source.metadata:
            raise DataError("is a summary: it has no rows to calibrate", "give the files that were summarised")
        # From csv to csv, text is copied as it is; for any other format, columns get types.
        source.written_as = suffix or source.suffixes[0]
        options = options_for_apply(source, self.options.at(path), self.params)
        return source, options, understand(source, options, outcomes=False)


def _notices(
    counts: Counter[str],
    judged: Judged | None,
    left_out: Sequence[str],
    allow_argmax_change: bool,
    fitted_classes: int | None,
) -> Iterator[Notice]:
    if counts["missing-skipped"]:
        yield notice("missing-skipped", count=counts["missing-skipped"])
    if left_out:
        yield notice("arrays-left-out", count=len(left_out), names=_listed(left_out))
    if counts["below"] and allow_argmax_change:
        yield notice("argmax-changed", count=counts["below"])
    unseen = {key.partition(":")[2]: count for key, count in counts.items() if key.startswith("unseen:")}
    if unseen:
        what = f"{len(unseen)} groups with no fitted calibrator"
        if len(unseen) == 1:
            what = "a group with no fitted calibrator"
        yield notice(
            "groups-unseen",
            count=sum(unseen.values()),
            what=what,
            names=_listed([name or "no value" for name in sorted(unseen)]),
        )
    if counts["in-sample"]:
        yield notice("in-sample")
    if judged is not None and judged.worse:
        yield notice("got-worse")
    elif judged is not None and judged.left and not counts["in-sample"]:
        # Rows that were fitted too closely look under-confident; only other rows show whether an error is left.
        yield notice("error-left")
    if fitted_classes and counts["classes"] not in (0, fitted_classes):
        yield notice("other-classes", fitted=fitted_classes, found=counts["classes"])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
