"""Curves against known truth: how far every calibrator's curve is from the true curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bpmcli.core.calibrators import METHODS, FitOptions, fit_calibrator, method_named
from bpmcli.core.compare.metrics_on_truth import Draw, Simulations, Values, by_cell
from bpmcli.core.compare.truths import Density, ead, simulate
from bpmcli.core.curves.families import Pair
from bpmcli.core.curves.histogram_mean import COUNTS, fit_histograms
from bpmcli.core.curves.tce import BetaDensity
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats
from bpmcli.errors import FitError, UsageError

REFERENCE = "bpm"
"""The method that the paired test compares with."""

MEAN = "hb-mean"
"""Histogram binning averaged over bin counts 10 … 50; hb-15 has 15 bins."""

NODES = 4096

Mapped = Callable[[Floats], Pair]
"""Log-odds → (g, 1 − g)."""


def curve_methods(wanted: Sequence[str] | None = None) -> list[str]:
    """The methods to compare: by default the paper's two, then every method that needs confidences only."""
    known = [name for name, entry in METHODS.items() if not entry.needs_distribution]
    if wanted is None:
        return [REFERENCE, MEAN, *(name for name in known if name != REFERENCE)]
    for name in wanted:
        if histogram_counts(name) is not None:
            continue
        if name.partition(":")[0] not in METHODS:
            raise UsageError(f"unknown method '{name}'", "choose from " + ", ".join([*known, MEAN, "hb-BINS"]))
        if method_named(name).needs_distribution:
            raise UsageError(f"{name} needs the scores of all classes; simulated data has confidences", "leave it out")
    # The reference is always there to compare with.
    return list(dict.fromkeys([REFERENCE, *wanted]))


def histogram_counts(name: str) -> Sequence[int] | None:
    """Bin counts of `hb-mean` and `hb-15`; None for any other name."""
    head, _, tail = name.partition("-")
    if name == MEAN:
        return COUNTS
    return [int(tail)] if head == "hb" and tail.isdigit() and int(tail) > 0 else None


def quadrature(density: Density) -> tuple[Floats, Floats]:
    """Log-odds and weights, so that Σ w f(x) is the expectation of f.

    Trapezoidal rule in u with x = sinh u: exact to 1e-9 for smooth f, to 1e-3 per jump at worst.
    """
    if not isinstance(density, BetaDensity):
        return density.sample.log_odds, density.sample.mass / density.sample.n
    limit = float(np.arcsinh(LOG_ODDS_LIMIT))
    u = np.linspace(-limit, limit, NODES)
    x = np.sinh(u)
    log_weight = density.log_weight(x)
    weight = np.exp(log_weight - log_weight.max()) * np.cosh(u)
    return x, weight / weight.sum()


def expected_error(curve: Mapped, truth: Mapped, nodes: tuple[Floats, Floats]) -> float:
    """E|ĝ(ŝ) − g(ŝ)| over the distribution of confidence: what the paper's Theorem 3 bounds."""
    x, weight = nodes
    return float(weight @ np.abs(curve(x)[0] - truth(x)[0]))


@dataclass(frozen=True)
class FitDraw:
    """Draws a data set, fits every method, and compares the curves with the true one."""

    source: Simulations
    methods: tuple[str, ...]
    options: FitOptions

    def __call__(self, draw: Draw) -> dict[str, float | None]:
        """`METHOD ead` and `METHOD error` for every method; None where there is no fit."""
        truth, rows = self.source.truths[draw.truth], self.rows(draw)
        nodes = quadrature(truth.density)
        out: dict[str, float | None] = {}
        for method in self.methods:
            try:
                curve = self.fit(method, rows)
            except FitError:
                out[f"{method} ead"] = out[f"{method} error"] = None
                continue
            out[f"{method} ead"] = ead(curve, truth.curve)
            out[f"{method} error"] = expected_error(curve, truth.curve, nodes)
        return out

    def rows(self, draw: Draw) -> Rows:
        """The data set."""
        drawn = simulate(self.source.truths[draw.truth], draw.n, self.source.rng(draw))
        return Rows(drawn.log_odds, drawn.hits.astype(bool))

    def fit(self, method: str, rows: Rows) -> Mapped:
        """The curve of one method."""
        counts = histogram_counts(method)
        if counts is not None:
            return fit_histograms(rows.sample, counts, self.options.metrics.variant)
        return fit_calibrator(method, rows, self.options).calibrator


@dataclass(frozen=True)
class CurveScore:
    """How a method's curve did over the runs of one truth and size."""

    truth: str
    n: int
    method: str
    runs: int
    """Runs in which there was a fit."""
    ead: float | None
    """Mean absolute difference over confidences spread evenly in [0, 1]."""
    ead_sd: float | None
    error: float | None
    """Mean absolute difference over the distribution of confidence."""
    error_sd: float | None
    better: float | None
    """Share of runs in which the method's EAD is below the reference's."""
    p_value: float | None
    """Wilcoxon signed-rank test of its EAD against the reference's, paired by run, two-sided."""


def score_curves(done: Sequence[tuple[Draw, Values]]) -> list[CurveScore]:
    """Means, spreads and the paired test for every truth, size and method."""
    scores = []
    for (truth, n), runs in by_cell(done).items():
        columns = {key: np.array([np.nan if r[key] is None else r[key] for r in runs], dtype=float) for key in runs[0]}
        reference = columns[f"{REFERENCE} ead"]
        for method in [key.removesuffix(" ead") for key in columns if key.endswith(" ead")]:
            eads, errors = columns[f"{method} ead"], columns[f"{method} error"]
            there = ~np.isnan(eads)
            better, p_value = (None, None) if method == REFERENCE else _paired(eads, reference)
            scores.append(
                CurveScore(
                    truth, n, method, int(there.sum()),
                    *_mean_sd(eads[there]), *_mean_sd(errors[there]), better, p_value,
                )
            )  # fmt: skip
    return scores


def _mean_sd(values: Floats) -> tuple[float | None, float | None]:
    return (
        float(values.mean()) if values.size else None,
        float(values.std(ddof=1)) if values.size > 1 else None,
    )


def _paired(values: Floats, reference: Floats) -> tuple[float | None, float | None]:
    from scipy.stats import wilcoxon

    both = ~(np.isnan(values) | np.isnan(reference))
    difference = values[both] - reference[both]
    if not difference.size:
        return None, None
    better = float((difference < 0).mean())
    # A single pair, or pairs that are all equal, cannot be tested.
    if difference.size < 2 or not difference.any():
        return better, None
    return better, float(wilcoxon(difference).pvalue)
