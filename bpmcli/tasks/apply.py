"""Calibrating one file, batch by batch: order kept, other columns kept, written atomically."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bpmcli.core.calibrators import Calibrator
from bpmcli.core.calibrators.distributions import CalibratedDistributions, calibrate_distributions
from bpmcli.core.calibrators.grouped import MARGINAL
from bpmcli.core.calibrators.marginal import calibrate_marginals
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import EVENT, Rows
from bpmcli.core.data.sample import LOG_ODDS_LIMIT, Floats, sigmoid
from bpmcli.errors import BpmError, DataError
from bpmcli.io.columns import Lists
from bpmcli.io.formats import suffix_of
from bpmcli.io.layout import NAMES, InputOptions, Layout, understand
from bpmcli.io.opening import open_reader
from bpmcli.io.params import Params
from bpmcli.io.readers import SUMMARY_KEY, stream_rows
from bpmcli.io.writers import open_writer

RENAMED = (("logprob", "prob"), ("log_prob", "prob"), ("logit", "prob"))
"""What was logits comes out as probabilities, and is called so."""

UNSEEN_SHOWN = 5
"""Groups without a curve that a notice names."""


@dataclass(frozen=True)
class Applied:
    """What was written."""

    output: str
    rows: int
    mean_before: float
    mean_after: float
    notices: tuple[Notice, ...]


@dataclass(frozen=True)
class ApplyFile:
    """Calibrates a file into another one."""

    params: Params
    options: InputOptions
    allow_argmax_change: bool = False

    def __call__(self, job: tuple[str, str, str]) -> Applied:
        """`job` is (input, output, suffix that names the output's format)."""
        path, output, suffix = job
        try:
            return self._run(path, output, suffix)
        except BpmError as error:
            raise error.at("standard input" if path == "-" else path) from None

    def _run(self, path: str, output: str, suffix: str) -> Applied:
        calibrator = self.params.calibrator
        source = open_reader(path, self.options.input_format)
        if SUMMARY_KEY in source.metadata:
            raise DataError("is a summary: it has no rows to calibrate", "give the files that were summarised")
        # Text stays as it is from csv to csv; elsewhere columns get their types.
        source.written_as = suffix or source.suffixes[0]
        layout = layout_for_apply(source, self.options, self.params)
        odd: Counter[str] = Counter()
        n, before, after = 0, 0.0, 0.0
        whole = calibrator.needs_distribution or self.params.groups is not None or layout.kind in ("logits", "probs")
        with open_writer(output, suffix or source.suffixes[0], origin=source) as out:
            for part in stream_rows(source, layout, self.options, odd, distributions=whole, rest=True, outcomes=False):
                fresh, confidence = self._by_group(part.rows, layout, odd)
                columns = {**part.batch.columns, **part.batch.passed}
                for name in source.columns if layout.kind == "log_odds" else ():
                    if name.lower() in NAMES["confidence"]:
                        columns[name] = confidence  # log-odds and confidence stay one thing
                fresh = fresh * 100.0 if layout.percent else fresh
                out.write(replace_scores(columns, list(source.columns), layout, fresh))
                n += part.rows.n
                before += float(sigmoid(part.rows.log_odds).sum())
                after += float(confidence.sum())
            if not n:
                raise DataError("no rows")
            others = source.file_arrays(layout.scores[0])
            left_out = [] if out.carry(source, others) else others
        notices = [notice("missing-skipped", count=odd["missing-skipped"])] if odd["missing-skipped"] else []
        if left_out:
            names = ", ".join(left_out[:UNSEEN_SHOWN]) + (", …" if len(left_out) > UNSEEN_SHOWN else "")
            notices.append(notice("arrays-left-out", count=len(left_out), names=names))
        if odd["below"]:
            code = "argmax-changed" if self.allow_argmax_change else "argmax-kept"
            notices.append(notice(code, count=odd["below"]))
        if odd["unseen"]:
            unseen = sorted(key.partition(":")[2] for key in odd if key.startswith("unseen:"))
            what = "1 group without a curve of its own"
            if len(unseen) > 1:
                what = f"{len(unseen)} groups without a curve of their own"
            names = ", ".join(unseen[:UNSEEN_SHOWN]) + (", …" if len(unseen) > UNSEEN_SHOWN else "")
            notices.append(notice("groups-unseen", count=odd["unseen"], what=what, names=names))
        return Applied(output, n, before / n, after / n, tuple(notices))

    def _by_group(self, rows: Rows, layout: Layout, odd: Counter[str]) -> tuple[Any, Any]:
        """The same for one calibrator or many: groups are worked one after the other, rows stay in their order."""
        pooled, groups = self.params.calibrator, self.params.groups
        if groups is None:
            return self._calibrated(rows, layout, pooled, odd)
        if groups.grouping.kind == MARGINAL:
            if rows.logits is None or rows.predictions is None:
                raise DataError("these parameters are marginal: they need the scores of all classes")
            done = calibrate_marginals(lambda k: groups.members.get(k, pooled), rows, self.allow_argmax_change)
            return self._distribution(done, rows, layout, odd)
        fresh: Any = None
        confidences = np.empty(rows.n)
        for name, index in groups.split(rows):
            if name not in groups.members:
                odd["unseen"] += index.size
                odd[f"unseen:{name}"] += index.size
            part, confidences[index] = self._calibrated(rows.take(index), layout, groups.members.get(name, pooled), odd)
            fresh = np.empty((rows.n, *part.shape[1:])) if fresh is None else fresh
            fresh[index] = part
        return fresh, confidences

    def _calibrated(self, rows: Rows, layout: Layout, calibrator: Calibrator, odd: Counter[str]) -> tuple[Any, Any]:
        """New values of the score columns, and the confidence among them."""
        if rows.logits is None or layout.target == EVENT or (layout.binary and not calibrator.needs_distribution):
            if calibrator.needs_distribution and layout.target != EVENT:
                raise DataError(
                    f"{self.params.method} needs the scores of all classes, and this input has only confidences",
                    "give logits or probabilities",
                )
            g, miss = calibrator(rows.log_odds)
            if layout.target == EVENT and not layout.binary:  # P(y = 0) and P(y = 1)
                return np.stack([miss, g], axis=1), g
            if not layout.binary or layout.target == EVENT:
                return (_log_odds(g, miss) if layout.kind == "log_odds" else g), g
            # P(y = 1) of the class that was predicted; it may not cross one half unasked.
            assert rows.predictions is not None
            positive = rows.predictions == 1
            odd["below"] += int((g < 0.5).sum())
            if not self.allow_argmax_change:
                below = (g < 0.5) | (positive & (g == 0.5))  # y = 1 is predicted above one half only
                g, miss = np.where(below, np.nextafter(0.5, 1.0), g), np.where(below, 0.5, miss)
            event, other = np.where(positive, g, miss), np.where(positive, miss, g)
            return (_log_odds(event, other) if layout.kind == "log_odds" else event), g
        assert rows.predictions is not None
        done = calibrate_distributions(
            calibrator, rows.logits, rows.log_odds, rows.predictions, self.allow_argmax_change, self.params.spread
        )
        return self._distribution(done, rows, layout, odd)

    def _distribution(
        self, done: CalibratedDistributions, rows: Rows, layout: Layout, odd: Counter[str]
    ) -> tuple[Any, Any]:
        odd["below"] += done.below_runner_up
        top = done.probs[np.arange(rows.n), rows.predictions]
        if layout.kind == "log_odds":
            return _log_odds(done.probs[:, 1], done.probs[:, 0]), top
        return (done.probs[:, 1] if layout.binary else done.probs), top


def _log_odds(g: Floats, miss: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        out: Floats = np.clip(np.log(g) - np.log(miss), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
    return out


def layout_for_apply(source: Any, options: InputOptions, params: Params) -> Layout:
    """How to read a file that may come without labels."""
    if params.target == EVENT and not options.event:
        options = replace(options, event=True)
    if params.groups is not None and (column := params.groups.grouping.column):
        if column not in source.columns:
            raise DataError(
                f"no column '{column}', which tells the groups of these parameters apart "
                f"(found: {', '.join(source.columns)})",
                "fit without --by, or add the column",
            )
        options = replace(options, group=column)
    if params.target != EVENT and options.event:
        raise DataError("--event was given, but the parameters calibrate the predicted class", "fit with --event too")
    return understand(source, options, outcomes=False)


def replace_scores(columns: Mapping[str, Any], order: list[str], layout: Layout, fresh: Any) -> dict[str, Any]:
    """The columns in their order, scores replaced; logits become probabilities, and are renamed so."""
    out: dict[str, Any] = {}
    place = {name: i for i, name in enumerate(layout.scores)}
    renamed = {name: _renamed(name, layout, i) for name, i in place.items()}
    written = set(renamed.values())
    for name in order:
        if name not in place:
            # Old probabilities beside the logits make room for the new ones.
            if name in columns and name not in written:
                out[name] = columns[name]
        elif len(place) > 1:
            out[renamed[name]] = fresh[:, place[name]]
        else:
            out[renamed[name]] = _as_before(columns[name], fresh)
    return out


def _as_before(old: Any, fresh: Any) -> Any:
    """Lists stay lists, each of its own length; none of their probability stays with classes that they lack."""
    if not isinstance(old, Lists):
        return fresh
    inside = np.arange(fresh.shape[1]) < old.lengths[:, None]
    if not inside.all():
        fresh = np.where(inside, fresh, 0.0)
        fresh /= fresh.sum(axis=1, keepdims=True)
    return Lists(fresh[inside], old.lengths)


def _renamed(name: str, layout: Layout, place: int) -> str:
    if layout.kind != "logits":
        return name
    for old, new in RENAMED:
        if name.lower().startswith(old):
            return new + name[len(old) :]
    return "probs" if len(layout.scores) == 1 else f"prob_{place}"


def output_suffix(path: str, out: str | None) -> str:
    """The format to write: the target's suffix, otherwise the input's."""
    if out and out != "-":
        return suffix_of(out)
    # What standard input holds is known once it is read.
    suffix = "" if path == "-" else suffix_of(path)
    return {".npy": ".npz"}.get(suffix, suffix)
