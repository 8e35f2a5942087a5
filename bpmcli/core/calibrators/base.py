"""What a calibrator is: a frozen dataclass whose fields are its parameters, and a way to fit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from bpmcli.core.families import Pair
from bpmcli.core.metrics import MetricOptions
from bpmcli.core.notices import Notice
from bpmcli.core.rows import Rows
from bpmcli.core.sample import Floats, sigmoid
from bpmcli.errors import DataError, UsageError


@dataclass(frozen=True)
class Calibrator:
    """Maps log-odds to a calibrated confidence. Subclasses add their parameters as fields."""

    needs_distribution: ClassVar[bool] = False
    """True: works on all classes at once and overrides `log_probabilities`."""

    def __call__(self, log_odds: Floats) -> Pair:
        """(g, 1 − g) at the given log-odds, both to full relative precision."""
        raise NotImplementedError

    def distance(self, log_odds: Floats) -> Floats:
        """g − s, taken on the side where it does not cancel."""
        g, miss = self(log_odds)
        return np.where(log_odds > 0, sigmoid(-log_odds) - miss, g - sigmoid(log_odds))

    def log_probabilities(self, logits: Floats) -> Floats:
        """Calibrated log-probabilities of all classes (only where `needs_distribution`)."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The fields, as JSON holds them: numbers, strings and lists."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Calibrator:
        """The inverse, bit for bit. A wrong or missing field is a DataError."""
        names = {f.name for f in fields(cls)}
        if set(parameters) != names:
            raise DataError(f"parameters must be {', '.join(sorted(names)) or 'empty'}, found {', '.join(parameters)}")
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()}
        for name, value in values.items():
            numbers = value if isinstance(value, tuple) else (value,)
            if any(isinstance(v, (int, float)) and not np.isfinite(v) for v in numbers):
                raise DataError(f"parameter {name} is not finite")
        return cls(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Fitted:
    """A calibrator, how the fit went (JSON-ready), and what to tell the user."""

    calibrator: Calibrator
    report: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class FitOptions:
    """Options of `fit` that a method may honour."""

    metrics: MetricOptions = field(default_factory=MetricOptions)
    optimizer: str = "newton"
    n_bins: int = 15


Fit = Callable[[Rows, FitOptions], Fitted]


@dataclass(frozen=True)
class Method:
    """A registry entry: what `--list` says, how to fit it, and the class that holds its parameters."""

    name: str
    summary: str
    reference: str
    calibrator: type[Calibrator]
    fit: Fit

    @property
    def needs_distribution(self) -> bool:
        return self.calibrator.needs_distribution


METHODS: dict[str, Method] = {}


def method(name: str, summary: str, reference: str, calibrator: type[Calibrator]) -> Callable[[Fit], Fit]:
    """Register a fit function under its command-line name."""

    def register(fit: Fit) -> Fit:
        METHODS[name] = Method(name, summary, reference, calibrator, fit)
        return fit

    return register


def method_named(name: str) -> Method:
    """The entry, or a usage error that lists what there is."""
    if name not in METHODS:
        raise UsageError(f"unknown method '{name}'", "choose from " + ", ".join(METHODS))
    return METHODS[name]


def fit_calibrator(name: str, rows: Rows, options: FitOptions | None = None) -> Fitted:
    """Fit a method by name to rows."""
    entry = method_named(name)
    if entry.needs_distribution and rows.logits is None:
        raise DataError(
            f"{name} needs the scores of all classes, and this input has only confidences",
            "give logits or probabilities, or choose another --method",
        )
    return entry.fit(rows, options or FitOptions())
