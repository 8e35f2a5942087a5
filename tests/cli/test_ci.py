"""What CI systems see: JUnit files, annotations, step summaries, the composite action, results one by one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import PATIENCE, ROOT, SAMPLE_DATA

GOOD, OFF = SAMPLE_DATA / "digits_good.npz", SAMPLE_DATA / "digits_test.npz"


@pytest.fixture
def summary(tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return tmp_path / "summary.md"


def test_junit_has_a_case_per_gate_and_per_input_that_failed(run, tmp_path):
    run("metrics", GOOD, OFF, "nope.npz", "-m", "ece", "--fail-above", "ece=0.05", "--junit", "j.xml", code=3)
    suites = ElementTree.parse(tmp_path / "j.xml").getroot()
    (suite,) = suites
    assert suites.tag == "testsuites"
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "2", "1")
    passed, failed, not_computed, unread = suite
    assert (passed.get("name"), passed.get("classname"), len(passed)) == ("ece at most 0.05", str(GOOD), 0)
    assert [child.tag for child in failed] == ["failure"]
    assert "0.03951 above the limit 0.05" in str(failed[0].get("message"))
    assert "could not be measured" in str(not_computed[0].text)
    assert [child.tag for child in unread] == ["error"]
    assert "nope.npz: no such file" in str(unread[0].text)


def test_junit_of_a_run_without_gates_lists_what_was_measured(run, tmp_path):
    run("metrics", GOOD, "-m", "ece", "--junit", "j.xml")
    (case,) = ElementTree.parse(tmp_path / "j.xml").getroot()[0]
    assert (case.get("name"), case.get("classname"), len(case)) == ("measured", str(GOOD), 0)


def test_junit_of_inputs_that_all_failed_has_no_pass(run, tmp_path):
    run("metrics", "nope.npz", "-m", "ece", "--junit", "j.xml", code=3)
    (suite,) = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")


def test_names_cannot_break_the_xml(run, tmp_path):
    odd = tmp_path / "a<b>&\"'\x1b.csv"
    odd.write_bytes((SAMPLE_DATA / "digits_even.csv").read_bytes())
    run("metrics", odd, "-m", "ece", "--fail-above", "ece=0.01", "--junit", "j.xml", code=1)
    (case,) = ElementTree.parse(tmp_path / "j.xml").getroot()[0]
    assert str(case.get("classname")).endswith("a<b>&\"'\N{REPLACEMENT CHARACTER}.csv")


def test_actions_get_annotations_and_a_summary(run, summary):
    found = run("metrics", GOOD, OFF, "nope.npz", "-m", "ece", "--fail-above", "ece=0.05", "-f", "csv", code=3)
    assert "::" not in found.out
    commands = [line for line in found.err.splitlines() if line.startswith("::")]
    assert commands[0].startswith("::error title=Calibration gate failed::")
    assert len(commands) == 2
    assert commands[1] == "::error title=Input could not be read::nope.npz: no such file"
    text = summary.read_text()
    assert "### Calibration: 2 of 3 gates failed, 1 input could not be read" in text
    assert text.index("❌") < text.index("✅")
    assert re.search(r"\| .*digits_good.npz \| 1797 \| 0.96772 \|", text)


def test_every_gate_passed_is_said_and_summaries_add_up(run, summary):
    for _ in range(2):
        found = run("metrics", GOOD, "-m", "ece", "--fail-above", "ece=0.05")
        assert "::error" not in found.err
    assert summary.read_text().count("### Calibration: every gate passed") == 2


def test_an_error_that_ends_the_command_is_annotated(run, summary):
    found = run("apply", "nope.json", GOOD, code=3)
    assert "::error title=bpmcli::nope.json: " in found.err


def test_no_ci_turns_it_off(run, summary):
    found = run("metrics", OFF, "-m", "ece", "--fail-above", "ece=0.05", "--no-ci", code=1)
    assert "::" not in found.err
    assert "::" not in run("metrics", "nope.npz", "--baseline", "nope.json", "--no-ci", code=2).err
    assert not summary.exists()


def test_outside_of_actions_nothing_is_written(run, summary, monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert "::" not in run("metrics", OFF, "-m", "ece", "--fail-above", "ece=0.05", code=1).err
    assert not summary.exists()


def test_names_inject_neither_commands_nor_markup(run, summary, tmp_path):
    odd = tmp_path / "x\n::error::100%\n[a](b)<b>.csv"
    odd.write_bytes((SAMPLE_DATA / "digits_even.csv").read_bytes())
    found = run("metrics", odd, "-m", "ece", "--fail-above", "ece=0.01", code=1)
    command = found.err.split("::error title=Calibration gate failed::")[1].splitlines()[0]
    assert "x%0A::error::100%25%0A[a]" in command
    assert "\\[a\\](b)\\<b>" in summary.read_text()


def test_the_summary_stays_below_githubs_limit(run, summary):
    summary.write_text("x" * ((1 << 20) - 10))
    run("metrics", GOOD, "-m", "ece")
    assert summary.stat().st_size == (1 << 20) - 10


def test_more_errors_than_github_shows_are_counted(run, summary, tmp_path):
    names = [f"nope{i}.npz" for i in range(12)]
    found = run("metrics", *names, "-m", "ece", code=3)
    commands = [line for line in found.err.splitlines() if line.startswith("::error")]
    assert len(commands) == 10
    assert "3 further gates or inputs failed" in commands[-1]


def step(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The action's second step, with the environment that GitHub gives it."""
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        **{f"CALIBRATION_{name.upper()}": value for name, value in variables.items()},
    }
    (line,) = re.findall(r"^      run: (bash .*)$", (ROOT / "action.yml").read_text(), flags=re.MULTILINE)
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", line]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE)


