"""How much a metric rose between two runs that do not share their rows, with a confidence interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bpmcli.core.curves.averaged.tce import posterior_tce
from bpmcli.core.data.normal import normal_quantile
from bpmcli.core.data.sample import Sample
from bpmcli.core.metrics.intervals import resampled_values
from bpmcli.core.metrics.registry import METRICS, MetricOptions
from bpmcli.core.metrics.resamples import itself, merged


class Increase(NamedTuple):
    """The change of a metric from the first run to the second."""

    low: float | None
    high: float | None
    """Confidence limits of the change; None where a metric is missing."""
    paired: bool
    """Whether the runs were compared row by row."""


def unpaired_increases(
    first: Sample, second: Sample, values: Mapping[str, tuple[float | None, float | None]], options: MetricOptions,
    level: float, runs: int = 1000, seed: int = 0,
) -> dict[str, Increase]:  # fmt: skip
    """The increase of every metric between independent samples: d ± z √(se₁² + se₂²).

    `values` holds the metrics of both runs. Noise raises plug-in metrics, and more so with fewer rows. What it adds to
    each run is estimated by how much resamples score above their sample, and subtracted from the difference.
    """
    known = [name for name, pair in values.items() if None not in pair]
    moments = [_moments(sample, known, options, runs, seed + i) for i, sample in enumerate((first, second))]
    z = normal_quantile(0.5 + level / 2)
    out = {name: Increase(None, None, False) for name in values}
    for name in known:
        (bias, error), (other_bias, other_error) = moments[0][name], moments[1][name]
        before, after = values[name]
        assert before is not None
        assert after is not None
        middle = after - before - (other_bias - bias)
        half = z * float(np.hypot(error, other_error))
        out[name] = Increase(min(middle - half, after - before), max(middle + half, after - before), False)
    return out


def _moments(
    sample: Sample, names: Sequence[str], options: MetricOptions, runs: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Bias and standard deviation of every metric over resamples, or over draws from its posterior."""
    cells = merged(sample)
    drawn_of = resampled_values(cells, [n for n in names if not METRICS[n].posterior], options, runs, seed)
    found = {}
    for name in names:
        if METRICS[name].posterior:
            drawn, bias = posterior_tce(sample, options.p, seed), 0.0
        else:
            drawn = drawn_of[name][~np.isnan(drawn_of[name])]
            base = float(METRICS[name].on_resamples(itself(cells), options)[0])
            bias = 0.0 if METRICS[name].debiased or not drawn.size else float(drawn.mean()) - base
        found[name] = (bias, float(drawn.std(ddof=1)) if drawn.size > 1 else 0.0)
    return found
