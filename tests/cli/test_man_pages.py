"""Manual pages are made from the help."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from bpmcli.cli.man_pages import main
from bpmcli.cli.program import COMMANDS


def test_every_command_and_option_has_its_page(tmp_path):
    main(str(tmp_path))
    found = {path.name for path in tmp_path.iterdir()}
    assert found >= {"bpmcli.1", "bpmcli-compare-metrics.1", *(f"bpmcli-{name}.1" for name in COMMANDS)}
    text = (tmp_path / "bpmcli-metrics.1").read_text()
    assert "\\-\\-fail\\-above METRIC=X" in text
    assert "bpmcli metrics test.npz" in text


def test_mandoc_has_nothing_to_say(tmp_path):
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    main(str(tmp_path))
    command = ["mandoc", "-T", "lint", "-W", "warning", *map(str, tmp_path.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    # The same help makes the same bytes, so no page has a date.
    assert not [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]
