"""Faults of the machine: each must end in a result or a sentence, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import ROOT, untraced


@pytest.mark.long
def test_faults():
    """All of them in one process, which imports the tool once; `python -m fuzz.faults NAME` runs one of them."""
    moments = os.environ.get("FUZZ_MOMENTS", "12")
    environment = {
        **untraced(),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        "FUZZ_MOMENTS": moments,
    }
    ran = subprocess.run([sys.executable, "-m", "fuzz.faults"], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
