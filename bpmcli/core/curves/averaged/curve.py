"""The averaged calibration curve: Σ w_k g_k over components, monotone, continuous and in [0, 1]."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bpmcli.core.curves.averaged.monotone import NOWHERE, Stretch
from bpmcli.core.curves.averaged.shapes import Component
from bpmcli.core.curves.families import Pair, log_odds_at
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, Sample, gap

CHUNK = 1 << 15


@dataclass(frozen=True)
class AveragedCurve:
    """Σ w_k g_k, replaced by a non-decreasing curve in the stretch where that sum falls."""

    components: tuple[Component, ...]
    weights: tuple[float, ...]
    stretch: Stretch = NOWHERE

    def __call__(self, log_odds: Floats) -> Pair:
        """(g, 1 − g) at the given log-odds."""
        x = np.clip(np.asarray(log_odds, dtype=np.float64), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
        g, miss = self.average(x)
        self.stretch.replace(x, g, miss)
        return g, miss

    def average(self, x: Floats) -> Pair:
        """Σ w_k g_k, which may fall. g and 1 − g are divided by their sum, as rounding can make it 1 + 4e-16."""
        g, miss = np.zeros(x.size), np.zeros(x.size)
        for start in range(0, x.size, CHUNK):
            part = slice(start, start + CHUNK)
            for component, weight in zip(self.components, self.weights, strict=True):
                component_g, component_miss = component(x[part])
                g[part] += weight * component_g
                miss[part] += weight * component_miss
        total = g + miss
        return g / total, miss / total

    @property
    def bends(self) -> Floats:
        """Log-odds at which the curve may have a kink: knots of its components, and the stretch where it is flat."""
        return np.concatenate([*(np.array(c.knots) for c in self.components), np.array(self.stretch.log_odds)])

    def at(self, confidences: Floats) -> Floats:
        """g at plain confidences, including 0 and 1."""
        return self(log_odds_at(confidences))[0]

    def distance(self, log_odds: Floats) -> Floats:
        """g − s at the given log-odds."""
        return gap(log_odds, *self(log_odds))

    @cached_property
    def shape_weights(self) -> dict[str, float]:
        """Weight by shape, largest first."""
        return _grouped((c.shape for c in self.components), self.weights)

    @cached_property
    def end_weights(self) -> dict[str, float]:
        """Weight by end: free (""), ceiling, floor."""
        return _grouped((c.end for c in self.components), self.weights)

    def explain(self, sample: Sample) -> str:
        """The curve in a sentence, over the confidences of a sample."""
        from bpmcli.core.curves.averaged.explain import explain

        return explain(self, sample)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{shape} {100 * weight:.0f} %" for shape, weight in self.shape_weights.items())
        return f"AveragedCurve({len(self.components)} components: {shapes})"


def _grouped(names: Iterable[str], weights: Iterable[float]) -> dict[str, float]:
    total: dict[str, float] = {}
    for name, weight in zip(names, weights, strict=True):
        total[name] = total.get(name, 0.0) + weight
    return dict(sorted(total.items(), key=lambda item: -item[1]))
