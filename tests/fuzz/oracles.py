"""What must hold after any command, whatever it was given. Each finding is a kind and a sentence."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from fuzz.case import Case, Step
from fuzz.preservation import KEY, differences
from fuzz.running import Ran

MEGABYTES = 1024
SECONDS = 20
CODES = {0, 1, 2, 3, 4}
GATES = ("--fail-above", "--max-increase", "--gate")
NOISE = re.compile(
    r"Traceback|Warning:|internal error|this is a bug|\.py:\d+|\bat 0x[0-9a-f]{6,}|terminate called|Error in sys"
)
ORC_VERSION = re.compile(r"^Warning: ORC file .*\n", re.MULTILINE)
"""The ORC library itself writes this to the stream."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")


class Finding(NamedTuple):
    """Something that must not happen."""

    kind: str
    text: str

    @property
    def signature(self) -> str:
        """Findings with the same signature probably have the same cause."""
        return self.kind + ": " + re.sub(r"'[^']*'|\d+(\.\d+)?(e[+-]?\d+)?|0x[0-9a-f]+", "#", self.text)[:120]


def judge(case: Case, ran: Ran) -> Iterator[Finding]:
    """All findings of one command."""
    gated = any(a.startswith(GATES) for a in ran.argv) or (case.name == "configured" and "gate failed" in ran.err)
    if ran.code not in CODES or (ran.code == 1 and not gated):
        yield Finding(f"exit {ran.code}", _last(ran.err))
    # A fit reads only the columns it needs; apply carries all of them along, and may find a damaged one.
    refused = (" is damaged: ", "cannot be read as", ", which jsonl", "which would be rounded")
    known = any(text in ran.err for text in refused) and ran.argv[2:3] and ran.argv[2] in case.files
    if ran.must_succeed and ran.code != 0 and not known:
        yield Finding("own output refused", f"{ran.argv[0]}: {_last(ran.err)}")
    if found := NOISE.search(ORC_VERSION.sub("", ran.err)):
        yield Finding("noise on stderr", ran.err[max(0, found.start() - 100) : found.end() + 200].strip())
    if found := CONTROL.search(ran.err):
        yield Finding("control characters on stderr", repr(ran.err[max(0, found.start() - 60) : found.end() + 20]))
    if ran.seconds > SECONDS:
        yield Finding("slow", f"{ran.seconds:.0f} s")
    if ran.megabytes > MEGABYTES:
        yield Finding("memory", f"{ran.megabytes:.0f} MB")
    if ran.code in (2, 3, 4) and "error:" not in ran.err:
        yield Finding("silent failure", f"exit {ran.code} without a word: {ran.err[-200:]}")
    yield from _streams(ran)
    yield from _files(case, ran)
    if ran.argv[:1] == ["apply"] and ran.code == 0 and not case.damaged:
        yield from _kept(case, ran)


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line.lower()] or text.splitlines() or [""]
    return lines[-1][:300]


def _option(argv: list[str], *names: str) -> str | None:
    """The last value of an option."""
    found = None
    for name, value in zip(argv, argv[1:], strict=False):
        if name in names:
            found = value
    return found


def _streams(ran: Ran) -> Iterator[Finding]:
    """Standard output is what --format says."""
    if ran.code not in (0, 1) or not ran.out or ran.argv[0] in ("apply", "simulate") or "--help" in ran.argv:
        return
    text = ran.out.decode("utf-8", "surrogateescape")
    form = _option(ran.argv, "--format", "-f") or "table"
    if form == "json" or (ran.argv[0] == "fit" and not _option(ran.argv, "-o", "--output", "--output-dir")):
        try:
            json.loads(text, parse_constant=_refuse)
        except ValueError as error:
            if "list" not in ran.argv and "--list" not in ran.argv and "--explain-input" not in ran.argv:
                yield Finding("bad json", f"{error}: {text[:80]!r}")
    elif form == "csv":
        widths = {len(row) for row in csv.reader(io.StringIO(text)) if row}
        if len(widths) > 1 and "--explain-input" not in ran.argv:
            yield Finding("bad csv", f"lines of {sorted(widths)} fields")
    elif found := CONTROL.search(text):
        yield Finding("control characters on stdout", repr(text[max(0, found.start() - 60) : found.end() + 20]))


def _refuse(name: str) -> float:
    raise ValueError(f"holds {name}")


