"""The project's own promises: sample data, layers, nothing of one machine in the repository."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, SAMPLE_DATA

PACKAGE = ROOT / "bpmcli"
LAYERS = {"core": {"core"}, "io": {"core", "io"}, "engines": {"core", "io", "engines"}}


def test_sample_data_is_small_and_documented():
    files = [p for p in SAMPLE_DATA.iterdir() if p.is_file() and p.name.startswith("digits_")]
    assert sum(p.stat().st_size for p in SAMPLE_DATA.rglob("*") if p.is_file()) < 1_000_000
    text = (SAMPLE_DATA / "README.md").read_text()
    for path in files:
        assert path.name in text or f"{path.stem}.*" in text, path.name


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_layers_point_one_way(path):
    layer = path.relative_to(PACKAGE).parts[0]
    if layer not in LAYERS:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "bpmcli" and len(parts) > 1 and (PACKAGE / parts[1]).is_dir():
                assert parts[1] in LAYERS[layer], f"{path.name} imports {name}"


def test_core_neither_prints_nor_opens_files():
    for path in (PACKAGE / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("print", "open"), path


def test_nothing_of_one_machine_is_committed():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.split():
        path = ROOT / name
        if path.suffix in (".npz", ".parquet", ".png") or not path.exists() or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"/work/|/tmp/venv|/root/|pypi\.org|files\.pythonhosted", text), name
