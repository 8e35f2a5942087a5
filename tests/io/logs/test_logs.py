"""Evaluation logs: figures computed by hand from the same log, samples left out by reason, malformed logs refused."""

from __future__ import annotations

import gzip
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpmcli.core.data.sample import sigmoid
from bpmcli.io import logs
from bpmcli.io.layout import InputOptions
from bpmcli.io.readers import read_rows


def lm_entry(i: int, scores: list[float], target: int, texts: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """A multiple-choice sample as lm-evaluation-harness 0.4 logs it: numbers as text, one pair per choice."""
    texts = texts or [f"choice {k}" for k in range(len(scores))]
    per_char = [x / len(t) for x, t in zip(scores, texts, strict=True)]
    pairs = [[str(x), "False"] for x in scores]
    return {
        "doc_id": i, "doc": {"query": "?"}, "target": str(target),
        "arguments": {f"gen_args_{k}": {"arg_0": "?", "arg_1": f" {t}"} for k, t in enumerate(texts)},
        "resps": [[pair] for pair in pairs], "filtered_resps": pairs, "filter": "none", "metrics": ["acc", "acc_norm"],
        "acc": float(int(np.argmax(scores)) == target), "acc_norm": float(int(np.argmax(per_char)) == target), **more,
    }  # fmt: skip


def lm_log(n: int = 40, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        k = int(rng.integers(2, 6))
        texts = ["word " * int(rng.integers(1, 5)) + "end" for _ in range(k)]
        found.append(lm_entry(i, (-5 * rng.random(k)).tolist(), int(rng.integers(k)), texts))
    return found


NAME = "samples_toy_mc_2026-01-02T03-04-05.678.jsonl"


def write_lines(path: str, entries: list[Any]) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def softmax_top(scores: list[float]) -> float:
    return float(np.exp(max(scores)) / np.exp(scores).sum())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", ["acc", "acc_norm"])
def test_lm_eval_confidences_are_softmax_over_the_choices(kind):
    entries = lm_log()
    path = write_lines(NAME, entries)
    chosen = None if kind == "acc" else "lm-eval:acc_norm"
    rows = read_rows(path, InputOptions(input_format=chosen)).rows
    expected = []
    for entry in entries:
        scores = [float(pair[0]) for pair in entry["filtered_resps"]]
        if kind == "acc_norm":
            texts = [entry["arguments"][f"gen_args_{k}"]["arg_1"][1:] for k in range(len(scores))]
            scores = [x / len(text) for x, text in zip(scores, texts, strict=True)]
        expected.append(softmax_top(scores))
    assert sigmoid(rows.log_odds) == pytest.approx(expected, abs=1e-12)
    assert rows.hits.tolist() == [bool(entry[kind]) for entry in entries]


def test_lm_eval_by_command(run):
    write_lines(f"runs/{NAME}", lm_log())
    Path("runs/results_2026-01-02T03-04-05.678.json").write_text(json.dumps({"model_name": "dummy"}))
    records = json.loads(run("metrics", "runs", "--by", "task", "-m", "ece", "-f", "json").out)["results"]
    assert [(r["by"], r["group"], r["n"]) for r in records] == [("task", "toy_mc", 40)]
    assert (
        json.loads(run("metrics", "runs", "--by", "model", "-m", "ece", "-f", "json").out)["results"][0]["group"]
        == "dummy"
    )
    with gzip.open("packed.jsonl.gz", "wt") as f:
        f.write(Path("runs", NAME).read_text())
    assert json.loads(run("metrics", "packed.jsonl.gz", "-m", "ece", "-f", "json").out)["results"][0]["n"] == 40
    assert "logits" in run("metrics", f"runs/{NAME}", "--explain-input").out


def test_calibrated_choices_are_written_back(run):
    entries = lm_log()
    write_lines(NAME, entries)
    run("fit", NAME, "--method", "platt", "-o", "p.json")
    run("apply", "p.json", NAME, "--as", "probs", "-o", "out.jsonl")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [row["sample"] for row in rows] == [str(entry["doc_id"]) for entry in entries]
    for row, entry in zip(rows, entries, strict=True):
        scores = [float(pair[0]) for pair in entry["filtered_resps"]]
        assert len(row["probs"]) == len(scores)
        assert sum(row["probs"]) == pytest.approx(1)
        assert int(np.argmax(row["probs"])) == int(np.argmax(scores))


def test_lm_eval_leaves_out_what_has_no_likelihoods(run):
    text = {**lm_entry(90, [-1.0, -2.0], 0), "filtered_resps": ["some text"]}
    single = {**lm_entry(91, [-1.0, -2.0], 0), "filtered_resps": [["-1.0", "False"]]}
    write_lines(NAME, [*lm_log(20), text, single, single])
    err = run("metrics", NAME, "-m", "ece").err
    assert "3 of 23 samples have no confidence and were left out" in err
    assert "2: a single choice; 1: generated text, no log-likelihood per choice" in err
    write_lines("texts.jsonl", [text, text])
    err = run("metrics", "texts.jsonl", code=3).err
    assert "texts.jsonl: none of its 2 samples has a confidence" in err
    assert "use a multiple_choice task" in err


def test_lm_eval_unconditional_likelihoods_are_left_off():
    scores = [-1.0, -2.0, -0.5]
    entry = lm_entry(0, scores, 2)
    doubled = [*entry["filtered_resps"], *[["-9.0", "False"]] * 3]
    write_lines(NAME, [{**entry, "filtered_resps": doubled, "acc_mutual_info": 1.0}] * 2)
    rows = read_rows(NAME).rows
    assert sigmoid(rows.log_odds) == pytest.approx([softmax_top(scores)] * 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"acc": 0.37}, "sample 5: acc is 0.37, not 0 or 1"),
        ({"filtered_resps": [["x", "False"], ["-1", "False"]]}, "sample 5: a log-likelihood is 'x', not a number"),
        ({"filtered_resps": [["nan", "False"], ["-1", "False"]]}, "sample 5: a log-likelihood is nan"),
        ({"filter": "strict"}, "has samples of 2 filters (none, strict)"),
    ],
)
def test_lm_eval_faults_name_the_sample(run, change, said):
    entries = lm_log(10)
    entries[5] |= change
    write_lines(NAME, entries)
    ran = run("metrics", NAME, code=3)
    assert f"{NAME}: {said}" in ran.err
    if "filter" in change:
        hint = ran.err.split("hint: ")[1].split()
        assert json.loads(run("metrics", NAME, *hint, "-m", "ece", "-f", "json", "-q").out)["results"][0]["n"] == 9


