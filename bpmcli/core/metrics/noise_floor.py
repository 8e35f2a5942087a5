"""The noise floor: what a perfectly calibrated model with these confidences would score."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bpmcli.core.data.sample import Floats, Sample
from bpmcli.core.metrics.registry import METRICS, Metric, MetricOptions, measure

if TYPE_CHECKING:
    from bpmcli.core.data.rows import Rows


@dataclass(frozen=True)
class Floor:
    """What a metric scores under perfect calibration."""

    mean: float
    high: float
    """Exceeded by 5 % of perfectly calibrated models."""
    p_value: float | None
    """Share of perfectly calibrated models that score at least as high as the sample."""


def calibrated_hits(sample: Sample, rng: np.random.Generator) -> Floats:
    """Outcomes drawn with probability ŝ, cell by cell. A weighted cell is drawn as one row."""
    if sample.summarised and sample.weighted:
        # A cell of a summary holds many rows, so its effective number of rows is drawn.
        rows = np.maximum(1, np.rint(sample.mass * (sample.effective_n / sample.n))).astype(np.int64)
        return rng.binomial(rows, sample.confidences) * (sample.mass / rows)
    if sample.untied or sample.weighted:
        return (rng.random(sample.mass.size) >= sample.complements) * sample.mass
    return rng.binomial(sample.mass.astype(np.int64), sample.confidences).astype(np.float64)


def noise_floor(
    sample: Sample,
    names: Iterable[str],
    options: MetricOptions,
    runs: int = 200,
    seed: int = 0,
    rows: Rows | None = None,
) -> dict[str, Floor | None]:
    """Each metric over `runs` simulated outcomes; None where it cannot be computed.

    For metrics of whole distributions, labels are drawn from the distributions of the `rows`.
    """
    wanted = list(names)
    rng = np.random.default_rng(seed)
    values: dict[str, list[float]] = {name: [] for name in wanted}
    whole = [name for name in wanted if METRICS[name].needs_classes and not METRICS[name].is_test]
    of_confidence = [name for name in wanted if not METRICS[name].needs_classes]
    for _ in range(runs):
        found = measure(sample.with_hits(calibrated_hits(sample, rng)), of_confidence, options)
        for name, measured in found.items():
            if measured.value is not None:
                values[name].append(measured.value)
    if rows is not None and rows.scores is not None and whole:
        from bpmcli.core.metrics.canonical import calibrated_rows

        for simulated in calibrated_rows(rows, runs, rng):
            for name, measured in measure(sample, whole, options, simulated).items():
                if measured.value is not None:
                    values[name].append(measured.value)
    observed = measure(sample, wanted, options, rows)
    return {name: _floor(METRICS[name], observed[name].value, np.array(values[name])) for name in wanted}


def _floor(entry: Metric, value: float | None, drawn: Floats) -> Floor | None:
    """The floor from the values of simulated outcomes, and the P-value of the observed one."""
    if not drawn.size:
        return None
    p = None
    if value is not None:
        worse = drawn <= value if entry.higher_is_better else drawn >= value
        p = float((1 + np.sum(worse)) / (1 + drawn.size))
    return Floor(float(drawn.mean()), float(np.quantile(drawn, 0.95)), p)
