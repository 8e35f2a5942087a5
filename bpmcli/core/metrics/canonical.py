"""Are whole distributions calibrated? A test whose null distribution is simulated exactly.

A model is *canonically* calibrated if, among rows with the distribution p, the labels are distributed like p
(Vaicenavicius et al. 2019; Widmann et al. 2019). Under that hypothesis labels can be drawn from the rows' own
distributions, so any statistic has a known null distribution, whatever the number of rows and classes.

The statistic is a log Bayes factor: distributions whose logits differ from the model's by Σ_j c_j f_j(p), with
c_j ~ N(0, τ²), against the model's own. With the scores s_j = Σ_i f_j(p_i) ([y_i = k] − p_ik) and their variances v_j
under the hypothesis, to second order and without correlations,

    log BF = Σ_j ½ (τ² s_j² / (1 + τ² v_j) − log(1 + τ² v_j)).

The directions f: one temperature for all classes; a shift of each class; a slope of each class; shifts and slopes; and
smooth functions of p, one per class and landmark, with the covariance exp(−‖p − q‖₁ / ν), ν the median distance (a
kernel test as in Widmann et al. 2019, by Nyström's approximation). Bayes factors are averaged over these five bases.
The approximations may cost power; they do not change the level. benchmarks/canonical.py measures both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bpmcli.core.data.class_scores import ClassScores
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, Ints
from bpmcli.errors import FitError

RUNS = 399
"""Simulated sets of labels: the smallest P-value is 1/400."""
LANDMARKS = 16
MOST_ROWS = 200_000
"""If there are more rows, only this many are tested: those with the smallest hash of their distribution."""
LOWEST = -20.0
"""Lower log-probabilities are raised to this, because the logarithm of 0 would be infinite."""
SHIFT, SLOPE, SMOOTH = 0.5, 0.4, 0.5
"""Standard deviations τ of the coefficients, the same as in the priors of `bpm-averaged`."""
CHUNK = 1 << 21
"""Labels that are drawn at once."""
MOST_SUMS = 30_000_000
FEWEST_RUNS = 99
"""At most MOST_SUMS sums, one for each class and simulated set of labels, are held at once (240 MB). With very many
classes there are first fewer landmarks and then fewer sets of labels, but never fewer sets than FEWEST_RUNS."""
FEW_CLASSES = 64
"""Up to this many classes, a label is drawn by comparing with every cumulative probability."""


class ClassTest(NamedTuple):
    """P-values of whole distributions."""

    canonical: float
    classwise: float
    """With the directions of single classes alone: shifts and slopes."""
    rows: int
    """The number of rows that were tested."""
    scores: Floats
    """Σ ([y = k] − p_k) of every class, in standard deviations of a calibrated model."""


def distribution_test(rows: Rows, runs: int = RUNS, seed: int = 0, smooth: bool = True) -> ClassTest:
    """P = (1 + #{log BF of simulated labels ≥ log BF of the labels}) / (1 + runs), the same for any order of the rows.

    Without `smooth` the kernel is left out, which saves most of the time. Rows whose label is none of the classes must
    have been left out.
    """
    assert rows.scores is not None
    assert rows.labels is not None
    runs, most_landmarks = _affordable(runs, rows.scores.n_classes)
    hashes = rows.scores.hashes()
    keys = [rows.labels, hashes] if rows.weights is None else [rows.labels, rows.weights, hashes]
    order = np.lexsort(keys)
    if order.size > MOST_ROWS:
        order = order[hashes[order] <= hashes[order[MOST_ROWS - 1]]]
    labels, scores = rows.labels[order], rows.scores.take(order)
    weights = np.ones(order.size) if rows.weights is None else rows.weights[order] / rows.weights[order].mean()
    few = np.arange(min(most_landmarks, order.size)) if smooth else np.arange(0)
    landmarks = _Landmarks(scores.take(few)) if few.size else None
    sums = _Sums(runs, scores.n_classes, 0 if landmarks is None else landmarks.size)
    rng = np.random.default_rng(seed)
    step = max(1, min(CHUNK // (runs + 1), CHUNK // scores.n_classes))
    for part, log_probs in scores.chunks(step * scores.n_classes):
        features = None if landmarks is None else landmarks.features(np.exp(log_probs))
        sums.add(log_probs, features, labels[part], weights[part], rng)
    single, joint = sums.log_bayes_factors()
    return ClassTest(_p_value(joint), _p_value(single), order.size, sums.standardised())


def _affordable(runs: int, k: int) -> tuple[int, int]:
    """The number of simulated sets of labels, and of landmarks, whose sums for k classes fit into memory."""
    runs = min(runs, MOST_SUMS // (2 * k))
    if runs < FEWEST_RUNS:
        raise FitError(f"{k:,} classes are too many for the test of whole distributions")
    return runs, min(LANDMARKS, MOST_SUMS // ((runs + 1) * k) - 2)


def calibrated_rows(rows: Rows, runs: int, rng: np.random.Generator) -> Iterator[Rows]:
    """The same distributions with labels drawn from them, once per run; the order of the file does not matter.

    Rows whose label is none of the classes are left out.
    """
    rows = rows.known()
    assert rows.scores is not None
    keys = [rows.scores.hashes()] if rows.weights is None else [rows.weights, rows.scores.hashes()]
    rows = rows.take(np.lexsort(keys))
    assert rows.scores is not None
    for _ in range(runs):
        labels = [_draw(np.exp(logs), 1, rng)[0] for _, logs in rows.scores.chunks()]
        yield rows._replace(labels=np.concatenate(labels))


def _p_value(statistics: Floats) -> float:
    """The rank of the first statistic among all; a tie counts as at least as high, up to rounding."""
    return float(np.count_nonzero(statistics >= statistics[0] - 1e-9)) / statistics.size


class _Landmarks:
    """Smooth functions of a distribution: f(p) = C^(−1/2) k(p, q_m) over landmarks q_m, C their own covariance."""

    def __init__(self, scores: ClassScores) -> None:
        found = [np.exp(logs) for _, logs in scores.chunks()]
        distinct = np.unique(np.concatenate(found), axis=0)
        distances = _distances(distinct, distinct)
        apart = distances[np.triu_indices(len(distinct), 1)]
        self.q, self.width = distinct, float(np.median(apart)) if apart.size else 1.0
        values, vectors = np.linalg.eigh(np.exp(-distances / self.width))
        keep = values > 1e-6
        self.root = vectors[:, keep] / np.sqrt(values[keep])
        self.size = int(keep.sum())

    def features(self, probs: Floats) -> Floats:
        found: Floats = np.exp(-_distances(probs, self.q) / self.width) @ self.root
        return found


def _distances(p: Floats, q: Floats) -> Floats:
    """‖p − q‖₁ of every pair."""
    return np.stack([np.abs(p - one).sum(axis=1) for one in q], axis=1)


class _Sums:
    """Scores s of the observed labels (first) and of all simulated ones, and their variances v under calibration."""

    def __init__(self, runs: int, k: int, m: int) -> None:
        self.shape = (runs + 1, k)
        self.shift, self.slope = np.zeros(self.shape), np.zeros(self.shape)
        self.smooth = np.zeros((m, *self.shape))
        self.v_shift, self.v_slope, self.v_smooth, self.v_temperature = np.zeros(k), np.zeros(k), np.zeros((m, k)), 0.0

    def add(
        self, log_probs: Floats, features: Floats | None, labels: Ints, weights: Floats, rng: np.random.Generator
    ) -> None:
        """Consecutive rows, with their features and weights."""
        probs, logs = np.exp(log_probs), np.maximum(log_probs, LOWEST)
        drawn = np.vstack([labels, _draw(probs, self.shape[0] - 1, rng)])
        places = (drawn + np.arange(self.shape[0])[:, None] * self.shape[1]).ravel()

        def per_label(values: Floats) -> Floats:
            sums = np.bincount(places, values.ravel(), self.shape[0] * self.shape[1])
            return sums.astype(np.float64).reshape(self.shape)

        spread = probs * (1.0 - probs) * np.square(weights)[:, None]
        self.shift += per_label(np.broadcast_to(weights, drawn.shape)) - weights @ probs
        own = logs[np.arange(len(labels)), drawn] * weights
        self.slope += per_label(own) - weights @ (probs * logs)
        self.v_shift += spread.sum(axis=0)
        self.v_slope += (spread * np.square(logs)).sum(axis=0)
        mean = (probs * logs).sum(axis=1, keepdims=True)
        # Not the mean square minus the squared mean: that difference may be negative where all classes are equal.
        self.v_temperature += float(np.square(weights) @ (probs * np.square(logs - mean)).sum(axis=1))
        if features is not None:
            for m, f in enumerate(features.T):
                self.smooth[m] += per_label(np.broadcast_to(f * weights, drawn.shape)) - (f * weights) @ probs
                self.v_smooth[m] += np.square(f) @ spread

    def log_bayes_factors(self) -> tuple[Floats, Floats]:
        """Log Bayes factors of shifts and slopes of classes, and of these with temperature and smooth functions."""
        shift = _evidence(self.shift, self.v_shift, SHIFT)
        slope = _evidence(self.slope, self.v_slope, SLOPE)
        temperature = _evidence(self.slope.sum(axis=1)[:, None], np.array([self.v_temperature]), SLOPE)
        classes = [shift, slope, shift + slope]
        smooth = [_evidence(s, v, SMOOTH) for s, v in zip(self.smooth, self.v_smooth, strict=True)]
        return _mean_exp(classes), _mean_exp([*classes, temperature, *([np.sum(smooth, axis=0)] if smooth else [])])

    def standardised(self) -> Floats:
        """The observed shift of every class in standard deviations; 0 for a class that is never possible."""
        possible = self.v_shift > 0
        return np.where(possible, self.shift[0] / np.sqrt(np.where(possible, self.v_shift, 1.0)), 0.0)


def _evidence(s: Floats, v: Floats, sd: float) -> Floats:
    """Σ_j ½ (τ² s_j² / (1 + τ² v_j) − log(1 + τ² v_j)) for every set of labels."""
    gain = sd**2 / (1.0 + sd**2 * v)
    found: Floats = 0.5 * (np.square(s) @ gain - np.log1p(sd**2 * v).sum())
    return found


def _mean_exp(logs: list[Floats]) -> Floats:
    stacked = np.stack(logs)
    top = stacked.max(axis=0)
    found: Floats = top + np.log(np.mean(np.exp(stacked - top), axis=0))
    return found


def _draw(probs: Floats, runs: int, rng: np.random.Generator) -> Ints:
    """Labels drawn from the rows of probabilities, (runs, rows)."""
    below = np.cumsum(probs, axis=1)
    luck = rng.random((runs, len(probs))) * below[:, -1]
    if probs.shape[1] > FEW_CLASSES:
        found = [np.searchsorted(edges, u, side="right") for edges, u in zip(below, luck.T, strict=True)]
        many: Ints = np.minimum(np.stack(found, axis=1), probs.shape[1] - 1)
        return many
    labels = np.zeros(luck.shape, dtype=np.int64)
    for edge in below[:, :-1].T:
        labels += luck >= edge
    return labels
