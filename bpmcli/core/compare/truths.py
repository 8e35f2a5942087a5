"""Data whose true calibration error is known (the paper's Algorithm 3), drawn in log space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from bpmcli.core.curves.families import Pair, parse_curve
from bpmcli.core.curves.tce import BetaDensity, tce_beta, tce_empirical
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Sample, sample_from_log_odds
from bpmcli.errors import UsageError


class TrueCurve(Protocol):
    """The true calibration curve: a curve of a family, or any fitted calibrator."""

    def __call__(self, log_odds: Floats) -> Pair: ...

    def distance(self, log_odds: Floats) -> Floats: ...


@dataclass(frozen=True, eq=False)
class EmpiricalDensity:
    """The distribution of the confidences in a file. Whether its rows are correct is not used."""

    sample: Sample


Density = BetaDensity | EmpiricalDensity
D_co = TypeVar("D_co", bound=Density, covariant=True)


@dataclass(frozen=True)
class Truth(Generic[D_co]):
    """A preset calibration curve and distribution of confidence."""

    name: str
    curve: TrueCurve
    density: D_co
    identity: str = ""
    """For a truth from a file: its content, on which the random draws depend instead of the file's name."""

    def tce(self, p: float = 1.0) -> float:
        """The exact true calibration error: an integral under a Beta density, a mean over the confidences of a file."""
        if isinstance(self.density, BetaDensity):
            return tce_beta(self.curve, self.density, p)
        return tce_empirical(self.curve, self.density.sample, p)


AnyTruth = Truth[Density]

TRUTHS: dict[str, Truth[BetaDensity]] = {
    name: Truth(name, parse_curve(curve), BetaDensity(a1, a2))
    for name, curve, a1, a2 in [
        # Paper, appendix, table "Selection of true distribution".
        ("D1", "logit-logit:-0.88,0.49", 2.77, 0.04),
        ("D2", "logflip-logflip:-0.12,0.58", 2.17, 0.03),
        ("D3", "log-log:-0.03,1.27", 1.12, 0.11),
        ("D4", "logit-logflip:-0.77,-0.80", 1.13, 0.20),
        ("D5", "logit-logit:-0.97,0.34", 1.19, 0.22),
    ]
}


MOST_ROWS = 10**9
"""Rows are drawn in memory. For more than this, simulate several files with different seeds."""


@dataclass(frozen=True)
class Simulated:
    """Rows drawn from a truth, in the order they were drawn."""

    truth: AnyTruth
    log_odds: Floats
    hits: npt.NDArray[np.int8]
    true_g: Floats

    def sample(self) -> Sample:
        return sample_from_log_odds(self.log_odds, self.hits)


def simulate(truth: AnyTruth, n: int, rng: np.random.Generator) -> Simulated:
    """`n` rows drawn from a truth: x = logit ŝ from its density, then h ~ Bernoulli(g(ŝ)).

    Reference: Algorithm 3 of Dong et al., AAAI 2025.

    >>> import numpy as np
    >>> from bpmcli import TRUTHS, simulate
    >>> sample = simulate(TRUTHS["D1"], 1000, np.random.default_rng(0)).sample()
    >>> sample.n, round(TRUTHS["D1"].tce(), 5)
    (1000, 0.04973)
    """
    if not 1 <= n <= MOST_ROWS:
        raise UsageError(f"cannot simulate {n} rows", "give a positive number with -n")
    density = truth.density
    x = _beta_draws(density, n, rng) if isinstance(density, BetaDensity) else _file_draws(density, n, rng)
    g, _ = truth.curve(x)
    return Simulated(truth, x, (rng.random(n) < g).astype(np.int8), g)


def _beta_draws(density: BetaDensity, n: int, rng: np.random.Generator) -> Floats:
    """logit ŝ = log Gamma(a1) − log Gamma(a2), which survives where ŝ itself would round to 1."""
    return _log_gamma_draws(density.a1, n, rng) - _log_gamma_draws(density.a2, n, rng)


def _log_gamma_draws(a: float, n: int, rng: np.random.Generator) -> Floats:
    # log Gamma(a) = log Gamma(a+1) + log U / a; 1 - U is never zero.
    return np.log(rng.standard_gamma(a + 1, n)) + np.log(1.0 - rng.random(n)) / a


def _file_draws(density: EmpiricalDensity, n: int, rng: np.random.Generator) -> Floats:
    """Rows of the file with replacement, by their mass."""
    ends = density.sample.mass_before[1:]
    cell = np.searchsorted(ends, rng.random(n) * ends[-1], side="right")
    drawn: Floats = density.sample.log_odds[np.minimum(cell, ends.size - 1)]
    return drawn


def truth_by_name(name: str) -> Truth[BetaDensity]:
    """D1 … D5."""
    found = TRUTHS.get(name.upper())
    if found is None:
        raise UsageError(f"unknown distribution '{name}'", "choose from " + ", ".join(TRUTHS))
    return found


MOST_EXTREME = 1e-6
"""Parameters below this or above its inverse make a Beta distribution so narrow that the integral would miss it."""


def parse_beta(text: str) -> BetaDensity:
    """`a1,a2`."""
    try:
        a1, a2 = (float(v) for v in text.split(","))
    except ValueError:
        raise UsageError(f"--beta '{text}' is not a pair of numbers", "write --beta 2.77,0.04") from None
    if not (MOST_EXTREME <= a1 <= 1 / MOST_EXTREME and MOST_EXTREME <= a2 <= 1 / MOST_EXTREME):
        raise UsageError(f"--beta '{text}': both parameters must lie between 1e-6 and 1e6", "write --beta 2.77,0.04")
    return BetaDensity(a1, a2)


def custom_truth(curve: str, beta: str) -> Truth[BetaDensity]:
    """A truth from `FAMILY:params` and `a1,a2`."""
    parsed = parse_curve(curve)
    return Truth(str(parsed), parsed, parse_beta(beta))


EAD_GRID = np.arange(1001) / 1000
"""The confidences at which the paper compares two curves."""


def on_grid(curve: Callable[[Floats], Pair], confidences: Floats = EAD_GRID) -> Floats:
    """g at plain confidences, 0 and 1 included."""
    with np.errstate(divide="ignore"):
        x = np.log(confidences) - np.log1p(-confidences)
    return curve(np.clip(x, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT))[0]


def ead(curve: Callable[[Floats], Pair], truth: Callable[[Floats], Pair]) -> float:
    """Mean absolute difference of two curves: (1/1000) Σ_{i=0…1000} |g(i/1000) − g*(i/1000)|."""
    return float(np.abs(on_grid(curve) - on_grid(truth)).sum()) / 1000
