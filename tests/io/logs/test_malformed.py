"""Malformed variants of every log: they end in a sentence with the file, the sample and a fix, and never in a bug."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpmcli.errors import DataError
from bpmcli.io.readers import read_rows

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), 12)
HIT = (RNG.random(12) < 0.6).astype(int)
BAD: list[Any] = [None, True, 7, -1e300, "text", "", [], {}, [[]], [None], {"x": 1}, [1, "a"]]


def content(p: Any) -> tuple[str, list[Any]]:
    letter = "ABC"[int(p.argmax())]
    top = [{"token": t, "logprob": float(np.log(x))} for t, x in zip("ABC", p, strict=True)]
    return letter, [{"token": letter, "logprob": float(np.log(p.max())), "top_logprobs": top}]


def lm_entry(i: int) -> dict[str, Any]:
    target = int(P[i].argmax()) if HIT[i] else int(P[i].argmin())
    arguments = {f"gen_args_{k}": {"arg_0": "q", "arg_1": f" {'x' * (k + 1)}"} for k in range(3)}
    responses = [[str(float(np.log(x))), "False"] for x in P[i]]
    return {"doc_id": i, "target": str(target), "arguments": arguments, "filtered_resps": responses, "filter": "none",
            "metrics": ["acc", "acc_norm"], "acc": float(HIT[i]), "acc_norm": float(HIT[i])}  # fmt: skip


def inspect_entry(i: int) -> dict[str, Any]:
    letter, tokens = content(P[i])
    choice = {"message": {"content": letter}, "logprobs": {"content": tokens}}
    return {"id": i, "epoch": 1, "choices": ["x", "y", "z"], "scores": {"choice": {"value": "CI"[1 - HIT[i]], "answer": letter}},
            "output": {"choices": [choice], "completion": letter}}  # fmt: skip


def helm_entry(i: int) -> dict[str, Any]:
    values = {"exact_match": float(HIT[i]), "max_prob": float(P[i].max()), "logprob": float(np.log(P[i].max()))}
    stats = [{"name": {"name": name, "split": "test"}, "count": 1, "sum": value} for name, value in values.items()]
    return {"instance_id": f"id{i}", "train_trial_index": 0, "stats": stats}


def openai_entry(i: int) -> dict[str, Any]:
    letter, tokens = content(P[i])
    choice = {"message": {"content": letter}, "logprobs": {"content": tokens}}
    body = {"model": "gpt", "choices": [choice]}
    return {"custom_id": f"r{i}", "response": {"status_code": 200, "body": body}, "error": None}


def as_lines(entries: list[Any]) -> bytes:
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()


HEAD = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}}


def as_inspect_json(entries: list[Any]) -> bytes:
    return json.dumps({**HEAD, "samples": entries}).encode()


def as_inspect_archive(entries: list[Any]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(HEAD))
        for i, entry in enumerate(entries):
            archive.writestr(f"samples/{i}_epoch_1.json", json.dumps(entry))
    return packed.getvalue()


def as_list(entries: list[Any]) -> bytes:
    return json.dumps(entries).encode()


Pack = Callable[[list[Any]], bytes]
LOGS: dict[str, tuple[str, Callable[[int], dict[str, Any]], Pack]] = {
    "lm-eval": ("samples_toy_2026-01-02T03-04-05.678.jsonl", lm_entry, as_lines),
    "inspect json": ("log.json", inspect_entry, as_inspect_json),
    "inspect eval": ("log.eval", inspect_entry, as_inspect_archive),
    "helm": ("per_instance_stats.json", helm_entry, as_list),
    "openai": ("out.jsonl", openai_entry, as_lines),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def entries_of(kind: str) -> list[dict[str, Any]]:
    return [LOGS[kind][1](i) for i in range(12)]


def refused(path: str) -> DataError | None:
    """The error of a log; None if it can be read. Any other exception fails the test."""
    try:
        read_rows(path)
    except DataError as error:
        found = error
    else:
        return None
    assert found.message.startswith(path), found.message
    assert found.hint, found.message
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a document."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value[:2]):
            yield from places(inner, (*path, i))


def changed(entry: Any, path: tuple[Any, ...], value: Any, remove: bool = False) -> Any:
    fresh = copy.deepcopy(entry)
    inner = fresh
    for step in path[:-1]:
        inner = inner[step]
    if remove and isinstance(inner, dict):
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return fresh


@pytest.mark.parametrize("kind", LOGS)
def test_the_log_itself_is_read(kind):
    name, _, pack = LOGS[kind]
    Path(name).write_bytes(pack(entries_of(kind)))
    error = refused(name)
    # Batches of OpenAI hold no truth.
    assert error is None or (kind == "openai" and "no column" in error.message)


@pytest.mark.parametrize("kind", LOGS)
def test_wrong_types_and_missing_fields(kind):
    name, _, pack = LOGS[kind]
    entries = entries_of(kind)
    for path in list(places(entries[5])):
        for value in [*BAD, "REMOVED"]:
            broken = changed(entries[5], path, value, remove=value == "REMOVED")
            Path(name).write_bytes(pack([*entries[:5], broken, *entries[6:]]))
            error = refused(name)
            if error is not None and kind != "openai" and path[0] not in ("id", "doc_id", "instance_id"):
                where = ("sample 5", "sample id5", "5_epoch", "filters", "line 6")
                assert any(text in error.message for text in where), (path, value, error.message)


@pytest.mark.parametrize("kind", LOGS)
def test_logs_that_were_cut_off(kind):
    name, _, pack = LOGS[kind]
    whole = pack(entries_of(kind))
    for end in [*range(1, len(whole) - 1, max(1, len(whole) // 60)), len(whole) - 2]:
        Path(name).write_bytes(whole[:end])
        error = refused(name)
        # What ends between two lines is a shorter log.
        assert error is not None or whole[:end].rstrip().endswith(b"}"), end


@pytest.mark.parametrize("kind", LOGS)
def test_damaged_bytes(kind):
    name, _, pack = LOGS[kind]
    whole = bytearray(pack(entries_of(kind)))
    rng = np.random.default_rng(1)
    for _ in range(60):
        broken = whole.copy()
        for at in rng.integers(0, len(broken), 3):
            broken[at] = int(rng.integers(0, 256))
        Path(name).write_bytes(bytes(broken))
        refused(name)


@pytest.mark.parametrize("kind", LOGS)
def test_empty_logs(kind):
    name, _, pack = LOGS[kind]
    Path(name).write_bytes(pack([]))
    assert refused(name) is not None
    Path(name).write_bytes(b"")
    assert refused(name) is not None
    for entry in ({}, [], None, 3, "text"):
        Path(name).write_bytes(pack([entry]))
        refused(name)
        Path(name).write_bytes(pack([*entries_of(kind), entry]))
        refused(name)


def test_absurd_sizes():
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    for kind, (name, _, pack) in LOGS.items():
        entries = entries_of(kind)
        for extra in ({"deep": deep}, {"big": 10**30}, {"id": "x" * 10**6}, {"many": [[]] * 200_000}):
            Path(name).write_bytes(pack([*entries[:3], {**entries[3], **extra}]))
            refused(name)
        if kind == "inspect json":
            assert "nested" in str(refused_with(name, pack([{**entries[3], "deep": deep}])))


def refused_with(name: str, data: bytes) -> str:
    Path(name).write_bytes(data)
    error = refused(name)
    assert error is not None
    return error.message


def test_an_archive_that_unpacks_to_more_than_it_may():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("header.json", json.dumps(HEAD))
        archive.writestr("samples/1_epoch_1.json", b" " * (1 << 27))
    assert "samples/1_epoch_1.json" in refused_with("log.eval", packed.getvalue())


def test_mixed_tasks(run):
    """Lines of two tools in one file."""
    Path("a.jsonl").write_bytes(as_lines([lm_entry(0), openai_entry(1)]))
    assert "sample in line 2" in run("metrics", "a.jsonl", code=3).err
    Path("b.jsonl").write_bytes(
        as_lines([lm_entry(0), {"doc_id": 1, "filtered_resps": ["some text"], "filter": "none"}])
    )
    ran = run("metrics", "b.jsonl", "-m", "ece")
    assert (
        "1 of 2 samples has no confidence and was left out (1: generated text, no log-likelihood per choice)" in ran.err
    )


@pytest.mark.parametrize(
    ("kind", "strip", "said"),
    [
        ("lm-eval", lambda e: {**e, "filtered_resps": ["text"]}, "use a multiple_choice task"),
        ("inspect json", lambda e: {**e, "output": {"choices": [{"message": {"content": "A"}}]}}, "--logprobs --top-logprobs 10"),
        ("inspect eval", lambda e: {**e, "output": {"choices": [{"message": {"content": "A"}}]}}, "--logprobs --top-logprobs 10"),
        ("helm", lambda e: {**e, "stats": [s for s in e["stats"] if s["name"]["name"] != "max_prob"]}, "log-probabilities"),
        ("openai", lambda e: {**e, "response": {"status_code": 200, "body": {"choices": [{"message": {"content": "A"}}]}}}, '"logprobs": true'),
    ],
)  # fmt: skip
def test_a_log_without_confidences_says_what_to_log_next_time(run, kind, strip, said):
    name, _, pack = LOGS[kind]
    Path(name).write_bytes(pack([strip(entry) for entry in entries_of(kind)]))
    err = run("metrics", name, code=3).err
    assert f"{name}: none of its 12 samples has a confidence (12: " in err
    assert said in err.partition("hint: ")[2]
