"""What is read and how: inputs, columns, groups of rows, many files, large files."""

from typing import Annotated, Any

import typer

from bpmcli.cli.options.checks import one_of, whole
from bpmcli.cli.options.command import under
from bpmcli.errors import UsageError
from bpmcli.record import Record

_INPUTS = typer.Argument(help="Files, globs, directories, or - for standard input.", metavar="INPUT...")
Inputs = Annotated[list[str], _INPUTS]
OptionalInputs = Annotated[list[str] | None, _INPUTS]

INPUT = "Input"
CLASSWISE = typer.Option("--classwise", help="A calibrator for each predicted class.")
MOST_JOBS = 1024


@under(INPUT)
class Reading(Record):
    """Which columns or arrays hold what."""

    logits: Annotated[str | None, typer.Option(metavar="KEY", help="Column or array of logits.")] = None
    probs: Annotated[str | None, typer.Option(metavar="KEY", help="Column or array of probabilities.")] = None
    confidence: Annotated[str | None, typer.Option(metavar="KEY", help="Column of confidences.")] = None
    log_odds: Annotated[str | None, typer.Option(metavar="KEY", help="Column of log-odds.")] = None
    label: Annotated[
        str | None, typer.Option(metavar="KEY", help="Column of true classes, or FILE or FILE::COLUMN.")
    ] = None
    hit: Annotated[str | None, typer.Option(metavar="KEY", help="Column of 0/1: was the prediction correct?")] = None
    prediction: Annotated[str | None, typer.Option(metavar="KEY", help="Column of predicted classes.")] = None
    weight: Annotated[str | None, typer.Option(metavar="KEY", help="Column of row weights.")] = None
    input_format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="csv, jsonl, parquet, …; by default taken from the suffix or the content."),
    ] = None
    lm_score: Annotated[
        str | None,
        typer.Option(metavar="SCORE", help="For lm-eval logs: acc, or acc_norm for likelihoods per character."),
    ] = None
    scale: Annotated[
        str | None, typer.Option(metavar="SCALE", help="'percent' if probabilities and confidences run from 0 to 100.")
    ] = None
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="KEY", help="Column that identifies a row, by which --label FILE is joined."),
    ] = None
    event: Annotated[bool, typer.Option("--event", help="Use P(y = 1) instead of the predicted class.")] = False
    skip_missing: Annotated[bool, typer.Option("--skip-missing", help="Skip rows with missing values.")] = False

    def resolve(self, group: str | None = None, cluster: str | None = None, keep_ids: bool = False) -> Any:
        """The options of the readers; `group` is the column of groups, `cluster` the column of clusters."""
        from bpmcli.cli.config import path_options
        from bpmcli.io.layout import InputOptions

        by_path = tuple((one.pattern, self._named(one.changes(self))) for one in path_options())
        named = self._named(self._asdict())
        return InputOptions(**named, group=group, cluster=cluster, keep_ids=keep_ids, by_path=by_path)

    def _named(self, named: dict[str, Any]) -> dict[str, Any]:
        """Options by the names that readers know."""
        score = named.pop("lm_score", None)
        if score is not None:
            if self.input_format:
                raise UsageError("--lm-score and --input-format exclude each other", "keep one of them")
            named["input_format"] = f"lm-score:{one_of('--lm-score', score, ('acc', 'acc_norm'))}"
        return named


@under(INPUT)
class Correct(Record):
    """What counts as a correct row."""

    top_k: Annotated[
        int,
        typer.Option(
            "--top-k", metavar="K", help="A row is correct if its label is among the K most probable classes."
        ),
    ] = 1
    unknown: Annotated[
        str | None,
        typer.Option(
            "--unknown",
            metavar="LABEL",
            help="Label of rows that belong to no class: they count as wrong and are reported separately.",
        ),
    ] = None
    multi_label: Annotated[
        bool,
        typer.Option(
            "--multi-label",
            help="Rows may have several labels: a probability and a 0/1 for each. Every label counts as an event.",
        ),
    ] = False

    def resolve(self, options: Any) -> Any:
        """The options of the readers with these added."""
        whole("--top-k", self.top_k, 1)
        given = {
            "--top-k": self.top_k > 1, "--event": options.event, "--multi-label": self.multi_label,
            "--unknown": self.unknown is not None,
        }  # fmt: skip
        both = [name for name, is_given in given.items() if is_given]
        if len(both) > 1 and both != ["--top-k", "--unknown"]:
            raise UsageError(f"{both[0]} and {both[1]} exclude each other", "keep one of them")
        return options._replace(**self._asdict())


