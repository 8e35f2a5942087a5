"""Gates with three outcomes, baselines with uncertainty, rows in clusters."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import SAMPLE_DATA

GOOD, OFF = SAMPLE_DATA / "digits_good.npz", SAMPLE_DATA / "digits_test.npz"
TCE = ("-m", "tce")


@pytest.mark.parametrize(
    ("limit", "more", "code", "said"),
    [
        ("0.11", (), 0, "gate passed: "),
        ("0.03", (), 1, "gate failed: "),
        ("0.1", (), 5, "gate inconclusive: "),
        ("0.1", ("--inconclusive", "pass"), 0, "gate inconclusive (counts as pass): "),
        ("0.1", ("--inconclusive", "fail"), 1, "gate inconclusive (counts as fail): "),
        ("0.1", ("--gate-confidence", "0.6"), 0, "gate passed: "),
        ("0.03", ("--inconclusive", "pass"), 1, "gate failed: "),
    ],
)
def test_three_outcomes(run, limit, more, code, said):
    assert said in run("metrics", OFF, *TCE, "--pass-below", f"tce={limit}", *more, code=code).err


def test_the_words_of_each_outcome(run):
    assert "(at most 0.10823), surely below the limit 0.11" in run("metrics", OFF, *TCE, "--pass-below", "tce=0.11").err
    assert "(at least 0.06970), surely above the limit 0.03" in run("metrics", OFF, *TCE, "--pass-below", "tce=0.03", code=1).err  # fmt: skip
    err = run("metrics", OFF, *TCE, "--pass-below", "tce=0.1", code=5).err
    assert "599 rows cannot tell whether it is below the limit 0.1; about 2,200 would." in err
    assert "an error must be about 0.14 to be found above the limit" in err


@pytest.mark.parametrize("gate", ["nll=0.6", "nll-all=1", "ece-classwise=0.02"])
def test_only_calibration_errors_of_the_confidence_have_a_smallest_detectable_error(run, gate):
    found = run("metrics", OFF, "-m", gate.partition("=")[0], "--pass-below", gate, "-f", "json", code=5)
    assert "rows cannot tell whether it is below the limit" in found.err
    assert "an error must be" not in found.err
    assert json.loads(found.out)["gates"][0]["detectable"] is None


def test_a_failed_gate_counts_more_than_an_inconclusive_one(run):
    run("metrics", OFF, *TCE, "--pass-below", "tce=0.1", "--fail-above", "tce=0.5", code=5)
    run("metrics", OFF, *TCE, "--pass-below", "tce=0.1", "--fail-above", "tce=0.01", code=1)
    run("metrics", OFF, "nope.npz", *TCE, "--pass-below", "tce=0.1", code=3)


def test_fail_above_still_looks_at_the_value_alone(run):
    run("metrics", OFF, *TCE, "--fail-above", "tce=0.09", "--pass-below", "tce=0.2", code=1)


def test_a_metric_that_cannot_be_measured_never_passes(run):
    np.savez("few.npz", confidence=[0.2, 0.9], hits=[0, 1])
    assert "could not be measured" in run("metrics", "few.npz", "--pass-below", "tce-bpm=0.9", code=1).err


@pytest.mark.parametrize("kind", ["--fail-above", "--pass-below"])
def test_a_gate_on_a_missing_metric_says_why_even_if_notes_are_silenced(run, kind):
    np.savez("few.npz", confidence=[0.2, 0.9], hits=[0, 1])
    ran = run("metrics", "few.npz", *KS, kind, "nll-all=0.9", "-q", "-f", "json", code=1)
    why = "the scores of all classes and labels are needed"
    assert ran.err == f"gate failed: few.npz: nll-all could not be measured ({why}), so its gate fails\n"
    assert [gate["why_missing"] for gate in json.loads(ran.out)["gates"]] == [why]


def test_json_knows_the_third_outcome(run):
    out = run("metrics", OFF, *TCE, "--pass-below", "tce=0.1", "-f", "json", code=5).out
    (gate,) = json.loads(out)["gates"]
    assert (gate["outcome"], gate["passed"], gate["kind"], gate["rows"]) == ("inconclusive", False, "pass-below", 599)
    assert gate["rows_needed"] == 2200
    assert gate["low"] < gate["value"] < 0.1 < gate["high"] < gate["detectable"]


def test_junit_knows_the_third_outcome(run, tmp_path):
    for more, code, tag in (((), 5, "failure"), (("--inconclusive", "pass"), 0, "skipped")):
        run("metrics", OFF, *TCE, "--pass-below", "tce=0.1", "--junit", "j.xml", *more, code=code)
        (suite,) = ElementTree.parse(tmp_path / "j.xml").getroot()
        (case,) = suite
        assert case.get("name") == "tce surely at most 0.1"
        assert [child.tag for child in case] == [tag]
        assert "cannot tell" in str(case[0].get("message"))
        assert (suite.get("failures"), suite.get("skipped")) == (("1", "0") if tag == "failure" else ("0", "1"))


def test_github_knows_the_third_outcome(run, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    err = run("metrics", OFF, *TCE, "--pass-below", "tce=0.1", code=5).err
    assert "::error title=Calibration gate inconclusive::" in err
    assert "### Calibration: 1 of 1 gates inconclusive" in (tmp_path / "summary.md").read_text()
    err = run("metrics", OFF, *TCE, "--pass-below", "tce=0.1", "--inconclusive", "pass").err
    assert "::warning title=Calibration gate inconclusive::" in err
    assert "::error" not in err


@pytest.mark.parametrize(
    "argv",
    [
        ("--pass-below", "tce"),
        ("--pass-below", "tce=x"),
        ("--inconclusive", "pass"),
        ("--pass-below", "tce=0.1", "--inconclusive", "maybe"),
        ("--pass-below", "tce=0.1", "--list"),
    ],
)
def test_gates_that_make_no_sense(run, argv):
    run("metrics", OFF, *argv, code=2)


def test_the_level_follows_the_interval_that_was_asked_for(run):
    wide = json.loads(run("metrics", OFF, *TCE, "--pass-below", "tce=0.2", "--interval", 0.99, "-f", "json").out)
    usual = json.loads(run("metrics", OFF, *TCE, "--pass-below", "tce=0.2", "-f", "json").out)
    assert wide["results"][0]["metrics"]["tce"]["level"] == 0.99
    assert usual["results"][0]["metrics"]["tce"]["level"] == pytest.approx(0.9)
    assert wide["gates"][0]["high"] > usual["gates"][0]["high"]


# ---------------------------------------------------------------- baselines


def model(path: str, n: int = 1500, slope: float = 1.0, seed: int = 0, order: object = None, **columns: object) -> str:
    """Two classes; the same seed is the same rows with the same labels, whatever the slope of the logits is."""
    rng = np.random.default_rng(seed)
    x = rng.normal(1.5, 1.5, n)
    labels = (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)
    index = np.arange(n) if order is None else np.asarray(order)
    logits = np.stack([np.zeros(n), slope * x], axis=1)[index]
    np.savez(path, logits=logits, label=labels[index], id=index, **columns)
    return path


GATE = ("--max-increase", "tce=0.005", "--gate-confidence", 0.95, "--resamples", 30)
KS = ("-m", "ks")
KS_GATE = ("--max-increase", "ks=0.005", "--gate-confidence", 0.95, "--resamples", 20)
"""Which rows are paired does not depend on the metric, and ks is quick."""


def increase(ran) -> dict[str, object]:
    (gate,) = json.loads(ran.out)["gates"]
    return gate


def test_a_baseline_is_compared_row_by_row(run):
    run("metrics", model("old.npz"), "--save-baseline", "b.json", *TCE)
    ran = run("metrics", model("same.npz"), *TCE, "--baseline", "b.json", *GATE, "-f", "json")
    gate = increase(ran)
    assert gate["paired"] is True
    assert gate["low"] == pytest.approx(0, abs=1e-12) or gate["low"] < 0
    ran = run("metrics", model("worse.npz", slope=2.0), *TCE, "--baseline", "b.json", *GATE, "-f", "json", code=1)
    assert increase(ran)["paired"] is True
    assert "row by row), surely more than the 0.005 allowed" in ran.err


def test_pairing_says_more_than_two_samples(run):
    run("metrics", model("old.npz", slope=1.6), "--save-baseline", "b.json", *TCE)
    later = model("later.npz", slope=1.9)
    by_row = increase(run("metrics", later, *TCE, "--baseline", "b.json", *GATE, "-f", "json", code=None))
    apart = increase(run("metrics", model("other.npz", seed=1, slope=1.9), *TCE, "--baseline", "b.json", *GATE, "-f", "json", code=None))  # fmt: skip
    assert (by_row["paired"], apart["paired"]) == (True, False)
    assert by_row["high"] - by_row["low"] < 0.7 * (apart["high"] - apart["low"])


def test_rows_are_paired_by_id_in_any_order(run):
    run("metrics", model("old.npz"), "--save-baseline", "b.json", "--id", "id", *KS)
    straight = increase(run("metrics", model("later.npz", slope=1.4), *KS, "--id", "id", "--baseline", "b.json", *KS_GATE, "-f", "json", code=None))  # fmt: skip
    order = np.random.default_rng(3).permutation(1500)
    shuffled = model("shuffled.npz", slope=1.4, order=order)
    found = increase(
        run("metrics", shuffled, *KS, "--id", "id", "--baseline", "b.json", *KS_GATE, "-f", "json", code=None)
    )
    assert found["paired"] is True
    assert found["low"] == pytest.approx(straight["low"], abs=1e-9)
    # Without ids the labels are in another order, so nothing says which row is which.
    assert increase(run("metrics", shuffled, *KS, "--baseline", "b.json", *KS_GATE, "-f", "json", code=None))["paired"] is False  # fmt: skip


def test_ids_that_differ_or_repeat_are_not_paired(run):
    run("metrics", model("old.npz"), "--save-baseline", "b.json", "--id", "id", *KS)
    with np.load("old.npz") as data:
        parts = dict(data)
    for ids in (parts["id"] + 1, parts["id"] // 2):
        np.savez("other.npz", **{**parts, "id": ids})
        ran = run("metrics", "other.npz", *KS, "--id", "id", "--baseline", "b.json", *KS_GATE, "-f", "json")
        assert increase(ran)["paired"] is False


def test_a_baseline_holds_every_metric(run):
    run("metrics", model("old.npz"), "--save-baseline", "b.json", "-m", "ks")
    from bpmcli.core.metrics import METRICS

    names = [name for name, metric in METRICS.items() if not metric.higher_is_better]
    for name in names:
        run("metrics", "old.npz", "-m", name, "--baseline", "b.json", "--max-increase", f"{name}=0")
    limits = [part for name in names for part in ("--max-increase", f"{name}=0.01")]
    noisy = ("--baseline", "b.json", "--gate-confidence", 0.9, "--resamples", 20)
    run("metrics", "old.npz", *limits, *noisy)
    refused = run("metrics", "old.npz", "--max-increase", "accuracy=0.01", *noisy, code=2)
    assert "--fail-below accuracy=LOWEST" in refused.err


def test_a_baseline_of_values_has_no_noise(run):
    model("old.npz")
    Path("b.json").write_text(run("metrics", "old.npz", "-f", "json").out)
    run("metrics", "old.npz", "--baseline", "b.json", "--max-increase", "tce=0")
    err = run("metrics", "old.npz", "--baseline", "b.json", *GATE, code=3).err
    assert "save it again, with the options of this run: bpmcli metrics old.npz --save-baseline b.json\n" in err
    run("metrics", "old.npz", "--save-baseline", "b.json")
    run("metrics", "old.npz", "--baseline", "b.json", *GATE)


def test_a_bad_run_does_not_become_the_standard(run, tmp_path):
    model("old.npz")
    ran = run("metrics", "old.npz", *TCE, "--save-baseline", "b.json", "--fail-above", "tce=0", code=1)
    assert "b.json was not written, because a gate failed" in ran.err
    ran = run("metrics", "old.npz", "nope.npz", *TCE, "--save-baseline", "b.json", code=3)
    assert "b.json was not written, because an input could not be read" in ran.err
    ran = run("metrics", OFF, *TCE, "--save-baseline", "b.json", "--pass-below", "tce=0.1", code=5)
    assert "b.json was not written, because a gate is inconclusive" in ran.err
    assert not (tmp_path / "b.json").exists()
    run("metrics", "old.npz", "--save-baseline", "old.npz", code=2)


def test_several_inputs_are_matched_by_their_paths(run):
    for folder in ("models", "run2"):
        Path(folder).mkdir()
        for name in "abcde":
            model(f"{folder}/{name}.npz", n=200)
    run("metrics", "models/a.npz", "models/b.npz", *KS, "--save-baseline", "b.json")
    gate = (*KS, "--baseline", "b.json", "--max-increase", "ks=0.01")
    err = run("metrics", "run2/a.npz", "run2/b.npz", *gate, code=3).err
    assert "the baseline has no result for run2/a.npz" in err
    assert "hint: the baseline has models/a.npz, models/b.npz; inputs are matched by their paths\n" in err
    assert "not compared" not in run("metrics", "models", *gate, code=3).err
    err = run("metrics", "models/a.npz", *gate).err
    assert "note: models/b.npz is in the baseline but not in this run; it was not compared" in err
    assert "not compared" not in run("metrics", "models/a.npz", "models/b.npz", *gate).err
    Path("models/b.npz").write_text("junk")  # a gate that fails is not left out
    assert "not compared" not in run("metrics", "models/a.npz", "models/b.npz", *gate, code=3).err
    run("metrics", "run2", *KS, "--save-baseline", "b.json")
    assert "run2/b.npz, run2/c.npz, run2/d.npz and 1 more are in" in run("metrics", "run2/a.npz", *gate).err
    err = run("metrics", "models/a.npz", *gate, code=3).err
    assert "the baseline has run2/a.npz, run2/b.npz, run2/c.npz and 2 more; inputs" in err


def test_groups_that_are_missing_are_named(run):
    model("old.npz", n=200, site=np.arange(200) % 2)
    run("metrics", "old.npz", *KS, "--by", "site", "--save-baseline", "b.json")
    gate = (*KS, "--by", "site", "--baseline", "b.json", "--max-increase", "ks=1e-6")
    assert "not compared" not in run("metrics", "old.npz", *gate).err
    with np.load("old.npz") as data:
        np.savez("new.npz", **{name: values[::2] for name, values in data.items()})
    assert "old.npz, site = 1 is in the baseline but not in this run" in run("metrics", "new.npz", *gate).err
    err = run("metrics", "old.npz", *gate[:2], *gate[4:], code=3).err
    assert "the baseline has old.npz, site = 0; old.npz, site = 1; inputs are matched by" in err
    Path("new.npz").write_text("junk")
    assert "not compared" not in run("metrics", "new.npz", *gate, code=3).err


def test_groups_and_weights_and_summaries_have_baselines(run):
    rng = np.random.default_rng(0)
    model("old.npz", site=rng.integers(0, 2, 1500), w=rng.random(1500) + 0.5)
    for more in (("--by", "site"), ("--weight", "w"), ("--event",), ("--summary",)):
        run("metrics", "old.npz", *KS, *more, "--save-baseline", "b.json")
        ran = run("metrics", "old.npz", *KS, *more, "--baseline", "b.json", *KS_GATE, "-f", "json")
        paired = {gate["paired"] for gate in json.loads(ran.out)["gates"]}
        assert paired == {more != ("--summary",)}, more


@pytest.mark.parametrize(
    "spoil",
    [
        lambda kept: kept["cells"].update(mass="%"),
        lambda kept: kept["cells"].update(mass="AAAA"),
        lambda kept: kept["cells"].update(mass=kept["cells"]["log_odds"][:16]),
        lambda kept: kept["cells"].update(hits=base64.b64encode(np.full(500, 1e9).tobytes()).decode()),
        lambda kept: kept["cells"].update(log_odds=base64.b64encode(np.full(500, np.nan).tobytes()).decode()),
        lambda kept: kept.update(effective_n=-1),
        lambda kept: kept.update(cells=[]),
        lambda kept: kept["rows"].update(hits="AAAA"),
        lambda kept: kept["rows"].update(weights=kept["cells"]["mass"]),
        lambda kept: kept["rows"].update(log_odds=""),
        lambda kept: kept["rows"].update(ids=3),
    ],
)
def test_edited_baselines_are_refused(run, spoil):
    run("metrics", model("old.npz"), "--save-baseline", "b.json", *TCE)
    document = json.loads(Path("b.json").read_text())
    kept = document["results"][0]["kept"]
    before = json.dumps(kept["rows"])
    spoil(kept)
    if json.dumps(kept["rows"]) == before:
        del kept["rows"]  # the cells are only looked at without rows
    Path("b.json").write_text(json.dumps(document))
    run("metrics", "old.npz", *TCE, "--baseline", "b.json", *GATE, code=3)


# ---------------------------------------------------------------- clusters


def test_clusters_widen_intervals_and_are_counted(run):
    n = 600
    rng = np.random.default_rng(0)
    x = rng.normal(1.5, 1.0, n)
    hits = rng.random(n) < 1 / (1 + np.exp(-0.6 * x))
    np.savez("c.npz", log_odds=np.repeat(x, 8), hit=np.repeat(hits, 8), doc=np.repeat(np.arange(n), 8))
    plain = json.loads(run("metrics", "c.npz", "-m", "tce,ece", "--interval", 0.9, "-f", "json").out)["results"][0]
    found = json.loads(
        run("metrics", "c.npz", "-m", "tce,ece", "--interval", 0.9, "-f", "json", "--cluster", "doc").out
    )
    found = found["results"][0]
    assert (found["clusters"], found["n"]) == (600, 4800)
    assert found["effective_n"] == pytest.approx(600, rel=0.02)
    for name in ("tce", "ece"):
        width = [one["metrics"][name]["high"] - one["metrics"][name]["low"] for one in (plain, found)]
        assert width[1] > 1.7 * width[0]
    assert "clusters" in run("metrics", "c.npz", *TCE, "--cluster", "doc").out
    assert "cluster" in run("metrics", "c.npz", "--cluster", "doc", "--explain-input").out
    run("metrics", "c.npz", *TCE, "--cluster", "doc", "--noise-floor", "--noise-runs", 20)
    run("metrics", "c.npz", "c.npz", "--pool", *TCE, "--cluster", "doc")
    Path("d.npz").write_bytes(Path("c.npz").read_bytes())
    run("compare", "metrics", "c.npz", "d.npz", "--paired", "-m", "ece", "--cluster", "doc", "--resamples", 50)
    run("report", "c.npz", "-o", "r.html", "--cluster", "doc", "--resamples", 50)


def test_clusters_that_cannot_be_used(run):
    np.savez("c.npz", confidence=np.full(50, 0.7), hit=np.arange(50) % 2, doc=np.zeros(50), two=np.zeros((50, 2)))
    assert "one cluster" in run("metrics", "c.npz", *TCE, "--cluster", "doc", code=3).err
    assert "no column 'dok'" in run("metrics", "c.npz", *TCE, "--cluster", "dok", code=3).err
    assert "must hold one value per row" in run("metrics", "c.npz", *TCE, "--cluster", "two", code=3).err
    assert "--exact keeps them" in run("metrics", "c.npz", *TCE, "--cluster", "doc", "--summary", code=2).err


def test_errors_that_end_the_command_are_in_the_junit_file(run, tmp_path):
    run("metrics", OFF, *TCE, "--fail-above", "tce=0.9", "--junit", "j.xml")
    for argv in (("--fail-above", "tce=x"), ("--frobnicate",), ("--baseline", "nope.json", "--max-increase", "tce=0")):
        run("metrics", OFF, *argv, "--junit", "j.xml", code=None)
        (suite,) = ElementTree.parse(tmp_path / "j.xml").getroot()
        assert (suite.get("errors"), suite[0][0].tag) == ("1", "error")
    Path("mine.xml").write_text("<mine/>")
    run("metrics", OFF, "--frobnicate", "--junit=mine.xml", code=2)
    assert Path("mine.xml").read_text() == "<mine/>", "an error may be that --junit names a file of the user"


@pytest.mark.parametrize(
    ("toml", "variable", "argv"),
    [
        ('[metrics]\njunit = "out/j.xml"\n', "", ("--fail-above", "tce=x")),
        ('junit = "out/j.xml"\n[metrics]\nfrobnicate = 1\n', "", ()),
        ("", "out/j.xml", ("--frobnicate",)),
        ('[metrics]\njunit = "out/other.xml"\n', "out/j.xml", ("--frobnicate",)),
    ],
)
def test_a_junit_file_that_the_configuration_asks_for_has_early_errors(
    run, tmp_path, monkeypatch, toml, variable, argv
):
    (tmp_path / "out").mkdir()
    (tmp_path / "below").mkdir()
    (tmp_path / "bpmcli.toml").write_text(toml)
    if variable:
        monkeypatch.setenv("BPMCLI_METRICS_JUNIT", variable)
    else:
        monkeypatch.chdir(tmp_path / "below")
    run("metrics", OFF, *argv, code=2)
    (suite,) = ElementTree.parse(tmp_path / "out" / "j.xml").getroot()
    assert (suite.get("errors"), suite[0][0].tag) == ("1", "error")
    assert not (tmp_path / "out" / "other.xml").exists()
    (tmp_path / "out" / "j.xml").unlink()
    for other in (("fit", OFF), ("fit", "metrics"), ("compare", "metrics", OFF)):
        run(*other, "--frobnicate", code=2)
        assert not (tmp_path / "out" / "j.xml").exists(), "only metrics writes a JUnit file"


def test_no_ci_in_the_configuration_silences_annotations_of_errors(run, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "::error" in run("metrics", OFF, "--frobnicate", code=2).err
    for value, shown in (("true", False), ("false", True)):
        (tmp_path / "bpmcli.toml").write_text(f"[metrics]\nno-ci = {value}\n")
        assert ("::error" in run("metrics", OFF, "--frobnicate", code=2).err) is shown
        assert "::error" in run("compare", "metrics", OFF, "--frobnicate", code=2).err, "it has no option --no-ci"


def test_junit_names_a_lower_limit_as_one(run, tmp_path):
    run("metrics", OFF, "-m", "accuracy", "--fail-below", "accuracy=0.5", "--junit", "j.xml")
    (suite,) = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert suite[0].get("name") == "accuracy at least 0.5"


def test_a_metric_that_equals_its_limit_apart_from_rounding_passes(run):
    Path("old.csv").write_text("confidence,hit\n" + "0.8,1\n" * 100)  # an ece of 0.2
    Path("new.csv").write_text("confidence,hit\n" + "0.7,1\n" * 100)  # 0.3
    run("metrics", "old.csv", "-m", "ece", "--save-baseline", "b.json")
    run("metrics", "new.csv", "-m", "ece", "--baseline", "b.json", "--max-increase", "ece=0.1")
    run("metrics", "new.csv", "-m", "ece", "--baseline", "b.json", "--max-increase", "ece=0.0999999", code=1)
    run("metrics", "new.csv", "-m", "ece", "--fail-above", "ece=0.3")
    run("metrics", "new.csv", "-m", "ece", "--fail-above", "ece=0.2999999", code=1)