def test_the_action_measures_and_fails(tmp_path):
    done = step(tmp_path, files=f"{GOOD}\n{OFF}\n", fail_above="ece=0.05\nks=0.5", junit="j.xml", args="-m ece -q")
    assert done.returncode == 1, done.stderr
    assert "::error title=Calibration gate failed::" in done.stderr
    assert "1 of 4 gates failed" in (tmp_path / "summary.md").read_text()
    assert len(ElementTree.parse(tmp_path / "j.xml").getroot()[0]) == 4


def test_the_action_passes_and_runs_nothing_from_its_inputs(tmp_path):
    (tmp_path / "a $(touch owned) b.npz").write_bytes(GOOD.read_bytes())
    done = step(tmp_path, files="a $(touch owned) b.npz", fail_above="ece=0.05")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "owned").exists()


def test_every_input_of_the_action_reaches_its_step():
    text = (ROOT / "action.yml").read_text()
    declared = re.findall(r"^  ([a-z-]+):\n    description:", text, flags=re.MULTILINE)
    script = (ROOT / ".ci" / "action").read_text()
    for name in declared:
        assert f"${{{{ inputs.{name} }}}}" in text, name
        if name != "package":
            assert f"CALIBRATION_{name.upper().replace('-', '_')}" in script, name


def test_json_lines_leave_one_by_one(run):
    found = run("metrics", GOOD, "nope.npz", OFF, "-m", "ece", "-f", "jsonl", code=3)
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert [line["input"] for line in lines] == [str(GOOD), str(OFF)]
    whole = json.loads(run("metrics", GOOD, OFF, "-m", "ece", "-f", "json").out)
    assert lines == whole["results"]


def test_a_line_leaves_before_the_next_input_is_measured(run, monkeypatch):
    from bpmcli.cli import each_result
    from bpmcli.tasks.measure import MeasureFile

    events = []
    measure, print_lines = MeasureFile.__call__, each_result.print_lines
    monkeypatch.setattr(MeasureFile, "__call__", lambda task, item: (events.append("measured"), measure(task, item))[1])
    monkeypatch.setattr(each_result, "print_lines", lambda records: (events.append("printed"), print_lines(records)))
    run("metrics", GOOD, OFF, "-m", "ece", "-f", "jsonl")
    assert events == ["measured", "printed", "measured", "printed"]


def test_each_result_is_also_a_file(run, tmp_path):
    run("metrics", GOOD, OFF, "-m", "ece", "--output-dir", "out", "-q")
    document = json.loads((tmp_path / "out" / "digits_good.metrics.json").read_text())
    assert document["results"][0]["n"] == 1797
    # What was written is a baseline.
    run("metrics", GOOD, "-m", "ece", "--baseline", "out/digits_good.metrics.json", "--max-increase", "ece=0")
    run("metrics", GOOD, OFF, "-m", "ece", "--output-dir", "out", "-f", "csv", "-q")
    assert (tmp_path / "out" / "digits_test.metrics.csv").read_text().startswith("input,")


def test_what_has_no_result_per_input_is_refused(run):
    assert "leave one of them out" in run("metrics", GOOD, OFF, "--pool", "--output-dir", "out", code=2).err
    assert "jsonl" in run("metrics", GOOD, "--bins-table", "-f", "jsonl", code=2).err
    assert "table, json, csv or markdown" in run("fit", GOOD, "-f", "jsonl", code=2).err


def test_the_summary_has_a_small_diagram(run, summary):
    run("metrics", OFF, "-m", "ece")
    text = summary.read_text()
    assert text.count("```text") == 1
    assert "accuracy against confidence: " in text
    assert "<details>" not in text
    run("metrics", OFF, GOOD, "-m", "ece")
    assert summary.read_text().count("<details><summary>") == 2


def test_names_in_folded_diagrams_are_escaped(run, summary, tmp_path):
    odd = tmp_path / "x<b>&.csv"
    odd.write_bytes((SAMPLE_DATA / "digits_even.csv").read_bytes())
    run("metrics", odd, OFF, "-m", "ece")
    assert "x&lt;b&gt;&amp;.csv</summary>" in summary.read_text()


def test_the_verdict_of_a_single_input_is_said_once(run, summary):
    run("metrics", OFF)
    assert summary.read_text().count("Over-confident: it says") == 1


TWO_LEVELS = "The table has 90 % intervals: each limit alone has a confidence of 95 %, and gates use one limit."


def test_the_two_intervals_are_told_apart(run, summary):
    """The verdict has a 95 % interval, and the table has that of the gate."""
    gate = ("--pass-below", "tce=0.5", "--resamples", 50)
    ran = run("metrics", OFF, *gate)
    assert TWO_LEVELS in ran.out
    assert "The verdict has a 95 % interval" in ran.out
    assert summary.read_text().count(TWO_LEVELS) == 1
    assert TWO_LEVELS in run("metrics", OFF, *gate, "-f", "markdown").out
    for more in (("--gate-confidence", 0.975), ("-m", "tce"), ("-q",), ("-f", "csv")):
        assert "each limit alone" not in run("metrics", OFF, *gate, *more).out
    assert "; 90 % intervals\n" in run("metrics", GOOD, OFF, "-m", "tce", *gate).out
    assert "intervals" not in run("metrics", GOOD, OFF, "-m", "tce", "--interval", "0.95").out
