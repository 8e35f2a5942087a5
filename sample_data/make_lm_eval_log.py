"""Writes sample_data/lm_eval: two small logs of the real lm-evaluation-harness (0.4.13) over simulated models.

    pip install lm_eval==0.4.13
    python sample_data/make_lm_eval_log.py

The models do not read: their log-likelihoods are drawn so that `sure` is over-confident and `careful` is calibrated.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import lm_eval
import numpy as np
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker

HERE = Path(__file__).parent / "lm_eval"
QUESTIONS, CHOICES = 120, ("north", "east", "south", "west")
SHARPNESS = {"careful": 1.0, "sure": 2.5}


class Simulated(LM):
    """Prefers each choice by a draw that the harness never sees."""

    def __init__(self, scores: dict[tuple[str, str], float]) -> None:
        super().__init__()
        self.scores = scores

    def loglikelihood(self, requests: Any) -> Any:
        return [(self.scores[r.args[0].split("?")[0], r.args[1].strip()], False) for r in requests]

    def loglikelihood_rolling(self, requests: Any) -> Any:
        raise NotImplementedError

    def generate_until(self, requests: Any) -> Any:
        raise NotImplementedError


def main() -> None:
    rng = np.random.default_rng(1)
    logits = 1.6 * rng.normal(size=(QUESTIONS, len(CHOICES)))
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    answers = [int(rng.choice(len(CHOICES), p=np.exp(row))) for row in log_p]
    docs = [{"q": f"Where is place {i}", "a": answer} for i, answer in enumerate(answers)]
    os.chdir(tempfile.mkdtemp())
    Path("data.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    task = {
        "task": "places", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "data.jsonl"}},
        "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{q}}?",
        "doc_to_choice": list(CHOICES), "doc_to_target": "{{a}}",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    }  # fmt: skip
    for name, sharpness in SHARPNESS.items():
        scores = {
            (doc["q"], choice): float(sharpness * log_p[i, k])
            for i, doc in enumerate(docs)
            for k, choice in enumerate(CHOICES)
        }
        found = lm_eval.simple_evaluate(model=Simulated(scores), tasks=[task], log_samples=True, bootstrap_iters=0)
        tracker = EvaluationTracker(output_path=str(HERE))
        tracker.general_config_tracker.model_name = tracker.general_config_tracker.model_name_sanitized = name
        samples = found.pop("samples")
        found = {"results": found["results"]}
        tracker.save_results_aggregated(results=found, samples=samples)
        tracker.save_results_samples(task_name="places", samples=samples["places"])


if __name__ == "__main__":
    main()
