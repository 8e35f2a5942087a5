"""Runs the blocks of README.md and docs/. As a script it rewrites the output shown where it is no longer what is printed:

python tests/doc_blocks.py [README.md docs/CI.md …]
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from glob import glob
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 300
"""Seconds for a command that takes two on an idle machine."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


class Step(NamedTuple):
    """A command, the output that the page shows for it, and where that output stands in the page."""

    command: str
    shown: str
    start: int
    end: int


def blocks(page: Path, language: str) -> list[str]:
    """The texts of all fenced blocks in this language."""
    found = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [str(text) for text in found]


def steps(page: Path) -> Iterator[Step]:
    """The steps of all console blocks, in order. A command that ends in a backslash goes on in the next line."""
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        for step in re.finditer(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", block[1], flags=re.MULTILINE):
            start = block.start(1)
            yield Step(step[1].rstrip("\n"), step[2], start + step.start(2), start + step.end(2))


def new_folder(path: Path) -> Path:
    """A directory in which the steps of one page run: later ones use the files of earlier ones."""
    (path / "sample_data").symlink_to(ROOT / "sample_data")
    return path


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command as a user would, with bpmcli on the PATH.

    A call of bpmcli or `python -c` that needs no shell runs in this process, which saves its start.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "200", "NO_COLOR": "1"}
    env = {name: value for name, value in env.items() if not name.startswith(("BPMCLI_", "GITHUB_"))}
    code = re.fullmatch(r'python -c "([^"$`\\!]+)"', command)
    if code is not None:
        return _in_this_process(lambda: _execute(code[1]), folder, env)
    call = _plain_call(command, folder)
    if call is not None:
        from bpmcli.cli import main

        return _in_this_process(lambda: main(call[1]), folder, {**env, **call[0]})
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(["bash", "-c", command], cwd=folder, env=env, text=True, timeout=PATIENCE, **streams)


def _plain_call(command: str, folder: Path) -> tuple[dict[str, str], list[str]] | None:
    """The variables and arguments of a call of bpmcli, with its globs expanded; None if a shell must look at it."""
    line = command.strip().replace("\\\n", " ")
    if re.search(r"[|<>;&$`~{}\n]", line):
        return None
    words, variables = shlex.split(line), {}
    while words and re.match(r"[A-Z_]+=", words[0]):
        name, _, variables[name] = words.pop(0).partition("=")
    if words[:1] != ["bpmcli"]:
        return None
    if not re.search(r"[*?]", line):
        return variables, words[1:]
    if re.search(r"[\"']", line):  # a quoted glob stays as it is
        return None
    return variables, [path for word in words[1:] for path in sorted(glob(word, root_dir=folder)) or [word]]


def python(block: str, folder: Path) -> str:
    """What a block of Python prints, which knows no names but its own. It runs in this process, too."""

    return _in_this_process(lambda: _execute(block), folder, dict(os.environ)).stdout


def _execute(code: str) -> int:
    exec(compile(code, "block", "exec"), {"__name__": "__main__"})
    return 0


def _in_this_process(call: Callable[[], int], folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    before, where = dict(os.environ), Path.cwd()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, open(os.devnull, encoding="utf-8") as nothing:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(env)
        stdin, sys.stdin = sys.stdin, nothing
        try:
            with redirect_stdout(out), redirect_stderr(out):
                code = call()
        finally:
            sys.stdin = stdin
            os.environ.clear()
            os.environ.update(before)
            os.chdir(where)
        out.flush()
        out.seek(0)
        return subprocess.CompletedProcess((), code, out.read())


def matches(shown: str, found: str) -> bool:
    """In a page … stands for any text; alone in a line it stands for any lines."""
    pattern = re.escape(shown.strip()).replace("…", ".*")
    return re.fullmatch(pattern, found.strip(), flags=re.DOTALL) is not None


def mismatches(page: Path, folder: Path) -> Iterator[tuple[Step, str]]:
    """The steps that print something other than what the page shows, with what they print.

    They run where a toml block of the page is bpmcli.toml.
    """
    status = 0
    for configuration in blocks(page, "toml"):
        (folder / "bpmcli.toml").write_text(configuration, encoding="utf-8")
    for step in steps(page):
        if step.command == "echo $?":
            found = f"{status}\n"
        else:
            done = shell(step.command, folder)
            found, status = done.stdout, done.returncode
        if not matches(step.shown, found):
            yield step, found


def refresh(page: Path) -> int:
    """Rewrites the outputs that changed; returns how many."""
    with tempfile.TemporaryDirectory() as folder:
        changed = list(mismatches(page, new_folder(Path(folder))))
    text = page.read_text(encoding="utf-8")
    for step, found in reversed(changed):
        # The last digits may differ between machines.
        lines = "".join(re.sub(r"(\d\.\d{6})\d{5,}", r"\1…", f"{line.rstrip()}\n") for line in found.splitlines())
        text = text[: step.start] + lines + text[step.end :]
    page.write_text(text, encoding="utf-8")
    return len(changed)


if __name__ == "__main__":
    for each in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        print(f"{each.name}: {refresh(each)} outputs rewritten")