@under(INPUT)
class InputCheck(Record):
    """Looking at an input before using it."""

    explain_input: Annotated[
        bool, typer.Option("--explain-input", help="Show which column is used for what, then stop.")
    ] = False


@under("Groups")
class Groups(Record):
    """How rows are divided into groups."""

    by: Annotated[str | None, typer.Option("--by", metavar="COLUMN", help="One result per value of this column.")] = (
        None
    )
    classwise: Annotated[bool, CLASSWISE] = False
    marginal: Annotated[bool, typer.Option("--marginal", help="A calibrator for each class against the rest.")] = False
    min_group: Annotated[
        int | None,
        typer.Option("--min-group", metavar="N", show_default="200", help="Smaller groups use the pooled calibrator."),
    ] = None

    def each_label(self, event: bool, multi_label: bool) -> bool:
        """Whether every label has a calibrator of its own: with --multi-label, unless --by defines the groups.

        Neither --event nor --multi-label leaves a predicted class, by which the other two options divide the rows.
        """
        given = "--classwise" if self.classwise else "--marginal" if self.marginal else None
        if given and multi_label:
            hint = f"leave {given} out: --multi-label alone fits a calibrator to each label"
            raise UsageError(f"--multi-label and {given} exclude each other", hint)
        if given and event:
            raise UsageError(f"--event and {given} exclude each other", "keep one of them")
        return multi_label and not self.by

    def resolve(self, each_label: bool = False) -> Any:
        """What defines the groups; None if there are none. `each_label`: the labels do, unless an option is given."""
        if bool(self.by) + self.classwise + self.marginal > 1:
            raise UsageError("--by, --classwise and --marginal exclude each other", "keep one of them")
        if not (self.by or self.classwise or self.marginal or each_label):
            if self.min_group is not None:
                raise UsageError("--min-group needs --by, --classwise, --marginal or --multi-label", "leave it out")
            return None
        from bpmcli.core.calibrators.grouped import COLUMN, LABEL, MARGINAL, MIN_GROUP, PREDICTED, Grouping

        least = MIN_GROUP if self.min_group is None else whole("--min-group", self.min_group, 1)
        kind = COLUMN if self.by else PREDICTED if self.classwise else MARGINAL if self.marginal else LABEL
        return Grouping(kind, self.by, least)


@under("Many or large inputs")
class Work(Record):
    """How many files and rows are processed, and where."""

    pool: Annotated[bool, typer.Option("--pool", help="Treat all inputs as one sample.")] = False
    jobs: Annotated[
        int,
        typer.Option("-j", "--jobs", metavar="N", help="Process this many files in parallel; 0 means one per core."),
    ] = 1
    exact: Annotated[bool, typer.Option("--exact", help="Keep every row in memory, however many there are.")] = False
    summary: Annotated[
        bool, typer.Option("--summary", help="Reduce rows to a summary (automatic beyond 5 million rows).")
    ] = False
    engine: Annotated[str, typer.Option(metavar="ENGINE", help="Where to run: local (processes) or dask.")] = "local"
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Dask scheduler address; omit to start a local cluster."),
    ] = None

    def resolve(self) -> Any:
        """The settings of the engines."""
        from bpmcli.engines.local import Scale

        whole("-j", self.jobs, 0, MOST_JOBS, "0 means one per core")
        if self.exact and self.summary:
            raise UsageError("--exact and --summary exclude each other", "keep one of them")
        one_of("--engine", self.engine, ("local", "dask"))
        if self.scheduler and self.engine != "dask":
            raise UsageError("--scheduler needs --engine dask", f"--engine dask --scheduler {self.scheduler}")
        mode = "exact" if self.exact else "summary" if self.summary else "auto"
        return Scale(self.jobs, mode, self.engine, self.scheduler)
