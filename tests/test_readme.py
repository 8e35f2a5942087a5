"""Every console block of the README is executed, and so are its CI recipes and its Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SAMPLE_DATA

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for all blocks: later ones use files of earlier ones."""
    path = tmp_path_factory.mktemp("readme")
    (path / "sample_data").symlink_to(SAMPLE_DATA)
    return path


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def matches(shown: str, found: str) -> bool:
    """… in the README stands for any text, a line of it alone for any lines."""
    pattern = re.escape(shown.strip()).replace("…", ".*")
    return re.fullmatch(pattern, found.strip(), flags=re.DOTALL) is not None


def test_console_blocks(folder):
    ran = 0
    for block in blocks("console"):
        status = 0
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            if command == "echo $?":
                assert int(shown) == status
                continue
            done = shell(command, folder)
            status = done.returncode
            assert matches(shown, done.stdout), f"$ {command}\n--- README\n{shown}\n--- found\n{done.stdout}"
            ran += 1
    assert ran >= 10


def test_actions_step(folder):
    (block,) = blocks("yaml")
    lines = re.search(r"run: \|\n((?:    .*\n)+)", block)
    assert lines
    assert shell(lines[1], folder).returncode == 0
    stricter = lines[1].replace("ece=0.05", "ece=0.001")
    assert shell(stricter, folder).returncode == 1


def test_makefile_line(folder):
    (block,) = blocks("make")
    (folder / "Makefile").write_text(block)
    assert shell("make calibration", folder).returncode == 0
    (folder / "Makefile").write_text(block.replace("tce-bpm=0.03", "tce-bpm=0.0001"))
    assert shell("make calibration", folder).returncode == 2  # make's own code for a failed recipe


def test_python_block(folder):
    (block,) = blocks("python")
    assert len(block.strip().splitlines()) <= 6
    done = shell(f"{sys.executable} - <<'X'\n{block}\nX", folder)
    assert done.returncode == 0, done.stdout
    assert "tce-bpm" in done.stdout


def test_readme_names_every_command_metric_method_and_exit_code():
    from bpmcli.cli import COMMANDS
    from bpmcli.core.metrics import METRICS

    for name in COMMANDS:
        assert f"bpmcli {name}" in README, name
    for name in METRICS:
        assert f"`{name}`" in README, name
    from bpmcli.core.calibrators import METHODS

    for name in METHODS:
        assert f"`{name}`" in README, name
    for code in (0, 1, 2, 3, 4, 70, 130, 143):
        assert f"| {code} |" in README


def test_what_a_summary_moves_is_said_alike_everywhere():
    from bpmcli.core.data.notices import CAPPED

    scale = (ROOT / "docs" / "SCALE.md").read_text(encoding="utf-8")
    for text in (README, scale, CAPPED):
        assert re.search(r"60,000 rows.{0,60}tce-bpm.{0,20}by up to 1e-4|60,000 rows.{0,60}moves it by up to 1e-4", text.replace("\n", " ").replace("`", ""))  # fmt: skip
    for text in (README, scale):
        assert re.findall(r"\((\S+) seen\)", text) == ["2e-4"]  # of ece-sweep


def test_readme_names_the_keys_of_a_parameter_file(folder):
    import json

    steps = ("fit sample_data/digits_val.npz --method bpm-averaged --interval 0.9", "fit sample_data/digits_val.npz --classwise")  # fmt: skip
    described = README.partition("## JSON")[2].partition("\n## ")[0]
    for step in steps:
        document = json.loads(shell(f"bpmcli {step} -q", folder).stdout)
        for name in {*document, *document["fit"], *document.get("band", ()), *document.get("grouping", ())}:
            assert re.search(rf"\b{name}\b", described), name


def test_make_lists_its_targets():
    done = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True)
    for target in ("demo", "test", "lint", "types", "bench", "clean"):
        assert re.search(rf"^{target}\b", done.stdout, flags=re.MULTILINE), done.stdout
