"""The closed list of notices: what was found, and what to do about it. A notice never stops a command."""

from __future__ import annotations

from bpmcli.record import Record

TEXTS: dict[str, tuple[str, str]] = {
    "rows-normalised": (
        "the probabilities of {count} {rows_} do not sum to 1 (off by more than 0.001); all rows were "
        "divided by their sum",
        "store probabilities as float32, or better, store logits",
    ),
    "argmax-ties": (
        "{count} {rows_} {have} more than one class with the largest score; the first was taken as the prediction",
        "",
    ),
    "above-one": (
        "{count} {values} slightly above 1 (rounding) {were} taken as 1",
        "",
    ),
    "saturated": (
        "{count} {values} {are} exactly 0 or 1 in float64; {their} log-odds were clipped",
        "give logits, which still differ (or the probabilities of all classes, if these are bare confidences)",
    ),
    "classes-unchecked": (
        "the calibration of single classes was not checked, because there are {count} scores",
        "--classwise checks every class",
    ),
    "classes-without-intervals": (
        "single classes have no intervals, because there are {count} classes",
        "--interval 0.95 computes them, in a few seconds for every 100 classes",
    ),
    "missing-skipped": (
        "{count} {rows_} without a score, label or group {were} skipped",
        "",
    ),
    "in-sample": (
        "the calibrator was fitted to these very rows, so they look better calibrated than new rows will",
        "judge it on rows it was not fitted to; `bpmcli fit` says how it does in cross-validation",
    ),
    "other-classes": (
        "the calibrator was fitted to scores of {fitted} classes, but this input has {found}",
        "were the parameters fitted to another model? fit new ones to rows of this model",
    ),
    "got-worse": (
        "the calibration error of these rows is larger after calibration than before",
        "were the parameters fitted to another model? fit new ones to rows of this model",
    ),
    "error-left": (
        "these rows are still miscalibrated after calibration",
        "bpmcli compare calibrators --calibration FILE --evaluation FILE shows whether another method does better; "
        "if none does, fit on rows that are more like these",
    ),
    "no-header": (
        "the file has no header; its columns are called {first} to {last}",
        "",
    ),
    "event-class": (
        "y = 1 means {name}, the second of the two classes, and y = 0 means {other}",
        "",
    ),
    "first-label": (
        "the first line of {path} ({label}) was taken as a label, not a header, because the scores have one row more",
        "",
    ),
    "arrays-left-out": (
        "{count} {arrays} without one value per row {were} left out of the table: {names}",
        "write npz, which keeps them: -o out.npz",
    ),
    "samples-skipped": (
        "{count} of {total} samples {have} no confidence and {were} left out ({why})",
        "",
    ),
    "samples-repeated": (
        "{rows} rows are repetitions of {samples} samples, so intervals resample samples instead of rows",
        "",
    ),
    "no-repair": (
        "what a calibrator would gain is not known: {why}",
        "",
    ),
    "few-clusters": (
        "{clusters} clusters are few: their intervals tend to be too narrow",
        "",
    ),
    "groups-without-weight": (
        "{names}: left out, because all weights there are 0",
        "",
    ),
    "log-remark": (
        "{count} {rows_}: {what}",
        "",
    ),
    "labels-worse-than-chance": (
        "accuracy is {accuracy}, worse than chance among {classes} classes",
        "check that the labels are numbered like the classes, from 0, and belong to the same rows",
    ),
    "labels-misaligned": (
        "accuracy is {accuracy}, hardly better than chance among {classes} classes, while most confidences exceed 0.8",
        "check that labels and scores belong to the same rows",
    ),
    "one-outcome": (
        "all rows {what}; only a flat curve can be fitted",
        "fit on rows with both outcomes",
    ),
    "density-empirical": (
        "no Beta distribution has the mean and variance of these scores (the variance {variance}); "
        "tce-bpm uses the "
        "empirical distribution",
        "choose it yourself with --density empirical",
    ),
    "sweep-capped": (
        "bin accuracies are still monotone with {count} bins; ece-sweep stopped there",
        "",
    ),
    "nelder-mead-replaced": (
        "Nelder-Mead ended outside alpha, beta >= 0 or before the optimum; a projected Newton method was used instead",
        "leave --optimizer at its default",
    ),
    "argmax-changed": (
        "{count} {rows_}: the calibrated confidence fell below the probability of another class, so the predicted "
        "class changed",
        "",
    ),
    "rates-moved": (
        "{count} of {total} {what} ({rows} rows) have only one outcome: observed rates of 0 and 1 were shrunk by "
        "1/(rows + 2)",
        "",
    ),
    "constant-confidence": (
        "all rows have the same score, so the curve is known there only",
        "fit on rows with different scores",
    ),
    "temperature-saturated": (
        "{count} {rows_} {have} probabilities of exactly 0, whose logits are lost: the temperature is biased, and "
        "{floor} of every distribution is spread evenly, so that no class stays impossible",
        "give logits",
    ),
    "temperature-all-correct": (
        "every label has the largest logit, so the likelihood grows as the temperature falls to 0; "
        "the prior log T ~ N(0, 1) was added to keep it finite",
        "fit on rows that include wrong predictions",
    ),
    "temperature-uninformative": (
        "labels have no larger logits than other classes on average, so the likelihood grows with the temperature; "
        "the prior log T ~ N(0, 1) was added to keep it finite",
        "check that scores and labels belong to the same rows",
    ),
    "beta-separated": (
        "the confidence separates correct from wrong rows (almost) perfectly, so the likelihood of beta calibration "
        "has no maximum; a weak prior around the identity was added",
        "fit on more rows",
    ),
    "method-chosen": (
        "--method auto chose {method}: its log loss {what} is {loss} in {folds}-fold cross-validation of {n} rows, "
        "against {raw} uncalibrated{beside}",
        "",
    ),
    "nothing-to-repair": (
        "--method auto chose {method}, but there may be nothing to repair: its log loss {what} is {loss} in "
        "{folds}-fold cross-validation of {n} rows, not clearly below {raw} uncalibrated ({difference})",
        "",
    ),
    "identity-chosen": (
        "--method auto chose identity, because there is nothing to repair: the log loss {what} is {raw} uncalibrated "
        "and {loss} with {method}, the best calibrator, in {folds}-fold cross-validation of {n} rows",
        "",
    ),
    "zero-for-true": (
        "{count} {rows_} {have} a probability of exactly 0 for the true class; in nll-all each costs 744.4 instead of "
        "infinity",
        "give logits, or rank by brier-all, in which a probability of 0 costs no more than 2",
    ),
    "label-impossible": (
        "{count} {rows_} {have} a probability of 0 for the true class; the fit took it as 1e-12",
        "give logits",
    ),
    "spline-clipped": (
        "{count} {rows_}: the spline left [0, 1] or came within {floor} of its ends, and was clipped there",
        "",
    ),
    "rows-shared": (
        "{count} of {total} evaluation rows are also calibration rows: for these rows the comparison is in-sample",
        "remove them from one of the two files",
    ),
    "groups-pooled": (
        "{count} of {total} groups ({rows} rows) {have} fewer than {minimum} rows or could not be fitted, "
        "and {use} the "
        "pooled calibrator: {names}",
        "--min-group sets the smallest size",
    ),
    "groups-unseen": (
        "{count} {rows_} {are} in {what} ({names}); used the pooled calibrator",
        "",
    ),
    "summarised": (
        "{rows} rows were reduced to {cells} cells: counts and means are exact, ece-sweep is approximate, "
        "and the other metrics are within 1e-5 of their exact values{capped}",
        "--exact keeps all rows in memory (about 100 bytes each)",
    ),
    "distinct-kept": (
        "{rows} rows were reduced to their {cells} distinct values, without loss{capped}",
        "",
    ),
}

