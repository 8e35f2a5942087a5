"""Logs written by the real lm-evaluation-harness and the real Inspect; skipped where they are not installed.

Run once with a virtual environment that has both: python -m pytest tests/io/logs/test_real_logs.py -rs
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpmcli.core.data.sample import sigmoid
from bpmcli.io.layout import InputOptions
from bpmcli.io.opening import open_reader
from bpmcli.io.readers import read_rows

WORDS = ["apple", "granite", "river", "lantern", "copper", "meadow"]


def questions(n: int) -> list[dict[str, Any]]:
    chance = random.Random(0)
    found = []
    for i in range(n):
        choices = [f"{'very ' * k}{chance.choice(WORDS)} {k}" for k in range(chance.randint(2, 5))]
        found.append(
            {"question": f"Which is number {i}?", "choices": choices, "answer": chance.randrange(len(choices))}
        )
    return found


@pytest.mark.filterwarnings("ignore")
def test_lm_evaluation_harness(tmp_path, monkeypatch):
    lm_eval = pytest.importorskip("lm_eval")
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    Path("data.jsonl").write_text("".join(json.dumps(q) + "\n" for q in questions(120)))

    class Dummy(LM):
        def loglikelihood(self, requests: Any) -> Any:
            return [(-6 * random.Random(str(r.args)).random(), False) for r in requests]

        def loglikelihood_rolling(self, requests: Any) -> Any:
            raise NotImplementedError

        def generate_until(self, requests: Any) -> Any:
            raise NotImplementedError

    task = {
        "task": "toy_mc", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "data.jsonl"}},
        "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_choice": "{{choices}}", "doc_to_target": "{{answer}}",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    }  # fmt: skip
    found = lm_eval.simple_evaluate(model=Dummy(), tasks=[task], log_samples=True, bootstrap_iters=0)
    tracker = EvaluationTracker(output_path=str(tmp_path / "out"))
    tracker.general_config_tracker.model_name = "dummy"
    tracker.general_config_tracker.model_name_sanitized = "dummy"
    samples = found.pop("samples")
    tracker.save_results_aggregated(results=found, samples=samples)
    tracker.save_results_samples(task_name="toy_mc", samples=samples["toy_mc"])
    (path,) = Path("out").rglob("samples_*.jsonl")
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(entries) == 120
    for kind in ("acc", "acc_norm"):
        loaded = read_rows(str(path), InputOptions(input_format=f"lm-eval:{kind}"))
        expected = []
        for entry in entries:
            scores = np.array([float(pair[0]) for pair in entry["filtered_resps"]])
            if kind == "acc_norm":
                scores /= [len(choice) for choice in entry["doc"]["choices"]]
            expected.append(float(np.exp(scores.max()) / np.exp(scores).sum()))
        assert sigmoid(loaded.rows.log_odds) == pytest.approx(expected, abs=1e-12)
        assert loaded.rows.hits.mean() == pytest.approx(found["results"]["toy_mc"][f"{kind},none"])
        assert loaded.notices == ()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["eval", "json"])
def test_inspect(tmp_path, monkeypatch, kind):
    pytest.importorskip("inspect_ai")
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai import model as models
    from inspect_ai.dataset import Sample
    from inspect_ai.log import read_eval_log
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    monkeypatch.chdir(tmp_path)
    chance = np.random.default_rng(0)
    outputs, probabilities, answers = [], [], []
    for _ in range(60):
        p = chance.dirichlet(np.ones(4)) * 0.97
        letter = "ABCD"[int(p.argmax())]
        top = [models.TopLogprob(token=t, logprob=math.log(x)) for t, x in zip("ABCD", p, strict=True)]
        last = models.Logprob(token=letter, logprob=math.log(p.max()), top_logprobs=top)
        tokens = models.Logprobs(content=[models.Logprob(token="ANSWER: ", logprob=-0.001), last])
        message = models.ChatMessageAssistant(content=f"ANSWER: {letter}")
        first = models.ChatCompletionChoice(message=message, logprobs=tokens)
        usage = models.ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # spares the count of tokens
        outputs.append(models.ModelOutput(model="mock", choices=[first], usage=usage))
        probabilities.append(float(p.max() / p.sum()))
        answers.append(letter)
    targets = ["ABCD"[k] for k in chance.integers(0, 4, 60)]
    dataset = [Sample(id=i, input=f"Question {i}?", choices=list("wxyz"), target=t) for i, t in enumerate(targets)]
    task = Task(dataset=dataset, solver=multiple_choice(), scorer=choice(), name="toy")
    model = models.get_model("mockllm/model", custom_outputs=outputs)
    (log,) = evaluate(task, model=model, log_dir="logs", log_format=kind, display="none", max_samples=1)
    assert log.status == "success"
    (path,) = Path("logs").glob(f"*.{kind}")
    loaded = read_rows(str(path))
    by_id = {int(sample.id): sample for sample in read_eval_log(str(path)).samples or []}
    order = [int(sample.sample) for sample in open_reader(str(path)).samples]
    assert sorted(order) == list(range(60))
    assert sigmoid(loaded.rows.log_odds) == pytest.approx([probabilities[i] for i in order], abs=1e-12)
    assert loaded.rows.hits.tolist() == [by_id[i].scores["choice"].value == "C" for i in order]
    assert loaded.rows.hits.tolist() == [answers[i] == targets[i] for i in order]
