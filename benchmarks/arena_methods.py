"""The methods that benchmarks/arena.py compares: functions that fit a calibrator and return a function that applies it.

    pip install probmetrics scikit-learn betacal venn-abers netcal

bpmcli needs none of these packages; one that is not installed is skipped with a message.
Every peer is given float64 probabilities whose rows sum to 1, and is used as its authors ship it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.calibrators import METHODS, fit_calibrator
from bpmcli.core.calibrators.distributions import calibrate_distributions
from bpmcli.core.calibrators.spread import IN_PROPORTION, fit_spread
from bpmcli.core.data.log_odds import reduce_probs
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.data.sample import BARE_LIMIT

# numba, which probmetrics needs, looks for the package `coverage` and would find benchmarks/coverage.py.
sys.modules.setdefault("coverage", None)  # type: ignore[arg-type]

Apply = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], Apply]


class Entrant(NamedTuple):
    """A method: the package it comes from (ours if empty), its fit, and for how many classes it is meant."""

    name: str
    package: str
    fit: Fit
    two: bool = True
    several: bool = True

    def meant_for(self, classes: int) -> bool:
        """Whether it takes part in an experiment with so many classes."""
        return self.two if classes == 2 else self.several


def _probmetrics(method: str, **options: Any) -> Fit:
    def fit(probs: np.ndarray, labels: np.ndarray) -> Apply:
        from probmetrics import calibrators

        if method in dir(calibrators):
            model = getattr(calibrators, method)(**options)
        else:
            model = calibrators.get_calibrator(method, **options)
        return model.fit(probs, labels).predict_proba

    return fit


def _one_against_rest(fit_one: Callable[[np.ndarray, np.ndarray], Apply]) -> Fit:
    """Each class against the rest, then divided by the sum (Zadrozny and Elkan 2002)."""

    def fit(probs: np.ndarray, labels: np.ndarray) -> Apply:
        k = probs.shape[1]
        present = np.bincount(labels, minlength=k) > 0
        chosen = range(1, 2) if k == 2 else range(k)
        curves = {i: fit_one(probs[:, i], (labels == i).astype(float)) for i in chosen if present[i]}

        def apply(new: np.ndarray) -> np.ndarray:
            if k == 2:
                p = np.asarray(curves[1](new[:, 1]), dtype=float) if 1 in curves else new[:, 1]
                return np.stack([1.0 - p, p], axis=1)
            out = np.stack([curves[i](new[:, i]) if i in curves else np.zeros(len(new)) for i in range(k)], axis=1)
            total = out.sum(axis=1, keepdims=True)
            return np.where(total > 0, out / np.where(total > 0, total, 1.0), 1.0 / k)

        return apply

    return fit


def _isotonic(p: np.ndarray, hits: np.ndarray) -> Apply:
    from sklearn.isotonic import IsotonicRegression

    return IsotonicRegression(out_of_bounds="clip").fit(p, hits).predict


def _sigmoid(p: np.ndarray, hits: np.ndarray) -> Apply:
    from sklearn.calibration import _SigmoidCalibration

    return _SigmoidCalibration().fit(p, hits).predict


def _beta(p: np.ndarray, hits: np.ndarray) -> Apply:
    from betacal import BetaCalibration

    return BetaCalibration("abm").fit(p, hits).predict


def _histogram(p: np.ndarray, hits: np.ndarray) -> Apply:
    from netcal.binning import HistogramBinning

    model = HistogramBinning(bins=15)
    model.fit(p, hits.astype(int))
    return model.transform


PEERS = [
    Entrant("TS", "probmetrics", _probmetrics("temp-scaling")),
    Entrant("VS", "probmetrics", _probmetrics("VectorScalingCalibrator"), two=False),
    Entrant("MS", "probmetrics", _probmetrics("MatrixScalingCalibrator"), two=False),
    Entrant("SVS", "probmetrics", _probmetrics("svs"), two=False),
    Entrant("SMS", "probmetrics", _probmetrics("sms"), two=False),
    Entrant("ETS", "probmetrics", _probmetrics("ETSCalibrator", loss="ce")),
    Entrant("affine", "probmetrics", _probmetrics("affine-scaling"), several=False),
    Entrant("quadratic", "probmetrics", _probmetrics("quadratic-scaling"), several=False),
    Entrant("venn-abers", "venn-abers", _probmetrics("ivap")),
    Entrant("isotonic", "scikit-learn", _one_against_rest(_isotonic)),
    Entrant("sigmoid", "scikit-learn", _one_against_rest(_sigmoid)),
    Entrant("beta", "betacal", _one_against_rest(_beta)),
    Entrant("histogram", "netcal", _one_against_rest(_histogram)),
]


def rows_of(probs: np.ndarray, labels: np.ndarray) -> Rows:
    """Rows of probabilities, as bpmcli reads them from a file."""
    reduced = reduce_probs(probs)
    with np.errstate(divide="ignore"):
        logits = np.log(probs)
    hits = reduced.predictions == labels
    return Rows(reduced.log_odds, hits, None, reduced.predictions, labels, None, logits, from_probs=True)


def _distribution(method: str, allow_argmax_change: bool) -> Fit:
    """A calibrator of ours on the whole distribution, as `fit` and `apply` use it."""

    def fit(probs: np.ndarray, labels: np.ndarray) -> Apply:
        calibration = rows_of(probs, labels)
        calibrator = fit_calibrator(method, calibration).calibrator
        spread = (fit_spread(calibration) if calibrator.spreads else None) or IN_PROPORTION

        def apply(new: np.ndarray) -> np.ndarray:
            rows = rows_of(new, np.zeros(len(new), dtype=int))
            return calibrate_distributions(
                calibrator, rows.logits, rows.log_odds, rows.predictions, allow_argmax_change, spread
            ).probs

        return apply

    return fit


def _event(method: str) -> Fit:
    """A curve of ours on the probability of class 1, as `fit --event` uses it."""

    def log_odds(probs: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.clip(np.log(probs[:, 1]) - np.log(probs[:, 0]), -BARE_LIMIT, BARE_LIMIT)

    def fit(probs: np.ndarray, labels: np.ndarray) -> Apply:
        curve = fit_calibrator(method, Rows(log_odds(probs), labels == 1, target=EVENT)).calibrator

        def apply(new: np.ndarray) -> np.ndarray:
            g, rest = curve.probabilities_within(log_odds(new))
            return np.stack([rest, g], axis=1)

        return apply

    return fit


CURVES = [name for name, entry in METHODS.items() if not entry.needs_distribution and name != "identity"]
"""Calibrators of the confidence; the rest of the distribution follows by the fitted spread."""

OURS = [
    Entrant("uncalibrated", "", lambda probs, labels: lambda new: new),
    Entrant("averaged-matrix", "", _distribution("averaged-matrix", True)),
    Entrant("averaged-matrix, class kept", "", _distribution("averaged-matrix", False)),
    Entrant("temperature", "", _distribution("temperature", False)),
    Entrant("ets", "", _distribution("ets", False)),
    Entrant("vector", "", _distribution("vector", True)),
    Entrant("matrix", "", _distribution("matrix", True)),
    Entrant("structured-vector", "", _distribution("structured-vector", True)),
    Entrant("structured-matrix", "", _distribution("structured-matrix", True)),
    Entrant("dirichlet", "", _distribution("dirichlet", True)),
    *(Entrant(f"{name} (top class)", "", _distribution(name, False)) for name in CURVES),
    Entrant("bpm-averaged --event", "", _event("bpm-averaged"), several=False),
    Entrant("beta --event", "", _event("beta"), several=False),
]

MODULES = {"scikit-learn": "sklearn", "venn-abers": "venn_abers"}


def _installed(package: str) -> bool:
    return importlib.util.find_spec(MODULES.get(package, package)) is not None


POOL = [peer.name for peer in PEERS if _installed(peer.package)]
ENTRANTS = {entry.name: entry for entry in [*OURS, *(p for p in PEERS if p.name in POOL)]}

LEADERS = ["averaged-matrix", "averaged-matrix, class kept", "bpm-averaged --event"]
