"""How much a metric rose between two runs that do not share their rows, with a confidence interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bpmcli.core.curves.averaged.tce import posterior_tce
from bpmcli.core.data.normal import normal_quantile
from bpmcli.core.data.sample import Floats, Sample
from bpmcli.core.metrics.intervals import resampled_values
from bpmcli.core.metrics.registry import METRICS, MetricOptions
from bpmcli.core.metrics.resamples import Resamples, draw_resamples, itself, merged

SAME_SIZE = 0.01
"""Numbers of rows that differ by less than this share count as equal."""


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

    `values` holds the metrics of both runs. Noise raises plug-in metrics, and fewer rows have more noise. So d compares
    the run with fewer rows to what the other run would score with as few rows.
    """
    known = [name for name, pair in values.items() if None not in pair]
    sizes = first.effective_n, second.effective_n
    drawn = [
        _resampled(sample, known, options, (runs, seed + i), other)
        for i, (sample, other) in enumerate(zip((first, second), sizes[::-1], strict=True))
    ]
    out = {name: Increase(None, None, False) for name in values}
    for name in known:
        (added, error), (other_added, other_error) = drawn[0][name], drawn[1][name]
        before, after = values[name]
        assert before is not None
        assert after is not None
        out[name] = increase(before, after, other_added - added, float(np.hypot(error, other_error)), level)
    return out


def increase(before: float, after: float, added: float, error: float, level: float) -> Increase:
    """The limits of an unpaired increase; `added` corrects the difference for unequal numbers of rows."""
    middle, half = after - before + added, normal_quantile(0.5 + level / 2) * error
    return Increase(min(middle - half, after - before), max(middle + half, after - before), False)


class _Fewer:
    """Draws resamples of cells that have the noise of fewer rows.

    The noise of N rows has a variance proportional to 1/N. Drawing m rows with replacement adds 1/m, so m rows give the
    noise of n < N rows if 1/m = 1/n − 1/N.
    """

    def __init__(self, cells: Sample, rows: float) -> None:
        added = max(1.0, cells.effective_n * rows / (cells.effective_n - rows))
        self.drawn_from, self.cells = cells._replace(effective_n=added), cells._replace(effective_n=rows)

    def draw(self, runs: int, rng: np.random.Generator) -> Resamples:
        drawn = draw_resamples(self.drawn_from, runs, rng)
        return Resamples(self.cells, drawn.mass, drawn.hits)


def _resampled(
    sample: Sample, names: Sequence[str], options: MetricOptions, drawing: tuple[int, int], other: float
) -> dict[str, tuple[float, float]]:
    """For every metric: what noise would add with `other` rows, and its standard deviation over resamples or draws.

    `drawing` is the number of resamples and the seed.
    """
    cells = merged(sample)
    resampled = [name for name in names if not METRICS[name].posterior]
    drawn_of = resampled_values(cells, resampled, options, *drawing)
    fewer_of = {}
    if sample.effective_n > other * (1 + SAME_SIZE):
        fewer_of = resampled_values(cells, resampled, options, *drawing, _Fewer(cells, other))
    found = {}
    for name in names:
        drawn = posterior_tce(sample, options.p, drawing[1]) if METRICS[name].posterior else _present(drawn_of[name])
        added = 0.0
        if name in fewer_of and (scored := _present(fewer_of[name])).size:
            added = float(scored.mean()) - float(METRICS[name].on_resamples(itself(cells), options)[0])
        found[name] = (added, float(drawn.std(ddof=1)) if drawn.size > 1 else 0.0)
    return found


def _present(values: Floats) -> Floats:
    return values[~np.isnan(values)]
