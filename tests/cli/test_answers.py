"""The answer first: verdict, ranking, tidy tables, names that are almost right."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import SAMPLE_DATA

from bpmcli.core.data.sample import Floats, sample_from_confidences
from bpmcli.core.metrics import MetricOptions, measure
from bpmcli.core.metrics.disagreement import disagreements
from bpmcli.core.metrics.verdict import NAMES, verdict

OVER, UNDER, GOOD = (SAMPLE_DATA / f"digits_{kind}.npz" for kind in ("overconfident", "underconfident", "good"))
TEST, VAL, EVEN = SAMPLE_DATA / "digits_test.npz", SAMPLE_DATA / "digits_val.npz", SAMPLE_DATA / "digits_even.csv"


def lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_metrics_opens_with_the_data_and_the_verdict(run):
    first, second, *_ = run("metrics", OVER).out.splitlines()
    assert "1,797 rows" in first
    assert "logits" in first
    assert second.startswith("Over-confident: it says 98.3 % and is right 92.1 % of the time.")
    assert run("metrics", GOOD).out.splitlines()[1].startswith("Calibrated as far as 1,797 rows can tell")
    assert run("metrics", UNDER).out.splitlines()[1].startswith("Under-confident")


def test_quiet_and_chosen_metrics_show_the_table_only(run):
    for argv in (("-q",), ("-m", "ece")):
        out = run("metrics", OVER, *argv).out
        assert "Over-confident" not in out
        assert out.splitlines()[1].split()[0] == "value"


def test_the_verdict_in_json_and_csv(run):
    record = json.loads(run("metrics", OVER, "-f", "json").out)["results"][0]
    assert record["verdict"]["name"] == "over-confident"
    tce = record["metrics"]["tce"]
    assert tce["low"] < tce["value"] < tce["high"]
    assert record["verdict"]["tce"] == pytest.approx(tce["value"])
    assert tce["level"] == 0.95
    assert "verdict" not in json.loads(run("metrics", OVER, "-m", "ece", "-f", "json").out)["results"][0]
    found = lines(run("metrics", OVER, GOOD, UNDER, "-f", "csv").out)
    assert [line["verdict"] for line in found] == ["over-confident", "calibrated", "under-confident"]
    assert {line["verdict"] for line in found} <= set(NAMES)
    assert all(float(line["tce low"]) <= float(line["tce"]) <= float(line["tce high"]) for line in found)


def test_events_are_called_events(run):
    assert "event rate" in lines(run("metrics", EVEN, "--event", "-f", "csv").out)[0]
    assert "event rate" in run("metrics", EVEN, "--event").out


def test_a_ranking_is_best_first_and_marks_ties(run):
    ran = run("metrics", OVER, UNDER, GOOD, "--sort", "tce", "-f", "csv")
    found = lines(ran.out)
    assert [line["input"] for line in found] == [str(GOOD), str(OVER), str(UNDER)]
    assert [line["rank"] for line in found] == ["1", "2", "3"]
    # The best is tied only if there is another one to be tied with.
    assert [line["tied"] for line in found] == ["False", "False", "False"]
    found = lines(run("metrics", TEST, VAL, GOOD, "--sort", "tce", "-f", "csv").out)
    assert [line["tied"] for line in found] == ["False", "False", "False"]
    # Two models whose intervals overlap are tied.
    found = lines(run("metrics", TEST, VAL, "--sort", "tce", "-f", "csv").out)
    assert [line["tied"] for line in found] == ["True", "True"]
    # The interval of tce needs no resamples, so ties are known whichever metrics are shown.
    again = lines(run("metrics", TEST, VAL, "-m", "tce", "--sort", "tce", "-f", "csv").out)
    same = ("input", "tied", "tce", "tce low", "tce high")
    assert [[line[name] for name in same] for line in again] == [[line[name] for name in same] for line in found]
    again = lines(run("metrics", TEST, VAL, "-m", "ece", "--sort", "tce", "-f", "csv").out)
    assert [line["tied"] for line in again] == ["True", "True"]
    # Without intervals nothing is known about ties.
    ran = run("metrics", TEST, VAL, "-m", "ece", "--sort", "ece")
    assert "add --interval 0.95 to see ties" in ran.err
    assert "tied" not in ran.out
    assert "takes one metric" in run("metrics", TEST, "--sort", "ece,ks", code=2).err
    assert "unknown metric" in run("metrics", TEST, "--sort", "nope", code=2).err


def test_failures_are_counted_and_listed_again(run):
    ran = run("metrics", OVER, "nope.npz", GOOD, "gone.npz", "-m", "ece", code=3)
    assert ran.err.splitlines()[-3:] == ["2 done, 2 failed:", "  nope.npz: no such file", "  gone.npz: no such file"]
    assert "failed:" not in run("metrics", "nope.npz", code=3).err


def test_csv_is_one_line_per_result(run):
    assert [line["method"] for line in lines(run("fit", VAL, "-o", "p.json", "-f", "csv").out)] == ["bpm"]
    assert [line["n"] for line in lines(run("simulate", "D1", "-n", 50, "-o", "d.npz", "-f", "csv").out)] == ["50"]
    found = lines(run("compare", "metrics", OVER, GOOD, "-f", "csv").out)
    assert [line["input"] for line in found] == [str(OVER), str(GOOD)]
    found = lines(run("summarize", OVER, "-o", "c.parquet", "-f", "csv").out)
    assert [(line["output"], line["rows"]) for line in found] == [("c.parquet", "1797")]
    assert json.loads(run("summarize", OVER, "-o", "c.parquet", "-f", "json").out)["summaries"][0]["rows"] == 1797
    assert run("summarize", OVER, "-o", "c.parquet").out == ""


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (("metric", TEST), "did you mean metrics?"),
        (("compare", "calibrator", TEST), "did you mean calibrators?"),
        ((TEST,), f"bpmcli metrics {TEST}"),
        (("metrics", TEST, "--fomat", "json"), "no such option: --fomat\n  hint: did you mean --format?\n"),
        (("metrics", TEST, "--fail-abve", "ece=0.1"), "hint: did you mean --fail-above?\n"),
        (("metrics", TEST, "--fail", "ece=0.1"), "hint: did you mean --fail-above or --fail-below?\n"),
        (("metrics", TEST, "--frobnicate"), "hint: see bpmcli metrics --help\n"),
        (("metrics", TEST, "--sort"), "option '--sort' requires an argument\n  hint: see bpmcli metrics --help\n"),
        (("compare", "metrics", TEST, "-m"), "hint: see bpmcli compare metrics --help\n"),
        (("metrics", TEST, "-m", "ece-debaised"), "did you mean ece-debiased?"),
        (("fit", VAL, "--method", "isotonc"), "did you mean isotonic?"),
        (("fit", VAL, "--prior", "log-lgo"), "did you mean log-log?"),
        (("metrics", TEST, "--fail-above", "ecce=1"), "did you mean ece?"),
    ],
    ids=lambda value: str(value[-1])[-20:],
)
def test_almost_right_names_are_suggested(run, argv, hint):
    assert hint in run(*argv, code=2).err


def test_a_file_that_is_almost_right_is_suggested(run, tmp_path):
    (tmp_path / "model.npz").write_bytes(GOOD.read_bytes())
    for name in ("modle.npz", "model.csv", "modle.csv.gz"):
        assert "did you mean model.npz?" in run("metrics", name, code=3).err
    (tmp_path / "over.csv").write_text("")
    (tmp_path / "over.csv.gz").write_text("")
    for name in ("nofile.csv", "nofile.csv.gz", "nofile.npz"):
        assert "did you mean" not in run("metrics", name, code=3).err
    assert "did you mean over.csv.gz?" in run("metrics", "ovr.csv.gz", code=3).err
    os.symlink("nowhere", "link.npz")
    assert "did you mean" not in run("metrics", "link.npz", code=3).err


def test_a_column_that_is_almost_right_is_suggested(run):
    Path("a.csv").write_text("confidence,label,prediction\n" + "0.7,1,1\n0.6,0,1\n" * 20)
    assert "hint: did you mean label?" in run("metrics", "a.csv", "--label", "lable", code=3).err
    assert "hint: name another one with --label" in run("metrics", "a.csv", "--label", "xyz", code=3).err


def test_names_are_forgiving(run):
    assert "ece-debiased" in run("metrics", TEST, "-m", "ECE_Debiased").out
    assert json.loads(run("fit", VAL, "--method", "temp").out)["method"] == "temperature"
    assert json.loads(run("fit", VAL, "--method", "bpm_averaged").out)["method"] == "bpm-averaged"
    assert run("metrics", TEST, "-m", "ece", "--fail-above", "ECE=0.5").code == 0


def test_compare_two_files_means_compare_their_metrics(run):
    assert run("compare", OVER, GOOD).out == run("compare", "metrics", OVER, GOOD).out


def test_version(run):
    assert run("-V").out == run("--version").out


def test_colour_on_demand_only(run, monkeypatch):
    assert "\x1b[" not in run("metrics", TEST, "--fail-above", "ece=0.0001", code=1).err
    monkeypatch.setenv("FORCE_COLOR", "1")
    ran = run("metrics", TEST, "--fail-above", "ece=0.0001", "--fail-above", "ks=0.9", code=1)
    assert "\x1b[31mgate failed" in ran.err
    assert "\x1b[32mgate passed" in ran.err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("metrics", TEST, "--fail-above", "ece=0.0001", code=1).err


# Metrics that disagree


def test_ties_are_named_as_a_cause():
    rng = np.random.default_rng(0)
    values = np.linspace(0.5, 0.98, 20)
    place = rng.integers(0, 20, 4000)
    hits = rng.random(4000) < np.clip(values[place] + 0.08 * (-1.0) ** place, 0, 1)
    sample = sample_from_confidences(values[place], hits)
    (sentence,) = disagreements(sample, {"ece": 0.03, "ece-sweep": 0.04}, 0.0376, 0.0616, MetricOptions())
    assert sentence.startswith("ece = 0.0300 lies below the interval of tce: only 20 different confidences occur")
    smooth = sample_from_confidences(rng.random(4000), hits)
    (sentence,) = disagreements(smooth, {"ece": 0.03}, 0.0376, 0.0616, MetricOptions())
    assert sentence.endswith("over- and under-confidence at neighbouring confidences cancel.")
    (sentence,) = disagreements(smooth, {"ece": 0.03}, 0.0376, 0.0616, MetricOptions(), "event")
    assert sentence.endswith("probabilities that are too high and too low beside each other cancel.")
    # Kernels do not cut through ties.
    values = {"ece": 0.03, "ece-sweep": 0.03, "smece": 0.02, "ls-ece": 0.05}
    first, second = disagreements(sample, values, 0.0376, 0.0616, MetricOptions())
    assert first.startswith("ece = 0.0300 and ece-sweep = 0.0300 lie below the interval of tce: only 20 different")
    assert second.startswith("smece = 0.0200 lies below the interval of tce: over- and under-confidence at")


def test_disagreements_name_their_cause():
    rng = np.random.default_rng(0)
    s = np.concatenate([rng.uniform(0.5, 0.7, 6000), rng.uniform(0.9, 0.99, 6000)])
    true = np.where(s < 0.8, s + 0.1, s - 0.1)  # under-confident below, over-confident above
    sample = sample_from_confidences(s, rng.random(s.size) < true)
    options = MetricOptions()
    values = {name: found.value for name, found in measure(sample, ["ece-debiased", "ks"], options).items()}
    (sentence,) = disagreements(sample, values, 0.09, 0.11, options)
    assert sentence.startswith("ks = 0.0")
    assert "cancel" in sentence
    assert disagreements(sample, {**values, "ks": 0.1}, 0.09, 0.11, options) == []
    noisy = {"ece": 0.05, "ece-sweep": 0.04, "ece-debiased": 0.01}
    (sentence,) = disagreements(sample, noisy, 0.0, 0.02, options)
    assert sentence.startswith("ece = 0.0500 and ece-sweep = 0.0400 lie above")
    (sentence,) = disagreements(sample, {**noisy, "smece": 0.03, "ls-ece": 0.01}, 0.0, 0.02, options)
    assert sentence == (
        "ece = 0.0500, ece-sweep = 0.0400 and smece = 0.0300 lie above the interval of tce: they count noise as error, "
        "which ece-debiased does not."
    )


def _disagreement(g: Callable[[Floats], Floats], seed: int) -> tuple[str, float, float]:
    """The sentence about ece-debiased on 600 rows, the true error, and the upper limit of tce."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.5, 1.0, 600)
    sample = sample_from_confidences(s, rng.random(600) < g(s))
    values = {name: found.value for name, found in measure(sample, ["ece", "ece-debiased"]).items()}
    found = verdict(sample)
    sentences = disagreements(sample, values, found.low, found.high, MetricOptions())
    return " ".join(sentences), float(np.abs(g(s) - s).mean()), found.high


