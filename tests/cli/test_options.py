"""Options: each declared once, each under a heading of --help, the same limits in every command."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import typer
from conftest import ROOT, SAMPLE_DATA

from bpmcli.cli import app
from bpmcli.cli import program as cli_program
from bpmcli.cli.cmd_compare import KINDS
from bpmcli.cli.options.command import GroupedCommand

CLI = ROOT / "bpmcli" / "cli"
TEST = SAMPLE_DATA / "digits_test.npz"
COMMANDS = [
    *((name,) for name in cli_program.COMMANDS if name not in ("compare", *cli_program.UNCONFIGURED)),
    *(("compare", kind) for kind in KINDS),
]


def command_of(names: tuple[str, ...]) -> GroupedCommand:
    found = typer.main.get_command(app)
    for name in names:
        found = found.get_command(None, name)
    return found


def declared_flags(path: Path) -> list[str]:
    """Every spelling of every option that a file declares with typer.Option."""
    flags = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.AnnAssign):
            continue
        for call in ast.walk(node.annotation):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "typer.Option":
                given = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                flags += given or ["--" + ast.unparse(node.target).replace("_", "-")]
    return flags


def test_no_option_is_declared_twice():
    flags = Counter(flag for path in CLI.rglob("*.py") for flag in declared_flags(path))
    assert {"--n-bins", "-j", "--logits", "--seed"} <= set(flags)  # the search finds both ways of declaring one
    assert [flag for flag, count in flags.items() if count > 1] == []


def test_options_are_declared_in_their_folder_only():
    elsewhere = [path for path in CLI.rglob("*.py") if path.parent.name != "options"]
    assert [path.name for path in elsewhere if "typer.Option" in path.read_text()] == ["program.py"]  # --version


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_help_shows_every_option_under_a_heading(run, names):
    command = command_of(names)
    assert isinstance(command, GroupedCommand)
    help_ = run(*names, "--help").out
    headings = [line for line in help_.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings[0] == "Examples:"
    assert headings[-1] == "Other:"
    assert help_.index("Examples:") < help_.index("Usage: bpmcli")
    options = help_.partition(headings[1])[2]
    with command.make_context("x", [], resilient_parsing=True) as context:
        for parameter in command.get_params(context):
            heading = getattr(parameter, "rich_help_panel", None)
            assert parameter.param_type_name == "argument" or heading or parameter.name == "help", parameter.name
            assert parameter.opts[0] in options or parameter.param_type_name == "argument", parameter.opts
    headings_of = [p.rich_help_panel for p in command.params if p.param_type_name == "option"]
    assert headings_of == sorted(headings_of, key=headings_of.index), "options of one heading stand together"


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_help_fits_80_columns(run, names, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(*names, "--help").out.splitlines()
    assert [line for line in lines if len(line) > 80] == []


def test_help_needs_no_rich():
    code = (
        "import sys; from bpmcli.cli import main; main(['metrics', '--help']);"
        "print(sorted({'rich', 'numpy', 'scipy', 'pandas', 'pyarrow'} & {m.partition('.')[0] for m in sys.modules}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def arguments(names: tuple[str, ...]) -> list[str]:
    """A command line that would work."""
    return {
        "metrics": ["metrics", TEST],
        "fit": ["fit", TEST, "-o", "p.json"],
        "apply": ["apply", "p.json", TEST, "-o", "o.npz"],
        "summarize": ["summarize", TEST, "-o", "cells.parquet"],
        "simulate": ["simulate", "D1", "-o", "d1.npz"],
        "report": ["report", TEST, "-o", "r.html"],
        "compare metrics": ["compare", "metrics", "--truth", "D1"],
        "compare calibrators": ["compare", "calibrators", TEST],
        "compare curves": ["compare", "curves", "--truth", "D1"],
        "compare samples": ["compare", "samples", "--truth", "D1"],
    }[" ".join(names)]


LIMITS = [
    ("-j", "-1", "-j must be between 0 and 1024, got -1"),
    ("--n-bins", "0", "--n-bins must be between 1 and 100000, got 0"),
    ("--n-bins", "999999999", "--n-bins must be between 1 and 100000, got 999999999"),
    ("--seed", "-1", "--seed must be 0 or more, got -1"),
    ("--runs", "1000000000", "--runs must be between 1 and 100000"),
    ("--noise-runs", "1000000000", "--noise-runs must be between 1 and 100000"),
    ("--repeats", "1000000000", "--repeats must be between 1 and 1000"),
    ("--folds", "1000000000", "--folds must be between 2 and 1000"),
    ("--resamples", "1000000000", "--resamples must be between 20 and 1000000"),
    ("--rows", "1000000000000", "10000000"),
    ("--rows", "10:1000000000000:1", "1"),
    ("--schemes", "999999999", "--schemes must be a whole number between 1 and 100000"),
    ("--p", "nan", "--p must be between 1 and 50, got nan"),
    ("--format", "xml", "--format must be table, json, csv"),
    ("--by", "", "--by has an empty value"),
    ("--baseline", "", "--baseline has an empty value"),
    ("--output", "", "-o has an empty value"),
    ("--output-dir", "", "--output-dir has an empty value"),
    ("--metric", "", "-m has an empty value"),
]


@pytest.mark.parametrize(("option", "value", "message"), LIMITS, ids=lambda v: str(v)[:30])
def test_every_command_refuses_the_same_values(run, option, value, message):
    tried = 0
    for names in COMMANDS:
        command = command_of(names)
        if any(option in parameter.opts for parameter in command.params):
            ran = run(*arguments(names), option, value, code=2)
            assert message in ran.err, (names, ran)
            tried += 1
    assert tried


def test_empty_arguments_are_refused(run):
    for names in (["metrics", TEST, ""], ["apply", "", TEST], ["simulate", ""]):
        assert "an argument is empty" in run(*names, code=2).err
    assert run("metrics", TEST, "-m", "ece", "--title", "").code == 0


@pytest.mark.parametrize("sizes", ["10:1000000000000:1", "1:1000000000000:x1.0000001", "1:3000", "1000000000001"])
def test_sizes_have_a_limit(run, sizes):
    ran = run("compare", "metrics", "--truth", "D1", "-n", sizes, code=2)
    assert "at most 1000 sizes, each of at most 10000000 rows" in ran.err


@pytest.mark.parametrize("names", [names for names in COMMANDS if names[0] == "compare"], ids=" ".join)
def test_comparisons_refuse_an_output_that_cannot_be_written_before_they_begin(run, names):
    ran = run(*arguments(names), "-o", "table.docx", code=2)
    assert "table.docx: cannot write '.docx' files" in ran.err
    assert ran.out == ""


def test_fit_takes_one_method(run):
    assert "fit takes one --method" in run("fit", TEST, "--method", "bpm", "--method", "platt", code=2).err


def test_a_baseline_without_the_metric_is_saved_again_as_the_hint_says(run, tmp_path):
    (tmp_path / "base.json").write_text(run("metrics", TEST, "-m", "ece", "-f", "json").out)
    ran = run("metrics", TEST, "--baseline", "base.json", "--max-increase", "tce=0.1", code=3)
    (command,) = re.findall("save it again, with the options of this run: bpmcli (.*)$", ran.err, flags=re.MULTILINE)
    run(*shlex.split(command))
    run("metrics", TEST, "--baseline", "base.json", "--max-increase", "tce=0.1")


def test_a_baseline_value_beyond_floating_point_is_refused(run, tmp_path):
    saved = run("metrics", TEST, "-m", "ece", "-f", "json").out
    start = saved.index('"value": ') + len('"value": ')
    end = saved.index("\n", start)
    (tmp_path / "base.json").write_text(saved[:start] + "1" + "0" * 400 + saved[end:])
    ran = run("metrics", TEST, "--baseline", "base.json", "--max-increase", "ece=0.1", code=3)
    assert "base.json" in ran.err or "baseline" in ran.err
