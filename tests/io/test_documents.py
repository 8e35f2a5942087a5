"""Every JSON document we read, damaged in every way: exit code 3 and the path of what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpmcli.errors import DataError
from bpmcli.io import documents
from bpmcli.io.document_kinds import CALIBRATOR, COUNT, METRICS, TEXT, Each, Maybe
from bpmcli.io.documents import check, load_document, parse

pytestmark = pytest.mark.usefixtures("unjudged")

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def files(run: Callable[..., Any]) -> Callable[..., Any]:
    rng = np.random.default_rng(0)
    s = rng.beta(2, 0.5, 600)
    np.savez("a.npz", confidence=s, hit=rng.random(600) < s)
    rows = zip(s, rng.random(600) < s, np.arange(600) % 2, strict=True)
    Path("g.csv").write_text("confidence,hit,g\n" + "".join(f"{c},{int(h)},{'ab'[k]}\n" for c, h, k in rows))
    run("fit", "a.npz", "-o", "p.json")
    run("fit", "g.csv", "--by", "g", "-o", "g.json")
    Path("base.json").write_text(run("metrics", "a.npz", "-m", "ece", "--format", "json").out)
    return run


def edited(path: str, edit: Callable[[Any], Any]) -> str:
    document = json.loads(Path(path).read_text())
    found = edit(document)
    Path("bad.json").write_text(json.dumps(document if found is None else found))
    return "bad.json"


def set_in(*path: Any) -> Callable[[Any], None]:
    *inner, last, value = path

    def edit(document: Any) -> None:
        for step in inner:
            document = document[step]
        document[last] = value

    return edit


@pytest.mark.parametrize(
    ("file", "edit", "said"),
    [
        ("p.json", set_in("parameters", "alpha", float("nan")), "parameters.alpha: must be a finite number, found nan"),
        ("p.json", set_in("parameters", "alpha", 10**400), "parameters.alpha: a whole number of 401 digits"),
        ("p.json", set_in("parameters", "alpha", "1"), "parameters: parameter alpha"),
        ("p.json", set_in("target", 3), "target: must be 'top-label' or 'event', found 3"),
        ("p.json", set_in("version", True), "version: must be a whole number, 1 or more, found true"),
        ("p.json", set_in("method", "\ud800"), "method: holds half of a surrogate pair"),
        ("p.json", set_in("x", {"a b": [1, float("inf")]}), 'x."a b"[1]: must be a finite number, found inf'),
        ("p.json", set_in("spread", {"temperature": 5e-324, "floor": 0.0}),
         "spread.temperature: must be a number from 1e-100 to 1e100, found 5e-324"),
        ("g.json", set_in("grouping", []), "grouping: must be an object, found a list of 0"),
        ("g.json", set_in("grouping", "groups", "a", "parameters", "beta", float("-inf")),
         "grouping.groups.a.parameters.beta: must be a finite number, found -inf"),
        ("g.json", set_in("grouping", "groups", "a", "parameters", "beta", "x"),
         "grouping: groups.a.parameters: "),
        ("g.json", set_in("grouping", "groups", "b", 5), "grouping.groups.b: must be an object, found 5"),
        ("g.json", set_in("grouping", "minimum", -1), "grouping.minimum: must be a whole number, 0 or more, found -1"),
    ],
)  # fmt: skip
def test_parameters_are_refused_by_path(files, file, edit, said):
    err = files("apply", edited(file, edit), "g.csv", "-o", "out.csv", code=3).err
    assert f"bad.json: {said}" in err
    assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (set_in("results", 0, "metrics", "ece", "value", 10**400), "results[0].metrics.ece.value: a whole number of"),
        (
            set_in("results", 0, "metrics", "ece", "value", "x"),
            'results[0].metrics.ece.value: must be a number, found "x"',
        ),
        (set_in("results", 0, "metrics", "ece", 4), "results[0].metrics.ece: must be an object, found 4"),
        (set_in("results", 0, "weighted", 0), "results[0].weighted: must be true or false, found 0"),
        (set_in("results", []), "results: must be a list with at least one entry, found a list of 0"),
        (set_in("results", 0, 7), "results[0]: must be an object, found 7"),
        (set_in("options", None), "options: must be an object, found null"),
        (lambda d: [d], "is not a bpmcli/metrics file"),
    ],
)
def test_a_baseline_is_refused_by_path(files, edit, said):
    bad = edited("base.json", edit)
    err = files("metrics", "a.npz", "--baseline", bad, "--max-increase", "ece=0.9", code=3).err
    assert f"bad.json: {said}" in err


def test_depth_is_a_sentence_everywhere(files):
    """Release 0.1.0: JSON nested 10⁵ deep in a resume file, a baseline or parameters."""
    Path("deep.json").write_text(DEEP)
    Path("inside.json").write_text('{"schema": "bpmcli/metrics", "version": 1, "options": ' + DEEP + "}")
    for arguments in (
        ["apply", "deep.json", "a.npz", "-o", "o.npz"],
        ["metrics", "a.npz", "--baseline", "deep.json", "--max-increase", "ece=0.9"],
        ["metrics", "a.npz", "--baseline", "inside.json", "--max-increase", "ece=0.9"],
        ["compare", "metrics", "--truth", "D1", "-n", 120, "--runs", 2, "--resume", "deep.json"],
        ["compare", "metrics", "--truth", "deep.json", "--runs", 1],
    ):
        assert "nested" in files(*arguments, code=3).err, arguments


def test_forty_levels_are_the_limit():
    assert parse("[" * 40 + "]" * 40, "") is not None
    with pytest.raises(DataError, match="nested more than 40"):
        parse("[" * 42 + "]" * 42, "")


def test_size_is_limited_before_anything_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LARGEST_FILE", 100)
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"schema": CALIBRATOR.schema, "padding": "x" * 100}))
    with pytest.raises(DataError, match="is larger than"):
        load_document(str(path), CALIBRATOR)
    monkeypatch.setattr(documents, "MOST_CONTAINERS", 10)
    with pytest.raises(DataError, match="more than 10 lists and objects"):
        parse("[" + "[]," * 10 + "1]", "")


def test_other_encodings_are_read_and_noise_is_refused(tmp_path):
    path = tmp_path / "p.json"
    good = {"schema": METRICS.schema, "version": 1, "options": {}, "results": []}
    path.write_text(json.dumps(good), encoding="utf-16")  # as a redirect in PowerShell writes it
    with pytest.raises(DataError, match="results: must be a list with at least one entry"):
        load_document(str(path), METRICS)
    for noise in (b"\xff\xfe\x00", b"\x80abc", b"9" * 5000):
        path.write_bytes(noise)
        with pytest.raises(DataError, match="is not"):
            load_document(str(path), METRICS)


def test_shapes_are_checked_as_described():
    shape = {"name": TEXT, "counts": Each(COUNT), "more": Maybe([COUNT])}
    check({"name": "a", "counts": {"x": 1}}, shape, "")
    check({"name": "a", "counts": {}, "more": None, "unknown": object()}, shape, "")
    for value, said in (
        ({"counts": {}}, "name: is missing"),
        ({"name": "a", "counts": {"x": True}}, r"counts\.x: must be a whole number"),
        ({"name": "a", "counts": {}, "more": [1, 1.5]}, r"more\[1\]: must be a whole number"),
        ({"name": "a", "counts": {}, "more": {}}, "more: must be a list"),
    ):
        with pytest.raises(DataError, match=said):
            check(value, shape, "")


def test_a_resume_file_that_was_changed_is_refused(run):
    """Release 0.1.0: edited values of a resume file."""
    arguments = [
        "compare",
        "metrics",
        "--truth",
        "D1",
        "-n",
        120,
        "--runs",
        3,
        "--metric",
        "ece",
        "--resume",
        "r.jsonl",
    ]
    run(*arguments)
    good = Path("r.jsonl").read_text()
    assert "3 of 3 data sets are done already" in run(*arguments).err
    first, *lines = good.splitlines()
    value = json.loads(lines[0])
    for odd in ("x", [], {}, {"ece": "x"}, {"ece": 10**400}, {"ece": [1]}, {"other": 1.0}, None, 5):
        changed = [first, json.dumps({**value, "values": odd}), *lines[1:]]
        Path("r.jsonl").write_text("\n".join(changed) + "\n")
        assert "was changed since it was written" in run(*arguments, code=3).err, odd
    Path("r.jsonl").write_text("\n".join([first, *lines[:-1]]) + "\n")
    assert "or is incomplete" in run(*arguments, code=3).err
    header = json.loads(first)
    for name in ("schema", "version", "setting", "content"):
        Path("r.jsonl").write_text("\n".join([json.dumps({**header, name: []}), *lines]) + "\n")
        run(*arguments, code=3)
