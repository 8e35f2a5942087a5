"""The registry of calibration methods: what an entry holds, and how a method is fitted by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bpmcli.core.calibrators.base import PAPER, Calibrator
from bpmcli.core.curves.families import BETA, family_named
from bpmcli.core.data.names import known_name
from bpmcli.core.data.notices import Notice
from bpmcli.core.data.rows import EVENT, Rows, SummarisedRows
from bpmcli.core.data.sample import Floats
from bpmcli.core.metrics import MetricOptions
from bpmcli.errors import DataError, UsageError


@dataclass(frozen=True)
class Fitted:
    """A calibrator, a report of its fit (ready for JSON), and notices for the user."""

    calibrator: Calibrator
    report: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class FitOptions:
    """Options of `fit` that a method may use."""

    metrics: MetricOptions = field(default_factory=MetricOptions)
    """Binnings and variant of bpm, and the p of its error."""
    optimizer: str = "newton"
    """`newton` or, as in the paper, `nelder-mead` (bpm)."""
    n_bins: int = 15
    """Bins of histogram."""
    prior: str = BETA.name
    """Curve family of bpm."""


Fit = Callable[[Rows, FitOptions], Fitted]
Draws = Callable[[Rows, Floats, int, np.random.Generator], Floats]
"""(rows, log-odds, number of draws, random numbers) → g at every log-odds for each curve drawn from the posterior."""


@dataclass(frozen=True)
class Method:
    """A registry entry: what `--method list` says, how to fit it, and the class that holds its parameters."""

    name: str
    summary: str
    reference: str
    calibrator: type[Calibrator]
    fit: Fit
    draws: Draws | None = None
    """Draws from the posterior, for methods that have one."""
    counts_rows: bool = False
    """The number of rows changes the fit (a prior or a penalty), so a row of weight 2 is not the same as two rows."""

    @property
    def needs_distribution(self) -> bool:
        return self.calibrator.needs_distribution


METHODS: dict[str, Method] = {}


def method(name: str, summary: str, reference: str, calibrator: type[Calibrator], **more: Any) -> Callable[[Fit], Fit]:
    """Decorator that registers a fit function under its command-line name; `more` are further fields of `Method`."""

    def register(fit: Fit) -> Fit:
        METHODS[name] = Method(name, summary, reference, calibrator, fit, **more)
        return fit

    return register


def method_named(name: str) -> Method:
    """The entry of this name; raises UsageError, which lists the names, if there is none. `bpm:FAMILY` is bpm with that
    curve family.

    Capitals, underscores and unambiguous abbreviations are understood: `bpm_averaged`, `temp`.
    """
    if name in METHODS:
        return METHODS[name]
    head, _, prior = name.partition(":")
    head = known_name(head, METHODS, "method")
    if prior and head != PAPER:
        raise UsageError(f"unknown method '{name}'", "choose from " + ", ".join(METHODS))
    entry = METHODS[head]
    if not prior:
        return entry
    family = family_named(prior)
    return replace(
        entry, name=f"{head}:{prior}", fit=lambda rows, options: entry.fit(rows, replace(options, prior=family.name))
    )


def fit_calibrator(name: str, rows: Rows, options: FitOptions | None = None) -> Fitted:
    """The calibrator of a method, fitted to rows, with a report of the fit and notices.

    `.calibrator(log_odds)` returns (g, 1 − g); a whole-distribution calibrator also has `log_probabilities(logits)`.
    `METHODS` lists the methods with a summary and a reference; `METHODS[name].fit.__doc__` says what is fitted.

    Raises UsageError for an unknown name, DataError if the method needs the scores of all classes and the rows do not
    have them, and FitError if the rows do not allow a trustworthy fit.

    >>> import numpy as np
    >>> from bpmcli import Rows, fit_calibrator
    >>> rows = Rows(np.array([0.0, 1.0, 2.0, 3.0] * 50), np.array([False, True, False, True] * 50))
    >>> g, miss = fit_calibrator("isotonic", rows).calibrator(np.array([1.0, 2.0]))
    >>> g.round(2)
    array([0.5, 0.5])
    """
    entry = method_named(name)
    if entry.needs_distribution:
        rows = with_distributions(rows)
    if entry.needs_distribution and rows.logits is None:
        raise DataError(
            f"{name} needs the scores of all classes, but this input has only confidences",
            "give logits or probabilities, or choose another --method, such as bpm-averaged",
        )
    return entry.fit(rows, options or FitOptions())


def with_distributions(rows: Rows) -> Rows:
    """Rows of P(y = 1) with log-odds x become rows of two classes with logits (0, x); other rows stay as they are."""
    if rows.target != EVENT or isinstance(rows, SummarisedRows):
        return rows
    logits = np.stack([np.zeros(rows.n), rows.log_odds], axis=1)
    return rows._replace(logits=logits, labels=rows.hits.astype(np.int64), predictions=np.ones(rows.n, dtype=np.int64))
