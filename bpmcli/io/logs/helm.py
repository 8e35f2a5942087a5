"""HELM: `per_instance_stats.json`, a list of instances with their statistics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bpmcli.errors import DataError
from bpmcli.io.documents import LARGEST_FILE, parse
from bpmcli.io.logs.log_reader import LogReader, LogSample, SkipSample, as_hit, finite_number, name_beside
from bpmcli.io.remote import read_start

HITS = ("exact_match", "quasi_exact_match", "prefix_exact_match")


class HelmLog(LogReader):
    """Samples of a HELM run: `max_prob` is the confidence, and `exact_match` tells whether the answer is correct."""

    label = "helm"
    score = "confidence"
    how_to_log = "run HELM with a client that returns log-probabilities, on a scenario that reports max_prob"

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        first = start.lstrip(b"\xef\xbb\xbf \r\n")[:4000]
        return first.startswith(b"[") and b'"instance_id"' in first and b'"stats"' in first

    def entries(self) -> Iterator[tuple[str, Any]]:
        instances = parse(read_start(self.path, LARGEST_FILE + 1), "is the log complete?")
        if not isinstance(instances, list):
            raise DataError("is not a list of instances", "give the per_instance_stats.json of a run")
        run = name_beside(self.path)
        found = re.search(r"model=([^,]+)", run)
        self.model, self.task = (found[1] if found else ""), run.partition(":")[0]
        self.any_log_prob = False
        for i, entry in enumerate(instances):
            if not isinstance(entry, dict):
                raise DataError(f"entry {i}: is not an object", "is the log complete?")
            yield str(entry.get("instance_id", f"entry {i}")), entry
        if self.samples and not self.any_log_prob and all(float(s.score) in (0.0, 1.0) for s in self.samples):  # type: ignore[arg-type]
            raise DataError("all log-probabilities are zero: the client returned none", self.how_to_log)

    def sample_of(self, name: str, entry: Any) -> LogSample:
        if entry.get("perturbation"):
            raise SkipSample("a perturbed copy")
        stats = {stat["name"]["name"]: stat for stat in entry["stats"]}
        self.any_log_prob |= bool(stats.get("logprob") and finite_number(stats["logprob"].get("sum", 0), "logprob"))
        key = next((key for key in HITS if key in stats), None)
        if key is None:
            raise SkipSample("no exact_match")
        if "max_prob" not in stats:
            raise SkipSample("no max_prob")
        hit = as_hit(_mean(stats[key]))
        if hit is None:
            raise SkipSample(f"{key} is not 0 or 1")
        confidence = _mean(stats["max_prob"])
        if not 0 <= confidence <= 1:
            raise ValueError(f"max_prob is {confidence:g}")
        return LogSample(name, confidence, hit, task=self.task, model=self.model)


def _mean(stat: Any) -> float:
    return finite_number(stat["sum"], "a sum") / max(1.0, finite_number(stat.get("count", 1), "a count"))
