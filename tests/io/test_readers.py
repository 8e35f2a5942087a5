"""Every format, and every way to say what a column is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from conftest import SAMPLE_DATA

from bpmcli.core.metrics import measure
from bpmcli.errors import BpmError, DataError
from bpmcli.io import read_rows
from bpmcli.io.layout import InputOptions, understand
from bpmcli.io.opening import open_reader


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def save(path: Path, **arrays) -> str:
    np.savez(path, **arrays)
    return str(path)


def accuracy(path, **options) -> float:
    return read_rows(str(path), InputOptions(**options)).rows.sample.accuracy


def codes(path, **options) -> list[str]:
    return [n.code for n in read_rows(str(path), InputOptions(**options)).notices]


@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv", "jsonl"])
def test_sample_files_hold_the_same_numbers(suffix):
    reference = read_rows(str(SAMPLE_DATA / "digits_overconfident.npz")).rows
    rows = read_rows(str(SAMPLE_DATA / f"digits_overconfident.{suffix}")).rows
    assert np.array_equal(rows.log_odds, reference.log_odds)
    assert np.array_equal(rows.hits, reference.hits)
    assert measure(rows.sample) == measure(reference.sample)


def test_every_table_format_gives_the_same_sample(tmp_path):
    rng = np.random.default_rng(0)
    s, h = rng.beta(2, 0.3, 500), rng.random(500) < 0.8
    table = pa.table({"confidence": s, "hit": h, "name": [f"row {i}" for i in range(500)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=64)
    pyarrow.feather.write_feather(table, tmp_path / "a.feather")
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as out:
        out.write_table(table, max_chunksize=50)
    lines = [json.dumps({"confidence": float(a), "hit": int(b)}) for a, b in zip(s, h, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as f:
        f.write("\n".join(lines) + "\n")
    csv = "confidence,hit\n" + "".join(f"{float(a)!r},{str(bool(b)).lower()}\n" for a, b in zip(s, h, strict=True))
    (tmp_path / "a.csv").write_text(csv)
    (tmp_path / "a.tsv").write_text(csv.replace(",", "\t"))
    with gzip.open(tmp_path / "a.csv.gz", "wt") as f:
        f.write(csv)
    np.savez_compressed(tmp_path / "a.npz", confidence=s, hits=h)
    np.save(tmp_path / "a.npy", np.array(list(zip(s, h, strict=True)), dtype=[("confidence", "f8"), ("hit", "?")]))
    np.save(tmp_path / "run_confidence.npy", s)
    np.save(tmp_path / "run_hits.npy", h)
    samples = {}
    for name in sorted(p.name for p in tmp_path.iterdir() if p.name != "run_hits.npy"):
        samples[name] = measure(read_rows(str(tmp_path / name)).rows.sample)
    assert len(samples) == 11
    assert all(found == samples["a.npz"] for found in samples.values()), list(samples)


def test_logits_beyond_exp_keep_their_margin(tmp_path):
    z = np.array([[800.0, 100.0, 0.0], [3000.0, -3000.0, 0.0], [0.0, 1e-3, -1.0]])
    rows = read_rows(save(tmp_path / "a.npz", logits=z, labels=np.array([0, 0, 1]))).rows
    assert rows.log_odds.tolist()[:2] == [700.0, 700.0]
    assert rows.log_odds[2] == pytest.approx(1e-3 - np.log(1 + np.exp(-1.0)), abs=1e-15)


def test_float32_logits_saturate_as_confidences_but_not_as_log_odds(tmp_path):
    z = np.zeros((5, 4), dtype=np.float32)
    z[:, 0] = [20, 30, 40, 50, 60]
    rows = read_rows(save(tmp_path / "a.npz", logits=z, labels=np.zeros(5, dtype=int))).rows
    assert rows.log_odds == pytest.approx(z[:, 0].astype(float) - np.log(3), rel=1e-12)


def test_half_precision_probabilities_work_and_are_noticed(tmp_path, logits):
    p = softmax(logits[0]).astype(np.float16)
    p[0] *= np.float16(0.9956)
    path = save(tmp_path / "a.npz", probs=p, labels=logits[1])
    assert "rows-normalised" in codes(path)
    exact = read_rows(save(tmp_path / "b.npz", probs=p.astype(float) / p.astype(float).sum(axis=1, keepdims=True), labels=logits[1]))  # fmt: skip
    assert read_rows(path).rows.log_odds == pytest.approx(exact.rows.log_odds, abs=1e-9)


def test_probabilities_a_trace_above_one_work(tmp_path):
    path = save(tmp_path / "a.npz", probs=np.array([[1.00001, 0.00001], [0.4, 0.6]]), labels=[0, 1])
    assert accuracy(path) == 1.0
    assert "above-one" in codes(path)


def test_probability_complement_is_the_sum_of_the_others(tmp_path):
    path = save(tmp_path / "a.npz", probs=np.array([[1.0, 1e-30, 1e-31]]), labels=[0])
    assert read_rows(path).rows.log_odds[0] == pytest.approx(-np.log(1.1e-30), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float64])
def test_labels_of_any_number_type_and_shape(tmp_path, logits, dtype):
    z, y = logits
    expected = accuracy(save(tmp_path / "a.npz", logits=z, labels=y))
    assert accuracy(save(tmp_path / "b.npz", logits=z, labels=y.astype(dtype)[:, None])) == expected


def test_argmax_ties_take_the_first_class_and_say_so(tmp_path):
    z = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0], [3.0, 0.0, 0.0]])
    path = save(tmp_path / "a.npz", logits=z, labels=[0, 1, 0])
    assert accuracy(path) == 1.0
    assert codes(path) == ["argmax-ties"]


def test_saturated_bare_confidences_are_noticed(tmp_path):
    path = save(tmp_path / "a.npz", confidence=np.array([1.0, 0.5, 0.9]), hits=[1, 0, 1])
    assert codes(path) == ["saturated"]


def test_files_sorted_by_label_are_the_same_sample(tmp_path, logits):
    z, y = logits
    order = np.argsort(y, kind="stable")
    there = measure(read_rows(save(tmp_path / "a.npz", logits=z, labels=y)).rows.sample)
    back = measure(read_rows(save(tmp_path / "b.npz", logits=z[order], labels=y[order])).rows.sample)
    assert there == back


def test_fortran_order_and_big_files_in_chunks(tmp_path, logits, monkeypatch):
    from bpmcli.io.formats import reader as formats_reader

    z, y = logits
    expected = read_rows(save(tmp_path / "a.npz", logits=z, labels=y)).rows.log_odds
    fortran = read_rows(save(tmp_path / "b.npz", logits=np.asfortranarray(z), labels=y)).rows.log_odds
    monkeypatch.setattr(formats_reader, "BATCH_VALUES", 70)  # seven rows at a time
    chunked = read_rows(str(tmp_path / "a.npz")).rows.log_odds
    assert np.array_equal(expected, fortran)
    assert np.array_equal(expected, chunked)


def test_binary_event_files_by_name(tmp_path):
    p, y = np.array([0.9, 0.2, 0.6, 0.3]), np.array([1, 0, 0, 1])
    path = save(tmp_path / "a.npz", probs=p, labels=y)
    top, event = read_rows(path).rows, read_rows(path, InputOptions(event=True)).rows
    assert top.hits.tolist() == [True, True, False, False]
    assert np.all(top.log_odds > 0)
    assert event.hits.tolist() == [True, False, False, True]
    assert event.log_odds == pytest.approx(np.log(p / (1 - p)))
    assert (top.target, event.target) == ("top-label", "event")


def test_columns_can_always_be_named(tmp_path):
    (tmp_path / "a.csv").write_text("score,ok,w\n0.9,1,2\n0.8,0,1\n0.7,1,1\n")
    options = InputOptions(confidence="score", hit="ok", weight="w")
    rows = read_rows(str(tmp_path / "a.csv"), options).rows
    assert rows.sample.accuracy == pytest.approx(0.75)
    with pytest.raises(DataError, match="'score' could be P"):
        read_rows(str(tmp_path / "a.csv"))


def test_prediction_and_label_of_text(tmp_path):
    (tmp_path / "a.csv").write_text("confidence,prediction,label\n0.9,cat,cat\n0.8,dog,cat\n")
    assert accuracy(tmp_path / "a.csv") == 0.5


def test_columns_named_after_classes(tmp_path):
    (tmp_path / "a.csv").write_text("prob_cat,prob_dog,label\n0.9,0.1,cat\n0.2,0.8,cat\n")
    assert accuracy(tmp_path / "a.csv") == 0.5
    (tmp_path / "b.csv").write_text("prob_cat,prob_dog,label\n0.9,0.1,cow\n")
    with pytest.raises(DataError, match="label 'cow' is not a class"):
        read_rows(str(tmp_path / "b.csv"))


@pytest.mark.parametrize("name", ["answer_confidence", "model.conf", "GPT Confidence Score"])
def test_a_column_whose_name_ends_in_confidence(tmp_path, name):
    (tmp_path / "a.csv").write_text(f"id,{name},latency,correct\n1,0.9,1.5,1\n2,0.6,2.5,0\n")
    assert read_rows(str(tmp_path / "a.csv")).rows.sample.confidences == pytest.approx([0.6, 0.9])
    (tmp_path / "b.csv").write_text(f"id,{name},other_confidence,correct\n1,0.9,0.5,1\n2,0.6,0.5,0\n")
    with pytest.raises(DataError, match="no column with scores"):
        read_rows(str(tmp_path / "b.csv"))


def test_another_array_written_to_a_table_is_not_the_scores(tmp_path):
    text = "prob,label,probs_0_0,probs_0_1,probs_0_2\n0.9,1,3,4,5\n0.2,0,1,2,3\n0.7,1,3,2,2\n"
    (tmp_path / "a.csv").write_text(text)
    assert read_rows(str(tmp_path / "a.csv")).rows.sample.confidences == pytest.approx([0.7, 0.8, 0.9])
    (tmp_path / "b.csv").write_text("proba_0,proba_1,label,probs_0_0,probs_0_1,probs_0_2\n0.1,0.9,1,3,4,5\n")
    assert read_rows(str(tmp_path / "b.csv")).layout.scores == ("proba_0", "proba_1")


def test_list_columns_may_differ_in_length(tmp_path):
    # Multiple choice with three or four options, as evaluation harnesses write it.
    rows = [{"logprobs": [-0.1, -2.5, -4.0], "label": 0}, {"logprobs": [-3.0, -0.2, -2.0, -5.0], "label": 3}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    loaded = read_rows(str(tmp_path / "a.jsonl")).rows
    assert loaded.hits.tolist() == [True, False]
    assert loaded.log_odds[0] == pytest.approx(-0.1 - np.log(np.exp(-2.5) + np.exp(-4.0)))
    (tmp_path / "b.jsonl").write_text(json.dumps({"logprobs": [-1.0, -2.0], "label": 2}) + "\n")
    with pytest.raises(DataError, match="label 2 is outside 0 … 1"):
        read_rows(str(tmp_path / "b.jsonl"))


def test_missing_values_are_refused_or_skipped(tmp_path):
    lines = ['{"confidence": 0.9, "hit": 1}', '{"confidence": null, "hit": 0}', '{"confidence": 0.7, "hit": 0}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"missing in 'confidence' \(row 2"):
        read_rows(str(tmp_path / "a.jsonl"))
    loaded = read_rows(str(tmp_path / "a.jsonl"), InputOptions(skip_missing=True))
    assert loaded.rows.n == 2
    assert [n.code for n in loaded.notices] == ["missing-skipped"]


def test_shuffled_labels_are_suspected(tmp_path):
    rng = np.random.default_rng(0)
    z = np.eye(10)[rng.integers(0, 10, 300)] * 8
    path = save(tmp_path / "a.npz", logits=z, labels=rng.integers(0, 10, 300))
    assert "labels-misaligned" in codes(path)


def test_labels_numbered_from_one_are_suspected_even_if_the_last_class_is_absent(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 9, 300)  # of ten classes
    z = np.eye(10)[labels] + rng.normal(0, 0.3, (300, 10))
    assert "labels-worse-than-chance" not in codes(save(tmp_path / "a.npz", logits=z, labels=labels))
    assert "labels-worse-than-chance" in codes(save(tmp_path / "b.npz", logits=z, labels=labels + 1))


def test_explanation_names_what_is_used(tmp_path):
    source = open_reader(str(SAMPLE_DATA / "digits_overconfident.csv"))
    said = dict(understand(source, InputOptions()).explain())
    assert said["logits"] == "logit_0 … logit_9"
    assert said["calibrates"] == "the predicted class"


BAD = {
    "nan logits": ({"logits": [[1.0, np.nan], [0.0, 1.0]], "labels": [0, 1]}, "NaN or inf (row 1)"),
    "inf logits": ({"logits": [[1.0, 2.0], [np.inf, 1.0]], "labels": [0, 1]}, "NaN or inf (row 2)"),
    "-inf logits": ({"logits": [[1.0, 2.0], [-np.inf, 1.0]], "labels": [0, 1]}, "-inf (row 2)"),
    "negative probability": ({"probs": [[1.2, -0.2], [0.5, 0.5]], "labels": [0, 1]}, "must not be negative, found -0.2"),
    "nan probability": ({"probs": [[np.nan, 0.5]], "labels": [0]}, "NaN or inf (row 1)"),
    "probability above one": ({"probs": [[0.5, 0.5], [1.3, 0.0]], "labels": [0, 1]}, "must not exceed 1, found 1.3 (row 2)"),
    "sum far from one": ({"probs": [[0.5, 0.5], [0.5, 0.2]], "labels": [0, 1]}, "sum to 0.7 (row 2)"),
    "label too large": ({"logits": np.zeros((3, 2)), "labels": [0, 1, 2]}, "label 2 is outside 0 … 1 (row 3"),
    "label negative": ({"logits": np.zeros((2, 2)), "labels": [0, -1]}, "label -1 is outside"),
    "label fractional": ({"logits": np.zeros((2, 2)), "labels": [0.5, 1]}, "class numbers, found 0.5"),
    "lengths differ": ({"logits": np.zeros((3, 2)), "labels": [0, 1]}, "'logits' has 3 rows but 'labels' has 2"),
    "no rows": ({"logits": np.zeros((0, 3)), "labels": np.zeros(0, dtype=int)}, "no rows"),
    "the value of the row that is named": ({"confidence": [0.5, 60.0, -1.0, 89.0, -2.0], "hits": [1, 0, 1, 0, 1]}, "must not be negative, found -1 (row 3 and 1 more here)"),
    "percentages": ({"confidence": [0.5, 60.0, 89.0], "hits": [1, 0, 1]}, "must not exceed 1, found 60 (row 2 and 1 more here)"),
    "confidence above one": ({"confidence": [0.5, 1.5], "hits": [1, 0]}, "must not exceed 1, found 1.5 (row 2)"),
    "confidence nan": ({"confidence": [0.5, np.nan], "hits": [1, 0]}, "NaN or inf (row 2)"),
    "hits of two": ({"confidence": [0.5, 0.6], "hits": [1, 2]}, "'hits' must be 0 or 1, found 2 (row 2)"),
    "confidence without outcome": ({"confidence": [0.5, 0.6]}, "no column says which rows are correct"),
    "confidence with labels only": ({"confidence": [0.5], "labels": [1]}, "no column says which rows are correct"),
    "logits without labels": ({"logits": np.zeros((2, 3))}, "no column with labels"),
    "unnamed scores": ({"arr_0": np.zeros((2, 3)), "labels": [0, 1]}, "could be logits or probabilities"),
    "two labels": ({"logits": np.zeros((2, 3)), "labels": [0, 1], "y_true": [0, 1]}, "could both be the label"),
    "three dimensions": ({"logits": np.zeros((2, 1, 1)), "labels": [0, 0]}, "has 3 dimensions"),
    "no arrays": ({}, "no columns"),
    "complex logits": ({"logits": np.zeros((2, 2), dtype=complex), "labels": [0, 1]}, "complex128 values, not numbers"),
    "dates as labels": ({"logits": np.zeros((2, 2)), "labels": np.zeros(2, dtype="M8[Y]")}, "found datetime64"),
    "nan label": ({"logits": np.zeros((2, 2)), "labels": [0, np.nan]}, "found nan (row 2)"),
    "huge label": ({"logits": np.zeros((2, 2)), "labels": np.array([0, 2**63], dtype=np.uint64)}, "is outside 0 … 1 (row 2"),
    "binary labels of two": ({"probs": [0.5, 0.7], "labels": [1, 2]}, "label 2 is outside 0 … 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays_are_refused_with_a_sentence(tmp_path, case):
    arrays, sentence = BAD[case]
    path = save(tmp_path / "bad.npz", **{k: np.asarray(v) for k, v in arrays.items()})
    with pytest.raises(DataError) as error:
        read_rows(path)
    assert error.value.message.startswith(f"{path}: ")
    assert sentence in error.value.message
    assert "\n" not in error.value.message


def test_one_based_labels_get_a_hint(tmp_path):
    path = save(tmp_path / "a.npz", logits=np.zeros((3, 3)), labels=[1, 2, 3])
    with pytest.raises(DataError) as error:
        read_rows(path)
    assert "these run from 1 to 3: subtract one" in str(error.value.hint)


def test_pickles_are_refused_and_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (Path(tmp_path / "exploded").write_text, ("boom",))

    objects = np.empty(2, dtype=object)
    objects[:] = [Bomb(), Bomb()]
    np.savez(tmp_path / "a.npz", logits=objects, labels=[0, 1])
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    for name in ("a.npz", "a.npy"):
        with pytest.raises(DataError, match="pickles and are never loaded"):
            read_rows(str(tmp_path / name))
    (tmp_path / "b.npy").write_bytes(b"\x80\x04K\x01.")
    with pytest.raises(DataError):
        read_rows(str(tmp_path / "b.npy"))
    assert not (tmp_path / "exploded").exists()


def test_damaged_and_misnamed_files(tmp_path, logits):
    save(tmp_path / "good.npz", logits=logits[0], labels=logits[1])
    pq.write_table(pa.table({"confidence": [0.5] * 999, "hit": [1] * 999}), tmp_path / "good.parquet")
    for name in ("good.npz", "good.parquet"):
        data = (tmp_path / name).read_bytes()
        for share in (0.01, 0.5, 0.95):
            (tmp_path / f"cut-{name}").write_bytes(data[: int(len(data) * share)])
            with pytest.raises(DataError):
                read_rows(str(tmp_path / f"cut-{name}"))
        (tmp_path / f"{name}.csv").write_bytes(data)
        with pytest.raises(DataError, match="has the suffix .csv but holds"):
            read_rows(str(tmp_path / f"{name}.csv"))
        (tmp_path / "renamed").write_bytes(data)
        assert read_rows(str(tmp_path / "renamed")).rows.n  # no suffix: the content tells
    broken = bytearray((tmp_path / "good.npz").read_bytes())
    broken[len(broken) // 2] ^= 0xFF
    (tmp_path / "flipped.npz").write_bytes(broken)
    with pytest.raises(DataError):
        read_rows(str(tmp_path / "flipped.npz"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no rows"),
        ("confidence,hit\n", "no rows"),
        ("confidence,hit\n0.5,1\n0.6\n", "line 3 has 1 fields, the header 2"),
        ("confidence,hit\n0.5,1,7\n", "line 2 has 3 fields, the header 2"),
        ("confidence,hit\n0.5,1\nhigh,0\n", "column 'confidence' holds 'high'"),
        ("confidence,hit\n0.5,1\n,0\n", "a value is missing in 'confidence' (row 2"),
        ("confidence,hit\n0.5,maybe\n", "'hit' must be 0 or 1, found maybe (row 1)"),
        ("confidence,confidence\n0.5,1\n", "two columns are called"),
        ("confidence;hit\n0,5;maybe\n", "'hit' must be 0 or 1, found maybe (row 1)"),
        ("conf\x00,hit\n0.5,1\n", "is not text"),
        ("0.5,1\n0.6,0\n", "'0' could be P(y = 1), its logit or a confidence (found: 0, 1)"),
        ("logit_0,logit_2,label\n1,2,0\n", "logit_1 is missing"),
    ],
)
def test_bad_csv_is_refused_with_a_sentence(tmp_path, text, sentence):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError) as error:
        read_rows(str(tmp_path / "a.csv"))
    assert sentence in error.value.message


@pytest.mark.parametrize("text", ["", "[1, 2]\n", '{"confidence": 0.5, "hit": 1\n', "nonsense\n", '{"a": {"b": 1}}\n'])
def test_bad_jsonl_is_refused_with_a_sentence(tmp_path, text):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(DataError) as error:
        read_rows(str(tmp_path / "a.jsonl"))
    assert "\n" not in error.value.message


@pytest.mark.parametrize("name", ["absent.npz", "absent.csv", "absent.parquet", "absent.jsonl", "absent", "a.xyz"])
def test_absent_and_unknown_files(tmp_path, name):
    with pytest.raises(BpmError):
        read_rows(str(tmp_path / name))


def test_huge_weights_do_not_overflow(tmp_path):
    (tmp_path / "a.csv").write_text("confidence,hit,w\n0.5,1,1e290\n0.6,0,1e290\n0.7,1,1e-308\n")
    sample = read_rows(str(tmp_path / "a.csv"), InputOptions(weight="w")).rows.sample
    assert sample.accuracy == pytest.approx(0.5)
    assert sample.effective_n == pytest.approx(2.0)
    (tmp_path / "b.csv").write_text("confidence,hit,w\n0.5,1,0\n")
    with pytest.raises(DataError, match=r"b.csv: all weights in 'w' are zero"):
        read_rows(str(tmp_path / "b.csv"), InputOptions(weight="w"))
