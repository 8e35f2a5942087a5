"""How a file is understood: which of its columns hold what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bpmcli.core.data.rows import EVENT, TOP_LABEL
from bpmcli.errors import DataError, UsageError
from bpmcli.io.column_choice import ColumnChoice, InputOptions, Scores, as_option, listed
from bpmcli.io.formats.reader import ColumnInfo, Reader
from bpmcli.io.known_names import split_of
from bpmcli.record import Record

TARGETS = {EVENT: "P(y = 1) itself", TOP_LABEL: "the predicted class"}

LABELS = "--label: a column, or a file of labels (y.npy)"


class Layout(Record):
    """The columns in use and what they mean."""

    kind: str
    """One of SCORES."""
    scores: tuple[str, ...]
    """One column, or one per class."""
    binary: bool
    """Whether the scores are P(y = 1)."""
    classes: tuple[str, ...] | None
    """Names of the classes, where the columns carry them."""
    label: str | None
    hit: str | None
    prediction: str | None
    weight: str | None
    group: str | None
    target: str

    percent: bool = False
    """Whether the scores are percentages."""
    n_classes: int = 0
    """The number of classes; 0 if it varies or is not known."""
    cluster: str | None = None
    id: str | None = None
    """The column of ids, if rows are paired with the rows of another run."""
    top_k: int = 1
    """A row is correct if its label is among this many of the most probable classes."""
    unknown: str | None = None
    """The label of rows that belong to none of the classes."""
    labels: tuple[str, ...] = ()
    """The labels of a multi-label file: one array of 0 and 1, or one column per label."""
    multi_label: bool = False
    each_label: bool = False
    """With `multi_label`: the labels are the groups of the rows."""
    keyed: bool = False
    """The scores are an object per row, whose keys are `classes`."""

    @property
    def names(self) -> list[str]:
        """Every column to be read."""
        extra = (self.label, self.hit, self.prediction, self.weight, self.group, self.cluster, self.id)
        return list(dict.fromkeys([*self.scores, *self.labels, *(name for name in extra if name)]))

    @property
    def named_scores(self) -> str:
        """The columns of scores as an option such as --logits names them; empty if it cannot."""
        return as_option(self.scores)

    @property
    def numeric(self) -> list[str]:
        """Columns that must be floating-point numbers."""
        return [*self.scores, *([self.weight] if self.weight else [])]

    def explain(self) -> list[tuple[str, str]]:
        """How the file is understood, as pairs of role and column."""
        shown = self.scores[0] if len(self.scores) == 1 else f"{self.scores[0]} … {self.scores[-1]}"
        kind = "P(y = 1)" if self.binary else self.kind.replace("_", "-")
        pairs = [(kind, shown)]
        if len(self.scores) > 1:
            pairs.append(("classes", str(len(self.scores))))
        if self.percent:
            pairs.append(("scale", "percent"))
        if self.labels:
            last = f" … {self.labels[-1]}" if len(self.labels) > 1 else ""
            pairs.append(("labels", self.labels[0] + last))
        if self.unknown is not None:
            pairs.append(("no class", f"label {self.unknown}"))
        for role in ("label", "hit", "prediction", "weight", "group", "cluster"):
            name = getattr(self, role)
            if name:
                pairs.append((role, name))
        if not self.hit:
            what = "prediction = label" if self.prediction else "argmax = label"
            if self.target == EVENT:
                what = "label = 1"
            elif self.top_k > 1:
                what = f"label among the {self.top_k} most probable classes"
            elif self.binary:
                what = "(P(y = 1) > 0.5) = label"
            pairs.append(("correct if", what))
        pairs.append(("calibrates", TARGETS.get(self.target, f"the {self.top_k} most probable classes")))
        return pairs


def understand(reader: Reader, options: InputOptions, outcomes: bool = True) -> Layout:
    """Decides from names and options what the columns are.

    Values are looked at only for columns that are named after the classes, which must be distributions.
    With `outcomes=False` labels are not needed, and the file may lack them.
    """
    columns = reader.columns
    if not columns:
        raise DataError("no columns", "is the file empty?")
    if options.multi_label:
        return _multi_label(reader, options, outcomes)
    chosen = ColumnChoice(columns, options)
    kind, scores, classes = _scores(reader, chosen, outcomes)
    chosen.split = split_of(scores[0])[1]
    keyed = len(scores) == 1 and columns[scores[0]].classes is not None
    classes = columns[scores[0]].classes if keyed else classes
    matrix = len(scores) > 1 or columns[scores[0]].width is not None
    _check_scores(columns, kind, scores, matrix, options)
    binary = (kind == "probs" and not matrix) or (options.event and not matrix)
    if kind == "logits" and not matrix:
        # One logit per row is the log-odds of y = 1.
        kind, binary = "log_odds", True
    _check_group(columns, options.group)
    one = chosen.one if outcomes else lambda role: None
    layout = Layout(
        kind, scores, binary, classes,
        label=one("label"), hit=one("hit"), prediction=one("prediction"),
        weight=options.weight and chosen.existing(options.weight, "--weight"),
        group=options.group and chosen.existing(options.group, "--by"),
        target=EVENT if options.event else TOP_LABEL if options.top_k == 1 else f"top-{options.top_k}",
        percent=is_percent(options, kind),
        n_classes=2 if binary else (len(scores) if len(scores) > 1 else columns[scores[0]].width) or 0,
        cluster=key_column(chosen, options.cluster or (reader.row_key if outcomes else None), "--cluster"),
        id=key_column(chosen, options.id or reader.row_key, "--id") if options.keep_ids else None,
        top_k=options.top_k, unknown=options.unknown, keyed=keyed,
    )  # fmt: skip
    if outcomes:
        layout = _with_class_names(_with_outcome(layout, columns, options, matrix, reader.outcome_hint), reader)
    _check_rows(columns, layout, [] if outcomes else chosen.outcome_columns())
    return layout


def key_column(chosen: ColumnChoice, name: str | None, option: str) -> str | None:
    """The column that names clusters or rows, if there is one."""
    if name is None:
        return None
    if chosen.columns[chosen.existing(name, option)].width is not None:
        raise DataError(f"'{name}' must hold one value per row", f"name another column with {option}")
    return name


def _scores(reader: Reader, chosen: ColumnChoice, outcomes: bool) -> Scores:
    """The scores by common names, then columns named after the classes (probabilities), then by less common names."""
    try:
        return chosen.scores()
    except DataError as error:
        if chosen.named_scores() or chosen.split_scores():
            raise
        from bpmcli.io.class_columns import class_columns, unclear_columns

        found = class_columns(reader, chosen)
        scores = ("probs", *found) if found else chosen.rarer_scores()
        if scores is None:
            refusal = unclear_columns(reader, chosen) or error
            if outcomes and not chosen.knows_outcome() and "--label" not in (refusal.hint or ""):
                refusal.hint = f"{refusal.hint}; name the labels too, with --label, or the hits with --hit"
            raise refusal from None
        return scores


def is_percent(options: InputOptions, kind: str) -> bool:
    if options.scale in (None, "unit"):
        return False
    if options.scale != "percent":
        raise UsageError(f"--scale {options.scale}: unknown scale", "--scale percent, for values from 0 to 100")
    if kind not in ("probs", "confidence"):
        raise UsageError("--scale percent goes with probabilities and confidences", "leave it out for logits")
    return True


def _with_class_names(layout: Layout, reader: Reader) -> Layout:
    """Adds the names of the classes in the order of the scores, if the labels are names and the file lists them."""
    if layout.classes is None and layout.label and layout.n_classes > 1 and reader.columns[layout.label].kind in "US":
        return layout._replace(classes=reader.class_names(layout.label, layout.n_classes))
    return layout


def _check_scores(
    columns: Mapping[str, ColumnInfo], kind: str, scores: Sequence[str], matrix: bool, options: InputOptions
) -> None:
    """Raise DataError if the shape of the scores does not fit their kind and --event."""
    if kind in ("confidence", "log_odds") and matrix:
        raise DataError(
            f"'{scores[0]}' has {columns[scores[0]].width} values a row; a {kind.replace('_', '-')} is one number",
            f"if these are scores of all classes, say --logits {scores[0]} or --probs {scores[0]}",
        )
    n_classes = len(scores) if len(scores) > 1 else columns[scores[0]].width
    if options.event and matrix and n_classes not in (0, 2):
        raise DataError(
            f"--event calibrates P(y = 1), but this file has scores of {n_classes} classes",
            "leave --event out, or name the column of P(y = 1) with --probs",
        )


def _multi_label(reader: Reader, options: InputOptions, outcomes: bool) -> Layout:
    from bpmcli.io.multi_label import understand_multi_label

    layout = understand_multi_label(reader, options, outcomes)
    _check_rows(reader.columns, layout, [])
    return layout


def _check_group(columns: Mapping[str, ColumnInfo], name: str | None) -> None:
    if name and (group := columns.get(name)) and group.width is not None:
        raise DataError(f"'{group.name}' must hold one value per row", "name another column with --by")


def _check_rows(columns: Mapping[str, ColumnInfo], layout: Layout, outcomes: Sequence[str]) -> None:
    """Raise DataError if a column in use does not have as many rows as the scores."""
    first = layout.scores[0]
    n = columns[first].rows
    for name in [*layout.names, *outcomes]:
        rows = columns[name].rows
        if n is None or rows is None or rows == n:
            continue
        longer, shorter = (first, name) if n > rows else (name, first)
        raise DataError(
            f"'{first}' has {n} rows but '{name}' has {rows}: row {min(n, rows) + 1} of '{longer}' has no '{shorter}'",
            "save the same rows in both, or name another array with --label, --hit or --logits",
        )


def _with_outcome(
    layout: Layout, columns: Mapping[str, ColumnInfo], options: InputOptions, matrix: bool, where: str = ""
) -> Layout:
    """Keeps only the columns that tell which rows are correct."""
    found = listed(columns)
    # Scores of all classes and P(y = 1) bring their own prediction.
    own_prediction = matrix or layout.binary
    if layout.target == EVENT:
        outcome = layout.label or layout.hit
        if outcome is None:
            raise DataError(f"no column with labels (found: {found})", f"name it with {LABELS}")
        return layout._replace(label=outcome, hit=None, prediction=None)
    if options.unknown is not None and (layout.label is None or options.hit):
        raise DataError("--unknown needs labels: it names one of them", "leave --unknown out")
    if options.top_k > 1 and not (matrix and layout.label and not options.hit):
        raise DataError("--top-k needs the scores of all classes, and labels", "leave --top-k out")
    if own_prediction and layout.label and not options.hit:
        return layout._replace(hit=None, prediction=None)
    if layout.hit and not (options.prediction or (options.label and layout.prediction)):
        if options.unknown is not None:
            said = f"--unknown needs labels, but '{layout.hit}' says which rows are correct"
            raise DataError(said, "leave --unknown out, or name labels and predictions with --label and --prediction")
        return layout._replace(label=None, prediction=None)
    if layout.label and layout.prediction:
        return layout._replace(hit=None)
    if own_prediction:
        raise DataError(f"no column with labels (found: {found})", f"name it with {LABELS}; or hits with --hit")
    hint = "name the hits with --hit, or --prediction and --label"
    if layout.label:
        hint += f"; if '{layout.scores[0]}' is P(y = 1), say --event --probs {layout.scores[0]}"
    raise DataError(f"no column says which rows are correct (found: {found})", where or hint)


__all__ = ["InputOptions", "Layout", "understand"]
