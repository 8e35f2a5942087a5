"""Files as people have them: each layout with the command that reads it. docs/LAYOUTS.md shows the table."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bpmcli.errors import BpmError
from bpmcli.io import read_rows
from bpmcli.io.layout import InputOptions

N, K = 60, 3
NAMES = ["bird", "cat", "dog"]
RNG = np.random.default_rng(0)
Z = RNG.normal(size=(N, K))
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
Y = RNG.integers(0, K, N)
Y[:K] = range(K)
TOP, HIT = P.max(axis=1), (P.argmax(axis=1) == Y).astype(int)
P1, Y1 = P[:, :2].sum(axis=1), (Y < 2).astype(int)
WORDS = [NAMES[y] for y in Y]
PREDICTED = [NAMES[k] for k in P.argmax(axis=1)]


class Layout(NamedTuple):
    """A file as a tool writes it."""

    origin: str
    files: Callable[[], object]
    argv: str
    """As typed after `bpmcli metrics`."""
    event: bool = False


def frame(prefix: str, names: list[object] | None = None, **more: object) -> pd.DataFrame:
    columns = {f"{prefix}{k}": P[:, i] for i, k in enumerate(names or range(K))}
    return pd.DataFrame({**columns, **more})


def lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def safetensors(path: str, **tensors: np.ndarray) -> None:
    header, data, at = {}, b"", 0
    kinds = {"f8": "F64", "f4": "F32", "i8": "I64"}
    for name, array in tensors.items():
        raw = array.tobytes()
        kind = kinds[array.dtype.str[1:]]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + len(raw)]}
        data, at = data + raw, at + len(raw)
    text = json.dumps(header).encode()
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def hugging_face(folder: str) -> None:
    Path(folder).mkdir()
    info = {"info": {"features": {"label": {"names": NAMES, "_type": "ClassLabel"}}}}
    table = pa.table({"logits": Z.tolist(), "label": Y}).replace_schema_metadata({"huggingface": json.dumps(info)})
    for i, part in enumerate((table.slice(0, 40), table.slice(40))):
        with pa.ipc.new_stream(f"{folder}/data-0000{i}-of-00002.arrow", table.schema) as out:
            out.write_table(part)
    Path(folder, "dataset_info.json").write_text("{}")
    Path(folder, "state.json").write_text("{}")


def spark(path: str) -> None:
    fields = [("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]  # fmt: skip
    vectors = [{"type": 1, "size": None, "indices": None, "values": p} for p in P.tolist()]
    table = {
        "label": Y.astype(float),
        "probability": pa.array(vectors, pa.struct(fields)),
        "prediction": P.argmax(axis=1),
    }
    pq.write_table(pa.table(table), path)


def orc(path: str) -> None:
    from pyarrow import orc

    orc.write_table(pa.table({"confidence": TOP, "correct": HIT}), path)


def write_table(path: str, sep: str = " ", quote: str = '"', row_names: bool = True) -> None:
    """As write.table in R: strings are quoted, and the header has no name for the names of the rows."""
    head = sep.join(f"{quote}{name}{quote}" for name in [*(f"prob.{name}" for name in NAMES), "truth"])
    starts = [f"{quote}{i + 1}{quote}{sep}" if row_names else "" for i in range(N)]
    rows = [sep.join([*map(repr, p), f"{quote}{w}{quote}"]) for p, w in zip(P.tolist(), WORDS, strict=True)]
    Path(path).write_text("".join(f"{line}\n" for line in [head, *map(str.__add__, starts, rows)]))


LAYOUTS = [
    Layout("pandas: predict_proba with an id", lambda: frame("p", id=range(N), y=Y).to_csv("a.csv", index=False), "a.csv"),
    Layout("pandas: the same with its index", lambda: frame("p", y=Y).to_csv("a.csv"), "a.csv"),
    Layout("pandas: prob_0 … and label", lambda: frame("prob_", label=Y).to_parquet("a.parquet"), "a.parquet"),
    Layout("pandas: columns 0, 1, 2", lambda: pd.DataFrame(P).assign(label=Y).to_csv("a.csv", index=False), "a.csv"),
    Layout("pandas: class names as columns", lambda: frame("", NAMES, label=WORDS).to_csv("a.csv", index=False), "a.csv"),
    Layout("pandas: class names, parquet", lambda: frame("", NAMES, target=WORDS).to_parquet("a.parquet"), "a.parquet"),
    Layout("pandas: feather of confidences", lambda: pd.DataFrame({"confidence": TOP, "correct": HIT}).to_feather("a.feather"), "a.feather"),
    Layout("pandas: json records", lambda: pd.DataFrame({"confidence": TOP, "hit": HIT}).to_json("a.json", orient="records"), "a.json"),
    Layout("pandas: json columns", lambda: pd.DataFrame({"confidence": TOP, "hit": HIT}).to_json("a.json"), "a.json"),
    Layout("pandas: json split", lambda: pd.DataFrame({"confidence": TOP, "hit": HIT}).to_json("a.json", orient="split"), "a.json"),
    Layout("pandas: json table", lambda: Path("a.json").write_text(json.dumps({"schema": {}, "data": frame("prob_", label=Y).to_dict("records")})), "a.json"),
    Layout("pandas: json lines", lambda: frame("prob_", label=Y).to_json("a.jsonl", orient="records", lines=True), "a.jsonl"),
    Layout("pandas: tab-separated", lambda: frame("prob_", label=Y).to_csv("a.tsv", sep="\t", index=False), "a.tsv"),
    Layout("pandas: gzipped csv", lambda: frame("prob_", label=Y).to_csv("a.csv.gz", index=False), "a.csv.gz"),
    Layout("pandas: orc", lambda: orc("a.orc"), "a.orc"),
    Layout("R: caret, prob columns with dots", lambda: frame("prob.", NAMES, obs=WORDS).to_csv("a.csv", index=False), "a.csv --label obs"),
    Layout("R: randomForest votes, classes as columns", lambda: frame("", NAMES, y=WORDS).to_csv("a.csv"), "a.csv"),
    Layout("R: p1 … pK with labels from 1", lambda: pd.DataFrame({**{f"p{i + 1}": P[:, i] for i in range(K)}, "y": Y + 1}).to_csv("a.csv", index=False), "a.csv"),
    Layout("scikit-learn: np.savez(y_prob, y_true)", lambda: np.savez("a.npz", y_prob=P, y_true=Y), "a.npz"),
    Layout("scikit-learn: proba and classes_", lambda: np.savez("a.npz", proba=P, y_true=np.array(WORDS), classes_=np.array(NAMES)), "a.npz"),
    Layout("scikit-learn: proba.npy and y.npy", lambda: (np.save("test_proba.npy", P), np.save("test_y.npy", Y)), "test_proba.npy --label test_y.npy"),
    Layout("scikit-learn: P(y = 1)", lambda: pd.DataFrame({"y_true": Y1, "y_prob": P1}).to_csv("a.csv", index=False), "a.csv", event=True),
    Layout("torch: logits and labels", lambda: np.savez("a.npz", logits=Z.astype("f4"), labels=Y), "a.npz"),
    Layout("torch: logits.npy and labels.npy", lambda: (np.save("val_logits.npy", Z), np.save("val_labels.npy", Y)), "val_logits.npy"),
    Layout("torch: softmax and targets", lambda: np.savez_compressed("a.npz", softmax=P, targets=Y), "a.npz"),
    Layout("torch: safetensors", lambda: safetensors("a.safetensors", logits=Z, labels=Y), "a.safetensors"),
    Layout("torch: labels of shape (N, 1)", lambda: np.savez("a.npz", logits=Z, labels=Y[:, None]), "a.npz"),
    Layout("Keras: one-hot labels", lambda: np.savez("a.npz", probs=P, labels=np.eye(K)[Y]), "a.npz"),
    Layout("Keras: y_pred holds probabilities", lambda: np.savez("a.npz", y_pred=P, y_true=Y), "a.npz --probs y_pred"),
    Layout("timm: prob_i with class names as label", lambda: frame("prob_", NAMES, label=WORDS).to_csv("a.csv", index=False), "a.csv"),
    Layout("timm: top-1 index, probability and label", lambda: pd.DataFrame({"filename": range(N), "prediction": P.argmax(axis=1), "confidence": TOP, "label": Y}).to_csv("a.csv", index=False), "a.csv"),
    Layout("AutoGluon: predict_proba beside the label", lambda: frame("", NAMES, **{"class": WORDS}).to_csv("a.csv", index=False), "a.csv --label class"),
    Layout("Kaggle: id and Class_0 …", lambda: frame("Class_", id=range(N), target=Y).to_csv("a.csv", index=False), "a.csv --probs Class"),
    Layout("Kaggle: submission and solution, joined by id", lambda: (frame("p", id=[f"r{i}" for i in range(N)]).to_csv("sub.csv", index=False), pd.DataFrame({"id": [f"r{i}" for i in range(N)][::-1], "label": Y[::-1]}).to_csv("sol.csv", index=False)), "sub.csv --label sol.csv --id id"),
    Layout("W&B: table artifact", lambda: Path("a.table.json").write_text(json.dumps({"columns": ["confidence", "correct"], "data": [[a, b] for a, b in zip(TOP.tolist(), HIT.tolist(), strict=True)]})), "a.table.json"),
    Layout("MLflow: evaluation table", lambda: Path("eval.json").write_text(json.dumps({"columns": ["prob_0", "prob_1", "prob_2", "target"], "data": [[*p, y] for p, y in zip(P.tolist(), Y.tolist(), strict=True)]})), "eval.json"),
    Layout("Hugging Face: save_to_disk", lambda: hugging_face("ds"), "ds"),
    Layout("Hugging Face: parquet with lists", lambda: pq.write_table(pa.table({"logits": Z.tolist(), "label": Y}), "a.parquet"), "a.parquet"),
    Layout("LLM: log-probabilities of choices", lambda: Path("a.jsonl").write_text(lines([{"logprobs": z, "label": int(y)} for z, y in zip(Z.tolist(), Y, strict=True)])), "a.jsonl"),
    Layout("LLM: stated confidence in percent", lambda: pd.DataFrame({"confidence": [f"{100 * t:.10f}%" for t in TOP], "correct": HIT}).to_csv("a.csv", index=False), "a.csv --scale percent"),
    Layout("LLM: confidence as text", lambda: Path("a.jsonl").write_text(lines([{"confidence": str(t), "correct": bool(h)} for t, h in zip(TOP, HIT, strict=True)])), "a.jsonl"),
    Layout("jq -s: an array of objects", lambda: Path("dump").write_text(json.dumps([{"confidence": float(t), "hit": int(h)} for t, h in zip(TOP, HIT, strict=True)])), "dump"),
    Layout("SVM: labels -1 and 1", lambda: pd.DataFrame({"prob": P1, "y": 2 * Y1 - 1}).to_csv("a.csv", index=False), "a.csv", event=True),
    Layout("SQL export: a list of columns", lambda: frame("", ["x", "w", "v"], y=Y, age=30.0).to_csv("a.csv", index=False), "a.csv --probs x,w,v"),
    Layout("SQL export: a range of columns", lambda: frame("s", ["a", "b", "c"], y=Y).to_csv("a.csv", index=False), "a.csv --probs sa:sc"),
    Layout("SQL export: a pattern", lambda: pd.DataFrame({**{f"model{i}_score": P[:, i] for i in range(K)}, "y": Y}).to_csv("a.csv", index=False), "a.csv --probs model*_score"),
    Layout("R: tidymodels, .pred_ and .pred_class", lambda: frame(".pred_", NAMES, **{".pred_class": PREDICTED, "truth": WORDS}).to_csv("a.csv", index=False), "a.csv"),
    Layout("R: mlr3, prob. and truth", lambda: frame("prob.", NAMES, row_ids=range(N), truth=WORDS, response=PREDICTED).to_csv("a.csv", index=False), "a.csv"),
    Layout("R: write.csv2, semicolons and decimal commas", lambda: frame("p", y=Y).to_csv("a.csv", sep=";", decimal=",", index=False), "a.csv"),
    Layout("Excel: csv with a byte order mark", lambda: frame("p", y=Y).to_csv("a.csv", encoding="utf-8-sig", lineterminator="\r\n", index=False), "a.csv"),
    Layout("Weka: actual, predicted and prediction", lambda: pd.DataFrame({"inst#": range(N), "actual": [f"{y}:{w}" for y, w in zip(Y, WORDS, strict=True)], "predicted": [f"{y}:{NAMES[y]}" for y in P.argmax(axis=1)], "error": "", "prediction": TOP}).to_csv("a.csv", index=False), "a.csv --confidence prediction"),
    Layout("KNIME: P (class=cat)", lambda: pd.DataFrame({**{f"P (class={k})": P[:, i] for i, k in enumerate(NAMES)}, "class": WORDS, "Prediction (class)": PREDICTED}).to_csv("a.csv", index=False), "a.csv --label class"),
    Layout("CatBoost: Probability:Class=cat", lambda: pd.DataFrame({"SampleId": range(N), **{f"Probability:Class={k}": P[:, i] for i, k in enumerate(NAMES)}, "Label": WORDS}).to_csv("a.tsv", sep="\t", index=False), "a.tsv"),
    Layout("LightGBM: result without a header, labels beside it", lambda: (np.savetxt("result.txt", P, delimiter="\t"), np.savetxt("y.txt", Y, fmt="%d")), "result.txt --label y.txt"),
    Layout("H2O: predict and classes", lambda: frame("", NAMES, predict=PREDICTED, actual=WORDS).to_csv("a.csv", index=False), "a.csv"),
    Layout("Spark ML: vectors", lambda: spark("part-00000.parquet"), "part-00000.parquet"),
    Layout("spaCy: an object of probabilities", lambda: Path("a.jsonl").write_text(lines([{"text": "…", "label": w, "probs": dict(zip(NAMES, p, strict=True))} for p, w in zip(P.tolist(), WORDS, strict=True)])), "a.jsonl"),
    Layout("Hugging Face: Trainer.predict", lambda: np.savez("a.npz", predictions=Z, label_ids=Y), "a.npz --logits predictions"),
    Layout("scikit-learn: y_pred and y_pred_proba", lambda: pd.DataFrame({"y_true": Y1, "y_pred": (P1 > 0.5).astype(int), "y_pred_proba": P1}).to_csv("a.csv", index=False), "a.csv", event=True),
    Layout("scikit-learn: decision_function", lambda: np.savez("a.npz", decision=np.log(P1 / (1 - P1)), y_test=Y1), "a.npz --logits decision", event=True),
    Layout("Lightning: pred, target and conf", lambda: pd.DataFrame({"pred": P.argmax(axis=1), "target": Y, "conf": TOP}).to_csv("a.csv", index=False), "a.csv"),
    Layout("AutoGluon: predict_proba and the test table", lambda: (frame("", NAMES).to_csv("proba.csv", index=False), pd.DataFrame({"age": 1, "class": WORDS}).to_csv("test.csv", index=False)), "proba.csv --label test.csv::class"),
    Layout("Kaggle: out-of-fold predictions", lambda: frame("oof_", target=Y).to_csv("a.csv", index=False), "a.csv --probs oof"),
    Layout("pandas: json index", lambda: frame("prob_", label=Y).to_json("a.json", orient="index", double_precision=15), "a.json"),
    Layout("numpy: a structured array", lambda: np.save("a.npy", np.array(list(zip(TOP, HIT, strict=True)), dtype=[("confidence", "f8"), ("hit", "i8")])), "a.npy"),
    Layout("pandas: class names and max_prob", lambda: frame("", NAMES, label=WORDS, max_prob=TOP).to_csv("a.csv", index=False), "a.csv"),
    Layout("pandas: was_correct beside what was expected", lambda: frame("prob_", was_correct=HIT, expected="yes please").to_csv("a.csv", index=False), "a.csv"),
    Layout("CalArena: a group of an HDF5 file", lambda: arena("arena.h5"), "arena.h5::iris/rf --probs probas_test"),
    Layout("numpy: probs_test and labels_test", lambda: np.savez("a.npz", probs_test=P, labels_test=Y), "a.npz"),
    Layout("numpy: test_logits and test_labels", lambda: np.savez("a.npz", test_logits=Z, test_labels=Y, names=np.array(NAMES)), "a.npz"),
    Layout("numpy: two splits", lambda: np.savez("a.npz", logits_val=Z[::-1], y_val=Y[::-1], logits_test=Z, y_test=Y), "a.npz --logits logits_test"),
    Layout("pandas: a column of lists", lambda: pd.DataFrame({"probs": P.tolist(), "label": Y}).to_csv("a.csv", index=False), "a.csv"),
    Layout("pandas: a column of numpy arrays", lambda: pd.DataFrame({"id": range(N), "logits": list(Z), "label": Y}).to_csv("a.csv", index=False), "a.csv"),
    Layout("pandas: lists of numpy's numbers", lambda: pd.DataFrame({"scores": [f"[{', '.join(f'np.float64({x})' for x in p)}]" for p in P.tolist()], "label": Y}).to_csv("a.csv", index=False), "a.csv --probs scores"),
    Layout("R: write.table", lambda: write_table("a.txt"), "a.txt"),
    Layout("R: write.table without quotes", lambda: write_table("a.txt", quote=""), "a.txt"),
    Layout("R: write.table, sep = tab", lambda: write_table("a.tsv", "\t"), "a.tsv"),
    Layout("R: write.table, sep = comma", lambda: write_table("a.csv", ","), "a.csv"),
    Layout("R: write.table, row.names = FALSE", lambda: write_table("a.txt", row_names=False), "a.txt"),
    Layout("numpy: savetxt, labels beside it", lambda: (np.savetxt("proba.txt", P), np.savetxt("y.txt", Y, fmt="%d")), "proba.txt --label y.txt"),
    Layout("LLM: verbalized_confidence", lambda: pd.DataFrame({"verbalized_confidence": 100 * TOP, "was_correct": HIT.astype(bool)}).to_csv("a.csv", index=False), "a.csv --scale percent"),
]  # fmt: skip


def options_of(argv: str) -> tuple[str, InputOptions, int]:
    path, *flags = argv.split()
    found = dict(zip((flag.lstrip("-").replace("-", "_") for flag in flags[::2]), flags[1::2], strict=True))
    return path, InputOptions(**found), len(found)


@pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.origin for layout in LAYOUTS])
def test_every_layout_is_read(tmp_path, monkeypatch, layout):
    monkeypatch.chdir(tmp_path)
    layout.files()
    path, options, _ = options_of(layout.argv)
    rows = read_rows(path, options).rows
    if layout.event:
        confidence, hits = np.maximum(P1, 1 - P1), (P1 > 0.5) == Y1
    else:
        confidence, hits = TOP, HIT
    assert rows.n == N
    assert 1 / (1 + np.exp(-rows.log_odds)) == pytest.approx(confidence, abs=1e-6)
    assert rows.hits.tolist() == hits.astype(bool).tolist()


def test_most_layouts_need_no_flag_or_one():
    flags = [options_of(layout.argv)[2] for layout in LAYOUTS]
    assert len(flags) >= 40
    assert sum(n <= 1 for n in flags) >= 36


def test_layouts_are_documented():
    page = (Path(__file__).parents[2] / "docs" / "LAYOUTS.md").read_text(encoding="utf-8")
    assert not [line for line in lines_of_the_page() if line not in page]


def lines_of_the_page() -> list[str]:
    """The rows of the table in docs/LAYOUTS.md."""
    quoted = [layout.argv.replace("model*_score", "'model*_score'") for layout in LAYOUTS]
    return [f"| {layout.origin} | `bpmcli metrics {argv}` |" for layout, argv in zip(LAYOUTS, quoted, strict=True)]


@pytest.mark.parametrize("suffix", [".pkl", ".joblib", ".pt"])
def test_pickles_come_with_the_line_that_converts_them(tmp_path, monkeypatch, suffix):
    monkeypatch.chdir(tmp_path)
    Path(f"a{suffix}").write_bytes(b"\x80\x04}.")
    with pytest.raises(BpmError) as error:
        read_rows(f"a{suffix}")
    assert "never loads one" in error.value.message
    assert "python -c" in str(error.value.hint)


def test_the_hint_for_a_pickle_works_when_followed(tmp_path, monkeypatch):
    import pickle
    import subprocess
    import sys

    monkeypatch.chdir(tmp_path)
    Path("it's.pkl").write_bytes(pickle.dumps({"logits": Z, "labels": Y}))
    with pytest.raises(BpmError) as error:
        read_rows("it's.pkl")
    command = str(error.value.hint).partition("convert it: python")[2]
    subprocess.run(["bash", "-c", f"{sys.executable}{command}"], check=True)
    assert read_rows("it's.npz").rows.n == N


def test_a_table_of_r_is_calibrated_as_csv(run):
    write_table("a.txt")
    run("fit", "a.txt", "--method", "temperature", "-o", "q.json")
    run("apply", "q.json", "a.txt", "--output-dir", "out")
    found = pd.read_csv("out/a.csv")
    assert list(found) == ["row.names", *(f"prob.{name}" for name in NAMES), "truth"]
    assert found["row.names"].tolist() == list(range(1, N + 1))
    assert found["truth"].tolist() == WORDS
    assert found.iloc[:, 1:4].sum(axis=1).to_numpy() == pytest.approx(np.ones(N))


def test_hits_are_not_a_class_if_some_class_occurs_in_no_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lab = [word if word != "dog" else "cat" for word in WORDS]
    frame("", NAMES, correct=HIT, lab=lab).to_csv("a.csv", index=False)
    assert read_rows("a.csv", InputOptions(label="lab")).layout.scores == tuple(NAMES)


def test_a_class_may_be_called_correct(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["correct", "partial", "wrong"]
    frame("", names, lab=[names[y] for y in Y]).to_csv("a.csv", index=False)
    rows = read_rows("a.csv", InputOptions(label="lab")).rows
    assert rows.hits.tolist() == HIT.astype(bool).tolist()


def test_a_misspelt_column_is_not_replaced_by_columns_named_after_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame("", NAMES, label=WORDS, max_prob=TOP).to_csv("a.csv", index=False)
    with pytest.raises(BpmError, match="no column 'max_pro'"):
        read_rows("a.csv", InputOptions(confidence="max_pro"))


def test_labels_of_another_length_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("proba.npy", P)
    np.save("y.npy", Y[:-1])
    with pytest.raises(BpmError, match="has 60 rows, but y.npy has 59 labels: row 60"):
        read_rows("proba.npy", InputOptions(label="y.npy"))


@pytest.mark.parametrize("name", ["y.txt", "y.csv"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_first_line_that_may_be_a_header(tmp_path, monkeypatch, name, first):
    """pandas writes 0 above a column without a name, so in a csv file it is not taken for the missing label."""
    monkeypatch.chdir(tmp_path)
    np.save("proba.npy", P)
    y = np.array([first, *Y[1:]])
    np.savetxt(name, y, fmt="%d")
    if name == "y.csv" and first == 0:
        with pytest.raises(
            BpmError, match="y.csv: has 59 labels below the header '0', but there are 60 rows of scores"
        ):
            read_rows("proba.npy", InputOptions(label=name))
        return
    loaded = read_rows("proba.npy", InputOptions(label=name))
    assert loaded.rows.hits.tolist() == (P.argmax(axis=1) == y).tolist()
    assert f"the first line of {name} ({first}) was taken as a label" in str(loaded.notices[-1])


def test_a_file_of_labels_with_nothing_but_keys_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame("p", id=range(N)).to_csv("sub.csv", index=False)
    pd.DataFrame({"id": range(N)}).to_csv("sol.csv", index=False)
    with pytest.raises(BpmError, match=r"sol.csv: has no column beside the key 'id'"):
        read_rows("sub.csv", InputOptions(label="sol.csv", id="id"))


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("nofile.csv::y", "no file 'nofile.csv' for --label nofile.csv::y"),
        ("nofile.npy", "no file 'nofile.npy'"),
        ("no.column", r"no column 'no.column' \(found: p0"),
    ],
)
def test_a_missing_file_of_labels_is_named(tmp_path, monkeypatch, label, said):
    monkeypatch.chdir(tmp_path)
    frame("p", label=Y).to_csv("a.csv", index=False)
    with pytest.raises(BpmError, match=said):
        read_rows("a.csv", InputOptions(label=label))


def test_keys_without_a_label_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame("p", id=range(N)).to_csv("sub.csv", index=False)
    pd.DataFrame({"id": range(1, N), "label": Y[1:]}).to_csv("sol.csv", index=False)
    with pytest.raises(BpmError, match=r"'0' \(row 1\) has no label in sol.csv"):
        read_rows("sub.csv", InputOptions(label="sol.csv", id="id"))


BAD_TENSORS = {
    "empty": b"",
    "huge header": struct.pack("<Q", 1 << 60) + b"{}",
    "cut header": struct.pack("<Q", 100) + b'{"a": ',
    "not json": struct.pack("<Q", 8) + b"{nonsens",
    "outside": struct.pack("<Q", 64) + json.dumps({"logits": {"dtype": "F32", "shape": [9, 9], "data_offsets": [0, 324]}}).encode().ljust(64),
    "negative": struct.pack("<Q", 70) + json.dumps({"logits": {"dtype": "F32", "shape": [-1, 2], "data_offsets": [0, -8]}}).encode().ljust(70),
    "unknown type": struct.pack("<Q", 70) + json.dumps({"logits": {"dtype": "X1", "shape": [1], "data_offsets": [0, 1]}}).encode().ljust(70),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_bad_safetensors_are_a_sentence(tmp_path, case):
    (tmp_path / "a.safetensors").write_bytes(BAD_TENSORS[case])
    with pytest.raises(BpmError):
        read_rows(str(tmp_path / "a.safetensors"))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "3", "[1, 2]", '{"a": 1}', '{"columns": ["a"], "data": [[1, 2]]}', "[" * 100_000]
)
def test_bad_json_tables_are_a_sentence(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(BpmError):
        read_rows(str(tmp_path / "a.json"))


def test_dates_group_alike_in_every_format(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    days = ["2024-05-01", "2024-05-02"] * (N // 2)
    table = pd.DataFrame({"confidence": TOP, "hit": HIT, "day": days})
    table.to_csv("a.csv", index=False)
    table.to_json("a.jsonl", orient="records", lines=True)
    table.assign(day=pd.to_datetime(table["day"])).to_parquet("a.parquet")
    table.assign(day=pd.to_datetime(table["day"]).dt.date).to_parquet("b.parquet")
    for name in ("a.csv", "a.jsonl", "a.parquet", "b.parquet"):
        groups = read_rows(name, InputOptions(group="day")).rows.groups
        assert groups is not None
        assert groups.tolist() == days, name


def arena(path: str) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for model in ("rf", "lgbm"):
            group = file.create_group(f"iris/{model}")
            group["probas_test"], group["labels_test"] = P, Y
            group["probas_cal"], group["labels_cal"] = P[:20], Y[:20]


def test_groups_of_an_hdf5_file_are_inputs(run):
    arena("arena.h5")
    ran = run("metrics", "arena.h5", "--probs", "probas_test", "--format", "json")
    found = json.loads(ran.out)["results"]
    assert [r["input"] for r in found] == ["arena.h5::iris/lgbm", "arena.h5::iris/rf"]
    assert [r["n"] for r in found] == [N, N]


def test_the_separator_of_groups_in_the_name_of_a_file(run):
    arena("::a::b.h5")
    ran = run("metrics", "::a::b.h5", "--probs", "probas_test", "--format", "json", "-m", "ece")
    assert [r["input"] for r in json.loads(ran.out)["results"]] == ["::a::b.h5::iris/lgbm", "::a::b.h5::iris/rf"]
    before = Path("::a::b.h5").read_bytes()
    ran = run("metrics", "::a::b.h5", "--probs", "probas_test", "-m", "ece", "--junit", "::a::b.h5", code=2)
    assert "::a::b.h5 is the input itself" in ran.err
    assert Path("::a::b.h5").read_bytes() == before
    assert "has no group 'dogs'" in run("metrics", "::a::b.h5::dogs", code=3).err


def test_labels_are_of_the_same_split_as_the_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", p_val=P, y_val=Y, p_test=P, y_test=Y[::-1])
    for split, labels in (("val", Y), ("test", Y[::-1])):
        loaded = read_rows("a.npz", InputOptions(probs=f"p_{split}"))
        assert loaded.layout.label == f"y_{split}"
        assert loaded.rows.hits.tolist() == (P.argmax(axis=1) == labels).tolist()


def test_scores_of_several_splits_are_not_guessed(tmp_path, monkeypatch):
    """Not even taken for the scores of two classes, called cal and test, where they are one number per row."""
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", probs_cal=P1, labels_cal=Y1, probs_test=P1, labels_test=Y1)
    with pytest.raises(BpmError, match=r"has scores of several parts of a data set \(probs_cal, probs_test\)"):
        read_rows("a.npz")


def test_several_splits_are_not_passed_over_for_a_rarer_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", probs_test=P, probs_val=P, labels_test=Y, labels_val=Y, max_prob=P.max(axis=1))
    with pytest.raises(BpmError, match="has scores of several parts of a data set"):
        read_rows("a.npz")


def test_several_kinds_of_scores_of_one_split_are_read_as_without_a_split(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", probs_test=P, logits_test=Z, labels_test=Y)
    layout = read_rows("a.npz").layout
    assert (layout.kind, layout.scores, layout.label) == ("logits", ("logits_test",), "labels_test")
    np.savez("b.npz", probs_test=P, test_probs=P, labels_test=Y)
    with pytest.raises(BpmError, match=r"probs_test, test_probs"):
        read_rows("b.npz")


def test_hints_quote_names_with_spaces(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", **{"my score": P1, "labels": Y1})
    with pytest.raises(BpmError) as plain:
        read_rows("a.npz")
    assert plain.value.hint == "say --probs 'my score', --logits 'my score' or --confidence 'my score'"
    np.savez("a.npz", **{"my scores": P, "labels": Y})
    with pytest.raises(BpmError) as wide:
        read_rows("a.npz")
    assert wide.value.hint == "say --logits 'my scores' or --probs 'my scores'"


def test_hdf5_files_with_one_group_text_and_links(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    with h5py.File("a.h5", "w") as file:
        file["logits"], file["labels"] = Z, Y
        file["site"] = [f"s{i % 2}" for i in range(N)]
        file["elsewhere"] = h5py.ExternalLink("/etc/passwd", "/x")
    rows = read_rows("a.h5", InputOptions(group="site")).rows
    assert rows.hits.tolist() == HIT.astype(bool).tolist()
    assert rows.groups is not None
    assert rows.groups.tolist()[:2] == ["s0", "s1"]
    Path("b.h5").write_bytes(Path("a.h5").read_bytes()[:3000])
    with pytest.raises(BpmError):
        read_rows("b.h5")


def follow(run, argv: list[str]) -> None:
    """Run a command that fails, and the same with the options of its hint."""
    ran = run(*argv, code=3)
    hint = ran.err.partition("hint: ")[2]
    flags = hint[hint.index("--") :].split(" or ")[-1].split(";")[0].split()
    options = [flags[i] for i in range(len(flags)) if flags[i].startswith("--") or flags[i - 1].startswith("--")]
    if options[0] == "--skip-missing":
        options = options[:1]
    run(*argv, *options)


def test_hints_work_when_followed(run):
    np.savez("a.npz", probas_test=P, labels_test=Y, probas_cal=P[:9], labels_cal=Y[:9])
    follow(run, ["metrics", "a.npz", "--metric", "ece"])
    pd.DataFrame({"confidence": 100 * TOP, "hit": HIT}).to_csv("b.csv", index=False)
    follow(run, ["metrics", "b.csv", "--metric", "ece"])
    frame("prob_", label=Y).to_parquet("c.parquet")
    Path("c.csv").write_bytes(Path("c.parquet").read_bytes())
    follow(run, ["metrics", "c.csv", "--metric", "ece"])
    for bad in (np.inf, -np.inf, np.nan):
        z = Z.copy()
        z[3, 1] = bad
        np.savez("d.npz", logits=z, labels=Y)
        follow(run, ["metrics", "d.npz", "--metric", "ece"])
    np.savez("e.npz", logits=np.where(np.isfinite(z), z, -1e9), labels=Y)
    run("metrics", "e.npz", "--metric", "ece")
    Path("f.csv").write_text("confidence,hit\n0.9,1\n,0\n0.7,1\n")
    follow(run, ["metrics", "f.csv", "--metric", "ece"])
    np.savez("g.npz", arr_0=P, labels=Y)
    follow(run, ["metrics", "g.npz", "--metric", "ece"])


@pytest.mark.parametrize("named", ["p2,p0,p1", "p2:p1", "p*", "p"])
def test_numbered_columns_are_the_classes_of_their_numbers_in_any_order(tmp_path, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("p2,p0,p1,label\n0.8,0.1,0.1,2\n0.1,0.7,0.2,0\n0.3,0.1,0.6,1\n")
    loaded = read_rows("a.csv", InputOptions(probs=named))
    assert loaded.layout.scores == ("p0", "p1", "p2")
    assert loaded.rows.hits.all()


def test_the_event_of_numbered_columns_is_class_1(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("p1,p0,label\n0.8,0.2,1\n0.1,0.9,0\n")
    rows = read_rows("a.csv", InputOptions(probs="p1,p0", event=True)).rows
    assert (1 / (1 + np.exp(-rows.log_odds))).tolist() == pytest.approx([0.8, 0.1])


@pytest.mark.parametrize("event", [False, True])
def test_numbered_keys_of_objects_are_the_classes_of_their_numbers(tmp_path, monkeypatch, event):
    monkeypatch.chdir(tmp_path)
    rows = [{"probs": {"1": p, "0": 1 - p}, "label": int(p > 0.5)} for p in (0.8, 0.1, 0.6)]
    Path("a.jsonl").write_text(lines(rows))
    found = read_rows("a.jsonl", InputOptions(event=event)).rows
    p = 1 / (1 + np.exp(-found.log_odds))
    assert p.tolist() == pytest.approx([0.8, 0.1, 0.6] if event else [0.8, 0.9, 0.6])
    assert found.hits.tolist() == ([True, False, True] if event else [True, True, True])


def test_groups_of_an_hdf5_file_are_fitted_and_applied(run: Callable[..., Any]) -> None:
    """CalArena's files: calibration and test rows of every model in a group of its own."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    with h5py.File("arena.h5", "w") as file:
        for model in ("digits/forest", "digits/boosting"):
            for part in ("cal", "test"):
                p = rng.dirichlet(np.ones(3), 60)
                file[f"{model}/probas_{part}"] = p
                file[f"{model}/labels_{part}"] = (p.cumsum(axis=1) > rng.random((60, 1))).argmax(axis=1)
    run("fit", "arena.h5", "--probs", "probas_cal", "--method", "temperature", "--output-dir", "fits")
    document = json.loads(Path("fits/arena.h5/digits/forest.json").read_text())
    assert document["inputs"][0]["name"] == "arena.h5::digits/forest"
    assert document["inputs"][0]["sha256"] is None
    ran = run(
        "apply", "fits/arena.h5/digits/forest.json", "arena.h5::digits/forest", "--probs", "probas_test", "-o", "o.npz"
    )
    assert "fitted to these very rows" not in ran.err
    with h5py.File("arena.h5") as file:
        t = document["parameters"]["temperature"]
        wanted = file["digits/forest/probas_test"][:] ** (1 / t)
        assert np.load("o.npz")["probas_test"] == pytest.approx(wanted / wanted.sum(axis=1, keepdims=True), rel=1e-3)
