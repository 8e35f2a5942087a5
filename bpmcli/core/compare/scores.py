"""Scores of calibrated confidences: every registered metric, proper scores, and the share of predicted classes kept.

Metrics, `brier` and `nll` concern the class that the model predicted, so calibrators of confidences and of whole
distributions are compared on equal terms. `nll-all` and `brier-all` judge the whole distribution.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators.base import LEAST, Calibrator, DistributionCalibrator
from bpmcli.core.calibrators.distributions import TRACE
from bpmcli.core.calibrators.grouped import GroupCalibrators
from bpmcli.core.calibrators.spread import IN_PROPORTION, Spread
from bpmcli.core.curves.families import Pair
from bpmcli.core.data.log_odds import reduce_logits
from bpmcli.core.data.names import known_name
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Sample, sample_from_log_odds, sigmoid
from bpmcli.core.metrics import MetricOptions, calibration_errors, measure
from bpmcli.core.metrics.whole import whole_losses
from bpmcli.errors import DataError

Scores = dict[str, float | None]
"""Scores by name; None where a score cannot be computed."""

PROPER = ("nll", "brier")
"""The proper scores of the confidence."""
ALL_CLASSES = ("nll-all", "brier-all")
"""The metrics of these names (`core.metrics.whole`). Only where the scores of all classes are known."""

KEPT = "kept"
"""Share of the rows whose predicted class still has the largest probability."""


ERRORS = ("tce", "ece")
"""The calibration errors that are shown by default: the best estimate, and the best known. All eight would take longer
and fill three tables on a terminal, and the log loss decides anyway."""


def score_names(metrics: Iterable[str] | None = None) -> list[str]:
    """The proper scores, which decide, then the chosen metrics (`ERRORS` by default) and the classes kept."""
    return list(dict.fromkeys([*ALL_CLASSES, *PROPER, *(ERRORS if metrics is None else metrics), KEPT]))


def check_score_name(name: str) -> str:
    """The name, or a usage error that lists the known names. Every estimate of the calibration error is a score."""
    known = score_names(calibration_errors())
    return known_name(name, known, "score")


def ranking_caveat(name: str) -> str | None:
    """What to keep in mind when calibrators are ranked by this score; None for the proper scores."""
    if name in PROPER or name in ALL_CLASSES or name == KEPT:
        return None
    return (
        f"{name} is not a proper score: part of it is sampling noise, which favours calibrators with few distinct "
        "values (isotonic, histogram) even on calibrated rows; --rank-by nll is fair"
    )


def loss(name: str, values: Floats) -> Floats:
    """Transformed scores: less is better and 0 is perfect. Debiased errors below 0 count as 0."""
    return 1.0 - values if name == KEPT else np.maximum(values, 0.0)


class Judge(NamedTuple):
    """Rows to score on."""

    rows: Rows

    def confidences(
        self, calibrator: Calibrator, spread: Spread | None = None, groups: GroupCalibrators | None = None
    ) -> CalibratedConfidences:
        """The calibrated probability of the class that the model predicted, row by row.

        A calibrator that puts another class on top is still scored on the model's class, so all calibrators answer
        the same question; `kept` is the share of rows in which that class stays on top.
        """
        rows = self.rows
        if rows.target == EVENT or not isinstance(calibrator, DistributionCalibrator):
            spread = spread or IN_PROPORTION
            g, miss = self._mapped(calibrator, groups, max(spread.floor, LEAST))
            if rows.logits is None or rows.predictions is None or rows.target == EVENT:
                return CalibratedConfidences(rows, g, miss, None)
            probs = spread.distributions(g, miss, rows.logits, rows.predictions)
            kept = g * (1 + TRACE) >= probs.max(axis=1)
            fallen = np.flatnonzero(~kept)
            if fallen.size:  # scored as `apply` writes them: with the predicted class on top
                probs[fallen] = spread.keeping_class(
                    g[fallen], miss[fallen], rows.logits[fallen], rows.predictions[fallen]
                )
            with np.errstate(divide="ignore"):
                log_probs = np.log(probs)
            return CalibratedConfidences(rows, g, miss, kept, *_whole_losses(log_probs, rows))
        assert rows.logits is not None
        assert rows.predictions is not None
        log_probs = np.maximum(calibrator.distributions(rows.logits), np.log(LEAST))
        reduced = reduce_logits(log_probs)
        x, changed = reduced.log_odds, np.flatnonzero(reduced.predictions != rows.predictions)
        kept = np.ones(rows.n, dtype=bool)
        if changed.size:
            own, others = _apart(log_probs[changed], rows.predictions[changed])
            kept[changed] = own + TRACE >= others.max(axis=1)
            with np.errstate(divide="ignore"):
                x[changed] = np.clip(own - np.log(np.exp(others).sum(axis=1)), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
        return CalibratedConfidences(rows, sigmoid(x), sigmoid(-x), kept, *_whole_losses(log_probs, rows))

    def _mapped(self, calibrator: Calibrator, groups: GroupCalibrators | None, least: float) -> Pair:
        """(g, 1 − g) of every row by the calibrator of its group, or by the pooled calibrator."""
        x = self.rows.log_odds
        if groups is None:
            return calibrator.probabilities_within(x, least)
        g, miss = np.empty(x.size), np.empty(x.size)
        for name, at in groups.split(self.rows):
            g[at], miss[at] = groups.members.get(name, calibrator).probabilities_within(x[at], least)
        return g, miss


class CalibratedConfidences(NamedTuple):
    """Calibrated confidences of rows, with their complements."""

    rows: Rows
    g: Floats
    miss: Floats
    kept: np.ndarray | None
    nll_all: Floats | None = None
    brier_all: Floats | None = None
    """Losses of the whole distribution, row by row."""

    def take(self, index: np.ndarray) -> CalibratedConfidences:
        """The chosen rows."""
        kept = None if self.kept is None else self.kept[index]
        clusters = None if self.rows.clusters is None else self.rows.clusters.take(index)
        bare = Rows(
            self.rows.log_odds[index], self.rows.hits[index], _pick(self.rows.weights, index), clusters=clusters
        )
        whole = _pick(self.nll_all, index), _pick(self.brier_all, index)
        return CalibratedConfidences(bare, self.g[index], self.miss[index], kept, *whole)

    def scores(self, names: Iterable[str], options: MetricOptions) -> Scores:
        """The named scores. All except `nll-all` and `brier-all` concern the class that the model predicted."""
        rows, wanted = self.rows, list(names)
        own: Scores = {
            "nll-all": None if self.nll_all is None else _mean(self.nll_all, rows.weights),
            "brier-all": None if self.brier_all is None else _mean(self.brier_all, rows.weights),
            KEPT: None if self.kept is None else _mean(self.kept.astype(np.float64), rows.weights),
        }
        with np.errstate(divide="ignore"):
            x = np.clip(np.log(self.g) - np.log(self.miss), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
        metrics = [name for name in wanted if name not in own]
        measured = measure(_sample(x, rows), metrics, options) if metrics else {}
        return {name: own[name] if name in own else measured[name].value for name in wanted}


def _sample(x: Floats, rows: Rows) -> Sample:
    """The rows with these log-odds. In clusters, they count as their effective number of rows, as in `metrics`."""
    if rows.clusters is None or rows.clusters.used().size == rows.n:
        return sample_from_log_odds(x, rows.hits, rows.weights)
    from bpmcli.core.metrics.clusters import clustered

    return clustered(rows._replace(log_odds=x))[0]


def _whole_losses(log_probs: Floats, rows: Rows) -> tuple[Floats, Floats] | tuple[None, None]:
    """Log loss and Brier score of every row's distribution."""
    return (None, None) if rows.labels is None else whole_losses(log_probs, rows.labels)


def _apart(log_probs: Floats, classes: np.ndarray) -> tuple[Floats, Floats]:
    """The log-probability of one class in each row, and the row without it (-inf in its place)."""
    at = np.arange(len(log_probs)), classes
    own, others = log_probs[at], log_probs.copy()
    others[at] = -np.inf
    return own, others


def _mean(values: Floats, weights: Floats | None) -> float:
    largest = 1.0 if weights is None else float(weights.max())
    if largest <= 0.0:
        raise DataError("all weights of the rows held out are zero")
    return float(np.average(values, weights=None if weights is None else weights / largest))


def _pick(values: Floats | None, index: np.ndarray) -> Floats | None:
    return None if values is None else values[index]
