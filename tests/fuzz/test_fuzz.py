"""A fixed portion of the fuzzer, and every case that it has ever found."""

from __future__ import annotations

import os
import sys
from random import Random

import forked
import pytest
from fuzz import oracles, running
from fuzz.case import Case, Step, load_case
from fuzz.oracles import judge
from fuzz.preservation import differences
from fuzz.running import BLOCK, run_step
from fuzz.scenarios import SCENARIOS, drawn_scenario, make_case


def fuzz(*arguments: str) -> forked.Done:
    return forked.run(*arguments, module="fuzz", seconds=1800)


@pytest.mark.long
def test_a_portion_has_no_findings():
    """`make fuzz` runs more of them."""
    ran = fuzz("--seed", "1", "--cases", os.environ.get("FUZZ_CASES", "60"), "--jobs", "1")
    assert ran.code == 0, ran.out.decode() + ran.err


def test_kept_cases():
    ran = fuzz("--kept", "--jobs", "1")
    assert ran.code == 0, ran.out.decode() + ran.err


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_numbers_make_the_same_case(name):
    case = make_case(3, 0, name)
    assert case == make_case(3, 0, name)
    assert case.name == name


def test_every_scenario_comes_up():
    assert {drawn_scenario(Random(f"0:{index}")) for index in range(400)} == set(SCENARIOS)


def test_a_case_is_saved_and_loaded(tmp_path):
    case = Case(
        "x", [Step(["metrics", "a"], b"\xff"), Step([], None, True)], {"a": b"1\n", "b": b"\0\xff"}, True, "why", True
    )
    case.save(tmp_path / "x.json")
    assert load_case(tmp_path / "x.json") == case


def judged(case: Case, folder) -> set[str]:
    for name, content in case.files.items():
        (folder / name).write_bytes(content)
    return {finding.kind for step in case.steps for finding in judge(case, run_step(step, folder))}


def test_oracles_see_what_they_are_for(tmp_path, monkeypatch):
    """Each in turn is shown a command that does what it must not."""
    import bpmcli.cli

    # A gigabyte would take half a second to fill. What this process has taken already counts as well.
    running._reset_peak()
    monkeypatch.setattr(oracles, "MEGABYTES", running._peak() + 100)

    def tool(argv):
        what = argv[-1]
        if what == "crash":
            raise ValueError("x")
        if what == "warn":
            import warnings

            warnings.warn("x", RuntimeWarning, stacklevel=1)
        if what == "native":
            os.write(2, b"Traceback (most recent call last)\n")
        if what == "leave":
            (tmp_path / "o.csv.part").write_text("1")
        if what == "red":
            print("\x1b[31m", file=sys.stderr)
        if what == "nan":
            print("NaN")
        if what == "memory":
            bytearray(150 << 20)[-1:] = b"x"
        if what == "overwrite":
            (tmp_path / "in.csv").write_text("changed")
        return {"bug": 70, "gate": 1, "silent": 3}.get(what, 0)

    monkeypatch.setattr(bpmcli.cli, "main", tool)
    expected = {
        "fine": set(),
        "crash": {"exit 70", "noise on stderr"},
        "warn": {"noise on stderr"},
        "native": {"noise on stderr"},
        "leave": {"left behind"},
        "red": {"control characters on stderr"},
        "nan": {"bad json"},
        "memory": {"memory"},
        "bug": {"exit 70"},
        "gate": {"exit 1"},
        "silent": {"silent failure"},
        "overwrite": {"input changed"},
    }
    for what, kinds in expected.items():
        case = Case("x", [Step(["metrics", "in.csv", "-f", "json", what])], {"in.csv": b"1"})
        assert judged(case, tmp_path) == kinds, what
        (tmp_path / "o.csv.part").unlink(missing_ok=True)


ROWS = b"row,confidence,note\n1,0.5,a\n2,0.6,b\n"


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (b"row,confidence,note\n1,0.7,a\n2,0.8,b\n", ""),
        (b"row,confidence,note\n2,0.8,b\n1,0.7,a\n", "another order"),
        (b"row,confidence,note\n1,0.7,a\n1,0.7,a\n2,0.8,b\n", "twice"),
        (b"row,confidence,note\n1,0.7,a\n", "2 rows became 1"),
        (b"row,confidence\n1,0.7\n2,0.8\n", "'note' is gone"),
        (b"row,confidence,note\n1,0.7,b\n2,0.8,b\n", "'a' became 'b'"),
        (b"row,confidence,note\n1,0.7,a\n2,0.8\n", "cannot be read"),
    ],
)
def test_preservation_sees_what_was_lost(after, said):
    found = list(differences("a.csv", ROWS, "o.csv", after, skipping=False))
    assert bool(found) == bool(said)
    assert not said or said in found[0]


def test_a_step_may_read_text_in_small_blocks(tmp_path):
    """A line that does not fit into a block is refused, and the next step reads whole blocks again."""
    (tmp_path / "a.csv").write_text(f"confidence,hit,note\n0.5,1,{'x' * 5000}\n0.7,1,y\n")
    argv = ["metrics", "a.csv", "-m", "ece"]
    assert [run_step(Step(argv, environment=e), tmp_path).code for e in ({BLOCK: "700"}, {})] == [3, 0]
