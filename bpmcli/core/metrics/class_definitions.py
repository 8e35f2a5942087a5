"""The metrics of whole distributions, one decorated function each, for rows with the scores of all classes.

The computations are imported by the functions that need them, because `metrics -m ece` should start quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpmcli.core.data.notices import notice
from bpmcli.core.metrics.registry import Measured, MetricOptions, metric

if TYPE_CHECKING:
    from bpmcli.core.data.rows import Rows

WHOLE: dict[str, bool] = {"needs_classes": True, "of_event": False, "calibration_error": False}
"""Registry fields of all metrics in this file."""


@metric("nll-all", "log loss of the whole distribution", "Good 1952", most=np.inf, **WHOLE)
def nll_all(rows: Rows, options: MetricOptions) -> Measured:
    """−mean log p_y, y the true class. Rows without a true class are left out. A probability of 0 counts as 5e-324."""
    from bpmcli.core.metrics.whole import IMPOSSIBLE, losses_of, mean

    known = rows.known()
    if not known.n:
        return Measured(None, why_missing="no label is one of the classes")
    losses = losses_of(known)[0]
    zeros = int((losses == IMPOSSIBLE).sum())
    notices = (notice("zero-for-true", count=zeros),) if zeros else ()
    return Measured(mean(losses, known.weights), {}, notices)


@metric("brier-all", "mean squared error of the whole distribution", "Brier 1950", most=2.0, **WHOLE)
def brier_all(rows: Rows, options: MetricOptions) -> Measured:
    """mean Σ_k (p_k − [k = y])², from 0 to 2. A row without a true class costs Σ_k p_k²."""
    from bpmcli.core.metrics.whole import losses_of, mean

    return Measured(mean(losses_of(rows)[1], rows.weights))


@metric("ece-classwise", "ece of each class against the rest, averaged", "Kull et al. 2019, NeurIPS", of_labels=True,
        **WHOLE)  # fmt: skip
def ece_classwise(rows: Rows, options: MetricOptions) -> Measured:
    """(1/K Σ_k ECE_k^p)^(1/p), ECE_k the `ece` of p_k against [y = k]. Biased upwards, like `ece`."""
    from bpmcli.core.metrics import classwise

    value, classes = classwise.ece_classwise(rows, options)
    return Measured(value, {"classes": classes})


@metric("ece-marginal", "root mean square of the class-wise gaps, debiased", "Kumar et al. 2019, NeurIPS",
        debiased=True, of_labels=True, **WHOLE)  # fmt: skip
def ece_marginal(rows: Rows, options: MetricOptions) -> Measured:
    """√max(0, 1/K Σ_k Σ_b |b|/N (gap_kb² − acc_kb (1 − acc_kb)/(|b| − 1))): the marginal calibration error, p = 2."""
    from bpmcli.core.metrics import classwise

    value, classes = classwise.ece_marginal(rows, options)
    return Measured(value, {"classes": classes})


@metric("canonical-p", "P-value of a test whether whole distributions are calibrated", "Widmann et al. 2019; bpmcli",
        higher_is_better=True, is_test=True, **WHOLE)  # fmt: skip
def canonical_p(rows: Rows, options: MetricOptions) -> Measured:
    """See `distribution_test`: small values are evidence against calibration. Rows without a true class are ignored."""
    from bpmcli.core.metrics.canonical import distribution_test

    known = rows.known()
    if not known.n:
        return Measured(None, why_missing="no label is one of the classes")
    found = distribution_test(known)
    return Measured(found.canonical, {"classwise": found.classwise, "rows": found.rows})
