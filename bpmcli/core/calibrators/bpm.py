"""The paper's curve, curves of other families fitted with the same loss, and the identity, as calibrators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bpmcli.core.calibrators.base import Calibrator
from bpmcli.core.calibrators.histogram import one_outcome
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.curves.bpm import fit_bpm
from bpmcli.core.curves.families import BETA, FAMILIES, Curve, Pair, family_named
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, sigmoid_pair
from bpmcli.core.metrics.definitions import tce_of_fit
from bpmcli.errors import DataError


@dataclass(frozen=True)
class Bpm(Calibrator):
    """A curve of the paper's family, g(s) = 1 / (1 + s^−α (1−s)^β e^c), or of another in `core.curves.families`."""

    curve: Curve

    def __call__(self, log_odds: Floats) -> Pair:
        return self.curve(log_odds)

    def parameters(self) -> dict[str, Any]:
        """The curve's parameters by name; the name of its family comes first unless it is the paper's."""
        family, values = self.curve
        named = dict(zip(family.parameters, values, strict=True))
        return named if family is BETA else {"family": family.name, **named}

    @classmethod
    def parameter_types(cls, parameters: Mapping[str, Any]) -> dict[str, str]:
        name = parameters.get("family", BETA.name)
        if not isinstance(name, str) or name not in FAMILIES:
            raise DataError(f"unknown curve family '{str(name)[:20]}'", "known: " + ", ".join(FAMILIES))
        kinds = dict.fromkeys(FAMILIES[name].parameters, "float")
        return {"family": "str", **kinds} if "family" in parameters else kinds

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Bpm:
        family = FAMILIES[values.get("family", BETA.name)]
        return cls(Curve(family, tuple(values[name] for name in family.parameters)))

    def is_sound(self) -> bool:
        family, values = self.curve
        # Only the authors' variant can give falling curves, and only in the paper's family.
        rising = family is BETA or bool(np.all(np.clip(values, family.lower, family.upper) == values))
        return rising and super().is_sound()


@method("bpm", "the paper's curve, fitted over many binnings", "Dong et al. 2025, AAAI", Bpm)
def fit(rows: Rows, options: FitOptions) -> Fitted:
    """The paper's curve (Algorithm 1; see `fit_bpm`), with TCE_bpm (Algorithm 2) in the report."""
    sample, wanted = rows.sample, options.metrics
    found = fit_bpm(
        sample,
        variant=wanted.variant,
        optimizer=options.optimizer,
        schemes=wanted.schemes,
        bins=wanted.bins,
        family=family_named(options.prior),
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
    return Fitted(Bpm(found.curve), report, tce.notices + one_outcome(rows))


@dataclass(frozen=True)
class Identity(Calibrator):
    """g(s) = s."""

    spreads: ClassVar[bool] = False
    bounded: ClassVar[bool] = False

    def __call__(self, log_odds: Floats) -> Pair:
        return sigmoid_pair(log_odds)


@method("identity", "the confidence unchanged", "-", Identity)
def fit_identity(rows: Rows, options: FitOptions) -> Fitted:
    """g(s) = s: there is nothing to fit."""
    return Fitted(Identity())
