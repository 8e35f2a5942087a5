"""The metrics of the confidence, one decorated function each; everything else reads the registry.

Curves and kernels are imported by the functions that need them, because `metrics -m ece` should start quickly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bpmcli.core.data.binning import Bins, equal_mass_bins, make_bins, scheme_bins
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.sample import Floats, Sample
from bpmcli.core.metrics.registry import Measured, MetricOptions, metric
from bpmcli.errors import FitError

if TYPE_CHECKING:
    from bpmcli.core.curves.bpm import BpmFit
    from bpmcli.core.curves.tce import BetaDensity, MeasurableCurve

SWEEP_CAP = 2000
"""If all rows are correct, bin accuracies stay monotone for every bin count, so the search must end somewhere."""

SWEEP_BLOCK = 64

MONOTONE_SLACK = 1e-9
"""Spreading tied rows evenly leaves rounding in bin accuracies; smaller drops are ignored."""


def _binned_error(bins: Bins, p: float) -> float:
    weights = bins.mass / bins.mass.sum()
    return float((weights @ np.abs(bins.gaps) ** p) ** (1 / p))


@metric("ece", "mean |accuracy - confidence| over 15 equal-mass bins", "Naeini et al. 2015; Nixon et al. 2019",
        everyday=True, resampled="resampled:ece")  # fmt: skip
def ece(sample: Sample, options: MetricOptions) -> Measured:
    """(Σ_b |b|/N · |acc(b) − conf(b)|^p)^(1/p), Eq. 3 of the paper. In [0, 1]; biased upwards."""
    bins = make_bins(sample, options.n_bins, options.binning)
    return Measured(_binned_error(bins, options.p), {"bins": bins.mass.size})


@metric("ece-debiased", "ece minus the part that noise in the bins adds", "Kumar et al. 2019, NeurIPS", debiased=True,
        everyday=True, resampled="resampled:ece_debiased")  # fmt: skip
def ece_debiased(sample: Sample, options: MetricOptions) -> Measured:
    """2·ECE − Σ_b |b|/N · E|N(gap_b, acc_b(1−acc_b)/|b|)|: the folded normal's mean in closed form.

    p = 2: √max(0, Σ_b |b|/N (gap_b² − acc_b(1−acc_b)/(|b|−1))), the unbiased square. May be negative
    for p = 1. Rows with the same confidence are never split between bins: gaps of two tied values could cancel in one.
    With weights, |b| is the effective number of rows.
    """
    bins = make_bins(sample, options.n_bins, options.binning, whole_ties=True)
    weights = bins.mass / bins.mass.sum()
    rows = bins.mass * (sample.effective_n / sample.n)
    variance = bins.accuracies * (1.0 - bins.accuracies)
    # Rounding can leave an accuracy of 1 + 1e-16.
    variance = np.maximum(variance, 0.0)
    gaps = np.abs(bins.gaps)
    details: dict[str, float | int | str] = {"bins": bins.mass.size}
    if options.p == 1:
        deviation = np.sqrt(variance / rows)
        expected = [_folded_normal_mean(g, d) for g, d in zip(gaps.tolist(), deviation.tolist(), strict=True)]
        return Measured(2 * float(weights @ gaps) - float(weights @ np.array(expected)), details)
    if options.p == 2:
        many = rows > 1
        square = np.where(many, gaps**2 - variance / np.where(many, rows - 1, 1.0), 0.0)
        return Measured(math.sqrt(max(0.0, float(weights @ square))), details)
    raise FitError(f"ece-debiased is defined for p = 1 and p = 2, not {options.p:g}")


def _folded_normal_mean(mean: float, deviation: float) -> float:
    """E|N(μ, σ²)| = σ√(2/π)·exp(−μ²/2σ²) + μ·erf(μ/(σ√2))."""
    if deviation == 0:
        return abs(mean)
    z = mean / deviation
    return deviation * math.sqrt(2 / math.pi) * math.exp(-z * z / 2) + mean * math.erf(z / math.sqrt(2))


@metric("ece-sweep", "ece with as many bins as keep bin accuracies monotone", "Roelofs et al. 2022, AISTATS",
        everyday=True, resampled="resampled:ece_sweep")  # fmt: skip
def ece_sweep(sample: Sample, options: MetricOptions) -> Measured:
    """ECE at the last equal-mass bin count before the first one that breaks monotonicity."""
    limit = min(sample.n, SWEEP_CAP)
    best = next((n - 1 for n in _drops(sample, limit)), limit)
    bins = equal_mass_bins(sample, best)
    notices = (notice("sweep-capped", count=SWEEP_CAP),) if best == SWEEP_CAP else ()
    details: dict[str, float | int | str] = {"bins": best}
    if sample.summarised:
        # A drop of accuracy inside a cell cannot be seen, so the bin count may differ.
        details["approximate"] = True
    return Measured(_binned_error(bins, options.p), details, notices)


def _drops(sample: Sample, limit: int) -> Iterator[int]:
    """Bin counts up to a limit at which bin accuracies are not monotone, in ascending order."""
    hits, mass = sample.hits, sample.mass
    if np.all(hits[1:] * mass[:-1] >= hits[:-1] * mass[1:]):
        return  # the accuracies of the confidences themselves never drop, and bins are averages of them
    first = 2
    while first <= limit:
        # Many bin counts at once; few at first, because the first drop usually comes early.
        counts = np.arange(first, min(2 * first + 6, first + SWEEP_BLOCK, limit + 1))
        rates = scheme_bins(sample, counts).accuracies
        drop = np.append(rates[1:] < rates[:-1] - MONOTONE_SLACK, False)
        ends = np.cumsum(counts)
        drop[ends - 1] = False  # the bins of the next bin count begin there
        yield from counts[np.logical_or.reduceat(drop, ends - counts)].tolist()
        first = int(counts[-1]) + 1


@metric("ks", "largest cumulative difference between confidence and accuracy", "Gupta et al. 2021, ICLR",
        everyday=True, resampled="resampled:ks")  # fmt: skip
def ks(sample: Sample, options: MetricOptions) -> Measured:
    """max_k |Σ_{i≤k} (ŝ₍ᵢ₎ − h₍ᵢ₎)| / N, evaluated only at the end of each run of equal confidences."""
    drift = np.cumsum(sample.mass * sample.confidences - sample.hits)
    return Measured(float(np.abs(drift).max()) / sample.n)


@metric("smece", "kernel-smoothed error, with the bandwidth set equal to the error", "Blasiok & Nakkiran 2024, ICLR",
        everyday=True, resampled="resampled:smece")  # fmt: skip
def smece(sample: Sample, options: MetricOptions) -> Measured:
    """See `smooth_ece`. At least |mean confidence − accuracy|."""
    from bpmcli.core.metrics.smoothing import smooth_ece

    value, sigma = smooth_ece(sample)
    return Measured(value, {"sigma": sigma})


@metric("ls-ece", "error after smoothing the log-odds with sigma 1/15", "Chidambaram et al. 2024, ICML",
        everyday=True, resampled="resampled:ls_ece")  # fmt: skip
def ls_ece(sample: Sample, options: MetricOptions) -> Measured:
    """See `logit_smoothed_ece`."""
    from bpmcli.core.metrics.smoothing import logit_smoothed_ece

    return Measured(logit_smoothed_ece(sample))


@metric("tce-bpm", "error of the fitted curve: the paper's metric", "Dong et al. 2025, AAAI",
        everyday=True, resampled="resampled_bpm:tce_bpm")  # fmt: skip
def tce_bpm(sample: Sample, options: MetricOptions) -> Measured:
    """(∫ |g(s) − s|^p ξ(s) ds)^(1/p) with g from Algorithm 1 and ξ a Beta by moments (Algorithm 2)."""
    from bpmcli.core.curves.bpm import fit_bpm

    fit = fit_bpm(sample, variant=options.variant, schemes=options.schemes, bins=options.bins)
    return tce_of_fit(sample, fit, options)


def tce_of_fit(sample: Sample, fit: BpmFit, options: MetricOptions) -> Measured:
    """TCE_bpm of a curve that is already fitted."""
    value, density, notices = tce_of_curve(sample, fit.curve, options.density, options.p)
    details: dict[str, float | int | str] = dict(zip(fit.curve.family.parameters, fit.curve.params, strict=True))
    details |= {"density": "empirical"} if density is None else {"density": "beta", "a1": density.a1, "a2": density.a2}
    return Measured(value, details, tuple(notices) + tuple(notice(code) for code in fit.notices))


def tce_of_curve(
    sample: Sample, curve: MeasurableCurve, density: str = "beta", p: float = 1.0
) -> tuple[float, BetaDensity | None, list[Notice]]:
    """TCE of any curve on a sample; the Beta density used, or None for the empirical one."""
    from bpmcli.core.curves.tce import beta_by_moments, tce_beta, tce_empirical

    beta = beta_by_moments(sample) if density == "beta" else None
    if beta is not None:
        return tce_beta(curve, beta, p), beta, []
    notices = []
    if density == "beta":
        constant = sample.log_odds.size == 1
        notices.append(notice("density-empirical", variance="is zero" if constant else "is too large or too small"))
    return tce_empirical(curve, sample, p), None, notices


@metric("tce", "error of a curve averaged over shapes, nearly unbiased", "bpmcli",
        debiased=True, posterior=True)  # fmt: skip
def tce(sample: Sample, options: MetricOptions) -> Measured:
    """(mean |g(ŝ) − ŝ|^p)^(1/p) with g averaged over shapes by Akaike weights: see `tce_averaged`."""
    from bpmcli.core.curves.averaged.tce import tce_averaged

    found = tce_averaged(sample, options.p)
    return Measured(found.value, {"shape": found.shape, "shape_weight": found.weight, "shift": found.shift})


SCORE: dict[str, bool] = {"calibration_error": False}
"""Registry fields of metrics that do not estimate the calibration error of the confidence."""
CORP: dict[str, Any] = {"reference": "Dimitriadis et al. 2021, PNAS", "limits": "reflected", **SCORE}


@metric("accuracy", "share of correct predictions", "", resampled="resampled:accuracy", higher_is_better=True,
        of_event=False, **SCORE)  # fmt: skip
def accuracy(sample: Sample, options: MetricOptions) -> Measured:
    """Σ h / N. In [0, 1]; higher is better."""
    return Measured(sample.accuracy)


@metric("auroc", "probability that a correct row has a higher confidence than a wrong one", "Hanley & McNeil 1982",
        resampled="resampled:auroc", higher_is_better=True, **SCORE)  # fmt: skip
def auroc(sample: Sample, options: MetricOptions) -> Measured:
    """P(ŝ of a correct row > ŝ of a wrong row) + ½ P(they are equal). It judges their order only."""
    if sample.one_outcome:
        return Measured(None, why_missing=f"all rows are {sample.one_outcome}")
    misses = np.maximum(sample.mass - sample.hits, 0.0)
    below = np.cumsum(misses) - misses / 2
    return Measured(float(sample.hits @ below) / (float(sample.hits.sum()) * float(misses.sum())))


@metric("brier", "mean squared error of the confidence", "Brier 1950", resampled="resampled:brier", **SCORE)
def brier(sample: Sample, options: MetricOptions) -> Measured:
    """mean (ŝ − h)², with h = 1 for a correct row and 0 for a wrong one. In [0, 1]."""
    return Measured(_mean_loss(sample, np.square(sample.complements), np.square(sample.confidences)))


@metric("mcb", "miscalibration part of brier: what isotonic recalibration gains", squared_error=True,
        resampled="resampled:mcb", **CORP)  # fmt: skip
def mcb(sample: Sample, options: MetricOptions) -> Measured:
    """brier − brier of isotonic regression on the same rows. brier = mcb − dsc + unc: see `brier_parts`."""
    return _part(sample, 0)


@metric("dsc", "discrimination part of brier: what confidence tells apart", higher_is_better=True, most=0.25,
        resampled="resampled:dsc", **CORP)  # fmt: skip
def dsc(sample: Sample, options: MetricOptions) -> Measured:
    """r (1 − r) − brier of isotonic regression on the same rows, r the accuracy. In [0, 0.25]."""
    return _part(sample, 1)


@metric("unc", "uncertainty part of brier, from the outcomes alone", most=0.25, resampled="resampled:unc",
        **CORP | {"limits": "percentiles"})  # fmt: skip
def unc(sample: Sample, options: MetricOptions) -> Measured:
    """r (1 − r), r the accuracy (the event rate with --event): the Brier score of a constant confidence r."""
    return _part(sample, 2)


def _part(sample: Sample, which: int) -> Measured:
    from bpmcli.core.metrics.decomposition import brier_parts

    return Measured(brier_parts(sample)[which])


@metric("nll", "log loss of the confidence", "Good 1952", resampled="resampled:nll", most=np.inf, **SCORE)
def nll(sample: Sample, options: MetricOptions) -> Measured:
    """−mean (h log ŝ + (1 − h) log(1 − ŝ)), from log-odds: a confidence that rounds to 1 has a finite loss."""
    return Measured(_mean_loss(sample, np.logaddexp(0.0, -sample.log_odds), np.logaddexp(0.0, sample.log_odds)))


def _mean_loss(sample: Sample, if_correct: Floats, if_wrong: Floats) -> float:
    misses = np.maximum(sample.mass - sample.hits, 0.0)
    return float(sample.hits @ if_correct + misses @ if_wrong) / sample.n
