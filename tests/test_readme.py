"""Every console block of the README and the docs is executed, and so are their Python, CI steps and Makefile."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from doc_blocks import PAGES, blocks, mismatches, new_folder, python, shell, steps

from bpmcli.cli.cmd_compare import KINDS
from bpmcli.core.metrics import METRICS

README = ROOT / "README.md"
DOCS = ROOT / "docs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_folder(tmp_path)


def each(pages: list[Path]) -> pytest.MarkDecorator:
    """A test of every page. Those of the README begin first, in one process, and share what they fit."""
    found = [pytest.param(page, id=page.name, marks=[pytest.mark.long] if page == README else []) for page in pages]
    return pytest.mark.parametrize("page", found)


@each(PAGES)
def test_console_blocks(page, folder):
    for step, found in mismatches(page, folder):
        message = f"$ {step.command}\n--- {page.name}\n{step.shown}\n--- found\n{found}"
        pytest.fail(f"{message}\n--- python tests/doc_blocks.py {page.relative_to(ROOT)} rewrites it")


def test_blocks_are_found():
    assert len(list(steps(README))) >= 6
    assert sum(len(list(steps(page))) for page in PAGES) >= 25


@each([page for page in PAGES if blocks(page, "python")])
def test_python_blocks(page, folder):
    for block in blocks(page, "python"):
        assert python(block, folder), block


def test_actions_step(folder):
    (block,) = (block for block in blocks(DOCS / "CI.md", "yaml") if "run: |" in block)
    lines = re.search(r"run: \|\n((?:    .*\n)+)", block)
    assert lines
    assert shell(lines[1], folder).returncode == 0
    stricter = lines[1].replace("ece=0.05", "ece=0.001")
    assert stricter != lines[1]
    assert shell(stricter, folder).returncode == 1


def test_dvc_stage(folder):
    (command,) = re.findall(r"^    cmd: (.*)$", (DOCS / "CI.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert shell(command, folder).returncode == 0
    assert json.loads((folder / "calibration.json").read_text())["schema"] == "bpmcli/metrics"
    assert shell(command.replace("tce=0.03", "tce=0"), folder).returncode == 1


def test_makefile_line(folder):
    (block,) = blocks(DOCS / "CI.md", "make")
    (folder / "Makefile").write_text(block)
    assert shell("make calibration", folder).returncode == 0
    stricter = block.replace("ece=0.05", "ece=0.0001")
    assert stricter != block
    (folder / "Makefile").write_text(stricter)
    assert shell("make calibration", folder).returncode == 2  # make's own code for a failed recipe


def test_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


def test_links_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "sample_data" / "README.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_what_a_summary_moves_is_said_alike_everywhere():
    from bpmcli.core.data.notices import CAPPED

    scale = (DOCS / "SCALE.md").read_text(encoding="utf-8")
    for text in (scale, CAPPED):
        assert re.search(r"60,000 rows.{0,60}tce-bpm.{0,20}by up to 1e-4|60,000 rows.{0,60}moves it by up to 1e-4", text.replace("\n", " ").replace("`", ""))  # fmt: skip
    assert set(re.findall(r"\((\S+) seen\)", scale)) == {"2e-4"}  # of ece-sweep


def test_the_keys_of_a_parameter_file_are_documented(folder):
    calls = ("fit sample_data/digits_val.npz --method bpm-averaged --interval 0.9", "fit sample_data/digits_val.npz --classwise")  # fmt: skip
    described = (DOCS / "JSON.md").read_text(encoding="utf-8")
    for call in calls:
        document = json.loads(shell(f"bpmcli {call} -q", folder).stdout)
        for name in {*document, *document["fit"], *document.get("band", ()), *document.get("grouping", ())}:
            assert re.search(rf"\b{name}\b", described), name


def keys_of(document: object) -> set[str]:
    """All keys of a JSON document, at any depth."""
    if isinstance(document, list):
        return {key for item in document for key in keys_of(item)}
    if isinstance(document, dict):
        return {key for name, item in document.items() for key in {name, *keys_of(item)}}
    return set()


JSON_CALLS = [
    "metrics sample_data/digits_test.npz sample_data/digits_good.npz --sort tce --noise-floor --noise-runs 9",
    "metrics sample_data/digits_test.npz -m ece --classwise --bins-table --interval 0.9 --fail-above ece=0.5",
    "compare metrics sample_data/digits_good.npz sample_data/digits_overconfident.npz --paired -m ece,ks",
    "compare calibrators sample_data/digits_val.npz --method bpm --method temperature -m ece --repeats 1",
    "compare metrics --truth D1 -n 100 --runs 2 -m ece",
    "compare curves --truth D1 -n 100 --runs 2 --method bpm",
    "compare samples --truth D1 -n 100 --runs 2 --method bpm",
    "simulate D1 -n 5 -o drawn.csv",
    "summarize sample_data/digits_test.npz -o cells.parquet",
    "config",
]


def test_every_comparison_is_among_the_calls():
    for kind in KINDS:
        assert any(call.startswith(f"compare {kind} ") for call in JSON_CALLS), kind


@pytest.mark.parametrize("call", JSON_CALLS)
def test_every_key_of_a_json_document_is_documented(folder, call):
    described = (DOCS / "JSON.md").read_text(encoding="utf-8")
    document = json.loads(shell(f"bpmcli {call} -q -f json", folder).stdout)
    document.pop("options", None)
    keys = keys_of(document) - set(METRICS)
    assert len(keys) > 4
    assert sorted(key for key in keys if f"`{key}`" not in described) == []


def test_make_lists_its_targets():
    done = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True)
    for target in ("demo", "test", "lint", "types", "bench", "clean"):
        assert re.search(rf"^{target}\b", done.stdout, flags=re.MULTILINE), done.stdout
