"""lm-evaluation-harness: the samples that `lm_eval --log_samples` writes, one document per line.

A multiple-choice sample has a log-likelihood per choice; softmax over them is the model's distribution. `acc` is
1 if the most likely choice is correct; for `acc_norm`, log-likelihoods are first divided by the number of characters
of each choice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from bpmcli.errors import DataError
from bpmcli.io.documents import LARGEST_FILE, parse
from bpmcli.io.logs.log_reader import LogReader, LogSample, SkipSample, as_hit, finite_number, json_lines

NAME = re.compile(r"samples_(?P<task>.+?)_(?P<time>\d{4}-\d{2}-\d{2}T[\d.:-]+)\.jsonl")


class LmEvalLog(LogReader):
    """Multiple-choice samples."""

    label = "lm-eval"
    score = "logits"
    choices: ClassVar[Mapping[str, str]] = {
        "acc": "whether the most likely choice is correct",
        "acc_norm": "the same, with log-likelihoods per character",
        "filter": "samples of this filter only",
    }
    how_to_log = "use a multiple_choice task: generated answers come without log-likelihoods"

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        first = start.lstrip(b"\xef\xbb\xbf \r\n")
        if not first.startswith(b"{"):
            return False
        return first.startswith(b'{"doc_id"') or (b'"doc_id"' in first and b'"filtered_resps"' in first)

    def entries(self) -> Iterator[tuple[str, Any]]:
        self.metric = "acc_norm" if "acc_norm" in self.chosen else "acc"
        self.filters: set[str] = set()
        self.found: set[str] = set()
        named = NAME.fullmatch(os.path.basename(self.path))
        self.task = named["task"] if named else os.path.basename(self.path).split(".")[0]
        self.model = _model(self.path, named["time"] if named else "")
        for row, entry in json_lines(self.path):
            yield str(entry.get("doc_id", f"in line {row}")), entry
        if len(self.filters) > 1:
            names = sorted(self.filters)
            raise DataError(
                f"has samples of {len(names)} filters ({', '.join(names)})", f"--input-format lm-eval:filter={names[0]}"
            )
        if not self.samples and self.skipped[self._lacking()]:
            other = sorted(self.found)[0] if self.found else "acc"
            raise DataError(
                f"has no {self.metric} (metrics: {', '.join(sorted(self.found)) or 'none'})",
                f"--input-format lm-eval:{other}" if self.found & {"acc", "acc_norm"} else self.how_to_log,
            )

    def _lacking(self) -> str:
        return f"no {self.metric}"

    def sample_of(self, name: str, entry: Any) -> LogSample:
        wanted, given = self.chosen.get("filter"), str(entry.get("filter", "none"))
        if wanted and given != wanted:
            raise SkipSample(f"another filter than {wanted}")
        self.filters.add(given)
        self.found.update(m for m in entry.get("metrics") or () if isinstance(m, str))
        scores = _log_likelihoods(entry)
        if self.metric not in entry:
            raise SkipSample(self._lacking())
        hit = as_hit(entry[self.metric])
        if hit is None:
            raise DataError(
                f"sample {name}: {self.metric} is {str(entry[self.metric])[:20]}, not 0 or 1: "
                "this task scores probability mass, not one answer",
                "choose a task with one correct choice, e.g. truthfulqa_mc1",
            )
        if self.metric == "acc_norm":
            scores = [x / n for x, n in zip(scores, _lengths(entry, len(scores)), strict=True)]
        return LogSample(name, scores, hit, task=self.task, model=self.model, label=self._label(scores, entry, hit))

    def _label(self, scores: list[float], entry: Any, hit: bool) -> int | None:
        """The number of the correct choice, if the log has it. Adds a remark if that contradicts the log's metric."""
        target = str(entry.get("target", ""))
        if not (target.isascii() and target.isdigit() and len(target) < 9 and int(target) < len(scores)):
            return None
        if (scores.index(max(scores)) == int(target)) != hit:
            self.remarks[f"{self.metric} in the log contradicts the likeliest choice"] += 1
        return int(target)


def _log_likelihoods(entry: Any) -> list[float]:
    """One log-likelihood per choice."""
    responses = entry["filtered_resps"]
    if not isinstance(responses, list) or not responses:
        raise SkipSample("no responses")
    if isinstance(responses[0], str) or not all(isinstance(r, (list, tuple)) and len(r) == 2 for r in responses):
        raise SkipSample("generated text, no log-likelihood per choice")
    scores = [finite_number(response[0], "a log-likelihood") for response in responses]
    if "acc_mutual_info" in entry:
        scores = scores[: len(scores) // 2]  # the second half holds the choices without the question
    if len(scores) < 2:
        raise SkipSample("a single choice")
    return scores


def _lengths(entry: Any, count: int) -> list[int]:
    """Characters of each choice, without the space that separates it from the question."""
    arguments = entry["arguments"]
    if isinstance(arguments, dict):
        texts = [arguments[f"gen_args_{i}"]["arg_1"] for i in range(count)]
    else:
        texts = [arguments[i][1] for i in range(count)]
    lengths = [len(text.removeprefix(" ")) for text in texts]
    if 0 in lengths:
        raise SkipSample("a choice without text")
    return lengths


def _model(path: str, time: str) -> str:
    """The model's name from the results file beside the samples."""
    from bpmcli.io.remote import is_remote, read_start

    beside = os.path.join(os.path.dirname(path), f"results_{time}.json")
    if not time or is_remote(path) or not os.path.exists(beside):
        return ""
    try:
        results = parse(read_start(beside, LARGEST_FILE), "")
    except DataError:
        return ""
    found = results.get("model_name") if isinstance(results, dict) else None
    return found if isinstance(found, str) else ""