def test_noise_is_blamed_if_the_curve_of_tce_would_score_as_high():
    sentence, true, high = _disagreement(lambda s: s, 6)
    assert true <= high
    assert "ece-debiased = " in sentence
    assert "lie above the interval of tce, as noise can explain: on rows that follow the curve of tce" in sentence
    share = int(re.search(r"as high in (\d+) % of the cases", sentence)[1])
    assert 25 <= share <= 40  # 31 % of 400 samples that were drawn row by row


def test_the_curve_is_blamed_if_it_cannot_follow_the_rows():
    def up_and_down(s: Floats) -> Floats:
        return np.clip(s + 0.2 * np.sign(np.sin(20 * np.pi * s)), 0.0, 1.0)

    sentence, true, high = _disagreement(up_and_down, 0)
    assert true > high
    assert "ece-debiased = " in sentence
    assert (
        "tce: on rows that follow its smooth curve exactly, ece-debiased would be as high in less than 1 %" in sentence
    )
    assert sentence.endswith("faster than that curve, and tce may be too low.")


def test_ece_debiased_alone_above_the_interval_gets_its_sentence():
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 1.0, 5000)
    sample = sample_from_confidences(s, rng.random(5000) < s - 0.1)
    (sentence,) = disagreements(sample, {"ece": 0.01, "ece-debiased": 0.05}, 0.0, 0.02, MetricOptions())
    assert sentence.startswith("ece-debiased = 0.0500 lies above the interval of tce, as noise can explain")


