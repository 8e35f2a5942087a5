"""What a calibrator is: a frozen dataclass whose fields are its parameters.

There are two kinds. A `Calibrator` maps the confidence of one class; a `DistributionCalibrator` maps the
scores of all classes at once. Both save their parameters as JSON and check them when they are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

import numpy as np

from bpmcli.core.curves.families import Pair
from bpmcli.core.data.sample import Floats, gap
from bpmcli.errors import DataError

PAPER = "bpm"
"""The method whose curve family can be chosen."""

LARGEST = 1e100
"""No fit gives parameters near this size, and products of larger numbers overflow."""

LEAST = 1e-15
"""No probability that a calibrator returns falls below this, so a wrong label costs at most 34.5 nats and never an
infinite log loss. In float64, 1 − 1e-15 still differs from 1."""

PROBES = np.concatenate([np.linspace(-40.0, 40.0, 81), [-700.0, 700.0]])
"""Log-odds at which loaded parameters are tried out."""


@dataclass(frozen=True)
class Calibrator:
    """Maps log-odds to a calibrated confidence. Subclasses add their parameters as fields."""

    needs_distribution: ClassVar[bool] = False
    """True for calibrators of whole distributions, which need the scores of all classes."""

    spreads: ClassVar[bool] = True
    """Whether the other classes share their probability by a fitted temperature; the identity leaves them alone."""

    bounded: ClassVar[bool] = True
    """Whether calibrated probabilities of 0 and 1 are moved inside; the identity leaves them alone."""

    def __call__(self, log_odds: Floats) -> Pair:
        """(g, 1 − g) at the given log-odds, both to full relative precision."""
        raise NotImplementedError

    def probabilities_within(self, log_odds: Floats, least: float = LEAST) -> Pair:
        """(g, 1 − g) as they are returned to users: neither is below `least`. The identity changes nothing."""
        g, miss = self(log_odds)
        if not self.bounded:
            return g, miss
        return np.clip(g, least, 1.0 - least), np.clip(miss, least, 1.0 - least)

    def distance(self, log_odds: Floats) -> Floats:
        """g − s, computed from the complements where s is near 1, so that no digits cancel."""
        return gap(log_odds, *self(log_odds))

    def parameters(self) -> dict[str, Any]:
        """The fields as JSON stores them: numbers, strings and (nested) lists.

        A field that has its default is left out, as in files from releases that did not have the field.
        """
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        return {name: _plain(value) for name, (value, default) in values.items() if value != default}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Calibrator:
        """The calibrator that `parameters` describes, bit for bit.

        Raises DataError for wrong names or types, and for parameters that fail `is_sound`.
        """
        kinds = cls.parameter_types(parameters)
        if set(parameters) != set(kinds):
            raise DataError(
                f"parameters must be {', '.join(sorted(kinds)) or 'empty'}, found {', '.join(parameters)}", "fit again"
            )
        values = {name: _checked(name, kinds[name], value) for name, value in parameters.items()}
        try:
            with np.errstate(all="ignore"):
                loaded = cls.from_values(values)
                sound = loaded.is_sound()
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise DataError(f"the parameters do not fit together: {error}", "fit again") from None
        if not sound:
            raise DataError("the parameters do not describe a valid calibrator", "fit again")
        return loaded

    @classmethod
    def parameter_types(cls, parameters: Mapping[str, Any]) -> dict[str, str]:
        """The names that the parameters must have, and their types as in the class body."""
        return {f.name: str(f.type) for f in fields(cls) if f.default is MISSING or f.name in parameters}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Calibrator:
        """The calibrator with these parameters, whose names and types were checked."""
        return cls(**values)

    def is_sound(self) -> bool:
        """Load check: g and 1 − g are probabilities over the whole range of log-odds."""
        g, miss = self(PROBES)
        return bool(np.all((g >= 0) & (g <= 1) & (np.abs(g + miss - 1.0) < 1e-6)))


@dataclass(frozen=True)
class DistributionCalibrator(Calibrator):
    """Maps the scores of all classes to calibrated log-probabilities. Subclasses add `log_probabilities`."""

    needs_distribution: ClassVar[bool] = True
    spreads: ClassVar[bool] = False
    keeps_order: ClassVar[bool] = False
    """True promises that the order of the classes never changes; the load check and the law tests check the promise."""

    @property
    def n_classes(self) -> int | None:
        """The number of classes that the parameters belong to; None if they serve any number."""
        return None

    def log_probabilities(self, logits: Floats) -> Floats:
        """Calibrated log-probabilities (N×K) from logits or log-probabilities (N×K, -inf for a probability of 0)."""
        raise NotImplementedError

    def distributions(self, logits: Floats) -> Floats:
        """The same, after checking that the scores have as many classes as the parameters."""
        wanted, found = self.n_classes, logits.shape[1]
        if wanted is not None and wanted != found:
            raise DataError(f"the calibrator was fitted to {wanted} classes, but this input has {found}", "fit again")
        return self.log_probabilities(logits)

    def __call__(self, log_odds: Floats) -> Pair:
        """Two classes: (P(y = 1), P(y = 0)) from the log-odds of y = 1."""
        log_probs = self.distributions(np.stack([np.zeros(log_odds.size), log_odds], axis=1))
        return np.exp(log_probs[:, 1]), np.exp(log_probs[:, 0])

    def is_sound(self) -> bool:
        """Load check: every row sums to 1, for scores of any size and with any class on top."""
        classes = self.n_classes or 3
        ladder = np.linspace(0.0, 1.0, classes)
        logits = PROBES[:, None] * np.stack([np.roll(ladder, i) for i in range(PROBES.size)])
        probs = np.exp(self.distributions(logits))
        if not np.all(np.abs(probs.sum(axis=1) - 1.0) < 1e-6):
            return False
        top = probs[np.arange(PROBES.size), logits.argmax(axis=1)]
        return not self.keeps_order or bool(np.all(top > probs.max(axis=1) - 1e-9))


def _checked(name: str, kind: str, value: Any) -> Any:
    """A parameter as JSON stores it, if it has the type of its field; lists become tuples."""
    if kind.startswith("tuple["):
        if not isinstance(value, list):
            raise DataError(f"parameter {name} must be a list")
        inner = kind.removeprefix("tuple[").removesuffix("]").removesuffix(", ...")
        return tuple(_checked(name, inner, item) for item in value)
    if kind == "str":
        if not isinstance(value, str):
            raise DataError(f"parameter {name} must be text")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < LARGEST:
        raise DataError(f"parameter {name} must be a number below 1e100 in size, found {str(value)[:20]}")
    if kind == "int" and not isinstance(value, int):
        raise DataError(f"parameter {name} must be a whole number, found {str(value)[:20]}")
    return value


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
