"""Evaluation logs of language models, whole or with anything wrong inside."""

from __future__ import annotations

import gzip
import io
import json
import math
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

from fuzz import documents
from fuzz.case import Case, Step
from fuzz.damage import damaged, damaged_document
from fuzz.scenario import scenario

HEADER = {"version": 2, "status": "success", "eval": {"task": "toy", "model": "mock/model"}}


def _lm_eval(rng: Random, i: int) -> Any:
    """A multiple-choice sample as lm-evaluation-harness logs it: numbers as text, one pair per choice."""
    scores = [-9 * rng.random() for _ in range(rng.choice([2, 3, 4, 5]))]
    target = rng.randrange(len(scores))
    pairs = [[str(x), "False"] for x in scores]
    hit = float(scores.index(max(scores)) == target)
    return {
        "doc_id": i, "doc": {"query": "?", "choices": ["a b"] * len(scores)}, "target": str(target),
        "arguments": {f"gen_args_{k}": {"arg_0": "?", "arg_1": f" choice {k}"} for k in range(len(scores))},
        "resps": [[pair] for pair in pairs], "filtered_resps": pairs, "filter": "none",
        "metrics": ["acc", "acc_norm"], "acc": hit, "acc_norm": hit,
    }  # fmt: skip


def _content(rng: Random) -> tuple[str, list[Any]]:
    """Tokens of an answer whose last one is a letter, with what else the model considered."""
    weights = [rng.random() + 0.01 for _ in "ABCD"]
    top = [{"token": f" {x}", "logprob": math.log(w / sum(weights))} for x, w in zip("ABCD", weights, strict=True)]
    chosen = rng.choice(top)
    content = [{"token": "ANSWER:", "logprob": -0.01, "top_logprobs": []}, {**chosen, "top_logprobs": top}]
    return chosen["token"].strip(), content


def _inspect(rng: Random, i: int) -> Any:
    answer, content = _content(rng)
    target = rng.choice("ABCD")
    text = f"ANSWER: {answer}\nConfidence: {rng.randrange(120)} %"
    return {
        "id": i, "epoch": 1, "input": "?", "choices": ["a", "b", "c", "d"], "target": target,
        "output": {"model": "mock", "completion": text, "choices": [
            {"message": {"role": "assistant", "content": text}, "logprobs": {"content": content}}]},
        "scores": {"choice": {"value": "C" if answer == target else "I", "answer": answer}},
    }  # fmt: skip


def _helm(rng: Random, i: int) -> Any:
    def stat(name: str, value: float) -> Any:
        return {"name": {"name": name, "split": "test"}, "count": 1, "sum": value}

    hit = float(rng.random() < 0.6)
    return {
        "instance_id": f"id{i}", "train_trial_index": 0,
        "stats": [stat("exact_match", hit), stat("max_prob", rng.random()), stat("logprob", -1.5)],
    }  # fmt: skip


def _openai(rng: Random, i: int) -> Any:
    _, content = _content(rng)
    body = {"model": "gpt-x", "choices": [{"message": {"content": "A"}, "logprobs": {"content": content}}]}
    return {"custom_id": f"q{i}", "response": {"status_code": 200, "body": body}, "error": None}


def _lines(texts: list[bytes], rng: Random) -> tuple[str, bytes]:
    content = b"\n".join(texts) + b"\n"
    if rng.random() < 0.2:
        return "samples_toy_2026-01-02T03-04-05.678.jsonl.gz", gzip.compress(content, 1, mtime=0)
    return "samples_toy_2026-01-02T03-04-05.678.jsonl", content


def _list(texts: list[bytes], rng: Random) -> tuple[str, bytes]:
    return "toy:model=x/per_instance_stats.json", b"[" + b",\n".join(texts) + b"]"


def _archive(texts: list[bytes], rng: Random) -> tuple[str, bytes]:
    header = damaged_document(rng, HEADER) if rng.random() < 0.1 else json.dumps(HEADER).encode()
    if rng.random() < 0.4:
        return "log.json", header[:-1] + b', "samples": [' + b",".join(texts) + b"]}"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        archive.writestr("_journal/start.json", header)
        for i, text in enumerate(texts):
            archive.writestr(f"samples/{i}_epoch_1.json", text)
        archive.writestr("header.json", header)
    return "log.eval", out.getvalue()


Kind = tuple[Callable[[Random, int], Any], Callable[[list[bytes], Random], tuple[str, bytes]], list[str]]
KINDS: list[Kind] = [
    (_lm_eval, _lines, ["lm-eval", "lm-eval:acc_norm", "lm-eval:filter=none", "lm-eval:x"]),
    (_inspect, _archive, ["inspect", "inspect:stated", "inspect:scorer=choice", "inspect:scorer=x"]),
    (_helm, _list, ["helm", "helm:x"]),
    (_openai, _lines, ["openai-batch", "openai-batch:"]),
]


@scenario(7)
def evaluation_logs(rng: Random) -> Case:
    """A log that is whole, or whose entries, lines or bytes somebody has changed."""
    entry, pack, formats = rng.choice(KINDS)
    entries = [entry(rng, i) for i in range(rng.choice([0, 1, 5, 30, 30]))]
    broken = rng.random()
    wrong = {rng.randrange(len(entries))} if entries and broken < 0.6 else set()
    wrong |= {rng.randrange(len(entries))} if entries and broken < 0.2 else set()
    texts = [damaged_document(rng, each) if i in wrong else json.dumps(each).encode() for i, each in enumerate(entries)]
    name, content = pack(texts, rng)
    if 0.6 <= broken < 0.8:
        content = damaged(rng, content)
    files = {name: content}
    argv = rng.choice([["metrics", "-m", "ece"], ["metrics"], ["fit", "--method", "platt", "-o", "p2.json"], ["apply"], ["summarize", "-o", "s.parquet"], ["report", "-o", "page.html", "--resamples", "20"]])  # fmt: skip
    if argv == ["apply"]:
        files["p.json"] = json.dumps(documents.parameters(rng)).encode()
        argv = ["apply", "p.json", name, *rng.choice([["-o", "o.jsonl"], ["-o", "o.parquet"], ["--output-dir", "out"], ["-o", "o.csv"]])]  # fmt: skip
    else:
        argv = [*argv, name]
    argv += ["--input-format", rng.choice(formats)] if rng.random() < 0.3 else []
    argv += ["--by", rng.choice(["model", "task", "sample"])] if argv[0] == "metrics" and rng.random() < 0.3 else []
    return Case("", [Step(argv)], files, damaged=True)
