"""What a baseline keeps about metrics of whole distributions, and how much they rose above it.

The scores of all classes would be too much to keep. The influence of each row on the metric suffices for a comparison
row by row, and its standard error for one without. Class-wise errors are raised by noise, so what the noise of fewer
rows would add is kept too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bpmcli.core.data.normal import normal_quantile
from bpmcli.core.data.rows import Rows
from bpmcli.core.data.sample import Floats
from bpmcli.core.metrics.increase import Increase, increase
from bpmcli.core.metrics.influence import FEWER, KNOWN, Influence, influences, noise_of_fewer, slope, standard_error
from bpmcli.core.metrics.registry import METRICS, MetricOptions
from bpmcli.errors import DataError
from bpmcli.io.packed import HINT, pack, unpack

ABSENT = 3e38
"""Stands for the influence of a row that does not count; a file holds only finite numbers."""

Record = Mapping[str, Any]


def is_whole(name: str) -> bool:
    """Whether the metric is about whole distributions, and not a P-value: such a metric is compared here."""
    return METRICS[name].needs_classes and not METRICS[name].is_test


def kept_whole(rows: Rows, names: Sequence[str], options: MetricOptions, with_rows: bool) -> tuple[Any, Any]:
    """For the metrics `names`: their standard errors and noise, and the influence of each row if it is kept.

    A metric whose influences are not known has neither.
    """
    found = influences(rows, [name for name in names if name in KNOWN], options)
    whole = {
        name: {
            "error": standard_error(one.rows, rows),
            "noise": None if one.noise is None else pack(one.noise),
        }
        for name, one in found.items()
    }
    return whole, {name: pack(_storable(one.rows), 4) for name, one in found.items()} if with_rows else None


def _storable(values: Floats) -> Floats:
    return np.where(np.isnan(values), ABSENT, values)


def _rounded(values: Floats) -> Floats:
    """The values rounded as a baseline stores them, so that equal rows cancel exactly."""
    return np.asarray(values, dtype=np.float32).astype(np.float64)


class Runs(NamedTuple):
    """Two runs: what the baseline keeps, and the rows of this run."""

    stored: Record
    rows: Rows
    """In the order of the stored rows, if both runs have the same rows."""
    same_rows: bool
    effective_n: tuple[float, float]
    save_again: str
    """A hint: the command that writes a baseline with everything."""

    def increases(
        self, values: Mapping[str, tuple[float | None, float | None]], options: MetricOptions, level: float
    ) -> dict[str, Increase]:
        """The increase of every metric in `values`, which holds the metrics of both runs."""
        out = {name: Increase(None, None, self.same_rows) for name in values}
        known = {n: (a, b) for n, (a, b) in values.items() if n in KNOWN and a is not None and b is not None}
        for name, (before, _) in known.items():
            if name not in (self.stored.get("whole") or {}):
                raise DataError(f"the baseline has {name}, but not its uncertainty", self.save_again)
            if not 0 <= before <= METRICS[name].most:
                raise DataError(f"metrics.{name}.value: cannot be {before:g}", HINT)
        own = influences(self.rows, list(known), options)
        for name, (before, after) in known.items():
            found = self._paired(name, before, after, own[name], level) if self.same_rows else None
            out[name] = found or self._unpaired(name, before, after, own[name], level)
        return out

    def _paired(self, name: str, before: float, after: float, own: Influence, level: float) -> Increase | None:
        """d ± z se, where se is the standard error of the mean difference of influences; None if no rows are stored."""
        text = (self.stored["rows"].get("whole") or {}).get(name)
        if text is None:
            return None
        where = f"rows.whole.{name}"
        first = unpack(text, where, 4)
        if first.size != self.rows.n:
            raise DataError(f"{where}: its length differs from the number of rows", HINT)
        first[first >= ABSENT * (1 - 1e-6)] = np.nan
        error = slope(before, after, own.power) * standard_error(_rounded(own.rows) - first, self.rows)
        half = normal_quantile(0.5 + level / 2) * error
        return Increase(after - before - half, after - before + half, True)

    def _unpaired(self, name: str, before: float, after: float, own: Influence, level: float) -> Increase:
        """d ± z √(se₁² + se₂²), where d is the difference if both runs had the smaller of their numbers of rows."""
        kept = self.stored["whole"][name]
        noise = None if kept["noise"] is None else unpack(kept["noise"], f"whole.{name}.noise")
        if noise is not None and (noise.size != FEWER.size or noise.min() < -1e-9 or noise.max() > 1):
            raise DataError(f"whole.{name}.noise: must be {FEWER.size} numbers from 0 to 1", HINT)
        n, m = self.effective_n
        p = own.power
        first = max(before**p + noise_of_fewer(noise, n / m), 0.0) ** (1 / p)
        second = max(after**p + noise_of_fewer(own.noise, m / n), 0.0) ** (1 / p)
        error = slope(first, second, p) * float(np.hypot(kept["error"], standard_error(own.rows, self.rows)))
        return increase(before, after, (second - first) - (after - before), error, level)