def test_lm_eval_damaged_files(run):
    good = "".join(json.dumps(entry) + "\n" for entry in lm_log(5))
    for text, said in (
        (good[:-40], "line 5: is not JSON"),
        (good + "[1]\n", "line 6: is not a JSON object"),
        (good + '{"doc_id": 7, "x": ' + "[" * 50_000 + "]" * 50_000 + "}\n", "line 6: "),
        (good.replace('"filtered_resps"', '"other"'), "'filtered_resps' is missing"),
    ):
        Path(NAME).write_text(text)
        assert said in run("metrics", NAME, code=3).err
    entries = [{k: v for k, v in entry.items() if k != "acc"} for entry in lm_log(5)]
    write_lines(NAME, entries)
    assert "has no acc (metrics: acc, acc_norm)" in run("metrics", NAME, code=3).err


def token(text: str, x: float, top: dict[str, float] | None = None) -> dict[str, Any]:
    return {"token": text, "logprob": x, "top_logprobs": [{"token": k, "logprob": v} for k, v in (top or {}).items()]}


def inspect_sample(
    i: int, top: dict[str, float], answer: str, target: str, epoch: int = 1, **more: Any
) -> dict[str, Any]:
    content = [token("ANSWER:", -0.01), token(f" {answer}", top[answer], top)]
    message = {"role": "assistant", "content": f"ANSWER: {answer}"}
    return {
        "id": i, "epoch": epoch, "input": "?", "choices": ["a", "b", "c", "d"], "target": target,
        "output": {"model": "mock", "choices": [{"message": message, "logprobs": {"content": content}}],
                   "completion": f"ANSWER: {answer}\nConfidence: {50 + i} %"},
        "scores": {"choice": {"value": "C" if answer == target else "I", "answer": answer}}, **more,
    }  # fmt: skip


