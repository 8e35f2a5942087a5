"""Single classes at a glance: does a calibrated confidence hide classes that are not?"""

from __future__ import annotations

import numpy as np

from bpmcli.core.data.rows import Rows
from bpmcli.core.metrics.canonical import distribution_test
from bpmcli.core.metrics.whole import mean
from bpmcli.record import Record

SIGNIFICANCE = 0.01
"""Nobody asked for this check, so it should raise a false alarm for at most one in a hundred calibrated models."""
CLEAR_Z = 3.0
"""A class is named if its share is this many standard errors from its mean probability."""


class ClassCheck(Record):
    """The class-wise test, and what to say about it."""

    p_value: float
    sentence: str
    """Empty if the test does not reject calibration."""


def class_check(rows: Rows) -> ClassCheck:
    """The test of single classes (shifts and slopes), and a sentence that names the class that is most clearly off."""
    assert rows.scores is not None
    assert rows.labels is not None
    found = distribution_test(rows, smooth=False)
    if found.classwise > SIGNIFICANCE:
        return ClassCheck(found.classwise, "")
    k = int(np.abs(found.scores).argmax())
    what = "their probabilities are too high in some ranges and too low in others"
    if abs(found.scores[k]) > CLEAR_Z:
        (log_p,) = (logs for number, logs in rows.scores.classes() if number == k)
        said, is_ = (100 * mean(values, rows.weights) for values in (np.exp(log_p), (rows.labels == k) * 1.0))
        what = f"class {rows.scores.name(k)} gets {said:.1f} % on average and is the label in {is_:.1f} % of the rows"
    return ClassCheck(
        found.classwise,
        f"The confidence is calibrated, but single classes are not (P = {found.classwise:.2g}): {what}. "
        "--classwise shows every class.",
    )
