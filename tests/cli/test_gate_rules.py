"""The rules of the gates on records made by hand: which side of a limit passes, and what is said."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import SAMPLE_DATA

from bpmcli.cli.ci_gate import Limit, Limits, completed, parse_limits, save_baseline, with_baselines
from bpmcli.cli.gate_results import GateResult, exit_code, judge, show_gates
from bpmcli.core.metrics.decision import smallest_detectable
from bpmcli.errors import DataError, UsageError


def record(value: float | None = 0.04, **more: object) -> dict:
    metric = {"value": value, **more}
    record = {"input": "a.npz", "n": 1000, "target": "correct", "weighted": False, "mean_confidence": 0.9}
    return {**record, "metrics": {"ece": metric}}


def outcomes(limits: Limits, *records: dict, baseline: dict | None = None, **options: object) -> list[GateResult]:
    return judge(records, limits, baseline, **options)  # type: ignore[arg-type]


ECE = [Limit("ece", 0.04)]


def test_limits_are_parsed():
    assert parse_limits("--fail-above", ["ece=0.05", "KS=1e-3"]) == [Limit("ece", 0.05), Limit("ks", 0.001)]
    for text, words in (
        ("ece", "expected METRIC=NUMBER"),
        ("ece=x", "'x' is not a finite number"),
        ("ece=inf", "'inf' is not a finite number"),
        ("nope=1", "unknown metric of --fail-above 'nope'"),
        ("auroc=0.9", "higher values of auroc are better"),
    ):
        with pytest.raises(UsageError, match=words):
            parse_limits("--fail-above", [text])


@pytest.mark.parametrize(
    ("option", "text", "message", "hint"),
    [
        ("--fail-above", "tce=3", "tce is at most 1, so this gate could never fail", "3 points are tce=0.03"),
        ("--pass-below", "tce=5", "tce is at most 1, so this gate could never fail", "5 points are tce=0.05"),
        ("--max-increase", "tce=1", "tce is at most 1, so this gate could never fail", "1 point is tce=0.01"),
        ("--fail-above", "ece=300", "ece is at most 1, so this gate could never fail", "give a limit below 1"),
        ("--fail-above", "brier-all=2", "brier-all is at most 2", "2 points are brier-all=0.02"),
        ("--fail-below", "accuracy=90", "accuracy is at most 1, so this gate could never pass", "90 % is accuracy=0.9"),
        ("--fail-below", "auroc=0", "auroc is at least 0, so this gate could never fail", "give a limit above 0"),
        ("--fail-above", "tce=5%", "'5%' is not a finite number", "write tce=0.05"),
        ("--fail-above", "tce=0,05", "'0,05' is not a finite number", "write tce=0.05"),
        ("--fail-above", "tce=x%", "'x%' is not a finite number", ""),
        ("--fail-above", "tce=nan", "'nan' is not a finite number", ""),
        ("--max-increase", "tce", "expected METRIC=NUMBER", "--max-increase tce=0.01"),
        ("--fail-above", "ece=100", "ece is at most 1", "give a limit below 1"),
        ("--fail-above", "unc=0.3", "unc is at most 0.25", "give a limit below 0.25"),
        ("--fail-below", "dsc=0.5", "dsc is at most 0.25", "give a limit below 0.25"),
        ("--fail-above", "ece=100.5", "ece is at most 1", "give a limit below 1"),
        ("--fail-above", "brier-all=150", "brier-all is at most 2", "150 points are brier-all=1.5"),
        ("--fail-above", "auroc=0.9", "higher values of auroc are better", "--fail-below auroc=0.9"),
        ("--max-increase", "auroc=0.1", "higher values of auroc are better", "--fail-below auroc=LOWEST"),
        ("--fail-below", "ece=0.1", "lower values of ece are better", "--fail-above ece=0.1"),
    ],
)
def test_gates_with_one_possible_outcome_are_refused(option, text, message, hint):
    with pytest.raises(UsageError) as refused:
        parse_limits(option, [text])
    assert refused.value.message.startswith(f"{option} {text}: ")
    assert message in refused.value.message
    assert (refused.value.hint or "") == hint


def test_limits_that_can_decide_are_accepted():
    for option, text in (
        ("--fail-above", "nll=3"), ("--fail-above", "brier-all=1.5"), ("--fail-below", "accuracy=1"),
        ("--max-increase", "tce=-0.01"), ("--fail-above", "tce=0.999"), ("--fail-above", "ece-debiased=-0.01"),
    ):  # fmt: skip
        assert len(parse_limits(option, [text])) == 1


def test_limits_in_a_configuration_file_are_checked_too(run, tmp_path):
    for text in ("[metrics]\nfail-above = { tce = 3 }\n", '[paths."*"]\nfail-above = { tce = 3 }\n'):
        (tmp_path / "bpmcli.toml").write_text(text)
        assert "3 points are tce=0.03" in run("metrics", SAMPLE_DATA / "digits_good.npz", code=2).err


def test_higher_is_better_for_some():
    assert parse_limits("--fail-below", ["auroc=0.9"]) == [Limit("auroc", 0.9)]
    with pytest.raises(UsageError, match="lower values of ece are better"):
        parse_limits("--fail-below", ["ece=0.1"])


def test_every_gate_names_its_metric():
    limits = Limits([Limit("ece", 1)], [Limit("ks", 2)], [Limit("tce", 3)], least=[Limit("auroc", 4)])
    assert [kind for kind, _ in limits.kinds()] == ["fail-above", "pass-below", "max-increase", "fail-below"]
    assert completed(limits, 0.0, None).names == ["ece", "ks", "tce", "auroc"]


@pytest.mark.parametrize(
    ("limits", "interval", "confidence", "expected"),
    [
        (Limits(above=ECE), 0.0, None, (0.0, None)),
        (Limits(above=ECE), 0.8, None, (0.8, None)),
        (Limits(below=ECE), 0.0, None, (0.9, None)),
        (Limits(below=ECE), 0.8, None, (0.8, None)),
        (Limits(above=ECE), 0.0, 0.95, (0.9, 0.95)),
        (Limits(below=ECE), 0.0, 0.975, (0.95, 0.975)),
        (Limits(above=ECE), 0.9, 0.95, (0.9, 0.95)),
        (Limits(rises=ECE), 0.0, 0.95, (0.0, 0.95)),
        (Limits(rises=ECE, below=ECE), 0.0, 0.95, (0.9, 0.95)),
    ],
)
def test_levels_of_the_intervals(limits, interval, confidence, expected):
    found = completed(limits, interval, confidence)
    assert (pytest.approx(found.interval, abs=1e-12), found.confidence) == expected


@pytest.mark.parametrize(
    ("limits", "interval", "confidence", "words"),
    [
        (Limits(), 0.0, 0.95, "--gate-confidence needs --fail-above"),
        (Limits(above=ECE), 0.0, 0.5, "must be above 0.5, got 0.5"),
        (Limits(above=ECE), 0.8, 0.95, "leave --interval out or give 0.9"),
        (Limits(above=ECE), 0.0, 1.0, "--gate-confidence"),
    ],
)
def test_levels_that_make_no_sense(limits, interval, confidence, words):
    with pytest.raises(UsageError) as caught:
        completed(limits, interval, confidence)
    assert words in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(("value", "code"), [(0.04, 0), (0.0401, 1), (None, 1)])
def test_fail_above_looks_at_the_value(value, code):
    (gate,) = outcomes(Limits(above=ECE), record(value, low=0.03, high=0.05))
    assert (gate.exit_code, gate.passed, gate.bound, gate.kind) == (code, code == 0, None, "fail-above")
    assert gate.outcome == ("pass" if code == 0 else "fail")
    assert gate.rows == 1000


@pytest.mark.parametrize(("low", "code"), [(0.04, 0), (0.0401, 1), (None, 1)])
def test_fail_above_with_a_confidence_looks_at_the_lower_limit(low, code):
    (gate,) = outcomes(Limits(above=ECE, confidence=0.95), record(0.05, low=low, high=0.06))
    assert (gate.exit_code, gate.bound) == (code, low)


@pytest.mark.parametrize(
    ("value", "high", "confidence", "passed", "words"),
    [
        (0.04, None, None, True, "at least the limit 0.04"),
        (0.0399, None, None, False, "0.00010 below the limit 0.04"),
        (0.03, 0.04, 0.95, True, "not surely below the limit 0.04"),
        (0.03, 0.0399, 0.95, False, "(at most 0.03990), and surely below the limit 0.04"),
        (0.05, 0.06, 0.95, True, "(at most 0.06000), at least the limit 0.04"),
        (None, None, None, False, "could not be measured"),
    ],
)
def test_fail_below_is_for_metrics_of_which_more_is_better(value, high, confidence, passed, words):
    (gate,) = outcomes(Limits(least=ECE, confidence=confidence), record(value, low=0.01, high=high))
    assert (gate.passed, gate.kind, gate.exit_code) == (passed, "fail-below", 0 if passed else 1)
    assert gate.outcome == ("pass" if passed else "fail")
    assert words in str(gate)


def test_a_p_value_is_judged_without_an_interval():
    test = {**record(), "metrics": {"canonical-p": {"value": 0.5, "high": 0.005}}}
    (gate,) = outcomes(Limits(least=[Limit("canonical-p", 0.01)], confidence=0.95), test)
    assert (gate.passed, gate.bound) == (True, None)


def test_the_error_that_could_be_found_is_of_the_gate_s_level():
    (gate,) = outcomes(Limits(below=ECE, interval=0.9), {**record(0.03, low=0.02, high=0.05), "effective_n": 500.0})
    assert gate.detectable == smallest_detectable(0.04, 500, 0.95, 0.9)
    loss = {**record(), "metrics": {"brier": {"value": 0.03, "low": 0.02, "high": 0.05}}}
    (gate,) = outcomes(Limits(below=[Limit("brier", 0.04)], interval=0.9), loss)
    assert gate.detectable is None
    assert str(gate).endswith("about 4,000 would")


@pytest.mark.parametrize(
    ("before", "now", "hint"),
    [
        ({"weighted": True}, {}, "name the weights with --weight"),
        ({}, {"weighted": True}, "leave --weight out"),
        ({"target": "event"}, {"target": "top-label"}, "add --event"),
        ({"target": "top-3"}, {"target": "top-label"}, "add --top-k 3"),
        ({"target": "top-label"}, {"target": "event"}, "leave --event out"),
        ({"target": "top-label"}, {"target": "top-3"}, "leave --top-k out"),
    ],
)
def test_a_run_of_another_kind_than_its_baseline_says_how_to_repeat_it(before, now, hint):
    with pytest.raises(DataError) as error:
        outcomes(Limits(rises=ECE), {**record(), **now}, baseline={"results": [{**record(), **before}]})
    assert error.value.hint == hint


@pytest.mark.parametrize(
    ("low", "high", "inconclusive", "code", "outcome", "counts_as"),
    [
        (0.02, 0.04, None, 0, "pass", None),
        (0.041, 0.06, None, 1, "fail", None),
        (0.041, 0.06, "pass", 1, "fail", None),
        (0.02, 0.05, None, 5, "inconclusive", None),
        (0.02, 0.05, "pass", 0, "inconclusive", "pass"),
        (0.02, 0.05, "fail", 1, "inconclusive", "fail"),
        (None, None, "pass", 1, "fail", None),
    ],
)
def test_pass_below_has_three_outcomes(low, high, inconclusive, code, outcome, counts_as):
    limits = Limits(below=ECE, interval=0.9, inconclusive=inconclusive)
    (gate,) = outcomes(limits, record(0.03, low=low, high=high))
    assert (gate.exit_code, gate.outcome, gate.counts_as) == (code, outcome, counts_as)
    assert gate.passed == (code == 0)
    assert (gate.low, gate.high, gate.rows, gate.kind) == (low, high, 1000, "pass-below")


@pytest.mark.parametrize(
    ("confidence", "low", "limit", "passed"),
    [
        (None, None, 0.0078125, True), (None, None, 0.0078, False),
        (0.95, 0.005, 0.0051, True), (0.95, 0.005, 0.0049, False), (0.95, None, 9.0, False),
    ],
)  # fmt: skip
def test_an_increase_is_compared_with_what_is_allowed(confidence, low, limit, passed):
    now = {**record(0.0625), "increases": {"ece": {"low": low, "high": 0.02, "paired": True}}}
    limits = Limits(rises=[Limit("ece", limit)], confidence=confidence)
    (gate,) = outcomes(limits, now, baseline={"results": [record(0.0546875)]})
    assert (gate.passed, gate.baseline, gate.value, gate.kind) == (passed, 0.0546875, 0.0625, "max-increase")
    assert (gate.outcome, gate.paired, gate.rows) == ("pass" if passed else "fail", True, 1000)


def test_a_baseline_must_fit():
    limits = Limits(rises=ECE)
    with pytest.raises(DataError, match="the baseline has weighted = True, this run False"):
        outcomes(limits, record(), baseline={"results": [{**record(), "weighted": True}]})
    with pytest.raises(DataError, match="the baseline has no ece for a.npz"):
        outcomes(limits, record(), baseline={"results": [{**record(), "metrics": {}}]})
    with pytest.raises(DataError, match="the baseline has no result for a.npz"):
        outcomes(limits, record(), baseline={"results": [{**record(), "input": "b.npz"}]})
    with pytest.raises(DataError, match="the baseline has no result for a.npz"):  # a damaged one: groups of nothing
        outcomes(limits, record(), baseline={"results": [{**record(), "input": "b.npz", "group": "x"}]})
    assert outcomes(limits, record(), baseline={"results": [{**record(), "input": "b.npz"}]}, single=True)[0].passed
    assert not outcomes(limits, record(None), baseline={"results": [record()]})[0].passed


def test_inputs_that_could_not_be_read_fail_every_gate():
    found = outcomes(Limits(ECE, ECE, ECE), failed=["x.npz"])
    assert [(gate.input, gate.kind, gate.exit_code) for gate in found] == [
        ("x.npz", kind, 1) for kind in ("fail-above", "pass-below", "max-increase")
    ]
    assert str(found[0]) == "x.npz: ece could not be measured, so its gate fails"


@pytest.mark.parametrize(("codes", "expected"), [((0, 0), 0), ((5, 0), 5), ((5, 1), 1), ((), 0)])
def test_a_failure_counts_more_than_doubt(codes, expected):
    outcome = {0: "pass", 1: "fail", 5: "inconclusive"}
    assert exit_code([GateResult("a", "ece", 1, 1, c == 0, outcome=outcome[c]) for c in codes]) == expected


@pytest.mark.parametrize(
    ("limits", "now", "words"),
    [
        (Limits(above=ECE), record(0.04), "= 0.04000, within the limit 0.04"),
        (Limits(above=ECE), record(0.05), "= 0.05000, 0.01000 above the limit 0.04"),
        (Limits(above=ECE, confidence=0.9), record(0.04, low=0.03), "(at least 0.03000), within the limit 0.04"),
        (Limits(above=ECE, confidence=0.9), record(0.05, low=0.03), "(at least 0.03000), not surely above the limit"),
        (Limits(above=ECE, confidence=0.9), record(0.06, low=0.05), "(at least 0.05000), and surely above the limit"),
        (
            Limits(below=ECE, interval=0.9),
            record(0.03, low=0.02, high=0.04),
            "(at most 0.04000), surely below the limit",
        ),
        (
            Limits(below=ECE, interval=0.9),
            record(0.07, low=0.05, high=0.09),
            "(at least 0.05000), surely above the limit",
        ),
        (Limits(below=ECE, interval=0.9), record(0.03, low=0.02, high=0.05), "1,000 rows cannot tell"),
        (Limits(below=ECE, interval=0.9), record(0.03, low=0.02, high=0.05), "about 4,000 would. With 1,000 rows"),
        (Limits(below=ECE, interval=0.9), record(0.04, low=0.02, high=0.05), "even a thousand times as many would not"),
        (Limits(below=ECE, interval=0.9), record(0.03, low=0.02), "has no confidence interval, so its gate fails"),
    ],
)
def test_words(limits, now, words):
    (gate,) = outcomes(limits, now)
    assert words in str(gate)


@pytest.mark.parametrize(
    ("confidence", "limit", "increase", "words"),
    [
        (None, 0.02, {}, "went from 0.05000 to 0.06000 (+0.01000), within the 0.02 allowed"),
        (None, 0.005, {}, "(+0.01000), more than the 0.005 allowed"),
        (0.9, 0.02, {"low": 0.004, "paired": True}, "(+0.01000, at least +0.00400 row by row), within the 0.02"),
        (0.9, 0.005, {"low": 0.004, "paired": False}, "at least +0.00400 from summaries), not surely more than"),
        (0.9, 0.003, {"low": 0.004, "paired": True}, "row by row), surely more than the 0.003 allowed"),
    ],
)
def test_words_of_an_increase(confidence, limit, increase, words):
    now = {**record(0.06), "increases": {"ece": increase}}
    limits = Limits(rises=[Limit("ece", limit)], confidence=confidence)
    (gate,) = outcomes(limits, now, baseline={"results": [record(0.05)]})
    assert words in str(gate)


def test_outcomes_are_shown(capsys):
    gates = [*outcomes(Limits(above=ECE), record(0.04), record(0.05))]
    gates += outcomes(Limits(below=ECE, interval=0.9), record(0.03, low=0.02, high=0.05))
    gates += outcomes(Limits(below=ECE, interval=0.9, inconclusive="pass"), record(0.03, low=0.02, high=0.05))
    show_gates(gates)
    lines = [line for line in capsys.readouterr().err.splitlines() if "gate" in line]
    starts = ("gate passed: ", "gate failed: ", "gate inconclusive: ", "gate inconclusive (counts as pass): ")
    assert all(start in line for start, line in zip(starts, lines, strict=True)), lines


def test_only_a_run_that_passed_becomes_the_baseline(tmp_path: Path, capsys):
    path = tmp_path / "base.json"
    kept = {"metrics": {"ks": {"value": 0.1}}, "cells": [1]}
    one = SimpleNamespace(record={**record(), "bins": [1], "increases": {}}, kept=kept)
    whys = {1: "a gate failed", 3: "an input could not be read", 5: "a gate is inconclusive", 4: "the exit code is 4"}
    for code, why in whys.items():
        save_baseline(str(path), {"schema": "x"}, [one], code)
        assert not path.exists()
        assert capsys.readouterr().err == f"{path} was not written, because {why}\n"
    save_baseline(str(path), {"schema": "x"}, [one], 0)
    document = json.loads(path.read_text())
    (result,) = document["results"]
    assert document["schema"] == "x"
    assert result["metrics"] == {"ece": {"value": 0.04}, "ks": {"value": 0.1}}
    assert result["kept"] == {"cells": [1]}
    assert not {"bins", "increases"} & set(result)


def test_a_comparison_is_prepared_only_where_it_is_needed():
    from bpmcli.tasks.baseline import rows_to_keep
    from bpmcli.tasks.measure import Requested

    wanted = Requested(resamples=77, seed=3)
    base = {"results": []}
    rises = Limits(rises=ECE, confidence=0.95)
    assert with_baselines(wanted, rises, None, False, 0) == wanted
    assert with_baselines(wanted, Limits(rises=ECE), base, False, 0) == wanted
    against = with_baselines(wanted, rises, base, True, 0).against
    assert (against.names, against.single, against.resamples, against.seed) == (["ece"], True, 77, 3)
    assert against.level == pytest.approx(0.9)
    assert with_baselines(wanted, rises, None, False, 2).keep == rows_to_keep(2)


def test_a_baseline_that_is_missing_ends_the_run(run):
    found = run(
        "metrics", SAMPLE_DATA / "digits_good.npz", "--baseline", "nope.json", "--max-increase", "ece=0.1", code=3
    )
    assert found.err.startswith("bpmcli: error: nope.json: no such file")


KS = [Limit("ks", 0.1)]


def test_paths_have_limits_of_their_own():
    limits = Limits(above=ECE, below=ECE, paths=(("/in/*.npz", (KS, None, None, None)), ("/in/b*", (None, KS, KS, KS))))
    assert limits.at("/elsewhere/a.npz") == limits
    first, second = limits.at("/in/a.npz"), limits.at("/in/b.npz")
    assert (first.above, first.below, first.rises) == (KS, ECE, ())
    assert (second.above, second.below, second.rises) == (KS, KS, KS)  # both patterns match
    assert (first.least, second.least) == ((), KS)
    assert completed(limits, 0.0, None).names == ["ece", "ece", "ks", "ks", "ks", "ks"]
    assert completed(Limits(), 0.0, None).names == []


@pytest.mark.parametrize(
    ("own", "interval"), [((KS, None, None, None), 0.9), ((None, KS, None, None), 0.9), ((None, None, KS, None), 0.0)]
)
def test_limits_of_paths_need_intervals_too(own, interval):
    limits = Limits(paths=(("/in/*", own),))
    assert completed(limits, 0.0, 0.95).interval == pytest.approx(interval)
    assert completed(limits, 0.0, None).interval == pytest.approx(0.9 if own[1] else 0.0)
    assert completed(Limits(), 0.0, None).interval == 0.0
    assert completed(Limits(above=ECE), 0.0, 0.6).interval == pytest.approx(0.2)


def test_increases_of_all_paths_are_compared():
    from bpmcli.tasks.measure import Requested

    limits = Limits(paths=(("/in/*", (None, None, KS, None)),), rises=ECE, confidence=0.95, baseline="b.json")
    against = with_baselines(Requested(), limits, {"results": []}, True, 0).against
    assert against.names == ["ece", "ks"]
    assert against.path == "b.json"
