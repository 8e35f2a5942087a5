"""Mutation testing: changes one operator, number or condition of a module at a time, and runs the tests mapped to it.

    python benchmarks/mutants.py                          every module below, 60 mutants each
    python benchmarks/mutants.py core/curves/tce.py       one module
    python benchmarks/mutants.py core/curves/tce.py --all --show

A mutant that no test notices shows a line that no test looks at, unless the change cannot be noticed; those are listed
with the reason in benchmarks/mutants_equivalent.txt and are not counted. A development tool: it takes minutes.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.txt")

TESTS = {
    "core/data/binning.py": ["tests/core/data", "tests/core/metrics/test_metrics.py", "-k", "not tce and not smece"],
    "core/metrics/definitions.py": ["tests/core/metrics/test_metrics.py"],
    "core/curves/tce.py": ["tests/core/curves/test_tce.py", "tests/core/metrics/test_metrics.py"],
    "core/curves/bpm.py": ["tests/core/curves/test_bpm.py", "tests/core/curves/test_priors.py"],
    "cli/ci_gate.py": ["tests/cli/test_commands.py", "-k", "gate or baseline or fail_above or increase"],
    "io/formats/npz_file.py": ["tests/io/test_numpy_files.py", "tests/io/test_readers.py"],
    "io/formats/csv_file.py": ["tests/io/test_text_files.py", "tests/io/test_readers.py"],
}
"""The tests that should notice a change of the module."""

SECONDS = 600
"""A mutant that makes the tests take longer is noticed."""

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
WORDS = {"left": "right", "right": "left"}
CALLS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any",
         "floor": "ceil", "ceil": "floor", "argmin": "argmax", "argmax": "argmin"}  # fmt: skip


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Every way to change one node, with a name for it."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        new = copy.deepcopy(node)
        new.ops[0] = COMPARISONS[type(node.ops[0])]()
        yield "comparison", new
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield "operator", ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield "and/or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp):
        yield "sign", node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield "constant", ast.Constant(node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + 0.1)
    elif isinstance(node, ast.Constant) and node.value in WORDS:
        yield "side", ast.Constant(WORDS[node.value])
    elif isinstance(node, (ast.Name, ast.Attribute)):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in CALLS:
            new = copy.deepcopy(node)
            setattr(new, "id" if isinstance(node, ast.Name) else "attr", CALLS[name])
            yield "call", new
    elif isinstance(node, ast.IfExp):
        yield "always", node.body
        yield "never", node.orelse
    elif isinstance(node, ast.If):
        for value in (True, False):
            new = copy.deepcopy(node)
            new.test = ast.Constant(value)
            yield f"if {value}", new


def skipped(tree: ast.AST) -> set[int]:
    """Annotations, docstrings, sentences of errors and defaults of option lists: no arithmetic."""
    out: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]
            parts = [node.returns, *(a.annotation for a in arguments), *node.decorator_list]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif (
            isinstance(node, ast.JoinedStr)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            or (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
        ):
            parts = [node]
        for part in parts:
            out.update(id(child) for child in ast.walk(part)) if part is not None else None
    return out


class Mutant:
    """One change at one place."""

    def __init__(self, source: str, node: ast.AST, kind: str, replacement: ast.AST) -> None:
        self.line, self.kind = getattr(node, "lineno", 0), kind
        self.before = source.splitlines()[self.line - 1].strip()
        self.text = f"{ast.unparse(_headless(node))} -> {ast.unparse(_headless(replacement))}"
        self.key = f"{self.before} | {self.text}"


def _headless(node: ast.AST) -> ast.AST:
    return node.test if isinstance(node, ast.If) else node


def mutants(source: str) -> list[tuple[Mutant, str]]:
    """Every mutant of a module with its source."""
    tree = ast.parse(source)
    never, found = skipped(tree), []
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            for i, node in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(node, ast.AST) or id(node) in never:
                    continue
                for kind, new in changes(node):
                    ast.copy_location(new, node)
                    _put(parent, name, i, new)
                    text = ast.unparse(ast.fix_missing_locations(tree))
                    _put(parent, name, i, node)
                    found.append((Mutant(source, node, kind, new), text))
    return found


def _put(parent: ast.AST, name: str, i: int, node: ast.AST) -> None:
    value = getattr(parent, name)
    if isinstance(value, list):
        value[i] = node
    else:
        setattr(parent, name, node)


class Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the mutated source when the module is imported."""

    def __init__(self, module: str, path: Path, source: str) -> None:
        self.module, self.path, self.source = module, path, source

    def find_spec(self, name: str, path: object, target: object = None) -> object:
        return importlib.util.spec_from_loader(name, self, origin=str(self.path)) if name == self.module else None

    def exec_module(self, module: object) -> None:
        module.__file__ = str(self.path)  # type: ignore[attr-defined]
        exec(compile(self.source, str(self.path), "exec"), module.__dict__)


def tests_pass(module: str, path: Path, source: str, tests: list[str]) -> bool:
    """In a child: the module is replaced, the tests run until the first fails. A child that hangs has failed."""
    child = os.fork()
    if not child:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.meta_path.insert(0, Instead(module, path, source))
        try:
            import pytest

            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
        except BaseException:
            code = 1
        os._exit(code)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def known_equivalent() -> dict[str, str]:
    """Changes that nobody can notice, with the reason: `line | change | reason`."""
    found = {}
    for line in EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []:
        if line and not line.startswith("#"):
            key, _, reason = line.rpartition(" | ")
            found[key] = reason
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=list(TESTS))
    parser.add_argument("--sample", type=int, default=60, help="mutants per module")
    parser.add_argument("--all", action="store_true", help="every mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="list the mutants and stop")
    given = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    import numpy  # noqa: F401  (imported once, before the children are forked)
    import pyarrow  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize
    import scipy.special
    import scipy.stats  # noqa: F401

    equivalent = known_equivalent()
    for name in given.modules:
        path = ROOT / "bpmcli" / name
        if not path.exists():
            print(f"{name}: no such file")
            continue
        every = mutants(path.read_text())
        sample = every if given.all else random.Random(given.seed).sample(every, min(given.sample, len(every)))
        module = "bpmcli." + name.removesuffix(".py").replace("/", ".")
        tests = [t for t in TESTS[name] if not t.startswith("tests") or (ROOT / t).exists()]
        if given.show:
            print(*(f"{m.line}: {m.key}" for m, _ in sample), sep="\n")
            continue
        assert tests_pass(module, path, path.read_text(), tests), f"{tests} fail without any change"
        killed, same, alive = 0, 0, []
        for mutant, source in sample:
            if mutant.key in equivalent:
                same += 1
            elif tests_pass(module, path, source, tests):
                alive.append(mutant)
                print(f"  survives, line {mutant.line}: {mutant.key}", flush=True)
            else:
                killed += 1
        share = killed / max(1, killed + len(alive))
        counted = f"{killed} of {killed + len(alive)} killed ({share:.0%}); {same} equivalent"
        print(f"{name}: {counted}; {len(sample)} of {len(every)} tried", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