def inspect_log(n: int = 30) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    found = []
    for i in range(n):
        p = rng.dirichlet(np.ones(4)) * 0.98
        top = {letter: math.log(x) for letter, x in zip("ABCD", p, strict=True)}
        answer = max(top, key=top.__getitem__) if rng.random() < 0.8 else "ABCD"[int(rng.integers(4))]
        found.append(inspect_sample(i, top, answer, "ABCD"[int(rng.integers(4))]))
    return found


HEADER = {"version": 2, "status": "success", "eval": {"task": "toy", "model": "mockllm/model"}}


def write_eval(path: str, samples: list[Any], method: int = zipfile.ZIP_DEFLATED) -> str:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("_journal/start.json", json.dumps(HEADER))
        for sample in samples:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(name, json.dumps(sample))
        archive.writestr("header.json", json.dumps(HEADER))
    return path


def expected_confidences(samples: list[dict[str, Any]]) -> list[float]:
    found = []
    for sample in samples:
        last = sample["output"]["choices"][0]["logprobs"]["content"][-1]
        p = {other["token"]: math.exp(other["logprob"]) for other in last["top_logprobs"]}
        found.append(p[last["token"].strip()] / sum(p.values()))
    return found


@pytest.mark.parametrize("kind", ["deflated", "stored", "json"])
def test_inspect_confidences_are_those_of_the_answer_letter(kind):
    samples = inspect_log()
    if kind == "json":
        Path("log.json").write_text(json.dumps({**HEADER, "samples": samples}))
        path = "log.json"
    else:
        path = write_eval("log.eval", samples, zipfile.ZIP_DEFLATED if kind == "deflated" else zipfile.ZIP_STORED)
    rows = read_rows(path).rows
    assert sigmoid(rows.log_odds) == pytest.approx(expected_confidences(samples), abs=1e-12)
    assert rows.hits.tolist() == [sample["scores"]["choice"]["value"] == "C" for sample in samples]


def test_inspect_by_command(run):
    write_eval("log.eval", inspect_log())
    record = json.loads(run("metrics", "log.eval", "--by", "model", "-m", "ece", "-f", "json").out)["results"][0]
    assert (record["group"], record["n"]) == ("mockllm/model", 30)
    run("fit", "log.eval", "--method", "platt", "-o", "p.json")
    run("apply", "p.json", "log.eval", "--output-dir", "out")
    assert len(Path("out/log.jsonl").read_text().splitlines()) == 30


def test_inspect_stated_confidences_are_asked_for_by_name(run):
    samples = inspect_log(10)
    samples[3]["output"]["completion"] = "I am confident."
    for i, text in (
        (4, "Confidence: 0.9"),
        (5, "My confidence is 85"),
        (6, "confidence = 85%"),
        (7, "Confidence: 140 %"),
    ):
        samples[i]["output"]["completion"] = text
    write_eval("log.eval", samples)
    ran = run("metrics", "log.eval", "--input-format", "inspect:stated", "-m", "ece", "-f", "json")
    assert "1: no stated confidence" in ran.err
    assert "1: a stated confidence above 100 %" in ran.err
    rows = read_rows("log.eval", InputOptions(input_format="inspect:stated")).rows
    assert sigmoid(rows.log_odds) == pytest.approx([0.5, 0.51, 0.52, 0.9, 0.85, 0.85, 0.58, 0.59])


