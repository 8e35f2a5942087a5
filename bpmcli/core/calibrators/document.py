"""A fit in the form in which a parameter file stores it."""

from __future__ import annotations

from typing import Any

from bpmcli.core.calibrators.grouped import GroupFit
from bpmcli.core.calibrators.registry import Fitted
from bpmcli.core.calibrators.spread import Spread
from bpmcli.core.data.rows import EVENT, Rows


def describe(
    method: str,
    fitted: Fitted,
    rows: Rows,
    groups: GroupFit | None = None,
    spread: Spread | None = None,
) -> dict[str, Any]:
    """Parameters, what is known about the fit, and the rows it was made from, as JSON stores them."""
    sample, classes = rows.sample, _classes(rows)
    return {
        "method": method,
        "target": rows.target,
        "parameters": fitted.calibrator.parameters(),
        "fit": dict(fitted.report),
        **({"spread": spread._asdict()} if spread else {}),
        **({"grouping": groups.document()} if groups else {}),
        "sample": {
            "n": sample.n,
            "accuracy": sample.accuracy,
            "mean_confidence": sample.mean_confidence,
            "weighted": sample.weighted,
            **({"classes": classes} if classes else {}),
        },
        "notices": [str(n) for n in fitted.notices],
    }


def _classes(rows: Rows) -> int | None:
    """The number of classes that the scores belong to, where it is known; an event has no classes."""
    if rows.target == EVENT:
        return None
    known = rows.logits if rows.logits is not None else rows.missed.logits if rows.missed is not None else None
    return None if known is None else known.shape[1]
