"""The bins behind a reliability diagram, one record each, for any plotter."""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.binning import bins_between, mass_edges, width_edges
from bpmcli.core.data.normal import Z95
from bpmcli.core.data.sample import Floats, Ints, Sample


def bin_table(sample: Sample, n_bins: int = 15, binning: str = "mass") -> list[dict[str, float]]:
    """One record per bin: its range, rows, mean confidence, accuracy with the Wilson 95 % interval, and gap.

    `pandas.DataFrame(bin_table(sample))` makes a table of it. Wilson 1927:
    (a + z²/2n ± z √(a(1 − a)/n + z²/4n²)) / (1 + z²/n) for an accuracy a of n rows.

    >>> from bpmcli import bin_table, sample_from_confidences
    >>> bins = bin_table(sample_from_confidences([0.6, 0.7, 0.8, 0.9], [1, 0, 1, 1]), n_bins=2)
    >>> [(b["rows"], round(b["confidence"], 2), round(b["gap"], 2)) for b in bins]
    [(2.0, 0.65, -0.15), (2.0, 0.85, 0.15)]
    """
    edges: Floats | Ints
    if binning == "width":
        edges, index = width_edges(sample, n_bins)
        lower, upper = index / n_bins, (index + 1) / n_bins
    else:
        edges = mass_edges(sample, n_bins)
        last = sample.mass.size - 1
        first = np.searchsorted(sample.mass_before, edges[:-1], side="right") - 1
        final = np.searchsorted(sample.mass_before, edges[1:], side="left") - 1
        lower = sample.confidences[np.clip(first, 0, last)]
        upper = sample.confidences[np.clip(final, 0, last)]
    bins = bins_between(edges[:-1], edges[1:], sample)
    rows = bins.mass * (sample.effective_n / sample.n)
    centre = (bins.accuracies + Z95**2 / (2 * rows)) / (1 + Z95**2 / rows)
    spread = np.maximum(bins.accuracies * (1 - bins.accuracies), 0) / rows + Z95**2 / (4 * rows**2)
    half = Z95 * np.sqrt(spread) / (1 + Z95**2 / rows)
    columns = {
        "lower": lower,
        "upper": upper,
        "rows": bins.mass,
        "confidence": bins.confidences,
        "accuracy": bins.accuracies,
        "accuracy_low": np.clip(centre - half, 0, 1),
        "accuracy_high": np.clip(centre + half, 0, 1),
        "gap": bins.gaps,
    }
    return [dict(zip(columns, map(float, values), strict=True)) for values in zip(*columns.values(), strict=True)]
