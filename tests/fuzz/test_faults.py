"""Faults of the machine: each must end in a result or a sentence, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import ROOT
from fuzz.faults import FAULTS


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    ran = subprocess.run([sys.executable, "-m", "fuzz.faults", name], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
