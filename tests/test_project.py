"""The project's own promises: sample data, layers, a complete sdist, nothing of one machine in the repository."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, SAMPLE_DATA

PACKAGE = ROOT / "bpmcli"
LAYERS = ["core", "io", "tasks", "engines", "plots", "report", "cli"]
"""A layer imports only from those before it, and from itself."""
ROOMS = ["data", "summary", "curves", "metrics", "calibrators", "compare"]
"""The same inside core."""
SHARED = {"errors", "escape", "record", "__version__"}


def test_sample_data_is_small_and_documented():
    files = [p for p in SAMPLE_DATA.iterdir() if p.is_file() and p.name.startswith("digits_")]
    assert sum(p.stat().st_size for p in SAMPLE_DATA.rglob("*") if p.is_file()) < 1_000_000
    text = (SAMPLE_DATA / "README.md").read_text()
    for path in files:
        assert path.name in text or f"{path.stem}.*" in text, path.name


def tracked_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def test_the_sdist_holds_every_tracked_file(tmp_path):
    """So that its tests run after `tar xf`; `make sdist-check` runs them."""
    tracked = set(tracked_files())
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        packed = {member.name.partition("/")[2] for member in tar.getmembers()}
    assert tracked - packed == set()


def test_the_version_is_the_same_everywhere():
    from bpmcli import __version__

    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## {re.escape(__version__)}$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)


SOURCES = sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file, which no test changes."""
    return ast.parse(path.read_text(encoding="utf-8"))


def test_files_and_functions_stay_short():
    """At most 300 and 40 lines. Commands are longer by their options and the text of their help."""
    long = []
    for path in SOURCES:
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 300:
            long.append(f"{path.name}: {lines} lines")
        for function in ast.walk(parsed(path)):
            if not isinstance(function, ast.FunctionDef) or function.end_lineno is None:
                continue
            first = function
            if path.stem in (f"cmd_{function.name}", function.name.removeprefix("compare_")):
                first = function.body[1]
            if (lines := function.end_lineno - first.lineno + 1) > 40:
                long.append(f"{path.name}, {function.name}: {lines} lines")
    assert long == []


def test_what_the_benchmarks_import_exists():
    """The documentation names their commands, and nothing else runs them."""
    for path in (ROOT / "benchmarks").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bpmcli":
                module = importlib.import_module(node.module)
                for alias in node.names:
                    found = hasattr(module, alias.name) or importlib.util.find_spec(f"{node.module}.{alias.name}")
                    assert found, f"{path.name}: {node.module}.{alias.name}"


def imported_modules(path: Path) -> list[str]:
    """What a file imports from this package, at the top or inside functions, except for type checkers only."""
    names: list[str] = []
    rest: list[ast.AST] = [parsed(path)]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            rest += node.orelse
            continue
        rest += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return [name.removeprefix("bpmcli.") for name in names if name.startswith("bpmcli.")]


def test_layers_and_rooms_point_one_way():
    for path in SOURCES:
        where = path.relative_to(PACKAGE).parts
        for name in imported_modules(path) if where[0] in LAYERS else ():
            parts = name.split(".")
            if parts[0] in SHARED:
                continue
            assert LAYERS.index(parts[0]) <= LAYERS.index(where[0]), f"{where} imports {name}"
            if where[0] == parts[0] == "core":
                assert ROOMS.index(parts[1]) <= ROOMS.index(where[1]), f"{where} imports {name}"


def test_every_file_is_in_a_room():
    assert {p.name for p in PACKAGE.iterdir() if p.is_dir()} - {"__pycache__"} == set(LAYERS)
    assert {p.name for p in (PACKAGE / "core").iterdir()} - {"__pycache__", "__init__.py"} == set(ROOMS)


def test_core_neither_prints_nor_opens_files():
    for path in SOURCES:
        for node in ast.walk(parsed(path)) if PACKAGE / "core" in path.parents else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("print", "open"), path


def test_nothing_of_one_machine_is_committed():
    for name in tracked_files():
        path = ROOT / name
        if path.suffix in (".npz", ".parquet", ".png") or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"/work/|/tmp/venv|/root/|pypi\.org|files\.pythonhosted", text), name


def test_the_tests_remember_what_commands_compute(run, logits):
    """A function that has moved would be computed again for every test, and nothing but the time would show it."""
    import remembered

    np.savez("rows.npz", logits=logits[0][:60], labels=logits[1][:60])
    Path("few.csv").write_text("confidence,hit\n" + "0.9,1\n0.6,0\n" * 6)
    remembered.forget()
    run("metrics", "rows.npz", "--interval", 0.9, "--classwise")
    run("report", "rows.npz", "-o", "page.html")
    run("fit", "rows.npz", "--classwise", "--min-group", 5, "-o", "p.json")
    run("fit", "rows.npz", "-o", "p.json")
    run("fit", "few.csv", "--method", "auto", "-o", "p.json")
    assert {name for name, known in remembered.KNOWN.items() if not known} <= {"_chance"}  # only of noisy rows
    assert "held_out" in remembered.KNOWN  # the last


@pytest.mark.parametrize(("command", "most"), [("metrics", 12), ("fit", 14), ("apply", 11)])
def test_a_command_walks_through_the_rooms_once(command, most, tmp_path, monkeypatch):
    """A walk that keeps going back and forth between two rooms means that one idea lives in both."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.chdir(tmp_path)
    from walks import WALKS, switches, walk

    if command == "apply":
        walk(WALKS["fit"], ROOT / "bpmcli")
    assert switches(walk(WALKS[command], ROOT / "bpmcli")) <= most


def test_the_commands_that_reproduce_the_paper_are_understood(monkeypatch, tmp_path):
    """With few rows, one truth of the paper and no pictures, the script writes all of its tables."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import reproduce

    few = {"D1,D2,D3,D4,D5": "D1", "-n 10000": "-n 300", "500:5000:500": "300:300:1", "125:32000": "125:250"}
    studies = {name: study for name, (study, _) in reproduce.STUDIES.items()}
    for before, after in few.items():
        studies = {name: study.replace(before, after) for name, study in studies.items()}
    monkeypatch.setattr(reproduce, "STUDIES", {name: (study, False) for name, study in studies.items()})
    monkeypatch.setattr(reproduce, "REAL", {k: v.split(" --plot")[0] for k, v in reproduce.REAL.items()})
    monkeypatch.setattr(reproduce, "PAPER_EAD", {"D1": reproduce.PAPER_EAD["D1"]})
    monkeypatch.setattr(sys, "argv", ["reproduce.py", str(tmp_path / "paper"), "--runs", "2", "--jobs", "1"])
    reproduce.main()
    names = {path.stem for path in (tmp_path / "paper").glob("*.md")}
    assert names == {*reproduce.STUDIES, *reproduce.REAL, "paper"}
