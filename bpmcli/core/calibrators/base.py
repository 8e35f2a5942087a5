"""What a calibrator is: a frozen dataclass whose fields are its parameters, and a way to fit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from bpmcli.core.curves.families import BETA, Pair, family_named
from bpmcli.core.data.notices import Notice
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats, sigmoid
from bpmcli.core.metrics import MetricOptions
from bpmcli.errors import DataError, UsageError

PAPER = "bpm"
"""The method whose curve family can be chosen."""

LARGEST = 1e100
"""No fit gives parameters near this; beyond it products overflow."""


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
        """The inverse, bit for bit. Parameters that make no curve are a DataError."""
        kinds = cls._kinds(parameters)
        if set(parameters) != set(kinds):
            raise DataError(
                f"parameters must be {', '.join(sorted(kinds)) or 'empty'}, found {', '.join(parameters)}", "fit again"
            )
        values = {name: _checked(name, kinds[name], value) for name, value in parameters.items()}
        try:
            with np.errstate(all="ignore"):
                loaded = cls._of(values)
                sound = loaded._makes_sense()
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise DataError(f"the parameters do not fit together: {error}", "fit again") from None
        if not sound:
            raise DataError("the parameters make no calibration curve", "fit again")
        return loaded

    @classmethod
    def _kinds(cls, parameters: Mapping[str, Any]) -> dict[str, str]:
        """The names that the parameters must have, and their types."""
        return {f.name: str(f.type) for f in fields(cls)}

    @classmethod
    def _of(cls, values: Mapping[str, Any]) -> Calibrator:
        """The calibrator with these parameters, whose names and types are right."""
        return cls(**values)

    def _makes_sense(self) -> bool:
        """Probabilities come out over the whole range of log-odds."""
        x = np.concatenate([np.linspace(-40.0, 40.0, 81), [-700.0, 700.0]])
        if self.needs_distribution:
            logits = np.stack([np.zeros(x.size), x, x / 2], axis=1)
            probs = np.exp(self.log_probabilities(logits))
            top = probs[np.arange(x.size), logits.argmax(axis=1)]
            return bool(np.all(np.abs(probs.sum(axis=1) - 1.0) < 1e-6) and np.all(top > probs.max(axis=1) - 1e-9))
        g, miss = self(x)
        return bool(np.all((g >= 0) & (g <= 1) & (np.abs(g + miss - 1.0) < 1e-6)))


def _checked(name: str, kind: str, value: Any) -> Any:
    """A field as JSON holds it, if it is what the field's type says."""
    if kind.startswith("tuple"):
        if not isinstance(value, list):
            raise DataError(f"parameter {name} must be a list")
        inner = "str" if "str" in kind else "float"
        return tuple(_checked(name, inner, item) for item in value)
    if kind == "str":
        if not isinstance(value, str):
            raise DataError(f"parameter {name} must be text")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < LARGEST:
        raise DataError(f"parameter {name} must be a number of sane size, found {str(value)[:20]}")
    return value


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
    prior: str = BETA.name
    """Curve family of bpm."""


Fit = Callable[[Rows, FitOptions], Fitted]
Draws = Callable[[Rows, Floats, int, np.random.Generator], Floats]
"""Rows, log-odds, number, random numbers → that many curves from the posterior: g at every log-odds."""


@dataclass(frozen=True)
class Method:
    """A registry entry: what `--list` says, how to fit it, and the class that holds its parameters."""

    name: str
    summary: str
    reference: str
    calibrator: type[Calibrator]
    fit: Fit
    draws: Draws | None = None
    """Where the fit knows its own uncertainty."""

    @property
    def needs_distribution(self) -> bool:
        return self.calibrator.needs_distribution


METHODS: dict[str, Method] = {}


def method(
    name: str, summary: str, reference: str, calibrator: type[Calibrator], draws: Draws | None = None
) -> Callable[[Fit], Fit]:
    """Register a fit function under its command-line name."""

    def register(fit: Fit) -> Fit:
        METHODS[name] = Method(name, summary, reference, calibrator, fit, draws)
        return fit

    return register


def method_named(name: str) -> Method:
    """The entry, or a usage error that lists what there is. `bpm:FAMILY` is bpm with that curve family."""
    head, _, prior = name.partition(":")
    if head not in METHODS or (prior and head != PAPER):
        raise UsageError(f"unknown method '{name}'", "choose from " + ", ".join(METHODS))
    entry = METHODS[head]
    if not prior:
        return entry
    family = family_named(prior)
    return replace(entry, name=name, fit=lambda rows, options: entry.fit(rows, replace(options, prior=family.name)))


def fit_calibrator(name: str, rows: Rows, options: FitOptions | None = None) -> Fitted:
    """Fit a method by name to rows."""
    entry = method_named(name)
    if entry.needs_distribution and rows.logits is None:
        raise DataError(
            f"{name} needs the scores of all classes, and this input has only confidences",
            "give logits or probabilities, or choose another --method",
        )
    return entry.fit(rows, options or FitOptions())