def test_inspect_leaves_out_by_reason(run):
    samples = inspect_log(20)
    samples[0]["scores"]["choice"]["value"] = "N"
    samples[1]["scores"]["choice"]["value"] = "P"
    samples[2]["output"]["choices"][0]["logprobs"] = None
    samples[3]["output"]["choices"][0]["logprobs"]["content"][-1]["top_logprobs"] = []
    samples[4]["error"] = {"message": "timeout"}
    samples[5]["choices"] = []
    samples[6]["scores"]["choice"]["value"] = 0.5
    write_eval("log.eval", samples)
    err = run("metrics", "log.eval", "-m", "ece").err
    assert "7 of 20 samples have no confidence" in err
    for reason in ("no answer (N)", "partly correct (P)", "no log-probabilities", "not among top_logprobs",
                   "ended in an error", "not a multiple-choice question", "not correct or incorrect"):  # fmt: skip
        assert f"1: {reason}" in err or reason in err
    for sample in samples:
        sample["output"]["choices"][0]["logprobs"] = None
    write_eval("none.eval", samples)
    assert "--logprobs --top-logprobs" in run("metrics", "none.eval", code=3).err


def test_inspect_repeated_samples_are_told(run):
    samples = inspect_log(10)
    again = [{**sample, "epoch": 2} for sample in samples]
    write_eval("log.eval", samples + again)
    assert "20 rows are repetitions of 10 samples" in run("metrics", "log.eval", "-m", "ece").err


