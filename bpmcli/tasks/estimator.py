"""A calibrator of arrays in the manner of scikit-learn, which is not imported: fit, predict_proba, get_params."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from bpmcli.core.calibrators import FitOptions, method_named
from bpmcli.core.compare.choice import AUTO
from bpmcli.core.data.log_odds import log_odds_of_confidences, log_softmax, reduce_logits, reduce_probs
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats
from bpmcli.errors import DataError, UsageError
from bpmcli.io.documents import dumps
from bpmcli.io.layout import InputOptions
from bpmcli.io.params import Params, load_params, params_of
from bpmcli.io.writers import write_text
from bpmcli.tasks.fit import FitFile

MISSING = ("None", "nan", "NaN", "NaT", "<NA>")
"""What Python, numpy and pandas call a missing value."""


class ScoreCalibrator:
    """Calibrates the scores of a classifier: fit it to scores and labels of rows that the classifier has not seen.

    `scores` says what X holds: "probs" or "logits" of all classes (N×K), or of two classes P(y = 1) or its log-odds
    (N). Two classes are calibrated as P(y = 1). With more classes the predicted class stays on top unless
    `allow_argmax_change`. After `fit`, `document_` is what `bpmcli fit` would write, and `verdicts_` says in words what
    the calibrator changes, in cross-validation.

    >>> import numpy as np
    >>> from bpmcli import ScoreCalibrator
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(600, 3))
    >>> y = np.array(["ant", "bee", "cow"])[(z + rng.gumbel(size=z.shape)).argmax(axis=1)]
    >>> calibrator = ScoreCalibrator("temperature", scores="logits").fit(3 * z, y)  # three times too sharp
    >>> round(calibrator.document_["parameters"]["temperature"])
    3
    >>> calibrator.predict_proba(3 * z).shape, calibrator.predict(3 * z)[0] in calibrator.classes_
    ((600, 3), True)
    """

    document_: dict[str, Any]
    classes_: npt.NDArray[Any]
    """The labels in the order of the columns."""

    def __init__(
        self, method: str = AUTO, scores: str = "probs", allow_argmax_change: bool = False, seed: int = 0
    ) -> None:
        self.method, self.scores, self.allow_argmax_change, self.seed = method, scores, allow_argmax_change, seed

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> ScoreCalibrator:
        """Fit the method (by default the one that cross-validation chooses) to scores X and labels y."""
        scores, labels = np.atleast_1d(np.asarray(X, dtype=np.float64)), np.asarray(y)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if labels.shape != scores.shape[:1] or (weights is not None and weights.shape != labels.shape):
            raise DataError(f"{len(scores)} rows of scores need as many labels and weights, found {labels.shape}")
        if weights is not None and weights.size and not weights.any():
            raise DataError("all weights are zero")
        classes = _classes(labels, 2 if scores.ndim == 1 else scores.shape[1])
        rows = self._rows(scores, np.searchsorted(classes, labels), weights)
        method = AUTO if self.method == AUTO else method_named(str(self.method)).name
        task = FitFile(InputOptions(), method, FitOptions(), seed=self.seed)
        self.document_, self.notices_ = task.describe({"inputs": []}, rows, ())
        self._params, self.classes_ = params_of(self.document_), classes
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Calibrated probabilities, one column per class."""
        params = self._fitted()
        event = params.target == EVENT
        rows = self._rows(np.atleast_1d(np.asarray(X, dtype=np.float64)), None, None, event)
        if (rows.target == EVENT) != event:
            raise DataError(f"the calibrator was fitted to {'two classes' if event else 'the scores of all classes'}")
        found = None if rows.logits is None else rows.logits.shape[1]
        if params.classes and found not in (None, params.classes):
            raise DataError(f"the calibrator was fitted to scores of {params.classes} classes, but X has {found}")
        done = params.recalibration(self.allow_argmax_change)(rows, False).probs
        assert done is not None
        return done

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The most probable class of every row."""
        found: npt.NDArray[Any] = self.predict_proba(X).argmax(axis=1)
        return self.classes_.take(found) if hasattr(self, "classes_") else found

    @property
    def verdicts_(self) -> list[str]:
        """The verdict before and, in cross-validation, after calibration."""
        self._fitted()
        return list(self.document_["validation"]["sentences"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the parameters as JSON, for `bpmcli apply` and `ScoreCalibrator.load`."""
        self._fitted()
        write_text(os.fspath(path), dumps(self.document_))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], scores: str = "probs", allow_argmax_change: bool = False
    ) -> ScoreCalibrator:
        """A calibrator from the parameter file of `bpmcli fit` or `save`, which has no names of classes."""
        params = load_params(os.fspath(path))
        if params.groups is not None:
            raise DataError(f"{path}: has a calibrator for each group", "bpmcli apply uses it")
        found = cls(params.method, scores, allow_argmax_change)
        found._params, found.document_ = params, dict(params.document)
        return found

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, as scikit-learn's `clone` needs them."""
        return {name: getattr(self, name) for name in ("method", "scores", "allow_argmax_change", "seed")}

    def set_params(self, **params: Any) -> ScoreCalibrator:
        """Change arguments of the constructor."""
        for name, value in params.items():
            if name not in self.get_params():
                known = ", ".join(self.get_params())
                raise UsageError(f"ScoreCalibrator has no parameter '{name}'; it has {known}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"ScoreCalibrator(method={self.method!r}, scores={self.scores!r})"

    def _fitted(self) -> Params:
        params: Params | None = getattr(self, "_params", None)
        if params is None:
            raise UsageError("this calibrator is not fitted yet", "calibrator.fit(scores, labels)")
        return params

    def _rows(
        self, scores: Floats, codes: npt.NDArray[np.int64] | None, weights: Floats | None, event: bool = True
    ) -> Rows:
        """The scores as rows; `codes` are the columns of the true classes, if these are known.

        `event`: two columns are an event. `bpmcli fit` without --event calibrates their predicted class instead.
        """
        if self.scores not in ("probs", "logits"):
            raise UsageError(f"scores are 'probs' or 'logits', not {self.scores!r}")
        truth = np.zeros(len(scores), dtype=np.int64) if codes is None else codes
        if scores.ndim == 1 or (event and scores.shape[1] == 2):
            return Rows(self._event(scores), truth == 1, weights, target=EVENT)
        reduced = (reduce_logits if self.scores == "logits" else reduce_probs)(scores)
        with np.errstate(divide="ignore"):
            logits = scores if self.scores == "logits" else log_softmax(np.log(scores))
        return Rows(
            reduced.log_odds, reduced.predictions == truth, weights, reduced.predictions, truth,
            logits=logits, from_probs=self.scores == "probs",
        )  # fmt: skip

    def _event(self, scores: Floats) -> Floats:
        """Log-odds of the second of two classes."""
        if scores.ndim == 2:
            top = (reduce_logits if self.scores == "logits" else reduce_probs)(scores)
            return np.where(top.predictions == 1, top.log_odds, -top.log_odds)
        if self.scores == "probs":
            return log_odds_of_confidences(scores, 0, "probabilities")
        if not np.isfinite(scores).all():
            raise DataError(f"log-odds must be finite (row {int(np.flatnonzero(~np.isfinite(scores))[0]) + 1})")
        return np.clip(scores, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)


def _classes(labels: npt.NDArray[Any], columns: int) -> npt.NDArray[Any]:
    """The class of every column: the labels in ascending order, or 0, 1, … if not every class occurs."""
    missing = np.zeros(len(labels), dtype=bool)
    if labels.dtype.kind == "f":
        missing = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        missing = np.array([not isinstance(label, str) and str(label) in MISSING for label in labels], dtype=bool)
    if missing.any():
        raise DataError(f"the label of row {int(np.flatnonzero(missing)[0]) + 1} is missing", "leave such rows out")
    found = np.unique(labels)
    if found.size == columns:
        return found
    numbers = np.arange(columns)
    if found.dtype.kind in "iub" and np.isin(found, numbers).all():
        return numbers
    raise DataError(
        f"there are {found.size} different labels, but scores of {columns} classes",
        "labels are the numbers of the columns from 0, or every class occurs and columns are in ascending order",
    )
