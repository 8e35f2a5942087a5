"""Options from bpmcli.toml, pyproject.toml and the environment."""

from __future__ import annotations

import json

import pytest
from conftest import SAMPLE_DATA

GOOD, OFF = SAMPLE_DATA / "digits_good.npz", SAMPLE_DATA / "digits_test.npz"


def columns(out: str) -> list[str]:
    return out.splitlines()[0].split(",")


def test_a_command_runs_without_arguments(run, tmp_path):
    (tmp_path / "bpmcli.toml").write_text(
        f'metric = ["ece", "ks"]\n[metrics]\nformat = "csv"\ninputs = ["{OFF}"]\nfail-above = {{ ece = 0.05 }}\n'
    )
    found = run("metrics", code=1)
    assert columns(found.out)[-2:] == ["ece", "ks"]
    assert "above the limit 0.05" in found.err


def test_options_win_over_the_environment_and_that_over_the_file(run, tmp_path, monkeypatch):
    (tmp_path / "bpmcli.toml").write_text('format = "csv"\n[metrics]\nmetric = "ks"\nn-bins = 3\n')
    assert columns(run("metrics", OFF).out)[-1] == "ks"
    monkeypatch.setenv("BPMCLI_METRIC", "smece")
    assert columns(run("metrics", OFF).out)[-1] == "smece"
    monkeypatch.setenv("BPMCLI_METRICS_METRIC", "ece ls-ece")
    assert columns(run("metrics", OFF).out)[-2:] == ["ece", "ls-ece"]
    assert columns(run("metrics", OFF, "-m", "tce-bpm").out)[-1] == "tce-bpm"
    monkeypatch.setenv("BPMCLI_CONFIG", "")
    assert not run("metrics", OFF).out.startswith("input,")


def test_pyproject_is_found_above_up_to_the_repository(run, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.bpmcli]\nmetric = "ks"\nformat = "csv"\n')
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert columns(run("metrics", OFF).out)[-1] == "ks"
    (tmp_path / "a" / ".git").mkdir()
    assert not run("metrics", OFF).out.startswith("input,")


def test_paths_are_relative_to_the_file(run, tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "x.npz").write_bytes(OFF.read_bytes())
    (tmp_path / "bpmcli.toml").write_text('[metrics]\ninputs = ["runs/*.npz"]\nmetric = ["ece"]\njunit = "j.xml"\n')
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    assert "../runs/x.npz" in run("metrics").out
    assert (tmp_path / "j.xml").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("metrc = 1", "did you mean metric?"),
        ("[metrics]\nfail-abov = 1", "did you mean fail-above?"),
        ("[metrcs]\nmetric = 1", "did you mean [metrics]?"),
        ("[fit]\nfail-above = 1", "unknown option 'fail-above' in the table fit"),
        ('inputs = ["a.npz"]', "inputs must be in the table of a command"),
        ("quiet = 1", "quiet must be true or false, got 1"),
        ("[metrics]\nn-bins = [1]", "n-bins must be text or a number, got [1]"),
        ("metric = [", "is not valid TOML"),
        ("metric = [" * 100_000, "is not valid TOML"),
    ],
)
def test_what_cannot_be_meant_is_refused(run, tmp_path, text, said):
    (tmp_path / "bpmcli.toml").write_text(text)
    found = run("metrics", GOOD, "-m", "ece", code=2)
    assert said in found.err
    assert not found.out


def test_a_value_is_checked_like_an_option(run, tmp_path):
    (tmp_path / "bpmcli.toml").write_text("[metrics]\nn-bins = -3\n")
    assert "--n-bins" in run("metrics", GOOD, "-m", "ece", code=2).err
    (tmp_path / "bpmcli.toml").write_text('[metrics]\nn-bins = "many"\n')
    assert "n-bins" in run("metrics", GOOD, "-m", "ece", code=2).err


def test_a_misspelt_variable_is_refused(run, monkeypatch):
    monkeypatch.setenv("BPMCLI_FAIL_ABOV", "ece=0")
    assert "did you mean fail-above?" in run("metrics", GOOD, "-m", "ece", code=2).err
    monkeypatch.delenv("BPMCLI_FAIL_ABOV")
    monkeypatch.setenv("BPMCLI_QUIET", "maybe")
    assert "must be 1 or 0" in run("metrics", GOOD, "-m", "ece", code=2).err


def test_a_file_that_is_named_must_be_there(run, monkeypatch):
    monkeypatch.setenv("BPMCLI_CONFIG", "nope.toml")
    assert "nope.toml" in run("metrics", GOOD, "-m", "ece", code=2).err


