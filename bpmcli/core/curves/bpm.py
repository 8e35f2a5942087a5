"""The paper's calibration curve (Algorithm 1): one curve fitted to many binnings at once.

Minimise Σ_B P(B) Σ_b |b|/N · exp((g(ŝ_b; θ) − accuracy_b)²) over θ, with P(B) uniform. Bins do not depend
on θ, so they are built once, as one vector for all bin counts. g belongs to the paper's curve family or to
another one in `families`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bpmcli.core.curves.families import BETA, IDENTITY, Curve, Family
from bpmcli.core.curves.family_search import PERFECT, lower_minimum, lowest_minimum
from bpmcli.core.curves.solve import Minimum, Objective, minimise
from bpmcli.core.data.binning import N_SCHEMES, Bins, author_scheme_bins, scheme_bins, scheme_counts
from bpmcli.core.data.sample import Floats, Ints, Sample
from bpmcli.errors import FitError, UsageError

BOX = 1e3
"""Parameters stay within ±1000: a curve that steep is a step already."""

AUTHORS_START = (5.0, 5.0, 10 * float(np.log(2)))
"""Where the published code starts its Nelder–Mead (sign of c as in the paper)."""

AUTHORS_CLIP = 1e-10
"""The published code clips the mean confidence of a bin to [1e-10, 1 − 1e-10]."""

FLAT = 40.0
"""c of a curve that is 0 or 1 everywhere: 1/(1 + e^40) is 4e-18."""

STARTS = ((0.3, 0.3, 0.3), (1.0, 1.0, 0.0), (3.0, 0.1, -2.0), (0.1, 3.0, 1.0), AUTHORS_START)
"""On 21 real and 120 simulated data sets only the last start ever missed the optimum."""

COARSE = 600
"""If the coarsest binning has this many bins, the curve is fitted to it first and then refined on all binnings."""


class BpmFit(NamedTuple):
    """A fitted curve and how it was found."""

    curve: Curve
    objective: float
    """The value of the paper's sum, or of −Σ exp(−d²) with the authors' variant."""
    evaluations: int
    converged: bool
    optimizer: str
    variant: str
    schemes: tuple[int, ...]
    """Bin counts used."""
    notices: tuple[str, ...] = ()


def fit_bpm(
    sample: Sample, *, variant: str = "paper", optimizer: str = "newton", schemes: int | None = N_SCHEMES,
    bins: tuple[int, int] | None = None, family: Family = BETA, start: Sequence[float] | None = None,
) -> BpmFit:  # fmt: skip
    """The calibration curve of the paper: argmin over θ of Σ_B P(B) Σ_b |b|/N · exp((g(ŝ_b; θ) − accuracy_b)²).

    B runs over the bin counts, all equally probable, and b over the bins of one binning. `result.curve.at(confidences)`
    evaluates the curve. `schemes` bin counts (all of them if None) are spread over `bins`, by default [N/100, N/20].
    `variant="authors"` follows the published code instead of the paper: it drops the last bin, gives all bins the
    same weight, maximises Σ exp(−d²) and lets α and β become negative. `optimizer="nelder-mead"` is the paper's
    optimizer; if its result is not the constrained optimum, it is replaced, with a notice. Both exist for the beta
    family only.
    `start` is for resamples: the search begins at the parameters of the full sample, and no other start is tried.

    Raises FitError when there are too few rows or the fit does not converge. Reference: Dong et al., AAAI 2025.

    >>> from bpmcli import TRUTHS, fit_bpm, simulate
    >>> import numpy as np
    >>> fit = fit_bpm(simulate(TRUTHS["D4"], 2000, np.random.default_rng(0)).sample())
    >>> fit.curve.at([0.5, 0.9]).round(3)
    array([0.424, 0.743])
    """
    check_family(family, variant, optimizer)
    counts, all_bins = _bins_of_variant(sample, variant, schemes, bins)
    f = objective(all_bins, family, variant)
    lower, upper = bounds(family, variant)
    best, used, notices = _special_case(sample, f, family, optimizer)
    spent = 0
    if best is None and optimizer == "nelder-mead":
        best, inside = _nelder_mead(f, lower, upper)
        if not (inside and best.converged):
            spent, best, used, notices = best.evaluations, None, "nelder-mead, then newton", ("nelder-mead-replaced",)
    if best is None and start is not None:
        best = minimise(f, np.array(start), lower, upper)
    if best is None:
        coarse = scheme_bins(sample, counts[:1]) if _is_large(variant, counts) else None
        best = _global_minimum(f, all_bins, coarse, family, sample.accuracy, (lower, upper))
    best = best._replace(evaluations=best.evaluations + spent)
    return _checked(best, Curve(family, tuple(float(v) for v in best.x)), used, variant, counts, all_bins, notices)


def _checked(
    best: Minimum, curve: Curve, used: str, variant: str, counts: Ints, bins: Bins, notices: tuple[str, ...]
) -> BpmFit:
    """The fit as a record; raises FitError if the solver did not converge."""
    value = best.value + (1.0 if variant == "paper" else -float(np.sum(bins.mass)))
    if not best.converged:
        raise FitError(
            f"the fit did not converge: objective {value:.12g} after {best.evaluations} evaluations",
            "try other bin counts with --bins LO:HI",
        )
    used_counts = tuple(int(c) for c in counts)
    return BpmFit(curve, value, best.evaluations, best.converged, used, variant, used_counts, notices)


def _bins_of_variant(
    sample: Sample, variant: str, schemes: int | None, bins: tuple[int, int] | None
) -> tuple[Ints, Bins]:
    """The bin counts, and the bins of all of them."""
    if variant == "authors":
        if sample.summarised:
            raise FitError(
                "the authors' bins of 20 rows are not available from a summary",
                "give the files that were summarised, with --exact",
            )
        return _authors_counts(sample.n), author_scheme_bins(sample)
    counts = scheme_counts(sample.n, schemes, bins, capped=sample.from_summary)
    return counts, scheme_bins(sample, counts)


def _special_case(
    sample: Sample, f: Objective, family: Family, optimizer: str
) -> tuple[Minimum | None, str, tuple[str, ...]]:
    """The answer where nothing needs to be searched for: the identity, or rows that are all correct or all wrong."""
    if family is IDENTITY:
        return Minimum(np.empty(0), f(np.ones(1))[0], 1, True), "none", ()
    if sample.one_outcome:
        # The optimum is a limit of many curves; the flat curve is the simplest that reaches it.
        flat = _flat(family, FLAT if sample.one_outcome == "correct" else -FLAT)
        return Minimum(flat, f(flat)[0], 1, True), optimizer, ()
    return None, optimizer, ()


def _is_large(variant: str, counts: Ints) -> bool:
    return bool(variant == "paper" and counts[0] >= COARSE and counts.size > 1)


def _global_minimum(
    f: Objective, all_bins: Bins, coarse: Bins | None, family: Family, accuracy: float, box: tuple[Floats, Floats]
) -> Minimum:
    rate = min(max(accuracy, 1e-12), 1 - 1e-12)
    flat = _flat(family, -float(np.log((1 - rate) / rate)))
    if family is BETA:
        return _multi_start(f, objective(coarse, family) if coarse else None, *box, flat)
    return _search(f, all_bins, coarse, family, *box, flat)


def check_family(family: Family, variant: str, optimizer: str) -> None:
    """The authors' variant and Nelder–Mead exist for the paper's own family only."""
    if family is not BETA and (variant == "authors" or optimizer == "nelder-mead"):
        option = "--variant authors" if variant == "authors" else "--optimizer nelder-mead"
        raise UsageError(
            f"{option} works with the paper's own curve family, not with {family.name}", f"leave {option} out"
        )


def bounds(family: Family, variant: str) -> tuple[Floats, Floats]:
    """The family's constraints, within a wide box. The authors' code has no constraints."""
    if variant == "authors":
        return np.full(len(family.lower), -BOX), np.full(len(family.upper), BOX)
    return np.clip(family.lower, -BOX, BOX), np.clip(family.upper, -BOX, BOX)


def objective(bins: Bins, family: Family, variant: str = "paper") -> Objective:
    """Σ w·(e^{d²} − 1) and its derivatives: the paper's sum minus one, which keeps three more digits.

    The authors' variant is Σ (1 − e^{−d²}): their sum with its sign and constant changed.
    """
    sign = 1.0 if variant == "paper" else -1.0
    s, q = bins.confidences, bins.complements
    if variant == "authors":
        s, q = np.clip(s, AUTHORS_CLIP, 1.0), np.clip(q, AUTHORS_CLIP, 1.0)
    columns = family.columns(np.log(s) - np.log(q))
    rates, misses, weights = bins.accuracies, 1.0 - bins.accuracies, bins.mass

    def evaluate(theta: Floats) -> tuple[float, Floats, Floats]:
        eta = theta @ columns
        g, miss, first, second = family.link.derivatives(eta)
        d = np.where(eta > 0, misses - miss, g - rates)
        square = d * d
        growth = np.expm1(sign * square)
        factor = 2.0 * weights * (growth + 1.0)
        slope = factor * d * first
        bend = factor * ((1.0 + 2.0 * sign * square) * first * first + d * second)
        return sign * float(weights @ growth), columns @ slope, (columns * bend) @ columns.T

    return evaluate


def _flat(family: Family, log_odds: float) -> Floats:
    """Parameters of the curve that is constant at these log-odds."""
    if family is BETA:
        return np.array([0.0, 0.0, -log_odds])
    return np.array([float(family.link.forward(np.array(log_odds))), 0.0])


def _multi_start(f: Objective, coarse: Objective | None, lower: Floats, upper: Floats, flat: Floats) -> Minimum:
    """Minimise from two starts, and from all if those two disagree; on the coarse objective if there is one."""
    found = [minimise(coarse or f, np.array(start), lower, upper) for start in STARTS[:2]]
    if abs(found[0].value - found[1].value) > 1e-9 * abs(found[0].value):
        found += [minimise(coarse or f, np.array(start), lower, upper) for start in STARTS[2:]]
    best = min(found, key=lambda m: m.value)
    if (coarse or f)(flat)[0] < best.value:
        # With log-odds in the hundreds every start saturates, and a vanished gradient looks like an optimum.
        found.append(minimise(coarse or f, flat, lower, upper))
        best = min(found, key=lambda m: m.value)
    if coarse:
        best = minimise(f, best.x, lower, upper)
        found.append(best)
    return Minimum(best.x, best.value, sum(m.evaluations for m in found), best.converged)


def _search(
    f: Objective, bins: Bins, coarse: Bins | None, family: Family, lower: Floats, upper: Floats, flat: Floats
) -> Minimum:
    """The lowest minimum for another family, found on the coarse bins (if there are any) and then refined."""
    if coarse is None:
        best = lowest_minimum(f, bins, family, lower, upper, flat)
    else:
        first = lowest_minimum(objective(coarse, family), coarse, family, lower, upper, flat)
        polished = minimise(f, first.x, lower, upper)
        best = lower_minimum(f, bins, family, lower, upper, polished)
        best = best._replace(evaluations=first.evaluations + polished.evaluations + best.evaluations)
    # Where correct and wrong rows do not overlap the steepest curve is best, and steeper ones gain nothing.
    return best._replace(converged=best.converged or best.value < PERFECT)


def _authors_counts(n: int) -> Ints:
    low, high = n // 100, n // 20
    return np.arange(low, high + 1, max(1, (high - low) // 10))


def _nelder_mead(f: Objective, lower: Floats, upper: Floats) -> tuple[Minimum, bool]:
    """scipy's Nelder–Mead as the authors run it, and whether it stayed within the constraints."""
    from scipy.optimize import minimize

    result = minimize(
        lambda theta: f(theta)[0],
        np.array(AUTHORS_START),
        method="Nelder-Mead",
        options={"fatol": 1e-10, "maxiter": 5000, "maxfev": 5000},
    )
    x = np.asarray(result.x)
    inside = bool(np.all(x >= lower) and np.all(x <= upper))
    value, gradient, hessian = f(x)
    # The simplex stops at about 1e-4 in θ. It is at the optimum if a Newton step would gain nothing.
    gain = abs(float(gradient @ np.linalg.lstsq(hessian, gradient, rcond=None)[0])) / 2
    optimal = bool(result.success) and gain < 1e-9 and bool(np.all(np.linalg.eigvalsh(hessian) > -1e-9))
    return Minimum(x, value, int(result.nfev), optimal), inside
