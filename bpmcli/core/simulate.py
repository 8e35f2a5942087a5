"""Data whose true calibration error is known (the paper's Algorithm 3), drawn in log space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bpmcli.core.density import BetaDensity
from bpmcli.core.families import Curve, parse_curve
from bpmcli.core.sample import Floats, Sample, sample_from_log_odds
from bpmcli.core.tce import tce_beta
from bpmcli.errors import UsageError


@dataclass(frozen=True)
class Truth:
    """A preset calibration curve and distribution of confidence."""

    name: str
    curve: Curve
    density: BetaDensity

    def tce(self, p: float = 1.0) -> float:
        """The exact true calibration error."""
        return tce_beta(self.curve, self.density, p)


TRUTHS: dict[str, Truth] = {
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


@dataclass(frozen=True)
class Simulated:
    """Rows drawn from a truth, in the order they were drawn."""

    truth: Truth
    log_odds: Floats
    hits: npt.NDArray[np.int8]
    true_g: Floats

    def sample(self) -> Sample:
        return sample_from_log_odds(self.log_odds, self.hits)


def simulate(truth: Truth, n: int, rng: np.random.Generator) -> Simulated:
    """Draw x = logit ŝ with ŝ ~ Beta(a1, a2), then h ~ Bernoulli(g(ŝ)).

    log Gamma(a) = log Gamma(a+1) + log U / a, so log-odds survive where ŝ itself would round to 1.
    """
    if n < 1:
        raise UsageError(f"cannot simulate {n} rows", "give a positive number with -n")
    x = _log_gamma_draws(truth.density.a1, n, rng) - _log_gamma_draws(truth.density.a2, n, rng)
    g, _ = truth.curve(x)
    return Simulated(truth, x, (rng.random(n) < g).astype(np.int8), g)


def _log_gamma_draws(a: float, n: int, rng: np.random.Generator) -> Floats:
    # 1 - U is never zero.
    return np.log(rng.standard_gamma(a + 1, n)) + np.log(1.0 - rng.random(n)) / a


def truth_by_name(name: str) -> Truth:
    """D1 … D5."""
    found = TRUTHS.get(name.upper())
    if found is None:
        raise UsageError(f"unknown distribution '{name}'", "choose from " + ", ".join(TRUTHS))
    return found


def custom_truth(curve: str, beta: str) -> Truth:
    """A truth from `FAMILY:params` and `a1,a2`."""
    parsed = parse_curve(curve)
    try:
        a1, a2 = (float(v) for v in beta.split(","))
    except ValueError:
        raise UsageError(f"--beta '{beta}' is not a pair of numbers", "write --beta 2.77,0.04") from None
    if not (0 < a1 < np.inf and 0 < a2 < np.inf):
        raise UsageError(f"--beta '{beta}': both parameters must be positive and finite")
    return Truth(str(parsed), parsed, BetaDensity(a1, a2))


def ead(curve: Curve, truth: Curve) -> float:
    """Mean absolute difference of two curves: (1/1000) Σ_{i=0…1000} |g(i/1000) − g*(i/1000)|."""
    s = np.arange(1001) / 1000
    return float(np.abs(curve.at(s) - truth.at(s)).sum()) / 1000