CAPPED_FROM = 60_000
CAPPED = "; with more than 60,000 rows tce-bpm uses at most 3000 bins, which moves it by up to 1e-4"
"""What a summary of so many rows adds to its notice."""

MANY = {
    "rows_": "rows",
    "values": "values",
    "arrays": "arrays",
    "are": "are",
    "have": "have",
    "were": "were",
    "their": "their",
    "use": "use",
}
ONE = {
    "rows_": "row",
    "values": "value",
    "arrays": "array",
    "are": "is",
    "have": "has",
    "were": "was",
    "their": "its",
    "use": "uses",
}
"""Words that go with a count."""


class Notice(Record):
    """One notice with its figures."""

    code: str
    values: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        values = dict(self.values)
        rows = values.get("rows")
        capped = CAPPED if isinstance(rows, int) and rows > CAPPED_FROM else ""
        words = ONE if values.get("count") == 1 else MANY
        shown = {name: f"{value:,}" if isinstance(value, int) else value for name, value in values.items()}
        return TEXTS[self.code][0].format(**shown, capped=capped, **words)

    @property
    def hint(self) -> str:
        return TEXTS[self.code][1]


def notice(code: str, **values: object) -> Notice:
    """A notice from the list; unknown codes are a bug."""
    found = Notice(code, tuple(values.items()))
    str(found)
    return found
