"""Completion scripts, asked by real shells; those that are not installed are skipped."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from conftest import PATIENCE, ROOT, SAMPLE_DATA

from bpmcli.column_names import column_names, main


@pytest.fixture
def script(run, tmp_path):
    def write(shell):
        path = tmp_path / f"completion.{shell}"
        path.write_text(run("completion", shell).out)
        return path

    return write


def asked(program: list[str], text: str, folder) -> list[str]:
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not installed")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(folder), "TERM": "dumb"}
    done = subprocess.run([*program, text], cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


def bash(script, folder, *words: str) -> list[str]:
    line = " ".join(f"'{word}'" for word in words)
    text = f'source {script}; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _bpmcli; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return asked(["bash", "-c"], text, folder)


CASES = [
    (["bpmcli", "me"], ["metrics"]),
    (["bpmcli", "compare", "cal"], ["calibrators"]),
    (["bpmcli", "metrics", "--fail-a"], ["--fail-above"]),
    (["bpmcli", "metrics", "--format", "j"], ["json", "jsonl"]),
    (["bpmcli", "fit", "--format", "j"], ["json"]),
    (["bpmcli", "fit", "--method", "temp"], ["temperature"]),
    (["bpmcli", "fit", "--method", "au"], ["auto"]),
    (["bpmcli", "completion", "z"], ["zsh"]),
    (["bpmcli", "simulate", "D1"], ["D1"]),
    (["bpmcli", "metrics", "semicolons.csv", "--label", "y"], ["y_true"]),
    (["bpmcli", "metrics", "-m", "tce-"], ["tce-bpm"]),
    (["bpmcli", "metrics", "--max-increase", "sm"], ["smece="]),
    (["bpmcli", "metrics", "--inconclusive", "p"], ["pass"]),
    (["bpmcli", "fit", "--lm-score", "acc_"], ["acc_norm"]),
    (["bpmcli", "metrics", "a data.csv", "--label", "y"], ["y_true"]),
    (["bpmcli", "metrics", "--n-bins", ""], ["15"]),
    (["bpmcli", "metrics", "--p", ""], ["1"]),
    (["bpmcli", "fit", "--seed", ""], ["0"]),
    (["bpmcli", "metrics", "--theme", "d"], ["dark"]),
    (["bpmcli", "metrics", "--input-format", "lm"], ["lm-eval"]),
]
NOTHING = [["bpmcli", "metrics", option, ""] for option in ("--bins", "--interval", "--size", "--title", "--unknown")]
"""Numbers and free text without a default: files, which are not meant here, are not offered either."""


@pytest.mark.parametrize(("words", "offered"), CASES, ids=" ".join)
def test_bash(script, tmp_path, words, offered):
    (tmp_path / "a data.csv").write_text("confidence,y_true\n0.9,1\n")
    (tmp_path / "semicolons.csv").write_text("confidence;y_true\n0,9;1\n")
    assert bash(script("bash"), tmp_path, *words) == offered


@pytest.mark.parametrize("words", NOTHING, ids=" ".join)
def test_bash_offers_no_files_for_numbers_and_text(script, tmp_path, words):
    (tmp_path / "a.csv").write_text("confidence,hit\n")
    assert bash(script("bash"), tmp_path, *words) == [""]


def test_bash_runs_and_expands_nothing_in_the_name_of_a_column(script, tmp_path):
    """compgen -W would: a file from elsewhere could run any command. What is offered is quoted, as the line is run."""
    names = ["$(touch ran)", "`touch ran`", "*", "a b", "it's", "x;touch ran", "ok"]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n")
    offered = bash(script("bash"), tmp_path, "bpmcli", "metrics", "a.csv", "--by", "")
    back = asked(["bash", "-c"], "printf '%s\\n' " + " ".join(offered), tmp_path)
    assert back == names
    assert bash(script("bash"), tmp_path, "bpmcli", "metrics", "a.csv", "--by", "a") == ["a\\ b"]
    assert bash(script("bash"), tmp_path, "bpmcli", "metrics", "a.csv", "--by", "a\\ ") == ["a\\ b"]
    assert not (tmp_path / "ran").exists()


def test_bash_offers_files_whose_names_are_patterns(script, tmp_path):
    for name in ("x*", "x1", "x2"):
        (tmp_path / name).touch()
    assert sorted(bash(script("bash"), tmp_path, "bpmcli", "metrics", "x*")) == ["x*"]


def test_bash_offers_files(script, tmp_path):
    (tmp_path / "a data.csv").write_text("confidence,y_true\n0.9,1\n")
    (tmp_path / "semicolons.csv").write_text("confidence;y_true\n0,9;1\n")
    assert bash(script("bash"), tmp_path, "bpmcli", "metrics", "a ") == ["a data.csv"]
    assert "@files" not in bash(script("bash"), tmp_path, "bpmcli", "metrics", "")
    assert bash(script("bash"), tmp_path, "bpmcli", "metrics", "-m", "ece", "a ") == ["a data.csv"]


@pytest.mark.parametrize(("words", "offered"), CASES, ids=" ".join)
def test_fish(script, tmp_path, words, offered):
    (tmp_path / "a data.csv").write_text("confidence,y_true\n0.9,1\n")
    (tmp_path / "semicolons.csv").write_text("confidence;y_true\n0,9;1\n")
    line = " ".join(word.replace(" ", "\\ ") for word in words)
    found = asked(["fish", "-N", "-c"], f"source {script('fish')}; complete -C '{line}'", tmp_path)
    assert [each.split("\t")[0] for each in found] == offered


@pytest.mark.parametrize("words", NOTHING, ids=" ".join)
def test_fish_offers_no_files_for_numbers_and_text(script, tmp_path, words):
    (tmp_path / "a.csv").write_text("confidence,hit\n")
    assert asked(["fish", "-N", "-c"], f"source {script('fish')}; complete -C '{' '.join(words)}'", tmp_path) == []


@pytest.mark.parametrize("words", NOTHING, ids=" ".join)
def test_zsh_offers_no_files_for_numbers_and_text(script, tmp_path, words):
    (tmp_path / "a.csv").write_text("confidence,hit\n")
    line = " ".join(f"'{word}'" for word in words)
    text = (
        f"compdef() {{ : }}; source {script('zsh')}; compadd() {{ print -l -- offered $@ }}; _files() {{ print files }}; "
        f"words=({line}); CURRENT={len(words)}; _bpmcli"
    )
    assert asked(["zsh", "-f", "-c"], text, tmp_path) == []


def test_zsh_finds_the_script_in_fpath_and_completes(script, tmp_path):
    (tmp_path / "functions").mkdir()
    script("zsh").rename(tmp_path / "functions" / "_bpmcli")
    start = f"fpath=({tmp_path}/functions $fpath); autoload -Uz compinit; compinit -u -d {tmp_path}/dump; "
    text = (
        start
        + "compadd() { shift; print -l -- $@ }; words=(bpmcli fit --method te); CURRENT=4; print ${_comps[bpmcli]}; _bpmcli"
    )
    found = asked(["zsh", "-f", "-c"], text, tmp_path)
    assert found[0] == "_bpmcli"
    assert {"temperature", "auto"} <= set(found)


def test_zsh_reads_the_script(script, tmp_path):
    text = f"compdef() {{ : }}; source {script('zsh')}; _bpmcli_values compare x | head -1; _bpmcli_path metrics a; whence -w _bpmcli"
    assert asked(["zsh", "-f", "-c"], text, tmp_path) == ["metrics", "metrics_bpmcli: function"]


def test_columns_of_every_format():
    for suffix in ("csv", "parquet"):
        names = column_names(str(SAMPLE_DATA / f"digits_overconfident.{suffix}"))
        assert set(names) == {"label", *(f"logit_{k}" for k in range(10))}
    assert set(column_names(str(SAMPLE_DATA / "digits_good.npz"))) == {"logits", "labels"}
    assert set(column_names(str(SAMPLE_DATA / "digits_overconfident.jsonl"))) == {"logits", "label"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('\n"a, b";s;t\n1;0,5;1\n', ["a, b", "s", "t"]),
        ("a;b,c\n1,2\n", ["a;b", "c"]),
        ("0.5,0.25\n0.1,0.2\n", ["0", "1"]),
        ("0,5;0,25\n", ["0", "1"]),
    ],
)
def test_columns_of_csv_are_those_of_the_reader(tmp_path, text, names):
    from bpmcli.io.formats.csv_file import CsvReader

    path = tmp_path / "a.csv"
    path.write_text(text)
    assert column_names(str(path)) == names == list(CsvReader(str(path)).columns)


def test_columns_never_disturb_the_prompt(tmp_path, capsys):
    for name in ("broken.npz", "broken.parquet", "broken.jsonl", "broken.csv.gz", "x.bin"):
        (tmp_path / name).write_bytes(b"\xff\x00nonsense")
    (tmp_path / "odd.csv").write_text('good,"b\x1b[31mad"\n')
    main([*map(str, tmp_path.iterdir()), "nope.csv"])
    assert capsys.readouterr().out == "good\n"


def test_columns_of_nested_tables(tmp_path):
    pa, pq, feather = (pytest.importorskip(f"pyarrow{name}") for name in ("", ".parquet", ".feather"))
    struct = [{"u": 1, "v": {"w": [2]}}] * 2
    columns = {"a": [1, 2], "ü b": ["x", "y"], "probs": [[0.1, 0.9], [0.2, 0.8]], "s": struct, "last": [None, 1.5]}
    table = pa.table({**columns, **{f"c{i}": [1.0, 2.0] for i in range(40)}})
    pq.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, tmp_path / "t.feather")
    for name in ("t.parquet", "t.feather"):
        assert column_names(str(tmp_path / name)) == table.column_names
        whole = (tmp_path / name).read_bytes()
        for cut in (1, 9, 100, len(whole) // 2):
            (tmp_path / name).write_bytes(whole[:-cut] + whole[-8:])
            main([str(tmp_path / name)])  # prints what it can and never fails


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_columns_import_next_to_nothing(suffix):
    path = SAMPLE_DATA / f"digits_overconfident.{suffix}"
    code = f"import sys; from bpmcli.column_names import main; main(['{path}']); print({{'numpy', 'typer', 'pyarrow'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.endswith("set()\n")


def test_another_shell_is_refused(run):
    assert "bash, zsh, fish" in run("completion", "tcsh", code=2).err
