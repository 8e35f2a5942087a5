"""The closed list of notices: what was found and what to do about it. Never fatal, never silent."""

from __future__ import annotations

from typing import NamedTuple

TEXTS: dict[str, tuple[str, str]] = {
    "rows-normalised": (
        "{count} {rows_} of probabilities {are} off a sum of 1 by more than 0.001; all rows were divided by their sum",
        "store float32 probabilities, or better logits",
    ),
    "argmax-ties": (
        "{count} {rows_} {have} several largest classes; the first one was taken as the prediction",
        "",
    ),
    "above-one": (
        "{count} {values} above 1 by rounding {were} taken as 1",
        "",
    ),
    "saturated": (
        "{count} {confidences} {are} 0 or 1 as far as float64 can tell; log-odds were clipped",
        "give logits or all class probabilities, which still tell them apart",
    ),
    "missing-skipped": (
        "{count} {rows_} without a score, label or group {were} skipped",
        "",
    ),
    "arrays-left-out": (
        "{count} {arrays} without a value per row {were} left out of the table: {names}",
        "write npz, which keeps them: -o out.npz",
    ),
    "samples-skipped": (
        "{count} of {total} samples {have} no confidence and {were} left out ({why})",
        "",
    ),
    "samples-repeated": (
        "{rows} rows are repetitions of {samples} samples, so they are not independent: intervals are too narrow",
        "measure one epoch at a time, or read the intervals as lower limits of the uncertainty",
    ),
    "log-remark": (
        "{count} {rows_}: {what}",
        "",
    ),
    "labels-misaligned": (
        "accuracy is {accuracy}, hardly better than chance among {classes} classes, while most confidences exceed 0.8",
        "check that labels and scores belong to the same rows",
    ),
    "one-outcome": (
        "all rows are {what}: the curve can only be flat, and where it bends is unknown",
        "fit on rows that hold both hits and misses",
    ),
    "density-empirical": (
        "the confidences fit no Beta distribution (variance {variance}); TCE uses them as they are",
        "--density empirical says so from the start",
    ),
    "sweep-capped": (
        "bin accuracies are still monotone with {count} bins; the sweep stopped there",
        "",
    ),
    "nelder-mead-replaced": (
        "Nelder-Mead ended outside alpha, beta >= 0 or short of the optimum; projected Newton took over",
        "leave --optimizer at its default",
    ),
    "argmax-kept": (
        "{count} {rows_}: the calibrated probability of the predicted class would fall below another class; it was "
        "raised to a tie, so that the predicted class stays",
        "--allow-argmax-change writes the calibrated value as it is",
    ),
    "argmax-changed": (
        "{count} {rows_}: the calibrated confidence fell below another class, so the predicted class changed",
        "",
    ),
    "rates-moved": (
        "{count} of {total} {what} ({rows} rows) hold only hits or only misses: rates of 0 and 1 were moved inside by "
        "1/(rows + 2)",
        "",
    ),
    "constant-confidence": (
        "all confidences are equal: nothing can be told about any other",
        "fit on rows of different confidence",
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
    "label-impossible": (
        "{count} {rows_} {have} a probability of 0 for the true class; the fit took it as 1e-12",
        "give logits",
    ),
    "spline-clipped": (
        "{count} {rows_}: the spline left [0, 1] or came within {floor} of its ends, and was clipped there",
        "",
    ),
    "rows-shared": (
        "{count} of {total} evaluation rows are also calibration rows: the comparison is in-sample to that extent",
        "take them out of one of the two files",
    ),
    "groups-pooled": (
        "{count} of {total} groups ({rows} rows) {have} fewer than {minimum} rows or no fit of {their} own, and {use} "
        "the pooled curve: {names}",
        "--min-group changes the smallest size",
    ),
    "groups-unseen": (
        "{count} {rows_} {are} of {what}: {names}; the pooled one was used",
        "",
    ),
    "summarised": (
        "{rows} rows were reduced to {cells} cells: counts and means are exact, ece-sweep is approximate, the other "
        "metrics are within 1e-5, tce-bpm with the same bins: beyond 60,000 rows its schemes stop at 3000 bins, which "
        "moves it by up to 1e-4",
        "--exact, on the rows themselves, keeps them all (about 100 bytes a row)",
    ),
    "distinct-kept": (
        "{rows} rows were reduced to their {cells} distinct confidences: nothing was lost, but beyond 60,000 rows "
        "the curve's schemes stop at 3000 bins, which moves tce-bpm by up to 1e-4",
        "",
    ),
}


MANY = {
    "rows_": "rows",
    "values": "values",
    "arrays": "arrays",
    "confidences": "confidences",
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
    "confidences": "confidence",
    "are": "is",
    "have": "has",
    "were": "was",
    "their": "its",
    "use": "uses",
}
"""Words that go with a count."""


class Notice(NamedTuple):
    """One notice with its figures."""

    code: str
    values: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        values = dict(self.values)
        return TEXTS[self.code][0].format(**values, **(ONE if values.get("count") == 1 else MANY))

    @property
    def hint(self) -> str:
        return TEXTS[self.code][1]


def notice(code: str, **values: object) -> Notice:
    """A notice from the list; unknown codes are a bug."""
    found = Notice(code, tuple(values.items()))
    str(found)
    return found
