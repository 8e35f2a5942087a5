"""Every hint that names an option, a command or code: followed to the letter, it works.

To add a hint, add a row to `inputs.py`, `options.py` or `files.py`, or say in `unfollowed.py` why no test can follow it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from conftest import Ran, untraced
from hints import files, inputs, options
from hints.case import Case, everyday
from hints.sources import ANY, INSTRUCTION, Hint, collected
from hints.unfollowed import HANDED_ON, UNFOLLOWED

CASES = [*inputs.CASES, *options.CASES, *files.CASES]
DONE = (0, 1, 5)
"""Exit codes of commands that worked, whether their gates passed, failed or were inconclusive."""
NAMED = re.compile(r"(?<![\w-])--?[a-z][a-z-]*|bpmcli [a-z]+")


def in_shell(line: str) -> Ran:
    """Runs a line in a shell that finds the program and Python as they are tested here."""
    for tool in {"jq", "iconv"} & {*line.split()}:
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    env = {**untraced(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def perform(run, monkeypatch, command: str, code: int | None = 0):
    """Runs commands that are joined by &&: those of bpmcli, and code of Python, in this process, the others in a shell."""
    ran = None
    *first, last = command.split(" && ")
    for part in first:
        ran = perform(run, monkeypatch, part)
    if "|" in last:
        return in_shell(last)
    words = shlex.split(last)
    with monkeypatch.context() as context:
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            context.setenv(*words.pop(0).split("=", 1))
        if words[:2] == ["python", "-c"] and len(words) == 3:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # as Python does by itself
                exec(compile(words[2], "python -c", "exec"), {"__name__": "__main__"})
            return ran
        if words and words[0] != "bpmcli":
            assert in_shell(last).code == 0
            return ran
        target = words.pop() if words[-2:-1] == [">"] else None
        words = [word for word in words[1:] if word != ">"]
        if words[:1] == ["metrics"] and not {"-m", "--metric", "--sort", "--list", "--help", "--no-diagram"} & {*words}:
            words += ["-m", "ece"]
        ran = run(*words, code=code)
    if target is not None:
        Path(target).write_text(ran.out, encoding="utf-8")
    return ran


def hints_of(err: str) -> list[str]:
    return re.findall(r"^  hint: (.*)$", err, re.MULTILINE)


def said(case: Case, err: str) -> str | None:
    """The hint of a row, if a command printed it."""
    wanted = re.compile(re.escape(case.hint).replace("…", ".*"))
    return next((hint for hint in hints_of(err) if wanted.fullmatch(hint)), None)


def command_in(hint: str) -> str:
    """The command at the end of a hint such as `convert it: python -c …`."""
    return hint.partition(": ")[2].partition("; or ")[0]


def test_every_hint_has_a_row():
    """Counted by text: where several places have the same hint, there are as many rows with it."""
    places: dict[str, list[str]] = {}
    for hint in collected():
        if INSTRUCTION.search(hint.text):
            places.setdefault(hint.text, []).append(hint.where)
    lacking = {}
    for text, where in places.items():
        rows = sum(Hint("", text).matches(case.hint) for case in CASES)
        excused = UNFOLLOWED.get(text.replace(ANY, "…"), (0, ""))[0]
        if rows + excused < len(where) or (excused and rows + excused > len(where)):
            lacking[text.replace(ANY, "…")] = (
                f"{len(where)} places ({', '.join(where)}), {rows} rows, {excused} excused"
            )
    assert not lacking
    assert not {*UNFOLLOWED} - {text.replace(ANY, "…") for text in places}
    assert {hint.where.partition(":")[0] for hint in collected() if hint.text == ANY} == HANDED_ON


def test_what_follows_from_a_hint_is_in_it():
    """If a hint names options or commands, one of them is in what follows, or is left out of it."""
    for case in CASES:
        named = {*NAMED.findall(case.hint)}
        before, after = ({*NAMED.findall(text)} for text in (f"{case.files} {case.command}", case.then))
        assert not named or named & (after | (before - after)) or "…" in case.then, case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_hint_works_when_followed(run, monkeypatch, case):
    for name, limit in (case.limits or {}).items():
        monkeypatch.setattr(f"bpmcli.{name}", limit)
    if "--plot" in case.then:
        pytest.importorskip("matplotlib")
    everyday()
    if callable(case.files):
        case.files()
    elif case.files:
        perform(run, monkeypatch, case.files)
    ran = perform(run, monkeypatch, case.command, code=None)
    assert ran.code in ((0,) if case.notice else (2, 3, 4)), ran
    hint = said(case, ran.err)
    assert hint, ran.err
    then = perform(run, monkeypatch, case.then.replace("…", command_in(hint)), code=None)
    assert then is None or then.code in DONE, then
    assert then is None or not said(case, then.err), then
