"""Hints about files: parameters, summaries, outputs, formats that cannot hold something, and conversions."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hints.case import HIT, TOP, Case, P, Y, Z, csv, every, lines, npz, text

TWO = every(
    lambda: Path("in").mkdir(), csv("in/a.csv", confidence=TOP, hit=HIT), csv("in/b.csv", confidence=TOP, hit=HIT)
)
FITTED = "bpmcli fit c.csv --method isotonic -o q.json"
SHORTENED = (
    "python -c 'import numpy as np, pandas as pd; {}p = np.full((20, 2000), 1 / 2000); p[:, 0] += 1e-3; p[:, 1] -= 4e-4; "
    'pd.DataFrame({{"probs": list(p), "label": 0}}).to_csv("a.csv", index=False)\''
)
SUMMARY = "bpmcli summarize c.csv -o s.parquet"
RAGGED = [{"logprobs": z[: 2 + i % 2].tolist(), "label": 0} for i, z in enumerate(Z)]


def pickled(path: str) -> Callable[[], Any]:
    return lambda: Path(path).write_bytes(pickle.dumps({"logits": Z, "labels": Y}))


def joblibbed(path: str) -> None:
    joblib = pytest.importorskip("joblib")
    joblib.dump({"logits": Z, "labels": Y}, path)


def mixed_json(text: str = "a") -> None:
    rows = [
        {"confidence": c, "hit": int(h), "x": [text, 1][i % 2]} for i, (c, h) in enumerate(zip(TOP, HIT, strict=True))
    ]
    Path("a.json").write_text(json.dumps(rows))


def rows_in_json() -> None:
    pd.DataFrame({"confidence": TOP, "hit": HIT}).to_json("a.json", orient="records")


def hdf5(path: str) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name in ("one", "two"):
            file[f"{name}/probs"], file[f"{name}/labels"] = P, Y


def latin(*names: str) -> Callable[[], Any]:
    """A table in Latin-1, with a block of rows for each name."""
    rows = [f"{t},{h},{name}\n" for name in names for t, h in zip(TOP, HIT, strict=True)]
    return lambda: Path("a.csv").write_bytes("".join(["confidence,hit,name\n", *rows]).encode("latin1"))


def plain_lines(path: str, more: str) -> Callable[[], Any]:
    """Lines of JSON that end in the same text."""
    rows = [f'{{"confidence": {float(t)!r}, "hit": {h}, {more}}}\n' for t, h in zip(TOP, HIT, strict=True)]
    return text(path, "".join(rows))


CASES = [
    # apply
    Case("outputs among the inputs", TWO, f"{FITTED} && bpmcli apply q.json in --output-dir in", "--output-dir in/calibrated", "bpmcli apply q.json in --output-dir in/calibrated"),
    Case("nothing but outputs", every(lambda: Path("top/in").mkdir(parents=True), csv("top/in/a.csv", confidence=TOP, hit=HIT)), f"{FITTED} && bpmcli apply q.json top --output-dir top/in", "name another --output-dir", "bpmcli apply q.json top --output-dir out"),
    Case("several inputs to calibrate", FITTED, "bpmcli apply q.json c.csv d.csv -o out.csv", "--output-dir DIR", "bpmcli apply q.json c.csv d.csv --output-dir out"),
    Case("an output over its input", FITTED, "bpmcli apply q.json c.csv -o c.csv", "write to another file or directory", "bpmcli apply q.json c.csv -o out.csv"),
    Case("an unknown format to write", FITTED, "bpmcli apply q.json c.csv -o out.xyz", "known formats: …", "bpmcli apply q.json c.csv -o out.parquet"),
    Case("parquet on standard output", every(lambda: pd.DataFrame({"confidence": TOP, "hit": HIT}).to_parquet("a.parquet")), f"{FITTED} && bpmcli apply q.json a.parquet", "name a file with -o", "bpmcli apply q.json a.parquet -o out.parquet"),
    Case("groups that are not there", "bpmcli fit c.csv --by site --min-group 10 --method isotonic -o q.json", "bpmcli apply q.json d.csv -o out.csv", "fit without --by, or add the column", f"{FITTED} && bpmcli apply q.json d.csv -o out.csv"),
    Case("an event that was not fitted", "bpmcli fit e.csv --method isotonic -o q.json", "bpmcli apply q.json e.csv --event -o out.csv", "fit with --event too", "bpmcli fit e.csv --event --method isotonic -o q.json && bpmcli apply q.json e.csv --event -o out.csv"),
    Case("labels that were not fitted", "bpmcli fit z.npz --method isotonic -o q.json", "bpmcli apply q.json tags.npz --multi-label -o out.npz", "fit with --multi-label too", "bpmcli fit tags.npz --multi-label --method isotonic -o q.json && bpmcli apply q.json tags.npz --multi-label -o out.npz"),
    Case("a calibrator for each label", "bpmcli fit tags.npz --multi-label --method isotonic --min-group 10 -o q.json", "bpmcli apply q.json tags.npz -o out.npz", "add --multi-label", "bpmcli apply q.json tags.npz --multi-label -o out.npz"),
    Case("other classes", every(npz("four.npz", logits=np.hstack([Z, Z[:, :1]]), labels=Y)), "bpmcli fit z.npz --method temperature -o q.json && bpmcli fit z.npz --method vector -o q.json && bpmcli apply q.json four.npz -o out.npz", "fit again", "bpmcli fit four.npz --method vector -o q.json && bpmcli apply q.json four.npz -o out.npz"),
    Case("all classes of a file with confidences", "bpmcli fit z.npz --method temperature -o q.json", "bpmcli apply q.json c.csv -o out.csv", "give logits or probabilities", "bpmcli apply q.json z.npz -o out.npz"),
    Case("a summary to calibrate", every(), f"{FITTED} && {SUMMARY} && bpmcli apply q.json s.parquet -o out.csv", "give the files that were summarised", "bpmcli apply q.json c.csv -o out.csv"),
    Case("not parameters", text("q.json", "{}"), "bpmcli apply q.json c.csv -o out.csv", "give a file written by `bpmcli fit`", f"{FITTED} && bpmcli apply q.json c.csv -o out.csv"),
    # what a format cannot hold
    Case("ragged lists in csv", every(lines("a.jsonl", RAGGED)), "bpmcli fit a.jsonl --method isotonic -o q.json && bpmcli apply q.json a.jsonl -o out.csv", "write jsonl or parquet instead: -o out.jsonl", "bpmcli apply q.json a.jsonl -o out.jsonl"),
    Case("two columns of one name", npz("a.npz", probs=P, prob_0=TOP, labels=Y), "bpmcli fit a.npz --probs probs --method isotonic -o q.json && bpmcli apply q.json a.npz -o out.csv", "rename one of them, or write npz: -o out.npz", "bpmcli apply q.json a.npz -o out.npz"),
    Case("a matrix that would be taken for scores", npz("a.npz", confidence=TOP, hit=HIT, p=P), f"{FITTED} && bpmcli apply q.json a.npz -o out.csv", "rename it, or write npz: -o out.npz", "bpmcli apply q.json a.npz -o out.npz"),
    Case("probabilities of another length", lambda: pd.DataFrame({"logits": list(Z), "probs": [[0.5]] * len(Z), "label": Y}).to_parquet("a.parquet"), "bpmcli fit z.npz --method temperature -o q.json && bpmcli apply q.json a.parquet -o out.parquet", "rename that column, or leave it out", "python -c 'import pandas as pd; pd.read_parquet(\"a.parquet\").drop(columns=\"probs\").to_parquet(\"b.parquet\")' && bpmcli apply q.json b.parquet -o out.parquet"),
    Case("probabilities with other keys", lambda: pd.DataFrame({"logits": list(Z), "probs": [{"a": 0.4, "b": 0.6}] * len(Z), "label": Y}).to_parquet("a.parquet"), "bpmcli fit z.npz --method temperature -o q.json && bpmcli apply q.json a.parquet -o out.parquet", "rename that column, or leave it out", "python -c 'import pandas as pd; pd.read_parquet(\"a.parquet\").drop(columns=\"probs\").to_parquet(\"b.parquet\")' && bpmcli apply q.json b.parquet -o out.parquet"),
    Case("a column named like the probabilities", lambda: pd.DataFrame({"logits": list(Z), "probs": ["x"] * len(Z), "label": Y}).to_parquet("a.parquet"), "bpmcli fit z.npz --method temperature -o q.json && bpmcli apply q.json a.parquet --as probs -o out.parquet", "rename that column, or leave out --as probs", "bpmcli apply q.json a.parquet -o out.parquet"),
    Case("an array without columns", npz("a.npz", confidence=TOP, hit=HIT, none=np.zeros((len(TOP), 0))), f"{FITTED} && bpmcli apply q.json a.npz -o out.csv", "leave it out, or write npz: -o out.npz", "bpmcli apply q.json a.npz -o out.npz"),
    Case("mixed values in parquet", mixed_json, f"{FITTED} && bpmcli apply q.json a.json -o out.parquet", "write jsonl instead (-o out.jsonl), or leave the column out", "bpmcli apply q.json a.json -o out.jsonl"),
    Case("half of a surrogate pair in csv", lambda: mixed_json("\ud800"), f"{FITTED} && bpmcli apply q.json a.json -o out.csv", "write jsonl: -o out.jsonl", "bpmcli apply q.json a.json -o out.jsonl"),
    Case("half of a surrogate pair in parquet", plain_lines("a.jsonl", '"t": "\\ud800"'), f"{FITTED} && bpmcli apply q.json a.jsonl -o out.parquet", "write jsonl: -o out.jsonl", "bpmcli apply q.json a.jsonl -o out.jsonl"),
    Case("long numbers in parquet", plain_lines("a.jsonl", f'"k": {10**24 + 1}'), f"{FITTED} && bpmcli apply q.json a.jsonl -o out.parquet", "write jsonl, which keeps all digits (-o out.jsonl), or leave the column out", "bpmcli apply q.json a.jsonl -o out.jsonl"),
    Case("a line that may not be read again", lambda: pd.DataFrame({"confidence": TOP, "hit": HIT, "text": ["x" * 999] * 80}).to_parquet("a.parquet"), f"{FITTED} && bpmcli apply q.json a.parquet -o out.csv", "write parquet instead (-o out.parquet)", "bpmcli apply q.json a.parquet -o out.parquet", limits={"io.formats.csv_file.BLOCK": 500}),
    Case("dates in npz", lambda: pd.DataFrame({"confidence": TOP, "hit": HIT, "day": [None, "x"] * 40}).to_parquet("a.parquet"), f"{FITTED} && bpmcli apply q.json a.parquet -o out.npz", "write parquet instead (-o out.parquet), or leave the column out", "bpmcli apply q.json a.parquet -o out.parquet"),
    Case("arrays that belong to the file", npz("a.npz", logits=Z, labels=Y, classes=np.array(["a", "b", "c"]), other=np.arange(7)), "bpmcli fit z.npz --method isotonic -o q.json && bpmcli apply q.json a.npz -o out.csv", "write npz, which keeps them: -o out.npz", "bpmcli apply q.json a.npz -o out.npz", notice=True),
    Case("an error that is left", "bpmcli simulate D1 -n 1000 -o f.csv && bpmcli simulate D1 -n 1000 --seed 1 -o j.csv && bpmcli fit f.csv --method identity -o q.json", "bpmcli apply q.json j.csv -o out.csv", "bpmcli compare calibrators --calibration FILE --evaluation FILE shows whether another method does better; if none does, fit on rows that are more like these", "bpmcli compare calibrators --calibration f.csv --evaluation j.csv --method identity,isotonic && bpmcli fit f.csv --method isotonic -o q.json && bpmcli apply q.json j.csv -o out2.csv", notice=True),
    Case("judged on the rows of the fit", FITTED, "bpmcli apply q.json c.csv -o out.csv", "judge it on rows it was not fitted to; `bpmcli fit` says how it does in cross-validation", "bpmcli apply q.json d.csv -o out2.csv", notice=True),
    # summaries
    Case("a column of a summary", SUMMARY, "bpmcli metrics s.parquet --confidence confidence", "bpmcli summarize ROWS --confidence confidence", "bpmcli summarize c.csv --confidence confidence -o s.parquet && bpmcli metrics s.parquet"),
    Case("groups of a summary", SUMMARY, "bpmcli metrics s.parquet --by site", "bpmcli summarize ROWS --by site does", "bpmcli summarize c.csv --by site -o s.parquet && bpmcli metrics s.parquet --by site"),
    Case("an event of a summary", "bpmcli summarize e.csv -o s.parquet", "bpmcli metrics s.parquet --event", "summarize with --event too", "bpmcli summarize e.csv --event -o s.parquet && bpmcli metrics s.parquet --event"),
    Case("top-k of a summary", "bpmcli summarize z.npz -o s.parquet", "bpmcli metrics s.parquet --top-k 2", "give the files that were summarised", "bpmcli metrics z.npz --top-k 2"),
    Case("clusters of a summary", SUMMARY, "bpmcli metrics s.parquet --cluster doc", "give the files that were summarised", "bpmcli metrics c.csv --cluster doc"),
    Case("all classes of a summary", "bpmcli summarize z.npz -o s.parquet", "bpmcli fit s.parquet --method temperature -o q.json", "give the files that were summarised", "bpmcli fit z.npz --method temperature -o q.json"),
    Case("a reduced sample", "", "bpmcli simulate D1 -n 70000 -o a.npz && bpmcli metrics a.npz --summary", "--exact keeps all rows in memory (about 100 bytes each)", "bpmcli metrics a.npz --exact", notice=True),
    Case("two kinds in one sample", every(), "bpmcli summarize e.csv --event -o s.parquet && bpmcli metrics s.parquet e.csv --pool --summary", "give --event for all of them, or for none", "bpmcli metrics s.parquet e.csv --pool --summary --event"),
    # formats
    Case("a file that is no table", text("notes.md", "Notes\n\nof today, and more\n"), "bpmcli metrics c.csv notes.md", "leave out files that are no tables; if this is one, quote fields that hold the separator", "bpmcli metrics c.csv"),
    Case("a pickle", pickled("it's.pkl"), "bpmcli metrics \"it's.pkl\"", "if you trust it, convert it: python -c …", "… && bpmcli metrics \"it's.npz\""),
    Case("a pickle of joblib", lambda: joblibbed("a.joblib"), "bpmcli metrics a.joblib", "if you trust it, convert it: python -c …", "… && bpmcli metrics a.npz"),
    Case("a Stata file", lambda: pd.DataFrame({"confidence": TOP, "hit": HIT}).to_stata("a.dta", write_index=False), "bpmcli metrics a.dta", "convert it: …", "… && bpmcli metrics a.csv"),
    Case("another encoding", latin("Zo\xeb"), "bpmcli metrics a.csv", "save it as UTF-8: …; or say what it is with --input-format", "… && bpmcli metrics a.utf8.csv"),
    Case("another encoding far below", latin("Zoe" * 1000, "Zo\xeb"), "bpmcli metrics a.csv --by name", "save it as UTF-8: …", "… && bpmcli metrics a.utf8.csv --by name"),
    Case("objects in npz", lambda: np.savez("a.npz", probs=np.array([*P.tolist(), None], dtype=object)[:-1], labels=Y), "bpmcli metrics a.npz", "save it as numbers: np.asarray(values, dtype=float)", "python -c \"import numpy as np; d = dict(np.load('a.npz', allow_pickle=True)); values = d['probs'].tolist(); np.savez('b.npz', probs=np.asarray(values, dtype=float), labels=d['labels'])\" && bpmcli metrics b.npz"),
    Case("another encoding in a pipe", latin("Zoe" * 1000, "Zo\xeb"), "cat a.csv | bpmcli metrics - -m ece --by name", "save it as UTF-8: pipe it through iconv -f latin1 -t utf-8", "cat a.csv | iconv -f latin1 -t utf-8 | bpmcli metrics - -m ece --by name"),
    Case("a list that numpy shortened", SHORTENED.format(""), "bpmcli metrics a.csv", "write all values: np.set_printoptions(threshold=10**9) before to_csv, or frame.to_parquet(path)", SHORTENED.format("np.set_printoptions(threshold=10**9); ") + " && bpmcli metrics a.csv"),
    Case("a group that is not there", lambda: hdf5("a.h5"), "bpmcli metrics a.h5::three", "leave the group out to take all of them", "bpmcli metrics a.h5"),
    Case("an unknown suffix", text("a.xyz", "nothing\x00 of use"), "bpmcli metrics a.xyz", "known formats: …", "bpmcli metrics c.csv"),
    Case("a folder without inputs", lambda: Path("empty").mkdir(), "bpmcli metrics empty", "known: …", "cp c.csv empty && bpmcli metrics empty"),
    Case("a file:// of two slashes", "", "bpmcli metrics file://c.csv", "write three slashes: …", "bpmcli metrics …"),
    Case("a large json file", rows_in_json, "bpmcli metrics a.json", "convert it: jq -c '.[]' a.json > a.jsonl", "… && bpmcli metrics a.jsonl", limits={"io.formats.json_file.LARGEST": 100}),
    Case("a json file of many rows", rows_in_json, "bpmcli metrics a.json", "convert it: jq -c '.[]' a.json > a.jsonl", "… && bpmcli metrics a.jsonl", limits={"io.formats.json_file.MOST_CONTAINERS": 10}),
    Case("an unknown method in parameters", FITTED, "sed -i 's/\"isotonic\"/\"isotonik\"/' q.json && bpmcli apply q.json c.csv -o out.csv", "known: …", "sed -i 's/isotonik/isotonic/' q.json && bpmcli apply q.json c.csv -o out.csv"),
    Case("an unknown family in parameters", "bpmcli fit c.csv --prior log-log -o q.json", "sed -i 's/\"log-log\"/\"log-lok\"/' q.json && bpmcli apply q.json c.csv -o out.csv", "known: …", "sed -i 's/log-lok/log-log/' q.json && bpmcli apply q.json c.csv -o out.csv"),
    Case("many groups in a summary", csv("g.csv", confidence=[0.6] * 80, hit=HIT, site=range(80)), "bpmcli summarize g.csv --by site -o s.parquet", "summarize fewer inputs at a time, or leave --by out", "bpmcli summarize g.csv -o s.parquet", limits={"io.summary_files.MOST_CELLS": 40}),
    Case("an unknown store", "", "bpmcli metrics xyz://c.csv", "known: s3, gs, hdfs, https", "bpmcli metrics c.csv"),
]  # fmt: skip
