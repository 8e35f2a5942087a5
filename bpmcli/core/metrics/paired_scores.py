"""Two models on the same rows: the standard error of the difference of scores and class-wise errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bpmcli.core.data.rows import Rows
from bpmcli.core.metrics.influence import KNOWN, influences, slope, standard_error
from bpmcli.core.metrics.registry import MetricOptions


def is_score(name: str) -> bool:
    """Whether the metric's standard error is found here, and not from resampled outcomes."""
    return name in KNOWN


def score_errors(
    first: Rows, second: Rows, values: Mapping[str, tuple[float, float]], options: MetricOptions
) -> dict[str, float]:
    """The standard error of the difference of every score in `values`, which holds the scores of both models."""
    names: Sequence[str] = list(values)
    before, after = (influences(rows, names, options) for rows in (first, second))
    return {
        name: slope(*values[name], after[name].power) * standard_error(after[name].rows - before[name].rows, second)
        for name in names
    }