def test_subcommands_have_tables_of_their_own(run, tmp_path, monkeypatch):
    (tmp_path / "bpmcli.toml").write_text('[compare.metrics]\nmetric = "ks"\nformat = "csv"\n')
    out = run("compare", "metrics", GOOD, OFF).out
    assert "ks" in out
    assert "ece" not in out
    monkeypatch.setenv("BPMCLI_COMPARE_METRICS_METRIC", "smece")
    assert "smece" in run("compare", "metrics", GOOD, OFF).out


def test_config_shows_what_is_in_force_and_where_it_was_set(run, tmp_path, monkeypatch):
    assert "nothing is set" in run("config").err
    (tmp_path / "bpmcli.toml").write_text('metric = "ks"\n[metrics]\nquiet = true\nfail-above = { ks = 0.1 }\n')
    monkeypatch.setenv("BPMCLI_FAIL_ABOVE", "ks=0.2")
    document = json.loads(run("config", "-f", "json").out)
    assert document["file"].endswith("bpmcli.toml")
    shown = [(s["command"], s["option"], s["value"], s["from"]) for s in document["settings"]]
    assert shown == [
        (None, "metric", ["ks"], "bpmcli.toml"),
        ("metrics", "quiet", True, "bpmcli.toml"),
        (None, "fail-above", ["ks=0.2"], "BPMCLI_FAIL_ABOVE"),
    ]
    assert "all" in run("config").out


# ---------------------------------------------------------------- by path


@pytest.fixture
def by_path(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "a.npz").write_bytes((SAMPLE_DATA / "digits_good.npz").read_bytes())
    (tmp_path / "old" / "b.npz").write_bytes((SAMPLE_DATA / "digits_test.npz").read_bytes())
    text = (SAMPLE_DATA / "digits_even.csv").read_text().replace("prob,label", "p1,wahr", 1)
    (tmp_path / "old" / "c.csv").write_text(text)
    (tmp_path / "bpmcli.toml").write_text(
        '[metrics]\ninputs = ["."]\nmetric = ["ece"]\nfail-above = { ece = 0.03 }\n'
        '[paths."old/*"]\nfail-above = { ece = 0.2 }\n'
        '[paths."*.csv"]\nprobs = "p1"\nlabel = "wahr"\n'
    )


def test_columns_and_limits_differ_by_path(run, by_path):
    ran = run("metrics", "-f", "json")
    gates = {gate["input"]: gate["limit"] for gate in json.loads(ran.out)["gates"]}
    assert gates == {"a.npz": 0.03, "old/b.npz": 0.2, "old/c.csv": 0.2}
    assert "wahr" in run("metrics", "old/c.csv", "--explain-input").out
    run("fit", "old/c.csv", "-o", "p.json")
    run("apply", "p.json", "old/c.csv", "-o", "out.csv")


def test_the_command_line_and_the_environment_win_over_paths(run, by_path, monkeypatch):
    gates = json.loads(run("metrics", "--fail-above", "ece=0.5", "-f", "json").out)["gates"]
    assert {gate["limit"] for gate in gates} == {0.5}
    assert "no column 'other'" in run("metrics", "old/c.csv", "--label", "other", code=3).err
    monkeypatch.setenv("BPMCLI_FAIL_ABOVE", "ece=0.4")
    assert {gate["limit"] for gate in json.loads(run("metrics", "-f", "json").out)["gates"]} == {0.4}


def test_paths_alone_can_have_gates(run, by_path, tmp_path):
    (tmp_path / "bpmcli.toml").write_text('[paths."*.npz"]\npass-below = { tce = 0.03 }\n')
    ran = run("metrics", "a.npz", "old/b.npz", "-m", "ece", "-f", "json", code=1)
    assert [gate["outcome"] for gate in json.loads(ran.out)["gates"]] == ["pass", "fail"]
    (tmp_path / "bpmcli.toml").write_text('[paths."old/*"]\nfail-below = { accuracy = 0.99 }\n')
    ran = run("metrics", "a.npz", "old/b.npz", "-m", "ece", "-f", "json", code=1)
    assert [(gate["input"], gate["outcome"]) for gate in json.loads(ran.out)["gates"]] == [("old/b.npz", "fail")]


def test_paths_are_shown_and_checked(run, by_path, tmp_path):
    assert "paths old/*" in run("config").out
    for text, said in (
        ('[paths."x"]\nlabl = "y"\n', "unknown option 'labl' in the table paths.\"x\""),
        ('[paths."x"]\nlabl = "y"\n', "did you mean label?"),
        ('[paths."x"]\njobs = 2\n', "jobs cannot differ by path"),
        ("[paths]\njobs = 2\n", "a table per pattern"),
    ):
        (tmp_path / "bpmcli.toml").write_text(text)
        assert said in run("metrics", "a.npz", code=2).err


def test_a_working_directory_that_is_gone_has_no_file(run, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert columns(run("metrics", OFF, "-m", "ece", "-f", "csv").out)[-1] == "ece"
    assert "a.csv: no such file" in run("metrics", "a.csv", code=3).err
