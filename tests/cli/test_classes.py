"""Whole distributions on the command line: --classwise, --top-k, gates, groups, several files, strange shapes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import SAMPLE_DATA, Ran

from bpmcli.core.data.log_odds import log_softmax
from bpmcli.core.metrics import METRICS

Run = Callable[..., Ran]
VAL = SAMPLE_DATA / "digits_val.npz"
WHOLE = [name for name, entry in METRICS.items() if entry.needs_classes]


def save(path: str, n: int = 400, k: int = 4, seed: int = 0, **more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels in a file; labels are drawn from the distributions."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (n, k))
    edges = np.cumsum(np.exp(log_softmax(logits)), axis=1)
    labels = np.minimum((rng.random((n, 1)) * edges[:, -1:] > edges).sum(axis=1), k - 1)
    np.savez(path, logits=logits, labels=labels, **more)
    return logits, labels


def results(run: Run, *argv: object) -> list[dict]:
    return json.loads(run("metrics", *argv, "--format", "json").out)["results"]


def test_classwise_in_every_format(run: Run) -> None:
    logits, labels = save("a.npz")
    (record,) = results(run, "a.npz", "--classwise", "-m", "ece")
    p = np.exp(log_softmax(logits))
    assert [one["class"] for one in record["classwise"]] == ["0", "1", "2", "3"]
    for k, one in enumerate(record["classwise"]):
        assert one["rows"] == (labels == k).sum()
        assert one["mean_probability"] == pytest.approx(p[:, k].mean())
    mean = np.mean([one["metrics"]["ece"]["value"] for one in record["classwise"]])
    assert record["metrics"]["ece-classwise"]["value"] == pytest.approx(mean)
    lines = list(csv.DictReader(io.StringIO(run("metrics", "a.npz", "--classwise", "-m", "ece", "-f", "csv").out)))
    assert [float(line["ece"]) for line in lines] == [one["metrics"]["ece"]["value"] for one in record["classwise"]]
    assert "| class | rows |" in run("metrics", "a.npz", "--classwise", "-f", "markdown").out
    table = run("metrics", "a.npz", "--classwise").out
    assert "tce low" in table
    assert "ece-marginal" in table


def test_classwise_of_several_files_and_groups(run: Run) -> None:
    save("a.npz", group=np.repeat(["x", "y"], 200))
    save("b.npz", seed=1, group=np.repeat(["x", "y"], 200))
    lines = run("metrics", "a.npz", "b.npz", "--classwise", "--by", "group", "-m", "ece", "-f", "csv").out.splitlines()
    assert lines[0].startswith("input,group,class,rows")
    assert len(lines) == 1 + 2 * 2 * 4
    (pooled,) = results(run, "a.npz", "b.npz", "--pool", "--classwise", "-m", "nll-all")
    assert sum(one["rows"] for one in pooled["classwise"]) == 800
    (first,), (second,) = results(run, "a.npz", "-m", "nll-all"), results(run, "b.npz", "-m", "nll-all")
    losses = [r["metrics"]["nll-all"]["value"] for r in (first, second)]
    assert pooled["metrics"]["nll-all"]["value"] == pytest.approx(np.mean(losses))


def test_many_classes_are_cut_in_a_table_only(run: Run) -> None:
    save("a.npz", 200, k=32)
    table = run("metrics", "a.npz", "--classwise", "-m", "ece", "--interval", 0.9, "--resamples", 20).out
    assert "the 30 with the largest gaps" in table
    assert len(run("metrics", "a.npz", "--classwise", "-m", "accuracy", "-f", "csv").out.splitlines()) == 33


def test_very_many_classes_have_no_intervals_that_nobody_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    save("a.npz", 200, k=4)
    for most, bare in ((3, True), (4, False)):
        monkeypatch.setattr("bpmcli.tasks.classes.MOST_INTERVALS", most)
        ran = run("metrics", "a.npz", "--classwise", "-m", "ece", "-f", "json")
        (record,) = json.loads(ran.out)["results"]
        assert [one["metrics"]["ece"]["low"] is None for one in record["classwise"]] == [bare] * 4
        assert ("no intervals, because there are 4 classes" in ran.err) == bare
    monkeypatch.setattr("bpmcli.tasks.classes.MOST_INTERVALS", 3)
    (record,) = results(run, "a.npz", "--classwise", "-m", "ece", "--interval", 0.9, "--resamples", 20)
    assert all(one["metrics"]["ece"]["low"] is not None for one in record["classwise"])


def test_class_names(run: Run) -> None:
    Path("a.csv").write_text("prob_cat,prob_dog,label\n0.9,0.1,cat\n0.2,0.8,dog\n0.6,0.4,dog\n")
    (record,) = results(run, "a.csv", "--classwise", "-m", "ece")
    assert [(one["class"], one["rows"]) for one in record["classwise"]] == [("cat", 1), ("dog", 2)]


@pytest.mark.parametrize("name", WHOLE)
def test_formats_of_a_file_agree(run: Run, name: str) -> None:
    logits, labels = save("a.npz", 120)
    p = np.exp(log_softmax(logits))
    np.savez("p.npz", probs=p, labels=labels)
    head = ",".join([*(f"prob_{k}" for k in range(4)), "label"])
    rows = [",".join([*(repr(float(v)) for v in row), str(y)]) for row, y in zip(p, labels, strict=True)]
    Path("p.csv").write_text("\n".join([head, *rows]) + "\n")
    found = [results(run, path, "-m", name)[0]["metrics"][name]["value"] for path in ("a.npz", "p.npz", "p.csv")]
    assert found[1] == found[2]
    assert found[0] == pytest.approx(found[1], abs=0.1 if name == "canonical-p" else 1e-9)


def test_two_classes_as_one_probability(run: Run) -> None:
    rng = np.random.default_rng(0)
    p, y = rng.random(300), rng.integers(0, 2, 300)
    np.savez("one.npz", probs=p, labels=y)
    np.savez("two.npz", probs=np.stack([1 - p, p], axis=1), labels=y)
    names = ["nll-all", "brier-all", "ece-classwise"]
    one, two = (results(run, path, "-m", ",".join(names))[0]["metrics"] for path in ("one.npz", "two.npz"))
    for name in names:
        assert one[name]["value"] == pytest.approx(two[name]["value"], abs=1e-9), name
    assert one["nll-all"]["value"] == pytest.approx(-np.mean(np.log(np.where(y == 1, p, 1 - p))))


def test_metrics_without_classes_say_why(run: Run) -> None:
    np.savez("c.npz", confidence=np.linspace(0.1, 0.9, 50), hit=np.arange(50) % 2)
    ran = run("metrics", "c.npz", "-m", "ece,nll-all,canonical-p")
    assert "no nll-all, canonical-p: the scores of all classes" in ran.err
    assert "needs the scores of all classes" in run("metrics", "c.npz", "--classwise", code=3).err
    np.savez("e.npz", probs=np.linspace(0.1, 0.9, 50), y=np.arange(50) % 2)
    assert "no accuracy, nll-all: with --event there are no predicted classes" in run("metrics", "e.npz", "--event", "-m", "accuracy,nll-all,auroc").err  # fmt: skip
    ran = run("metrics", VAL, "--summary", "-m", "nll-all")
    assert "and a summary does not store them" in ran.err


def test_gates_on_whole_distributions(run: Run) -> None:
    save("a.npz")
    (record,) = results(run, "a.npz", "-m", "nll-all,ece-classwise")
    for name, found in record["metrics"].items():
        assert run("metrics", "a.npz", "-m", "ece", "--fail-above", f"{name}={found['value'] + 1e-6}").code == 0
        run("metrics", "a.npz", "-m", "ece", "--fail-above", f"{name}={found['value'] - 1e-6}", code=1)


def test_gates_where_higher_is_better(run: Run) -> None:
    save("a.npz")
    (record,) = results(run, "a.npz", "-m", "accuracy,auroc,canonical-p", "--interval", "0.9")
    for name, found in record["metrics"].items():
        low, high = (f"{name}={found['value'] + step}" for step in (-1e-6, 1e-6))
        assert "at least the limit" in run("metrics", "a.npz", "-m", "ece", "--fail-below", low).err
        assert "below the limit" in run("metrics", "a.npz", "-m", "ece", "--fail-below", high, code=1).err
        assert f"--fail-below {low}" in run("metrics", "a.npz", "--fail-above", low, code=2).err
    assert "--fail-above ece=0.1" in run("metrics", "a.npz", "--fail-below", "ece=0.1", code=2).err
    sure = ["--gate-confidence", "0.95", "-m", "ece", "--fail-below"]
    above = record["metrics"]["accuracy"]["high"]
    assert "not surely below" in run("metrics", "a.npz", *sure, f"accuracy={above - 1e-3}").err
    assert "surely below" in run("metrics", "a.npz", *sure, f"accuracy={above + 1e-3}", code=1).err
    run("metrics", "a.npz", *sure, "canonical-p=0.0001")


def test_baselines_hold_whole_distributions(run: Run) -> None:
    save("a.npz")
    run("metrics", "a.npz", "-m", "ece", "--save-baseline", "b.json")
    rise = ["-m", "ece", "--baseline", "b.json", "--max-increase", "nll-all=0.01"]
    run("metrics", "a.npz", *rise)
    rng = np.random.default_rng(1)
    np.savez("wild.npz", logits=rng.normal(0, 2, (400, 4)), labels=rng.integers(0, 4, 400))
    assert "more than the 0.01 allowed" in run("metrics", "wild.npz", *rise, code=1).err
    assert "surely more than the 0.01" in run("metrics", "wild.npz", *rise, "--gate-confidence", "0.95", code=1).err


GATED = [name for name in WHOLE if not METRICS[name].is_test]


def increases(run: Run, path: str, *more: object) -> dict[str, dict]:
    """What gates of all metrics of whole distributions say about a file, compared with b.json."""
    limits = [part for name in GATED for part in ("--max-increase", f"{name}=0")]
    ran = run(
        "metrics", path, *limits, "--gate-confidence", 0.95, "--baseline", "b.json", *more, "-f", "json", code=None
    )
    assert ran.code in (0, 1), ran
    return {gate["metric"]: gate for gate in json.loads(ran.out)["gates"]}


def test_increases_of_whole_distributions_row_by_row(run: Run) -> None:
    """The limits are those of `compare metrics`, which has the scores of both runs."""
    logits, labels = save("a.npz", 600, id=np.arange(600))
    run("metrics", "a.npz", "-m", "ece", "--id", "id", "--save-baseline", "b.json")
    noise = np.random.default_rng(5).normal(0, 0.4, logits.shape)
    np.savez("later.npz", logits=1.6 * logits + noise, labels=labels, id=np.arange(600))
    found = increases(run, "later.npz")
    compared = json.loads(run("compare", "metrics", "a.npz", "later.npz", "--paired", "--interval", "0.9", "-m", ",".join(GATED), "-f", "json").out)  # fmt: skip
    for one in compared["differences"]:
        gate = found[one["metric"]]
        assert gate["paired"] is True
        assert gate["value"] - gate["baseline"] == pytest.approx(one["difference"])
        assert gate["low"] == pytest.approx(one["low"], rel=1e-5), "the stored influences have 24 bits"
        assert gate["high"] == pytest.approx(one["high"], rel=1e-5)
    order = np.random.default_rng(6).permutation(600)
    np.savez("shuffled.npz", logits=(1.6 * logits + noise)[order], labels=labels[order], id=order)
    for name, gate in increases(run, "shuffled.npz", "--id", "id").items():
        assert gate["paired"] is True
        assert gate["low"] == pytest.approx(found[name]["low"], abs=1e-9)
    for gate in increases(run, "a.npz").values():
        assert (gate["low"], gate["high"]) == (0.0, 0.0), "equal rows cancel exactly"


def test_increases_of_whole_distributions_from_summaries(run: Run) -> None:
    logits, labels = save("a.npz", 900)
    run("metrics", "a.npz", "-m", "ece", "--save-baseline", "b.json")
    other, their_labels = save("other.npz", 300, seed=1)
    found = increases(run, "other.npz")["nll-all"]
    first = -log_softmax(logits)[np.arange(900), labels]
    second = -log_softmax(other)[np.arange(300), their_labels]
    half = 1.6448536 * np.sqrt(first.var() / 900 + second.var() / 300)
    assert found["paired"] is False
    assert found["low"] == pytest.approx(second.mean() - first.mean() - half, rel=1e-6)
    assert found["high"] == pytest.approx(second.mean() - first.mean() + half, rel=1e-6)


def test_fewer_rows_alone_do_not_raise_a_class_wise_error(run: Run) -> None:
    """Class-wise errors are raised by noise, so 300 rows score far above 9000 rows of the same model."""
    save("few.npz", 300, seed=1)
    save("many.npz", 9000)
    run("metrics", "many.npz", "-m", "ece", "--save-baseline", "b.json")
    gate = increases(run, "few.npz")["ece-classwise"]
    assert gate["value"] > 2 * gate["baseline"]
    assert gate["low"] < 0 < gate["high"]
    middle = (gate["low"] + min(gate["high"], -gate["low"])) / 2
    assert abs(middle) < (gate["value"] - gate["baseline"]) / 2
    run("metrics", "few.npz", "-m", "ece", "--save-baseline", "b.json")
    gate = increases(run, "many.npz")["ece-classwise"]
    assert gate["value"] - gate["baseline"] < gate["low"] + 1e-9 or gate["low"] < 0
    assert gate["high"] > 0, "nothing got better either"


def test_increases_with_labels_that_are_none_of_the_classes(run: Run) -> None:
    logits, labels = save("a.npz")
    names = np.where(np.arange(400) % 9 == 0, -1, labels)
    for path, scale in (("a.npz", 1.0), ("b.npz", 1.5)):
        np.savez(path, logits=scale * logits, labels=names)
    run("metrics", "a.npz", "--unknown", "-1", "-m", "ece", "--save-baseline", "b.json")
    found = increases(run, "b.npz", "--unknown", "-1")["nll-all"]
    known = np.flatnonzero(np.arange(400) % 9)
    first, second = (-log_softmax(scale * logits)[known, labels[known]] for scale in (1.0, 1.5))
    half = 1.6448536 * (second - first).std() / np.sqrt(known.size)
    assert found["paired"] is True
    assert found["low"] == pytest.approx((second - first).mean() - half, rel=1e-5)
    # Rows that are paired by their ids may have got a label since.
    np.savez("a.npz", logits=logits, labels=names, id=np.arange(400))
    np.savez("b.npz", logits=1.5 * logits, labels=np.where(np.arange(400) == 0, labels, names), id=np.arange(400))
    run("metrics", "a.npz", "--unknown", "-1", "--id", "id", "-m", "ece", "--save-baseline", "b.json")
    relabelled = increases(run, "b.npz", "--unknown", "-1", "--id", "id")["nll-all"]
    assert relabelled["low"] == pytest.approx(found["low"], abs=0.1)


def test_a_baseline_without_uncertainties_names_the_command(run: Run) -> None:
    save("a b.npz")
    run("metrics", "a b.npz", "-m", "ece", "--save-baseline", "b.json")
    document = json.loads(Path("b.json").read_text())
    for edit, message in (
        (lambda kept: kept.pop("whole"), "the baseline has nll-all, but not its uncertainty"),
        (lambda kept: kept["rows"]["whole"].update({"nll-all": "AAAA"}), "rows.whole.nll-all: is cut off"),
        (lambda kept: kept["rows"]["whole"].update({"nll-all": "AAAAAA=="}), "rows.whole.nll-all: its length differs"),
        (lambda kept: kept["whole"]["nll-all"].update(error=-1), "kept.whole.nll-all.error: must be a number, 0 or more"),
        (lambda kept: kept.update(effective_n=1e-300), "kept.effective_n: must be a number, 1 or more"),
    ):  # fmt: skip
        edited = json.loads(json.dumps(document))
        edit(edited["results"][0]["kept"])
        Path("b.json").write_text(json.dumps(edited))
        gate = ("--max-increase", "nll-all=0", "--gate-confidence", 0.95, "--baseline", "b.json")
        err = run("metrics", "a b.npz", *gate, code=3).err
        assert message in err
        if "uncertainty" in message:
            command = "bpmcli metrics 'a b.npz' --save-baseline b.json"
            assert command in err
            run("metrics", "a b.npz", "--save-baseline", "b.json")
            run("metrics", "a b.npz", *gate)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda one: one["kept"]["whole"]["ece-classwise"].update(noise="AAAAAAAA8D8="), "b.json: whole.ece-classwise"),
        (
            lambda one: one["metrics"]["ece-marginal"].update(value=1e200),
            "b.json: metrics.ece-marginal.value: cannot be",
        ),
        (lambda one: one["metrics"]["ece-marginal"].update(value=1e-320), ""),
    ],
)
def test_damaged_baselines_end_in_a_sentence(run: Run, edit: Callable[[dict], None], message: str) -> None:
    save("a.npz")
    save("other.npz", seed=1)
    run("metrics", "a.npz", "-m", "ece", "--save-baseline", "b.json")
    document = json.loads(Path("b.json").read_text())
    edit(document["results"][0])
    Path("b.json").write_text(json.dumps(document))
    gate = ("--max-increase", "ece-classwise=0.5", "--max-increase", "ece-marginal=0.5", "--gate-confidence", 0.95)
    ran = run("metrics", "other.npz", *gate, "--baseline", "b.json", code=3 if message else 0)
    assert message in ran.err


@pytest.mark.parametrize("p", [2, 50])
def test_increases_of_class_wise_errors_with_a_high_power(run: Run, p: int) -> None:
    save("a.npz")
    save("other.npz", 200, seed=1)
    gate = ("--max-increase", "ece-classwise=0.5", "--gate-confidence", 0.95, "--baseline", "b.json", "--p", p)
    run("metrics", "a.npz", "-m", "ece", "--p", p, "--save-baseline", "b.json")
    for path in ("a.npz", "other.npz"):
        (found,) = json.loads(run("metrics", path, *gate, "-f", "json").out)["gates"]
        assert found["low"] <= found["value"] - found["baseline"] <= found["high"]


def test_increases_of_class_wise_errors_of_labels_and_groups(run: Run) -> None:
    rng = np.random.default_rng(4)
    probs = rng.random((300, 3))
    labels = (rng.random((300, 3)) < probs).astype(int)
    np.savez("old.npz", probs=probs, labels=labels)
    np.savez("new.npz", probs=probs**2, labels=labels)
    gate = ("--max-increase", "ece-classwise=0", "--max-increase", "ece-marginal=0", "--gate-confidence", 0.95)
    run("metrics", "old.npz", "--multi-label", "-m", "ece", "--save-baseline", "b.json")
    run("metrics", "old.npz", "--multi-label", *gate, "--baseline", "b.json")
    ran = run("metrics", "new.npz", "--multi-label", *gate, "--baseline", "b.json", "-f", "json", code=1)
    assert [one["paired"] for one in json.loads(ran.out)["gates"]] == [True, True]
    save("a.npz", group=np.repeat(["x", "y"], 200))
    run("metrics", "a.npz", "--by", "group", "-m", "ece", "--save-baseline", "b.json")
    found = json.loads(run("metrics", "a.npz", "--by", "group", *gate, "--baseline", "b.json", "-f", "json").out)
    assert [(one["paired"], one["low"]) for one in found["gates"]] == [(True, 0.0)] * 4


def test_top_k_equals_its_definition(run: Run) -> None:
    logits, labels = save("a.npz", 300, 6)
    p = np.exp(log_softmax(logits))
    order = np.argsort(-p, axis=1)
    for k in (1, 2, 5):
        chosen = order[:, :k]
        (record,) = results(run, "a.npz", "--top-k", k, "-m", "brier")
        hits = (chosen == labels[:, None]).any(axis=1)
        confidence = np.take_along_axis(p, chosen, axis=1).sum(axis=1)
        assert record["accuracy"] == pytest.approx(hits.mean())
        assert record["mean_confidence"] == pytest.approx(confidence.mean(), rel=1e-12)
        assert record["metrics"]["brier"]["value"] == pytest.approx(np.mean((confidence - hits) ** 2), rel=1e-9)
        assert record["target"] == ("top-label" if k == 1 else f"top-{k}")
    # The sum of all other classes is 1 − p of the least one, to full precision.
    np.savez("s.npz", logits=np.array([[0.0, -1.0, -60.0], [0.0, -1.0, -60.0]]), labels=np.array([0, 2]))
    assert results(run, "s.npz", "--top-k", 2, "-m", "nll")[0]["metrics"]["nll"]["value"] == pytest.approx(
        (60 + np.log1p(np.exp(-1))) / 2, rel=1e-12
    )


def test_top_k_takes_the_first_of_equal_classes(run: Run) -> None:
    np.savez("t.npz", probs=np.full((4, 4), 0.25), labels=np.arange(4))
    ran = run("metrics", "t.npz", "--top-k", "2", "-m", "brier", "-f", "json")
    assert json.loads(ran.out)["results"][0]["accuracy"] == 0.5
    assert "more than one class" in ran.err


@pytest.mark.parametrize("argv", [["--top-k", "0"], ["--top-k", "2", "--event"]])
def test_top_k_usage(run: Run, argv: list[str]) -> None:
    run("metrics", VAL, *argv, code=2)


def test_top_k_needs_more_classes_than_k(run: Run) -> None:
    ran = run("metrics", VAL, "--top-k", "10", code=3)
    assert "--top-k 10 needs more than 10 classes, found 10" in ran.err
    assert run("metrics", VAL, "--top-k", "9", "-m", "ece").code == 0  # the hint works
    np.savez("c.npz", confidence=np.linspace(0.1, 0.9, 50), hit=np.arange(50) % 2)
    assert "--top-k needs the scores of all classes" in run("metrics", "c.npz", "--top-k", "2", code=3).err


def test_the_default_run_says_when_classes_hide_behind_the_confidence(run: Run) -> None:
    rng = np.random.default_rng(0)
    logs = log_softmax(rng.normal(0, 2, (6000, 6)))
    p, top = np.exp(logs), logs.argmax(axis=1)
    rest = np.where(np.arange(6) == top[:, None], 0.0, p)
    true = 0.5 * rest + 0.5 * rest.sum(axis=1, keepdims=True) / 5
    true[np.arange(6000), top] = p[np.arange(6000), top]
    edges = np.cumsum(true, axis=1)
    labels = np.minimum((rng.random((6000, 1)) * edges[:, -1:] > edges).sum(axis=1), 5)
    np.savez("h.npz", logits=logs, labels=labels)
    assert "single classes are not (P = " in run("metrics", "h.npz").out
    assert "single classes" not in run("metrics", "h.npz", "-q").out
    (record,) = results(run, "h.npz")
    assert record["verdict"]["name"] == "calibrated"
    assert record["class_check"]["p_value"] <= 0.01
    save("good.npz", 3000)
    (record,) = results(run, "good.npz")
    assert record["class_check"]["sentence"] == ""


def test_large_files_are_not_checked_by_classes_and_say_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import bpmcli.tasks.measure as module

    save("a.npz")
    monkeypatch.setattr(module, "QUICK_SCORES", 1000)
    ran = run("metrics", "a.npz")
    assert "calibration of single classes was not checked, because there are 1,600 scores" in ran.err
    assert "not checked" not in run("metrics", "a.npz", "--classwise").err  # the hint works
    assert "not checked" not in run("metrics", "a.npz", "-m", "ece").err


@pytest.mark.parametrize("name", ["auroc", "nll-all"])
def test_the_best_comes_first(run: Run, name: str) -> None:
    save("calm.npz", 500)
    rng = np.random.default_rng(1)
    np.savez("wild.npz", logits=rng.normal(0, 2, (500, 4)), labels=rng.integers(0, 4, 500))
    for order in (["calm.npz", "wild.npz"], ["wild.npz", "calm.npz"]):
        found = results(run, *order, "-m", name, "--sort", name, "--interval", "0.95")
        assert [record["input"] for record in found] == ["calm.npz", "wild.npz"]
        assert [record["tied"] for record in found] == [False, False]


@pytest.mark.parametrize(("n", "k"), [(1, 2), (1, 3), (2, 10), (3, 100), (60, 2)])
def test_small_and_wide_files(run: Run, n: int, k: int) -> None:
    save("a.npz", n, k)
    for record in results(run, "a.npz", "-m", "all", "--interval", "0.9", "--resamples", "20"):
        for name in WHOLE:
            assert record["metrics"][name]["value"] is not None
    few = ("--interval", "0.9", "--resamples", "20")
    assert len(results(run, "a.npz", "--classwise", "-m", "ece", *few)[0]["classwise"]) == k


def test_a_class_that_is_never_seen(run: Run) -> None:
    rng = np.random.default_rng(0)
    np.savez("a.npz", logits=rng.normal(0, 1, (200, 5)), labels=rng.integers(0, 3, 200))
    (record,) = results(run, "a.npz", "--classwise", "-m", "all", "--interval", "0.95", "--resamples", "20")
    assert [one["rows"] for one in record["classwise"]][3:] == [0, 0]


@pytest.mark.parametrize("bad", ["label", "nan"])
def test_wrong_files_are_refused(run: Run, bad: str) -> None:
    logits, labels = np.random.default_rng(0).normal(0, 1, (20, 3)), np.arange(20) % 3
    if bad == "label":
        labels[4] = -1
    else:
        logits[7, 1] = np.nan
    np.savez("a.npz", logits=logits, labels=labels)
    ran = run("metrics", "a.npz", "--classwise", code=3)
    assert "hint" in ran.err
