"""Applies fitted parameters to rows: one calibrator or one per group, for confidences or whole distributions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from bpmcli.core.calibrators.base import Calibrator
from bpmcli.core.calibrators.distributions import LEAD, CalibratedDistributions, calibrate_distributions
from bpmcli.core.calibrators.grouped import MARGINAL, GroupCalibrators
from bpmcli.core.calibrators.marginal import calibrate_marginals
from bpmcli.core.calibrators.spread import IN_PROPORTION, Spread
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.data.sample import Floats
from bpmcli.errors import DataError


class Recalibrated(NamedTuple):
    """Calibrated rows: `score` and its complement if a row has one score, `probs` if it has one for each class."""

    confidence: Floats
    """The probability of the predicted class, or of y = 1 if the target is the event."""
    score: Floats
    """P(y = 1) if the scores are P(y = 1), otherwise the confidence."""
    complement: Floats
    """1 − score, to full relative precision."""
    probs: Floats | None
    """The distribution over all classes, if the rows have one."""
    below: int = 0
    """Rows whose predicted class fell below another class, or would have fallen and was put back on top."""
    unseen: Mapping[str, int] = {}
    """Rows of groups without a calibrator of their own."""


class Recalibration(NamedTuple):
    """What the parameters of a fit do to rows."""

    method: str
    calibrator: Calibrator
    groups: GroupCalibrators | None = None
    """The calibrators of single groups; `calibrator` is for all other groups."""
    spread: Spread = IN_PROPORTION
    allow_argmax_change: bool = False
    exact: bool = False
    """True if log-odds are written. They never round to 0 or 1, so g is not kept away from 0 and 1 by LEAST."""

    def __call__(self, rows: Rows, binary: bool) -> Recalibrated:
        """The calibrated rows, in the same order. `binary`: each row has one score, P(y = 1)."""
        groups = self.groups
        if groups is None:
            return self._by(self.calibrator, rows, binary)
        if groups.grouping.kind == MARGINAL:
            if rows.logits is None or rows.predictions is None:
                raise DataError("these parameters are marginal: they need the scores of all classes")
            own = groups.members
            done = calibrate_marginals(
                lambda k: own.get(k, self.calibrator), rows, self.allow_argmax_change, self.spread.floor
            )
            return _whole(done, rows, binary)
        return _joined(rows.log_odds.size, self._of_groups(groups, rows, binary))

    def _of_groups(
        self, groups: GroupCalibrators, rows: Rows, binary: bool
    ) -> Iterator[tuple[np.ndarray, Recalibrated]]:
        """The positions of each group's rows, and those rows calibrated."""
        for name, index in groups.split(rows):
            done = self._by(groups.members.get(name, self.calibrator), rows.take(index), binary)
            yield index, done if name in groups.members else done._replace(unseen={name: index.size})

    def _by(self, calibrator: Calibrator, rows: Rows, binary: bool) -> Recalibrated:
        event = rows.target == EVENT
        if rows.logits is not None and not event and (calibrator.needs_distribution or not binary):
            assert rows.predictions is not None
            done = calibrate_distributions(
                calibrator, rows.logits, rows.log_odds, rows.predictions, self.allow_argmax_change, self.spread
            )
            return _whole(done, rows, binary)
        if calibrator.needs_distribution and not event:
            raise DataError(
                f"{self.method} needs the scores of all classes, but this input has only confidences",
                "give logits or probabilities",
            )
        g, miss = (calibrator if self.exact else calibrator.probabilities_within)(rows.log_odds)
        if event or not binary:
            return Recalibrated(g, g, miss, np.stack([miss, g], axis=1) if event and not binary else None)
        return self._of_positive_class(g, miss, rows)

    def _of_positive_class(self, g: Floats, miss: Floats, rows: Rows) -> Recalibrated:
        """P(y = 1) from the confidence g of the predicted class, which falls below one half only if that is allowed."""
        assert rows.predictions is not None
        positive = rows.predictions == 1
        crossed = int(np.count_nonzero(g < 0.5))
        if not self.allow_argmax_change:
            below = (g < 0.5) | (positive & (g == 0.5))  # y = 1 is predicted above one half only
            g, miss = np.where(below, (1.0 + LEAD) / (2.0 + LEAD), g), np.where(below, 1.0 / (2.0 + LEAD), miss)
        return Recalibrated(g, np.where(positive, g, miss), np.where(positive, miss, g), None, crossed)


def _whole(done: CalibratedDistributions, rows: Rows, binary: bool) -> Recalibrated:
    top = done.probs[np.arange(rows.log_odds.size), rows.predictions]
    score, complement = (done.probs[:, 1], done.probs[:, 0]) if binary else (top, 1.0 - top)
    return Recalibrated(top, score, complement, done.probs, done.below_runner_up)


def _joined(n: int, parts: Iterator[tuple[np.ndarray, Recalibrated]]) -> Recalibrated:
    """The calibrated rows of all groups, each at its position."""
    confidence, score, complement = np.empty(n), np.empty(n), np.empty(n)
    probs: Floats | None = None
    below, unseen = 0, dict[str, int]()
    for index, part in parts:
        confidence[index], score[index], complement[index] = part.confidence, part.score, part.complement
        if part.probs is not None:
            probs = np.empty((n, part.probs.shape[1])) if probs is None else probs
            probs[index] = part.probs
        below += part.below
        unseen.update(part.unseen)
    return Recalibrated(confidence, score, complement, probs, below, unseen)
