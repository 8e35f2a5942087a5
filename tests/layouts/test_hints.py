"""Every hint of the readers that names an option or a command: followed to the letter, it works."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), 80)
Z = np.log(P)
Y = RNG.integers(0, 3, 80)
TOP, HIT = P.max(axis=1), (P.argmax(axis=1) == Y).astype(int)
EVEN = RNG.integers(0, 2, 80)
WEIGHT = RNG.random(80) + 0.5
TOKENS = [
    {"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -2.4}]}
]
BATCH = [
    {"custom_id": f"r{i}", "response": {"status_code": 200, "body": {"model": "m", "choices": [{"logprobs": {"content": TOKENS}}]}}}
    for i in range(80)
]  # fmt: skip


class Case(NamedTuple):
    """A command that fails, what its hint says, and the command that follows from it."""

    name: str
    make: Callable[[], Any]
    command: str
    hint: str
    then: str
    code: int = 3


def csv(path: str, **columns: Any) -> Callable[[], Any]:
    return lambda: pd.DataFrame(columns).to_csv(path, index=False)


def npz(path: str, **arrays: Any) -> Callable[[], Any]:
    return lambda: np.savez(path, **arrays)


def lines(path: str, entries: list[Any]) -> Callable[[], Any]:
    return lambda: Path(path).write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def lm(**more: Any) -> list[dict[str, Any]]:
    return [
        {"doc_id": i, "target": str(y), "filtered_resps": [[str(x), "False"] for x in z], "filter": "none",
         "arguments": [["q", " abc"] for _ in z], "metrics": ["acc", "acc_norm"],
         "acc": float(z.argmax() == y), "acc_norm": float(z.argmax() == y), **more}
        for i, (z, y) in enumerate(zip(Z, Y, strict=True))
    ]  # fmt: skip


def without(entries: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in entry.items() if key != name} | {"metrics": ["acc_norm"]} for entry in entries
    ]


def inspect(scorers: tuple[str, ...]) -> dict[str, Any]:
    def sample(i: int, p: Any, hit: int) -> dict[str, Any]:
        letter = "ABC"[int(p.argmax())]
        top = [{"token": t, "logprob": float(np.log(x))} for t, x in zip("ABC", p, strict=True)]
        content = [{"token": letter, "logprob": float(np.log(p.max())), "top_logprobs": top}]
        scores = {name: {"value": "C" if hit else "I", "answer": letter} for name in scorers}
        return {"id": i, "epoch": 1, "choices": ["x", "y", "z"], "scores": scores,
                "output": {"choices": [{"message": {"content": letter}, "logprobs": {"content": content}}]}}  # fmt: skip

    return {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"},
            "samples": [sample(i, p, h) for i, (p, h) in enumerate(zip(P, HIT, strict=True))]}  # fmt: skip


def missing(values: Any) -> Any:
    found = np.asarray(values, dtype=float).copy()
    found[3] = np.nan
    return found


SCORES = {f"score_{k}": P[:, k] for k in range(3)}
CASES = [
    Case("wide array", npz("a.npz", arr=P, labels=Y), "a.npz", "say --logits arr or --probs arr", "a.npz --probs arr"),
    Case("two splits", npz("a.npz", p_test=P, y_test=Y, p_cal=P[:9], y_cal=Y[:9]), "a.npz",
         "or --probs p_test", "a.npz --probs p_test"),
    Case("two splits with other names", npz("a.npz", p_test=P, test_label=Y, p_cal=P[:9], cal_label=Y[:9]), "a.npz",
         "--probs p_test --label test_label", "a.npz --probs p_test --label test_label"),
    Case("numbered columns", csv("a.csv", **SCORES, truth=Y), "a.csv", "say --logits score or --probs score", "a.csv --probs score"),
    Case("numbered columns of logits", csv("a.csv", **{f"out{k}": Z[:, k] for k in range(3)}, y=Y), "a.csv",
         "say --logits out or --probs out", "a.csv --logits out"),
    Case("an unknown name", csv("a.csv", sure=TOP, hit=HIT), "a.csv", "or --confidence sure", "a.csv --confidence sure"),
    Case("a score of a binary model", csv("a.csv", y_score=TOP, y_pred=EVEN, y_true=EVEN), "a.csv", "say --probs y_score", "a.csv --probs y_score"),
    Case("answers of a batch without the truth", lambda: (Path("oa.jsonl").write_text("".join(json.dumps(line) + "\n" for line in BATCH)),
         pd.DataFrame({"sample": [f"r{i}" for i in range(80)], "label": ["AB"[y % 2] for y in Y]}).to_csv("truth.csv", index=False)),
         "oa.jsonl", "--label FILE --id sample", "oa.jsonl --label truth.csv --id sample"),
    Case("unknown names", csv("a.csv", sure=TOP, age=TOP, hit=HIT), "a.csv", "name them with --logits, --probs or --confidence", "a.csv --confidence sure"),
    Case("labels in one of several columns", lambda: (np.save("x_proba.npy", P), pd.DataFrame({"age": TOP, "class": Y}).to_csv("t.csv", index=False)),
         "x_proba.npy --label t.csv", "--label t.csv::COLUMN", "x_proba.npy --label t.csv::class"),
    Case("a misspelt column of labels", lambda: (np.save("x_proba.npy", P), pd.DataFrame({"truth": Y, "age": TOP}).to_csv("t.csv", index=False)),
         "x_proba.npy --label t.csv::trut", "--label t.csv::truth", "x_proba.npy --label t.csv::truth"),
    Case("a misspelt column", csv("a.csv", sure=TOP, hit=HIT), "a.csv --confidence sur", "did you mean sure?", "a.csv --confidence sure"),
    Case("no labels", npz("a.npz", probs=P, klass=Y), "a.npz", "name it with --label", "a.npz --label klass"),
    Case("hits instead of labels", npz("a.npz", probs=P, good=HIT), "a.npz", "or hits with --hit", "a.npz --hit good"),
    Case("no hits", csv("a.csv", confidence=TOP, good=HIT), "a.csv", "name the hits with --hit", "a.csv --hit good"),
    Case("a confidence with a label", csv("a.csv", confidence=RNG.random(80), label=EVEN), "a.csv",
         "say --event --probs confidence", "a.csv --event --probs confidence"),
    Case("predictions", csv("a.csv", confidence=TOP, mine=P.argmax(axis=1), truth=Y), "a.csv",
         "or --prediction and --label", "a.csv --prediction mine --label truth"),
    Case("two labels", csv("a.csv", **{f"prob_{k}": P[:, k] for k in range(3)}, label=Y, target=Y), "a.csv", "choose with --label", "a.csv --label target"),
    Case("no y for an event", csv("a.csv", prob=RNG.random(80), seen=EVEN), "a.csv --event", "name it with --label", "a.csv --event --label seen"),
    Case("an event of three classes", npz("a.npz", probs=P, labels=Y), "a.npz --event", "leave --event out", "a.npz"),
    Case("a matrix of confidences", npz("a.npz", confidence=P, labels=Y), "a.npz --confidence confidence", "--probs confidence", "a.npz --probs confidence"),
    Case("percent", csv("a.csv", confidence=100 * TOP, hit=HIT), "a.csv", "--scale percent", "a.csv --scale percent"),
    Case("percent of logits", npz("a.npz", logits=Z, labels=Y), "a.npz --scale percent", "leave it out", "a.npz", 2),
    Case("an unknown scale", csv("a.csv", confidence=100 * TOP, hit=HIT), "a.csv --scale perzent", "--scale percent", "a.csv --scale percent", 2),
    Case("missing values", csv("a.csv", confidence=missing(TOP), hit=HIT), "a.csv", "--skip-missing", "a.csv --skip-missing"),
    Case("NaN logits", npz("a.npz", logits=np.where(np.arange(80)[:, None] == 3, np.nan, Z), labels=Y), "a.npz", "--skip-missing", "a.npz --skip-missing"),
    Case("NaN labels", npz("a.npz", logits=Z, labels=missing(Y)), "a.npz", "--skip-missing", "a.npz --skip-missing"),
    Case("another suffix", lambda: Path("a.csv").write_bytes(_parquet()), "a.csv", "--input-format parquet", "a.csv --input-format parquet"),
    Case("no suffix", lambda: Path("a.dat").write_text(pd.DataFrame({"confidence": TOP, "hit": HIT}).to_csv(index=False)),
         "a.dat --input-format cvs", "known formats: ", "a.dat --input-format csv", 2),
    Case("labels of other rows", lambda: (np.save("x_proba.npy", P), pd.DataFrame({"id": range(90), "y": [*Y, *[0] * 10]}).to_csv("y.csv", index=False),
         pd.DataFrame({"id": range(80), **{f"prob_{k}": P[:, k] for k in range(3)}}).to_csv("a.csv", index=False)),
         "a.csv --label y.csv", "--id COLUMN", "a.csv --label y.csv --id id"),
    Case("another key", lambda: (pd.DataFrame({"id": range(80), "y": Y}).to_csv("y.csv", index=False),
         pd.DataFrame({"id": range(80), **{f"prob_{k}": P[:, k] for k in range(3)}}).to_csv("a.csv", index=False)),
         "a.csv --label y.csv --id key", "name another one with --id", "a.csv --label y.csv --id id"),
    Case("zero weights", csv("a.csv", confidence=TOP, hit=HIT, w=np.zeros(80), v=WEIGHT), "a.csv --weight w", "name another column with --weight", "a.csv --weight v"),
    Case("groups of lists", npz("a.npz", logits=Z, labels=Y, site=P, place=EVEN), "a.npz --by site", "name another column with --by", "a.npz --by place"),
    Case("a summary and clusters", csv("a.csv", confidence=TOP, hit=HIT, doc=np.arange(80) // 2), "a.csv --cluster doc --summary",
         "--exact keeps them", "a.csv --cluster doc --exact", 2),
    Case("one cluster", csv("a.csv", confidence=TOP, hit=HIT, doc=np.zeros(80)), "a.csv --cluster doc", "leave --cluster out", "a.csv"),
    Case("top-k of confidences", csv("a.csv", confidence=TOP, hit=HIT), "a.csv --top-k 2", "leave --top-k out", "a.csv"),
    Case("several filters", lines("a.jsonl", [*lm(), *lm(filter="strict")]), "a.jsonl", "--input-format lm-eval:filter=none", "a.jsonl --input-format lm-eval:filter=none"),
    Case("no acc", lines("a.jsonl", without(lm(), "acc")), "a.jsonl", "--input-format lm-eval:acc_norm", "a.jsonl --input-format lm-eval:acc_norm"),
    Case("an unknown choice", lines("a.jsonl", lm()), "a.jsonl --input-format lm-eval:akk", "lm-eval:acc_norm", "a.jsonl --input-format lm-eval:acc_norm", 2),
    Case("several scorers", lambda: Path("a.json").write_text(json.dumps(inspect(("choice", "other")))), "a.json",
         "--input-format inspect:scorer=choice", "a.json --input-format inspect:scorer=choice"),
    Case("an unknown scorer", lambda: Path("a.json").write_text(json.dumps(inspect(("choice",)))), "a.json --input-format inspect:scorer=x",
         "--input-format inspect:scorer=choice", "a.json --input-format inspect:scorer=choice"),
    Case("lm-score elsewhere", npz("a.npz", probs=P, labels=Y), "a.npz --lm-score acc", "leave it out", "a.npz"),
]  # fmt: skip


def _parquet() -> bytes:
    pd.DataFrame({"confidence": TOP, "hit": HIT}).to_parquet("x.parquet")
    return Path("x.parquet").read_bytes()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_hint_works_when_followed(run, case):
    case.make()
    ran = run("metrics", *shlex.split(case.command), "-m", "ece", code=case.code)
    assert case.hint in ran.err.partition("hint: ")[2], ran.err
    run("metrics", *shlex.split(case.then), "-m", "ece")


def test_the_hint_about_groups_of_a_summary(run):
    csv("a.csv", confidence=TOP, hit=HIT, site=EVEN)()
    run("summarize", "a.csv", "-o", "s.parquet")
    ran = run("metrics", "s.parquet", "--by", "site", "-m", "ece", code=None)
    assert "bpmcli summarize ROWS --by site" in ran.err
    run("summarize", "a.csv", "--by", "site", "-o", "s.parquet")
    run("metrics", "s.parquet", "--by", "site", "-m", "ece")


def test_the_hint_about_an_output_directory(run):
    Path("in").mkdir()
    csv("in/a.csv", confidence=TOP, hit=HIT)()
    run("fit", "in/a.csv", "-o", "p.json")
    ran = run("apply", "p.json", "in", "--output-dir", "in", code=2)
    assert "--output-dir in/calibrated" in ran.err
    run("apply", "p.json", "in", "--output-dir", "in/calibrated")
