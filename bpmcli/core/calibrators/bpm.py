"""The paper's curve, and the identity, as calibrators."""

from __future__ import annotations

from dataclasses import dataclass

from bpmcli.core.bpm import fit_bpm
from bpmcli.core.calibrators.base import Calibrator, FitOptions, Fitted, method
from bpmcli.core.families import BETA, Curve, Pair
from bpmcli.core.metrics import tce_of_fit
from bpmcli.core.notices import notice
from bpmcli.core.rows import Rows
from bpmcli.core.sample import Floats, sigmoid


@dataclass(frozen=True)
class Bpm(Calibrator):
    """g(s) = 1 / (1 + s^−α (1−s)^β e^c)."""

    alpha: float
    beta: float
    c: float

    def __call__(self, log_odds: Floats) -> Pair:
        return Curve(BETA, (self.alpha, self.beta, self.c))(log_odds)


@method("bpm", "the paper's curve, fitted over many binnings", "Dong et al. 2025, AAAI", Bpm)
def fit(rows: Rows, options: FitOptions) -> Fitted:
    """Algorithm 1, with TCE_bpm (Algorithm 2) in the report."""
    sample, wanted = rows.sample, options.metrics
    found = fit_bpm(
        sample, variant=wanted.variant, optimizer=options.optimizer, schemes=wanted.schemes, bins=wanted.bins
    )
    tce = tce_of_fit(sample, found, wanted)
    details = dict(tce.details)
    report = {
        "variant": found.variant,
        "optimizer": found.optimizer,
        "objective": found.objective,
        "evaluations": found.evaluations,
        "converged": found.converged,
        "schemes": list(found.schemes),
        "density": {k: details[k] for k in ("density", "a1", "a2") if k in details},
        "tce": {"p": wanted.p, "value": tce.value},
    }
    notices = tce.notices
    if sample.accuracy in (0.0, 1.0):
        notices += (notice("one-outcome", what="hits" if sample.accuracy == 1.0 else "misses"),)
    return Fitted(Bpm(*found.curve.params), report, notices)


@dataclass(frozen=True)
class Identity(Calibrator):
    """g(s) = s."""

    def __call__(self, log_odds: Floats) -> Pair:
        return sigmoid(log_odds), sigmoid(-log_odds)


@method("identity", "the confidence as it is", "-", Identity)
def fit_identity(rows: Rows, options: FitOptions) -> Fitted:
    """Nothing to fit."""
    return Fitted(Identity())