def test_inspect_faults(run):
    samples = inspect_log(3)
    for change, said in (
        ({"scores": None}, "sample 1 has no scores"),
        ({"scores": {"a": {"value": "C"}, "b": {"value": "I"}}}, "sample 1 has 2 scorers (a, b)"),
    ):
        write_eval("log.eval", [samples[0], {**samples[1], **change}])
        assert said in run("metrics", "log.eval", code=3).err
    write_eval("log.eval", samples)
    data = Path("log.eval").read_bytes()
    inside = data.find(b"samples/0") + 80
    for damaged in (data[: len(data) // 2], data[:inside] + b"\xff" * 40 + data[inside + 40 :]):
        Path("bad.eval").write_bytes(damaged)
        run("metrics", "bad.eval", code=3)
    write_eval("empty.eval", [])
    assert "has no samples" in run("metrics", "empty.eval", code=3).err
    assert "unknown choice 'x'" in run("metrics", "log.eval", "--input-format", "inspect:x", code=2).err


def helm(i: int, confidence: float, hit: float, **more: Any) -> dict[str, Any]:
    def stat(name: str, value: float) -> dict[str, Any]:
        return {"name": {"name": name, "split": "test"}, "count": 1, "sum": value}

    stats = [stat("exact_match", hit), stat("max_prob", confidence), stat("logprob", -1.5)]
    return {"instance_id": f"id{i}", "train_trial_index": 0, "stats": stats, **more}


def test_helm(run):
    rng = np.random.default_rng(2)
    confidence, hit = rng.random(40), rng.random(40) < 0.5
    entries = [helm(i, float(c), float(h)) for i, (c, h) in enumerate(zip(confidence, hit, strict=True))]
    entries.append(helm(99, 0.5, 1.0, perturbation={"name": "typos"}))
    folder = Path("mmlu:subject=x,model=openai_gpt2")
    folder.mkdir()
    (folder / "per_instance_stats.json").write_text(json.dumps(entries))
    record = json.loads(run("metrics", folder, "--by", "model", "-m", "ece", "-f", "json").out)["results"][0]
    assert (record["group"], record["n"]) == ("openai_gpt2", 40)
    assert record["mean_confidence"] == pytest.approx(confidence.mean())
    assert record["accuracy"] == pytest.approx(hit.mean())
    silent = [helm(i, 1.0, 1.0) for i in range(5)]
    for entry in silent:
        entry["stats"][2]["sum"] = 0.0
    (folder / "per_instance_stats.json").write_text(json.dumps(silent))
    assert "all log-probabilities are zero" in run("metrics", folder, code=3).err


def test_openai_batches_give_answers_and_log_odds(run):
    top = {"A": math.log(0.6), " B": math.log(0.2), "B": math.log(0.1), "the": math.log(0.05)}
    content = [token("A", top["A"], top)]
    body = {"model": "gpt-x", "choices": [{"message": {"content": "A"}, "logprobs": {"content": content}}]}
    entries: list[Any] = [{"custom_id": f"q{i}", "response": {"status_code": 200, "body": body}} for i in range(3)]
    entries.append({"custom_id": "q9", "response": {"status_code": 500, "body": {}}})
    write_lines("batch.jsonl", entries)
    reader = logs.recognised(Path("batch.jsonl").read_bytes())
    assert reader is not None
    found = reader("batch.jsonl")
    assert [sample.prediction for sample in found.samples] == ["A"] * 3
    assert sigmoid(np.array([found.samples[0].score])) == pytest.approx([0.6 / 0.9])
    assert found.reasons() == "1: the request failed"
    assert "no column says which rows are correct" in run("metrics", "batch.jsonl", code=3).err


def test_other_files_are_not_taken_for_logs():
    for text in (
        b'{"confidence": 0.5, "hit": 1}\n',
        b"confidence,hit\n0.5,1\n",
        b"PK\x03\x04" + b"a.npy",
        b"[1, 2]",
        b"",
    ):
        assert logs.recognised(text) is None


# ---------------------------------------------------------------- many logs


def lm_folder(models: tuple[str, ...] = ("one", "two"), tasks: tuple[str, ...] = ("arc", "hs"), n: int = 40) -> str:
    for i, model in enumerate(models):
        for k, task in enumerate(tasks):
            write_lines(f"runs/{model}/samples_{task}_2026-01-02T03-04-05.678.jsonl", lm_log(n, seed=10 * i + k))
        Path(f"runs/{model}/results_2026-01-02T03-04-05.678.json").write_text(json.dumps({"model_name": model}))
    return "runs"


def results(ran: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ran.out)["results"]
    return found


def test_a_directory_gives_a_row_per_task_and_model(run):
    found = results(run("metrics", lm_folder(), "-m", "ece", "-f", "json"))
    assert [(one["model"], one["task"]) for one in found] == [
        ("one", "arc"),
        ("one", "hs"),
        ("two", "arc"),
        ("two", "hs"),
    ]
    header = run("metrics", "runs", "-m", "ece", "-f", "csv").out.splitlines()[0]
    assert header.startswith("input,task,model,rows")
    for by, groups in (("task", ["arc", "hs"]), ("model", ["one", "two"])):
        assert [
            one["group"] for one in results(run("metrics", "runs", "-m", "ece", "--pool", "--by", by, "-f", "json"))
        ] == groups
    assert len(results(run("metrics", "runs", "-m", "ece", "--pool", "--by", "source", "-f", "json"))) == 4


def test_lm_score_chooses_the_likelihoods(run):
    path = write_lines(NAME, lm_log())
    for score in ("acc", "acc_norm"):
        assert results(run("metrics", path, "-m", "ece", "--lm-score", score, "-f", "json")) == results(
            run("metrics", path, "-m", "ece", "--input-format", f"lm-eval:{score}", "-f", "json")
        )
    assert "acc or acc_norm" in run("metrics", path, "--lm-score", "f1", code=2).err
    assert "exclude each other" in run("metrics", path, "--lm-score", "acc", "--input-format", "lm-eval", code=2).err
    np.savez("a.npz", confidence=[0.5, 0.6], hit=[0, 1])
    assert "leave it out" in run("metrics", "a.npz", "--lm-score", "acc", code=3).err


def test_other_logs_beside_it_are_still_recognised(run):
    write_lines(f"mixed/{NAME}", lm_log())
    entries = [{"columns": ["confidence", "correct"], "data": [[0.9, 1], [0.6, 0], [0.7, 1]]}]
    write_lines("mixed/x.table.json", entries)
    assert len(results(run("metrics", "mixed", "-m", "ece", "--lm-score", "acc_norm", "-f", "json"))) == 2


def test_calibrators_of_all_choices_work_on_logs(run):
    path = write_lines(NAME, lm_log(200))
    run("fit", path, "--method", "temperature", "-o", "p.json")
    run("apply", "p.json", path, "--as", "probs", "-o", "out.jsonl")
    written = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [len(one["probs"]) for one in written] == [len(e["filtered_resps"]) for e in lm_log(200)]
    assert all(abs(sum(one["probs"]) - 1) < 1e-9 for one in written)
    assert [one["sample"] for one in written] == [str(i) for i in range(200)]


def test_hits_that_contradict_the_target_leave_the_label_out(run):
    entries = lm_log()
    entries[3]["acc"] = 1.0 - entries[3]["acc"]
    loaded = read_rows(write_lines(NAME, entries))
    assert loaded.rows.labels is None
    assert loaded.rows.hits[3] == bool(entries[3]["acc"])


def test_repeated_samples_are_clusters(run):
    write_lines(NAME, [entry for entry in lm_log(60) for _ in range(5)])
    ran = run("metrics", NAME, "-m", "tce,ece", "--interval", 0.9, "-f", "json")
    (found,) = results(ran)
    assert (found["n"], found["clusters"]) == (300, 60)
    assert found["effective_n"] == pytest.approx(60, rel=0.02)
    assert "300 rows are repetitions of 60 samples, so intervals resample samples" in ran.err
    write_lines(NAME, lm_log(60))
    (alone,) = results(run("metrics", NAME, "-m", "tce,ece", "--interval", 0.9, "-f", "json"))
    assert "clusters" not in alone
    for name in ("tce", "ece"):
        for end in ("low", "high"):
            assert found["metrics"][name][end] == pytest.approx(alone["metrics"][name][end], abs=0.03)


def test_models_that_share_prompts_are_clusters_when_pooled(run):
    lm_folder(n=50)
    (found,) = results(run("metrics", "runs", "--pool", "-m", "tce", "-f", "json"))
    assert (found["n"], found["clusters"]) == (200, 100), "two tasks with the same ids are not the same prompts"
    by_model = results(run("metrics", "runs", "--pool", "--by", "model", "-m", "tce", "-f", "json"))
    assert all("clusters" not in one for one in by_model)


# ---------------------------------------------------------------- tables


def test_tables_of_wandb_and_mlflow(run):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 50)
    truth = rng.integers(0, 3, 50)
    rows = [[i, {"_type": "image-file", "path": f"{i}.png"}, int(q.argmax()), int(y), *q.tolist()] for i, (q, y) in enumerate(zip(p, truth, strict=True))]  # fmt: skip
    table = {"columns": ["id", "image", "guess", "truth", "score_0", "score_1", "score_2"], "data": rows}
    Path("t.table.json").write_text(json.dumps(table))
    Path("a.json").write_text(json.dumps({"_type": "table", "column_types": {}, **table, "ncols": 7, "nrows": 50}))
    for path in ("t.table.json", "a.json"):
        loaded = read_rows(path, InputOptions(probs="score"))
        assert sigmoid(loaded.rows.log_odds) == pytest.approx(p.max(axis=1))
        assert loaded.rows.hits.tolist() == (p.argmax(axis=1) == truth).tolist()
    assert (
        "could be" in run("metrics", "t.table.json", code=3).err
        or "--probs" in run("metrics", "t.table.json", code=3).err
    )
    Path("b.json").write_text(json.dumps({"columns": ["inputs", "outputs"], "data": [["a", "b"]]}))
    err = run("metrics", "b.json", code=3).err
    assert "b.json: has no column of numbers (found: inputs, outputs)" in err
    assert "log a column per class" in err
