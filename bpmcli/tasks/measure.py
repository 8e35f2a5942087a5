"""Measuring one file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bpmcli.core.data.names import few
from bpmcli.core.data.notices import Notice, notice
from bpmcli.core.data.rows import Rows, facts_of
from bpmcli.core.data.sample import Sample
from bpmcli.core.metrics import METRICS, Measurements, MetricOptions, measure
from bpmcli.io.layout import InputOptions
from bpmcli.io.paths import Input
from bpmcli.io.readers import Loaded, read_rows
from bpmcli.record import Record


class Measurement(Record):
    """The record of one input, or of one group of its rows, as it appears in JSON, and its notices."""

    record: dict[str, Any]
    notices: tuple[Notice, ...]
    diagram: Any = None
    """A `Reliability`, if a diagram was asked for."""
    kept: dict[str, Any] | None = None
    """What a baseline stores beside the record, if one is saved."""


class Requested(Record):
    """What `metrics` computes on request."""

    noise_runs: int = 0
    bins_table: bool = False
    interval: float = 0.0
    """Level of the intervals; 0 for none."""
    resamples: int = 1000
    seed: int = 0
    diagram: bool = False
    axis: str | None = None
    """Axis of the diagram; None chooses it by the confidences."""
    verdict: bool = False
    keep: int = 0
    """Keep what a comparison with a later run needs, and the rows if there are at most this many; 0 keeps nothing."""
    against: Any = None
    """An `Against` (tasks.baseline): the saved run to compare with."""
    classwise: bool = False
    ranked: str | None = None
    """The metric to rank by. If its interval needs no resamples, it is always computed, so that ties can be marked."""
    parts: bool = False
    """The diagram also shows the parts of the Brier score."""


NOTHING_MORE = Requested()

CALIBRATED = "calibrated"
"""The only verdict that single classes could contradict."""
EVERY_SCORE = 1 << 62
QUICK_SCORES = 1 << 20
"""With at most this many scores the default run also checks single classes, which takes a fifth of a second."""


class MeasureFile(Record):
    """Computes everything that `metrics` reports about one file."""

    options: InputOptions
    names: tuple[str, ...]
    metrics: MetricOptions
    requested: Requested = NOTHING_MORE
    mode: str = "exact"

    def __call__(self, item: Input) -> list[Measurement]:
        keep = self.keep_scores
        return self.finish(item, read_rows(item.place, self.options, mode=self.mode, keep_scores=keep))

    @property
    def keep_scores(self) -> int:
        """How many scores of all classes to keep: all if a metric needs them, or enough to check single classes."""
        if self.requested.classwise or self.requested.keep or any(METRICS[name].needs_classes for name in self.names):
            return EVERY_SCORE
        return QUICK_SCORES if self.requested.verdict else 0

    def finish(self, item: Input, loaded: Loaded) -> list[Measurement]:
        """The records of a file that is already read."""
        kind = "summary" if loaded.summarised else loaded.layout.kind
        classes = 0 if loaded.summarised else loaded.layout.n_classes
        return self.measure(item.path, loaded.rows, loaded.notices, loaded.metadata, kind, classes)

    def measure(
        self,
        name: str,
        rows: Rows,
        notices: tuple[Notice, ...],
        metadata: Mapping[str, str],
        kind: str | None = None,
        classes: int = 0,
    ) -> list[Measurement]:
        """The record of rows that are already read, or one record per group; `kind` is the kind of their scores."""
        by = self.options.group
        about: dict[str, Any] = {"input": name} | {key: metadata[key] for key in ("task", "model") if key in metadata}
        about |= ({"scores": kind} if kind else {}) | ({"classes": classes} if classes else {})
        if by is None:
            return [self._measure(about, rows, notices, metadata)]
        if left_out := rows.groups_without_weight():
            notices += (notice("groups-without-weight", names=few([f"{by} = {name}" for name in left_out])),)
        # What a file states about all of its rows, such as their true TCE, need not hold for a group.
        return [
            self._measure({**about, "by": by, "group": group}, part, notices, {}) for group, part in rows.by_group()
        ]

    def _measure(
        self, identity: dict[str, Any], rows: Rows, notices: tuple[Notice, ...], metadata: Mapping[str, str]
    ) -> Measurement:
        sample, clusters = effective_sample(rows)
        measured = measure(sample, self.names, self.metrics, rows)
        if not all(METRICS[name].calibration_error for name in self.names):
            measured = self._with_reasons(measured, rows)
        record: dict[str, Any] = {**identity, **facts_of(rows, sample)}
        if "bpmcli" in metadata and (truth := true_tce(metadata)) is not None:
            record["true_tce"] = truth
        if clusters is not None:
            record["clusters"] = clusters.size
            notices += (notice("few-clusters", clusters=clusters.size),) if clusters.size < clusters.FEW else ()
        record["metrics"] = {
            key: {"value": m.value, **m.details, **({"why_missing": m.why_missing} if m.value is None else {})}
            for key, m in measured.items()
        }
        if self.requested.verdict and record["metrics"].get("tce", {}).get("value") is not None:
            from bpmcli.core.metrics.disagreement import answer

            record |= answer(sample, rows.target, record["metrics"], self.metrics)
        if self.requested.interval:
            self._add_intervals(record, rows, sample, clusters)
        self._add_interval_of_ranking(record, sample)
        if self.requested.classwise or (
            rows.scores is not None and record.get("verdict", {}).get("name") == CALIBRATED
        ):
            notices += self._add_classes(record, rows)
        if self.requested.noise_runs:
            self._add_noise_floor(record, rows, sample, clusters)
        if self.requested.against is not None:
            record["increases"] = self.requested.against.increases(record, rows, sample, self.metrics)
        if self.requested.bins_table:
            from bpmcli.core.metrics.bin_table import bin_table

            record["bins"] = bin_table(sample, self.metrics.n_bins, self.metrics.binning)
        notices += tuple(n for m in measured.values() for n in m.notices)
        record["notices"] = [str(n) for n in notices]
        diagram = self._diagram(sample) if self.requested.diagram else None
        return Measurement(record, notices, diagram, self._kept(record, rows, sample) if self.requested.keep else None)

    def _with_reasons(self, measured: Measurements, rows: Rows) -> Measurements:
        from bpmcli.tasks.classes import with_reasons

        return with_reasons(measured, rows)

    def _add_classes(self, record: dict[str, Any], rows: Rows) -> tuple[Notice, ...]:
        """The table of classes if it was asked for; in the default run, whether single classes are miscalibrated."""
        from bpmcli.tasks import classes

        found: tuple[Notice, ...] = ()
        if self.requested.classwise:
            names = ["tce"] if self.requested.verdict else self.names
            record["classwise"] = classes.classwise(rows, names, self.metrics, self.requested)
            if not self.requested.interval and (count := classes.too_many_intervals(rows)):
                found = (notice("classes-without-intervals", count=count),)
        if record.get("verdict", {}).get("name") == CALIBRATED:
            record |= classes.single_classes(rows)
        return found

    def _kept(self, record: Mapping[str, Any], rows: Rows, sample: Sample) -> dict[str, Any]:
        from bpmcli.tasks.baseline import kept

        others = measure(sample, [name for name in METRICS if name not in self.names], self.metrics, rows)
        others = self._with_reasons(others, rows)
        values = {name: {"value": found.value} for name, found in others.items() if found.value is not None}
        known = [*values, *(name for name in self.names if record["metrics"][name]["value"] is not None)]
        return {"metrics": values, **kept(rows, sample, self.requested.keep, known, self.metrics)}

    def _diagram(self, sample: Sample) -> Any:
        from bpmcli.core.metrics.reliability import reliability

        wanted, bins = self.requested, self.metrics
        return reliability(sample, bins.n_bins, bins.binning, axis=wanted.axis, parts=wanted.parts)

    def _add_noise_floor(self, record: dict[str, Any], rows: Rows, sample: Sample, clusters: Any) -> None:
        from dataclasses import asdict

        from bpmcli.core.metrics.noise_floor import noise_floor

        floors = noise_floor(
            sample if clusters is None else clusters.as_fewer_rows(), self.names, self.metrics,
            self.requested.noise_runs, self.requested.seed, rows if rows.scores is not None else None,
        )  # fmt: skip
        record["noise_floor"] = {k: asdict(f) if f else None for k, f in floors.items()}

    def _add_interval_of_ranking(self, record: dict[str, Any], sample: Sample) -> None:
        name = self.requested.ranked
        if name is None or not METRICS[name].posterior or "low" in record["metrics"][name]:
            return
        from bpmcli.core.metrics.intervals import metric_intervals

        found = metric_intervals(sample, {name: record["metrics"][name]["value"]}, self.metrics)[name]
        record["metrics"][name] |= found._asdict() if found else {"low": None, "high": None}

    def _add_intervals(self, record: dict[str, Any], rows: Rows, sample: Sample, clusters: Any) -> None:
        from bpmcli.core.metrics.intervals import metric_intervals

        values = {key: found["value"] for key, found in record["metrics"].items()}
        wanted = self.requested
        of_confidence = {name: value for name, value in values.items() if not METRICS[name].needs_classes}
        intervals = metric_intervals(
            sample, of_confidence, self.metrics, wanted.interval, wanted.resamples, wanted.seed, clusters
        )
        if len(of_confidence) < len(values):
            from bpmcli.tasks import classes

            intervals |= classes.intervals(rows, values, self.metrics, wanted)
        for key, found in intervals.items():
            record["metrics"][key] |= found._asdict() if found else {"low": None, "high": None}


def effective_sample(rows: Rows) -> tuple[Sample, Any]:
    """The sample of the rows. For clusters it has the effective number of rows, and comes with `ClusteredCells`."""
    if rows.clusters is None or rows.clusters.used().size == rows.n:
        return rows.sample, None
    from bpmcli.core.metrics.clusters import clustered

    return clustered(rows)


def true_tce(metadata: Mapping[str, str]) -> float | None:
    """The true calibration error, if `simulate` stored one in the file."""
    import json

    try:
        value = json.loads(metadata["bpmcli"])["tce"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    sound = isinstance(value, (int, float)) and abs(value) <= 1
    return float(value) if sound else None
