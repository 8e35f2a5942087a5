"""The noise floor: what a perfectly calibrated model with these confidences would score."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bpmcli.core.data.sample import Floats, Sample
from bpmcli.core.metrics.registry import MetricOptions, measure


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
        # A cell of a summary holds many rows: draw as many as its weight is worth.
        rows = np.maximum(1, np.rint(sample.mass * (sample.effective_n / sample.n))).astype(np.int64)
        return rng.binomial(rows, sample.confidences) * (sample.mass / rows)
    if sample.untied or sample.weighted:
        return (rng.random(sample.mass.size) >= sample.complements) * sample.mass
    return rng.binomial(sample.mass.astype(np.int64), sample.confidences).astype(np.float64)


def noise_floor(
    sample: Sample, names: Iterable[str], options: MetricOptions, runs: int = 200, seed: int = 0
) -> dict[str, Floor | None]:
    """Each metric over `runs` simulated outcomes; None where it cannot be computed."""
    wanted = list(names)
    rng = np.random.default_rng(seed)
    values: dict[str, list[float]] = {name: [] for name in wanted}
    for _ in range(runs):
        for name, measured in measure(sample.with_hits(calibrated_hits(sample, rng)), wanted, options).items():
            if measured.value is not None:
                values[name].append(measured.value)
    observed = measure(sample, wanted, options)
    out: dict[str, Floor | None] = {}
    for name in wanted:
        score, drawn = observed[name].value, np.array(values[name])
        if not drawn.size:
            out[name] = None
            continue
        p = None if score is None else float((1 + np.sum(drawn >= score)) / (1 + drawn.size))
        out[name] = Floor(float(drawn.mean()), float(np.quantile(drawn, 0.95)), p)
    return out
