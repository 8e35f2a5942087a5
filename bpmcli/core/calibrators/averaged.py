"""The calibrator of `bpm-averaged`: a Bayesian average over curve shapes (see `core.curves.averaged`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bpmcli.core.calibrators.base import Calibrator
from bpmcli.core.calibrators.registry import FitOptions, Fitted, method
from bpmcli.core.curves.averaged.curve import AveragedCurve, Stretch
from bpmcli.core.curves.averaged.mixture import curve_draws, fit_averaged
from bpmcli.core.curves.averaged.shapes import ENDS, SHAPES, Component
from bpmcli.core.curves.averaged.tce import tce_averaged
from bpmcli.core.curves.families import Pair
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.data.sample import Floats
from bpmcli.errors import DataError

SLOTS = 4
"""Parameters of a component that has a formula: see `SLOTS` in `core.curves.averaged.shapes`."""


@dataclass(frozen=True)
class Averaged(Calibrator):
    """g = Σ w_k g_k, the weighted mean of the components' curves.

    `thetas` holds the parameters of all components, one after the other: four for a shape with a formula, and shift,
    slopes and (if there is one) ceiling for `bends`.
    """

    shapes: tuple[str, ...]
    ends: tuple[str, ...]
    weights: tuple[float, ...]
    thetas: tuple[float, ...]
    knots: tuple[float, ...]
    """Knots of `bends`, in log-odds."""
    flat_log_odds: tuple[float, ...]
    flat_eta: tuple[float, ...]
    """Points that replace the average where it would fall: log-odds of the confidence, and calibrated log-odds."""

    def __post_init__(self) -> None:
        if unknown := {*self.shapes, *self.ends} - {*SHAPES, "bends", *ENDS}:
            raise DataError(f"the averaged curve has an unknown shape or end: {', '.join(unknown)}", "fit again")
        if not len(self.shapes) == len(self.ends) == len(self.weights) > 0 or sum(self._sizes) != len(self.thetas):
            raise DataError("shapes, ends, weights and thetas of the averaged curve do not fit together", "fit again")
        if min(self.weights) < 0 or abs(sum(self.weights) - 1.0) > 1e-6:
            raise DataError("the weights of the averaged curve do not add up to 1", "fit again")
        if any(np.any(np.diff(values) <= 0) for values in (self.knots, self.flat_log_odds)):
            raise DataError("knots or flat_log_odds of the averaged curve are not in ascending order", "fit again")
        if len(self.flat_log_odds) != len(self.flat_eta):
            raise DataError("flat_log_odds and flat_eta of the averaged curve do not fit together", "fit again")

    def is_sound(self) -> bool:
        """Load check: in addition, the curve must not fall at or between the points where a component bends."""
        x = np.unique(np.concatenate([self.knots, self.flat_log_odds, np.linspace(-40.0, 40.0, 801), [-700.0, 700.0]]))
        g, miss = self(x)
        return super().is_sound() and bool(np.all(np.diff(g) >= -1e-9) and np.all(np.diff(miss) <= 1e-9))

    @property
    def _sizes(self) -> list[int]:
        bends = len(self.knots) + 2
        kinds = zip(self.shapes, self.ends, strict=False)  # __post_init__ checks whether they fit together
        return [bends + (end != "") if shape == "bends" else SLOTS for shape, end in kinds]

    @cached_property
    def curve(self) -> AveragedCurve:
        """The calibrator's curve."""
        components, start = [], 0
        for shape, end, size in zip(self.shapes, self.ends, self._sizes, strict=True):
            stop = start + size
            components.append(Component(shape, end, self.thetas[start:stop], self.knots if shape == "bends" else ()))
            start = stop
        return AveragedCurve(tuple(components), self.weights, Stretch(self.flat_log_odds, self.flat_eta))

    def __call__(self, log_odds: Floats) -> Pair:
        return self.curve(log_odds)


def calibrator_of(curve: AveragedCurve) -> Averaged:
    """The calibrator that holds the curve's parameters."""
    components = curve.components
    return Averaged(
        tuple(m.shape for m in components),
        tuple(m.end for m in components),
        curve.weights,
        tuple(value for m in components for value in m.theta),
        next((m.knots for m in components if m.knots), ()),
        *curve.stretch,
    )


def posterior_draws(rows: Rows, log_odds: Floats, runs: int, rng: np.random.Generator) -> Floats:
    """Draws × log-odds: g of curves drawn from the posterior, none of which falls (see `curve_draws`)."""
    return curve_draws(rows.sample, log_odds, runs, rng)


@method(
    "bpm-averaged", "Bayesian average over curve shapes", "bpmcli; MacKay 1992", Averaged,
    draws=posterior_draws, counts_rows=True,
)  # fmt: skip
def fit(rows: Rows, options: FitOptions) -> Fitted:
    """The averaged curve of these rows. The report has the weights of the shapes, and a sentence about the curve."""
    sample = rows.sample
    curve = fit_averaged(sample)
    report = {
        "explanation": curve.explain(sample, rows.target == EVENT),
        "shapes": curve.shape_weights,
        "ends": {end or "free": weight for end, weight in curve.end_weights.items()},
        "tce": {"p": options.metrics.p, "value": tce_averaged(sample, options.metrics.p).value},
    }
    return Fitted(calibrator_of(curve), report)
