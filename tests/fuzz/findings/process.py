"""The tool as a process of its own, with limits, signals and streams as a test wants them."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import forked
from conftest import untraced

MEMORY = 4 << 30
"""No command may take more, in bytes."""


def environment(**more: str) -> dict[str, str]:
    return {**untraced(), "PYTHONPATH": forked.PACKAGE, **more}


def command(*argv: object) -> list[str]:
    return [sys.executable, "-m", "bpmcli", *map(str, argv)]


def tool(*argv: object, cwd: Path, limits: dict[int, int] | None = None, **more: Any) -> forked.Done:
    """Runs the command to its end with at most 4 GB of memory; a timeout is a failure."""
    return forked.run(*argv, cwd=cwd, limits={resource.RLIMIT_AS: MEMORY, **(limits or {})}, **more)
