"""Data that release 0.1.0 lost or changed with exit code 0. Each test fails there; its name begins with the number of the finding."""

from __future__ import annotations

import json
import os
import resource

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import arrays
from fuzz.findings.process import tool


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    confidences = rng.uniform(0.3, 1, 400)
    return confidences, (rng.random(400) < confidences**2).astype(int)


@pytest.fixture
def params(run, rows, tmp_path):
    np.savez(tmp_path / "fit.npz", confidence=rows[0], hit=rows[1])
    run("fit", "fit.npz", "--method", "platt", "-o", "p.json", "-q")
    return tmp_path / "p.json"


def test_a01_an_array_of_another_length_does_not_double_the_rows(run, rows, params):
    np.savez("left.npz", confidence=rows[0], hit=rows[1], vocab=np.arange(1000))
    run("apply", params, "left.npz", "-o", "o.npz")
    out = arrays("o.npz")
    assert out["confidence"].shape == (400,)
    np.testing.assert_array_equal(out["hit"], rows[1])
    np.testing.assert_array_equal(out["vocab"], np.arange(1000))


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a02_big_endian_values_stay(run, rows, params, suffix):
    np.savez("big.npz", confidence=rows[0], hit=rows[1], id=np.arange(400, dtype=">i8"), x=rows[0].astype(">f4"))
    run("apply", params, "big.npz", "-o", f"o.{suffix}")
    table = pq.read_table("o.parquet") if suffix == "parquet" else pa.ipc.open_file("o.arrow").read_all()
    assert table["id"].to_pylist() == list(range(400))
    np.testing.assert_array_equal(table["x"].to_numpy(), rows[0].astype("f4"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a03_no_column_overwrites_another(run, rows, params, suffix):
    np.savez("two.npz", confidence=rows[0], hit=rows[1], x=np.zeros((400, 2)), x_0=np.ones(400))
    ran = run("apply", params, "two.npz", "-o", f"o.{suffix}", code=None)
    if ran.code == 0:
        run("apply", params, f"o.{suffix}", "-o", "again.npz")
        out = arrays("again.npz")
        others = [v for name, v in out.items() if name not in ("confidence", "hit")]
        assert sum(int((v == 1).sum()) for v in others) == 400
        assert sum(int((v == 0).sum()) for v in others) == 800
    else:
        assert ran.code == 3
        assert "x_0" in ran.err


def test_a04_an_output_folder_that_holds_the_inputs_is_no_silent_success(run, rows, params, tmp_path):
    (tmp_path / "runs").mkdir()
    lines = "confidence,hit\n" + "".join(f"{c},{h}\n" for c, h in zip(*rows, strict=True))
    for path in ("a.csv", "runs/a.csv"):
        (tmp_path / path).write_text(lines)
    for arguments in (["a.csv", "--output-dir", "."], ["runs", "--output-dir", "runs"]):
        ran = run("apply", params, *arguments, code=None)
        assert ran.code != 0, ran
        assert ran.err
    assert (tmp_path / "a.csv").read_text() == lines


def test_a05_a_file_address_spares_its_input_and_is_atomic(run, rows, params, tmp_path):
    np.savez("in.npz", confidence=rows[0], hit=rows[1])
    before = (tmp_path / "in.npz").read_bytes()
    run("apply", params, "in.npz", "-o", f"file://{tmp_path}/in.npz", code=2)
    assert (tmp_path / "in.npz").read_bytes() == before
    done = tool(
        "apply", params, "in.npz", "-o", f"file://{tmp_path}/o.csv", cwd=tmp_path, limits={resource.RLIMIT_FSIZE: 4096}
    )
    assert done.code == 3, done
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize("length", [0, 100])
def test_a06_a_truncated_output_is_made_again(run, rows, params, tmp_path, length):
    np.savez("in.npz", confidence=rows[0], hit=rows[1])
    run("apply", params, "in.npz", "--output-dir", "out")
    whole = (tmp_path / "out/in.npz").read_bytes()
    os.truncate(tmp_path / "out/in.npz", length)
    run("apply", params, "in.npz", "--output-dir", "out")
    assert (tmp_path / "out/in.npz").read_bytes() == whole


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # on release 0.1.0 the refusal should fail, not the warning
def test_a07_metrics_reads_what_summarize_writes(run):
    np.savez("far.npz", log_odds=np.array([800.0, 700.0, 1.0, -800.0]), hit=np.array([1, 1, 0, 1]))
    run("summarize", "far.npz", "-o", "s.parquet")
    run("metrics", "s.parquet", "-m", "ece")


def test_a08_weights_that_sum_to_a_rounding_error_above_one(run, tmp_path):
    """Where every component says 1, the average is the sum of the weights."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 0.9, 400)
    np.savez("event.npz", prob=p, y=(rng.random(400) < p**0.6).astype(int))
    run("fit", "event.npz", "--event", "--method", "bpm-averaged", "-o", "e.json", "-q")
    document = json.loads((tmp_path / "e.json").read_text())
    weights = np.random.default_rng(0).dirichlet(np.ones(13)).tolist()
    assert sum(weights) > 1
    same = {"shapes": ["slope+shift"] * 13, "ends": [""] * 13, "weights": weights, "thetas": [0.1, 0.0, 0.5, 0.0] * 13}
    document["parameters"] |= same | {"flat_log_odds": [], "flat_eta": []}
    (tmp_path / "e.json").write_text(json.dumps(document))
    run("apply", "e.json", "event.npz", "-o", "o.npz", "-q")
    assert arrays("o.npz")["prob"].max() <= 1


def test_a09_interval_and_p_value_of_a_paired_comparison_agree(run):
    rng = np.random.default_rng(0)
    seen = 0
    for i in range(12):
        p = rng.beta(2, 0.5, 300)
        hits = (rng.random(300) < p).astype(int)
        for name in "ab":
            noisy = 1 / (1 + np.exp(-(np.log(p / (1 - p)) + rng.normal(0, 0.4 + 0.1 * (i % 4), 300))))
            np.savez(f"{name}.npz", confidence=noisy, hit=hits)
        ran = run(
            "compare",
            "metrics",
            "a.npz",
            "b.npz",
            "--paired",
            "-m",
            "ece",
            "-m",
            "ece-debiased",
            "-m",
            "ks",
            "--resamples",
            "200",
            "-f",
            "json",
        )
        for low, high, p_value in paired_results(json.loads(ran.out)):
            excludes = low > 0 or high < 0
            assert excludes == (p_value < 0.05) or abs(p_value - 0.05) < 1e-3, (low, high, p_value)
            seen += 1
    assert seen == 36


def paired_results(node):
    """Every (low, high, p) of a document, wherever it lies."""
    if isinstance(node, dict):
        keys = set(node)
        p = next((k for k in ("p", "p_value") if k in keys), None)
        if p and {"low", "high"} <= keys:
            yield node["low"], node["high"], node[p]
        for child in node.values():
            yield from paired_results(child)
    elif isinstance(node, list):
        for child in node:
            yield from paired_results(child)


def test_a10_debiased_error_under_ties(run):
    rng = np.random.default_rng(1)
    values = []
    for _ in range(20):
        c = rng.choice(np.linspace(0.5, 0.95, 10), 5000)
        gap = np.where((c * 20).astype(int) % 2, 0.04, -0.04)
        np.savez("tied.npz", confidence=c, hit=(rng.random(5000) < np.clip(c + gap, 0, 1)).astype(int))
        found = json.loads(run("metrics", "tied.npz", "-m", "ece-debiased", "-f", "json").out)
        values.append(found["results"][0]["metrics"]["ece-debiased"]["value"])
    assert abs(np.mean(values) - 0.04) < 0.006, np.mean(values)


@pytest.mark.parametrize("n_bins", [10, 100])
def test_a12_confidences_on_an_edge(run, n_bins):
    edges = np.arange(1, n_bins) / n_bins
    np.savez("edges.npz", confidence=np.repeat(edges, 3), hit=np.tile([0, 1, 1], edges.size))
    ran = run("metrics", "edges.npz", "--bins-table", "--binning", "width", "--n-bins", n_bins, "-f", "csv")
    header, *lines = [line.split(",") for line in ran.out.splitlines()]
    counts = [int(float(line[next(i for i, h in enumerate(header) if h in ("n", "count", "rows"))])) for line in lines]
    assert [c for c in counts if c] == [3] * (n_bins - 1)


def test_a14_groups_compare_by_value(run, rows, tmp_path):
    table = {"confidence": rows[0], "hit": rows[1]}
    pq.write_table(pa.table({**table, "g": np.arange(400) % 2}), "whole.parquet")
    pq.write_table(pa.table({**table, "g": (np.arange(400) % 2).astype(float)}), "float.parquet")
    run("fit", "whole.parquet", "--by", "g", "--method", "platt", "-o", "g.json", "-q")
    run("apply", "g.json", "whole.parquet", "-o", "a.parquet", "-q")
    ran = run("apply", "g.json", "float.parquet", "-o", "b.parquet")
    assert "pooled" not in ran.err
    assert pq.read_table("a.parquet")["confidence"] == pq.read_table("b.parquet")["confidence"]
    where = np.where(np.arange(400) % 2, "NA", "EU")
    (tmp_path / "na.csv").write_text(
        "confidence,hit,g\n" + "".join(f"{c},{h},{g}\n" for c, h, g in zip(*rows, where, strict=True))
    )
    results = json.loads(run("metrics", "na.csv", "--by", "g", "-m", "ece", "-f", "json").out)["results"]
    assert {r.get("group") for r in results} >= {"NA", "EU"}


@pytest.mark.parametrize("method", ["temperature", "ets"])
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_a15_event_with_scores_of_two_classes(run, method, kind):
    rng = np.random.default_rng(2)
    z = rng.normal(size=(500, 2)) * 3
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    label = (rng.random(500) < 1 / (1 + np.exp(-(z[:, 1] - z[:, 0]) / 3))).astype(int)
    np.savez("two.npz", **{kind: z if kind == "logits" else p}, label=label)
    run("fit", "two.npz", "--event", "--method", method, "-o", "e.json", "-q")
    run("apply", "e.json", "two.npz", "-o", "o.npz", "-q")


def test_a16_a_ranking_by_a_noisy_metric_says_so(run):
    rng = np.random.default_rng(4)
    c = rng.beta(3, 0.5, 600)
    np.savez("fine.npz", confidence=c, hit=(rng.random(600) < c).astype(int))
    options = ["--learning-curve", "100,200", "--repeats", "1", "--method", "isotonic", "--method", "platt"]
    noisy = run("compare", "calibrators", "fine.npz", *options, "--rank-by", "ece")
    assert "noise" in noisy.err + noisy.out or "nois" in noisy.err + noisy.out
    plain = run("compare", "calibrators", "fine.npz", *options)
    assert "ranked by ece" not in plain.out


def test_a17_the_shrinking_of_isotonic_is_documented(run):
    from conftest import ROOT

    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    about = [text for page in pages for text in page.read_text().split("\n") if "isotonic" in text.lower()]
    said = " ".join(about).lower() + run("fit", "--method", "list").out.lower()
    assert "1/(rows + 2)" in said


def test_a11_kept_is_measured_for_calibrators_of_whole_distributions(run):
    """Classes 0 and 1 are confused: a vector of offsets must move some predictions from one to the other."""
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 600)
    logits = rng.normal(size=(600, 3)) + 1.5 * np.eye(3)[labels] + np.array([2.0, 0.0, 0.0])
    np.savez("biased.npz", logits=logits, labels=labels)
    done = run("compare", "calibrators", "biased.npz", "--method", "vector", "--method", "temperature", "-f", "json")
    kept = {s["method"]: s["value"] for s in json.loads(done.out)["inputs"][0]["scores"] if s["score"] == "kept"}
    assert kept["temperature"] == 1.0
    assert kept["vector"] < 0.99


def test_a11_kept_is_measured_for_every_method(run, monkeypatch):
    """Release 0.1.0 has no method that changes the order of the classes, so one is changed to reverse it."""
    from bpmcli.core.calibrators.temperature import Ensemble

    true = Ensemble.log_probabilities
    monkeypatch.setattr(Ensemble, "log_probabilities", lambda self, logits: true(self, logits)[:, ::-1])
    monkeypatch.setattr(Ensemble, "keeps_order", False, raising=False)
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 200)
    np.savez("any.npz", logits=rng.normal(size=(200, 3)) + np.eye(3)[labels], labels=labels)
    argv = ("--method", "ets", "--method", "temperature", "--folds", "2", "--repeats", "1", "-f", "json")
    done = run("compare", "calibrators", "any.npz", *argv)
    kept = {s["method"]: s["value"] for s in json.loads(done.out)["inputs"][0]["scores"] if s["score"] == "kept"}
    assert kept["temperature"] == 1.0
    assert kept["ets"] < 0.5  # the middle class alone stays where it is
