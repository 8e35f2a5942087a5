"""Faults of the machine: each must end in a result or a sentence, and leave nothing behind."""

from __future__ import annotations

import os

import forked
import pytest
from conftest import untraced


@pytest.mark.long
def test_faults():
    """All of them in one process, which imports the tool once; `python -m fuzz.faults NAME` runs one of them."""
    moments = os.environ.get("FUZZ_MOMENTS", "12")
    ran = forked.run(module="fuzz.faults", environment={**untraced(), "FUZZ_MOMENTS": moments}, seconds=1800)
    assert ran.code == 0, ran.out.decode() + ran.err