def test_differences_that_do_not_show_are_not_mentioned():
    """Saturated rows that are all correct: the interval begins at 2e-16."""
    sample = sample_from_confidences(np.ones(100), np.ones(100))
    values = dict.fromkeys(("ece", "ks", "tce-bpm", "smece"), 0.0)
    assert disagreements(sample, values, 2e-16, 0.01, MetricOptions()) == []
    assert len(disagreements(sample, values, 6e-5, 0.01, MetricOptions())) > 0


def test_the_beta_density_is_blamed_only_if_the_confidences_themselves_agree():
    rng = np.random.default_rng(1)
    s = np.concatenate([rng.uniform(0.5, 0.55, 5000), rng.uniform(0.95, 0.999, 5000)])
    sample = sample_from_confidences(s, rng.random(s.size) < s - 0.1 * (s < 0.8))
    found = {d: measure(sample, ["tce-bpm"], MetricOptions(density=d))["tce-bpm"].value for d in ("beta", "empirical")}
    around = found["empirical"] - 1e-4, found["empirical"] + 1e-4
    assert not around[0] <= found["beta"] <= around[1]
    (sentence,) = disagreements(sample, {"tce-bpm": found["beta"]}, *around, MetricOptions())
    assert f"with --density empirical it is {found['empirical']:.4f}" in sentence
    (sentence,) = disagreements(sample, {"tce-bpm": found["beta"]}, 0.9, 0.91, MetricOptions())
    assert "curve family" in sentence


def test_json_is_never_empty(run):
    Path("bad.npz").write_text("junk")
    found = json.loads(run("metrics", "bad.npz", "-f", "json", "-q", code=3).out)
    assert found["results"] == []
    assert found["failures"][0]["input"] == "bad.npz"
    assert json.loads(run("fit", "bad.npz", "-f", "json", "-q", "-o", "p.json", code=3).out)["fits"] == []


def test_a_bare_fit_says_that_it_is_the_papers(run):
    bare, named = (run("fit", TEST, *argv, "-o", "p.json").err for argv in ([], ["--method", "bpm"]))
    assert "fitted bpm, the paper's method; --method auto chooses by cross-validated log loss" in bare
    assert "the method of the paper" not in named


def test_no_interval_of_an_error_begins_below_zero(run):
    for line in lines(run("metrics", GOOD, "-m", "all", "--interval", "0.95", "-f", "csv").out):
        lows = {name: float(value) for name, value in line.items() if name.endswith(" low") and value}
        assert "tce-bpm low" in lows
        assert min(lows.values()) >= 0
