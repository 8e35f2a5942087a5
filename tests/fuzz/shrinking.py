"""The smallest command line that still shows a finding."""

from __future__ import annotations

import copy

from fuzz.case import Case
from fuzz.pool import run_pool


def signatures(case: Case) -> set[str]:
    """What a case shows; it runs in a process of its own, since it may end it."""
    return {f"{f.kind}" for report in run_pool(lambda _: case, [0], 1) for f in report.findings}


def shrunk(case: Case) -> Case:
    """Arguments and files left out one after the other, as long as a finding of the same kind stays."""
    wanted = signatures(case)
    if not wanted:
        return case
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(case):
            if wanted & signatures(smaller):
                case, changed = smaller, True
                break
    return case


def _smaller(case: Case) -> list[Case]:
    out = []
    for s, step in enumerate(case.steps):
        if len(case.steps) > 1:
            less = copy.deepcopy(case)
            del less.steps[s]
            out.append(less)
        for width in (2, 1):
            for i in range(1, len(step.argv) - width + 1):
                less = copy.deepcopy(case)
                del less.steps[s].argv[i : i + width]
                out.append(less)
    for name in case.files:
        less = copy.deepcopy(case)
        del less.files[name]
        out.append(less)
    return out