def _files(case: Case, ran: Ran) -> Iterator[Finding]:
    """No temporary files, no half outputs, no changed inputs; what was promised is there."""
    fresh = sorted(set(ran.after) - set(ran.before))
    changed = [name for name, content in ran.after.items() if ran.before.get(name, b"") != content]
    for name in fresh:
        if name.startswith("tmp/") or name.endswith(".part"):
            yield Finding("left behind", f"{name} after exit {ran.code}")
    target = _option(ran.argv, "-o", "--output")
    batch = _option(ran.argv, "--output-dir")
    if ran.code in (2, 3, 4) and batch is None and "--resume" not in ran.argv and ran.argv[0] != "compare":
        told = (_option(ran.argv, "--junit"), "summary.md")  # they are about failures, too
        left = [n for n in fresh if n not in told and not n.startswith("tmp/")]
        left = [n for n in left if not n.endswith((".part", ".png", ".svg", ".pdf"))]
        left = [n for n in left if b"<testsuite" not in ran.after[n]]  # --junit, set in a configuration
        if left:
            yield Finding("written in spite of failure", f"{left[0]} after exit {ran.code}: {_last(ran.err)}")
    for name, content in ran.before.items():
        given = name in case.files and name in ran.argv and name not in (target, _option(ran.argv, "--resume"))
        if given and name in ran.after and ran.after[name] != content:
            yield Finding("input changed", name)
    quick = {"--help", "-h", "--list", "--explain-input", "list"} & set(ran.argv)
    if ran.code == 0 and not quick and ran.argv[0] in ("apply", "fit", "summarize"):
        if target and "/" not in target and target != "-" and target not in ran.after:
            yield Finding("nothing written", f"-o {target}, exit 0")
        if batch and "://" not in batch and not (fresh or changed) and "up to date" not in ran.err and "-q" not in ran.argv and "--quiet" not in ran.argv:  # fmt: skip
            yield Finding("nothing written", f"--output-dir {batch}, exit 0: {ran.err[-100:]}")


def _kept(case: Case, ran: Ran) -> Iterator[Finding]:
    """Row preservation for one input and one output."""
    target = _option(ran.argv, "-o", "--output")
    inputs = [a for a in ran.argv[2:] if a in case.files and not a.endswith(".json") and a != target]
    scores = {_option(ran.argv, name) for name in COLUMNS[:4]}
    if len(inputs) != 1 or target is None or KEY in scores:
        return
    before, after = ran.before.get(inputs[0]), ran.after.get(target)
    if before is None or after is None:
        return
    # Without a suffix, the output has the format of the input, and is not packed.
    name = target if "." in target else inputs[0].removesuffix(".gz")
    for text in differences(inputs[0], before, name, after, "--skip-missing" in ran.argv, scores):
        yield Finding("not preserved", f"{_suffix(inputs[0])} to {_suffix(target)}: {text}")


def _suffix(name: str) -> str:
    _, point, suffix = name.rpartition("/")[2].partition(".")
    return point + suffix


def _again(name: str) -> str:
    """In the same format, which can hold the same values, or in one like it."""
    return "again" + INSTEAD.get(_suffix(name), _suffix(name))


INSTEAD = {".npy": ".npz", ".json": ".jsonl", ".safetensors": ".npz", ".h5": ".npz", ".hdf5": ".npz", ".orc": ".parquet", ".arrows": ".arrow"}  # fmt: skip
"""Formats that are read and never written, and one that holds the same values."""


COLUMNS = ("--logits", "--probs", "--confidence", "--log-odds", "--label", "--hit", "--prediction", "--weight")


def follow_up(case: Case, ran: Ran) -> Step | None:
    """A command that reads what this one wrote, and must succeed."""
    target = _option(ran.argv, "-o", "--output")
    readable = target is not None and not target.startswith("-") and "/" not in target and target in ran.after
    if ran.code != 0 or target is None or not readable or "list" in ran.argv:
        return None
    inputs = [a for a in ran.argv[1:] if a in case.files and not a.endswith(".json")]
    if ran.argv[0] == "summarize" and target.endswith((".parquet", ".pq")):
        by = _option(ran.argv, "--by")
        return Step(["metrics", target, "-q", "-m", "ece", *(["--by", by] if by else [])], None, True)
    if ran.argv[0] == "fit" and "were skipped" in ran.err:
        return None  # rows without a group, which only apply looks at, may be wrong in other ways
    if ran.argv[0] == "fit" and inputs and target != "-" and not case.damaged and "summary" not in case.name:
        kept = [x for i, a in enumerate(ran.argv[:-1]) if a in COLUMNS[:4] for x in (a, ran.argv[i + 1])]
        kept += ["--skip-missing"] if "--skip-missing" in ran.argv else []
        return Step(["apply", target, inputs[0], "-q", "-o", _again(inputs[0]), *kept], None, True)
    if (
        ran.argv[0] == "apply"
        and inputs
        and not set(COLUMNS) & set(ran.argv)
        and target != "-"
        and not target.startswith("again")
    ):
        kept = ["--multi-label"] if "--multi-label" in ran.argv else []
        return Step(["apply", ran.argv[1], target, "-q", "-o", _again(target), *kept], None, True)
    return None
