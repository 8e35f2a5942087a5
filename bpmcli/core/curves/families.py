"""Curve families: g(s) = link⁻¹(θ · columns(s)), each a generalised linear model.

The paper's family (Eq. prior_function) is `beta`. The others are link × transform as in Roelofs et
al. 2022, section 6, from which the paper took D1–D5. Curves are functions of the log-odds and give
g and 1 − g separately, each to full relative precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bpmcli.core.data.names import known_name
from bpmcli.core.data.sample import Floats, gap, sigmoid_pair
from bpmcli.errors import UsageError
from bpmcli.record import Record

if TYPE_CHECKING:
    import numpy.typing as npt

Pair = tuple[Floats, Floats]
"""(g, 1 − g): a curve's values and their complements, each to full relative precision."""


def log_confidence(x: Floats) -> Floats:
    """log s from log-odds."""
    return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))


def log_complement(x: Floats) -> Floats:
    """log(1 − s) from log-odds."""
    return log_confidence(-x)


def log_odds_at(confidences: npt.ArrayLike) -> Floats:
    """Log-odds of plain confidences; for 0 and 1 they are ±10⁶, which stands for infinity."""
    s = np.asarray(confidences, dtype=np.float64)
    with np.errstate(divide="ignore"):
        x: Floats = np.log(s) - np.log1p(-s)
    return np.clip(x, -1e6, 1e6)


class Link(Record):
    """An inverse link: η → (g, 1 − g), and with its first two derivatives."""

    inverse: Callable[[Floats], Pair]
    derivatives: Callable[[Floats], tuple[Floats, Floats, Floats, Floats]]
    """η → (g, 1 − g, g′, g″)."""
    forward: Callable[[Floats], Floats]
    """Log-odds of g → η."""


def _logit_derivatives(eta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    g, miss = sigmoid_pair(eta)
    slope = g * miss
    return g, miss, slope, slope * (miss - g)


def _log_inverse(eta: Floats) -> Pair:
    eta = np.minimum(eta, 0.0)  # a probability stops at 1
    return np.exp(eta), 0.0 - np.expm1(eta)  # never -0.0


def _log_derivatives(eta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    g, miss = _log_inverse(eta)
    slope = np.where(eta < 0.0, g, 0.0)
    return g, miss, slope, slope


def _logflip_inverse(eta: Floats) -> Pair:
    miss, g = _log_inverse(eta)
    return g, miss


def _logflip_derivatives(eta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    miss, g, slope, _ = _log_derivatives(eta)
    return g, miss, -slope, -slope


TRANSFORMS: dict[str, Callable[[Floats], Floats]] = {
    "logit": lambda x: x,
    "log": log_confidence,
    "logflip": log_complement,
}

LINKS = {
    "logit": Link(sigmoid_pair, _logit_derivatives, TRANSFORMS["logit"]),
    "log": Link(_log_inverse, _log_derivatives, TRANSFORMS["log"]),
    "logflip": Link(_logflip_inverse, _logflip_derivatives, TRANSFORMS["logflip"]),
}


class Family(Record):
    """A curve family; `lower` and `upper` keep its curves non-decreasing."""

    name: str
    parameters: tuple[str, ...]
    link: Link
    columns: Callable[[Floats], Floats]
    """Log-odds → one row per parameter."""
    identity: tuple[float, ...] | None
    """The parameters for which g(s) = s, if there are any."""
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    formula: str

    def __reduce__(self) -> tuple[Callable[[str], Family], tuple[str]]:
        # Families travel to worker processes by name.
        return family_named, (self.name,)


FAMILIES: dict[str, Family] = {}


def family_named(name: str) -> Family:
    """The family with this name; raises a UsageError that lists the known names."""
    return FAMILIES.get(name) or FAMILIES[known_name(name, FAMILIES, "curve family")]


_FREE = np.inf


def _add(family: Family) -> Family:
    FAMILIES[family.name] = family
    return family


BETA = _add(
    Family(
        "beta",
        ("alpha", "beta", "c"),
        LINKS["logit"],
        lambda x: np.stack([log_confidence(x), -log_complement(x), np.full_like(x, -1.0)]),
        (1.0, 1.0, 0.0),
        (0.0, 0.0, -_FREE),
        (_FREE, _FREE, _FREE),
        "1 / (1 + s^-alpha (1-s)^beta e^c)",
    )
)

IDENTITY = _add(
    Family(
        "identity",
        (),
        LINKS["logit"],
        lambda x: x[None, :],
        (),
        (),
        (),
        "s",
    )
)


_FORMULAS = {"logit": "1 / (1 + e^-({}))", "log": "min(1, e^({}))", "logflip": "max(0, 1 - e^({}))"}
_TERMS = {"logit": "b0 + b1 log(s/(1-s))", "log": "b0 + b1 log(s)", "logflip": "b0 + b1 log(1-s)"}


def _glm(link: str, transform: str) -> Family:
    # log(1-s) falls as s rises, and so does the inverse link of log(1-g).
    rising = (link == "logflip") == (transform == "logflip")
    return Family(
        f"{link}-{transform}",
        ("b0", "b1"),
        LINKS[link],
        lambda x: np.stack([np.ones_like(x), TRANSFORMS[transform](x)]),
        (0.0, 1.0) if link == transform else None,
        (-_FREE, 0.0 if rising else -_FREE),
        (_FREE, _FREE if rising else 0.0),
        _FORMULAS[link].format(_TERMS[transform]),
    )


for _link in LINKS:
    for _transform in TRANSFORMS:
        _add(_glm(_link, _transform))


class Curve(NamedTuple):
    """A calibration curve: a family and its parameters."""

    family: Family
    params: tuple[float, ...]

    def __call__(self, log_odds: Floats) -> Pair:
        """(g, 1 − g) at the given log-odds."""
        columns = self.family.columns(log_odds)
        eta = np.zeros_like(columns[0])
        # Term by term rather than by BLAS, whose last bit depends on the position of a row in the array.
        for parameter, column in zip(self.params or (1.0,), columns, strict=True):
            if parameter:  # a parameter of zero leaves out its column, even where that is infinite
                eta += parameter * column
        return self.family.link.inverse(eta)

    def at(self, confidences: Floats) -> Floats:
        """g at plain confidences, including 0 and 1."""
        return self(log_odds_at(confidences))[0]

    def distance(self, log_odds: Floats) -> Floats:
        """g − s at the given log-odds."""
        return gap(log_odds, *self(log_odds))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={p:.6g}" for name, p in zip(self.family.parameters, self.params, strict=True))
        return f"Curve({self.family.name}: {values or 'no parameters'})"

    def __str__(self) -> str:
        return self.family.name + ":" * bool(self.params) + ",".join(f"{p:.6g}" for p in self.params)


def parse_curve(text: str) -> Curve:
    """`FAMILY:p1,p2,…`, for example `logit-logit:-0.88,0.49`."""
    name, _, values = text.partition(":")
    family = family_named(name)
    wanted = f"write {family.name}:" + ",".join(f"{value:g}" for value in family.identity or (0.5,) * len(family.lower))
    try:
        params = tuple(float(v) for v in values.split(",")) if values else ()
    except ValueError:
        raise UsageError(f"curve '{text}': parameters must be numbers", wanted) from None
    if len(params) != len(family.parameters) or not all(np.isfinite(params)):
        raise UsageError(f"curve '{text}': {name} takes {len(family.parameters)} finite parameters", wanted)
    return Curve(family, params)
