"""Hints of the readers: about columns, labels, values and logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hints.case import EVEN, HIT, NAMES, RNG, TOP, WEIGHT, Case, P, Y, Z, csv, lines, missing, npz

TOKENS = [
    {"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -2.4}]}
]
BATCH = [
    {"custom_id": f"r{i}", "response": {"status_code": 200, "body": {"model": "m", "choices": [{"logprobs": {"content": TOKENS}}]}}}
    for i in range(80)
]  # fmt: skip


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


def inspect(scorers: tuple[str, ...], stated: bool = False) -> dict[str, Any]:
    def sample(i: int, p: Any, hit: int) -> dict[str, Any]:
        letter = "ABC"[int(p.argmax())]
        top = [{"token": t, "logprob": float(np.log(x))} for t, x in zip("ABC", p, strict=True)]
        content = [{"token": letter, "logprob": float(np.log(p.max())), "top_logprobs": top}]
        message = {"message": {"content": f"{letter}\nConfidence: {100 * p.max():.0f}%"}}
        logged = {"message": {"content": letter}, "logprobs": {"content": content}}
        scores = {name: {"value": "C" if hit else "I", "answer": letter} for name in scorers}
        return {"id": i, "epoch": 1, "choices": ["x", "y", "z"], "scores": scores,
                "output": {"choices": [message if stated else logged]}}  # fmt: skip

    return {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"},
            "samples": [sample(i, p, h) for i, (p, h) in enumerate(zip(P, HIT, strict=True))]}  # fmt: skip


def parquet(path: str) -> None:
    pd.DataFrame({"confidence": TOP, "hit": HIT}).to_parquet("x.parquet")
    Path(path).write_bytes(Path("x.parquet").read_bytes())


SCORES = {f"score_{k}": P[:, k] for k in range(3)}
CASES = [
    Case("labels as an input", lambda: (np.save("scores.npy", P), np.save("y.npy", Y)), "bpmcli metrics y.npy", "if these are labels, give the file of scores instead, and name this one with --label", "bpmcli metrics scores.npy --probs array --label y.npy"),
    Case("wide array", npz("a.npz", arr=P, labels=Y), "bpmcli metrics a.npz", "say --logits arr or --probs arr", "bpmcli metrics a.npz --probs arr"),
    Case("two splits", npz("a.npz", p_test=P, y_test=Y, p_cal=P[:9], y_cal=Y[:9]), "bpmcli metrics a.npz",
         "say --logits p_test or --probs p_test", "bpmcli metrics a.npz --probs p_test"),
    Case("two splits with other names", npz("a.npz", p_test=P, label_of_test=Y, p_cal=P[:9], label_of_cal=Y[:9]), "bpmcli metrics a.npz",
         "say --logits p_test --label label_of_test or --probs p_test --label label_of_test", "bpmcli metrics a.npz --probs p_test --label label_of_test"),
    Case("two splits with common names", npz("a.npz", probas_cal=P, labels_cal=Y[::-1], probas_test=P, labels_test=Y), "bpmcli metrics a.npz", "say --probs probas_test or --probs probas_cal", "bpmcli metrics a.npz --probs probas_test"),
    Case("numbered columns", csv("a.csv", **SCORES, truth=Y), "bpmcli metrics a.csv", "say --logits score or --probs score", "bpmcli metrics a.csv --probs score"),
    Case("numbered columns of logits", csv("a.csv", **{f"out{k}": Z[:, k] for k in range(3)}, y=Y), "bpmcli metrics a.csv",
         "say --logits out or --probs out", "bpmcli metrics a.csv --logits out"),
    Case("an unknown name", csv("a.csv", sure=TOP, hit=HIT), "bpmcli metrics a.csv", "say --probs sure, --logits sure or --confidence sure", "bpmcli metrics a.csv --confidence sure"),
    Case("a score of a binary model", csv("a.csv", y_score=TOP, y_pred=EVEN, y_true=EVEN), "bpmcli metrics a.csv", "say --probs y_score, --logits y_score or --confidence y_score", "bpmcli metrics a.csv --probs y_score"),
    Case("answers of a batch without the truth", lambda: (Path("oa.jsonl").write_text("".join(json.dumps(line) + "\n" for line in BATCH)),
         pd.DataFrame({"sample": [f"r{i}" for i in range(80)], "label": ["AB"[y % 2] for y in Y]}).to_csv("truth.csv", index=False)),
         "bpmcli metrics oa.jsonl", "the log has no true answers: --label FILE --id sample, where FILE has the columns sample and label", "bpmcli metrics oa.jsonl --label truth.csv --id sample"),
    Case("unknown names", csv("a.csv", sure=TOP, age=TOP, hit=HIT), "bpmcli metrics a.csv", "name them with --logits, --probs or --confidence: a column, a prefix (p), a list (a,b,c), a range (a:c) or a pattern ('p*')", "bpmcli metrics a.csv --confidence sure"),
    Case("labels in one of several columns", lambda: (np.save("x_proba.npy", P), pd.DataFrame({"age": TOP, "class": Y}).to_csv("t.csv", index=False)),
         "bpmcli metrics x_proba.npy --label t.csv", "name it after the file: --label t.csv::COLUMN", "bpmcli metrics x_proba.npy --label t.csv::class"),
    Case("a misspelt column of labels", lambda: (np.save("x_proba.npy", P), pd.DataFrame({"truth": Y, "age": TOP}).to_csv("t.csv", index=False)),
         "bpmcli metrics x_proba.npy --label t.csv::trut", "name it after the file: --label t.csv::truth", "bpmcli metrics x_proba.npy --label t.csv::truth"),
    Case("a misspelt column", csv("a.csv", sure=TOP, hit=HIT), "bpmcli metrics a.csv --confidence sur", "did you mean sure?", "bpmcli metrics a.csv --confidence sure"),
    Case("no labels", npz("a.npz", probs=P, klass=Y), "bpmcli metrics a.npz", "name it with --label: a column, or a file of labels (y.npy); or hits with --hit", "bpmcli metrics a.npz --label klass"),
    Case("neither scores nor labels", csv("a.csv", bottle=[f"b{i}" for i in range(80)], cat=P[:, 0], dog=P[:, 1], owl=P[:, 2], klass=np.array(["cat", "dog", "owl"])[Y]), "bpmcli metrics a.csv", "name them with --logits, --probs or --confidence: a column, a prefix (p), a list (a,b,c), a range (a:c) or a pattern ('p*'); name the labels too, with --label, or the hits with --hit", "bpmcli metrics a.csv --probs cat:owl --label klass"),
    Case("P(y = 1) and no labels", csv("a.csv", p_churn=RNG.random(80), churned=EVEN), "bpmcli metrics a.csv --event", "say --probs p_churn, --logits p_churn or --confidence p_churn; name the labels too, with --label, or the hits with --hit", "bpmcli metrics a.csv --event --probs p_churn --label churned"),
    Case("a probability of 0 for the true class", csv("a.csv", prob_0=[0.0, 0.3, 0.8], prob_1=[1.0, 0.7, 0.2], label=[0, 1, 0]), "bpmcli metrics a.csv -m nll-all", "give logits, or rank by brier-all, in which a probability of 0 costs no more than 2", "bpmcli metrics a.csv -m brier-all", notice=True),
    Case("hits instead of labels", npz("a.npz", probs=P, good=HIT), "bpmcli metrics a.npz", "name it with --label: a column, or a file of labels (y.npy); or hits with --hit", "bpmcli metrics a.npz --hit good"),
    Case("no hits", csv("a.csv", confidence=TOP, good=HIT), "bpmcli metrics a.csv", "name the hits with --hit, or --prediction and --label", "bpmcli metrics a.csv --hit good"),
    Case("a confidence with a label", csv("a.csv", confidence=RNG.random(80), label=EVEN), "bpmcli metrics a.csv",
         "name the hits with --hit, or --prediction and --label; if 'confidence' is P(y = 1), say --event --probs confidence", "bpmcli metrics a.csv --event --probs confidence"),
    Case("predictions", csv("a.csv", confidence=TOP, mine=P.argmax(axis=1), truth=Y), "bpmcli metrics a.csv",
         "name the hits with --hit, or --prediction and --label; if 'confidence' is P(y = 1), say --event --probs confidence", "bpmcli metrics a.csv --prediction mine --label truth"),
    Case("two labels", csv("a.csv", **{f"prob_{k}": P[:, k] for k in range(3)}, label=Y, target=Y), "bpmcli metrics a.csv", "say --label label or --label target", "bpmcli metrics a.csv --label target"),
    Case("no y for an event", csv("a.csv", prob=RNG.random(80), seen=EVEN), "bpmcli metrics a.csv --event", "name it with --label: a column, or a file of labels (y.npy)", "bpmcli metrics a.csv --event --label seen"),
    Case("an event of three classes", npz("a.npz", probs=P, labels=Y), "bpmcli metrics a.npz --event", "leave --event out, or name the column of P(y = 1) with --probs", "bpmcli metrics a.npz"),
    Case("a matrix of confidences", npz("a.npz", confidence=P, labels=Y), "bpmcli metrics a.npz --confidence confidence", "if these are scores of all classes, say --logits confidence or --probs confidence", "bpmcli metrics a.npz --probs confidence"),
    Case("percent", csv("a.csv", confidence=100 * TOP, hit=HIT), "bpmcli metrics a.csv", "--scale percent if these are percentages; if these are log-odds, say --log-odds confidence", "bpmcli metrics a.csv --scale percent"),
    Case("percent of logits", npz("a.npz", logits=Z, labels=Y), "bpmcli metrics a.npz --scale percent", "leave it out for logits", "bpmcli metrics a.npz"),
    Case("an unknown scale", csv("a.csv", confidence=100 * TOP, hit=HIT), "bpmcli metrics a.csv --scale perzent", "--scale percent, for values from 0 to 100", "bpmcli metrics a.csv --scale percent"),
    Case("missing values", csv("a.csv", confidence=missing(TOP), hit=HIT), "bpmcli metrics a.csv", "--skip-missing leaves such rows out", "bpmcli metrics a.csv --skip-missing"),
    Case("NaN logits", npz("a.npz", logits=np.where(np.arange(80)[:, None] == 3, np.nan, Z), labels=Y), "bpmcli metrics a.npz", "--skip-missing leaves such rows out", "bpmcli metrics a.npz --skip-missing"),
    Case("NaN labels", npz("a.npz", logits=Z, labels=missing(Y)), "bpmcli metrics a.npz", "--skip-missing leaves rows with NaN out", "bpmcli metrics a.npz --skip-missing"),
    Case("another suffix", lambda: parquet("a.csv"), "bpmcli metrics a.csv", "--input-format parquet", "bpmcli metrics a.csv --input-format parquet"),
    Case("no suffix", lambda: Path("a.dat").write_text(pd.DataFrame({"confidence": TOP, "hit": HIT}).to_csv(index=False)),
         "bpmcli metrics a.dat --input-format cvs", "known formats: …", "bpmcli metrics a.dat --input-format csv"),
    Case("labels of other rows", lambda: (np.save("x_proba.npy", P), pd.DataFrame({"id": range(90), "y": [*Y, *[0] * 10]}).to_csv("y.csv", index=False),
         pd.DataFrame({"id": range(80), **{f"prob_{k}": P[:, k] for k in range(3)}}).to_csv("a.csv", index=False)),
         "bpmcli metrics a.csv --label y.csv", "give labels for exactly these rows, or join them by a key: --id COLUMN", "bpmcli metrics a.csv --label y.csv --id id"),
    Case("another key", lambda: (pd.DataFrame({"id": range(80), "y": Y}).to_csv("y.csv", index=False),
         pd.DataFrame({"id": range(80), **{f"prob_{k}": P[:, k] for k in range(3)}}).to_csv("a.csv", index=False)),
         "bpmcli metrics a.csv --label y.csv --id key", "name another column with --id", "bpmcli metrics a.csv --label y.csv --id id"),
    Case("zero weights", csv("a.csv", confidence=TOP, hit=HIT, w=np.zeros(80), v=WEIGHT), "bpmcli metrics a.csv --weight w", "name another column with --weight", "bpmcli metrics a.csv --weight v"),
    Case("groups of lists", npz("a.npz", logits=Z, labels=Y, site=P, place=EVEN), "bpmcli metrics a.npz --by site", "name another column with --by", "bpmcli metrics a.npz --by place"),
    Case("a summary and clusters", csv("a.csv", confidence=TOP, hit=HIT, doc=np.arange(80) // 2), "bpmcli metrics a.csv --cluster doc --summary",
         "--exact keeps them", "bpmcli metrics a.csv --cluster doc --exact"),
    Case("one cluster", csv("a.csv", confidence=TOP, hit=HIT, doc=np.zeros(80)), "bpmcli metrics a.csv --cluster doc", "leave --cluster out", "bpmcli metrics a.csv"),
    Case("top-k of confidences", csv("a.csv", confidence=TOP, hit=HIT), "bpmcli metrics a.csv --top-k 2", "leave --top-k out", "bpmcli metrics a.csv"),
    Case("several filters", lines("a.jsonl", [*lm(), *lm(filter="strict")]), "bpmcli metrics a.jsonl", "--input-format lm-eval:filter=none", "bpmcli metrics a.jsonl --input-format lm-eval:filter=none"),
    Case("no acc", lines("a.jsonl", without(lm(), "acc")), "bpmcli metrics a.jsonl", "--input-format lm-eval:acc_norm", "bpmcli metrics a.jsonl --input-format lm-eval:acc_norm"),
    Case("an unknown choice", lines("a.jsonl", lm()), "bpmcli metrics a.jsonl --input-format lm-eval:akk", "known: …", "bpmcli metrics a.jsonl --input-format lm-eval:acc_norm"),
    Case("several scorers", lambda: Path("a.json").write_text(json.dumps(inspect(("choice", "other")))), "bpmcli metrics a.json",
         "--input-format inspect:scorer=choice", "bpmcli metrics a.json --input-format inspect:scorer=choice"),
    Case("an unknown scorer", lambda: Path("a.json").write_text(json.dumps(inspect(("choice",)))), "bpmcli metrics a.json --input-format inspect:scorer=x",
         "--input-format inspect:scorer=choice", "bpmcli metrics a.json --input-format inspect:scorer=choice"),
    Case("lm-score elsewhere", npz("a.npz", probs=P, labels=Y), "bpmcli metrics a.npz --lm-score acc", "leave it out", "bpmcli metrics a.npz"),
    Case("too many classes to choose from", npz("a.npz", probs=P, labels=Y), "bpmcli metrics a.npz --top-k 5", "--top-k 2 or less", "bpmcli metrics a.npz --top-k 2"),
    Case("two classes to choose from", npz("a.npz", probs=P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), labels=EVEN), "bpmcli metrics a.npz --top-k 2", "leave --top-k out", "bpmcli metrics a.npz"),
    Case("lists instead of clusters", npz("a.npz", logits=Z, labels=Y, doc=P, one=np.arange(80) // 2), "bpmcli metrics a.npz --cluster doc", "name another column with --cluster", "bpmcli metrics a.npz --cluster one"),
    Case("no such column", csv("a.csv", confidence=TOP, hit=HIT), "bpmcli metrics a.csv --weight qqqq", "name another one with --weight", "bpmcli metrics c.csv --weight w"),
    Case("unknown of hits", "", "bpmcli metrics c.csv --unknown -1", "leave --unknown out", "bpmcli metrics c.csv"),
    Case("unknown of hits beside labels", csv("a.csv", confidence=TOP, hit=HIT, label=Y, guess=P.argmax(axis=1)), "bpmcli metrics a.csv --unknown 0", "leave --unknown out, or name labels and predictions with --label and --prediction", "bpmcli metrics a.csv --unknown 0 --label label --prediction guess"),
    Case("unknown of one-hot labels", npz("a.npz", probs=P, labels=np.eye(3)[Y]), "bpmcli metrics a.npz --unknown -1", "leave --unknown out", "bpmcli metrics a.npz"),
    Case("an unknown label by name", npz("a.npz", probs=P, labels=np.where(np.arange(80) == 3, -1, Y)), "bpmcli metrics a.npz --unknown none", "give the number that stands for none of the classes, such as --unknown -1", "bpmcli metrics a.npz --unknown -1"),
    Case("a weight that is too large", csv("a.csv", confidence=TOP, hit=HIT, w=np.where(np.arange(80) == 3, 1e300, 1e299)), "bpmcli metrics a.csv --weight w", "only ratios of weights count: divide them all by the largest", "python -c 'import pandas as pd; t = pd.read_csv(\"a.csv\"); t[\"w\"] /= t[\"w\"].max(); t.to_csv(\"b.csv\")' && bpmcli metrics b.csv --weight w"),
    Case("a label of no class", npz("a.npz", probs=P, labels=np.where(np.arange(80) == 3, -1, Y)), "bpmcli metrics a.npz", "labels are class numbers 0 … 2; if label -1 means none of the classes, say --unknown -1", "bpmcli metrics a.npz --unknown -1"),
    Case("a name of no class", csv("a.csv", **{f"prob_{k}": P[:, i] for i, k in enumerate(NAMES)}, label=[NAMES[y] if i else "fish" for i, y in enumerate(Y)]), "bpmcli metrics a.csv", "classes: bird, cat, dog; --unknown fish, if it means none of them", "bpmcli metrics a.csv --unknown fish"),
    Case("names without an order", npz("a.npz", probs=P, labels=np.array(NAMES)[Y]), "bpmcli metrics a.npz", "list the classes, one per line, in the order of the scores (that of y = 1 second), in a file beside the input: a.classes.txt beside a.csv; or give class numbers", "echo bird > a.classes.txt && echo cat >> a.classes.txt && echo dog >> a.classes.txt && bpmcli metrics a.npz"),
    Case("names of an event without an order", csv("a.csv", prob=TOP, label=np.where(EVEN, "malignant", "benign")), "bpmcli metrics a.csv", "list the classes, one per line, in the order of the scores (that of y = 1 second), in a file beside the input: a.classes.txt beside a.csv; or give class numbers", "echo benign > a.classes.txt && echo malignant >> a.classes.txt && bpmcli metrics a.csv"),
    Case("several labels a row", npz("a.npz", probs=P, labels=np.stack([Y > 0, Y > 1, Y > -1], axis=1).astype(int)), "bpmcli metrics a.npz", "--multi-label, if a row may have several labels", "bpmcli metrics a.npz --multi-label"),
    Case("labels that are probabilities", npz("a.npz", probs=P, labels=P, y2=Y), "bpmcli metrics a.npz", "name another column with --label", "bpmcli metrics a.npz --label y2"),
    Case("labels of three dimensions", npz("a.npz", probs=P, labels=np.zeros((80, 2, 2)), y2=Y), "bpmcli metrics a.npz", "name another column with --label", "bpmcli metrics a.npz --label y2"),
    Case("classes for hits", csv("a.csv", confidence=TOP, good=Y, mine=P.argmax(axis=1)), "bpmcli metrics a.csv --hit good", "if these are classes, say --label good --prediction COLUMN", "bpmcli metrics a.csv --label good --prediction mine"),
    Case("sums of logits", npz("a.npz", probs=np.abs(Z), labels=Y), "bpmcli metrics a.npz", "--scale percent if these are percentages; if these are logits, say --logits probs", "bpmcli metrics a.npz --logits probs"),
    Case("sums of several labels", npz("a.npz", probs=np.minimum(1, 1.5 * P), labels=np.eye(3, dtype=int)[Y]), "bpmcli metrics a.npz", "rows of probabilities sum to 1; if these are logits, say --logits probs; if a row may have several labels, say --multi-label", "bpmcli metrics a.npz --multi-label"),
    Case("negative probabilities", npz("a.npz", probs=Z, labels=Y), "bpmcli metrics a.npz", "if these are logits, say --logits probs", "bpmcli metrics a.npz --logits probs"),
    Case("-inf logits", npz("a.npz", logits=np.where(np.arange(240).reshape(80, 3) == 7, -np.inf, Z), labels=Y), "bpmcli metrics a.npz", "--skip-missing leaves such rows out; write -1e9 for a class that cannot be chosen", "bpmcli metrics a.npz --skip-missing"),
    Case("inf in lists", lambda: pd.DataFrame({"logits": [*Z[:79].tolist(), [1.0, np.inf, 0.0]], "label": Y}).to_parquet("a.parquet"), "bpmcli metrics a.parquet", "--skip-missing leaves such rows out; write -1e9 for a class that cannot be chosen", "bpmcli metrics a.parquet --skip-missing"),
    Case("infinite log-odds", csv("a.csv", log_odds=missing(TOP, value=np.inf), hit=HIT), "bpmcli metrics a.csv", "--skip-missing leaves such rows out", "bpmcli metrics a.csv --skip-missing"),
    Case("infinite logits of labels", npz("a.npz", logits=np.where(np.arange(240).reshape(80, 3) == 7, np.nan, Z), labels=np.eye(3, dtype=int)[Y]), "bpmcli metrics a.npz --multi-label", "--skip-missing leaves such rows out", "bpmcli metrics a.npz --multi-label --skip-missing"),
    Case("one number for several labels", csv("a.csv", prob=TOP, label=EVEN, s_a=TOP, s_b=1 - TOP, label_a=HIT, label_b=1 - HIT), "bpmcli metrics a.csv --multi-label", "name the columns or the array with --probs or --logits", "bpmcli metrics a.csv --multi-label --probs s"),
    Case("no labels of 0 and 1", csv("a.csv", prob_a=TOP, prob_b=1 - TOP, is_a=HIT, is_b=1 - HIT), "bpmcli metrics a.csv --multi-label", "name them with --label: an array, a prefix (label), a list (a,b,c) or a pattern ('y_*')", "bpmcli metrics a.csv --multi-label --label is"),
    Case("fewer labels than probabilities", npz("a.npz", probs=P, labels=np.eye(3, dtype=int)[Y][:, :2], y=np.eye(3, dtype=int)[Y]), "bpmcli metrics a.npz --multi-label", "name them with --label: an array, a prefix (label), a list (a,b,c) or a pattern ('y_*')", "bpmcli metrics a.npz --multi-label --label y"),
    Case("arrays of different lengths", npz("a.npz", probs=P, labels=Y[:70], y2=Y), "bpmcli metrics a.npz", "save the same rows in both, or name another array with --label, --hit or --logits", "bpmcli metrics a.npz --label y2"),
    Case("a list of no numbers", npz("a.npz", q1=P, q2=P, q3=P, labels=Y), "bpmcli metrics a.npz --probs q1,q2,q3", "name the column of scores: --probs, --logits", "bpmcli metrics a.npz --probs q1"),
    Case("an event of lists", lines("a.jsonl", [{"logprobs": z[: 2 + i % 2].tolist(), "label": 0} for i, z in enumerate(Z)]), "bpmcli metrics a.jsonl --event", "leave --event out, or name the column of P(y = 1) with --probs", "bpmcli metrics a.jsonl"),
    Case("a key of the other file", lambda: (pd.DataFrame({"id": range(80), "y": Y}).to_csv("y.csv", index=False), pd.DataFrame({"key": range(80), "id": range(80), **{f"prob_{k}": P[:, k] for k in range(3)}}).drop(columns="id").to_csv("a.csv", index=False)), "bpmcli metrics a.csv --label y.csv --id id", "name another column with --id", "bpmcli metrics a.csv --label y.csv"),
    Case("a table of labels under 0", lambda: (np.save("x_proba.npy", P), Path("y.csv").write_text("\n".join(["0", *map(str, Y[1:])]) + "\n")), "bpmcli metrics x_proba.npy --label y.csv", "if the first line is a label, rename the file to .txt; otherwise give labels for exactly these rows", "cp y.csv y.txt && bpmcli metrics x_proba.npy --label y.txt"),
    Case("logits under the names of classes", csv("a.csv", id=range(80), **dict(zip(NAMES, Z.T, strict=True)), label=np.array(NAMES)[Y]), "bpmcli metrics a.csv", "if these are logits, say --logits bird,cat,dog", "bpmcli metrics a.csv --logits bird,cat,dog"),
    Case("percentages under the names of classes", csv("a.csv", **dict(zip(NAMES, 100 * P.T, strict=True)), label=np.array(NAMES)[Y]), "bpmcli metrics a.csv", "if these are percentages, say --probs bird,cat,dog --scale percent", "bpmcli metrics a.csv --probs bird,cat,dog --scale percent"),
    Case("something under the names of classes", csv("a.csv", **dict(zip(NAMES, P.T**2, strict=True)), label=np.array(NAMES)[Y]), "bpmcli metrics a.csv", "say --logits bird,cat,dog or --probs bird,cat,dog", "bpmcli metrics a.csv --logits bird,cat,dog"),
    Case("logits under numbers", csv("a.csv", **{str(k): Z[:, k] for k in range(3)}, label=Y), "bpmcli metrics a.csv", "if these are logits, say --logits 0,1,2", "bpmcli metrics a.csv --logits 0,1,2"),
    Case("logits as probabilities", csv("a.csv", **{f"prob_{k}": Z[:, k] for k in range(3)}, label=Y), "bpmcli metrics a.csv", "if these are logits, say --logits prob_0,prob_1,prob_2", "bpmcli metrics a.csv --logits prob_0,prob_1,prob_2"),
    Case("many logits as probabilities", csv("a.csv", **{f"prob_{k}": Z[:, k % 3] for k in range(30)}, label=Y), "bpmcli metrics a.csv", "if these are logits, say --logits prob_0:prob_29", "bpmcli metrics a.csv --logits prob_0:prob_29"),
    Case("log-odds as confidences", csv("a.csv", confidence=-TOP, hit=HIT), "bpmcli metrics a.csv", "if these are log-odds, say --log-odds confidence", "bpmcli metrics a.csv --log-odds confidence"),
    Case("logits of several labels", npz("a.npz", probs=Z, labels=np.eye(3, dtype=int)[Y]), "bpmcli metrics a.npz --multi-label", "if these are logits, name them with --logits", "bpmcli metrics a.npz --multi-label --logits probs"),
    Case("an event of three values", csv("a.csv", prob=TOP, label=Y, y=EVEN), "bpmcli metrics a.csv --event --label label", "name another column with --label", "bpmcli metrics a.csv --event --label y"),
    Case("an event of two names", csv("a.csv", prob=TOP, label=["cat", "dog"] * 40), "bpmcli metrics a.csv --event", "write 1 for the event and 0 otherwise", "sed 's/cat/0/; s/dog/1/' a.csv > b.csv && bpmcli metrics b.csv --event"),
    Case("a misspelt file of labels", lambda: (np.save("x_proba.npy", P), pd.DataFrame({"y": Y}).to_csv("truth.csv", index=False)), "bpmcli metrics x_proba.npy --label trut.csv::y", "did you mean --label truth.csv::y?", "bpmcli metrics x_proba.npy --label truth.csv::y"),
    Case("no file of labels", npz("a.npz", probs=P, klass=Y), "bpmcli metrics a.npz --label nofile.csv::y", "name a file that exists, or a column of the input (probs, klass)", "bpmcli metrics a.npz --label klass"),
    Case("one label too many", lambda: (np.save("x_proba.npy", P), np.savetxt("y.txt", [7, *Y], fmt="%d")), "bpmcli metrics x_proba.npy --label y.txt", "if the first line (7) is a header, leave it out: tail -n +2 y.txt > y.rows.txt; otherwise remove the label that has no row", "tail -n +2 y.txt > y.rows.txt && bpmcli metrics x_proba.npy --label y.rows.txt"),
    Case("labels of another number of columns", lines("a.jsonl", [{"probs": p.tolist(), "labels": [1, 0]} for p in P]), "bpmcli metrics a.jsonl --multi-label", "--multi-label needs one label for each probability", "bpmcli metrics tags.npz --multi-label"),
    Case("no weight at all", csv("a.csv", confidence=TOP, hit=HIT, w=np.zeros(80), v=WEIGHT), "bpmcli summarize a.csv --weight w -o s.parquet", "name another column with --weight", "bpmcli summarize a.csv --weight v -o s.parquet"),
    Case("stated confidences", lambda: Path("a.json").write_text(json.dumps(inspect(("choice",), stated=True))), "bpmcli metrics a.json", "run inspect eval with --logprobs --top-logprobs 10 on a multiple_choice task, or say --input-format inspect:stated if the answers state a confidence", "bpmcli metrics a.json --input-format inspect:stated"),
    Case("too many scores to check classes", "", "bpmcli metrics z.npz --no-diagram", "--classwise checks every class", "bpmcli metrics z.npz --no-diagram --classwise", notice=True, limits={"tasks.measure.QUICK_SCORES": 100}),
    Case("too many classes for intervals", "", "bpmcli metrics z.npz --no-diagram --classwise -m ece", "--interval 0.95 computes them, in a few seconds for every 100 classes", "bpmcli metrics z.npz --no-diagram --classwise -m ece --interval 0.95", notice=True, limits={"tasks.classes.MOST_INTERVALS": 2}),
    Case("classes of confidences in metrics", "", "bpmcli metrics c.csv --classwise", "leave --classwise out", "bpmcli metrics c.csv"),
]  # fmt: skip
